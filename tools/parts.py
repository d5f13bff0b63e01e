#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/parts.py [--resume] [--jobs N] [--lab PART,PART...] [PART...]: run make targets in parallel, with a summary.

The parts of ``--lab`` run sequentially, because each has guests. The other parts run beside them with a lower priority,
N at a time (default: 3). Every part runs to its end, even if others fail. ``--resume`` skips parts that have passed
with the same content of the checkout.

At the end it prints the slowest tests, the skipped and failed tests with their reasons, and one line of totals. The
exit status is 1 if anything failed. The output of each part is in tests/output/parts/PART.log. If this program is
interrupted or terminated, it interrupts its parts and waits until they have ended.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "tests" / "output" / "parts"
SLOWEST = 15
TAIL = 60
OUTCOMES = ("passed", "failed", "skipped")
ENDINGS = (signal.SIGINT, signal.SIGTERM)
# Niceness of parts that run beside guests. They still get a fifth of a busy processor. Where the scheduler groups
# processes by session, nice counts only within a session, and the group has a value of its own; see sched(7).
BESIDE = "5"
START_BESIDE = '{ echo %s >/proc/self/autogroup; } 2>/dev/null; exec nice -n %s make "$0"' % (BESIDE, BESIDE)
sys.path.insert(0, str(ROOT))

from tests import skips  # noqa: E402


class Part:
    """One make target: its process, its log, and the results of its pytest runs."""

    def __init__(self, name: str, beside: bool) -> None:
        """``beside``: whether it runs beside guests."""
        self.name = name
        self.command = ["sh", "-c", START_BESIDE, name] if beside else ["make", name]
        self.log = OUTPUT / (name + ".log")
        self.results = OUTPUT / name
        self.rc: int | None = None
        self.seconds = self.processor = 0.0

    def start(self) -> None:
        shutil.rmtree(self.results, ignore_errors=True)
        self._began = time.monotonic()
        env = {**os.environ, "RAILYARD_RESULTS": str(self.results)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a group of processes that can be interrupted as a whole
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS),
            )

    def end(self, status: int, processor: float) -> None:
        self.rc = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds, self.processor = time.monotonic() - self._began, processor

    def found(self) -> list[dict[str, t.Any]]:
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self.results.glob("*.json"))]

    def counts(self) -> collections.Counter[str]:
        """Return outcome of tests -> count. A part without tests, or that failed although its tests passed, adds 1."""
        found = self.found()
        counted = collections.Counter({key: sum(each[key] for each in found) for key in OUTCOMES})
        if self.rc and not counted["failed"]:
            counted["failed"] = 1
        elif not found:
            counted["passed"] = 1
        return counted


def content() -> str:
    """Return a hash of the checkout: its commit and the differences from it."""
    digest = hashlib.sha256()
    for command in ("rev-parse HEAD", "diff HEAD", "ls-files --others --exclude-standard"):
        digest.update(subprocess.run(["git", *command.split()], cwd=ROOT, capture_output=True, check=True).stdout)
    return digest.hexdigest()


def passed_before(name: str, key: str) -> bool:
    mark = OUTPUT / (name + ".passed")
    return mark.exists() and mark.read_text(encoding="utf-8") == key


