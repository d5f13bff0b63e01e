# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real harm to real nodes and cables: verify names rail, node and cause of each, and drift what is state.

Two nodes with four rails, SR-IOV and soft RDMA. Harms of different rails are done at once, as many as there are rails,
and each must still be one failure. They are fixed by what ``hosts.yml`` does, where verify names it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, VERIFY
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.integration.faults import GUESTS, Faults, cable
from tests.playbook import Played

pytestmark = pytest.mark.lab

TAG = "before-faults"
FABRIC = """
plugin: railyard.fabric.rails
fabric:
  name: faults
  attachment: sriov
  provider: spiderpool
  mtu: 4200
  vfs: {count: 1, trust: true}
  routing: {cross_rail: false} # nothing routes between the lab's leaves
rails:
  {count: 4, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253}
nodes:
  node-[1:2]: {profile: guest, unit: su1}
"""
FABRIC += GUESTS


class Fault(t.NamedTuple):
    """One harm.

    :param harm: a shell command on ``node``, or words for ``lab cable``.
    :param fix: what reverts it, where no playbook does.
    :param drifts: whether it is state.
    :param either: the node may be the other one: of two nodes it is unknown.
    :param found: what the failure's ``found`` or ``cause`` must say.
    :param alone: it harms more than its rail, or takes longer to be seen.
    """

    name: str
    code: str
    node: str
    rail: str | None
    harm: str | list[list[str]]
    fix: str | list[list[str]] = ""
    drifts: bool = True
    either: bool = False
    found: str = ""
    alone: bool = False

    @property
    def heard(self) -> bool:
        """Whether a leaf speaks of it."""
        return isinstance(self.harm, list) and any(words[0] == "lldp" for words in self.harm)


ONE, TWO = "node-1", "node-2"
PROC = "/proc/sys/net/ipv4/conf"
PCI = "/sys/bus/pci/devices"
ADDRESS = "172.16.13.20"
STRANGER = (
    "ip netns add stranger; ip link add stray link enp3s0 netns stranger type macvlan mode bridge;"
    " ip -n stranger link set stray up; ip -n stranger addr add %s1/24 dev stray"
)

# igb closes and opens a port whose MTU or number of VFs changes. It has no carrier until the link is negotiated.
LINKED = "linked() { until grep -q 1 /sys/class/net/$1/carrier; do sleep 0.2; done; }; linked"
AGAIN = (
    "udevadm settle; for w in $(seq 1000); do systemctl list-units --no-legend --state=activating 'railyard-again@*'"
    " | grep -q . || break; sleep 0.3; done"
)

