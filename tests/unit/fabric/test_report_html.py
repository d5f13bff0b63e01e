# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's page: what it shows of which documents, at every size; and that their texts are never markup.

What a browser makes of it is tested in ``tests/browser``.
"""

from __future__ import annotations

import copy
import json
import re
import types
import typing as t
from html.parser import HTMLParser

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import (
    report_context,
    report_documents,
    report_page,
    run_history,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.matrix_table import grid
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html.rate_tables import (
    BANDWIDTH,
    often,
    short,
    spreads,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import (
    HOSTS,
    LAYERS,
    STATE,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import next_steps
from tests import work
from tests.browser.samples import BEGAN, Sample
from tests.unit.fabric.test_verify import HARMS, swapped
from tests.unit.fabric.test_verify_layouts import BOND_HARMS, BONDS, world_of
from tests.unit.fabric.verify_nodes import World
from tests.unit.fabric.verify_nodes import plan as server_plan

Data = t.Dict[str, t.Any]
VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """A page's elements with their attributes and texts, and whether every element is closed in order."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(raw.decode("utf-8"))
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str, kind: str = "") -> list[dict[str, str]]:
        return [
            keys for name, keys in self.elements if name == tag and (not kind or kind in keys.get("class", "").split())
        ]

    @property
    def sections(self) -> list[str]:
        return [keys["id"] for keys in self.all("section")]


@pytest.fixture(scope="module")
def two() -> Sample:
    return Sample(2)


@pytest.fixture(scope="module")
def many() -> Sample:
    return Sample(64)


@pytest.fixture(scope="module")
def huge() -> Sample:
    return Sample(1024)


def _report(sample: Sample, *verdicts: Data, runs: t.Sequence[Data] = (), **changes: t.Any) -> report_page.Report:
    read = [report_documents.verdict(json.dumps(each).encode(), "x.json", each["kind"]) for each in verdicts]
    earlier = [report_documents.verdict(json.dumps(each).encode(), "x.json", each["kind"]) for each in runs]
    known = report_context.Material(
        plan=sample.plan,
        digest=plan_tables.digest(sample.plan),
        findings=[],
        verdicts={each.kind: each for each in read},
        runs=run_history.ordered(map(run_history.run, [*earlier, *read])),
        version="1.2.3",
        notes=(),
    )
    return report_page.Report(known._replace(**changes))


def _page(report: report_page.Report) -> Page:
    return Page(report.html())


# -- what the page is