def run(lab: t.Sequence[str], others: t.Sequence[str], jobs: int) -> list[Part]:
    """Run all parts, and return them in the order in which they ended."""
    running: dict[int, Part] = {}
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # a shell may have started this program with SIGINT ignored, which parts would inherit
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(lab, others, jobs, running)
    except KeyboardInterrupt:
        for act in (lambda pid: os.killpg(pid, signal.SIGINT), lambda pid: os.waitpid(pid, 0)):
            for pid in running:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):  # one that has just ended
                    act(pid)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(lab: t.Sequence[str], others: t.Sequence[str], jobs: int, running: dict[int, Part]) -> list[Part]:
    waiting = [*lab, *others]
    done: list[Part] = []
    while waiting or running:
        for name in list(waiting):
            busy = any(each.name in lab for each in running.values())
            if len(running) < jobs and not (busy and name in lab):
                waiting.remove(name)
                part = Part(name, bool(lab) and name not in lab)
                # block interruptions until this part is registered
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
                part.start()
                running[part.process.pid] = part
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
                print("%s: started" % name, flush=True)
        pid, status, usage = os.wait3(0)
        if pid in running:
            part = running.pop(pid)
            part.end(status, usage.ru_utime + usage.ru_stime)
            done.append(part)
            print("%s: %s after %s" % (part.name, "FAILED" if part.rc else "passed", minutes(part.seconds)), flush=True)
            if part.rc:
                lines = part.log.read_text(encoding="utf-8", errors="replace").splitlines()
                print("\n".join(["  " + line for line in lines[-TAIL:]] + ["  (all of it: %s)" % part.log]), flush=True)
    return done


def minutes(seconds: float) -> str:
    return "%d:%02d min" % divmod(round(seconds), 60)


def busy_seconds() -> tuple[float, float]:
    """Return the busy seconds and all seconds of this machine's processors since its boot."""
    with open("/proc/stat", encoding="ascii") as stat:
        numbers = [int(each) for each in stat.readline().split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / 100, sum(numbers) / 100


def summary(parts: t.Sequence[Part]) -> list[str]:
    """Return the lines of the summary: the slowest tests, skipped tests, failed tests, and the totals."""
    lines = ["", "Slowest parts (elapsed time; processor time without guests and servers):"]
    for part in sorted(parts, key=lambda each: -each.seconds):
        lines.append("  %9s  %5.0f s  %s" % (minutes(part.seconds), part.processor, part.name))
    files: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[tuple[str, str]] = collections.Counter()
    for each in (found for part in parts for found in part.found()):
        files.update(each["files"])
        for file, reason in each["skips"]:
            entry = skips.accepted(file, reason)
            reasons[(reason, entry.run_by if entry else "nothing")] += 1
    if files:
        lines.append("The slowest test files:")
        lines += ["  %9s  %s" % (minutes(seconds), name) for name, seconds in files.most_common(SLOWEST)]
    lines.append("Skipped tests: %s" % (sum(reasons.values()) or "none"))
    lines += ["  %4d  %s. To run: %s" % (count, *each) for each, count in reasons.most_common()]
    for part in parts:
        failures = [failure for found in part.found() for failure in found["failures"]]
        lines += ["FAILED (%s) %s: %s" % (part.name, *failure) for failure in failures]
        if part.rc and not failures:
            lines.append("FAILED (%s): make ended with %d" % (part.name, part.rc))
    totals = sum((part.counts() for part in parts), collections.Counter())
    lines.append("")
    lines.append(", ".join("%d %s" % (totals[key], key) for key in OUTCOMES))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--lab", default=[], type=lambda text: text.split(","))
    parser.add_argument("parts", nargs="*")
    words = parser.parse_args()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    key = content() if words.resume else ""
    lab, others = (
        [name for name in names if not (words.resume and passed_before(name, key))]
        for names in (words.lab, words.parts)
    )
    for name in [*words.lab, *words.parts]:
        if name not in lab + others:
            print("%s: passed before, with the same content of the checkout" % name)
    began, before = time.monotonic(), busy_seconds()
    done = run(lab, others, words.jobs)
    for part in done:
        mark = OUTPUT / (part.name + ".passed")
        mark.unlink(missing_ok=True)
        if words.resume and not part.rc:
            mark.write_text(key, encoding="utf-8")
    elapsed = time.monotonic() - began
    busy, all_of_it = (after - first for after, first in zip(busy_seconds(), before))
    *lines, totals = summary(done)
    load = "%.1f of %d processors worked; load average %.1f" % (
        busy / elapsed,
        round(all_of_it / elapsed),
        os.getloadavg()[2],
    )
    print("\n".join([*lines, "%d parts in %s; %s" % (len(done), minutes(elapsed), load), totals]))
    return int(any(part.rc for part in done))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
