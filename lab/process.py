# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's own processes: started apart from the calling shell, found again, and ended.

No process id is ever written down. Each process carries a mark in its environment that names its lab and its part in
it, and is found by that mark; so a stale file or an id that the kernel has given to another process cannot mislead.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

MARK = "RAILYARD_LAB_MEMBER"


@dataclass(frozen=True)
class Member:
    """A running process of a lab: its part (``node-1``, ``leaf``) and process ID."""

    part: str
    pid: int

    def age(self) -> float:
        """Return the seconds since the process started."""
        try:
            stat = Path("/proc/%d/stat" % self.pid).read_text(encoding="utf-8", errors="replace")
            uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        except OSError:
            return 0.0
        started = int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, uptime - started)


def _mark(pid: int) -> str | None:
    """Return the mark in a process's environment; None without one, for an ended process, or for another user's."""
    try:
        environment = Path("/proc/%d/environ" % pid).read_bytes()
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def spawn(argv: list[str], lab: Path, part: str, log: Path, env: dict[str, str]) -> Member:
    """Start a process in a new session, marked as ``part`` of ``lab``. Its output is written to ``log``."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
            env={**env, MARK: "%s#%s" % (lab, part)},
        )
    # Popen may return before the kernel has loaded the program, and until then its environment cannot be read.
    while _mark(process.pid) is None and process.poll() is None:
        time.sleep(0.001)
    # The process outlives this command, so Popen must not wait for it.
    process.returncode = 0
    return Member(part, process.pid)


def members(lab: Path) -> dict[str, Member]:
    """Return the running processes of the lab with the state directory ``lab``, by part.

    A child process of a guest's machine has the same mark until its program is loaded, and its parent may have ended by
    then. So the oldest process with a mark is the part.
    """
    by_part: dict[str, list[Member]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        directory, _, part = (_mark(pid) or "").rpartition("#")
        if directory == str(lab):
            by_part.setdefault(part, []).append(Member(part, pid))
    return {part: max(processes, key=Member.age) for part, processes in by_part.items()}


# Seconds in which a killed process must end: a busy machine needs time to free a guest's memory.
_KILLED = 60.0


def stop(lab: Path, parts: list[Member], patience: float = 5.0) -> None:
    """End these processes with SIGTERM, and after ``patience`` seconds with SIGKILL.

    The mark is read again after a process file descriptor was opened, so that other processes are never signalled.
    """
    pinned: dict[int, int] = {}
    try:
        for member in parts:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(member.pid)
                if _mark(member.pid) == "%s#%s" % (lab, member.part):
                    pinned[descriptor] = member.pid
                else:
                    os.close(descriptor)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for descriptor in pinned:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
            _wait(list(pinned), patience if number == signal.SIGTERM else _KILLED)
    finally:
        for descriptor in pinned:
            os.close(descriptor)


def _wait(descriptors: list[int], patience: float) -> None:
    """Wait until the processes of these descriptors have ended, for at most ``patience`` seconds."""
    end = time.monotonic() + patience
    poll = select.poll()
    waiting = set(descriptors)
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting and time.monotonic() < end:
        for descriptor, _event in poll.poll(max(0.0, end - time.monotonic()) * 1000):
            poll.unregister(descriptor)
            waiting.discard(descriptor)
