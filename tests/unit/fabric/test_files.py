# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole files of every mode, family and kind: what their plans promise, and that a plan's file gives the plan again."""

from __future__ import annotations

import ipaddress
import random
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan

from .wrong_files import GOOD

ROOT = Path(__file__).resolve().parents[3]
WORKED = {path.parent.name: path.read_text() for path in sorted((ROOT / "inventories").glob("*/fabric.yml"))}
MODES = ("subnet", "block", "prefix", "link", "none")


def planned(text: str) -> Plan:
    outcome = lint(text.encode("utf-8"))
    assert outcome.plan is not None, text + "\n".join(finding.text() for finding in outcome.findings)
    return outcome.plan


def nodes(plan: Plan) -> dict[str, dict[str, t.Any]]:
    return {node.node.name: plan.node_vars(node) for node in plan.nodes}


class File(t.NamedTuple):
    """A file without its nodes, and its nodes, a line each."""

    head: str
    nodes: list[str]

    @property
    def text(self) -> str:
        return self.head + "".join(self.nodes)


_POD_KEYS = "gateway: .255.254, pods: .64.0-.127.255, hosts: .128.0-.159.255"
_POD_KEYS6 = 'gateway6: "::1", pods6: "::4:0-::4:fff", hosts6: "::8:0-::8:ffff"'


@st.composite
def files(draw: t.Callable[..., t.Any], provider: str = "") -> File:
    """A good file: an attachment and provider that go together, in any mode, with any families, planes and units."""
    provider = provider or draw(st.sampled_from(list(PROVIDERS)))
    attachment = draw(st.sampled_from(PROVIDERS[provider].served))
    alone = attachment in ("host-device", "host")
    modes = [mode for mode in MODES if not PROVIDERS[provider].mode_refused(mode) and (mode != "link" or alone)]
    # nv-ipam begins at a subnet's first address, which these ranges do not.
    modes = [mode for mode in modes if provider != "network-operator" or mode != "subnet"]
    mode = draw(st.sampled_from(modes))
    families = draw(st.sampled_from([(4,), (6,), (4, 6)])) if mode != "none" else ()
    planes = draw(st.sampled_from([1, 1, 2, 4]))
    rails = draw(st.integers(1, 4))
    units = draw(st.integers(0, 3))
    vfs = draw(st.integers(1, 8))
    fabric = "name: f, provider: %s, attachment: %s, mtu: 4092" % (provider, attachment)
    fabric += ", routing: {mode: %s, cross_rail: %s}" % (
        draw(st.sampled_from(["source", "destination"])),
        draw(st.sampled_from(["true", "false"])),
    )
    if ATTACHMENTS[attachment].vfs:
        fabric += ", vfs: {count: %d, link_state: %s}" % (vfs, draw(st.sampled_from(["auto", "enable"])))
    elif PROVIDERS[provider].slots and not alone:
        fabric += ", slots: {all_rails: %d, per_rail: %d}" % (draw(st.integers(1, 4)), draw(st.integers(0, 4)))
    head = "plugin: railyard.fabric.rails\nfabric: {%s}\naddresses: {mode: %s" % (fabric, mode)
    for family in families:
        six = "6" if family == 6 else ""
        head += ', supernet%s: "%s", rail_prefix%s: %d' % (
            (six, "fd00::/32", six, 64) if six else (six, "10.0.0.0/8", six, 16)
        )
        if mode in ("subnet", "block"):
            keys = _POD_KEYS6 if six else _POD_KEYS
            head += ", " + (keys if PROVIDERS[provider].kubernetes else re.sub("pods6?: [^,]+, ", "", keys))
        if mode == "block":
            head += ", block%s: %d" % (six, draw(st.integers(8, 16)))
        elif mode == "prefix":
            head += ", node_prefix%s: %d" % (six, draw(st.integers(24, 27) if family == 4 else st.integers(108, 120)))
            head += ", gateway%s: %s" % (six, draw(st.sampled_from(["first", "last"])))
    if mode == "prefix":
        head += ", host: %s" % draw(st.sampled_from(["first", "last"]))
    if mode == "link":
        head += ", leaf_end: %s" % draw(st.sampled_from(["first", "second"]))
    head += "}\n"
    places = draw(st.integers(1, 40))
    if units:
        head += 'units:\n  su[1:%d]: {nodes: %d, site: s, leaf: "l{u}-{n}-{p}", leaf_port: "swp{i:02}"}\n' % (
            units,
            places,
        )
    head += 'rails: {count: %d, name: "r{n:02}"%s}\n' % (rails, ", planes: %d" % planes if planes > 1 else "")
    names = [
        "r%02d" % rail + ("p%d" % plane if planes > 1 else "")
        for rail in range(1, rails + 1)
        for plane in range(1, planes + 1)
    ]
    head += "profiles:\n  p:\n    ports:\n"
    head += "".join(
        '      %s: {netdev: n%02d, pci: "0000:%02x:00.0"}\n' % (name, at, at + 1) for at, name in enumerate(names)
    )
    head += "nodes:\n"
    lines = []
    if units:
        spots = [(unit, place) for unit in range(1, units + 1) for place in range(1, places + 1)]
        for unit, place in draw(st.lists(st.sampled_from(spots), min_size=1, max_size=8, unique=True)):
            lines.append("  n-%d-%d: {profile: p, unit: su%d, rack: k%d}\n" % (unit, place, unit, unit))
    else:
        for index in draw(st.lists(st.integers(1, 250), min_size=1, max_size=8, unique=True)):
            own = ', ports: {%s: {pci: "0000:f0:00.0"}}' % names[0] if index % 5 == 0 else ""
            lines.append("  n%d: {profile: p%s}\n" % (index, own))
    return File(head, lines)


