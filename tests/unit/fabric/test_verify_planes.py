# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on rails whose NIC balances over several planes in hardware.

The four ways in which planes are visible are ports of one RDMA device (a ConnectX-8 with twelve ports, data on 3, 6, 9
and 12), functions of a card, members of a bond, and the sub-device of an InfiniBand device (tests/recordings/planes).
"""

from __future__ import annotations

import copy
import random
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import plane_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_output
from tests.unit.fabric.test_verify_layouts import TEXTS as LAYOUTS
from tests.unit.fabric.verify_nodes import Row, World, counters_of, only_failure, plan

NODE, RAIL = "ai-2", "gpu01"
NUMBERS = (3, 6, 9, 12)
TEXT = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: host, provider: none, mtu: 9000}
rails:
  gpu01: {subnet: 10.1.0.0/16, hosts: .0.1-.3.254, planes: {count: 4, balancing: hardware}}
  gpu02: {subnet: 10.2.0.0/16, hosts: .0.1-.3.254, planes: {count: 4, balancing: hardware}}
profiles:
  server:
    speed: 200
    ports:
      gpu01: PORT1
      gpu02: PORT2
units:
  su1: {nodes: 32, leaf: "leaf-{n}-{p}", leaf_port: "swp{i}"}
"""
NETDEVS = {
    1: ("eth_r0_p0", "eth_r0_p1", "eth_r0_p2", "eth_r0_p3"),
    2: ("eth_r1_p0", "eth_r1_p1", "eth_r1_p2", "eth_r1_p3"),
}


def _functions(number: int) -> str:
    bus = {1: "18", 2: "29"}[number]
    each = ['{pci: "0000:%s:00.%d", netdev: %s}' % (bus, at, name) for at, name in enumerate(NETDEVS[number])]
    return "[%s]" % ", ".join(each)


def _text(one: str, infiniband: bool = False) -> str:
    """``one``: the port of a rail, with N for its number, D for its device's, B for its bus and F for its
    functions."""
    text = TEXT
    for number in (1, 2):
        values = {"N": str(number), "D": str(number - 1), "B": {1: "18", 2: "29"}[number], "F": _functions(number)}
        port = "".join(values.get(char, char) for char in one)
        text = text.replace("PORT%d" % number, port)
    return text.replace("mtu: 9000", "mtu: 4092, link_layer: infiniband") if infiniband else text


TEXTS = {
    "ports": _text('{netdev: eth_rD_p0, pci: "0000:B:00.0", rdma: roce_rD, planes: [3, 6, 9, 12]}'),
    "functions": _text("{rdma: roce_rD, planes: F}"),
    "bond": _text("{bond: {name: railN, mode: balance-xor, members: F}, rdma: mlx5_bond_D}"),
    "inside": _text('{netdev: ibN, pci: "0000:B:00.0", rdma: mlx5_D}', infiniband=True),
}
KINDS = ("ports", "functions", "bond", "inside")
# The codes that these tests show.
CODES = {"RV422", "RV423", "RV424", "RV425", "RV426", "RV427"}


