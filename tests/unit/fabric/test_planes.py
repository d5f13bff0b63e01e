# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails with several NICs, and NICs with several planes: file, lint, plan, options, objects and reports."""

from __future__ import annotations

import csv
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.plan_diff import diff
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec

Row = t.Dict[str, t.Any]
INVENTORIES = Path(__file__).resolve().parents[3] / "inventories"

FUNCTIONS = [
    {"pci": "0000:03:00.0", "netdev": "r1p1"},
    {"pci": "0000:03:00.1", "netdev": "r1p2"},
    {"pci": "0000:03:00.2", "netdev": "r1p3"},
    {"pci": "0000:03:00.3", "netdev": "r1p4"},
]
ONE: Row = {"pci": "0000:03:00.0", "netdev": "r1", "rdma": "roce_r1"}
OF_FUNCTIONS: Row = {"rdma": "roce_r1", "planes": FUNCTIONS}
OF_PORTS: Row = {**ONE, "planes": [3, 6, 9, 12]}
OF_BOND: Row = {"rdma": "mlx5_bond_0", "bond": {"name": "bond1", "members": FUNCTIONS}}
FORMS = {"functions": OF_FUNCTIONS, "ports": OF_PORTS, "bond": OF_BOND, "internal": ONE}


def file(port: Row, rail: Row | None = None, general: Row | None = None, more: Row | None = None) -> bytes:
    """Return a file with one rail of four planes, over which its NIC distributes packets."""
    planes = {"count": 4, "balancing": "hardware"}
    addresses = {"subnet": "10.1.0.0/24", "pods": ".1-.100", "hosts": ".201-.250"}
    whole = {
        "plugin": "railyard.fabric.rails",
        "fabric": {"name": "ai", "attachment": "macvlan", "provider": "spiderpool", "mtu": 4200, **(general or {})},
        "units": {"su1": {"nodes": 4, "leaf": "r{n}-p{p}", "leaf_port": "swp{i}"}},
        "rails": {"gpu01": rail if rail is not None else {"planes": planes, **addresses}},
        "profiles": {"hgx": {"speed": 200, "ports": {"gpu01": port}}},
        "nodes": {"ai-[1:2]": {"profile": "hgx", "unit": "su1"}},
        **(more or {}),
    }
    return yaml.safe_dump(whole, sort_keys=False).encode()


def planned(raw: bytes) -> Row:
    outcome = lint(raw)
    assert outcome.plan, [each.text() for each in outcome.findings]
    return outcome.plan.document()


def codes(raw: bytes) -> list[str]:
    return [each.code for each in lint(raw).findings]


@pytest.mark.parametrize("form", FORMS)
def test_hardware_planes_have_one_address_and_a_leaf_port_each(form: str) -> None:
    document = planned(file(FORMS[form]))
    assert [rail["name"] for rail in document["rails"]] == ["gpu01"]
    assert document["rails"][0]["planes"] == {"balancing": "hardware", "count": 4}
    ports = [node["ports"] for node in document["nodes"]]
    assert [[port["address"] for port in each] for each in ports] == [["10.1.0.201/24"], ["10.1.0.202/24"]]
    planes = port_view.planes_of(ports[1][0])
    assert [(each["plane"], each["leaf"]["name"], each["leaf"]["port"]) for each in planes] == [
        (number, "r1-p%d" % number, "swp2") for number in (1, 2, 3, 4)
    ]
    numbers = [3, 6, 9, 12] if form == "ports" else [None] * 4
    assert [each["rdma_port"] for each in planes] == numbers
    pcis = [each["pci"] for each in FUNCTIONS] if form in ("functions", "bond") else [None] * 4
    assert [each["pci"] for each in planes] == pcis
    rows = list(csv.DictReader(plan_tables.files(document)["leaves.csv"].decode().splitlines()))
    assert [(row["leaf"], row["leaf_port"], row["node"], row["plane"]) for row in rows] == [
        ("r1-p%d" % plane, "swp%d" % node, "ai-%d" % node, str(plane)) for plane in (1, 2, 3, 4) for node in (1, 2)
    ]
    assert [leaf["name"] for leaf in document["units"][0]["leaves"]] == ["r1-p1", "r1-p2", "r1-p3", "r1-p4"]
    assert b"leaf r1-p4 port swp2" in topology(document)


