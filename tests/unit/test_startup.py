# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes with tools/startup in PYTHONPATH compile each source once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Prints what the source returns, the names in its code, and whether the code was compiled by this process.
PROGRAM = """
import ast, builtins, sys
real, compiled = sys.modules["sitecustomize"]._compile, []
sys.modules["sitecustomize"]._compile = lambda *a, **b: (compiled.append(a), real(*a, **b))[1]
sys.modules["railyard_lab_bytecode"].PLACE = sys.argv[1]
code = compile(sys.argv[2], sys.argv[3], "exec", dont_inherit=True)
here = {}
exec(code, here)
print(here["value"](), code.co_filename, here["value"].__code__.co_filename, bool(compiled))
assert isinstance(ast.parse(sys.argv[2]), ast.Module) and eval(compile("1 + 1", "", "eval")) == 2
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tools" / "startup")}
    return subprocess.run([sys.executable, "-c", PROGRAM, *words], env=env, capture_output=True, text=True)


def test_the_second_process_uses_the_code_of_the_first(tmp_path: Path) -> None:
    source = "def value():\n    return 7\n"
    assert run(str(tmp_path), source, "one.py").stdout == "7 one.py one.py True\n"
    assert run(str(tmp_path), source, "two.py").stdout == "7 two.py two.py False\n"
    assert run(str(tmp_path), source.replace("7", "8"), "two.py").stdout == "8 two.py two.py True\n"


def test_an_error_names_the_file_and_the_line(tmp_path: Path) -> None:
    for _attempt in range(2):
        assert 'File "wrong.py", line 2' in run(str(tmp_path), "a = 1\nb = (\n", "wrong.py").stderr
