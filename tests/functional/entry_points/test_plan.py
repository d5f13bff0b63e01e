# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/validate.yml`` and ``playbooks/plan.yml`` as a person, a CI and AWX run them."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files
from benchmarks import replay_fabric
from tests import playbook
from tests.playbook import ROOT, Played

GOOD = ROOT / "inventories" / "macvlan-roce" / "fabric.yml"


def play(name: str, *words: str, inventory: str | Path = "localhost,", cwd: Path = ROOT, **given: object) -> Played:
    return playbook.play("playbooks/" + name, *words, inventory=inventory, given=given, cwd=cwd)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "cluster" / "fabric.yml"
    path.parent.mkdir()
    text = GOOD.read_text().replace("mtu: 4200", "mtu: jumbo", 1)
    assert "jumbo" in text
    path.write_text(text)
    return path


def test_a_good_inventory_passes_by_itself() -> None:
    done = play("validate.yml", inventory="inventories/macvlan-roce")
    assert done.returncode == 0, done.text
    assert "inventories/macvlan-roce/fabric.yml: no findings" in done.stdout
    assert "changed=0" in done.stdout and "failed=0" in done.stdout


def test_a_bad_file_is_reported_and_fails(bad: Path, tmp_path: Path) -> None:
    done = play("validate.yml", cwd=tmp_path, fabric_file="cluster", report_dir="out", schema_file="new/schema.json")
    assert done.returncode == 2, done.text
    assert re.search(r"wrong-type \(RY112\)\s+error\s+fabric\.mtu\s+jumbo is not a whole number", done.stdout)
    assert "cluster/fabric.yml: 1 error. Remedy: " in done.stdout
    assert (tmp_path / "new/schema.json").read_bytes() == (ROOT / "docs" / "fabric.schema.json").read_bytes()
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["findings.json", "findings.junit.xml", "findings.sarif"]
    assert json.loads((out / "findings.json").read_text())["counts"]["error"] == 1
    (result,) = json.loads((out / "findings.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "cluster/fabric.yml"
    assert xml.parse(out / "findings.junit.xml").getroot().get("failures") == "1"


def test_more_forks_are_recommended_for_more_nodes_than_forks(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yml"
    file.write_text(replay_fabric.fabric(24))
    few, enough = (play("validate.yml", "-f", forks, fabric_file=str(file)) for forks in ("5", "24"))
    assert few.returncode == 0 and "Recommended for 24 nodes" in few.stdout and "add -f 24" in few.stdout, few.text
    assert enough.returncode == 0 and "Recommended" not in enough.stdout, enough.text


def test_a_bad_inventory_still_stops_before_any_play(bad: Path) -> None:
    for name in ("validate.yml", "plan.yml", "hosts.yml"):
        done = play(name, inventory=bad)
        assert done.returncode != 0 and "PLAY" not in done.stdout
        assert "%s:" % bad in done.stderr and "RY112" in done.stderr


def test_plan_yml_shows_the_plan_writes_files_and_compares(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yml"
    shutil.copy(GOOD, file)

    def plan(*words: str, **given: str) -> Played:
        return play("plan.yml", *words, cwd=tmp_path, fabric_file="fabric.yml", report_dir="out", **given)

    would = plan("--check")
    assert would.returncode == 0 and "changed=1" in would.stdout, would.text
    assert not (tmp_path / "out").exists()

    done = plan()
    assert done.returncode == 0 and "changed=1" in done.stdout
    for message in ("fabric ai-10-1-16: ", "172.16.11.201/24", "172.16.18.254", "mlx5_gpu01"):
        assert message in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    outlook = done.stdout[done.stdout.index("2 nodes: 16 ports to configure\n") :]
    assert (
        "in Kubernetes: 8 networks, 8 pools, 8 resources\n" in outlook and "reboots: the plan has no setting" in outlook
    )
    assert re.search(r"\nnext: ansible-playbook -i \S+ playbooks/hosts.yml --check\n", outlook), outlook
    out = tmp_path / "out"
    names = ["leaves.csv", "leaves.md", "objects.csv", "plan.json", "ports.csv", "topology.svg"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert len((out / "ports.csv").read_text().splitlines()) == 17

    shutil.copy(out / "plan.json", tmp_path / "old.json")
    against = {"plan_diff": "old.json", "plan_fail_on": "renumbered,removed"}
    same = plan(**against)
    assert same.returncode == 0 and same.stdout.count("against old.json: the plans are the same\n") == 2
    assert json.loads((out / "diff.json").read_text())["changes"] == []
    again = plan(**against)
    assert again.returncode == 0 and "changed=0" in again.stdout

    file.write_text(file.read_text().replace("172.16.", "172.17."))
    other = plan(**against)
    assert other.returncode == 2
    assert "!!! RENUMBERED: " in other.stdout and "[WARNING]" in other.text
    assert json.loads((out / "diff.json").read_text())["counts"]["renumbered"] >= 16

    kept = (tmp_path / "old.json").read_bytes()
    (out / "plan.json").write_bytes(kept)
    for _time in range(2):
        itself = plan(plan_diff="out/plan.json", plan_fail_on="renumbered")
        assert itself.returncode == 2 and "out/plan.json is not overwritten" in itself.text
        assert (out / "plan.json").read_bytes() == kept
    taken = plan(plan_diff="out/plan.json")
    assert taken.returncode == 0 and (out / "plan.json").read_bytes() != kept


def test_a_plan_that_is_to_fail_on_differences_from_nothing_reports_so() -> None:
    done = play("plan.yml", fabric_file=str(GOOD), plan_fail_on="renumbered")
    assert done.returncode == 2 and "the earlier plan is not set" in done.text
    assert "-e plan_diff=OLD/plan.json" in done.text


def test_a_plan_of_a_bad_file_reports_its_errors(bad: Path) -> None:
    done = play("plan.yml", fabric_file=str(bad))
    assert done.returncode == 2 and "wrong-type (RY112) fabric.mtu: jumbo is not a whole number" in done.text


# -- which files, and writing them


def test_the_fabric_files_of_a_directory_are_read(bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cluster/group_vars/fabric.yml", "cluster/.old/fabric.yml", "cluster/hosts.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(GOOD.read_text() if "fabric" in name else "all: {}\n")
    assert _fabric_files.named(["cluster"]) == ["cluster/fabric.yml"]
    assert _fabric_files.named([str(bad), "cluster/fabric.yml"]) == ["cluster/fabric.yml"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(RailyardError, match="the directory contains no fabric file"):
        _fabric_files.named(["empty"])


def test_only_differences_are_written(tmp_path: Path) -> None:
    out = str(tmp_path / "a" / "b")
    files = {"one": b"1", "two": b""}
    assert [file["changed"] for file in _fabric_files.write(out, files, check=True)] == [True, True]
    assert not (tmp_path / "a").exists()
    assert [file["changed"] for file in _fabric_files.write(out, files, check=False)] == [True, True]
    before = os.stat(os.path.join(out, "one")).st_mtime_ns
    done = _fabric_files.write(out, dict(files, two=b"22"), check=False)
    assert [(file["changed"], file["size"]) for file in done] == [(False, 1), (True, 2)]
    assert os.stat(os.path.join(out, "one")).st_mtime_ns == before
    assert sorted(os.listdir(out)) == ["one", "two"]


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RailyardError, match="the report cannot be written: Not a directory") as caught:
        _fabric_files.write(str(tmp_path / "file" / "out"), {"one": b""}, check=False)
    assert caught.value.remedy


def test_the_version_is_that_of_the_collection() -> None:
    message = re.search(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE)
    assert message and message.group(1) == VERSION
