# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify's layers of pods and NCCL on both guests, over pods that Debian's own CNI plugins attach to eight rails.

A pod is a network namespace with a process in a cgroup of the kubelet's name. The answer of an API server is
given; all else is read by the modules on the guests. ``inventories/lab-cni`` is the plan.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY, NodeReport
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_targets import pod_node
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import Asked, judge
from tests.cni_runtime import together
from tests.integration import probing
from tests.integration.cni.cni_guest import MTU, NAMES, RAILS, Guest, address
from tests.integration.conftest import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.long]

Row = t.Dict[str, t.Any]
UIDS = {"node-1": "0f7c1d6a-3c55-4a8c-9d2e-5b1f0a7e6c3d", "node-2": "11111111-2222-3333-4444-555555555555"}
GROUP = (
    "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod%s.slice/cri-containerd-c0.scope"
)
# the shell goes into the cgroup before the namespace, which has no cgroups to be seen
START = """
mkdir -p %(group)s
nohup sh -c 'echo $$ > %(group)s/cgroup.procs; exec ip netns exec pod env -i TOKEN=hush %(environment)s sleep 3600' \
  >/dev/null 2>&1 </dev/null &
for wait in $(seq 600); do
  pid=$(cat %(group)s/cgroup.procs)
  [ -n "$pid" ] && [ "$(cat /proc/$pid/comm)" = sleep ] && exit 0
  sleep 0.2
done
exit 1
"""
STOP = """
for pid in $(cat %(group)s/cgroup.procs 2>/dev/null); do kill $pid; done
while grep -q . %(group)s/cgroup.procs; do sleep 0.2; done 2>/dev/null
rmdir -p %(group)s 2>/dev/null
for n in 2 3 4 5 6 7 8; do rdma link delete pod$n; done
rm -f /etc/nccl.conf
true
"""