class Planes(World):
    """A fabric of two rails with four planes each, and its healthy nodes.

    :param kind: how the NICs show their planes, one of KINDS.
    """

    def __init__(self, kind: str, nodes: int = 4) -> None:
        self.kind = kind
        super().__init__(plan(nodes, TEXTS[kind]))
        for name, node in self.plans.items():
            for port in node["ports"]:
                self._observed(self.infos[name], port, node["index"])
            self.infos[name]["counters"] = counters_of(self.infos[name], node)
            self.after[name] = copy.deepcopy(self.infos[name]["counters"])

    def _observed(self, info: Row, port: Row, index: int) -> None:
        """Add the rows of the planes to the rows of the port that ``live_nodes`` made."""
        device = port["rdma"]["name"]
        first = next(row for row in info["rdma"] if row["device"] == device)
        first.update(rate=200.0, physical_state="LINK_UP", state="ACTIVE")
        names = ["eth_r%d_p%d" % (port["number"] - 1, at) for at in range(4)]
        if self.kind == "ports":
            nic = next(row for row in info["nics"] if row["pci"] == port["pci"])
            nic.update(speed=200000)
            info["nics"] += [dict(nic, netdev=name) for name in names[1:]]
            info["rdma"].remove(first)
            # the ports that carry nothing
            empty = dict(first, netdev=None, state="DOWN", physical_state="DISABLED", rate=None)
            rows = [dict(empty, port=number) for number in range(1, 13)]
            for number, name in zip(NUMBERS, names):
                rows[number - 1] = dict(first, port=number, netdev=name)
            info["rdma"] += rows
            for gid in info["gids"]:
                gid["port"] = 3 if gid["device"] == device else gid["port"]
        elif self.kind == "inside":
            sub = {**first, "device": "smi%d" % port["number"], "parent": device, "netdev": None, "rate": 200.0}
            info["rdma"] += [dict(sub, port=number) for number in range(1, 5)]
        if self.kind != "inside":
            info["lldp"] = [row for row in info["lldp"] if row["netdev"] not in names]
            for at, name in enumerate(names):
                neighbour = {"netdev": name, "chassis": "00:1b:54:c2:%02x:%02x" % (port["number"], at)}
                neighbour.update(system="leaf-%d-%d.example.com" % (port["number"], at + 1), port="swp%d" % index)
                info["lldp"].append(dict(neighbour, port_description=None, source="lldpd"))

    # -- faults

    def carriers(self, plane: int, node: str = NODE, rail: str = RAIL) -> list[Row]:
        """The rows of rail_info that show whether a plane has a link."""
        port, info = self.port(node, rail), self.infos[node]
        netdev = "eth_r%d_p%d" % (port["number"] - 1, plane - 1)
        if self.kind == "ports":
            return [row for row in info["rdma"] if row["netdev"] == netdev]
        if self.kind == "inside":
            return [row for row in info["rdma"] if row.get("parent") == port["rdma"]["name"] and row["port"] == plane]
        return [row for row in info["nics"] if row["netdev"] == netdev]

    def cut(self, *planes: int, node: str = NODE, rail: str = RAIL) -> None:
        """The cables of planes are unplugged."""
        for plane in planes:
            for row in self.carriers(plane, node, rail):
                if self.kind in ("ports", "inside"):
                    row.update(state="DOWN", physical_state="POLLING")
            netdev = "eth_r%d_p%d" % (self.port(node, rail)["number"] - 1, plane - 1)
            for row in self.infos[node]["nics"] if self.kind != "inside" else ():
                if row["netdev"] == netdev:
                    row.update(carrier=False, operstate="down")

    def neighbour(self, plane: int, node: str = NODE, rail: str = RAIL) -> Row:
        netdev = "eth_r%d_p%d" % (self.port(node, rail)["number"] - 1, plane - 1)
        return next(row for row in self.infos[node]["lldp"] if row["netdev"] == netdev)

    def cross(self, one: int, other: int, node: str = NODE, rail: str = RAIL) -> None:
        """The cables of two planes are swapped."""
        left, right = self.neighbour(one, node, rail), self.neighbour(other, node, rail)
        for key in ("chassis", "system", "port"):
            left[key], right[key] = right[key], left[key]

    def summary(self, **asked: t.Any) -> list[str]:
        verdict = self.verdict(**asked)
        return verify_output.lines(verdict, self.document(**asked), 120)


def codes(world: World, kind: str = "verify") -> list[tuple[str, str | None, str | None]]:
    return [(each["code"], each["node"], each["rail"]) for each in world.document(kind)["failures"]]


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_as_planned_are_healthy(kind: str) -> None:
    """Also those whose RDMA device has ports that are DOWN because they carry no plane."""
    world = Planes(kind)
    assert codes(world) == [] and codes(world, DRIFT) == []
    assert world.document()["degraded_rails"] == []
    assert world.summary()[0] == "8 of 8 ports proven"


def test_plans_without_planes_have_no_degraded_rails() -> None:
    assert "degraded_rails" not in World(plan(2, LAYOUTS["plain"])).document()