def test_the_page_loads_and_runs_nothing(many: Sample) -> None:
    raw = _report(many, many.verify(BEGAN, True, 1.0), many.drift(BEGAN, True)).html()
    made = Page(raw)
    assert not {"script", "iframe", "object", "embed", "img", "form"}.intersection(tag for tag, _keys in made.elements)
    for tag, keys in made.elements:
        for key, value in keys.items():
            assert not key.startswith("on") and "http:" not in value and "https:" not in value, (tag, key, value)
            if key in ("href", "src", "xlink:href"):
                assert value.startswith(("#", "data:,")), (tag, value)
    assert b"@import" not in raw and b"url(h" not in raw
    (policy,) = [keys["content"] for keys in made.all("meta") if keys.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "script" not in policy


def test_ids_are_used_once_and_links_lead_to_them(many: Sample) -> None:
    made = _page(_report(many, many.verify(BEGAN, True, 1.0), many.drift(BEGAN, True)))
    ids = [keys["id"] for _tag, keys in made.elements if "id" in keys]
    assert [name for name in ids if ids.count(name) > 1] == []
    links = {keys["href"][1:] for _tag, keys in made.elements if keys.get("href", "").startswith("#")}
    named = {name for _tag, keys in made.elements for name in keys.get("aria-labelledby", "").split()}
    assert links and links <= set(ids) and named <= set(ids)


def test_the_same_documents_give_the_same_bytes(two: Sample) -> None:
    verdict, earlier = two.verify(BEGAN, True, 1.0), two.verify(BEGAN, False, 0.9)
    again = [_report(two, verdict, runs=[earlier]).html() for _time in range(2)]
    assert again[0] == again[1]


@pytest.mark.scale
@pytest.mark.parametrize(("size", "most"), [("two", 200_000), ("many", 500_000), ("huge", 800_000)])
def test_the_page_is_small(size: str, most: int, request: pytest.FixtureRequest) -> None:
    sample: Sample = request.getfixturevalue(size)
    report = _report(sample, sample.verify(BEGAN, True, 1.0), sample.drift(BEGAN, True))
    assert len(report.html()) < most
    assert max(map(len, report.summary())) < 200 and len(report.summary()) <= 7


def test_every_section_is_there_and_is_linked(two: Sample) -> None:
    made = _page(_report(two, two.verify(BEGAN, True, 1.0), two.drift(BEGAN, True)))
    expected = [
        "first",
        "matrix",
        "layers",
        "rates",
        "failures",
        "drift",
        "findings",
        "counters",
        "history",
        "topology",
    ]
    assert made.sections == expected
    links = [keys["href"] for keys in made.all("a") if keys["href"].startswith("#") and not keys.get("class")]
    assert [link for link in links if not link.startswith("#step")] == ["#" + name for name in expected]


def test_without_documents_the_page_shows_what_to_run(two: Sample) -> None:
    report = _report(two, findings=None)
    made = _page(report)
    assert report.state == "open" and report.summary() == ["fabric ai-10-1-16: not verified"]
    assert made.sections == ["first", "matrix", "drift", "findings", "topology"]
    for play in ("playbooks/verify.yml", "playbooks/drift.yml", "playbooks/validate.yml"):
        assert play in made.text
    assert len(made.all("td", "open")) == 16


def test_a_passed_run_is_shown_as_passed_everywhere(two: Sample) -> None:
    report = _report(two, two.verify(BEGAN, False, 1.0), two.drift(BEGAN, False))
    made = _page(report)
    assert report.state == "ok" and not report.steps
    assert len(made.all("td", "ok")) == 16 and not made.all("td", "failed")
    assert "Nothing to do: everything that was checked is as planned." in made.text


# -- failures


def test_failures_are_in_the_matrix_the_steps_and_the_tables(many: Sample) -> None:
    verify = many.verify(BEGAN, True, 1.0)
    report = _report(many, verify, many.drift(BEGAN, True))
    made = _page(report)
    assert report.state == "failed"
    places = {(each["node"], each["rail"]) for each in verify["failures"]}
    assert len(made.all("td", "failed")) == len(places) == 32
    assert len(made.all("td", "open")) == 16 and len(made.all("td", "ok")) == 512 - 32 - 16
    # the leaf's is one step of many places, and a cell leads to its step
    shared = [step for step in report.steps if step.code == "RV802"]
    assert len(shared) == 1 and shared[0].shared == "all behind leaf su2-r03 (30 of its 32 ports)"
    number = report.steps.index(shared[0]) + 1
    cells = [keys for keys in made.all("a") if keys["href"] == "#step-%d" % number]
    assert len(cells) == 30 and cells[0]["aria-label"] == "gpu-su2-01 gpu03 failed: why"
    assert [step.origin for step in report.steps] == ["verify", "verify", "verify", "drift"]


def test_failing_nodes_are_listed_first(many: Sample) -> None:
    raw = _report(many, many.verify(BEGAN, True, 1.0)).html().decode()
    assert raw.index("with failures (32 nodes)") < raw.index("not checked (2 nodes)") < raw.index("unit su1 (30 nodes)")


@pytest.mark.scale
def test_a_large_fabric_is_a_row_a_unit_and_the_failing_nodes(huge: Sample) -> None:
    verify = huge.verify(BEGAN, True, 1.0)
    report = _report(huge, verify)
    made = _page(report)
    assert report.grid.large and len(report.grid.groups) == 32
    sums = made.all("table", "sums")
    assert len(sums) == 1
    texts = made.texts
    assert texts.count("✕ 32") == 1, "one leaf's 32 ports"
    failing = {each["node"] for each in verify["failures"]}
    headings = [keys for keys in made.all("table", "matrix") if "sums" not in keys["class"]]
    assert len(headings) == -(-len(failing) // 32)
    for node in failing:
        assert node in texts
    assert texts.index("unit su2 (32)") < texts.index("unit su3 (32)"), "units with most failures first"
    assert texts[texts.index("group") :].index("unit su2 (32)") < texts[texts.index("group") :].index("unit su1 (32)")


def test_a_cause_that_drift_has_too_is_one_step(two: Sample) -> None:
    verify, drift = two.verify(BEGAN, True, 1.0), two.drift(BEGAN, True)
    drift["failures"].append(dict(verify["failures"][0], expected="100 Gb/s", found="none"))
    report = _report(two, verify, drift)
    assert [step.code for step in report.steps] == ["RV402", "RV505"]


def test_results_of_several_plays_are_joined() -> None:
    assert next_steps.joined(["a.yml --limit n1", "b.yml", "a.yml --limit n2", "a.yml --limit n1"]) == [
        "a.yml --limit n1,n2",
        "b.yml",
    ]
    assert next_steps.joined(["a.yml --limit n1", "a.yml"]) == ["a.yml"]
    assert next_steps.joined([]) == []


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([("gpu-su1-01", "gpu01")], ""),
        ([("gpu-su1-01", "gpu01"), ("gpu-su1-01", "gpu02")], "all on node gpu-su1-01"),
        ([("gpu-su1-01", "gpu01"), ("gpu-su2-01", "gpu01")], "all on rail gpu01"),
        ([("gpu-su1-01", "gpu01"), ("gpu-su1-02", "gpu01")], "all behind leaf su1-r01 (2 of its 32 ports)"),
        ([("gpu-su1-01", "gpu01"), ("gpu-su2-01", "gpu02")], ""),
    ],
)
def test_common_causes_of_failures(many: Sample, places: list[tuple[str, str]], message: str) -> None:
    verify = many.verify(BEGAN, False, 1.0)
    template = many.drift(BEGAN, True)["failures"][0]
    verify["failures"] = [dict(template, node=node, rail=rail, rails=[rail]) for node, rail in places]
    (step,) = _report(many, dict(verify, ok=False)).steps
    assert step.shared == message and list(step.places) == places