@given(files())
def test_no_two_allocations_overlap_in_any_mode(file: File) -> None:
    """Every address that a node, its pods or its leaf has, on every rail, is in its rail's network and another's never.

    Worked out with the standard library's addresses from the texts of the host variables.
    """
    plan = planned(file.text)
    document = plan.document()
    rails = {rail["name"]: rail for rail in document["rails"]}
    for six in ("", "6"):
        networks = [ipaddress.ip_network(rail["subnet" + six]) for rail in rails.values() if rail["subnet" + six]]
        assert not any(one.overlaps(other) for at, one in enumerate(networks) for other in networks[:at])
        common = {name: rail["mode"] in ("subnet", "block") for name, rail in rails.items()}
        single: dict[t.Any, str] = {}
        ranges: list[tuple[int, int, str]] = []
        for node in document["nodes"]:
            for port in node["ports"]:
                rail = rails[port["rail"]]
                if not rail["subnet" + six]:
                    assert port["address" + six] is None
                    continue
                where = "%s %s" % (node["name"], port["rail"])
                network = ipaddress.ip_network(rail["subnet" + six])
                own = ipaddress.ip_interface(port["address" + six])
                assert own.ip in network and own.network.subnet_of(network)  # type: ignore[arg-type]
                assert single.setdefault(own.ip, where) == where
                pods, leaf = port["pods"], port["leaf"]
                gateway = ipaddress.ip_address(leaf["address" + six])
                owner = port["rail"] if common[port["rail"]] else where
                assert single.setdefault(gateway, owner) == owner and gateway in own.network
                assert own.network.subnet_of(ipaddress.ip_network(leaf["aggregate" + six]))  # type: ignore[arg-type]
                if not pods:
                    assert document["fabric"]["provider"] == "none"
                    continue
                first, last = ipaddress.ip_address(pods["first" + six]), ipaddress.ip_address(pods["last" + six])
                assert first <= last and first in network and last in network
                if rail["mode"] == "link":
                    assert first == last == own.ip
                    continue
                assert not first <= own.ip <= last and not first <= gateway <= last
                ranges.append((int(first), int(last), port["rail"] if rail["mode"] == "subnet" else where))
        ranges = sorted(set(ranges))
        assert all(one[1] < other[0] for one, other in zip(ranges, ranges[1:]))
        spans = {int(address) for address in single}
        assert not any(first <= span <= last for first, last, _owner in ranges for span in spans)


@given(files(), st.randoms(use_true_random=False))
def test_added_removed_and_reordered_nodes_renumber_no_node(file: File, chance: random.Random) -> None:
    whole = nodes(planned(file.text))
    some = chance.sample(file.nodes, chance.randint(1, len(file.nodes)))
    chance.shuffle(some)
    part = nodes(planned(file.head + "".join(some)))
    assert len(part) == len(some)
    for name, node in part.items():
        assert node == whole[name]


