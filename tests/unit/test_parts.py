# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/parts.py runs real make targets: side by side, to their ends, with totals that a failure cannot hide in."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.waiting import wait_for
from tools import parts

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = """\
ok one two:
	echo begin $@ >>order; sleep 0.3; echo end $@ >>order
bad:
	echo it is broken; exit 3
priority:
	nice >>order; cat /proc/self/autogroup >>order; true
tests:
	mkdir -p $$RAILYARD_RESULTS; cp results.json $$RAILYARD_RESULTS/1.json
red:
	mkdir -p $$RAILYARD_RESULTS; cp red.json $$RAILYARD_RESULTS/1.json; exit 1
"""
RESULTS = {
    "files": {"tests/unit/test_docs.py": 3.2},
    "passed": 5,
    "failed": 0,
    "skipped": 1,
    "skips": [["tests/unit/test_docs.py", "needs root"]],
    "failures": [],
}
RED = {**RESULTS, "failed": 2, "failures": [["tests/unit/test_docs.py::test_%s" % name, "no"] for name in "ab"]}
Run = t.Callable[..., "tuple[int, list[str]]"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The program in a folder with a Makefile of its own: exit status and lines."""
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    for name, results in (("results", RESULTS), ("red", RED)):
        (tmp_path / (name + ".json")).write_text(json.dumps(results), encoding="utf-8")
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "OUTPUT", tmp_path / "output")
    monkeypatch.setattr(parts, "content", lambda: "the same")
    monkeypatch.delenv("MAKEFLAGS", raising=False)

    def call(*words: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["parts.py", *words])
        rc = parts.main()
        return rc, capsys.readouterr().out.splitlines()

    return call


def test_totals_are_the_last_line(run: Run) -> None:
    rc, lines = run("ok", "tests")
    assert (rc, lines[-1]) == (0, "6 passed, 0 failed, 1 skipped")
    assert any(re.fullmatch(r"     1  needs root\. To run: root", line) for line in lines), lines
    assert any(line.endswith("tests/unit/test_docs.py") for line in lines)


def test_every_part_runs_to_its_end_and_a_failure_counts(run: Run) -> None:
    rc, lines = run("bad", "ok", "red")
    assert (rc, lines[-1]) == (1, "6 passed, 3 failed, 1 skipped")
    assert "  it is broken" in lines
    assert [line for line in lines if line.startswith("FAILED")] == [
        "FAILED (bad): make ended with 2",
        "FAILED (red) tests/unit/test_docs.py::test_a: no",
        "FAILED (red) tests/unit/test_docs.py::test_b: no",
    ]


def test_failed_and_skipped_tests_are_in_the_results(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        "import pytest\ndef test_a(): assert 1 == 2\ndef test_b(): pytest.skip('later')\ndef test_c(): pass\n"
    )
    program = "import sys, pytest; from pathlib import Path; from tests.results import Results;"
    program += "place, *words = sys.argv[1:]; pytest.main(words, plugins=[Results(Path(place))])"
    argv = [
        sys.executable,
        "-c",
        program,
        str(tmp_path / "results"),
        "-c/dev/null",
        "--rootdir=%s" % tmp_path,
        str(file),
    ]
    subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    (found,) = (json.loads(path.read_text()) for path in (tmp_path / "results").iterdir())
    assert [found[outcome] for outcome in parts.OUTCOMES] == [1, 1, 1]
    assert found["failures"] == [["test_it.py::test_a", "assert 1 == 2"]]
    assert found["skips"] == [["test_it.py", "later"]]


def test_parts_with_guests_follow_one_another(run: Run, tmp_path: Path) -> None:
    assert run("--lab", "one,two", "tests")[0] == 0
    assert (tmp_path / "order").read_text().split("\n")[:4] == ["begin one", "end one", "begin two", "end two"]


def test_parts_beside_guests_have_a_lower_priority(run: Run, tmp_path: Path) -> None:
    assert run("--lab", "ok", "priority")[0] == 0
    words = (tmp_path / "order").read_text().split()
    assert str(min(os.nice(0) + int(parts.BESIDE), 19)) in words
    # "/autogroup-NUMBER nice VALUE", on kernels that group processes by session
    assert not Path("/proc/self/autogroup").exists() or words[words.index("nice") + 1] == parts.BESIDE


def test_passed_parts_are_not_repeated(run: Run) -> None:
    assert run("--resume", "ok", "bad")[1][-1] == "1 passed, 1 failed, 0 skipped"
    rc, lines = run("--resume", "ok", "bad")
    assert (rc, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    assert lines[0].startswith("ok: passed before")
    assert run("ok")[1][-1] == "1 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_from_outside_reaches_the_parts(tmp_path: Path, number: int) -> None:
    """As that of a CI run that takes too long: guests and servers must not be left."""
    line = "trap 'sleep 0.2; echo ended >>it; exit 1' INT; echo began >>it; while :; do sleep 0.1; done"
    (tmp_path / "Makefile").write_text("SHELL := /bin/bash\none two:\n\t@%s\n" % line, encoding="utf-8")
    program = "import sys, time; from pathlib import Path; from tools import parts; parts.ROOT = Path(sys.argv.pop(1));"
    # on a busy machine a part may run before its start returns
    program += "start = parts.Part.start; parts.Part.start = lambda part: (start(part), time.sleep(0.5));"
    program += "parts.OUTPUT = parts.ROOT / 'output'; sys.exit(parts.main())"
    argv = [sys.executable, "-c", program, str(tmp_path), "one", "two"]
    env = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def lines() -> list[str]:
        return (tmp_path / "it").read_text().split() if (tmp_path / "it").exists() else []

    wait_for(lambda: lines() == ["began"] * 2 or process.poll() is not None, lines)
    process.send_signal(number)
    assert process.wait(120) != 0
    assert sorted(lines()) == ["began"] * 2 + ["ended"] * 2


def targets() -> dict[str, str]:
    """The Makefile's targets and what each needs."""
    found: dict[str, str] = {}
    for names, needs in re.findall(r"^([a-z][a-z -]*):(?!=)([^#\n]*)", (ROOT / "Makefile").read_text(), re.MULTILINE):
        found.update(dict.fromkeys(names.split(), needs))
    return found


def variable(name: str) -> list[str]:
    (value,) = re.findall(r"^%s := (.*)$" % name, (ROOT / "Makefile").read_text(), re.MULTILINE)
    return t.cast("list[str]", re.split(r"[ ,]", value))


def test_make_test_and_the_public_workflow_have_the_same_targets() -> None:
    known = targets()
    parts = [*variable("guests"), *variable("beside")]
    assert set(parts) <= set(known) and len(parts) == len(set(parts))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    called = [target for each in workflow["jobs"]["test"]["strategy"]["matrix"]["targets"] for target in each.split()]
    assert set(called) <= set(known) and len(called) == len(set(called))
    # `static` means the targets that it needs
    expanded = [one for each in called for one in (known[each].split() if each == "static" else [each])]
    assert sorted(expanded) == sorted([*parts, *variable("long_marks"), "compat"])
    steps = [each.get("run") for each in workflow["jobs"]["test"]["steps"]]
    assert steps.index("make vendor") < steps.index("make ${{ matrix.targets }}")


def test_each_long_part_is_a_file() -> None:
    files = {path.name for path in (ROOT / "tests" / "integration").glob("test_*.py")}
    assert {"test_%s.py" % name for name in variable("in_long")} <= files