# kind -> what names plane 2 of the rail
LABELS = {
    "ports": "plane 2 (roce_r0:6, eth_r0_p1, leaf-1-2 swp2)",
    "functions": "plane 2 (eth_r0_p1, leaf-1-2 swp2)",
    "bond": "plane 2 (eth_r0_p1, leaf-1-2 swp2)",
    "inside": "plane 2 (smi1:2)",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_plane_is_named_and_the_rail_is_proven(kind: str) -> None:
    world = Planes(kind)
    world.cut(2)
    document = world.document()
    failure = only_failure(document, "RV422", NODE, RAIL)
    assert failure["what"] == LABELS[kind]
    assert failure["found"] == ("DOWN (POLLING)" if kind in ("ports", "inside") else "no carrier")
    assert "cable" in failure["remedy"]
    assert document["matrix"][NODE][RAIL] == "ok" and document["proof"][RAIL]["state"] == "proven"
    rows = [{"node": NODE, "rail": RAIL, "planes": 4, "lost": [2], "proven": True}]
    assert document["degraded_rails"] == rows
    summary = world.summary()
    assert summary[0] == "8 of 8 ports proven, gpu01 on 3 of 4 planes (ai-2)"
    assert "ai-2 gpu01 carries traffic on 3 of 4 planes, without plane 2, at 75 % of its speed" in summary
    # drift compares configuration, and not cables
    assert codes(world, DRIFT) == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_lost_plane_is_a_failure(kind: str) -> None:
    world = Planes(kind)
    world.cut(1, 4)
    world.cut(3, node="ai-3", rail="gpu02")
    document = world.document()
    assert sorted((each["code"], each["node"], each["rail"], each["what"][:7]) for each in document["failures"]) == [
        ("RV422", "ai-2", "gpu01", "plane 1"),
        ("RV422", "ai-2", "gpu01", "plane 4"),
        ("RV422", "ai-3", "gpu02", "plane 3"),
    ]
    assert world.summary()[0] == ("8 of 8 ports proven, gpu01 on 2 of 4 planes (ai-2), gpu02 on 3 of 4 planes (ai-3)")
    assert any("at 50 % of its speed" in line for line in world.summary())


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_a_rail_without_any_plane_is_down(kind: str) -> None:
    """With one failure, which names all planes or members."""
    world = Planes(kind)
    world.cut(1, 2, 3, 4)
    if kind == "bond":
        next(row for row in world.infos[NODE]["interfaces"] if row["netdev"] == "rail1").update(carrier=False)
    world.lose(NODE, RAIL)
    document = world.document()
    failure = only_failure(document, "RV402", NODE, RAIL)
    for at in range(4):
        assert "eth_r0_p%d" % at in failure["found"]
    assert document["matrix"][NODE][RAIL] == "failed" and document["degraded_rails"] == []
    assert world.summary()[0].startswith("7 of 8 ports proven; 1 failed on ai-2")


def test_an_rdma_device_without_any_plane_is_down() -> None:
    """The driver still reports a carrier: the RDMA ports show that no plane has a link."""
    world = Planes("ports")
    world.cut(1, 2, 3, 4)
    for row in world.infos[NODE]["nics"]:
        row.update(carrier=True)
    failure = only_failure(world.document(), "RV407", NODE, RAIL)
    assert failure["found"].startswith("no plane has a link; plane 1 (roce_r0:3")


def test_the_interface_of_a_plane_without_link_does_not_fail_the_rail_alone() -> None:
    """Plane 1 has its netdev. Traffic decides: without it, the rail failed for its own reason."""
    for kind in ("functions", "ports"):
        world = Planes(kind)
        world.cut(1)
        assert codes(world) == [("RV422", NODE, RAIL)]
    assert world.document()["matrix"][NODE][RAIL] == "ok"
    world.lose(NODE, RAIL)
    document = world.document()
    assert [each["code"] for each in document["failures"]] == ["RV422", "RV801"]
    assert document["matrix"][NODE][RAIL] == "failed"
    assert not any("proven, gpu01" in line for line in world.summary())
    assert "ai-2 gpu01 has 3 of 4 planes, without plane 1" in world.summary()


# -- missing, slow and misnamed planes


def _no_function(world: Planes) -> None:
    (row,) = world.carriers(3)
    world.infos[NODE]["nics"].remove(row)
    world.infos[NODE]["lldp"].remove(world.neighbour(3))


def _no_netdev(world: Planes) -> None:
    world.carriers(3)[0].update(netdev=None, holders=["pod default/train"])


def _no_port(world: Planes) -> None:
    info = world.infos[NODE]
    info["rdma"] = [row for row in info["rdma"] if row["device"] != "roce_r0" or row["port"] < 9]


@pytest.mark.parametrize(
    ("kind", "harm", "lost", "reason"),
    [
        ("functions", _no_function, [3], "no PCI function 0000:18:00.2"),
        ("functions", _no_netdev, [3], "pod default/train"),
        ("ports", _no_port, [3, 4], "roce_r0 has no port 9"),
    ],
)
def test_a_plane_that_does_not_exist_is_missing(
    kind: str, harm: t.Callable[[Planes], None], lost: list[int], reason: str
) -> None:
    world = Planes(kind)
    harm(world)
    document = world.document()
    assert [(each["code"], each["what"][:7]) for each in document["failures"]] == [
        ("RV423", "plane %d" % plane) for plane in lost
    ]
    assert document["failures"][0]["found"] == reason
    assert document["degraded_rails"][0]["lost"] == lost
    # the configuration of the node differs from the plan
    assert [each[0] for each in codes(world, DRIFT)] == ["RV423"] * len(lost)


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_without_the_interface_the_rail_is_down(kind: str) -> None:
    """The interface is the netdev of plane 1, or the bond."""
    world = Planes(kind)
    info = world.infos[NODE]
    if kind == "bond":
        info["interfaces"] = [row for row in info["interfaces"] if row["netdev"] != "rail1"]
    else:
        info["nics"] = [row for row in info["nics"] if row["netdev"] != "eth_r0_p0"]
    world.lose(NODE, RAIL)
    if kind == "ports":
        # another netdev has its name: the function still exists
        only_failure(world.document(), "RV204", NODE, RAIL)
    else:
        only_failure(world.document(), {"functions": "RV201", "bond": "RV411"}[kind], NODE, RAIL)
    assert world.document()["matrix"][NODE][RAIL] == "failed"


def test_a_member_that_is_missing_in_the_bond_is_one_failure() -> None:
    world = Planes("bond")
    row = next(row for row in world.infos[NODE]["interfaces"] if row["netdev"] == "rail1")
    row["lower"].remove("eth_r0_p2")
    row["bond"]["members"] = [each for each in row["bond"]["members"] if each["netdev"] != "eth_r0_p2"]
    world.carriers(3)[0]["master"] = None
    document = world.document()
    only_failure(document, "RV413", NODE, RAIL)
    assert document["degraded_rails"][0]["lost"] == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_plane_is_named(kind: str) -> None:
    world = Planes(kind)
    world.carriers(4)[0].update({"rate": 100.0} if kind in ("ports", "inside") else {"speed": 100000})
    failure = only_failure(world.document(), "RV424", NODE, RAIL)
    assert (failure["what"][:7], failure["expected"], failure["found"]) == ("plane 4", "200 Gb/s", "100 Gb/s")
    assert world.document()["degraded_rails"] == []


# -- bandwidth


@pytest.mark.parametrize(
    ("kind", "floor"), [("ports", 695), ("functions", 695), ("bond", 695), ("inside", 177)], ids=KINDS
)
def test_the_bandwidth_floor_counts_all_planes(kind: str, floor: int) -> None:
    """An InfiniBand device reports its own rate, not the rate of each plane."""
    world = Planes(kind)
    for info in world.infos.values():
        for row in info["nics"]:
            row["pcie"] = {"speed": 64.0, "width": 16}
    for node in world.plans:
        for rail in ("gpu01", "gpu02"):
            for transfer in world.transfers(node, rail):
                transfer["gbits"] = 780.0
    assert codes(world) == []
    # half of the planes carry traffic, although all have a link
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = floor - 10.0
    failure = only_failure(world.document(), "RV853", NODE, RAIL)
    assert failure["expected"].startswith("%d Gb/s or more (limited by link of ai-" % floor), failure["expected"]
    assert failure["found"] == "%d.0 Gb/s" % (floor - 10)
    assert "over all planes" in failure["cause"]
    # with PCIe of a quarter of the speed, this is the limit
    for row in world.infos[NODE]["nics"]:
        row["pcie"] = {"speed": 16.0, "width": 16}
    assert codes(world) == ([] if floor > 177 else [("RV853", NODE, RAIL)])


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_a_lost_plane_lowers_the_floor(kind: str) -> None:
    """A plane of the other node counts too: between nodes without plane 1 and without plane 2, two planes remain."""
    world = Planes(kind, 2)
    for info in world.infos.values():
        for row in info["nics"]:
            row["pcie"] = {"speed": 64.0, "width": 16}
    for transfer in world.transfers(NODE, "gpu02"):
        transfer["gbits"] = 780.0
    world.cut(1)
    world.cut(2, node="ai-1")
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 355.0
    assert {code for code, _node, _rail in codes(world)} == {"RV422"}
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 310.0
    verdict = world.document()
    assert {each["code"] for each in verdict["failures"]} == {"RV422", "RV853"}
    slow = [row for row in verdict["measures"] if row["limited_by"] == "planes"]
    assert slow and {row["rail"] for row in slow} == {RAIL}
    (failure,) = [each for each in verdict["failures"] if each["code"] == "RV853"]
    assert "2 of 4 planes" in failure["expected"]


def test_a_plane_that_is_set_down_has_another_remedy() -> None:
    for kind in ("functions", "bond"):
        world = Planes(kind)
        world.carriers(2)[0].update(up=False)
        failure = only_failure(world.document(), "RV422", NODE, RAIL)
        assert failure["remedy"] == "set it up with 'ip link set eth_r0_p1 up'"


def test_netdevs_of_rdma_ports_in_another_order_are_named() -> None:
    world = Planes("ports")
    for node in world.plans.values():
        for port in node["ports"]:
            for row, at in zip(port["planes"]["ports"], range(4)):
                row["netdev"] = "eth_r%d_p%d" % (port["number"] - 1, at)
    assert codes(world) == []
    (two,), (three,) = world.carriers(2), world.carriers(3)
    two["netdev"], three["netdev"] = three["netdev"], two["netdev"]
    document = world.document()
    assert [(each["code"], each["what"][:7], each["expected"], each["found"]) for each in document["failures"][:2]] == [
        ("RV425", "plane 2", "eth_r0_p1", "eth_r0_p2"),
        ("RV425", "plane 3", "eth_r0_p2", "eth_r0_p1"),
    ]


# -- cabling


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_planes_on_the_leaves_of_each_other_are_crosswise(kind: str) -> None:
    world = Planes(kind)
    world.cross(1, 3)
    failure = only_failure(world.document(), "RV426", NODE, RAIL)
    assert failure["what"] == "planes 1, 3"
    assert failure["expected"] == "plane 1 on leaf-1-1 swp2, plane 3 on leaf-1-3 swp2"
    assert failure["found"].startswith("plane 1 (eth_r0_p0) on leaf-1-3.example.com swp2, plane 3")
    assert world.document()["matrix"][NODE][RAIL] == "ok"


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_a_plane_on_the_leaf_of_another_rail_is_named(kind: str) -> None:
    world = Planes(kind)
    world.neighbour(2).update(system="leaf-2-2", chassis="00:1b:54:c2:02:01")
    failure = only_failure(world.document(), "RV427", NODE, RAIL)
    assert (failure["what"], failure["expected"]) == ("plane 2", "plane 2 on leaf-1-2 swp2")


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_a_plane_on_another_port_of_its_leaf_is_named(kind: str) -> None:
    world = Planes(kind)
    world.neighbour(2).update(port="swp31")
    failure = only_failure(world.document(), "RV704", NODE, RAIL)
    assert (failure["what"], failure["found"]) == ("leaf port of plane 2", "leaf-1-2 swp31")


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_the_address_that_the_leaf_of_a_plane_announces_is_compared(kind: str) -> None:
    world = Planes(kind)
    port = world.port(NODE, RAIL)
    port["leaf"] = dict(port["leaf"] or {}, address="10.9.9.254")
    network = port["address"].partition("/")[2]
    world.neighbour(2).update(port_description="to ai-2, 10.9.9.254/" + network)
    assert world.document()["warnings"] == []
    world.neighbour(2).update(port_description="to ai-2, 10.8.8.254/" + network)
    (warning,) = world.document()["warnings"]
    assert (warning["code"], warning["node"], warning["rail"]) == ("RV706", NODE, RAIL)


def unnamed(world: Planes) -> Planes:
    """The file does not name the leaves."""
    for node in world.plans.values():
        for port in node["ports"]:
            for row in port["planes"]["ports"]:
                row["leaf"] = {"name": "su1-%s" % port["rail"], "port": None}
    return world


@pytest.mark.parametrize("kind", ["ports", "functions", "bond"])
def test_without_planned_leaves_planes_are_compared_with_other_nodes(kind: str) -> None:
    world = unnamed(Planes(kind))
    assert codes(world) == []
    world.cross(2, 4)
    failure = only_failure(world.document(), "RV426", NODE, RAIL)
    assert failure["what"] == "planes 2, 4" and failure["remedy"] == "swap the cables of these planes"
    world.cross(2, 4)
    world.neighbour(1).update(system="leaf-2-1", chassis="00:1b:54:c2:02:00")
    failure = only_failure(world.document(), "RV427", NODE, RAIL)
    assert failure["remedy"] == "plug it into the leaf of the same plane of the other nodes"


def test_two_nodes_that_differ_name_each_other() -> None:
    world = unnamed(Planes("ports", 2))
    world.cross(1, 2, node="ai-2")
    failure = only_failure(world.document(), "RV426", "ai-2", RAIL)
    assert failure["peer"] == "ai-1" and "ai-1" in failure["cause"]


def test_planes_without_lldp_are_counted() -> None:
    world = Planes("ports")
    for info in world.infos.values():
        info["lldp"] = [row for row in info["lldp"] if not row["netdev"].endswith("p3")]
    document = world.document()
    layer = next(each for each in document["layers"] if each["name"] == "cabling")
    assert document["failures"] == [] and layer["why_not"].startswith("8 ports receive no LLDP")


# -- the order of devices


def _with_vfs(world: Planes, node: str) -> None:
    """VFs of each plane: their functions, netdevs and RDMA devices, with names that sort before the PFs."""
    info = world.infos[node]
    for at, row in enumerate([row for row in info["nics"] if row["netdev"].startswith("eth_r")]):
        base = "%s.%d" % (row["pci"][:-4] + "0%d" % (1 + at % 4), 2)
        info["vfs"].append({"pf": row["pci"], "pf_netdev": row["netdev"], "index": 0, "pci": base, "attributes": None})
        device = {**info["rdma"][0], "device": "aa_vf%d" % at, "port": 1, "pci": base, "netdev": "avf%d" % at}
        info["rdma"].append({**device, "state": "DOWN", "physical_state": "DISABLED", "rate": 25.0})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_vfs_and_the_order_of_devices_do_not_matter(kind: str, seed: int) -> None:
    """VFs of plane 1 precede the PF of plane 2 in every list, or come anywhere else (https://github.com/NVIDIA/nccl/pull/2244)."""
    world = Planes(kind)
    _with_vfs(world, NODE)
    info = world.infos[NODE]
    for part in ("nics", "rdma", "lldp", "vfs"):
        if seed:
            random.Random(seed).shuffle(info[part])
        else:
            info[part].sort(key=lambda row: (row.get("device") or "", row.get("pci") or ""))
    assert codes(world) == []
    world.cut(2)
    if kind != "inside":
        world.cross(3, 4)
    found = world.document()["failures"]
    assert (found[0]["code"], found[0]["what"]) == ("RV422", LABELS[kind])
    if kind != "inside":
        assert [(each["code"], each["what"]) for each in found[1:]] == [("RV426", "planes 3, 4")]


@pytest.mark.parametrize("kind", KINDS)
def test_planes_are_observed_in_the_order_of_the_plan(kind: str) -> None:
    world = Planes(kind)
    random.Random(7).shuffle(world.infos[NODE]["rdma"])
    observed = plane_layer.observe(Live(world.infos[NODE]), world.port(NODE, RAIL))
    assert [plane.number for plane in observed] == [1, 2, 3, 4] and all(plane.up for plane in observed)


def test_planes_that_the_node_does_not_show_are_unknown() -> None:
    """One port for four planes, and no sub-device: verify reports nothing about them."""
    world = Planes("inside")
    for info in world.infos.values():
        info["rdma"] = [row for row in info["rdma"] if not row.get("parent")]
    assert codes(world) == []
    observed = plane_layer.observe(Live(world.infos[NODE]), world.port(NODE, RAIL))
    assert [plane.up for plane in observed] == [None] * 4
