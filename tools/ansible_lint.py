#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/ansible_lint.py [OPTION...]: ansible-lint, with a prepared process for its syntax checks.

ansible-lint starts `ansible-playbook --syntax-check` for each playbook and role, of which most of the processor time is
spent on loading Ansible. Here each check is a fork of one process that has loaded Ansible (tests/prepared.py).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import types
import typing as t
from pathlib import Path

from ansiblelint import __main__ as ansible_lint
from ansiblelint import runner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.prepared import Prepared  # noqa: E402

TIMEOUT = 300.0

_prepared = Prepared()
# A prepared process runs one program at a time. ansible-lint has several threads.
_lock = threading.Lock()


def run(command: list[str], *, env: dict[str, str], **options: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a command in the prepared process if possible, else with `subprocess.run`. Both outputs are text."""
    with _lock:
        done = _prepared.run(command[0], command, env, str(Path.cwd()), TIMEOUT)
    if done:
        return subprocess.CompletedProcess(command, *done)
    return subprocess.run(command, env=env, **options)


if __name__ == "__main__":
    vars(runner)["subprocess"] = types.SimpleNamespace(**{**vars(subprocess), "run": run})
    try:
        ansible_lint._run_cli_entrypoint()
    finally:
        _prepared.close()