class Site:
    """The guests with a pod each, the plan, and what the layers find."""

    def __init__(self, pair: list[Guest]) -> None:
        self.guests = {guest.node.name: guest for guest in pair}
        made = lint((ROOT / "inventories/lab-cni/fabric.yml").read_bytes()).plan
        assert made
        self.document = made.document()
        self.plans: dict[str, Row] = {node["name"]: node for node in self.document["nodes"]}
        self.view = View(self.document)
        self.pods: list[Row] = [
            {
                **{"name": "rails-%s" % name, "namespace": "default", "uid": UIDS[name], "node": name, "wanted": name},
                **{"phase": "Running", "running": True, "leaving": False, "why": "", "networks": []},
            }
            for name in NAMES
        ]

    def start(self, guest: Guest) -> None:
        name = guest.node.name
        # Without its state, host-local starts again with the node's first addresses.
        guest.node.run("rm -rf /run/railyard/cni")
        # cni1 is there; each rail's device has the addresses of the interfaces on its port as well
        for rail in (each for each in RAILS if each > 1):
            guest.node.run("rdma link add pod%d type rxe netdev enp%ds0" % (rail, rail))
        guest.well(("up", "pod", guest.attached))
        (settings,) = test_workload.settings(self.view, Options.of(None), test_workload.names(self.view))
        # a pod sees the file of its ConfigMap there, and its namespace here the node's
        guest.node.put("/etc/nccl.conf", nccl_objects.text(settings["nccl"]))
        environment = " ".join("%s=%s" % each for each in settings["ucx"].items())
        group = GROUP % UIDS[name].replace("-", "_")
        guest.node.run(START % {"group": group, "environment": environment}, timeout=300)

    def stop(self, guest: Guest) -> None:
        guest.node.run(STOP % {"group": GROUP % UIDS[guest.node.name].replace("-", "_")}, check=False)
        guest.well(("down", "pod", guest.attached))

    def inside(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        files = ["/etc/nccl.conf"]
        jobs = [
            lambda name=name: found.update(
                {name: self.guests[name].node.module("rail_pods", pods=[UIDS[name]], files=files)}
            )
            for name in NAMES
        ]
        assert together(jobs) == []
        return found

    def failures(self, traffic: bool = False) -> list[t.Any]:
        inside = self.inside()
        server, client = NAMES
        probed: list[Row] = []
        if traffic:
            fabric = self.document["fabric"]
            pods = {name: pod_node(self.plans[name], fabric, inside[name]["pods"][0]) for name in NAMES}
            starts = probing.schedules(pods, [[server, client]], True)
            for name in NAMES:
                probing.call(self.guests[name].node, starts[name])
            found = {name: probing.call(self.guests[name].node, probing.collection(name)) for name in NAMES}
            probed = found[client]["pod_results"]
            assert [row["pod_refused"] for row in found.values()] == ["", ""]
            assert len(probed) == len(inside[client]["pods"][0]["links"]) - 1
        reports = [
            NodeReport(name, plan, {"system": {}}, {}, inside=inside[name], pod_probed=probed if name == client else ())
            for name, plan in self.plans.items()
        ]
        settings = test_workload.settings(self.view, Options.of(None), test_workload.names(self.view))
        known = {"there": True, "nodes": list(NAMES), "remedy": "", "pods": self.pods, "settings": settings}
        seen = {"server": "it", "error": "", "missing": [], "changes": [], "pods": known}
        asked = Asked(list(self.plans), ["pods", "nccl"])
        verdict = judge(VERIFY, self.document["fabric"], reports, asked, (), seen, [list(NAMES)])
        return verdict.run.failures


@pytest.fixture(scope="module")
def site(ready: list[Guest]) -> t.Iterator[Site]:
    made = Site(ready)
    assert together([lambda each=each: made.start(each) for each in ready]) == []
    yield made
    assert together([lambda each=each: made.stop(each) for each in ready]) == []


def test_pods_have_their_rails_as_planned(site: Site) -> None:
    inside = site.inside()
    for number, name in enumerate(NAMES, 1):
        (row,) = inside[name]["pods"]
        assert (inside[name]["rdma_mode"], row["why"], row["processes"]) == ("shared", "", 1)
        assert [each["netdev"] for each in row["links"]] == ["eth0", *("net%d" % rail for rail in RAILS)]
        held = {each["netdev"]: each["address"] for each in row["addresses"]}
        assert all(held["net%d" % rail] == "%s/24" % address(1, rail, number) for rail in RAILS)
        assert {each["table"] for each in row["rules"]} >= {100 + rail for rail in RAILS}
        assert {each["address"] for each in row["gids"]} == {address(1, rail, number) for rail in RAILS}
        assert set(row["settings"]["environment"]) == {"UCX_NET_DEVICES"} and "hush" not in str(inside[name])
    assert [each.line() for each in site.failures(traffic=True)] == []


HARMS = [
    ("ip rule del priority 10003", "ip rule add priority 10003 from %(3)s lookup 103", "RV924", 3),
    ("ip route del default table 104", "ip route add default via 172.16.14.254 dev net4 table 104", "RV924", 4),
    ("ip link set net5 mtu 1500", "ip link set net5 mtu %d" % MTU, "RV921", 5),
    ("ip link set net7 name was7", "ip link set was7 name net7; ip link set net7 up", "RV920", 7),
    ("ip address del %(2)s/24 dev net2", "ip address add %(2)s/24 dev net2", "RV922", 2),
]


@pytest.mark.parametrize(("harm", "back", "code", "rail"), HARMS, ids=[row[2] + row[0][2:9] for row in HARMS])
def test_a_fault_in_a_pod_has_its_node_and_rail(site: Site, harm: str, back: str, code: str, rail: int) -> None:
    guest = site.guests["node-1"]
    addresses = {str(each): address(1, each, 1) for each in RAILS}
    guest.inside("pod", "ip link set net7 down; " * (rail == 7) + harm % addresses)
    try:
        failures = site.failures()
        assert [(each.code, each.node, each.rail) for each in failures] == [(code, "node-1", "gpu%02d" % rail)], [
            each.line() for each in failures
        ]
    finally:
        guest.inside("pod", back % addresses)
        # routes go with the address and with the link
        table, net = 100 + rail, "net%d" % rail
        whole = "172.16.%d.0/24" % (10 + rail)
        guest.inside("pod", "ip route replace %s dev %s table %d" % (whole, net, table))
        guest.inside("pod", "ip route replace default via 172.16.%d.254 dev %s table %d" % (10 + rail, net, table))
    assert [each.line() for each in site.failures()] == []


def test_a_filter_between_pods_is_a_failure_of_pods_not_of_nodes(site: Site) -> None:
    """One pod drops what it sends to the other on a rail: both are as planned, and do not hear each other."""
    guest = site.guests["node-2"]
    guest.inside("pod", "ip route add blackhole %s/32 table 106" % address(1, 6, 1))
    try:
        (failure,) = site.failures(traffic=True)
        assert (failure.code, failure.rail) == ("RV930", "gpu06") and {failure.node, failure.peer} == set(NAMES)
    finally:
        guest.inside("pod", "ip route del blackhole %s/32 table 106" % address(1, 6, 1))


def test_a_fixed_gid_index_is_reported_with_the_right_one(site: Site) -> None:
    node = site.guests["node-1"].node
    kept = node.run("cat /etc/nccl.conf")
    node.put("/etc/nccl.conf", kept + "NCCL_IB_GID_INDEX=0\n")
    try:
        (failure,) = site.failures()
        assert (failure.code, failure.node, failure.rail) == ("RV952", "node-1", "gpu01")
        assert "none" in str(failure.expected) and address(1, 1, 1) in str(failure.found)
    finally:
        node.put("/etc/nccl.conf", kept)


def test_a_pod_that_ended_during_the_read_is_not_a_traceback(site: Site) -> None:
    name = "node-1"
    found = site.guests[name].node.module("rail_pods", pods=["99999999-0000-0000-0000-000000000000", UIDS[name]])
    assert [each["why"] for each in found["pods"]] == ["no process of it runs here", ""]