@given(files())
def test_added_units_renumber_no_node(file: File) -> None:
    more = re.sub(r"su\[1:(\d+)\]: {nodes", lambda found: "su[1:%d]: {nodes" % (int(found.group(1)) + 2), file.text)
    assert nodes(planned(more)) == nodes(planned(file.text))


@given(files())
def test_a_plan_written_to_a_file_is_the_plan_again(file: File) -> None:
    plan = planned(file.text)
    again = planned(write(plan.fabric))
    assert again.document() == plan.document()
    assert write(again.fabric) == write(plan.fabric), "what is written once is written alike again"


@pytest.mark.parametrize("name", sorted(GOOD) + sorted(WORKED))
def test_worked_files_are_written_tidily(name: str) -> None:
    plan = planned(GOOD.get(name) or WORKED[name])
    text = write(plan.fabric, {(): ["What the cluster is."], ("rails",): ["One for each GPU."]})
    assert planned(text).document() == plan.document()
    assert text.startswith("# What the cluster is.\n---\nplugin: ") and "\n# One for each GPU.\nrails:\n" in text
    assert all(len(line) <= 120 for line in text.splitlines())
    assert len(text) < 4 * len(GOOD.get(name) or WORKED[name]) + 4000


def test_a_link_of_a_vf_is_the_pods_alone() -> None:
    text = (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: f, provider: cni, attachment: sriov, mtu: 4200, vfs: {count: 1}}\n"
        "addresses: {mode: link, supernet: 10.0.0.0/8, rail_prefix: 16, host: none}\n"
        "rails: {r01: {}}\nprofiles: {p: {ports: {r01: {netdev: eth1}}}}\nnodes: {n3: {profile: p}}\n"
    )
    assert [finding.code for finding in lint(text.encode("utf-8")).findings] == ["RY314"]
    (port,) = nodes(planned(text))["n3"]["ports"]
    assert (port["address"], port["gateway"], port["routes"]) == (None, None, [])
    assert (port["pods"]["first"], port["pods"]["gateway"]) == ("10.0.0.4", "10.0.0.5")


def test_routing_by_destination_has_no_tables_and_no_default_routes() -> None:
    text = WORKED["sriov-roce-prefix"].replace(
        "  pods_per_node: 8\n", "  pods_per_node: 8\n  routing: {mode: destination}\n"
    )
    for port in nodes(planned(text))["gpu-su1-01"]["ports"]:
        assert (port["table"], port["rule_priority"], port["gateway"]) == (None, None, None)
        network = planned(text).document()["rails"][port["number"] - 1]["subnet"]
        assert port["routes"] == [{"to": network, "via": port["leaf"]["address"], "table": None}]


def test_comments_open_their_section() -> None:
    text = render(
        {"plugin": "x", "rails": {"gpu01": {"subnet": "172.16.11.0/24", "mtu": 9000}}, "lint": [{"rule": "RY314"}]},
        {("rails", "gpu01", "mtu"): ["asked for", "by two"], ("lint", 0): ["known"]},
    )
    assert text == (
        "---\nplugin: x\n\nrails:\n  gpu01:\n    subnet: 172.16.11.0/24\n    # asked for\n    # by two\n    mtu: 9000\n"
        "\nlint:\n  # known\n  - {rule: RY314}\n"
    )
    planes = {"rails": {"gpu01": {"planes": [{"subnet": "172.16.11.0/24", "mtu": 9000}, {"mtu": 4200}]}}}
    text = render(planes, {("rails", "gpu01", "planes", 0, "mtu"): ["asked for"]})
    assert text == (
        "---\n\nrails:\n  gpu01:\n    planes:\n      - subnet: 172.16.11.0/24\n        # asked for\n        mtu: 9000\n"
        "      - {mtu: 4200}\n"
    )
    assert yaml.safe_load(text) == planes


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
        max_leaves=12,
    )
)
def test_rendered_files_are_read_back(value: t.Any) -> None:
    data = {"plugin": "x", "nodes": {"n1": {"vars": {"value": value}}}}
    assert yaml.safe_load(render(data)) == data
