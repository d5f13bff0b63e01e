# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observe all rails sequentially in one thread, because parallel threads would wait for one another.

If a driver does not answer, another thread reads the other rails.
"""

from __future__ import annotations

import collections
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_judge import Observation
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Unread
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_reader import DMESG, RailReader
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import Rail

# Seconds to wait for the kernel's answers about all rails. Later answers are used in the next observation.
ANSWER_SECONDS = 2.0
# Seconds to wait for the answer about one rail before another thread reads the next one.
RAIL_SECONDS = 0.1


class RailReaders:
    """Reads rails until :meth:`close`."""

    def __init__(self, system: System, rails: t.Sequence[Rail]) -> None:
        self._readers = {rail.rail: RailReader(system, rail) for rail in rails}
        lock = threading.Lock()
        self._work, self._done = threading.Condition(lock), threading.Condition(lock)
        # rail -> when it was asked, in seconds of the monotonic clock; rails that have answered are not in it
        self._asked: dict[str, float] = {}
        # rails that were asked and that no thread reads yet
        self._waiting: collections.deque[str] = collections.deque()
        self._answers: dict[str, Observation] = {}
        self._free_threads = 0
        self._closed = threading.Event()

    def observe(self) -> dict[str, Observation]:
        """Return rail -> observation; :class:`.Unread` for those that the kernel has not answered in time."""
        now = time.monotonic()
        with self._done:
            for rail in self._readers:
                if rail not in self._asked:
                    self._asked[rail] = now
                    self._waiting.append(rail)
            before = len(self._waiting)
            while self._asked and time.monotonic() < now + ANSWER_SECONDS:
                if len(self._waiting) == before > 0:
                    self._use_thread()
                before = len(self._waiting)
                self._done.wait(RAIL_SECONDS)
            found, self._answers = self._answers, {}
            for rail, asked in self._asked.items():
                reason = "the kernel has not answered for %d s" % max(1, time.monotonic() - asked)
                found.setdefault(rail, Unread(reason, DMESG))
            return found

    def close(self) -> None:
        """End the threads, each after its present read."""
        with self._work:
            self._closed.set()
            self._work.notify_all()
            for rail, reader in self._readers.items():
                if rail not in self._asked or rail in self._waiting:
                    reader.close()

    def _use_thread(self) -> None:
        """Let one more thread read."""
        if self._free_threads:
            self._work.notify()
        else:
            threading.Thread(target=self._run, name="rails", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._waiting and not self._closed.is_set():
                    if self._free_threads:
                        return
                    self._free_threads += 1
                    self._work.wait()
                    self._free_threads -= 1
                if self._closed.is_set():
                    return
                rail = self._waiting.popleft()
            reader = self._readers[rail]
            answer: Observation = reader.read()
            with self._work:
                if self._closed.is_set():
                    reader.close()
                self._answers[rail] = answer
                self._asked.pop(rail, None)
                if not self._asked:
                    self._done.notify()
