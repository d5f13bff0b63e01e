# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/import.yml as a person runs it: what is written, what is not, and the errors for wrong options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.action import fabric_import
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import layout_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files
from tests import playbook
from tests.playbook import ROOT, Played

RECORDINGS = ROOT / "tests" / "recordings" / "manifests"


def play(*words: str, **given: object) -> Played:
    return playbook.play("playbooks/import.yml", *words, inventory="localhost,", given=given)


def test_import_writes_the_fabric_file_once(tmp_path: Path) -> None:
    out = tmp_path / "new" / "fabric.yml"
    specs = {
        "import_from": str(RECORDINGS / "sriov-roce.md"),
        "fabric_file": str(out),
        "import_name": "ai",
        "import_nodes": {"ai-[1:2]": {"address": "10.1.16.[1:2]"}},
        "import_mtu": 4200,
    }
    checked = play("--check", "--diff", **specs)
    assert checked.returncode == 0 and "changed=1" in checked.stdout, checked.text
    assert "+  attachment: sriov" in checked.stdout and not out.parent.exists()

    first = play(**specs)
    assert first.returncode == 0 and "changed=1" in first.stdout, first.text
    assert "IM301" in first.stdout and "lint: clean" in first.stdout
    raw = out.read_bytes()
    outcome = lint(raw)
    assert outcome.plan is not None and outcome.findings == []
    assert yaml.safe_load(raw)["nodes"] == {"ai-[1:2]": {"profile": "server", "address": "10.1.16.[1:2]"}}

    second = play(**specs)
    assert second.returncode == 0 and "changed=0" in second.stdout and out.read_bytes() == raw

    other = play(**dict(specs, import_name="another"))
    assert other.returncode != 0 and out.read_bytes() == raw
    assert "Remedy: name another file, or overwrite it with -e import_force=true." in other.text
    forced = play(**dict(specs, import_name="another", import_force=True))
    assert forced.returncode == 0 and yaml.safe_load(out.read_text())["fabric"]["name"] == "another"


def test_patches_are_written_beside_the_fabric_file_and_named(tmp_path: Path) -> None:
    source = tmp_path / "live.yml"
    source.write_text(layout_rules.FULL.good, encoding="utf-8")
    given = {"import_from": str(source), "import_name": "ai", "import_nodes": "ai-[1:2]", "import_provider": "agent"}
    shown = play(**given)
    assert shown.returncode == 0 and "kubectl patch" not in shown.stdout, shown.text
    out = tmp_path / "the prod" / "fabric.yml"
    done = play(**given, fabric_file=str(out))
    (patch,) = (tmp_path / "the prod-exclude-slots").iterdir()
    assert yaml.safe_load(patch.read_text())["spec"]["excludeIPs"] == ["172.16.11.102-172.16.11.200"], done.text
    assert "--patch-file '%s'" % patch in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("dest", "folder"),
    [
        ("fabric.yml", "exclude-slots"),
        ("./fabric.yml", "exclude-slots"),
        ("../fabric.yml", "../exclude-slots"),
        ("/fabric.yml", "/exclude-slots"),
        ("inventories/prod/fabric.yml", "inventories/prod-exclude-slots"),
        ("./prod//fabric.yml", "prod-exclude-slots"),
    ],
)
def test_the_directory_of_patches_is_never_hidden_or_elsewhere(dest: str, folder: str) -> None:
    assert fabric_import._patch_folder(dest) == folder


def test_patches_that_cannot_be_written_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "prod-exclude-slots").touch()
    with pytest.raises(RailyardError) as caught:
        _fabric_files.write(str(tmp_path / "prod-exclude-slots"), {"a": b""}, False, "fabric_file", "patches of pools")
    assert caught.value.message == "the patches of pools cannot be written: File exists"
    assert caught.value.remedy == "name a file that you may write, with -e fabric_file=OUT"


def test_a_directory_without_a_file_to_write_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text((RECORDINGS / "network-operator.yml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    done = play(import_from=str(tmp_path), import_nodes="ai-[1:2],ai-9")
    assert done.returncode == 0, done.text
    assert "provider: network-operator" in done.stdout and "ai-9: {profile: server}" in done.stdout
    # the pools leave no address of a prefix to the node's own port
    assert "picture.png" not in done.stdout and set(re.findall(r"\bIM\d+", done.stdout)) == {"IM211", "IM321"}
    assert "to decide: 2 (DECIDE and CHECK in the file); findings: 1 error, " in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "No manifests are named. Remedy: add -e import_from=PATHS"),
        ({"import_from": "README.md"}, "nothing-imported (IM104) nothing in this file describes a rail. Remedy: "),
        (
            {"import_from": "tests/recordings/manifests/network-operator.yml", "fabric_file": "/proc/none/fabric.yml"},
            "Remedy: name a file that you may write, with -e fabric_file=OUT.",
        ),
    ],
    ids=["nothing named", "no manifest", "no place to write"],
)
def test_wrong_options_end_with_one_clear_line(variables: dict[str, object], message: str) -> None:
    done = play(**variables)
    assert done.returncode != 0 and message in done.text, done.text


def test_nodes_are_names_ranges_or_a_mapping() -> None:
    assert fabric_import._nodes("ai-[1:2], ai-9") == {"ai-[1:2]": {}, "ai-9": {}}
    assert fabric_import._nodes(["ai-1"]) == {"ai-1": {}}
    assert fabric_import._nodes({"ai-1": None, "ai-2": {"index": 7}}) == {"ai-1": {}, "ai-2": {"index": 7}}
    assert fabric_import._nodes("") is None
    for wrong in (7, [{"a": 1}], {"ai-1": "x"}):
        with pytest.raises(RailyardError, match="neither names nor a mapping"):
            fabric_import._nodes(wrong)


def test_files_that_configure_interfaces_are_read(tmp_path: Path) -> None:
    names = ["ai-1/10-rail.network", "ai-1/rail.nmconnection", "ai-2/ifcfg-ens1np0", "ai-2/bond0.netdev", "pools.yml"]
    for name in [*names, "ai-1/notes.odt", "ai-1/.ifcfg-old"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = fabric_import._files([str(tmp_path)])
    assert [name[-len(each) :] for name, each in zip(found, sorted(names))] == sorted(names) and len(found) == 5


def test_missing_files_are_reported(tmp_path: Path) -> None:
    for wrong, message in (([], "no file is given"), ([str(tmp_path)], "the directory contains no manifest")):
        with pytest.raises(RailyardError, match=message):
            fabric_import._files(wrong)
    with pytest.raises(RailyardError, match="it cannot be read: No such file or directory"):
        _fabric_files.read(str(tmp_path / "none.yml"))