@pytest.mark.scale
def test_a_fabric_that_fails_everywhere_is_still_a_page(huge: Sample) -> None:
    """Each port fails, and each has drifted: the output is bounded, and the whole command is there."""
    template = huge.drift(BEGAN, True)["failures"][0]
    ports = [(node, rail) for node in huge.nodes for rail in huge.rails]
    verify, drift = huge.verify(BEGAN, False, 1.0), huge.drift(BEGAN, False)
    for made, what in ((verify, "rule"), (drift, "other rule")):
        made["ok"] = False
        made["matrix"] = {node: dict.fromkeys(huge.rails, "failed") for node in huge.nodes}
        made["failures"] = [
            dict(template, node=node, rail=rail, rails=[rail], what=what, playbook=HOSTS + " --limit " + node)
            for node, rail in ports
        ]
    report = _report(huge, verify, drift)
    with work.at_most(10_000_000):
        raw = report.html()
    assert len(raw) < 1_500_000
    assert [len(step.places) for step in report.steps] == [len(ports)] * 2
    assert (
        Page(raw).texts.count("ansible-playbook -i INVENTORY playbooks/hosts.yml --limit " + ",".join(huge.nodes)) == 2
    )


def test_errors_of_lint_are_listed_first(two: Sample) -> None:
    findings = [
        report_documents.LintFinding(
            "f.yml", "RY112", "error", "fabric.mtu", 7, "jumbo is not a number", "write one", "", "wrong-type"
        )
    ]
    report = _report(two, two.verify(BEGAN, True, 1.0), findings=findings)
    assert report.steps[0].origin == "lint" and report.steps[0].places == [("f.yml:7", "")]
    assert "jumbo is not a number" in _page(report).text
    assert report.steps[0].heading.startswith("wrong-type (RY112) ") and "wrong-type (RY112)" in _page(report).text


# -- what verify itself writes


def _judged(world: World) -> report_page.Report:
    sample = t.cast(Sample, types.SimpleNamespace(plan=server_plan().document()))
    return _report(sample, world.document())


