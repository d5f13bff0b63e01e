# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's tables and files, and what two plans differ in."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import typing as t
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_diff, plan_rows, plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import text_table

from .plan_documents import document, svg, words_of


def _csv(raw: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(raw.decode("utf-8"))))


# -- tables and files


@pytest.mark.parametrize("width", [80, 100])
def test_columns_of_the_capacity_are_aligned(width: int) -> None:
    lines = plan_tables.as_table(document(4, 8), 1, "", width).splitlines()
    at = lines.index("CAPACITY") + 1
    table = lines[at : lines.index("", at)]
    assert "pods" in table[0] and max(map(len, table)) <= width
    (row,) = (line for line in table if line.startswith("  gpu"))
    for column in ("addresses", "pods"):
        end = table[0].index(column) + len(column)
        assert row[end - 1].isdigit() and row[end : end + 2].strip() == ""


def test_every_port_is_in_the_files_with_its_names_and_addresses() -> None:
    made = document(4, 2, units=2)
    files = plan_tables.files(made)
    assert json.loads(files["plan.json"]) == made
    ports = _csv(files["ports.csv"])
    assert [(row["node"], row["rail"]) for row in ports] == [
        (node["name"], port["rail"]) for node in made["nodes"] for port in node["ports"]
    ]
    for row, port in zip(ports, (port for node in made["nodes"] for port in node["ports"])):
        assert (row["address"], row["gateway"], row["mtu"]) == (port["address"], port["gateway"], "9000")
        assert row["rdma"] == port["rdma"]["name"] and row["pods_first"] == port["pods"]["first"]
        assert row["network"] == port["names"]["network"] and row["leaf_port"] == port["leaf"]["port"]
    leaves = _csv(files["leaves.csv"])
    assert len(leaves) == len(ports)
    assert {(row["leaf"], row["leaf_port"]) for row in leaves} == {
        (port["leaf"]["name"], port["leaf"]["port"]) for node in made["nodes"] for port in node["ports"]
    }
    assert leaves[0]["prefix"] == made["nodes"][0]["ports"][0]["pods"]["subnet"]
    assert leaves[0]["qos_class"] == "roce-p3-dscp26" and leaves[0]["vlan"] == "untagged"


def test_an_object_is_listed_once_and_counts_its_nodes() -> None:
    made = document(3, 2)
    objects = _csv(plan_tables.files(made)["objects.csv"])
    assert len({(row["kind"], row["name"]) for row in objects}) == len(objects)
    pools = [row for row in objects if row["kind"] == "pool"]
    assert len(pools) == 6 and all(row["nodes"] == "1" and row["node"] for row in pools)
    networks = [row for row in objects if row["kind"] == "network"]
    assert [(row["name"], row["nodes"], row["node"]) for row in networks] == [
        ("gpu01-sriov", "3", ""),
        ("gpu02-sriov", "3", ""),
    ]


def test_an_object_whose_rail_is_named_alike_for_all_nodes_is_not_one_nodes() -> None:
    made = document(2, 1)
    made["nodes"][1]["profile"] = "other"
    policy = next(row for row in plan_rows.objects(made) if row[0] == "policy")
    fields = dict(zip(plan_rows.OBJECTS, policy))
    assert fields["nodes"] == 2 and fields["profile"] is None and fields["node"] is None


@pytest.mark.parametrize(("nodes", "units"), [(2, 0), (40, 2)])
def test_the_tables_fit_and_name_omitted_rows(nodes: int, units: int) -> None:
    made = document(nodes, 8, units)
    table, leaves = plan_tables.as_table(made, 64), plan_tables.leaf_table(made, 64)
    assert max(len(line) for fields in (table, leaves) for line in fields.splitlines()) <= text_table.WIDTH
    left = nodes * 8 - 64
    assert ("and %d more ports: see ports.csv" % left in table) == (left > 0)
    assert ("and %d more leaf ports: see leaves.csv" % left in leaves) == (left > 0)
    addresses = re.findall(r"10\.\d+\.\d+\.\d+/27", table)
    assert len(addresses) == min(64, nodes * 8)


def _section(table: str, title: str) -> list[str]:
    return table.split("\n%s\n" % title)[1].split("\n\n")[0].splitlines()[1:]


