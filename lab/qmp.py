# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest's machine monitor (QMP over its unix socket)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.state import node_name


def monitor_socket(run: Path, node: int) -> Path:
    """Return the path of the monitor of a node's machine."""
    return run / ("n%d.qmp" % node)


class Monitor:
    """A connection to the monitor of a guest. QEMU serves one connection at a time, so close it soon."""

    def __init__(self, run: Path, node: int, patience: float = 60.0) -> None:
        self.node = node
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(patience)
        try:
            self._socket.connect(str(monitor_socket(run, node)))
            self._file = self._socket.makefile("rwb")
            self._read()
        except (OSError, ValueError) as error:
            self._socket.close()
            raise self._silent(error) from None
        self.execute("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()
        self._socket.close()

    def _silent(self, error: Exception) -> LabError:
        return LabError(
            "%s's machine does not answer its monitor (%s)" % (node_name(self.node), error),
            "lab up starts what is missing",
        )

    def _read(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise OSError("it hung up")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its result. Raises LabError with QEMU's message if it fails."""
        try:
            self._file.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
            self._file.flush()
            answer = self._read()
            while "event" in answer:
                answer = self._read()
        except (OSError, ValueError) as error:
            raise self._silent(error) from None
        if "error" in answer:
            raise LabError(
                "%s: %s: %s" % (node_name(self.node), command, answer["error"].get("desc")), "see the lab's logs"
            )
        return answer["return"]

    def human(self, line: str) -> str:
        """Run a command of the human monitor, for commands that QMP does not have. Return its output."""
        text: str = self.execute("human-monitor-command", **{"command-line": line})
        return text.strip()
