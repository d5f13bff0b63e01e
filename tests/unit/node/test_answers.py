# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import select
import socket
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import answers


@pytest.fixture
def ends() -> t.Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        yield one, other


def heard(ear: socket.socket, seconds: float, count: int) -> list[bytes]:
    found: list[bytes] = []
    poller = select.poll()
    poller.register(ear.fileno(), select.POLLIN)
    for descriptor in answers.ready(poller, seconds, lambda: len(found) < count):
        assert descriptor == ear.fileno()
        found.append(ear.recv(100))
    return found


def test_answers_that_arrived_in_time_are_read_after_the_timeout(ends: tuple[socket.socket, socket.socket]) -> None:
    for word in (b"one", b"two", b"three"):
        ends[0].send(word)
    assert heard(ends[1], 0, 4) == [b"one", b"two", b"three"]


def test_waiting_ends_with_the_last_expected_answer(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].send(b"one")
    ends[0].send(b"two")
    assert heard(ends[1], 3600, 1) == [b"one"]
    assert heard(ends[1], 3600, 0) == []


def test_a_flood_does_not_extend_the_wait(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_LATE_ROUNDS", 3)
    for _each in range(9):
        ends[0].send(b"x")
    assert heard(ends[1], 0, 99) == [b"x"] * 3
