# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value that is marked DECIDE is a finding of lint until the mark is removed."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_rules import IMPORT_RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint

BASE = example_file.BASE


def marks(text: str) -> list[tuple[str, int, str]]:
    return [
        (found.place, found.line, found.message.partition("DECIDE")[2].lstrip(": "))
        for found in lint(text.encode()).findings
        if found.code == "RY120"
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("  mtu: 4200\n", "  # DECIDE: the MTU\n  mtu: 4200\n", [("fabric.mtu", 7, "the MTU")]),
        ("  mtu: 4200\n", "  mtu: 4200  # DECIDE the MTU\n", [("fabric.mtu", 6, "the MTU")]),
        ("  mtu: 4200\n", "  mtu: 4200 #DECIDE\n", [("fabric.mtu", 6, "")]),
        ("rails:\n", "# DECIDE: all rails\nrails:\n", [("rails", 8, "all rails")]),
        ("  mtu: 4200\n", "  # DECIDE: one\n  # DECIDE: two\n  mtu: 4200\n", [("fabric.mtu", 8, "one; two")]),
        ("  mtu: 4200\n", "  # DECIDE: one\n  # more of it\n\n  mtu: 4200\n", [("fabric.mtu", 9, "one")]),
        ("  mtu: 4200\r\n", "  # DECIDE: the MTU\r\n  mtu: 4200\r\n", [("fabric.mtu", 7, "the MTU")]),
        ("  mtu: 4200\r", "  # DECIDE: the MTU\r  mtu: 4200\r", [("fabric.mtu", 7, "the MTU")]),
        ("hosts: .201-.253}\n", "hosts: .201-.253}  # DECIDE: é\n", [("rails.gpu01", 8, "é"), ("rails.gpu02", 9, "é")]),
        ("mac_seed: x", "mac_seed: x", []),
    ],
)
def test_a_marked_comment_is_a_finding_at_its_key(old: str, new: str, found: list[tuple[str, int, str]]) -> None:
    base = BASE.replace("\n", "\r\n" if "\r\n" in old else "\r" if "\r" in old else "\n")
    assert marks(base.replace(old, new)) == found


def test_a_mark_at_the_end_of_the_file_is_a_finding() -> None:
    assert marks(BASE + "# DECIDE: more nodes\n") == [("nodes.ai-[1:2].address", 16, "more nodes")]


@pytest.mark.parametrize("value", ["DECIDE", '"DECIDE: the seed of MAC addresses"'])
def test_a_marked_value_is_a_finding(value: str) -> None:
    ((place, line, _question),) = marks(BASE.replace("  mtu: 4200\n", "  mtu: 4200\n  mac_seed: %s\n" % value))
    assert (place, line) == ("fabric.mac_seed", 7)


def test_a_marked_value_of_the_wrong_type_is_one_finding() -> None:
    assert [found.code for found in lint(BASE.replace("4200", "DECIDE").encode()).findings] == ["RY112"]


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("mtu: 4200\n", 'mtu: 4200\n  mac_seed: "x # DECIDE: y"\n'),
        BASE + "    vars:\n      note: |\n        # DECIDE: not a comment\n",
        BASE + '    vars: {note: "a\n      # DECIDE: not a comment"}\n',
        "# Imported. DECIDE marks what no manifest contains.\n" + BASE,
        BASE + "    vars: {note: UNDECIDED}\n",
        BASE.replace("mtu: 4200\n", "mtu: 4200\n  # DECIDED: by the network team\n"),
    ],
)
def test_other_texts_are_not_marks(text: str) -> None:
    text = text.replace('ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]"}', "ai-1:\n    profile: hgx")
    assert lint(text.encode()).findings == []


def test_a_mark_can_be_suppressed_with_a_reason() -> None:
    text = BASE.replace("  mtu: 4200\n", "  # DECIDE: the MTU\n  mtu: 4200\n")
    text += "lint:\n  - {rule: undecided-value, place: fabric.mtu, reason: asked the network team}\n"
    assert [found.severity for found in lint(text.encode()).findings] == ["note"]


def test_every_mark_of_an_import_is_a_finding_of_its_file() -> None:
    seen = 0
    for code, rule in IMPORT_RULES.items():
        outcome = run([("manifests.yml", rule.bad.encode("utf-8", "surrogateescape"))], Options("ai", provider="agent"))
        written = [line.strip() for line in outcome.text.splitlines() if line.strip().startswith("# DECIDE: ")]
        found = "; ".join(question for _place, _line, question in marks(outcome.text))
        assert [each for each in written if each[len("# DECIDE: ") :][:60] not in found] == [], code
        seen += len(written)
    assert seen > 20
