# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory of rendered files: ours are kept up to date, no other file is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.plugin_utils import _rendered

FILES = {"a/b/one.yaml": b"1\n", "a/two.yaml": b"2\n", "three.yaml": b"3\n"}


def held(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != _rendered.INDEX
    }


def test_files_are_written_once(tmp_path: Path) -> None:
    done = _rendered.write(str(tmp_path / "out"), FILES, check=False)
    assert done == {"written": sorted(FILES), "removed": []}
    assert held(tmp_path / "out") == FILES
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert _rendered.write(str(tmp_path / "out"), FILES, check=False) == {"written": [], "removed": []}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == stamps


def test_check_mode_reports_and_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "out"
    assert _rendered.write(str(directory), FILES, check=True)["written"] == sorted(FILES)
    assert not directory.exists()
    _rendered.write(str(directory), FILES, check=False)
    fewer = {"three.yaml": b"new\n"}
    result = _rendered.write(str(directory), fewer, check=True)
    assert result == {"written": ["three.yaml"], "removed": ["a/b/one.yaml", "a/two.yaml"]}
    assert held(directory) == FILES
    assert _rendered.write(str(directory), fewer, check=False) == result
    assert held(directory) == fewer


def test_only_our_files_and_empty_directories_are_removed(tmp_path: Path) -> None:
    _rendered.write(str(tmp_path), FILES, check=False)
    (tmp_path / "a" / "theirs.yaml").write_bytes(b"theirs")
    done = _rendered.write(str(tmp_path), {}, check=False)
    assert done["removed"] == sorted(FILES)
    assert held(tmp_path) == {"a/theirs.yaml": b"theirs"}
    assert not (tmp_path / "a" / "b").exists()


def test_a_file_of_others_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_bytes(b"the owner's own kustomization")
    for check in (True, False):
        with pytest.raises(Refused) as caught:
            _rendered.write(str(tmp_path), FILES, check=check)
        assert caught.value.place.endswith("three.yaml") and "-e render_dir=DIR" in caught.value.remedy
    assert held(tmp_path) == {"three.yaml": b"the owner's own kustomization"}
    (tmp_path / "three.yaml").write_bytes(FILES["three.yaml"])
    assert "three.yaml" not in _rendered.write(str(tmp_path), FILES, check=False)["written"]


def test_an_interrupted_run_keeps_its_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _rendered.write(str(tmp_path), FILES, check=False)
    fewer = {"four.yaml": b"4\n"}

    def cut_off(directory: str, path: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_rendered, "_remove", cut_off)
        with pytest.raises(KeyboardInterrupt):
            _rendered.write(str(tmp_path), fewer, check=False)
    assert _rendered.write(str(tmp_path), fewer, check=False) == {"written": [], "removed": sorted(FILES)}
    assert held(tmp_path) == fewer


def test_a_list_with_a_path_outside_is_refused(tmp_path: Path) -> None:
    outside, directory = tmp_path / "outside.yaml", tmp_path / "out"
    outside.write_bytes(b"kept")
    directory.mkdir()
    (directory / "link").symlink_to(tmp_path)
    (directory / _rendered.INDEX).write_text("../outside.yaml\nlink/outside.yaml\n%s\n" % outside)
    assert _rendered.write(str(directory), {}, check=False)["removed"] == []
    assert outside.read_bytes() == b"kept"


def test_a_failed_write_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file where a folder should be")
    with pytest.raises(RailyardError) as caught:
        _rendered.write(str(tmp_path), FILES, check=False)
    assert caught.value.message == "the files cannot be written: Not a directory"
    assert caught.value.place.startswith(str(tmp_path / "a"))
    assert "render_dir" in caught.value.remedy
