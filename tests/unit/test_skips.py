# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No test is skipped in silence: what ``tests/skips.yml`` does not list is a failure."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import skips

ROOT = Path(__file__).resolve().parents[2]
FILES = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")]


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "RAILYARD_"))}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(argv, cwd=ROOT, env={**own, **env}, capture_output=True, text=True, timeout=600)


def test_an_unlisted_reason_is_not_accepted() -> None:
    assert skips.accepted("tests/unit/test_docs.py", "not today") is None
    assert skips.accepted("tests/unit/test_docs.py", "needs root") is not None
    assert skips.accepted("tests/unit/test_docs.py", "this kernel does not support DCB: x") is None


def test_a_folder_that_is_there_must_be_complete(tmp_path: Path) -> None:
    entry = skips.Entry("tests/*", "^no file", "make vendor", (str(tmp_path),))
    assert not entry.matches("tests/unit/test_docs.py", "no file x")
    assert entry._replace(only_without=("vendor/nothing", "$NOT_SET")).matches("tests/unit/test_docs.py", "no file x")


@pytest.mark.parametrize("entry", skips.entries(), ids=lambda entry: entry.reason)
def test_each_entry_is_of_files_that_exist(entry: skips.Entry) -> None:
    assert entry.run_by and any(fnmatch.fnmatch(file, entry.tests) for file in FILES)


def reasons(file: str) -> list[str]:
    """The reasons that a file of tests gives as text."""
    found: list[str] = []
    text = (ROOT / file).read_text(encoding="utf-8")
    if "skip" not in text:
        return found
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("skip", "skipif", "importorskip"):
            values = [each.value for each in call.keywords if each.arg == "reason"] or call.args[:1]
            parts = [each.left if isinstance(each, ast.BinOp) else each for each in values]
            found += [each.value for each in parts if isinstance(each, ast.Constant)]
    return found


def test_each_reason_in_the_tests_is_listed() -> None:
    given = {(file, reason) for file in FILES for reason in reasons(file)}
    assert len(given) > 20
    assert [each for each in given if not any(re.search(entry.reason, each[1]) for entry in skips.entries())] == []


def run_planted(text: str, **env: str) -> subprocess.CompletedProcess[str]:
    planted = ROOT / "tests" / "output" / ("test_planted_%d.py" % os.getpid())
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text + "\n", encoding="utf-8")
    try:
        return run(str(planted), **env)
    finally:
        planted.unlink()


def test_a_missing_file_fails_the_run(tmp_path: Path) -> None:
    text = "from tests import upstream\n\n\ndef test_it() -> None:\n    upstream.chart('kube-flannel.yml')"
    done = run_planted(text, RAILYARD_CHARTS=str(tmp_path))
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout
    assert "kube-flannel.yml is not here" in done.stdout and "tests/skips.yml" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "import pytest; pytest.skip('not today', allow_module_level=True)",
        "import pytest\n\n\n@pytest.mark.skip(reason='not today')\ndef test_it() -> None: ...",
    ],
)
def test_an_unlisted_skip_fails_the_run(text: str) -> None:
    done = run_planted(text)
    assert done.returncode not in (0, 5) and "not today" in done.stdout, done.stdout