@pytest.mark.parametrize("form", FORMS)
def test_the_writer_writes_what_the_reader_reads(form: str) -> None:
    plan = lint(file(FORMS[form])).plan
    assert plan
    again = lint(write(plan.fabric).encode()).plan
    assert again and again.document() == plan.document()


@pytest.mark.parametrize("name", ("hgx-b300-planes", "vera-rubin"))
def test_the_inventories_are_written_back(name: str) -> None:
    plan = lint((INVENTORIES / name / "fabric.yml").read_bytes()).plan
    assert plan
    again = lint(write(plan.fabric).encode()).plan
    assert again and again.document() == plan.document()


def test_the_summaries_count_nics_and_planes() -> None:
    heads = {
        name: plan_tables.head(planned((INVENTORIES / name / "fabric.yml").read_bytes()))[0]
        for name in ("hgx-b300-planes", "vera-rubin", "routed-31")
    }
    assert "8 rails x 2 planes (hardware), 64 ports" in heads["hgx-b300-planes"]
    assert "4 rails x 2 NICs x 8 planes (hardware), 144 ports" in heads["vera-rubin"]
    assert "8 rails x 2 planes, 2,048 ports" in heads["routed-31"]


def test_every_function_of_a_plane_is_prepared_and_only_the_interface_has_addresses() -> None:
    ports = planned(file(OF_FUNCTIONS))["nodes"][0]["ports"]
    pcis = [each["pci"] for each in FUNCTIONS]
    for module in ("pci_tuning", "roce_qos", "rail_limits"):
        assert [row["pci"] for row in port_options(ports, module)] == pcis, module
    rows = port_options(ports, "rail_ports")
    assert [row["rail"] for row in rows] == ["gpu01", "gpu01-plane2", "gpu01-plane3", "gpu01-plane4"]
    assert [(row["pci"], row["netdev"], row["mtu"]) for row in rows] == [
        (each["pci"], each["netdev"], 4200) for each in FUNCTIONS
    ]
    assert [row.get("address") for row in rows] == ["10.1.0.201/24", None, None, None]
    assert not any(key in row for row in rows[1:] for key in ("table", "rule_priority", "gateway", "lower"))
    links = port_options(ports, "rdma_link")
    assert [(row["name"], row["pci"]) for row in links] == [("roce_r1", "0000:03:00.0")]


def test_planes_that_are_ports_of_a_device_are_one_function() -> None:
    ports = planned(file(OF_PORTS))["nodes"][0]["ports"]
    assert ports[0]["rdma"] == {"name": "roce_r1", "type": "hardware", "port": 3}
    for module in ("pci_tuning", "roce_qos", "rail_limits", "rail_ports"):
        assert [row["pci"] for row in port_options(ports, module)] == ["0000:03:00.0"], module


def _slot(port: int) -> Row:
    return {"slot": "4", "port": port, "netdev": "r1p%d" % port}


def test_functions_of_planes_are_found_by_slot() -> None:
    port = {"rdma": "roce_r1", "planes": [_slot(1), _slot(2)]}
    planes = {"count": 2, "balancing": "hardware"}
    rail = {"planes": planes, "subnet": "10.1.0.0/24", "hosts": ".1-.9", "pods": ".20-.99"}
    node = planned(file(port, rail))["nodes"][0]
    nics = [
        {"pci": "0000:03:00.%d" % at, "netdev": "ens4f%d" % at, "slot": "4", "rdma": ["mlx5_%d" % at]} for at in (0, 1)
    ]
    found = identify(node, nics)["ports"][0]
    assert [each["pci"] for each in port_view.planes_of(found)] == ["0000:03:00.0", "0000:03:00.1"]
    assert (found["pci"], found["netdev"]) == ("0000:03:00.0", "r1p1")


@pytest.mark.parametrize("form", FORMS)
def test_the_agent_gets_what_carries_each_plane(form: str) -> None:
    general = {"provider": "agent", "slots": {"per_rail": 2}}
    spec = planned(file(FORMS[form], general=general))["nodes"][0]["agent"]
    read = agent_spec.parse_spec(spec).rails[0]
    pcis = tuple(each["pci"] for each in FUNCTIONS)
    wanted = {"ports": [(3, None), (6, None), (9, None), (12, None)], "functions": [(None, pci) for pci in pcis]}
    assert [(each.rdma_port, each.pci) for each in read.planes] == wanted.get(form, [])
    assert read.functions == (pcis if form in ("functions", "bond") else pcis[:1])
    assert [slot.address and str(slot.address) for slot in read.slots] == ["10.1.0.1/24", "10.1.0.2/24"]


