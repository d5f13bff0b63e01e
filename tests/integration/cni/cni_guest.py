# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest on which Debian's own CNI plugins attach pods to the rails. Network namespaces represent pods.

Pods have eth0 by a bridge as in a cluster, and net1 to net8 on the rails. On node-2 a namespace represents the leaves
that route between rails. The plan: ``inventories/lab-cni``.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from tests.integration.conftest import ROOT, Node

Conf = t.Dict[str, t.Any]
RUNTIME = "/opt/railyard-test/cni_runtime.py"
BIN, NETS = "/opt/cni/bin", "/etc/cni/multus/net.d"
RAILS = range(1, 9)
NAMES = ("node-1", "node-2")
MTU = 4200
SETUP = """
modprobe -a macvlan ipvlan
[ -e /sys/class/infiniband/cni1 ] || rdma link add cni1 type rxe netdev enp1s0
for wait in $(seq 300); do
  [ "$(cat /sys/class/net/enp[1-8]s0/carrier | sort -u)" = 1 ] && break
  sleep 1
done
"""
# The leaf of each rail has the rail's gateway, and routes between rails.
LEAF = """
ip netns add leaf
ip netns exec leaf sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
for n in 1 2 3 4 5 6 7 8; do
  ip link add leaf$n link enp${n}s0 netns leaf type macvlan mode bridge
  ip -n leaf address add 172.16.$((10 + n)).254/24 dev leaf$n
  ip -n leaf link set leaf$n mtu %d up
done
"""
CLEAN = """
for pod in $(ip netns list | awk '{print $1}'); do ip netns del $pod; done
ip link del cbr0
rdma link delete cni1
echo 0 > /sys/bus/pci/devices/0000:05:00.0/sriov_numvfs
rm -rf /opt/railyard-test /run/railyard/cni /run/cni-runtime /var/lib/cni/networks/cbr0
true
"""


def planned() -> dict[str, tuple[list[Conf], list[Conf]]]:
    """Return node -> its networks in rail order, and the options of ``rail_ports`` for its ports."""
    plan = lint((ROOT / "inventories/lab-cni/fabric.yml").read_bytes()).plan
    assert plan
    variables = [plan.node_vars(each) for each in plan.nodes]
    return {
        each["name"]: (plain_cni.of_node(plan.fabric_vars(), each), port_options(each["ports"], "rail_ports"))
        for each in variables
    }


def cluster_network(number: int) -> Conf:
    """Return the network that gives pods eth0 and their default route."""
    ipam = {"type": "host-local", "subnet": "10.244.%d.0/24" % number, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cbr0", "isGateway": True, "ipam": ipam}
    return {"cniVersion": "1.0.0", "name": "cbr0", "plugins": [bridge]}


class Guest:
    """One node with its networks, and the runtime that creates pods on it."""

    def __init__(self, node: Node, networks: list[Conf], ports: list[Conf]) -> None:
        self.node = node
        self.networks = networks
        self.ports = ports
        self.number = int(node.name[-1])
        self.attached = [(cluster_network(self.number), "eth0")]
        self.attached += [(conf, "net%d" % rail) for rail, conf in zip(RAILS, networks)]

    def prepare(self) -> None:
        self.node.run(CLEAN, check=False)
        self.node.put(RUNTIME, (ROOT / "tests/cni_runtime.py").read_text())
        self.node.module("rail_ports", ports=self.ports)
        self.node.run(SETUP)
        if self.number == 2:
            self.node.run(LEAF % MTU)

    def lay(self, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        given = {"networks": self.networks, "source": ["/usr/lib/cni"]}
        return self.node.module("cni_networks", check=check, **dict(given, **options))

    def do(self, *commands: t.Any, timeout: float = 300) -> list[t.Any]:
        """Return the runtime's results. Each command has the name of a method of the runtime, and its arguments."""
        lines = [json.dumps(_command(each)) for each in commands]
        self.node.put("/run/cni-commands", "\n".join(lines) + "\n")
        output = self.node.run("python3 %s %s:/usr/lib/cni < /run/cni-commands" % (RUNTIME, BIN), timeout=timeout)
        return [json.loads(line) for line in output.splitlines()]

    def well(self, *commands: t.Any, timeout: float = 300) -> list[t.Any]:
        """Run commands as :meth:`do` does. All must succeed."""
        answers = self.do(*commands, timeout=timeout)
        assert all(set(each) == {"result"} or each == {"wrong": []} for each in answers), answers
        return [each.get("result") for each in answers]

    def left(self) -> dict[str, t.Any]:
        """Return what pods can leave on the node."""
        script = """
ip -j link | tr -d '\\n'; echo
ip netns list | awk '{print $1}' | sort | tr '\\n' ' '; echo
(ip rule; ip -6 rule) | wc -l
find /run/railyard/cni /var/lib/cni/networks -type f -name '*[0-9].*[0-9]' 2>/dev/null | sort | tr '\\n' ' '; echo
ls /run/cni-runtime 2>/dev/null | tr '\\n' ' '; echo
ip -4 route show table all type unicast | grep -vc cbr0
cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null || echo 0
"""
        lines = self.node.run(script).splitlines()
        links = {each["ifname"] for each in json.loads(lines[0])} - {"cbr0"}
        keys = ("netns", "rules", "leases", "kept", "routes", "tracked")
        return dict(zip(keys, (line.strip() for line in lines[1:])), links=sorted(links))

    def inside(self, pod: str, command: str, check: bool = True, timeout: float = 120) -> str:
        return self.node.run("ip netns exec %s sh -c '%s'" % (pod, command), check=check, timeout=timeout)


def _command(command: t.Any) -> Conf:
    if isinstance(command, dict):
        return command
    return {"do": command[0], "with": list(command[1:])}


def at_once(*commands: t.Any) -> Conf:
    return {"together": [_command(each) for each in commands]}


def address(pod: int, rail: int, node: int) -> str:
    """Return the address of a pod on a rail. ``pod``: its number on the node, whose block has 32 addresses."""
    return "172.16.%d.%d" % (10 + rail, (node - 1) * 32 + pod)