@pytest.mark.parametrize("harm", [row[1] for row in HARMS], ids=[row[0] for row in HARMS])
def test_every_fault_is_a_step_to_which_its_cells_lead(harm: t.Callable[[World], t.Any]) -> None:
    world = World(server_plan())
    harm(world)
    report = _judged(world)
    (step,) = report.steps
    assert step.code and step.title and step.causes and step.remedy
    made = _page(report)
    assert step.title in made.text and step.remedy in made.text
    assert len(made.all("td", "failed")) == len([keys for keys in made.all("a") if keys["href"] == "#step-1"])


@pytest.mark.parametrize("harm", [row[1] for row in BOND_HARMS], ids=[row[0] for row in BOND_HARMS])
def test_every_fault_of_a_bond_or_vlan_is_a_step(harm: t.Callable[[World], t.Any]) -> None:
    world = world_of("bonds")
    harm(world)
    sample = t.cast(Sample, types.SimpleNamespace(plan=server_plan(4, BONDS).document()))
    report = _report(sample, world.document())
    (step,) = report.steps
    made = _page(report)
    assert step.title in made.text and step.remedy in made.text and step.name in made.text
    # a rail that carries traffic without a member has no failed cell
    assert len(made.all("td", "failed")) == (0 if CODES[step.code].degraded else 1)


def test_swapped_cables_are_one_step_of_both_rails() -> None:
    world = World(server_plan())
    swapped(world)
    report = _judged(world)
    (step,) = report.steps
    assert list(step.places) == [("ai-2", "gpu03"), ("ai-2", "gpu04")] and step.shared == "all on node ai-2"
    cells = [keys["aria-label"] for keys in _page(report).all("a") if keys["href"] == "#step-1"]
    assert cells == ["ai-2 gpu03 failed: why", "ai-2 gpu04 failed: why"]


def test_an_unknown_check_is_shown_with_reason_and_remedy() -> None:
    world = World(server_plan())
    world.after["ai-2"] = {}
    report = _judged(world)
    made = _page(report)
    assert report.state == "ok" and len(made.all("td", "ok")) == 12 and len(made.all("td", "open")) == 4
    assert "unknown" in made.sections and "ai-2 gpu01 gpu02 gpu03 gpu04 rdma error counters" in made.text
    assert "they were not read before or after the run" in made.text


def test_a_healthy_fabric_has_no_failures() -> None:
    report = _judged(World(server_plan()))
    assert report.state == "ok" and len(_page(report).all("td", "ok")) == 16


# -- measures


def test_the_slow_node_is_named(many: Sample) -> None:
    verify = many.verify(BEGAN, True, 1.0)
    report = _report(many, verify)
    slow = many.nodes[4]
    found = spreads(report.material.measured[1], many.rails, BANDWIDTH)
    assert [each.label for each in found] == many.rails
    outliers = [(each.rail, point) for each in found for point in each.outliers]
    assert outliers and all(rail == "gpu05" and slow in (point.source, point.target) for rail, point in outliers)
    (named,) = often(found)
    assert (named.node, named.label) == (slow, "gpu05") and named.outliers == named.transfers
    assert "Most often: %s on gpu05 (%d of its %d transfers)" % (slow, *named[2:]) in _page(report).text


def _measure(
    rail: str, gbits: float, gpu: bool = False, source: str = "a", good: bool = True
) -> report_documents.Measure:
    return report_documents.Measure(rail, source, "b", gbits, None, None, gpu, good)


def test_a_rail_of_two_nodes_is_compared_with_all_rails() -> None:
    measures = [_measure("r%d" % at, 100.0 + at) for at in range(6)] + [_measure("r7", 60.0)]
    found = spreads(measures, ["r%d" % at for at in range(8)], BANDWIDTH)
    assert [each.rail for each in found if each.outliers] == ["r7"]
    assert found[-1].points[0].worse == pytest.approx((102.0 - 60.0) / 102.0)


def test_memory_of_gpus_and_of_hosts_are_not_mixed() -> None:
    measures = [_measure("r1", 100.0)] * 6 + [_measure("r1", 50.0, gpu=True)] * 6
    found = spreads(measures, ["r1"], BANDWIDTH)
    assert [(each.label, each.median, len(each.outliers)) for each in found] == [
        ("r1 host", 100.0, 0),
        ("r1 GPU", 50.0, 0),
    ]


