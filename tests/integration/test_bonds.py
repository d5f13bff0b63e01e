# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails on bonds with LACP and active-backup, and on VLANs: hosts.yml twice, verify, pods, a reboot, and faults."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from tests.integration.conftest import Node
from tests.integration.layouts import (
    CARRIERS,
    HEAD,
    MEMBERS,
    NO_CARRIER,
    NODES,
    ONE,
    TWO,
    Fault,
    Layout,
    check_pods,
    prepared,
)

pytestmark = pytest.mark.lab

BONDING = "/sys/class/net/bond0/bonding"
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
    % MEMBERS
    + NODES
)
BOTH_MEMBERS = CARRIERS % 5 + "; grep -qx 2 %s/ad_num_ports" % BONDING
FAULTS: list[dict[str, Fault]] = [
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


@pytest.fixture(scope="module")
def bonds(node: t.Callable[[str], Node], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("bonds"), "mlag", BONDS, BOTH_MEMBERS)


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


def test_pods_use_bonds_and_vlans(bonds: Layout) -> None:
    check_pods(bonds)


@pytest.mark.long
@pytest.mark.parametrize("faults", FAULTS, ids=[", ".join(each) for each in FAULTS])
def test_faults_of_bonds_and_vlans_are_named(bonds: Layout, faults: dict[str, Fault]) -> None:
    bonds.settle()
    bonds.name_each(faults)


@pytest.mark.long
def test_a_reboot_restores_bonds_and_vlans(bonds: Layout) -> None:
    bonds.reboot()
    assert bonds.failures(DRIFT) == []
    assert bonds.failures() == []
