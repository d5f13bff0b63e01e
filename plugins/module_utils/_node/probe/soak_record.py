# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A soak: the turns of a prober are repeated until a time, and only what differs between repetitions is kept.

Both ends of a turn repeat it with the same number, so that no control node is needed. A client whose time is over does
not begin its turns any more, and a server serves clients whose clock is slower until its repetition ends.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import group_turns

# Events that are kept, with their time. The numbers of all are kept.
EVENTS_MAX = 50
# Counters with which a lost link is counted.
CARRIER, LINK_DOWNED = "carrier_changes", "link_downed"

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]


class Soak:
    """What has happened after the first pass of a schedule.

    :param options: ``soak_seconds`` (from the start of the prober; 0: no soak), ``soak_turns`` (the number of turns of
        the run, by which the numbers of a repetition are greater) and ``watched``, as of the module rail_probe.
    :param began: time of the monotonic clock when the prober began.
    """

    def __init__(self, options: Options, system: System, began: float) -> None:
        self._options, self._system, self._began = options, system, began
        self.seconds, self.stride = float(options["soak_seconds"]), int(options["soak_turns"])
        self.repetitions = 0
        self._pairs: dict[tuple[str, str], Row] = {}
        self._increases: dict[tuple[str, str], Row] = {}
        self._events: list[Row] = []
        self._counters = self._read() if self.seconds else {}

    def is_over(self) -> bool:
        return time.monotonic() >= self._began + self.seconds

    def repeated(self, turns: t.Sequence[Options]) -> list[Row]:
        """Begin a repetition. Return its turns."""
        self.repetitions += 1
        return [{**turn, "turn": turn["turn"] + self.repetitions * self.stride} for turn in turns]

    def is_repeated(self, turn: Options) -> bool:
        return bool(self.seconds) and turn["turn"] >= self.stride

    def note(self, results: t.Iterable[Row], groups: t.Iterable[Row]) -> None:
        """Note the results of a turn of a repetition, and the counters that have increased since the turn before it."""
        for row in results:
            transfer = row.get("transfer") or {}
            self._pair(row["rail"], row["peer"], row["error"], transfer.get("gbits"), transfer.get("p99_us"))
        # a client that has lost the server of its group has a row without a rail
        for row in groups:
            if row.get("peer") and (row["rail"] or row["error"]):
                self._pair(row["rail"] or "", row["peer"], row["error"], None, None)
        self.note_counters()

    def note_counters(self) -> None:
        """Note counters that have increased."""
        now = self._read()
        for rail, values in now.items():
            for name, value in values.items():
                increase = value - self._counters.get(rail, {}).get(name, value)
                if increase > 0:
                    row = self._increases.setdefault((rail, name), {"increase": 0, "times": 0})
                    row["increase"] += increase
                    row["times"] += 1
                    if name in (CARRIER, LINK_DOWNED):
                        self._event(rail, None, "%s +%d" % (name, increase))
        self._counters = now

    def row(self) -> Row:
        """Return ``seconds``, ``repetitions``, ``pairs``, ``increases`` and ``events`` as module rail_probe does."""
        return {
            "seconds": round(time.monotonic() - self._began, 1),
            "repetitions": self.repetitions,
            "pairs": [{"rail": rail, "peer": peer, **row} for (rail, peer), row in self._pairs.items()],
            "increases": [{"rail": rail, "name": name, **row} for (rail, name), row in self._increases.items()],
            "events": self._events,
        }

    def _pair(self, rail: str, peer: str, error: str, gbits: float | None, p99: float | None) -> None:
        row = self._pairs.setdefault(
            (rail, peer), {"transfers": 0, "failed": 0, "error": "", "least_gbits": None, "greatest_p99_us": None}
        )
        row["transfers"] += 1
        if error:
            row["failed"] += 1
            row["error"] = row["error"] or error
            self._event(rail, peer, error)
        for key, value, worse in (("least_gbits", gbits, min), ("greatest_p99_us", p99, max)):
            if value is not None:
                row[key] = value if row[key] is None else worse(value, row[key])

    def _event(self, rail: str, peer: str | None, text: str) -> None:
        if len(self._events) < EVENTS_MAX:
            self._events.append({"time": round(time.time()), "rail": rail, "peer": peer, "text": text})

    def _read(self) -> dict[str, dict[str, int]]:
        """Return the counters of each watched rail, with the changes of the carrier of its netdevs."""
        found = {}
        for rail, names in (self._options.get("watched") or {}).items():
            found[rail] = group_turns.read(self._system, self._options, rail)
            changes = [self._system.read_int("/sys/class/net/%s/carrier_changes" % name) for name in names["netdevs"]]
            if None not in changes:
                found[rail][CARRIER] = sum(filter(None, changes))
        return found
