# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a prober keeps of a soak."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.soak_record import EVENTS_MAX, Soak

WATCHED = {"gpu01": {"netdevs": ["ens1"], "devices": ["mlx5_0"]}}
TURNS = [{"turn": 0, "mode": "serve"}, {"turn": 3, "mode": "probe"}]


def soak(root: Path, seconds: float = 3600, **more: t.Any) -> Soak:
    options = {"soak_seconds": seconds, "soak_turns": 7, "watched": WATCHED, **more}
    return Soak(options, System(str(root)), time.monotonic())


def result(error: str = "", gbits: float | None = 390.0, p99: float | None = 2.0) -> dict[str, t.Any]:
    transfer = {"gbits": gbits, "p99_us": p99}
    return {"rail": "gpu01", "peer": "ai-2", "error": error, "transfer": transfer if gbits is not None else None}


def counter(root: Path, value: int, name: str = "link_downed", place: str = "counters") -> None:
    directory = root / "sys/class/infiniband/mlx5_0/ports/1" / place
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("%d\n" % value)


def carrier(root: Path, changes: int) -> None:
    directory = root / "sys/class/net/ens1"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "carrier_changes").write_text("%d\n" % changes)


def test_repetitions_have_numbers_of_their_own(tmp_path: Path) -> None:
    own = soak(tmp_path)
    assert not any(map(own.is_repeated, TURNS))
    first, second = own.repeated(TURNS), own.repeated(TURNS)
    assert [turn["turn"] for turn in (*first, *second)] == [7, 10, 14, 17]
    assert all(map(own.is_repeated, (*first, *second))) and own.row()["repetitions"] == 2
    # without a soak nothing is repeated, and its time is over at once
    none = soak(tmp_path, 0)
    assert none.is_over() and not none.is_repeated({"turn": 99}) and not soak(tmp_path).is_over()


def test_the_worst_values_and_all_failures_are_counted_and_few_events_kept(tmp_path: Path) -> None:
    own = soak(tmp_path)
    own.note([result()], [])
    own.note([result(gbits=0.0, p99=9.5), result(gbits=380.0, p99=None)], [])
    for number in range(EVENTS_MAX + 10):
        own.note([result("broken %d" % number, None)], [])
    (pair,) = own.row()["pairs"]
    assert pair == {
        **{"rail": "gpu01", "peer": "ai-2", "transfers": EVENTS_MAX + 13, "failed": EVENTS_MAX + 10},
        **{"error": "broken 0", "least_gbits": 0.0, "greatest_p99_us": 9.5},
    }
    assert len(own.row()["events"]) == EVENTS_MAX and own.row()["events"][0]["text"] == "broken 0"


def test_groups_count_for_their_clients(tmp_path: Path) -> None:
    own = soak(tmp_path)
    served = {"turn": 9, "rail": "gpu01", "clients": ["ai-2", "ai-3"], "lost": {}, "error": "", "counters": {}}
    written = {"turn": 9, "rail": "gpu01", "peer": "ai-4", "gbits": 96.0, "error": ""}
    lost = {"turn": 9, "rail": None, "peer": "ai-5", "gbits": None, "error": "ai-5 does not answer"}
    own.note([], [served, written, lost])
    rows = {(row["rail"], row["peer"]): (row["transfers"], row["failed"]) for row in own.row()["pairs"]}
    assert rows == {("gpu01", "ai-4"): (1, 0), ("", "ai-5"): (1, 1)}


def test_counters_that_increase_are_kept_and_lost_links_are_events(tmp_path: Path) -> None:
    counter(tmp_path, 1)
    counter(tmp_path, 5, "packet_seq_err", "hw_counters")
    carrier(tmp_path, 3)
    own = soak(tmp_path)
    own.note([], [])
    assert own.row()["increases"] == []
    counter(tmp_path, 2)
    carrier(tmp_path, 5)
    own.note([], [])
    counter(tmp_path, 9, "packet_seq_err", "hw_counters")
    own.note([], [])
    counter(tmp_path, 12, "packet_seq_err", "hw_counters")
    # a counter that starts again, as after a reset of the device, did not increase
    counter(tmp_path, 0)
    own.note([], [])
    rows = {row["name"]: (row["increase"], row["times"]) for row in own.row()["increases"]}
    assert rows == {"link_downed": (1, 1), "carrier_changes": (2, 1), "packet_seq_err": (7, 2)}
    assert sorted(event["text"] for event in own.row()["events"]) == ["carrier_changes +2", "link_downed +1"]
