# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes on a guest that stay and answer requests, so that a request needs no SSH session and no sudo of its own.

On an emulated guest, sudo takes ten times the processor time of a short command.
"""

from __future__ import annotations

import base64
import json
import select
import shlex
import subprocess
import typing as t

# Runs a shell command for each line of [command, standard input in base64]. Answers with its exit status and output.
# A test may kill all processes with the name "python3".
COMMANDS = """
import base64, json, subprocess, sys
open("/proc/self/comm", "w").write("commands")
for line in sys.stdin:
    answer = request = json.loads(line)
    if request:
        command, data = request
        done = subprocess.run(["sh", "-c", command], input=base64.b64decode(data), capture_output=True)
        answer = [done.returncode, *(each.decode(errors="replace") for each in (done.stdout, done.stderr))]
    print(json.dumps(answer), flush=True)
"""


class Channel:
    """A process that answers each line of JSON with a line of JSON, and an empty list with an empty list."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, request: t.Any, seconds: float) -> t.Any:
        """Return the answer. Raises EOFError if the process ends, TimeoutExpired without an answer in time."""
        process = self._process
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        ready, _write, _except = select.select([process.stdout], [], [], seconds)
        if not ready:
            raise subprocess.TimeoutExpired(str(request), seconds)
        line = process.stdout.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def answers(self, seconds: float = 120) -> bool:
        """Return whether the process still answers. It ends with a reboot of its guest."""
        try:
            return self.ask([], seconds) == []
        except (EOFError, subprocess.TimeoutExpired):
            return False

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Commands:
    """Shell commands on one guest. Commands of several threads run at the same time."""

    def __init__(self, start: t.Callable[[str], subprocess.Popen[bytes]]) -> None:
        """``start``: starts a shell command as root, with pipes as its input and output."""
        self._start = start
        self._idle: list[Channel] = []

    def run(self, command: str, seconds: float, data: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command with ``data`` as its input. The status is 255 if the connection ends, as that of ssh."""
        channel = self._channel()
        try:
            status, out, err = channel.ask([command, base64.b64encode(data).decode()], seconds)
        except EOFError:
            channel.close()
            return subprocess.CompletedProcess(command, 255, "", "the connection ended")
        except subprocess.TimeoutExpired:
            channel.close()
            raise
        self._idle.append(channel)
        return subprocess.CompletedProcess(command, status, out, err)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _channel(self) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if channel.answers():
                return channel
            channel.close()
        return Channel(self._start("python3 -ISE -c %s" % shlex.quote(COMMANDS)))
