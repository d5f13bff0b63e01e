# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports as options name them: every feature reads them with one set of rules and messages."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning import PciTuning
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import RailLimits
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import read_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.port_reference import PortReference
from tests.unit.node.trees import INFINIBAND, Tree

NIC = "0000:0b:00.0"
Observe = t.Callable[[System, t.List[t.Dict[str, t.Any]]], t.Any]
FEATURES: dict[str, Observe] = {
    "rail_ports": lambda _system, ports: read_ports([dict(port, rail="gpu01") for port in ports]),
    "ib_ports": lambda system, ports: IbPorts({"ports": ports}, system).observe(),
    "pci_tuning": lambda system, ports: PciTuning({"ports": ports}, system).observe(),
    "rail_limits": lambda system, ports: RailLimits({"ports": ports}, system).observe(),
}
ON_THE_NODE = sorted(FEATURES.keys() - {"rail_ports"})


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/%s" % NIC, INFINIBAND)
    return tree


def place(**names: str) -> PortReference:
    return PortReference("ports[0]", names.get("pci"), names.get("netdev"))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({}, "ports[0]: names neither pci nor netdev. Remedy: give one of them."),
        ({"pci": "", "netdev": ""}, "ports[0]: names neither pci nor netdev. Remedy: give one of them."),
        ({"pci": "0b:00"}, "ports[0].pci: '0b:00' is not a PCI address. Remedy: write it as 'lspci -D' prints it"),
        ({"pci": "0000:0b:00.x"}, "ports[0].pci: '0000:0b:00.x' is not a PCI address"),
        ({"netdev": "../ens1"}, "ports[0].netdev: '../ens1' is not a valid netdev name"),
        ({"netdev": "enp11s0f0np0.8001"}, "ports[0].netdev: 'enp11s0f0np0.8001' is not a valid netdev name"),
    ],
)
@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_every_feature_reports_the_same_of_invalid_names(
    tree: Tree, feature: str, names: dict[str, str], text: str
) -> None:
    with pytest.raises(RailyardError) as caught:
        FEATURES[feature](tree.system(), [names])
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"pci": "0000:99:00.0"}, "ports[0].pci: there is no PCI function 0000:99:00.0. Remedy: see 'lspci -D'."),
        ({"netdev": "rail9"}, "ports[0].netdev: there is no netdev rail9. Remedy: see 'ip link'; it may have"),
    ],
)
@pytest.mark.parametrize("feature", ON_THE_NODE)
def test_every_feature_reports_the_same_of_missing_ports(
    tree: Tree, feature: str, names: dict[str, str], text: str
) -> None:
    with pytest.raises(RailyardError) as caught:
        FEATURES[feature](tree.system(), [names])
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("feature", sorted(FEATURES))
@pytest.mark.parametrize("spelling", ["0000:0b:00.0", "0b:00.0", "0000:0B:00.0"])
def test_every_feature_accepts_every_spelling_of_a_pci_address(tree: Tree, feature: str, spelling: str) -> None:
    tree.netdev(NIC, "ib0", type="32")
    tree.write("/sys/bus/pci/devices/%s/config" % NIC, "\0" * 256)
    FEATURES[feature](tree.system(), [{"pci": spelling}])


@pytest.mark.parametrize("feature", ["rail_ports", "ib_ports"])
def test_a_port_given_twice_is_an_error(tree: Tree, feature: str) -> None:
    with pytest.raises(RailyardError) as caught:
        FEATURES[feature](tree.system(), [{"pci": NIC}, {"pci": "0B:00.0"}])
    assert "ports[1].pci: " in str(caught.value)
    assert "0000:0b:00.0 is given already in ports[0].pci" in str(caught.value)


def test_the_netdev_of_a_function_is_its_own(tree: Tree) -> None:
    """In switchdev mode the representors of VFs have the PF as their device, as IPoIB children have the port's."""
    system = tree.system()
    with pytest.raises(RailyardError, match=r"0000:0b:00.0 has no netdev in this network namespace \(driver: none\)"):
        port_reference.netdev_of(system, place(pci=NIC))
    tree.netdev(NIC, "ens1f0r3", phys_port_name="pf0vf3")
    tree.netdev(NIC, "ib0.8001", parent="ib0")
    assert port_reference.find_netdev(system, place(pci=NIC)) is None
    tree.netdev(NIC, "ens1f0", phys_port_name="p0")
    assert port_reference.netdev_of(system, place(pci=NIC, netdev="gpu01")) == "ens1f0"
    tree.netdev(NIC, "gpu01")
    assert port_reference.netdev_of(system, place(pci=NIC, netdev="gpu01")) == "gpu01"
    with pytest.raises(RailyardError, match="has several netdevs: ens1f0, gpu01. Remedy: give one as netdev"):
        raise_text(system, place(pci=NIC))


def raise_text(system: System, port: PortReference) -> None:
    try:
        port_reference.netdev_of(system, port)
    except RailyardError as error:
        raise RailyardError(str(error)[:-1]) from None


def test_a_virtio_netdev_is_one_bus_below_its_function(tree: Tree) -> None:
    tree.write("%s/virtio2/net/ens4/type" % tree.real(NIC), "1")
    tree.link("/sys/class/net/ens4", "%s/virtio2/net/ens4" % tree.real(NIC))
    assert port_reference.netdev_of(tree.system(), place(pci=NIC)) == "ens4"


def test_a_pair_that_does_not_agree_is_an_error(tree: Tree) -> None:
    tree.netdev(NIC, "ens1")
    port_reference.check_pair(tree.system(), place(pci=NIC, netdev="ens1"))
    port_reference.check_pair(tree.system(), place(pci=NIC, netdev="not_yet"))
    with pytest.raises(RailyardError, match="netdev ens1 is 0000:0b:00.0, not 0000:0c:00.0"):
        port_reference.check_pair(tree.system(), place(pci="0000:0c:00.0", netdev="ens1"))
    tree.write("/sys/class/net/bond0/type", "1")
    with pytest.raises(RailyardError, match="netdev bond0 is not a PCI function, not 0000:0b:00.0"):
        port_reference.check_pair(tree.system(), place(pci=NIC, netdev="bond0"))
    with pytest.raises(RailyardError, match="netdev bond0 is not a PCI function"):
        port_reference.function_of(tree.system(), place(netdev="bond0"))


def test_the_management_path_is_refused_by_either_name() -> None:
    path = ManagementPath({"ens1": "carries this connection"}, {NIC: "ens1 carries this connection"})
    assert port_reference.refusal(path, "ports[0]", "ens2", "0000:0c:00.0") == []
    (by_netdev,) = port_reference.refusal(path, "ports[0]", "ens1", NIC)
    assert str(by_netdev).startswith("ports[0]: ens1 carries this connection, and is not changed. Remedy: leave")
    (by_function,) = port_reference.refusal(path, "ports[0]", None, NIC)
    assert "ens1 carries this connection, and 0000:0b:00.0 is not changed" in str(by_function)
