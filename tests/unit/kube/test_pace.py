# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of requests at the same time against simulated servers, whose clock is a number."""

from __future__ import annotations

import heapq
import threading
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Pace, each

# Requests under way -> answers a second.
Throughput = t.Callable[[int, float], float]


def simulated(throughput: Throughput, count: int, most: int = 8, pace: Pace | None = None) -> tuple[float, list[int]]:
    """Seconds until all is answered, and the limit at each answer."""
    pace = pace or Pace(most)
    now, sent, limits = 0.0, 0, []
    under_way: list[float] = []
    last = 0.0
    while sent < count or under_way:
        while sent < count and len(under_way) < pace.limit:
            sent += 1
            # an answer that comes after all others that are under way, at the server's rate for so many
            rate = throughput(len(under_way) + 1, now)
            parallel = rate / throughput(1, now)
            service = 1 / throughput(1, now)
            last = max(last + service / max(1.0, parallel), now + service)
            heapq.heappush(under_way, last)
        now = heapq.heappop(under_way)
        pace.done(now)
        limits.append(pace.limit)
    return now, limits


def test_a_fast_server_gets_as_many_as_are_allowed() -> None:
    seconds, limits = simulated(lambda many, _now: 20.0 * many, 500)
    assert set(limits[60:]) == {8}
    # eight at a time from the first on take 500 / 160 s
    assert seconds < 1.2 * 500 / 160


@pytest.mark.parametrize("most", [1, 3, 5, 8, 32])
def test_never_more_than_are_allowed(most: int) -> None:
    _seconds, limits = simulated(lambda many, _now: 20.0 * many, 800, most)
    assert max(limits) == most and limits[-1] == most


def test_a_webhook_that_handles_one_after_the_other_gets_one_or_two() -> None:
    _seconds, limits = simulated(lambda _many, _now: 36.0, 500)
    assert max(limits) <= 4
    assert sum(limit <= 2 for limit in limits) > 0.85 * len(limits)


def test_a_webhook_that_more_requests_make_slower_costs_no_more_than_one_at_a_time() -> None:
    """36 answers a second of one request at a time, 20 of eight."""

    def throughput(many: int, _now: float) -> float:
        return 36.0 - 16.0 * (many - 1) / 7

    seconds, limits = simulated(throughput, 512)
    assert limits[-1] <= 2 and seconds < 1.15 * 512 / 36
    assert Pace(8).limit == 2


def test_a_server_of_two_processors_gets_what_it_can_use() -> None:
    seconds, limits = simulated(lambda many, _now: 50.0 * min(many, 4), 1000)
    assert seconds < 1.2 * 1000 / 200 and limits[-1] in (4, 8)


def test_concurrency_falls_with_a_slow_server_and_recovers() -> None:
    def throughput(many: int, now: float) -> float:
        return 30.0 if 2.0 < now < 20.0 else 30.0 * many

    _seconds, limits = simulated(throughput, 5000)
    slow = limits[500:900]
    assert sum(limit <= 2 for limit in slow) > 0.6 * len(slow)
    assert limits[-1] == 8


def test_work_is_paced_by_what_is_measured() -> None:
    """One lock is what a serial webhook is: more requests at once wait for each other."""
    lock, counting, count, most = threading.Lock(), threading.Lock(), [0], [0]
    done: list[int] = []

    def work(item: int) -> None:
        with counting:
            count[0] += 1
            most[0] = max(most[0], count[0])
        with lock:
            time.sleep(0.001)
        with counting:
            count[0] -= 1
            done.append(item)

    each(work, range(100), 8, lambda text: None, "working", Pace(8))
    assert sorted(done) == list(range(100)) and 1 <= most[0] <= 8
