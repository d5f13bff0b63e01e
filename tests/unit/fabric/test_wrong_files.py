# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong file gives its one finding, at its place; every good one gives none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    NOTE,
    RULES,
    WARNING,
    Rule,
    register,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_rules import IMPORT_RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import nearest

from .wrong_files import GOOD, WRONG, Wrong


@pytest.mark.parametrize("name", GOOD)
def test_good_files_give_no_finding(name: str) -> None:
    outcome = lint(GOOD[name].encode("utf-8"))
    assert [finding.text() for finding in outcome.findings] == []
    assert outcome.plan is not None


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.title)
def test_one_mistake_is_one_finding_at_its_place(wrong: Wrong) -> None:
    outcome = lint(wrong.text)
    found = [(finding.code, finding.place, finding.line) for finding in outcome.findings]
    assert found == [(wrong.code, wrong.place, wrong.line)], [finding.text() for finding in outcome.findings]
    (finding,) = outcome.findings
    assert (outcome.plan is None) == (finding.severity != WARNING)
    assert finding.remedy and not finding.remedy.endswith(".")
    assert "\n" not in finding.text() and len(finding.text()) < 600


def test_a_depth_that_the_parser_refuses_is_too_large() -> None:
    """libyaml from 0.2.6 refuses 1,000 levels before it emits the first of a line; 0.2.5 emits them all."""
    outcome = lint(b"nodes: " + b"[" * 100000)
    assert [(finding.code, finding.line) for finding in outcome.findings] == [("RY103", 1)]
    assert outcome.findings[0].place.startswith("nodes") and outcome.plan is None


def test_several_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = GOOD["macvlan"]
    for old, new in (
        ("mtu: 4200", "mtu: jumbo"),
        ("gateway: .254", "gateway: 172.16.31.254"),
        ("soft_rdma: null", "soft_rdma: iwarp"),
        ("index: 4", "index: zero"),
        ("ai-3.example.com", "!vault x"),
    ):
        text = text.replace(old, new)
    found = [(finding.code, finding.line) for finding in lint(text.encode("utf-8")).findings]
    assert found == [("RY112", 8), ("RY306", 18), ("RY114", 24), ("RY108", 34), ("RY411", 40)]


def test_every_rule_has_a_name_of_its_own() -> None:
    imported = [rule.name for rule in IMPORT_RULES.values()]
    names = [*(rule.name for rule in RULES.values()), *imported, *(name for name, _severity, _title in CODES.values())]
    assert len(names) == len(set(names)) == len(RULES) + len(IMPORT_RULES) + len(CODES)
    assert [name for name in names if not re.fullmatch(r"[a-z]+[0-9]*(-[a-z0-9]+)+", name)] == []


@pytest.mark.parametrize(
    "header",
    ["RY311 other: Other", "RY999 rail-subnet-overlap: Other", "RY999: Without a name", "RY501 other: Removed once"],
)
def test_codes_and_names_are_registered_once(header: str) -> None:
    rules: dict[str, Rule] = {}
    register(rules, "RY311 rail-subnet-overlap: Overlapping rail subnets", "a", "b", ERROR)
    with pytest.raises(ValueError, match="registered already"):
        register(rules, header, "a", "b", ERROR)


@pytest.mark.parametrize("text", ["RY314", "no-host-addresses"])
def test_a_finding_is_suppressed_by_code_or_name(text: str) -> None:
    raw = GOOD["macvlan"].replace("    hosts: .201-.253\n", "")
    entry = "lint:\n  - {rule: %s, place: rails.gpu03, reason: verified by hand}\n" % text
    (finding,) = lint((raw + entry).encode("utf-8")).findings
    assert (finding.severity, finding.reason, finding.label) == (NOTE, "verified by hand", "no-host-addresses (RY314)")
    (finding,) = lint((raw + entry.replace(text, text[:-1])).encode("utf-8")).errors
    assert finding.code == "RY117" and "unknown rule %s" % text[:-1] in finding.message


def test_a_suppression_with_a_typo_names_the_rule() -> None:
    entry = "lint:\n  - {rule: no-host-adresses, place: rails.gpu03, reason: verified by hand}\n"
    (finding,) = lint((GOOD["macvlan"] + entry).encode("utf-8")).findings
    assert "did you mean no-host-addresses?" in finding.message


@pytest.mark.parametrize("code", RULES)
def test_examples_of_the_rules_are_true(code: str) -> None:
    rule = RULES[code]
    bad = lint(example_file.whole(rule.bad).encode("utf-8")).findings
    good = lint(example_file.whole(rule.good).encode("utf-8")).findings
    assert [finding.code for finding in bad] == [code]
    assert bad[0].severity == rule.severity
    assert [finding.text() for finding in good] == []


