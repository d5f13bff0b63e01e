# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts other than one network per rail and one NIC per port, on real kernels: one network for all ports, bonds with
LACP and with active-backup, and VLANs on them.

For each layout: ``hosts.yml`` twice, verify, a reboot, the rail agent with pods, and faults that verify must name.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, VERIFY
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.integration.faults import Faults, cable
from tests.integration.layout_pods import AgentGuest
from tests.playbook import Played

pytestmark = pytest.mark.lab

TAG = "before-layouts"
ONE, TWO = "node-1", "node-2"
PROC = "/proc/sys/net/ipv4/conf"
BONDING = "/sys/class/net/bond0/bonding"
NO_CARRIER = "grep -qx 0 /sys/class/net/%s/carrier"
HEAD = """
plugin: railyard.fabric.rails
fabric:
  name: layouts
  attachment: macvlan
  provider: agent
  mtu: 4200
  slots: {all_rails: 2, per_rail: 1}
"""
NODES = """
nodes:
  node-[1:2]: {profile: guest}
"""
FLAT = (
    HEAD
    + """
rails:
  gpu[01:08]: {subnet: 172.16.0.0/16, gateway: none, hosts: .0.1-.0.254, pods: .1.0-.4.255, numbering: node}
profiles:
  guest:
    soft_rdma: rxe
    ports:
"""
    + "".join(
        '      gpu%02d: {netdev: enp%ds0, pci: "0000:%02x:00.0", gpu: %d}\n' % (each, each, each, each - 1)
        for each in range(1, 9)
    )
    + NODES
)

BONDS = (
    HEAD
    + """
  routing: {cross_rail: false} # nothing routes between the networks
rails:
  stor[1:3]: {subnet: "172.16.{n}.0/24", gateway: none, pods: .1-.200, hosts: .201-.253}
profiles:
  guest:
    soft_rdma: rxe
    ports:
      stor1:
        bond: {name: bond0, mode: 802.3ad, lacp_rate: fast, members: [%s, %s]}
        vlan: 100
      stor2:
        bond: {name: bond1, mode: active-backup, members: [%s, %s]}
      stor3: {pci: "0000:05:00.0", netdev: enp5s0, vlan: 200}
"""
    % tuple('{pci: "0000:%02x:00.0", netdev: enp%ds0}' % (each, each) for each in range(1, 5))
    + NODES
)

CARRIERS = "for n in $(seq %d); do grep -qx 1 /sys/class/net/enp${n}s0/carrier || exit 1; done"
BOTH_MEMBERS = CARRIERS % 5 + "; grep -qx 2 %s/ad_num_ports" % BONDING


class Fault(t.NamedTuple):
    """One fault.

    ``codes``: one of them must name it. ``harm``, ``fix``: a shell command on ``node``, or words for ``lab cable``.
    ``fix`` is empty where ``hosts.yml`` reverts it. ``found``: what the failure must contain. ``either``: of two nodes
    it is unknown which one has it. ``visible``: a shell condition that is true when the node has noticed the fault.
    """

    codes: tuple[str, ...]
    node: str
    rail: str
    harm: str | list[list[str]]
    found: str = ""
    fix: str = ""
    either: bool = False
    visible: str = "true"