def test_each_table_is_cut_by_itself_and_names_the_file() -> None:
    table = plan_tables.as_table(document(4, 12), 8, "out/")
    for title, kind, file in (("NETWORKS", "networks", "objects"), ("POOLS", "pools", "objects")):
        *shown, more = _section(table, title)
        assert len(shown) == 8 and re.search(r"and \d+ more %s: see out/%s.csv" % (kind, file), more)
    assert "and 40 more ports: see out/ports.csv" in table


def test_rails_of_the_same_capacity_are_one_row() -> None:
    raw = (ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_bytes()
    made = _planned(raw)
    (row,) = _section(plan_tables.as_table(made, 8), "CAPACITY")
    assert row.split()[0] == "gpu01-gpu08"
    made["rails"][7]["capacity"]["pods"] = 7
    first, second = _section(plan_tables.as_table(made, 8), "CAPACITY")
    assert first.split()[0] == "gpu01-gpu07" and second.split()[0] == "gpu08"


def test_rails_without_addresses_have_no_table() -> None:
    made = document(2, 2)
    for node in made["nodes"]:
        for port in node["ports"]:
            port.update(address=None, address6=None, gateway=None, pods=None, table=101)
    for rail in made["rails"]:
        rail.update(subnet=None, subnet6=None, table=101)
    assert "101" not in plan_tables.as_table(made, 8) and "table" not in plan_tables.as_table(made, 8)
    assert {row["table"] for row in _csv(plan_tables.files(made)["ports.csv"])} == {""}


@pytest.mark.parametrize(("planes", "fields"), [(1, "8 rails, "), (2, "8 rails x 2 planes, ")])
def test_planes_are_counted_apart_from_rails(planes: int, fields: str) -> None:
    assert fields in plan_tables.head(document(2, 8, 0, planes))[0]


def test_without_names_of_leaves_none_is_shown() -> None:
    made = document(2, 2)
    for node in made["nodes"]:
        for port in node["ports"]:
            port["leaf"] = {"name": None, "port": None, "aggregate": "192.168.5.0/30"}
    page = plan_tables.files(made)["leaves.md"].decode("utf-8")
    for text_of in (plan_tables.leaf_table(made, 1), page):
        assert "leaf" not in text_of.lower().replace("leaves.csv", "") and "advertises" not in text_of


def test_a_table_of_both_families_folds_between_addresses() -> None:
    made = document(1, 1)
    six = "fd00:172:16:11::9abc/64"
    made["nodes"][0]["ports"][0].update(address6=six, gateway6="fd00:172::1")
    table = plan_tables.as_table(made, 10)
    assert max(map(len, table.splitlines())) <= text_table.WIDTH
    assert six in table and "fd00:172::1" in table


def test_a_pool_without_addresses_gives_no_object() -> None:
    made = document(1, 1)
    made["nodes"][0]["ports"][0]["pods"] = None
    assert "pool" not in {row[0] for row in plan_rows.objects(made)}


def test_infiniband_without_addresses_has_rows_too() -> None:
    made = document(2, 2)
    for node in made["nodes"]:
        for port in node["ports"]:
            port.update(address=None, gateway=None, pods=None, vfs=None, names=None, rdma=None)
    for rail in made["rails"]:
        rail.update(subnet=None)
    made["fabric"]["link_layer"] = "infiniband"
    files = plan_tables.files(made)
    assert len(_csv(files["ports.csv"])) == 4
    assert [row["vlan"] for row in _csv(files["leaves.csv"])] == [""] * 4
    assert plan_tables.as_table(made, 10) and plan_tables.leaf_table(made, 10) and topology(made)


def test_a_leafs_own_address_is_the_gateway_of_its_link() -> None:
    made = document(1, 1, units=1)
    port = made["nodes"][0]["ports"][0]
    port.update(address="10.1.0.0/31", gateway=None)
    port["leaf"]["address"] = "10.1.0.1/31"
    (row,) = _csv(plan_tables.files(made)["leaves.csv"])
    assert (row["prefix"], row["gateway"]) == ("10.1.0.0/31", "10.1.0.1")


def test_vlans_of_vfs_are_the_leaf_ports() -> None:
    made = document(1, 1)
    for vlan, vf in zip((30, 20), made["nodes"][0]["ports"][0]["vfs"]["attributes"]):
        vf["vlan"] = vlan
    assert _csv(plan_tables.files(made)["leaves.csv"])[0]["vlan"] == "20,30"


def test_the_markdown_page_has_every_leaf_port() -> None:
    made = document(6, 2, units=2)
    page = plan_tables.files(made)["leaves.md"].decode("utf-8")
    assert page.count("\n## Leaf ") == 4
    assert sum(line.startswith("| swp") for line in page.splitlines()) == 12


# -- the worked inventories

ROOT = Path(__file__).resolve().parents[3]
WORKED = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))