def test_objects_have_one_pool_per_rail_and_all_functions() -> None:
    plan = lint((INVENTORIES / "hgx-b300-planes" / "fabric.yml").read_bytes()).plan
    assert plan
    text = render(plan.document(), {"registry": "registry.example"})
    whole = "\n".join(text.values())
    assert all("gpu%02dp%d" % (rail, plane) in whole for rail in range(1, 9) for plane in (1, 2))
    pools = {row[1] for row in _objects(plan.document()) if row[0] == "pool"}
    assert len(pools) == 8


def _objects(document: Row) -> list[tuple[t.Any, ...]]:
    rows = list(csv.reader(plan_tables.files(document)["objects.csv"].decode().splitlines()))
    return [tuple(row) for row in rows[1:]]


WRONG: dict[str, tuple[bytes, list[str]]] = {
    "three functions for four planes": (file({"rdma": "roce_r1", "planes": FUNCTIONS[:3]}), ["RY441"]),
    "five ports for four planes": (file({**ONE, "planes": [1, 2, 3, 4, 5]}), ["RY441"]),
    "three members for four planes": (
        file({"rdma": "mlx5_bond_0", "bond": {"name": "bond1", "members": FUNCTIONS[:3]}}),
        ["RY441"],
    ),
    "planes of a rail without planes": (
        file(OF_PORTS, {"subnet": "10.1.0.0/24", "pods": ".1-.100", "hosts": ".201-.250"}),
        ["RY441"],
    ),
    "planes beside a bond": (file({**OF_BOND, "planes": [1, 2, 3, 4]}), ["RY441"]),
    "one port twice": (file({**ONE, "planes": [3, 6, 6, 12]}), ["RY442"]),
    "one function twice": (file({"rdma": "roce_r1", "planes": [*FUNCTIONS[:3], FUNCTIONS[0]]}), ["RY442"]),
    "ports without a device": (file({"pci": "0000:03:00.0", "netdev": "r1", "planes": [3, 6, 9, 12]}), ["RY443"]),
    "host-device": (
        file(OF_FUNCTIONS, general={"attachment": "host-device", "provider": "network-operator"}),
        ["RY444"],
    ),
    "sriov": (
        file(OF_FUNCTIONS, general={"attachment": "sriov", "provider": "network-operator", "vfs": {"count": 4}}),
        ["RY444"],
    ),
    "soft device with ports": (
        file(OF_PORTS, more={"profiles": {"hgx": {"soft_rdma": "rxe", "ports": {"gpu01": OF_PORTS}}}}),
        ["RY445"],
    ),
    "functions of two cards": (
        file({"rdma": "roce_r1", "planes": [*FUNCTIONS[:3], {"pci": "0000:04:00.0", "netdev": "r2"}]}),
        ["RY446"],
    ),
    "three planes": (
        file(ONE, {"planes": {"count": 3, "balancing": "hardware"}, "subnet": "10.1.0.0/24", "hosts": ".1-.9"}),
        ["RY419"],
    ),
    "three NICs": (file(ONE, {"nics": 3, "subnet": "10.1.0.0/24", "hosts": ".1-.9", "pods": ".20-.99"}), ["RY419"]),
    "one leaf port for all planes": (
        file(OF_PORTS, more={"units": {"su1": {"nodes": 4, "leaf": "r{n}", "leaf_port": "swp{i}"}}}),
        ["RY427"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_planes_are_reported_once(what: str) -> None:
    raw, wanted = WRONG[what]
    assert codes(raw) == wanted
    assert all(each.remedy for each in lint(raw).findings)


def test_two_rails_with_one_function_are_reported() -> None:
    planes = {"count": 2, "balancing": "hardware"}
    rails = {
        "gpu0%d" % at: {"planes": planes, "subnet": "10.%d.0.0/24" % at, "hosts": ".1-.9", "pods": ".20-.99"}
        for at in (1, 2)
    }
    ports = {"gpu01": {"planes": FUNCTIONS[:2]}, "gpu02": {"planes": [FUNCTIONS[2], {"pci": "0000:03:00.1"}]}}
    assert codes(file(ONE, more={"rails": rails, "profiles": {"hgx": {"ports": ports}}})) == ["RY442"]


def test_software_planes_on_two_cards_are_reported() -> None:
    rail = {"planes": 2, "subnet": "10.1.{p}.0/24", "hosts": ".1-.9", "pods": ".20-.99"}
    ports = {
        "gpu01p1": {"pci": "0000:03:00.0", "netdev": "r1"},
        "gpu01p2": {"pci": "0000:04:00.0", "netdev": "r2"},
    }
    assert codes(file(ONE, rail, more={"profiles": {"hgx": {"ports": ports}}})) == ["RY446"]
    ports["gpu01p2"]["pci"] = "0000:03:00.1"
    assert codes(file(ONE, rail, more={"profiles": {"hgx": {"ports": ports}}})) == []


def test_software_planes_with_one_netdev_are_reported_with_the_other_balancing() -> None:
    rail = {"planes": 2, "subnet": "10.1.{p}.0/24", "hosts": ".1-.9", "pods": ".20-.99"}
    ports = {name: {"netdev": "r1"} for name in ("gpu01p1", "gpu01p2")}
    found = lint(file(ONE, rail, more={"profiles": {"hgx": {"ports": ports}}})).findings
    assert [(each.code, "balancing: hardware} at gpu01" in each.remedy) for each in found] == [("RY404", True)]


def test_infiniband_planes_are_internal_and_have_one_cable() -> None:
    general = {"attachment": "ipoib", "mtu": 4092}
    assert codes(file(OF_PORTS, general=general)) == ["RY445"]
    leaf = {"units": {"su1": {"nodes": 4, "leaf": "r{n}", "leaf_port": "swp{i}"}}}
    document = planned(file(ONE, general=general, more=leaf))
    port = document["nodes"][0]["ports"][0]
    assert len(port_view.planes_of(port)) == 4 and port_view.cables(port) == (port,)
    rows = list(csv.DictReader(plan_tables.files(document)["leaves.csv"].decode().splitlines()))
    assert [(row["leaf"], row["leaf_port"]) for row in rows] == [("r1", "swp1"), ("r1", "swp2")]


def test_groups_and_nodes_override_planes() -> None:
    more = {
        "groups": {"second": {"ports": {"gpu01": {"planes": [1, 4, 7, 10]}}}},
        "nodes": {
            "ai-1": {"profile": "hgx", "unit": "su1"},
            "ai-2": {"profile": "hgx", "unit": "su1", "groups": ["second"]},
            "ai-3": {"profile": "hgx", "unit": "su1", "ports": {"gpu01": {"planes": [2, 5, 8, 11]}}},
            "ai-4": {"profile": "hgx", "unit": "su1", "ports": {"gpu01": {"planes": None}}},
        },
    }
    document = planned(file(OF_PORTS, more=more))
    numbers = [[each["rdma_port"] for each in port_view.planes_of(node["ports"][0])] for node in document["nodes"]]
    assert numbers == [[3, 6, 9, 12], [1, 4, 7, 10], [2, 5, 8, 11], [None] * 4]
    text = write(lint(file(OF_PORTS, more=more)).plan.fabric)  # type: ignore[union-attr]
    assert planned(text.encode()) == document


def test_the_comparison_of_plans_names_the_plane() -> None:
    changes = diff(planned(file(OF_PORTS)), planned(file({**ONE, "planes": [3, 6, 9, 11]})))
    assert [(each.what, each.subject, each.attribute, each.before, each.after) for each in changes][:1] == [
        ("plane", "ai-1 gpu01 4", "rdma_port", 12, 11)
    ]


def test_nics_are_numbered_like_rails_before_planes() -> None:
    rail = {"nics": 2, "planes": 2, "subnet": "10.{c}.{p}.0/24", "hosts": ".1-.9", "pods": ".20-.99"}
    names = ["gpu01n1p1", "gpu01n1p2", "gpu01n2p1", "gpu01n2p2"]
    ports = {name: {"netdev": name, "pci": "0000:%02x:00.%d" % divmod(at, 2)} for at, name in enumerate(names)}
    more = {
        "profiles": {"hgx": {"ports": ports}},
        "units": {"su1": {"nodes": 4, "leaf": "r{n}-c{c}-p{p}", "leaf_port": "swp{i}"}},
    }
    document = planned(file(ONE, rail, more=more))
    keys = ("name", "number", "nic", "plane", "subnet")
    assert [tuple(each[key] for key in keys) for each in document["rails"]] == [
        ("gpu01n1p1", 1, 1, 1, "10.1.1.0/24"),
        ("gpu01n1p2", 2, 1, 2, "10.1.2.0/24"),
        ("gpu01n2p1", 3, 2, 1, "10.2.1.0/24"),
        ("gpu01n2p2", 4, 2, 2, "10.2.2.0/24"),
    ]
    assert "1 rail x 2 NICs x 2 planes" in plan_tables.head(document)[0]
    assert [port["leaf"]["name"] for port in document["nodes"][0]["ports"]] == [
        "r1-c1-p1",
        "r1-c1-p2",
        "r1-c2-p1",
        "r1-c2-p2",
    ]


SHAPES = st.tuples(
    st.integers(1, 3), st.sampled_from((1, 2, 4)), st.sampled_from((1, 2, 4, 8)), st.booleans(), st.booleans()
).filter(lambda shape: shape[0] * shape[1] * (1 if shape[3] else shape[2]) <= 64)


@given(SHAPES, st.integers(1, 4))
def test_no_address_table_or_leaf_port_is_planned_twice(shape: tuple[int, int, int, bool, bool], nodes: int) -> None:
    count, nics, planes, hardware, common = shape
    entries = count * nics * (1 if hardware else planes)
    rails: Row = {
        "count": count,
        "name": "gpu{n:02}",
        "nics": nics,
        "planes": {"count": planes, "balancing": "hardware" if hardware else "software"},
    }
    general: Row = {}
    if common and entries > 1:
        rails.update(subnet="10.0.0.0/16", hosts=".0.1-.3.254", pods=".4.0-.99.255", numbering="rail")
        general = {"max_nodes": 8}
    else:
        subnet = "10.{n}.{c}.0/24" if hardware else "{c+9}.{n}.{p}.0/24"
        rails.update(subnet=subnet, hosts=".1-.20", pods=".40-.250")
    own = [""] if hardware or planes == 1 else ["p%d" % plane for plane in range(1, planes + 1)]
    cards = [""] if nics == 1 else ["n%d" % nic for nic in range(1, nics + 1)]
    names = ["gpu%02d%s%s" % (rail, nic, plane) for rail in range(1, count + 1) for nic in cards for plane in own]
    ports = {
        name: {"netdev": "n%d" % at, "pci": "0000:%02x:00.%d" % divmod(at, planes if not hardware else 1)}
        for at, name in enumerate(names)
    }
    raw = file(
        ONE,
        general=general,
        more={
            "rails": rails,
            "units": {"su1": {"nodes": 4, "leaf": "r{n}-p{p}", "leaf_port": "swp{i}c{c}"}},
            "profiles": {"hgx": {"ports": ports}},
            "nodes": {"ai-[1:%d]" % nodes: {"profile": "hgx", "unit": "su1"}},
        },
    )
    document = planned(raw)
    assert [rail["name"] for rail in document["rails"]] == names and len(names) == entries
    of_ports = [port for node in document["nodes"] for port in node["ports"]]
    addresses = [port["address"].partition("/")[0] for port in of_ports]
    assert len(set(addresses)) == len(addresses) == entries * nodes
    assert len({rail["table"] for rail in document["rails"]}) == entries
    cables = [
        (leaf["name"], leaf["port"])
        for port in of_ports
        for each in port_view.cables(port)
        for leaf in [port_view.leaf_of(port, each)]
    ]
    assert len(set(cables)) == len(cables) == count * nics * planes * nodes
    text = write(lint(raw).plan.fabric)  # type: ignore[union-attr]
    assert planned(text.encode()) == document


_SUBNET = {"subnet": "10.1.0.0/24", "pods": ".1-.100", "hosts": ".201-.250"}


@pytest.mark.parametrize(
    ("planes", "code"),
    [
        (0, "RY419"),
        (True, "RY419"),
        ({"count": 16, "balancing": "hardware"}, "RY419"),
        ({"balancing": "hardware"}, "RY111"),
        ({"count": 4, "balancing": "hw"}, "RY114"),
    ],
)
def test_wrong_planes_of_a_rail_are_the_only_finding(planes: t.Any, code: str) -> None:
    """The list of planes at its port is not the cause."""
    assert codes(file(OF_PORTS, {"planes": planes, **_SUBNET})) == [code]


@pytest.mark.parametrize(
    ("rail", "other"),
    [
        ({"nics": 2, "subnet": "10.{c}.0.0/24"}, "gpu01n1"),
        ({"planes": 2, "subnet": "10.{p}.0.0/24"}, "gpu01p2"),
        ({"nics": 2, "planes": 2, "subnet": "10.{c}.{p}.0/24"}, "gpu01n2p1"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_rail_with_the_name_of_a_part_of_another_is_reported(rail: Row, other: str, first: bool) -> None:
    rails = {"gpu01": {**rail, "hosts": ".201-.250"}, other: {"subnet": "10.9.0.0/24", "hosts": ".201-.250"}}
    rails = rails if first else dict(reversed(list(rails.items())))
    found = [each for each in lint(file(ONE, more={"rails": rails})).findings if each.code == "RY202"]
    assert [each.message for each in found] == ["%s is also the name of a NIC or plane of gpu01" % other]


def test_two_rails_may_not_have_parts_of_one_name() -> None:
    rails = {
        "gpu01": {"nics": 2, "planes": 2, "subnet": "10.{c}.{p}.0/24", "hosts": ".201-.250"},
        "gpu01n1": {"planes": 2, "subnet": "10.9.{p}.0/24", "hosts": ".201-.250"},
    }
    found = [each for each in lint(file(ONE, more={"rails": rails})).findings if each.code == "RY202"]
    assert found and found[0].message == "gpu01n1p1 belongs to gpu01, and to gpu01n1"


def test_a_port_of_a_rail_with_parts_is_not_misspelt() -> None:
    rail = {"nics": 2, "subnet": "10.{c}.0.0/24", "hosts": ".201-.250"}
    (found,) = [each for each in lint(file(ONE, rail)).findings if each.code == "RY402"]
    assert found.remedy == "write a port for each of gpu01n1, gpu01n2"


def test_one_listed_plane_is_a_function_or_port_of_its_own() -> None:
    raw = file({**ONE, "planes": [3]}, {"planes": {"count": 1, "balancing": "hardware"}, **_SUBNET})
    (found,) = lint(raw).findings
    assert found.code == "RY441" and found.remedy.startswith("write its RDMA port as rdma: DEVICE:N")


@pytest.mark.parametrize("form", ["functions", "ports", "internal"])
def test_planes_of_one_node_on_other_functions(form: str) -> None:
    """The first plane of this node has the interface, and not the first plane of the profile."""
    name = "r1p1" if form == "functions" else "r1"
    own = [{"pci": "0000:09:00.%d" % at, "netdev": "own%d" % at if at else name} for at in range(4)]
    override = {"ai-2": {"profile": "hgx", "unit": "su1", "ports": {"gpu01": {"planes": own}}}}
    nodes = {"ai-1": {"profile": "hgx", "unit": "su1"}, **override}
    plan = lint(file(FORMS[form], more={"nodes": nodes})).plan
    assert plan
    document = plan.document()
    one, two = (node["ports"][0] for node in document["nodes"])
    assert (one["pci"], one["netdev"]) == ("0000:03:00.0", name)
    assert (two["pci"], two["netdev"]) == ("0000:09:00.0", name)
    again = lint(write(plan.fabric).encode()).plan
    assert again and again.document() == document


@pytest.mark.parametrize(
    ("name", "rails"),
    [
        ("hgx-b300-planes", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("vera-rubin", [0, 0, 1, 1, 2, 2, 3, 3]),
        ("gb300-rack", [0, 1, 2, 3]),
    ],
)
def test_nccl_gets_the_rail_of_each_nic(name: str, rails: list[int]) -> None:
    """The NICs of a rail have its number. Planes that the NIC balances have none."""
    node = planned((INVENTORIES / name / "fabric.yml").read_bytes())["nodes"][0]
    found = port_view.hca_ports(port_view.compute_ports(node["ports"]))
    assert [(each.rail, each.plane) for each in found] == [(rail, None) for rail in rails]