# Faults at once, each of another rail: name -> fault
FLAT_FAULTS = {
    "ARP flux": Fault(
        *(("RV506", "RV512"), ONE, "gpu01"),
        harm="echo 0 > %s/enp1s0/arp_ignore; echo 0 > %s/enp1s0/arp_filter" % (PROC, PROC),
        found="arp_",
    ),
    "MTU": Fault(("RV404",), TWO, "gpu02", "ip link set enp2s0 mtu 1500", "1500"),
    "address gone": Fault(("RV501",), ONE, "gpu03", "ip addr flush dev enp3s0 scope global"),
    "cable cut": Fault(("RV402",), TWO, "gpu05", [["cut", "node-2:5"]], visible=NO_CARRIER % "enp5s0"),
    "rule gone": Fault(("RV505",), ONE, "gpu06", "ip rule del pref 10006"),
}
BOND_FAULTS: list[dict[str, Fault]] = [
    {
        "member down": Fault(("RV414",), ONE, "stor1", [["cut", "node-1:1"]], "enp1s0", visible=NO_CARRIER % "enp1s0"),
        "mode changed by hand": Fault(
            *(("RV415",), ONE, "stor2"),
            harm="ip link set enp3s0 nomaster; ip link set enp4s0 nomaster; ip link set bond1 down;"
            " ip link set bond1 type bond mode balance-xor; for m in enp3s0 enp4s0; do ip link set $m down;"
            " ip link set $m master bond1; done; ip link set bond1 up",
            found="balance-xor",
        ),
        "wrong VLAN": Fault(
            *(("RV419",), TWO, "stor3"),
            harm="ip link del enp5s0.200; ip link add link enp5s0 name enp5s0.200 type vlan id 201;"
            " ip link set enp5s0.200 up; ip addr add 172.16.3.202/24 dev enp5s0.200",
            found="201",
        ),
    },
    {
        "member on another leaf": Fault(
            ("RV418",), ONE, "stor1", [["swap", "node-1:2", "node-1:6"]], visible="grep -qx 1 %s/ad_num_ports" % BONDING
        ),
        "address moved to a member": Fault(
            *(("RV501",), TWO, "stor2"),
            harm="ip addr del 172.16.2.202/24 dev bond1; ip addr add 172.16.2.202/24 dev enp3s0",
            fix="ip addr del 172.16.2.202/24 dev enp3s0",
        ),
        "VLAN filtered on the leaf": Fault(("RV801",), ONE, "stor3", [["vlan", "node-1:5", "200", "off"]], either=True),
    },
    {
        "LACP partner silent": Fault(
            *(("RV417",), TWO, "stor1", [["lacp", "node-2:1", "off"], ["lacp", "node-2:2", "off"]]),
            visible="grep -qx 00:00:00:00:00:00 %s/ad_partner_mac" % BONDING,
        ),
        "bond deleted": Fault(("RV411",), ONE, "stor2", "ip link del bond1", "bond1"),
        "MTU of the parent": Fault(("RV404",), TWO, "stor3", "ip link set enp5s0 mtu 1500", "1500"),
    },
]


class Layout:
    """The nodes of the lab with one fabric file, in one layout of the leaves."""

    def __init__(self, node: t.Callable[[str], Node], place: Path, layout: str, fabric: str, healthy: str) -> None:
        self.healthy = healthy
        self.inventory = place / "inventory"
        self.inventory.mkdir()
        (self.inventory / "fabric.yml").write_text(fabric)
        (self.inventory / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")
        cable("layout", layout)
        self.faults = Faults(node, fabric)
        self.nodes = self.faults.nodes

    def play(self, name: str, *words: str) -> Played:
        env = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
        given = {"verify_report_dir": str(self.inventory.parent / "reports"), "verify_lldp_seconds": "0"}
        return playbook.play("playbooks/" + name, *words, inventory=self.inventory, given=given, env=env)

    def harm(self, fault: Fault) -> None:
        if isinstance(fault.harm, str):
            self.nodes[fault.node].run(fault.harm)
        else:
            for words in fault.harm:
                cable(*words)

    def name_each(self, faults: t.Mapping[str, Fault]) -> None:
        """Do all these faults, let verify judge the nodes, and revert the faults as a person would."""
        for fault in faults.values():
            self.harm(fault)
        try:
            for fault in faults.values():
                self.nodes[fault.node].until(fault.visible)
            failures = self.faults.judge().run.failures
        finally:
            cable("repair")
            for fault in faults.values():
                if fault.fix:
                    self.nodes[fault.node].run(fault.fix)
        lines = [each.line() for each in failures]
        for name, fault in faults.items():
            found = [each for each in failures if each.rail == fault.rail and each.code in fault.codes]
            assert found, (name, lines)
            nodes = {each.node for each in found} | ({each.peer for each in found} if fault.either else set())
            assert fault.node in nodes, (name, lines)
            assert any(fault.found in each.line() for each in found), (name, lines)
        # rails without a fault have no failure, and verify reports no card as missing
        assert {each.rail for each in failures} == {fault.rail for fault in faults.values()}, lines
        assert "RV201" not in {each.code for each in failures}, lines
        self.faults.converge()
        self.settle()
        assert self.failures() == []

    def settle(self) -> None:
        """Wait until all ports have carrier, and bonds have both members."""
        self.faults.each(lambda name: self.nodes[name].until(self.healthy))

    def failures(self, kind: str = VERIFY) -> list[str]:
        return [each.line() for each in self.faults.judge(kind).run.failures]


@pytest.fixture(scope="module")
def lab_as_before(node: t.Callable[[str], Node]) -> t.Iterator[None]:
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    yield
    assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def prepared(node: t.Callable[[str], Node], place: Path, layout: str, fabric: str, healthy: str) -> t.Iterator[Layout]:
    """The nodes with a fabric file, prepared by ``hosts.yml``. The end restores the lab."""
    try:
        found = Layout(node, place, layout, fabric, healthy)
        done = found.play("hosts.yml", "--skip-tags", "agent")
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        yield found
    finally:
        cable("layout", "rails")
        cable("repair")
        for name in (ONE, TWO):
            node(name).modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0


@pytest.fixture(scope="module")
def flat(
    node: t.Callable[[str], Node], lab_as_before: None, tmp_path_factory: pytest.TempPathFactory
) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("flat"), "flat", FLAT, CARRIERS % 8)


