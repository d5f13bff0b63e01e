# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader of the report does next: steps in a few lines, leaf ports, and what is folded."""

from __future__ import annotations

import typing as t

import pytest

from tests.browser.samples import BEGAN, Sample

from .test_report_html import _page, _report


@pytest.fixture(scope="module")
def many() -> Sample:
    return Sample(64)


def test_a_step_about_a_cable_names_leaf_and_leaf_port(many: Sample) -> None:
    report = _report(many, many.verify(BEGAN, True, 1.0))
    (down,) = [step for step in report.steps if step.code == "RV402"]
    assert down.place(down.places[0]) == "gpu-su1-02 gpu02 (leaf su1-r02 port swp2)"
    assert "gpu-su1-02 gpu02 (leaf su1-r02 port swp2): carrier of rail02: expected yes, found no." in _page(report).text
    assert "(leaf su1-r02 port swp2): the link has no carrier (RV402)" in "\n".join(report.summary())


def test_nodes_behind_one_leaf_name_it_once(many: Sample) -> None:
    text = _page(_report(many, many.verify(BEGAN, True, 1.0))).text
    assert "All behind leaf su2-r03 (30 of its 32 ports): path to its leaf: expected 4200, found 1500." in text
    assert "gpu03 of 30 nodes: gpu-su2-01, gpu-su2-02, " in text


def test_nodes_behind_several_leaves_have_each_its_leaf_port(many: Sample) -> None:
    verdict = many.verify(BEGAN, False, 1.0)
    verdict["failures"] = [many._failure("RV402", node, "gpu02", "carrier", "yes", "no") for node in many.nodes[31:33]]
    text = _page(_report(many, verdict)).text
    assert "gpu02 of 2 nodes: gpu-su1-32 (leaf su1-r02 port swp32), gpu-su2-01 (leaf su2-r02 port swp1)" in text


def test_a_step_that_is_not_about_a_cable_names_no_leaf(many: Sample) -> None:
    report = _report(many, many.drift(BEGAN, True))
    assert [step.code for step in report.steps] == ["RV505"] and not report.steps[0].cables


def test_commands_name_the_inventory(many: Sample) -> None:
    verdict = many.drift(BEGAN, True)
    text = _page(_report(many, verdict, inventory="inventories/east")).text
    assert "ansible-playbook -i inventories/east playbooks/hosts.yml --limit %s" % many.nodes[0] in text
    assert "INVENTORY" not in text
    assert "ansible-playbook -i east playbooks/verify.yml" in _page(_report(many, inventory="east")).text


def test_layers_with_the_same_result_and_reason_are_one_row(many: Sample) -> None:
    verdict = many.verify(BEGAN, True, 1.0)
    text = _page(_report(many, verdict)).text
    assert text.count("the nodes do not answer") == len({each["layer"] for each in verdict["failures"]}) + 1
    assert "Nodes answer, NIC firmware, NICs, drivers and VFs, RDMA mode" in text


def test_layers_with_different_reasons_are_rows_of_their_own(many: Sample) -> None:
    verdict = many.verify(BEGAN, False, 1.0)
    for at, layer in enumerate(verdict["layers"]):
        layer.update(checked=at, why_not="reason %d" % (at // 4))
    made = _page(_report(many, verdict)).text
    assert made.count("reason 0") == 2, "of what was not checked, and of the rest"
    assert made.count("reason 1") == 1 and "4 to 7" in made


def test_counters_are_a_row_per_node_and_counter(many: Sample) -> None:
    def counter(node: str, rail: str, name: str, grown: int) -> dict[str, t.Any]:
        return {"node": node, "rail": rail, "name": name, "before": 10, "after": 10 + grown}

    found = [counter("n1", rail, "out_of_sequence", 41) for rail in many.rails]
    found += [
        counter("n2", "gpu01", "rx_pause", 7),
        counter("n2", "gpu02", "rx_pause", 900),
        counter("n3", "gpu01", "x", 0),
    ]
    made = _page(_report(many, dict(many.verify(BEGAN, False, 1.0), counters=found)))
    assert "10 of 11 counters grew" in made.text
    assert "n1 out_of_sequence %s 41 on each rail" % ", ".join(many.rails) in made.text
    assert "n2 rx_pause gpu01, gpu02 7 to 900 on each rail" in made.text
    assert made.text.index("n2 rx_pause") < made.text.index("n1 out_of_sequence"), "the greatest growth first"


def test_many_nodes_without_failures_are_shown_on_demand(many: Sample) -> None:
    verdict = many.verify(BEGAN, True, 1.0)
    for failure in verdict["failures"]:
        if failure["node"].startswith("gpu-su2"):
            verdict["matrix"][failure["node"]][failure["rail"]] = "ok"
    page = _page(_report(many, verdict))
    assert "60 nodes with all ports ok" in page.text
    good = page.text.index("60 nodes with all ports ok")
    assert page.text.index("not checked (2 nodes)") < good < page.text.index("unit su1 (30 nodes)")


def test_few_nodes_without_failures_are_not_folded() -> None:
    few = Sample(2)
    assert "with all ports ok" not in _page(_report(few, few.verify(BEGAN, False, 1.0))).text