def test_failed_measurements_are_in_no_figure() -> None:
    found = spreads([_measure("r1", 100.0), _measure("r1", 1.0, good=False)], ["r1"], BANDWIDTH)
    assert found[0].low == found[0].high == 100.0


def test_faster_is_not_an_outlier() -> None:
    (found,) = spreads(
        [_measure("r1", value) for value in (100.0, 101.0, 99.0, 100.5, 100.2, 180.0)], ["r1"], BANDWIDTH
    )
    assert not found.outliers and found.quarter <= found.median <= found.three_quarters


def test_rates_are_tables_and_the_last_runs_one_table(two: Sample) -> None:
    runs = [two.verify(BEGAN.replace(day=20), False, 0.0), two.drift(BEGAN.replace(day=20), False)]
    made = _page(_report(two, two.verify(BEGAN, True, 1.0), runs=runs))
    for text in ("Bandwidth, Gb/s", "Latency, µs", "Runs, the newest first"):
        assert made.texts.count(text) == 1, text
    assert "0.000 Gb/s" in made.texts, "a rate that is rounded to zero"
    medians = [each.slowest for each in run_history.ordered(_report(two, runs=runs).material.runs)]
    assert medians == [None, 0.0]


@pytest.mark.parametrize(
    ("value", "message"), [(0.1184, "0.118"), (1.934, "1.93"), (187.24, "187.2"), (1204.4, "1204")]
)
def test_numbers_are_short(value: float, message: str) -> None:
    assert short(value) == message


# -- history


def test_new_and_fixed_failures_since_the_previous_run(two: Sample) -> None:
    before, now = two.verify(BEGAN.replace(day=20), False, 1.0), two.verify(BEGAN, True, 1.0)
    before["matrix"][two.nodes[0]]["gpu07"], before["ok"] = "failed", False
    text = _page(_report(two, now, runs=[before])).text
    assert "newly failed: %s gpu02; fixed: %s gpu07." % (two.nodes[1], two.nodes[0]) in text


def test_an_unchecked_port_is_neither_passed_nor_failed(two: Sample) -> None:
    before, now = two.verify(BEGAN.replace(day=20), False, 1.0), two.verify(BEGAN, True, 1.0)
    del before["matrix"][two.nodes[1]]
    assert "no port newly failed and none was fixed" in _page(_report(two, now, runs=[before])).text


def test_no_tile_is_alone_in_a_row_and_drift_has_no_boot_ids(two: Sample) -> None:
    drift = two.drift(BEGAN, True)
    raw = _report(two, two.verify(BEGAN, True, 1.0), drift).html().decode()
    tiles, columns = raw.count('class="tile'), re.search(r'style="--columns: (\d+)"', raw)
    assert columns and 1 < int(columns[1]) <= 4
    tiles -= raw.count('class="tiles"')
    assert tiles % int(columns[1]) != 1
    assert drift["boots"] and not any(">%s<" % boot in raw for boot in drift["boots"].values())


def test_drift_shows_since_when(two: Sample) -> None:
    earlier = [two.drift(BEGAN.replace(day=day), False) for day in (19, 20)]
    text = _page(_report(two, two.drift(BEGAN, True), runs=earlier)).text
    assert "clean on 2026-11-20 20:15 UTC, booted since" in text
    same = two.drift(BEGAN, True)
    same["boots"] = earlier[0]["boots"]
    assert "clean on 2026-11-20 20:15 UTC, not booted since" in _page(_report(two, same, runs=earlier)).text


ALL = {"limit": [], "layers": list(STATE), "rails": [], "budget_s": None, "tags": [], "skip_tags": []}