def test_the_whole_file_of_the_reference_is_clean() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "fabric-file.md").read_text(encoding="utf-8")
    whole = page.partition("## A whole file")[2].partition("```yaml\n")[2].partition("```")[0]
    assert lint(whole.encode("utf-8")).findings == [] and "plugin:" in whole


def test_the_page_of_findings_is_up_to_date() -> None:
    tool = Path(__file__).resolve().parents[3] / "tools" / "findings_doc.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("group", "fabric", "holds"),
    [
        (None, None, 1024),
        (None, 1500, 1500),
        (4096, None, 1024),
        (None, 4096, None),
        (None, 512, 1024),
        (1100, 4096, 1100),
    ],
)
def test_the_neighbour_tables_are_those_that_nodes_are_given(
    group: int | None, fabric: int | None, holds: int | None
) -> None:
    """The least of any node of the rail; the kernel's where it is not raised, and never less."""
    limits = ", limits: {neighbours: {gc_thresh3: %d}}"
    text = (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200%s}\n"
        'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .16.0-.31.255, hosts: .0.1-.15.255}\n'
        "profiles: {hgx: {ports: {gpu01: {netdev: eth1}, gpu02: {netdev: eth2}}}}\n"
        "groups: {new: {vars: {row: 1}%s}}\n"
        "nodes:\n  ai-[0001:0100]: {profile: hgx, groups: [new]}\n  ai-[0101:2000]: {profile: hgx}\n"
    ) % (limits % fabric if fabric else "", limits % group if group else "")
    found = [(finding.code, finding.message, finding.remedy) for finding in lint(text.encode()).findings]
    message = "2,000 nodes and their pods on gpu01 are 2,000 neighbours, and the table holds {:,}".format(holds or 0)
    remedy = "use the mode prefix, or set gc_thresh3 of limits.neighbours to 4096 or more"
    assert found == ([("RY952", message, remedy)] if holds else [])


@pytest.mark.parametrize(
    ("device", "better"),
    [
        ("ionic_0", "ionic_gpu01"),
        ("bnxt_re3", "bnxt_gpu01"),
        ("irdma0", "irdma_gpu01"),
        ("cxgb4_1", "cxgb4_gpu01"),
        ("mlx5_12", "mlx5_gpu01"),
    ],
)
def test_every_drivers_own_names_are_known(device: str, better: str) -> None:
    """Also for cards of other makers, and the remedy does not name another maker."""
    text = GOOD["macvlan"].replace("rdma: mlx5_gpu01", "rdma: " + device)
    (finding,) = lint(text.encode()).findings
    assert (finding.code, finding.remedy) == ("RY211", "name it after its rail, such as %s" % better)


def test_rails_with_planes_are_numbered_and_not_their_planes() -> None:
    text = (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}\n"
        'rails: {count: 10, name: "gpu{n}", planes: 2, subnet: "10.{n}.{p}.0/24", hosts: .1-.9, pods: .11-.99}\n'
        "profiles: {hgx: {ports: {%s}}}\n"
        "nodes: {ai-1: {profile: hgx}}\n"
    ) % ", ".join("gpu%dp%d: {netdev: e%02dp%d}" % (n, p, n, p) for n in range(1, 11) for p in (1, 2))
    (finding,) = lint(text.encode()).findings
    assert finding.code == "RY203" and finding.remedy.endswith("all with as many digits: gpu01, gpu02")


@pytest.mark.parametrize(
    ("text", "meant"), [("gpu1", "gpu01"), ("gpu001", "gpu01"), ("gpu016", "gpu16"), ("GPU2", "gpu02")]
)
def test_a_name_with_other_zeros_is_the_one_of_that_number(text: str, meant: str) -> None:
    assert nearest(text, ["gpu%02d" % number for number in range(1, 17)]) == meant


def test_a_unit_with_other_zeros_is_the_one_of_that_number() -> None:
    """The remedy is followed by hand: su101 would have put the nodes of unit 1 into unit 101."""
    text = (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: ai, attachment: host-device, provider: network-operator, mtu: 9000}\n"
        "addresses: {mode: link, supernet: 10.0.0.0/8, rail_prefix: 16}\n"
        'units: {"su[1:128]": {nodes: 32}}\n'
        "rails: {gpu01: {}}\n"
        "profiles: {hgx: {ports: {gpu01: {netdev: eth1}}}}\n"
        'nodes: {"ai-su[001:128]-[01:32]": {profile: hgx, unit: "su[001:128]"}}\n'
    )
    findings = lint(text.encode()).findings
    assert (
        findings[0].code == "RY423"
        and findings[0].remedy == "if you mean su1, write that; otherwise define it in units, or remove unit"
    )