def _planned(raw: bytes) -> dict[str, t.Any]:
    outcome = lint(raw)
    assert outcome.plan, [finding.text() for finding in outcome.errors]
    return outcome.plan.document()


@pytest.mark.parametrize("name", WORKED)
def test_every_worked_inventory_can_be_read_in_every_form(name: str) -> None:
    made = _planned((ROOT / "inventories" / name / "fabric.yml").read_bytes())
    files = plan_tables.files(made)
    assert json.loads(files["plan.json"]) == made
    ports = plan_tables.counts(made)["ports"]
    assert len(_csv(files["ports.csv"])) == ports
    cables = sum(len(functions(port)) for node in made["nodes"] for port in node["ports"])
    assert len(_csv(files["leaves.csv"])) == cables
    for row in _csv(files["leaves.csv"]):
        assert row["node"] and row["rail"] and row["mtu"] and (row["prefix"] or row["prefix6"] or not row["gateway"])
    objects = _csv(files["objects.csv"])
    kinds = {row["kind"] for row in objects}
    wanted = {"none": set(), "agent": {"resource"}}.get(made["fabric"]["provider"], {"network", "resource"})
    assert kinds >= wanted and bool(kinds) == bool(wanted)
    for fields in (plan_tables.as_table(made, ports), plan_tables.leaf_table(made, ports)):
        assert max(map(len, fields.splitlines())) <= text_table.WIDTH
    assert plan_diff.diff(json.loads(files["plan.json"]), made) == []
    assert made["fabric"]["name"] in words_of(svg(topology(made)))


