# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a rail: files of recorded NICs, and links as the kernel reports them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_reader, health_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_facts import compare
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_judge import Judge
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_neighbours import Neighbours
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Observed, Unread
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_reader import RailReader
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_readers import RailReaders
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.kept_files import KeptFiles
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from lab.leaf import lldp_frame
from tests.unit.node import test_interfaces
from tests.unit.node.plane_devices import Machine, recorded
from tests.unit.node.trees import Tree
from tests.waiting import wait_for


def rail(**row: t.Any) -> health_spec.Rail:
    document = {"format": 1, "fabric": "ai", "node": "n1", "rails": [dict({"rail": "gpu01"}, **row)]}
    return health_spec.parse_spec(document).rails[0]


def kernel_with(links: list[Link]) -> t.Any:
    """A kernel with these links, and without addresses."""

    class Kernel:
        def close(self) -> None:
            pass

        def link(self, which: str) -> Link | None:
            return next((link for link in links if link.name == which), None)

        def addresses(self, index: int) -> list[t.Any]:
            return []

    return Kernel


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """ConnectX-8 with 12 RDMA ports, four of which carry planes; ``links`` of it are the links of the kernel."""
    found = Machine(tmp_path, recorded("connectx8-12-ports"))
    monkeypatch.setattr(health_reader, "Rtnetlink", kernel_with(found.links))
    return found


def device(machine: Machine) -> tuple[str, str, list[int]]:
    """The first RDMA device, its function, and the ports with netdevs."""
    row = machine.devices[0]
    return row["device"], row["pci"], sorted(int(number) for number in row["netdevs"])


def planed(machine: Machine) -> health_spec.Rail:
    name, pci, ports = device(machine)
    netdev = machine.devices[0]["netdevs"][str(ports[0])]
    planes = [{"plane": number, "rdma_port": port} for number, port in enumerate(ports, 1)]
    for port in range(1, machine.devices[0]["ports"] + 1):
        place = "/sys/class/infiniband/%s/ports/%d/" % (name, port)
        machine.tree.write(place + "state", "4: ACTIVE" if port in ports else "1: DOWN")
        machine.tree.write(place + "phys_state", "5: LinkUp" if port in ports else "3: Disabled")
    return rail(netdev=netdev, pci=pci, rdma=name, planes=planes, speed=200)


def test_only_ports_that_carry_planes_are_read(machine: Machine) -> None:
    spec, (name, pci, ports) = planed(machine), device(machine)
    seen = RailReader(machine.tree.system(), spec).read()
    assert isinstance(seen, Observed) and seen.rdma
    assert (seen.rdma.name, seen.rdma.pci, sorted(seen.rdma.ports)) == (name, pci, ports)
    facts, planes = compare(spec, seen)
    assert facts == [] and [each.state for each in planes] == ["pass"] * len(ports)
    machine.tree.write("/sys/class/infiniband/%s/ports/%d/state" % (name, ports[1]), "1: DOWN")
    lost = RailReader(machine.tree.system(), spec).read()
    assert isinstance(lost, Observed)
    assert [(fact.code, fact.plane) for fact in compare(spec, lost)[0]] == [("RV422", 2)]


def test_counters_are_those_of_the_thresholds_and_a_new_device_is_another_one(machine: Machine) -> None:
    spec, (name, _pci, ports) = planed(machine), device(machine)
    place = "/sys/class/infiniband/%s/ports/%d/" % (name, ports[0])
    machine.tree.write(place + "counters/symbol_error", "7")
    machine.tree.write(place + "counters/port_xmit_data", "9")
    machine.tree.write(place + "hw_counters/out_of_sequence", "3")
    reader = RailReader(machine.tree.system(), spec)
    seen = reader.read()
    assert isinstance(seen, Observed) and seen.rdma
    assert seen.rdma.ports[ports[0]].counters == {"symbol_error": 7, "out_of_sequence": 3}
    machine.tree.write(place + "counters/symbol_error", "8")
    again = reader.read()
    assert isinstance(again, Observed) and again.rdma
    assert again.rdma.ports[ports[0]].counters["symbol_error"] == 8 and again.rdma.identity == seen.rdma.identity


def test_open_files_follow_deleted_files_and_devices_with_the_same_name(tmp_path: Path) -> None:
    """As after a reload of a driver, and after two interfaces exchange their names."""
    tree = Tree(tmp_path)
    place = "/sys/class/net/eth1"
    tree.write(place + "/speed", "100000")
    files = KeptFiles(tree.system())
    files.follow(place, 3)
    assert files.read_int(place + "/speed") == 100000
    (tmp_path / "sys/class/net/eth1/speed").unlink()
    assert (files.read(place + "/speed"), files.read_int(place + "/speed")) == (None, None)
    tree.write(place + "/speed", "200000")
    assert files.read_int(place + "/speed") == 200000
    # the open file still exists, with another name
    (tmp_path / "sys/class/net/eth1").rename(tmp_path / "sys/class/net/eth2")
    tree.write(place + "/speed", "400000")
    assert files.read_int(place + "/speed") == 200000
    files.follow(place, 4)
    assert files.read_int(place + "/speed") == 400000
    # more files than stay open
    for number in range(100):
        tree.write("%s/%d" % (place, number), str(number))
    assert [files.read_int("%s/%d" % (place, number)) for number in range(100)] == list(range(100))
    files.close()


