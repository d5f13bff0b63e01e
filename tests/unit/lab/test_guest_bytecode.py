# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guests keep of modules that come in archives: the same program runs, compiled once."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from lab import bytecode, image

# Imports the module "found" from the archive argv[3], with what is kept in argv[2]; prints its origin and value.
PROGRAM = """
import runpy, sys, zipimport
given = runpy.run_path(sys.argv[1])
given["_kept"].__globals__["PLACE"] = sys.argv[2]
given["_kept"].__globals__["_compile"] = lambda *a, real=given["_compile"]: (print("compiled"), real(*a))[1]
sys.path.insert(0, sys.argv[3])
import found
print(found.where(), found.VALUE)
"""
SOURCE = "VALUE = %d\ndef where():\n    return where.__code__.co_filename\n"


def run(kept: Path, archive: Path, value: int) -> list[str]:
    with zipfile.ZipFile(archive, "w") as new:
        new.writestr("found.py", SOURCE % value)
    argv = [sys.executable, "-c", PROGRAM, str(image.BYTECODE), str(kept), str(archive)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()


def test_a_source_is_compiled_once_wherever_its_archive_lies(tmp_path: Path) -> None:
    kept, one, two = tmp_path / "kept", tmp_path / "one.zip", tmp_path / "two.zip"
    assert run(kept, one, 1) == ["compiled", str(one / "found.py"), "1"]
    assert run(kept, two, 1) == [str(two / "found.py"), "1"]
    # what changed is another source
    assert run(kept, one, 2) == ["compiled", str(one / "found.py"), "2"]


def test_a_guest_uses_the_bytecode_that_the_lab_sends(tmp_path: Path) -> None:
    source = tmp_path / "found.py"
    source.write_text(SOURCE % 1)
    with tarfile.open(fileobj=io.BytesIO(bytecode.packed([source])), mode="r:gz") as sent:
        sent.extractall(tmp_path / "kept")
    assert run(tmp_path / "kept", tmp_path / "one.zip", 1) == [str(tmp_path / "one.zip" / "found.py"), "1"]


def test_the_lab_sends_bytecode_of_modules_and_their_utilities() -> None:
    parts = {"/".join(path.parts[-3:-1]) for path in bytecode.sources()}
    assert {"plugins/modules", "_node/ports", "module_utils/_common"} <= parts


@pytest.mark.parametrize("rubbish", [b"", b"no bytecode"])
def test_damaged_bytecode_is_compiled_again(tmp_path: Path, rubbish: bytes) -> None:
    kept, archive = tmp_path / "kept", tmp_path / "one.zip"
    run(kept, archive, 1)
    (file,) = kept.iterdir()
    file.write_bytes(rubbish)
    assert run(kept, archive, 1) == ["compiled", str(archive / "found.py"), "1"]


def test_where_nothing_can_be_kept_it_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    archive = tmp_path / "one.zip"
    assert run(tmp_path / "file" / "kept", archive, 1) == ["compiled", str(archive / "found.py"), "1"]