FAULTS = [
    # -- NICs, drivers, VFs
    Fault(
        "PCI function gone",
        "RV201",
        ONE,
        "gpu04",
        "echo 1 > %s/0000:04:00.0/remove" % PCI,
        "echo 1 > /sys/bus/pci/rescan",
    ),
    Fault(
        *("driver unbound", "RV202", TWO, "gpu04", "echo 0000:04:00.0 > /sys/bus/pci/drivers/igb/unbind"),
        fix="echo 0000:04:00.0 > /sys/bus/pci/drivers/igb/bind",
    ),
    Fault(
        *("netdev in a namespace", "RV203", ONE, "gpu04", "ip netns add thief; ip link set enp4s0 netns thief"),
        fix="ip netns del thief; until [ -e /sys/class/net/enp4s0 ]; do sleep 0.2; done",
    ),
    Fault(
        *("netdev renamed", "RV204", TWO, "gpu04", "ip link set enp4s0 down; ip link set enp4s0 name stray0 up"),
        # with VFs it keeps its name until the next boot; udev may have noted the name it should have beside it
        fix="ip link property del dev stray0 altname enp4s0;"
        " ip link set stray0 down; ip link set stray0 name enp4s0 up",
        found="stray0",
    ),
    Fault(
        *("VF gone", "RV205", ONE, "gpu02"),
        harm="echo 0 > %s/0000:02:00.0/sriov_numvfs; %s enp2s0" % (PCI, LINKED),
        found="0",
    ),
    Fault("VF's trust", "RV206", TWO, "gpu02", "ip link set enp2s0 vf 0 trust off", found="no"),
    Fault(
        "VF's MAC", "RV206", ONE, "gpu01", "ip link set enp1s0 vf 0 mac 02:00:00:00:00:77", found="02:00:00:00:00:77"
    ),
    # -- RDMA mode
    Fault("rdma mode", "RV301", TWO, None, "rdma system set netns shared", found="shared"),
    # -- links and RDMA devices
    Fault("link set down", "RV401", ONE, "gpu02", "ip link set enp2s0 down"),
    Fault("cable cut", "RV402", TWO, "gpu02", [["cut", "node-2:2"]], [["repair", "node-2:2"]], drifts=False),
    Fault(
        *("MTU on one side", "RV404", ONE, "gpu01"),
        harm="ip link set enp1s0 mtu 1500; %s enp1s0" % LINKED,
        found="1500",
    ),
    Fault("rxe link gone", "RV405", TWO, "gpu03", "rdma link delete rxe_gpu03"),
    Fault("RDMA device renamed", "RV406", ONE, "gpu03", "rdma dev set rxe_gpu03 name stray0"),
    # -- addresses
    Fault("address gone", "RV501", TWO, "gpu01", "ip addr del 172.16.11.202/24 dev enp1s0"),
    Fault(
        *("address with another prefix", "RV502", ONE, "gpu01"),
        harm="ip addr del 172.16.11.201/24 dev enp1s0; ip addr add 172.16.11.201/25 dev enp1s0",
        found="172.16.11.201/25",
    ),
    Fault("subnet's route gone", "RV504", ONE, "gpu03", "ip route del 172.16.13.0/24 table 103"),
    Fault(
        *("route by a stranger", "RV504", TWO, "gpu02"),
        harm="ip route replace 172.16.12.0/24 via 172.16.12.253 dev enp2s0 table 102",
        found="via 172.16.12.253",
    ),
    Fault("rule gone", "RV505", ONE, "gpu02", "ip rule del pref 10002 from 172.16.12.201"),
    Fault("both rules gone", "RV505", TWO, "gpu04", "ip rule del pref 10004; ip rule del pref 10004"),
    Fault("rp_filter strict", "RV506", ONE, "gpu03", "echo 1 > %s/enp3s0/rp_filter" % PROC, found="1"),
    Fault("arp_ignore", "RV506", TWO, "gpu03", "echo 0 > %s/enp3s0/arp_ignore" % PROC),
    Fault("arp_announce", "RV506", ONE, "gpu04", "echo 0 > %s/enp4s0/arp_announce" % PROC),
    Fault(
        *("default route in main", "RV507", TWO, "gpu01"),
        harm="ip route add default via 172.16.11.254 dev enp1s0 metric 9000",
        fix="ip route del default via 172.16.11.254 dev enp1s0",
    ),
    Fault(
        *("route to another rail", "RV508", ONE, "gpu01", "ip route add 172.16.12.128/25 dev enp1s0"),
        fix="ip route del 172.16.12.128/25 dev enp1s0",
        alone=True,
    ),
    Fault(
        *("route in another rail's table", "RV508", TWO, "gpu02", "ip route add 10.9.0.0/16 dev enp2s0 table 101"),
        fix="ip route del 10.9.0.0/16 table 101",
    ),
    Fault(
        *("address of the other node", "RV510", TWO, "gpu03", "ip addr add %s1/24 dev enp3s0" % ADDRESS),
        fix="ip addr del %s1/24 dev enp3s0" % ADDRESS,
    ),
    # -- cabling and reachability
    Fault(
        *("cables swapped, heard", "RV702", ONE, "gpu01"),
        harm=[["swap", "node-1:1", "node-1:2"], ["lldp", "node-1:1", "on"], ["lldp", "node-1:2", "on"]],
        fix=[["repair"], ["lldp", "node-1:1", "off"], ["lldp", "node-1:2", "off"]],
        drifts=False,
        found="gpu01 on leaf-2",
        alone=True,
    ),
    Fault(
        *("cables swapped, unheard", "RV702", TWO, "gpu02", [["swap", "node-2:2", "node-2:3"]], [["repair"]]),
        drifts=False,
        either=True,
        found="gpu02 reaches gpu03",
        alone=True,
    ),
    Fault(
        *("another leaf", "RV701", TWO, "gpu04", [["lldp", "node-2:4", "on", "--chassis", "spine-9"]]),
        fix=[["lldp", "node-2:4", "off"]],
        drifts=False,
        found="spine-9",
    ),
    Fault(
        *("another leaf port", "RV704", ONE, "gpu04", [["lldp", "node-1:4", "on", "--port-name", "Ethernet9"]]),
        fix=[["lldp", "node-1:4", "off"]],
        drifts=False,
        found="Ethernet9",
    ),
    Fault(
        *("nothing comes through", "RV801", ONE, "gpu03", [["loss", "node-1:3", "100"]], [["repair", "node-1:3"]]),
        drifts=False,
        either=True,
    ),
    Fault(
        *("leaf's MTU", "RV802", TWO, "gpu04", [["mtu", "node-2:4", "1500"]], [["repair", "node-2:4"]]),
        drifts=False,
        either=True,
        found="1500 bytes pass",
    ),
    Fault(
        *("packets lost", "RV803", ONE, "gpu01", [["loss", "node-1:1", "40"]], [["repair", "node-1:1"]]),
        drifts=False,
        either=True,
    ),
    # -- RDMA
    Fault(
        *("RoCE filtered", "RV852", TWO, "gpu02"),
        harm="tc qdisc add dev enp2s0 clsact; tc filter add dev enp2s0 ingress protocol ip flower ip_proto udp"
        " dst_port 4791 action drop",
        fix="tc qdisc del dev enp2s0 clsact",
        drifts=False,
        either=True,
    ),
    Fault(
        *("no perftest", "RV851", ONE, None, "mv /usr/bin/ib_write_bw /root/", "mv /root/ib_write_bw /usr/bin/"),
        drifts=False,
        found="ib_write_bw is not installed",
    ),
]


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # what is beside it would be read as inventory, too
    place = tmp_path_factory.mktemp("faults") / "inventory"
    place.mkdir()
    (place / "fabric.yml").write_text(FABRIC)
    (place / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")
    return place


def play(inventory: Path, name: str, *words: str) -> Played:
    """Run a playbook as a person does."""
    env = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
    given = {"verify_report_dir": str(inventory.parent / "reports"), "verify_lldp_seconds": "0"}
    return playbook.play("playbooks/" + name, *words, inventory=inventory, given=given, env=env)


@pytest.fixture(scope="module")
def faults(node: t.Callable[[str], Node], inventory: Path) -> t.Iterator[Faults]:
    """The nodes, prepared by ``hosts.yml``; and the lab as it was, at the end."""
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    try:
        done = play(inventory, "hosts.yml")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        yield Faults(node, FABRIC)
    finally:
        cable("repair")
        for name in (ONE, TWO):
            node(name).modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0
        assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def do(faults: Faults, fault: Fault, action: str | list[list[str]]) -> None:
    if isinstance(action, str):
        faults.nodes[fault.node].run(action)
    else:
        for words in action:
            cable(*words)


def lines_of(verdict: t.Any) -> list[str]:
    return [each.line() for each in verdict.run.failures]


def settle(faults: Faults) -> None:
    """Wait until all links have their carriers again."""
    line = " && ".join("grep -q 1 /sys/class/net/enp%ds0/carrier" % number for number in (1, 2, 3, 4))
    faults.each(lambda name: faults.nodes[name].until(line))


def test_prepared_nodes_have_no_failures(faults: Faults) -> None:
    settle(faults)
    assert lines_of(faults.judge()) == []
    assert lines_of(faults.judge(DRIFT)) == []


def at_once(faults: t.Sequence[Fault]) -> list[list[Fault]]:
    """The faults in groups of which no two harm one rail; what harms more than a rail is alone."""
    groups: list[list[Fault]] = []
    for fault in faults:
        single = fault.alone or fault.rail is None
        fit = (
            group
            for group in groups
            if not single and not any(each.alone or each.rail in (None, fault.rail) for each in group)
        )
        found = next(fit, None)
        if found is None:
            groups.append([fault])
        else:
            found.append(fault)
    return groups


GROUPS = at_once(FAULTS)


@pytest.mark.parametrize("group", GROUPS, ids=[", ".join(fault.name for fault in group) for group in GROUPS])
def test_each_fault_is_one_failure_of_the_right_place(faults: Faults, group: list[Fault]) -> None:
    spoken = [words[1:] for fault in group if fault.heard for words in fault.harm if words[0] == "lldp"]
    faults.count = 12 if any(fault.code == "RV803" for fault in group) else 3
    faults.listen = 10.0 if spoken else 0.0
    for fault in group:
        do(faults, fault, fault.harm)
    try:
        with speaking(spoken):
            looked = faults.look()
            verdict = faults.judge(VERIFY, looked)
        drifted = faults.judge(DRIFT, looked)
    finally:
        faults.listen = 0.0
        for fault in reversed(group):
            if fault.fix:
                do(faults, fault, fault.fix)
    fixed = sorted({fault.node for fault in group if CODES[fault.code].playbook or fault.drifts})
    for name in fixed:
        # the playbook that verify names fixes it. The node itself restores first what returns with a device.
        faults.nodes[name].run(AGAIN)
        faults.converge(name)
    settle(faults)
    left = lines_of(faults.judge(DRIFT)) if fixed else []
    failures = {(each.code, each.rail): each for each in verdict.run.failures}
    assert len(failures) == len(verdict.run.failures), lines_of(verdict)
    assert set(failures) == {(fault.code, fault.rail) for fault in group}, lines_of(verdict)
    for fault in group:
        failure = failures[fault.code, fault.rail]
        places = {failure.node, failure.peer} if fault.either else {failure.node}
        assert fault.node in places, lines_of(verdict)
        assert fault.found in "%s %s" % (failure.found, failure.cause), lines_of(verdict)
    codes = sorted(each.code for each in drifted.run.failures)
    assert codes == sorted(fault.code for fault in group if fault.drifts), lines_of(drifted)
    assert left == []


@contextlib.contextmanager
def speaking(ports: t.Sequence[t.Sequence[str]]) -> t.Iterator[None]:
    """A leaf sends LLDP on request, and then every thirty seconds: here it is requested all the time."""
    over = threading.Event()

    def speak() -> None:
        while not over.wait(1):
            for words in ports:
                cable("lldp", *words)

    thread = threading.Thread(target=speak)
    if ports:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if ports:
            thread.join()


def test_a_stranger_with_a_nodes_address_is_reported_of_the_node(faults: Faults) -> None:
    """An interface like that of a pod on the other node, which the plan does not contain."""
    node = faults.nodes[TWO]
    node.run(STRANGER % ADDRESS)
    mac = json.loads(node.run("ip -n stranger -j link show stray"))[0]["address"]
    try:
        verdict = faults.judge()
    finally:
        node.run("ip -n stranger link del stray; ip netns del stranger")
    ours = [each for each in verdict.run.failures if each.code == "RV510"]
    assert [(each.node, each.rail) for each in ours] == [(ONE, "gpu03")], lines_of(verdict)
    assert mac in str(ours[0].found)
    assert lines_of(faults.judge(DRIFT)) == []


def test_persistent_differences_are_drift(faults: Faults) -> None:
    node = faults.nodes[ONE]
    (path,) = node.run("ls /etc/systemd/network/*railyard-gpu01.network").split()
    node.run("mv %s /root/kept" % path)
    verdict = faults.judge(DRIFT)
    assert [(each.code, each.node) for each in verdict.run.failures] == [("RV550", ONE)]
    assert path in str(verdict.run.failures[0].found)
    assert faults.converge(ONE)
    assert lines_of(faults.judge(DRIFT)) == []
    node.run("rm -f /root/kept")


def test_the_playbooks_end_as_they_say(faults: Faults, inventory: Path) -> None:
    """verify and drift as a person runs them: green, then with a fault, then fixed by the play that they name."""
    done = play(inventory, "verify.yml")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "8 of 8 ports proven" in done.stdout
    assert "changed=0" in done.stdout and "ignored=0" in done.stdout
    assert play(inventory, "drift.yml").returncode == 0
    faults.nodes[TWO].run("ip link set enp2s0 mtu 1500; ip rule del pref 10003 from 172.16.13.202")
    drifted = play(inventory, "drift.yml")
    assert drifted.returncode == 2, drifted.stdout[-6000:]
    verdict = json.loads((inventory.parent / "reports" / "drift.json").read_text())
    assert [(each["code"], each["node"], each["rail"]) for each in verdict["failures"]] == [
        ("RV404", TWO, "gpu02"),
        ("RV505", TWO, "gpu03"),
    ]
    assert verdict["boots"][TWO] == faults.nodes[TWO].boot_id()
    failed = play(inventory, "verify.yml", "-e", "verify_rails=gpu02")
    assert failed.returncode == 2
    verdict = json.loads((inventory.parent / "reports" / "verify.json").read_text())
    assert [(each["code"], each["node"], each["rail"]) for each in verdict["failures"]] == [("RV404", TWO, "gpu02")]
    assert verdict["failures"][0]["playbook"] == "playbooks/hosts.yml --limit node-2"
    fixed = play(inventory, "hosts.yml", "--limit", "localhost,node-2")
    assert fixed.returncode == 0, fixed.stdout[-4000:]
    assert play(inventory, "drift.yml").returncode == 0
    assert len(list((inventory.parent / "reports" / "history").iterdir())) >= 2