def test_gid_is_found_again_at_another_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel assigns other indices after the address was removed and added."""
    monkeypatch.setattr(health_reader, "Rtnetlink", kernel_with([]))
    tree, port = Tree(tmp_path), "/sys/class/infiniband/mlx5_1/ports/1"
    empty, own = ":".join(["0000"] * 8), "0000:0000:0000:0000:0000:ffff:ac10:0bc9"
    for name, text in (("state", "4: ACTIVE"), ("link_layer", "Ethernet"), ("gids/0", own), ("gids/1", empty)):
        tree.write("%s/%s" % (port, name), text)
    for index in (0, 1):
        tree.write("%s/gid_attrs/types/%d" % (port, index), "RoCE v2")
    reader = RailReader(tree.system(), rail(rdma="mlx5_1", address="172.16.11.201/24"))

    def found() -> frozenset[str] | None:
        seen = reader.read()
        assert isinstance(seen, Observed) and seen.rdma
        return seen.rdma.gids

    assert found() == {"172.16.11.201"}
    tree.write(port + "/gids/0", empty)
    assert found() == frozenset()
    tree.write(port + "/gids/1", own)
    assert found() == {"172.16.11.201"}
    tree.write(port + "/gid_attrs/types/1", "IB/RoCE v1")
    assert found() == frozenset()
    reader.close()


def test_a_state_that_cannot_be_read_is_unknown_and_not_a_fault(machine: Machine) -> None:
    spec, (name, _pci, ports) = planed(machine), device(machine)
    (machine.tree.root / ("sys/class/infiniband/%s/ports/%d/state" % (name, ports[0]))).unlink()
    seen = RailReader(machine.tree.system(), spec).read()
    assert isinstance(seen, Unread) and "the state of the port cannot be read" in seen.reason and seen.remedy


def test_an_interface_with_the_name_of_a_port_on_another_function_is_not_the_port(machine: Machine) -> None:
    pci = planed(machine).pci
    machine.links.append(machine.links[0]._replace(name="eth_other", ifindex=99, kind="dummy"))
    seen = RailReader(machine.tree.system(), rail(netdev="eth_other", pci=pci)).read()
    assert isinstance(seen, Observed) and seen.interface is None
    assert [fact.code for fact in compare(rail(netdev="eth_other", pci=pci), seen)[0]] == ["RV204"]
    missing = RailReader(machine.tree.system(), rail(netdev="eth_other", pci="0000:ff:00.0")).read()
    assert isinstance(missing, Observed) and not missing.exists


def test_a_port_that_a_pod_may_hold_is_unknown(machine: Machine) -> None:
    spec = planed(machine)._replace(movable=True)
    machine.links.clear()
    seen = RailReader(machine.tree.system(), spec).read()
    assert isinstance(seen, Unread) and seen.held


def test_a_driver_that_hangs_delays_no_other_rail(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()

    class Hanging(System):
        def exists(self, path: str) -> bool:
            if "0000:aa" in path:
                release.wait()
            return super().exists(path)

    monkeypatch.setattr("%s.ANSWER_SECONDS" % RailReaders.__module__, 0.5)
    rails = [planed(machine), rail(rail="gpu02", netdev="eth9", pci="0000:aa:00.0")]
    readers = RailReaders(Hanging(str(machine.tree.root)), rails)
    try:
        found = readers.observe()
        hung = found["gpu02"]
        assert isinstance(found["gpu01"], Observed)
        assert isinstance(hung, Unread) and "the kernel has not answered" in hung.reason
        release.set()
        assert wait_for(lambda: isinstance(readers.observe()["gpu02"], Observed))
    finally:
        release.set()
        readers.close()


def test_an_error_of_netlink_is_unread(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> t.Any:
        raise RailyardError("no buffer space", "rtnetlink", "")

    monkeypatch.setattr(health_reader, "Rtnetlink", fail)
    seen = RailReader(machine.tree.system(), planed(machine)).read()
    assert seen == Unread("rtnetlink: no buffer space", health_reader.DMESG)


# -- bonds -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lacp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """A bond with LACP, as bond_fill_info() of the kernel reports it: one member has a link, the other has none."""
    tree = Tree(tmp_path)
    for function, netdev in ((test_interfaces.ONE, "ens2f0np0"), (test_interfaces.TWO, "ens2f1np1")):
        tree.function("pci0000:20/0000:20:01.0/" + function)
        tree.netdev(function, netdev)
    tree.write("/proc/net/bonding/bond0", test_interfaces.PROC)
    links = test_interfaces.lacp_bond()
    vlan = links[-1]._replace(ifindex=11, name="bond0.7", kind="vlan", below=10, data=test_interfaces.vlan_data(7))
    monkeypatch.setattr(health_reader, "Rtnetlink", kernel_with([*links, vlan]))
    return tree.system()


def on_bond(**changes: t.Any) -> health_spec.Rail:
    functions = [{"pci": test_interfaces.ONE}, {"pci": test_interfaces.TWO}]
    return rail(**dict({"netdev": "bond0", "bond": "bond0", "bond_mode": "802.3ad", "functions": functions}, **changes))


def test_members_of_a_bond_have_their_link_aggregator_and_partner(lacp: System) -> None:
    seen = RailReader(lacp, on_bond()).read()
    assert isinstance(seen, Observed) and seen.bond
    assert (seen.bond.mode, seen.bond.aggregator, seen.bond.partner) == ("802.3ad", 1, "02:11:22:33:44:55")
    rows = [each and (each.name, each.master, each.link, each.aggregator, each.partner) for each in seen.functions]
    assert rows == [("ens2f0np0", 10, "up", 1, "02:11:22:33:44:55"), ("ens2f1np1", 10, "down", 2, None)]
    assert [(fact.code, fact.what) for fact in compare(on_bond(), seen)[0]] == [("RV414", "ens2f1np1")]


def test_a_member_that_carries_a_plane_is_that_plane(lacp: System) -> None:
    spec = on_bond(planes=[{"plane": 1}, {"plane": 2}])
    seen = RailReader(lacp, spec).read()
    assert isinstance(seen, Observed)
    facts, planes = compare(spec, seen)
    assert [(fact.code, fact.plane) for fact in facts] == [("RV422", 2)]
    assert [(each.plane, each.state) for each in planes] == [(1, "pass"), (2, "fail")]


def test_a_vlan_on_a_bond_has_its_id_and_parent(lacp: System) -> None:
    for vlan, codes in ((7, ["RV414"]), (8, ["RV414", "RV419"])):
        spec = on_bond(netdev="bond0.7", vlan=vlan, parent="bond0")
        seen = RailReader(lacp, spec).read()
        assert isinstance(seen, Observed) and (seen.vlan, seen.parent) == (7, 10)
        assert [fact.code for fact in compare(spec, seen)[0]] == codes


# -- LLDP --------------------------------------------------------------------------------------------------------------


def frame(leaf: int, port: int, seconds: int = 120) -> bytes:
    whole = bytes(lldp_frame(leaf, port))
    at = whole.index(b"\x06\x02") + 2
    return whole[:at] + seconds.to_bytes(2, "big") + whole[at + 2 :]


def names(neighbours: Neighbours, now: float) -> list[str]:
    return [str(each) for each in neighbours.of(["eth1"], now).get("eth1", ())]


def test_neighbours_are_valid_for_the_time_of_their_frame() -> None:
    neighbours = Neighbours()
    neighbours.heard("eth1", frame(1, 7), 100.0)
    assert names(neighbours, 219.0) == ["leaf-1 Ethernet7"]
    assert names(neighbours, 221.0) == []
    neighbours.heard("eth1", frame(1, 7), 300.0)
    neighbours.heard("eth1", frame(2, 7), 301.0)
    assert names(neighbours, 302.0) == ["leaf-1 Ethernet7", "leaf-2 Ethernet7"]
    neighbours.heard("eth1", frame(2, 7, 0), 303.0)
    assert names(neighbours, 304.0) == ["leaf-1 Ethernet7"], "the time 0: it leaves the link"
    neighbours.forget("eth1")
    assert names(neighbours, 305.0) == []


def test_a_flood_of_neighbours_is_bounded() -> None:
    neighbours = Neighbours()
    for port in range(1000):
        neighbours.heard("eth1", frame(1, port), 1.0)
    neighbours.heard("eth1", b"\xff" * 60, 1.0)
    assert len(names(neighbours, 2.0)) == 8


def test_a_judge_accepts_no_rail_that_the_spec_does_not_have() -> None:
    spec = health_spec.parse_spec({"format": 1, "fabric": "ai", "node": "n1", "rails": [{"rail": "a", "netdev": "e"}]})
    judge = Judge(spec)
    judge.add({"other": Observed()}, 1.0)
    assert [state.rail for state in judge.states(1.0, 1000.0, 0.0)] == ["a"]