def test_one_network_of_eight_ports_is_prepared_and_proven(flat: Layout) -> None:
    done = flat.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]
    assert flat.failures() == []
    assert flat.failures(DRIFT) == []


@pytest.fixture(scope="module")
def bonds(
    node: t.Callable[[str], Node], lab_as_before: None, tmp_path_factory: pytest.TempPathFactory
) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("bonds"), "mlag", BONDS, BOTH_MEMBERS)


@pytest.fixture
def guests(request: pytest.FixtureRequest) -> t.Iterator[t.Callable[[Layout], dict[str, AgentGuest]]]:
    made: list[AgentGuest] = []

    def make(layout: Layout) -> dict[str, AgentGuest]:
        found = {name: AgentGuest(node, layout.faults.plans[name]["agent"]) for name, node in layout.nodes.items()}
        made.extend(found.values())
        return found

    yield make
    for guest in made:
        guest.end()


def check_pods(layout: Layout, guests: dict[str, AgentGuest]) -> None:
    """Attach pods on both nodes, and prove each of their interfaces by its own source and by the MAC that answers."""
    attached = layout.faults.each(
        lambda name: guests[name].attach(**{"a" + name[-1]: "rails-0", "b" + name[-1]: "rails-1"})
    )
    for found in attached.values():
        assert not any("error" in rows for rows in found["pods"].values()), found
        assert (found["conflicts"], found["down"], found["degraded"]) == ([], {}, {})
    here, there = attached[ONE]["pods"]["a1"], attached[TWO]["pods"]["a2"]
    beside = attached[ONE]["pods"]["b1"]
    for interface, row in here.items():
        source = row["address"].partition("/")[0]
        for other in (there, beside):
            target = other[interface]["address"].partition("/")[0]
            guests[ONE].ping("a1", source, target)
            assert guests[ONE].neighbour("a1", interface, target) == other[interface]["mac"], interface


@pytest.mark.long
def test_pods_have_all_rails_in_one_network(flat: Layout, guests: t.Callable[[Layout], dict[str, AgentGuest]]) -> None:
    check_pods(flat, guests(flat))


def test_bonds_and_vlans_are_prepared(bonds: Layout) -> None:
    done = bonds.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]
    bonds.settle()
    for node in bonds.nodes.values():
        # the partner is the pair of leaves
        assert node.run("cat %s/ad_partner_mac" % BONDING).strip() == "02:1e:af:00:01:00"
        # soft RDMA: the VLAN uses the device of its bond
        devices = {row["ifname"]: row["netdev"] for row in node.json("rdma -j link")}
        assert devices == {"rxe_%s" % name: name for name in ("bond0", "bond1", "enp5s0")}
    assert bonds.failures(DRIFT) == []


def test_rails_on_bonds_and_vlans_are_proven(bonds: Layout) -> None:
    bonds.settle()
    assert bonds.failures() == []


def test_pods_are_on_bonds_and_vlans(bonds: Layout, guests: t.Callable[[Layout], dict[str, AgentGuest]]) -> None:
    check_pods(bonds, guests(bonds))


@pytest.mark.long
def test_faults_of_one_network_are_named(flat: Layout) -> None:
    flat.name_each(FLAT_FAULTS)


@pytest.mark.long
@pytest.mark.parametrize("faults", BOND_FAULTS, ids=[", ".join(each) for each in BOND_FAULTS])
def test_faults_of_bonds_and_vlans_are_named(bonds: Layout, faults: dict[str, Fault]) -> None:
    bonds.settle()
    bonds.name_each(faults)


@pytest.mark.long
def test_a_reboot_restores_bonds_and_vlans(bonds: Layout) -> None:
    for node in bonds.nodes.values():
        node.reboot()
    bonds.settle()
    assert bonds.failures(DRIFT) == []
    assert bonds.failures() == []