@pytest.mark.parametrize(
    "part",
    [
        {"asked": dict(ALL, layers=["link"])},
        {"asked": dict(ALL, layers=[layer for layer in STATE if layer != "nccl"])},
        {"asked": dict(ALL, rails=["gpu01"])},
        {"asked": dict(ALL, tags=["drift"])},
        {"asked": dict(ALL, skip_tags=["qos"])},
        # of another node alone
        {"boots": {"ai-10-1-16-2": "b-0001"}},
        # the cluster was not read, and is now
        {"cluster": None},
        {"cluster": {"server": None, "reachable": False}},
    ],
    ids=["a layer", "all but a layer", "a rail", "a tag", "a tag left out", "a node", "no cluster", "a dead cluster"],
)
def test_a_run_of_a_part_shows_no_node_as_clean(two: Sample, part: dict[str, t.Any]) -> None:
    whole = dict(two.drift(BEGAN.replace(day=18), False), asked=dict(ALL, rails=two.rails))
    later = dict(two.drift(BEGAN.replace(day=20), False), **part)
    assert two.nodes[0] == "ai-10-1-16-1"
    text = _page(_report(two, two.drift(BEGAN, True), runs=[whole, later])).text
    assert "clean on 2026-11-18" in text and "clean on 2026-11-20" not in text
    assert "clean on" not in _page(_report(two, two.drift(BEGAN, True), runs=[later])).text


def test_a_run_of_a_node_alone_shows_since_when_that_one_was_clean(two: Sample) -> None:
    of_one = two.drift(BEGAN.replace(day=20), False)
    of_one.update(boots={two.nodes[0]: "b-0000"}, asked=dict(ALL, limit=two.nodes[:1]))
    assert "clean on 2026-11-20" in _page(_report(two, two.drift(BEGAN, True), runs=[of_one])).text


def test_without_a_cluster_no_node_has_to_have_asked_it(two: Sample) -> None:
    earlier, now = two.drift(BEGAN.replace(day=20), False), two.drift(BEGAN, True)
    earlier["cluster"] = now["cluster"] = None
    assert "clean on 2026-11-20" in _page(_report(two, now, runs=[earlier])).text


def test_failures_of_unchecked_layers_are_not_fixed(two: Sample) -> None:
    runs = [two.verify(BEGAN.replace(day=day), False, 1.0) for day in (19, 20)]
    runs[0]["matrix"][two.nodes[0]]["gpu07"], runs[0]["ok"] = "failed", False
    runs[1]["asked"] = dict(ALL, layers=["link"])
    text = _page(_report(two, two.verify(BEGAN, False, 1.0), runs=runs)).text
    assert "Since the previous run of 2026-11-19" in text and "fixed: %s gpu07." % two.nodes[0] in text
    alone = _page(_report(two, dict(runs[1], began="2026-11-21T20:15:00Z"), runs=runs[:1])).text
    assert "fixed: " not in alone


def test_a_run_is_in_the_history_once(two: Sample) -> None:
    verify = two.verify(BEGAN, True, 1.0)
    runs = _report(two, verify, runs=[verify, two.verify(BEGAN.replace(day=20), False, 1.0)]).material.runs
    assert [run.began for run in runs] == ["2026-11-20T20:15:00Z", "2026-11-21T20:15:00Z"]


def test_counters_that_grew_are_named(many: Sample) -> None:
    text = _page(_report(many, many.verify(BEGAN, True, 1.0))).text
    assert "16 of 1,024 counters grew" in text
    quiet = dict(
        many.verify(BEGAN, True, 1.0), counters=[{"node": "a", "rail": "b", "name": "c", "before": None, "after": 3}]
    )
    assert "None of 1 counter grew" in _page(_report(many, quiet)).text


def test_nodes_and_rails_beyond_the_plan_are_reported(two: Sample) -> None:
    verify = two.verify(BEGAN, False, 1.0)
    verify["matrix"]["gone"] = {"gpu99": "ok"}
    assert "In the verdict and not in the plan: gone, gpu99." in _page(_report(two, verify)).text


def test_a_node_without_a_port_on_a_rail() -> None:
    sample = Sample(2)
    sample.plan["nodes"][1]["ports"].pop()
    made = grid(sample.plan, None)
    assert made.number("no port") == 1 and made.number("not checked") == 15
    assert _page(_report(sample)).all("td", "open")


def test_the_limit_of_a_run_is_reported(two: Sample) -> None:
    verify = two.verify(BEGAN, False, 1.0)
    whole = dict(verify, asked={"limit": two.nodes, "layers": list(LAYERS), "rails": two.rails, "budget_s": None})
    assert "no more than" not in _page(_report(two, whole)).text
    part = dict(verify, asked={"limit": two.nodes[:1], "layers": ["link"], "rails": two.rails[:2], "budget_s": 90})
    message = "It was limited to nodes ai-10-1-16-1; layers link; rails gpu01, gpu02; a budget of 1 min 30 s."
    assert message in _page(_report(two, part)).text


