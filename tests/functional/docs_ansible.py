# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook for many calls at one place: each in a fork of a process that has imported it, for half of the time.

Reads calls as lines of JSON, ``{argv, out, err}``, and answers each with its exit status; ``out`` and ``err`` are files
for what it prints.
"""

from __future__ import annotations

import json
import os
import sys
import typing as t

import ansible.executor.playbook_executor
import ansible.inventory.manager
import ansible.plugins.strategy.linear
import ansible.vars.manager  # noqa: F401
from ansible.cli.playbook import PlaybookCLI


def child(call: t.Mapping[str, t.Any]) -> int:
    for number, file, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, call["out"], os.O_WRONLY),
        (2, call["err"], os.O_WRONLY),
    ):
        os.dup2(os.open(file, flags | (os.O_CREAT if number else 0), 0o600), number)
    try:
        PlaybookCLI.cli_executor(call["argv"])
    except SystemExit as done:
        return int(done.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            status = 250
            try:
                status = child(json.loads(line))
            finally:
                os._exit(status)
        _pid, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