def test_nodes_that_are_added_renumber_no_node() -> None:
    raw = (ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_text()
    assert "[1:2]" in raw
    changes = plan_diff.diff(_planned(raw.encode()), _planned(raw.replace("[1:2]", "[1:5]").encode()))
    nodes = [change for change in changes if change.what == "node"]
    assert [change.kind for change in nodes] == [plan_diff.ADDED] * 3
    assert all(change.what == "rail" and ".needed" in change.attribute for change in changes if change not in nodes)


# -- what two plans differ in

BASE = document(3, 2, units=1)


def _places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """The path of every single value."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for at, inner in enumerate(value):
            yield from _places(inner, (*path, at))
    else:
        yield path


def _put(value: t.Any, path: tuple[t.Any, ...], new: t.Any) -> None:
    for part in path[:-1]:
        value = value[part]
    value[path[-1]] = new


# What an item is known by is not an attribute: another name is another item. Tested separately.
KNOWN_BY = {"name", "rail", "rails", "attachment", "index", "format", "other_ports", "routes"}
PLACES = [path for path in _places(BASE) if path[-1] not in KNOWN_BY or path[0] == "fabric" and path[-1] != "rails"]


@given(st.sampled_from(PLACES), st.sampled_from(["other", 4711, ["x"], None]))
def test_every_change_of_a_value_shows_up_once(path: tuple[t.Any, ...], new: t.Any) -> None:
    changed = copy.deepcopy(BASE)
    _put(changed, path, new)
    old: t.Any = BASE
    for part in path:
        old = old[part]
    assume(not (old in (None, [], {}) and new is None))
    (change,) = plan_diff.diff(BASE, changed)
    assert change.after == new and change.before == old
    assert change.attribute.split(".")[-1] == path[-1]
    back = plan_diff.diff(changed, BASE)
    assert [(each.before, each.after) for each in back] == [(new, old)]


@given(st.lists(st.integers(0, 9), unique=True, max_size=9), st.lists(st.integers(0, 9), unique=True, max_size=9))
def test_added_and_removed_nodes_are_reported_once(gone: list[int], come: list[int]) -> None:
    whole = document(10, 1)
    old = dict(whole, nodes=[node for at, node in enumerate(whole["nodes"]) if at not in come])
    new = dict(whole, nodes=[node for at, node in reversed(list(enumerate(whole["nodes"]))) if at not in gone])
    changes = plan_diff.diff(old, new)
    names = {"ai-%03d" % (at + 1) for at in range(10)}
    before, after = {node["name"] for node in old["nodes"]}, {node["name"] for node in new["nodes"]}
    assert {change.subject for change in changes if change.kind == plan_diff.ADDED} == after - before
    assert {change.subject for change in changes if change.kind == plan_diff.REMOVED} == before - after
    assert len(changes) == len(before ^ after) and before | after <= names


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 2))
def test_a_plan_does_not_differ_from_itself(nodes: int, rails: int, units: int) -> None:
    made = document(nodes, rails, units)
    assert plan_diff.diff(made, copy.deepcopy(made)) == []
    assert plan_diff.diff(plan_diff.load(plan_tables.as_json(made), "f"), made) == []


def test_empty_keys_do_not_change_a_plan() -> None:
    old = copy.deepcopy(BASE)
    for node in old["nodes"]:
        for port in node["ports"]:
            del port["routes"], port["address6"], port["match"]
    assert plan_diff.diff(old, BASE) == []


def test_a_node_of_another_name_at_the_same_place_is_renamed() -> None:
    new = copy.deepcopy(BASE)
    new["nodes"][1]["name"] = "jupiter"
    new["nodes"][1]["ports"][0]["mtu"] = 1500
    first, second = plan_diff.diff(BASE, new)
    assert (first.kind, first.what, first.before, first.after) == (plan_diff.RENAMED, "node", "ai-su1-002", "jupiter")
    assert (second.kind, second.subject, second.attribute) == (plan_diff.CHANGED, "jupiter gpu01", "mtu")


def test_a_rail_and_a_unit_of_another_name_are_renamed_with_all_that_follows() -> None:
    raw = json.dumps(BASE).replace('"gpu02"', '"east"').replace('"su1"', '"pod1"')
    changes = plan_diff.diff(BASE, json.loads(raw))
    assert {(change.kind, change.what, change.attribute, change.after) for change in changes} == {
        (plan_diff.RENAMED, "rail", "", "east"),
        (plan_diff.RENAMED, "rail", "base", "east"),
        (plan_diff.RENAMED, "port", "base", "east"),
        (plan_diff.RENAMED, "unit", "", "pod1"),
    }


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("gpu02", "gpu22", {plan_diff.RENAMED}),
        ("gpu01: {subnet: 172.16.11.0/24", "gpu01: {subnet: 172.16.31.0/24", {plan_diff.RENUMBERED}),
    ],
)
def test_a_change_of_a_rail_is_not_reported_for_the_fabric_too(old: str, new: str, kinds: set[str]) -> None:
    documents = []
    for written in (example_file.BASE, example_file.BASE.replace(old, new)):
        made = lint(written.encode()).plan
        assert made
        documents.append(json.loads(plan_tables.as_json(made.document())))
    changes = plan_diff.diff(*documents)
    assert {change.kind for change in changes} == kinds
    assert [change for change in changes if change.what == "fabric"] == []


def test_a_removed_port_is_one_change() -> None:
    new = copy.deepcopy(BASE)
    del new["nodes"][0]["ports"][1]
    (change,) = plan_diff.diff(BASE, new)
    assert (change.kind, change.what, change.subject) == (plan_diff.REMOVED, "port", "ai-su1-001 gpu02")


@pytest.mark.parametrize(
    ("path", "new", "kind"),
    [
        (("nodes", 0, "ports", 0, "address"), "10.9.0.1/27", plan_diff.RENUMBERED),
        (("nodes", 0, "ports", 0, "address"), "10.1.0.34/26", plan_diff.CHANGED),
        (("nodes", 0, "ports", 0, "table"), 900, plan_diff.RENUMBERED),
        (("nodes", 0, "ports", 0, "pods", "last"), "10.1.0.63", plan_diff.CHANGED),
        (("nodes", 0, "ports", 0, "pods", "last"), "10.1.0.61", plan_diff.RENUMBERED),
        (("nodes", 0, "ports", 0, "pods", "first"), "10.1.0.34", plan_diff.CHANGED),
        (("nodes", 0, "ports", 0, "pods", "first"), "10.1.0.36", plan_diff.RENUMBERED),
        (("rails", 0, "subnet"), "10.0.0.0/8", plan_diff.CHANGED),
        (("rails", 0, "subnet"), "10.1.0.0/17", plan_diff.CHANGED),
        (("rails", 0, "subnet"), "10.2.0.0/15", plan_diff.RENUMBERED),
        (("nodes", 0, "ports", 0, "vfs", "attributes", 0, "mac"), "02:00:00:00:00:01", plan_diff.RENUMBERED),
        (("nodes", 0, "ports", 0, "names", "pool"), "other", plan_diff.RENAMED),
        (("nodes", 0, "ports", 0, "rdma", "name"), "mlx5_9", plan_diff.RENAMED),
        (("nodes", 0, "ports", 0, "mtu"), 1500, plan_diff.CHANGED),
        (("nodes", 0, "ports", 0, "gateway"), None, plan_diff.REMOVED),
        (("nodes", 0, "ports", 0, "address6"), "fd00::1/64", plan_diff.ADDED),
        (("units", 0, "leaves", 0, "aggregate"), "10.9.0.0/16", plan_diff.RENUMBERED),
        (("rails", 0, "capacity", "taken", "gateway"), 3, plan_diff.CHANGED),
        (("fabric", "reserved", "lan"), "10.0.0.0/8", plan_diff.CHANGED),
        (("fabric", "mtu"), 1500, plan_diff.CHANGED),
    ],
)
def test_the_kind_of_a_change(path: tuple[t.Any, ...], new: t.Any, kind: str) -> None:
    changed = copy.deepcopy(BASE)
    _put(changed, path, new)
    (change,) = plan_diff.diff(BASE, changed)
    assert change.kind == kind


def test_renumbering_is_listed_first_with_a_warning() -> None:
    new = copy.deepcopy(document(64, 8))
    old = copy.deepcopy(new)
    for node in new["nodes"]:
        for port in node["ports"]:
            port["gateway"] = "10.255.255.1"
            port["mtu"] = 1500
    changes = plan_diff.diff(old, new)
    table = plan_diff.as_table(changes, "old/plan.json").splitlines()
    assert table[0].startswith("!!! RENUMBERED: 512 values of 512 objects.")
    assert table[2].startswith("RENUMBERED") and "512" in table[2] and len(table) < 16
    assert max(map(len, table)) <= text_table.WIDTH
    assert table[-1] == "against old/plan.json: 512 renumbered, 512 changed"
    data = json.loads(plan_diff.as_json(changes, "old/plan.json"))
    assert len(data["changes"]) == 1024 and data["counts"]["renumbered"] == 512


values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "rail", "index", "ports", "nodes", "number", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["rails", "nodes", "units", "x"]), st.lists(values, max_size=3)), values)
def test_any_plan_is_read_without_a_traceback(parts: dict[str, t.Any], fabric: t.Any) -> None:
    raw = json.dumps(dict({"format": 1, "fabric": fabric}, **parts)).encode("utf-8")
    try:
        old = plan_diff.load(raw, "old.json")
    except RailyardError as error:
        assert "Remedy: " in str(error)
    else:
        changes = plan_diff.diff(old, BASE)
        assert plan_diff.as_table(changes, "old.json") and json.loads(plan_diff.as_json(changes, "old.json"))
        plan_diff.diff(BASE, old)


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b"\xff", "this is not JSON"),
        (b"{", "this is not JSON"),
        (b"[]", "this is not a plan"),
        (b'{"format": 2, "fabric": {}, "rails": [], "nodes": []}', "the plan's format is 2"),
        (b'{"format": 1, "fabric": {}, "rails": []}', "the plan has no nodes"),
        (b"[" * 100000, "this is not JSON"),
    ],
)
def test_a_file_without_a_plan_is_reported(raw: bytes, fields: str) -> None:
    with pytest.raises(RailyardError, match=re.escape(fields)) as caught:
        plan_diff.load(raw, "old.json")
    assert str(caught.value).startswith("old.json: ") and "\n" not in str(caught.value)