# -- what is in documents is a text

MARKUP = '$\\frac{</style><script>alert(1)</script><img src=x onerror="alert(2)">&amp;\'"<!--]]>'


def _poisoned(value: t.Any, keep: t.Collection[str]) -> t.Any:
    if isinstance(value, str):
        return value if value in keep else value + MARKUP
    if isinstance(value, list):
        return [_poisoned(each, keep) for each in value]
    if isinstance(value, dict):
        return {(key if key in keep else key + MARKUP): _poisoned(each, keep) for key, each in value.items()}
    return value


def test_markup_in_any_text_stays_a_text(two: Sample) -> None:
    """Every name, message and key that others can choose holds markup; the elements are the same as without."""
    sample = Sample(2)
    verify, drift = two.verify(BEGAN, True, 1.0), two.drift(BEGAN, True)
    good = _page(_report(sample, verify, drift))
    words = {"verify", "drift", "ok", "failed", "not checked", verify["began"]}
    keys = {key for made in (verify, drift) for part in _dicts(made) for key in part}
    keep = words | (keys - set(two.nodes) - set(two.rails))
    keep |= {layer["name"] for layer in verify["layers"]}
    dark = copy.deepcopy(sample)
    for node in dark.plan["nodes"]:
        node["name"] += MARKUP
        for port in node["ports"]:
            port["rail"] += MARKUP
            port["netdev"] += MARKUP
    for rail in dark.plan["rails"]:
        rail["name"] += MARKUP
        rail["base"] = None
    dark.plan["fabric"]["name"] += MARKUP
    report = _report(dark, *(_poisoned(each, keep) for each in (verify, drift)), notes=[MARKUP], version=MARKUP)
    made = _page(report)
    kinds = {tag for tag, _keys in good.elements}
    assert {tag for tag, _keys in made.elements} <= kinds | {"ul"}
    assert all(not key.startswith("on") for _tag, keys in made.elements for key in keys)
    assert made.text.count("<script>alert(1)</script>") > 50


def _dicts(value: t.Any) -> t.Iterator[Data]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _dicts(each)


def test_unreadable_documents_are_marked(two: Sample) -> None:
    verify = two.verify(BEGAN, True, 1.0)
    verify["failures"][0]["cause"] = "a\x00b\ud800c\u202ed\ne"
    text = _report(two, verify).html().decode("utf-8")
    assert "a\ufffdb\ufffdc\ufffdd e" in text


# -- what traffic has not proven


def test_a_rail_that_nothing_proved_is_reported_apart_from_one_that_failed(two: Sample) -> None:
    verdict = two.verify(BEGAN, False, 1.0)
    rail, last = two.rails[2], two.rails[-1]
    verdict["proof"] = {each: {"state": "proven", "why": None} for each in two.rails}
    before = _page(_report(two, verdict))
    assert "not proven" not in before.text and "Not proven by traffic" not in before.text
    for each in (rail, last):
        verdict["proof"][each] = {"state": "not proven", "why": "a pair needs two nodes"}
        for row in verdict["matrix"].values():
            row[each] = "not checked"
    verdict["ok"] = False
    verdict["failures"] = [two._failure("RV870", "", rail, "proof", "traffic between nodes", "none")]
    verdict["failures"][0].update(node=None, layer="rdma", rails=[rail, last])
    report = _report(two, verdict)
    made = _page(report)
    assert report.state == "failed" and not made.all("td", "failed")
    assert "Not proven by traffic: %s, %s (a pair needs two nodes)." % (rail, last) in made.text
    assert "ports unknown" in made.text
    assert "2 rails: %s, %s" % (rail, last) in made.text and "all on node" not in made.text
    assert report.summary()[1].startswith("1. gpu0[3,8]: "), report.summary()


def test_an_invalid_verdict_file_is_named(two: Sample) -> None:
    verdict = dict(two.verify(BEGAN, False, 1.0), proof={"gpu01": 5})
    with pytest.raises(RailyardError, match="proof.gpu01: 5 is not a mapping"):
        _report(two, verdict)
