# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink domains in the fabric file: host variables, the nodes of IMEX, and what the writer keeps."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file import fabric_writer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import Outcome, lint

FILE = """\
plugin: railyard.fabric.rails
fabric: {name: nvl, attachment: %(attachment)s, provider: %(provider)s, mtu: 9000%(more)s}
%(units)s
rails:
  gpu01: {subnet: 10.1.0.0/22, hosts: .2.1-.2.200%(pods)s}
profiles:
  gb300: {gpus: 4, ports: {gpu01: {netdev: gpu01, pci: "0000:03:00.0", gpu: [0, 1, 2, 3]}}}
nodes:
%(nodes)s
"""
GROUPS = "groups: {first: {nvlink_domain: r1}, second: {nvlink_domain: r2}}"
BY_GROUP = """\
  tray-[01:18]: {profile: gb300, groups: first, address: "10.9.0.[1:18]"}
  tray-[19:36]: {profile: gb300, groups: second, address: "10.9.0.[19:36]"}"""
BY_NODE = '  tray-[1:2]-[01:18]: {profile: gb300, nvlink_domain: "r[1:2]", index: "[1:36]", address: "10.9.0.[1:36]"}'
BY_UNIT = '  tray-[1:2]-[01:18]: {profile: gb300, unit: "su[1:2]", address: "10.9.0.[1:36]"}'
UNITS = 'units:\n  su[1:2]: {nodes: 18, nvlink_domain: "r[1:2]"}'


def outcome(nodes: str, units: str = "", more: str = "", kubernetes: bool = False) -> Outcome:
    provider, attachment = ("spiderpool", "macvlan") if kubernetes else ("none", "host")
    pods = ", pods: .1.1-.1.200" if kubernetes else ""
    values = {
        "pods": pods,
        "nodes": nodes,
        "units": units,
        "more": more,
        "provider": provider,
        "attachment": attachment,
    }
    return lint((FILE % values).encode())


def document(found: Outcome) -> dict[str, t.Any]:
    assert found.plan, found.findings
    return found.plan.document()


def test_domains_follow_from_groups_units_or_nodes() -> None:
    for nodes, units in ((BY_GROUP, GROUPS), (BY_NODE, ""), (BY_UNIT, UNITS)):
        plan = document(outcome(nodes, units))
        names = [node["name"] for node in plan["nodes"]]
        assert plan["fabric"]["nvlink_domains"] == {"r1": names[:18], "r2": names[18:]}
        assert [node["nvlink_domain"] for node in plan["nodes"]] == ["r1"] * 18 + ["r2"] * 18


def test_null_removes_the_domain_of_the_unit_or_group() -> None:
    of_node = BY_UNIT.replace("tray-[1:2]-[01:18]", "tray-1-[01:18]").replace("su[1:2]", "su1")
    of_node = of_node.replace("10.9.0.[1:36]", "10.9.0.[1:18]") + "\n"
    spare = '  tray-2-[01:02]: {profile: gb300, unit: su2, address: "10.9.0.[19:20]"%s}'
    groups = "groups: {spare: {nvlink_domain: null}, first: {nvlink_domain: r1}}"
    for nodes, units in (
        (of_node + spare % ", nvlink_domain: null", UNITS),
        (of_node + spare % ", groups: spare", UNITS + "\n" + groups),
        (of_node + spare % ", groups: first, nvlink_domain: null", UNITS + "\n" + groups),
    ):
        found = outcome(nodes, units)
        plan = document(found)
        assert set(plan["fabric"]["nvlink_domains"]) == {"r1"}
        assert [node.get("nvlink_domain") for node in plan["nodes"]] == ["r1"] * 18 + [None] * 2
        assert found.plan and document(lint(fabric_writer.write(found.plan.fabric).encode())) == plan


def test_the_node_takes_precedence_over_its_group_and_unit() -> None:
    nodes = BY_UNIT.replace("unit:", "nvlink_domain: r9, unit:")
    found = outcome(nodes, UNITS)
    assert set(document(found)["fabric"]["nvlink_domains"]) == {"r9"}
    assert "RY622" not in {each.code for each in found.findings}
    nodes = BY_UNIT.replace("unit:", "groups: second, unit:")
    assert [each.code for each in outcome(nodes, UNITS + "\n" + GROUPS).errors] == ["RY622"]


def test_a_file_without_domains_has_no_new_keys() -> None:
    plan = document(outcome("  tray-[01:18]: {profile: gb300}"))
    assert "nvlink_domains" not in plan["fabric"]
    assert not {"nvlink_domain", "imex"} & set(plan["nodes"][0])


def test_imex_gets_the_addresses_of_its_domain_in_one_order() -> None:
    plan = document(outcome(BY_GROUP, GROUPS, ", imex: {}"))
    first, last = plan["nodes"][0]["imex"], plan["nodes"][17]["imex"]
    assert first == last == {"daemon": "host", "nodes": ["10.9.0.%d" % number for number in range(1, 19)]}
    assert plan["nodes"][18]["imex"]["nodes"][0] == "10.9.0.19"


def test_with_kubernetes_compute_domains_run_imex_by_default() -> None:
    found = outcome(BY_GROUP, GROUPS, ", imex: {}", kubernetes=True)
    assert document(found)["nodes"][0]["imex"]["daemon"] == "compute-domain"
    assert "RY628" not in {each.code for each in found.findings}
    found = outcome(BY_GROUP, GROUPS, ", imex: {daemon: host}", kubernetes=True)
    assert [each.code for each in found.findings].count("RY628") == 1


def test_imex_on_the_host_needs_ip_addresses() -> None:
    nodes = "  tray-[01:18]: {profile: gb300, nvlink_domain: r1, address: 'tray-[01:18].example'}"
    assert [each.code for each in outcome(nodes, more=", imex: {}").errors] == ["RY626"]


def test_imex_without_any_domain_is_an_error() -> None:
    """With domains, the setting of the fabric has no effect on nodes without one."""
    nodes = "  tray-[01:18]: {profile: gb300, address: '10.9.0.[1:18]'}"
    for kubernetes in (False, True):
        found = outcome(nodes, more=", imex: {daemon: compute-domain}", kubernetes=kubernetes)
        assert [each.code for each in found.errors] == ["RY625"]
    found = outcome(BY_GROUP.replace(", groups: second", ""), GROUPS, ", imex: {}", kubernetes=True)
    assert not found.errors


def test_imex_of_the_groups_with_a_domain_is_enough() -> None:
    """As RY625 proposes."""
    groups = "groups: {first: {nvlink_domain: r1, imex: {daemon: host}}, second: {}}"
    found = outcome(BY_GROUP, groups)
    assert not found.errors
    assert ["imex" in node for node in document(found)["nodes"]] == [True] * 18 + [False] * 18


def test_a_domain_with_different_daemons_is_found() -> None:
    nodes = """\
  tray-01: {profile: gb300, nvlink_domain: r1, address: 10.9.0.1}
  tray-02: {profile: gb300, nvlink_domain: r1, address: 10.9.0.2, groups: pods}"""
    found = outcome(nodes, "groups: {pods: {imex: {daemon: compute-domain}}}", ", imex: {}")
    assert [each.code for each in found.findings if each.code.startswith("RY62")] == ["RY623"]


def test_the_written_file_gives_the_same_plan() -> None:
    for nodes, units in ((BY_GROUP, GROUPS), (BY_NODE, ""), (BY_UNIT, UNITS)):
        found = outcome(nodes, units, ", imex: {daemon: host}")
        assert found.plan
        again = lint(fabric_writer.write(found.plan.fabric).encode())
        assert document(again) == document(found)
