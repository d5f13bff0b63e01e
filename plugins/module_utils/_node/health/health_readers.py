# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observe all rails at the same time, each in its own thread: a driver that does not answer delays no other rail."""

from __future__ import annotations

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


class RailReaders:
    """Threads that read rails until :meth:`close`."""

    def __init__(self, system: System, rails: t.Sequence[Rail]) -> None:
        self._changed = threading.Condition()
        self._closed = False
        # rail -> when it was asked, in seconds of the monotonic clock; rails that have answered are not in it
        self._asked: dict[str, float] = {}
        self._answers: dict[str, Observation] = {}
        self._rails = [rail.rail for rail in rails]
        for rail in rails:
            reader = RailReader(system, rail)
            threading.Thread(target=self._run, args=(rail.rail, reader), name=rail.rail, daemon=True).start()

    def observe(self) -> dict[str, Observation]:
        """Return rail -> observation; :class:`.Unread` for those that the kernel has not answered in time."""
        now = time.monotonic()
        with self._changed:
            for rail in self._rails:
                self._asked.setdefault(rail, now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._asked, ANSWER_SECONDS)
            found, self._answers = self._answers, {}
            for rail, asked in self._asked.items():
                reason = "the kernel has not answered for %d s" % max(1, time.monotonic() - asked)
                found.setdefault(rail, Unread(reason, DMESG))
            return found

    def close(self) -> None:
        """End the threads, each after its present read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self, rail: str, reader: RailReader) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or rail in self._asked)
                if self._closed:
                    return
            answer: Observation = reader.read()
            with self._changed:
                self._answers[rail] = answer
                self._asked.pop(rail, None)
                self._changed.notify_all()
