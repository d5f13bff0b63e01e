# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/report.yml`` and its action: what it reads and writes, and one clear line for what cannot be read."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.action import fabric_report
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import report_documents
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files
from tests.browser.samples import BEGAN, Sample
from tests.playbook import ROOT, Played, play

KINDS = ("verify", "drift")


@pytest.fixture(scope="module")
def two() -> Sample:
    return Sample(2)


def _play(cwd: Path, *words: str, inventory: str | Path = "localhost,") -> Played:
    return play("playbooks/report.yml", *words, inventory=inventory, cwd=cwd)


def _work(directory: Path, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """The action's work, without Ansible around it; of no inventory."""
    action = object.__new__(fabric_report.ActionModule)
    known: dict[str, t.Any] = {"report_dir": str(directory), "file": None, "history": 30}
    with mock.patch.object(_fabric_files, "_inventory_sources", list):
        return action.work(dict(known, **options), check)


# -- as people run it


def test_the_page_of_a_directory(two: Sample, tmp_path: Path) -> None:
    two.write(tmp_path / "reports", history=3)
    would = _play(tmp_path, "--check")
    assert would.returncode == 0 and "changed=1" in would.stdout, would.text
    assert not (tmp_path / "reports" / "report.html").exists()
    done = _play(tmp_path)
    assert done.returncode == 0 and "changed=1" in done.stdout, done.text
    assert "1. ai-10-1-16-2 gpu02: the link has no carrier (RV402): expected " in done.stdout
    assert "the report: reports/report.html" in done.stdout and "WARNING" not in done.text
    page = (tmp_path / "reports" / "report.html").read_bytes()
    assert page.startswith(b"<!DOCTYPE html>\n") and b"Runs, the newest first" in page
    again = _play(tmp_path)
    assert again.returncode == 0 and "changed=0" in again.stdout
    assert (tmp_path / "reports" / "report.html").read_bytes() == page


def test_the_plan_of_the_inventory_has_priority_over_that_of_the_directory(tmp_path: Path) -> None:
    Sample(64).write(tmp_path / "reports")
    done = _play(tmp_path, inventory=ROOT / "inventories" / "sriov-roce")
    assert done.returncode == 0, done.text
    page = (tmp_path / "reports" / "report.html").read_text()
    assert (
        "Rails of fabric ai-10-1-16" in page and "verify.json is of fabric ai-east, and the plan of ai-10-1-16." in page
    )


def test_all_documents_that_are_wrong_are_reported_at_once(two: Sample, tmp_path: Path) -> None:
    two.write(tmp_path / "reports")
    half = (tmp_path / "reports" / "verify.json").read_bytes()
    (tmp_path / "reports" / "verify.json").write_bytes(half[: len(half) // 2])
    (tmp_path / "reports" / "drift.json").write_text('{"format": 2, "kind": "drift"}')
    done = _play(tmp_path)
    assert done.returncode == 2 and "reports/verify.json: this is not JSON, or only a part of it: " in done.text
    message = "reports/drift.json: format: it is 2, and this reads format 1. Remedy: run playbooks/drift.yml again"
    assert message in done.text
    assert not (tmp_path / "reports" / "report.html").exists()


def test_without_a_plan_no_report_is_written(tmp_path: Path) -> None:
    done = _play(tmp_path)
    assert done.returncode == 2 and "the inventory is not a fabric file" in done.text


# -- what it takes


def test_the_file_that_is_named_is_checked_and_planned(tmp_path: Path) -> None:
    (tmp_path / "fabric.yml").write_bytes(Sample(2).file)
    result = _work(tmp_path / "out", file=str(tmp_path / "fabric.yml"))
    assert result["state"] == "not verified" and result["changed"] and result["steps"] == []
    page = (tmp_path / "out" / "report.html").read_text()
    assert "None: the fabric file is clean." in page


def test_a_fabric_file_with_errors_is_reported(tmp_path: Path) -> None:
    (tmp_path / "fabric.yml").write_bytes(Sample(2).file.replace(b"mtu: 4200", b"mtu: jumbo"))
    with pytest.raises(RailyardError, match=r"wrong-type \(RY112\) fabric.mtu: jumbo is not a whole number"):
        _work(tmp_path / "out", file=str(tmp_path / "fabric.yml"))
    assert not (tmp_path / "out").exists()


def test_steps_name_their_remedy(two: Sample, tmp_path: Path) -> None:
    result = _work(two.write(tmp_path))
    assert [(step["code"], step["places"][0], step["playbooks"]) for step in result["steps"]] == [
        ("RV402", "ai-10-1-16-2 gpu02", []),
        ("RV505", "ai-10-1-16-1 gpu01", ["playbooks/hosts.yml --limit ai-10-1-16-1"]),
    ]
    assert result["state"] == "failed"


def test_a_verdict_of_another_plan_is_noted(two: Sample, tmp_path: Path) -> None:
    two.write(tmp_path)
    verify = json.loads((tmp_path / "verify.json").read_text())
    (tmp_path / "verify.json").write_text(json.dumps(dict(verify, plan="0" * 64)))
    _work(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "The plan has changed since verify.json was written: run playbooks/verify.yml again." in page
    assert "since drift.json" not in page


def test_an_unreadable_earlier_run_is_omitted_and_reported(two: Sample, tmp_path: Path) -> None:
    two.write(tmp_path, history=2)
    (tmp_path / "history" / "verify-20261119T201500Z.json").write_text("{")
    (tmp_path / "history" / "notes.txt").write_text("mine")
    result = _work(tmp_path)
    (warning,) = result["warnings"]
    assert "\n" not in warning and "verify-20261119T201500Z.json: this is not JSON" in warning
    page = (tmp_path / "report.html").read_text()
    assert "2026-11-20 20:15 UTC" in page and "An earlier run is left out" in page


def test_so_many_earlier_runs_as_are_asked_for(two: Sample, tmp_path: Path) -> None:
    two.write(tmp_path, history=5)
    _work(tmp_path, history=2)
    page = (tmp_path / "report.html").read_text()
    assert "2026-11-19 20:15 UTC" in page and "2026-11-18 20:15 UTC" not in page
    _work(tmp_path, history=0)
    assert "2026-11-20 20:15 UTC" not in (tmp_path / "report.html").read_text()


# -- unreadable documents

WRONG = [
    (b"", "it is empty"),
    (b"{", "this is not JSON, or only a part of it"),
    (b"\xff\xfe", "this is not JSON"),
    (b"[]", "it is not a mapping"),
    (b"{}", "it has no format"),
    (b'{"format": "1"}', 'format: it is "1", and this reads format 1'),
    (b'{"format": true}', "format: it is true"),
    (b'{"format": 1, "kind": "other"}', 'kind: it is "other", and not verify'),
    (b"[" * 100_000, "this is not JSON"),
]


@pytest.mark.parametrize(("raw", "message"), WRONG)
def test_an_invalid_document(raw: bytes, message: str) -> None:
    with pytest.raises(RailyardError) as caught:
        report_documents.verdict(raw, "reports/verify.json", "verify")
    text = str(caught.value)
    assert text.startswith("reports/verify.json: ") and message in text and "\n" not in text
    assert text.endswith("Remedy: run playbooks/verify.yml again, or take the file away.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": None}, "nodes: null is not a list of names"),
        ({"nodes": [1]}, "nodes: [1] is not a list of names"),
        ({"ok": "yes"}, 'ok: "yes" is neither true nor false'),
        ({"began": "yesterday"}, 'began: "yesterday" is not a time'),
        ({"seconds": -1}, "seconds: -1 is not a number of 0 or more"),
        ({"matrix": {"n": {"r": "fine"}}}, 'matrix.n.r: "fine" is not one of ok, failed, not checked'),
        ({"matrix": {"n": []}}, "matrix.n: [] is not a mapping"),
        ({"failures": {}}, "failures: {} is not a list"),
        ({"failures": ["x"]}, 'failures[0]: "x" is not a mapping'),
        ({"failures": [{"node": ["x"]}]}, 'failures[0].node: ["x"] is not text'),
        ({"layers": [{"checked": 1.5}]}, "layers[0].checked: 1.5 is not a whole number"),
        ({"measures": [{"gbits": "fast"}]}, 'measures[0].gbits: "fast" is not a number of 0 or more'),
        ({"measures": [{}, {"gpu": 1}]}, "measures[1].gpu: 1 is neither true nor false"),
        ({"counters": [{"before": True}]}, "counters[0].before: true is not a whole number"),
        ({"cluster": "up"}, 'cluster: "up" is not a mapping'),
    ],
)
def test_errors_in_a_document_are_named(two: Sample, change: dict[str, t.Any], message: str) -> None:
    with pytest.raises(RailyardError) as caught:
        report_documents.verdict(json.dumps(dict(two.verify(BEGAN, True, 1.0), **change)).encode(), "v.json", "verify")
    assert str(caught.value).startswith("v.json: " + message)


def test_nan_is_not_json(two: Sample) -> None:
    raw = json.dumps(dict(two.verify(BEGAN, True, 1.0), seconds=float("nan"))).encode()
    with pytest.raises(RailyardError, match="NaN is not a number"):
        report_documents.verdict(raw, "v.json", "verify")


def test_invalid_findings_files_are_named() -> None:
    for raw, message in (
        (b'{"format": 1}', "files: it is not a list"),
        (b'{"format": 1, "files": [{"file": "f", "findings": [{"severity": "bad"}]}]}', "severity"),
    ):
        with pytest.raises(RailyardError, match=message):
            report_documents.findings(raw, "findings.json")


@pytest.mark.parametrize(
    "change",
    [
        {"fabric": {}},
        {"rails": [1]},
        {"nodes": [{"name": "n"}]},
        {"nodes": [{"name": "n", "ports": [{"rail": 1}]}]},
        {"units": 3},
        {"rails": [{"name": "r", "networks": 3, "planes": "x"}]},
    ],
)
def test_an_invalid_plan(two: Sample, change: dict[str, t.Any], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(dict(two.plan, **change)))
    with pytest.raises(RailyardError) as caught:
        _work(tmp_path)
    text = str(caught.value)
    assert "plan.json: " in text and "\n" not in text and "run playbooks/plan.yml again" in text


def test_unknown_keys_and_nulls_are_accepted(two: Sample) -> None:
    verify = two.verify(BEGAN, True, 1.0)
    verify["later"] = {"more": 1}
    verify["failures"][0].update(node=None, rail=None, peer=None, expected=None, found=None, playbook=None, later=[])
    for key in (
        "began",
        "seconds",
        "matrix",
        "measures",
        "counters",
        "boots",
        "cluster",
        "warnings",
        "layers",
        "asked",
    ):
        verify[key] = None
    read = report_documents.verdict(json.dumps(verify).encode(), "v.json", "verify")
    assert read.failures[0].node == "" and read.matrix == {} and read.seconds is None


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


@given(st.data())
def test_no_change_of_a_document_ends_in_a_traceback(two: Sample, data: st.DataObject) -> None:
    """Any value anywhere in a verdict: it is read and reported, or one line names the error."""
    kind = data.draw(st.sampled_from(KINDS))
    made = getattr(two, kind)(BEGAN, True, *([1.0] if kind == "verify" else []))
    made = json.loads(json.dumps(made))
    at: t.Any = made
    for _depth in range(data.draw(st.integers(0, 3))):
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        keys = [key for key in keys if isinstance(at[key], (dict, list)) and at[key]]
        if not keys:
            break
        at = at[data.draw(st.sampled_from(keys))]
    key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
    at[key] = data.draw(json_values)
    try:
        read = report_documents.verdict(json.dumps(made).encode(), "v.json", kind)
    except RailyardError as error:
        assert str(error).startswith("v.json: ") and "\n" not in str(error)
        return
    material = fabric_report.Material(two.plan, "0", [], {kind: read}, [fabric_report.run_history.run(read)], "1", [])
    assert fabric_report.Report(material).html()


@pytest.mark.scale
def test_the_page_of_4096_nodes_is_small(tmp_path: Path) -> None:
    Sample(4096).write(tmp_path)
    _work(tmp_path)
    page = (tmp_path / "report.html").read_bytes()
    # healthy nodes are not listed one by one
    assert len(page) < 1_000_000
