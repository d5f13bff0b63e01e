# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists in pages and a server that goes away, against a server that is a function."""

from __future__ import annotations

import json
import typing as t
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api import api_server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Unreachable
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource, Server

PODS = Resource("/api/v1", "pods", True)
Answer = t.Tuple[int, t.Any]


class Far:
    """The other end: answers by ``say``, and keeps what was asked."""

    def __init__(self, say: t.Callable[[str, str, dict[str, str]], Answer]) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.reported: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[t.Any] = []
        self._say = say

    def send(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(url)
        assert parts.netloc == "far:6443"
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.asked.append((method, parts.path, query))
        self.headers.append(headers)
        self.bodies.append(json.loads(body or b"null"))
        status, value = self._say(method, parts.path, query)
        return status, value if isinstance(value, bytes) else json.dumps(value).encode()

    def server(self) -> Server:
        return Server("https://far:6443", self.send, lambda: {"authorization": "Bearer x"}, 4, self.reported.append)

    def paths(self) -> list[str]:
        return [path for _method, path, _query in self.asked]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes by sleeping alone."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(api_server.time, "sleep", sleep)
    monkeypatch.setattr(api_server.time, "monotonic", lambda: clock[0])
    return clock


def named(numbers: t.Iterable[int]) -> list[dict[str, t.Any]]:
    return [{"metadata": {"name": "p%d" % number}, "spec": {"large": "x"}} for number in numbers]


def test_a_list_is_read_page_by_page_and_keeps_what_it_is_reported_to() -> None:
    pages = {None: (named(range(3)), "two"), "two": (named(range(3, 6)), "three"), "three": (named([6]), "")}

    def say(_method: str, _path: str, query: dict[str, str]) -> Answer:
        assert query["labelSelector"] == "a=b" and query["limit"] == str(api_server._PAGE)
        items, token = pages[query.get("continue")]
        return 200, {"items": items, "metadata": {"continue": token}}

    far = Far(say)
    found = far.server().list(PODS, "a=b", keep=lambda item: item["metadata"])
    assert found == [{"name": "p%d" % number} for number in range(7)]
    assert len(far.asked) == 3
    assert {header["authorization"] for header in far.headers} == {"Bearer x"}


def test_a_list_with_an_expired_token_is_read_again_and_not_forever() -> None:
    left = [2]

    def say(_method: str, _path: str, query: dict[str, str]) -> Answer:
        if "continue" not in query:
            return 200, {"items": named([len(far.asked)]), "metadata": {"continue": "on"}}
        if left[0]:
            left[0] -= 1
            return 410, {"message": "The provided continue parameter is too old"}
        return 200, {"items": named([99]), "metadata": {}}

    far = Far(say)
    # nothing of the lists that were given up is in the one that came to its end
    assert [item["metadata"]["name"] for item in far.server().list(PODS)] == ["p5", "p99"]
    left[0] = 99
    with pytest.raises(RailyardError, match="list of pods takes longer than the server keeps"):
        far.server().list(PODS)


def test_a_first_call_without_a_server_is_reported_soon(quick: list[float]) -> None:
    def say(*_words: t.Any) -> Answer:
        raise OSError("connection refused")

    far = Far(say)
    with pytest.raises(Unreachable, match="does not answer: connection refused"):
        far.server().get("/version")
    assert quick[0] < 2 and far.reported == []


def test_a_wrong_certificate_is_not_tried_again() -> None:
    def say(*_words: t.Any) -> Answer:
        raise OSError("certificate verify failed: self-signed certificate")

    far = Far(say)
    with pytest.raises(Unreachable, match="self-signed certificate"):
        far.server().get("/version")
    assert len(far.asked) == 1


def test_a_server_that_starts_again_is_asked_when_it_is_ready(quick: list[float]) -> None:
    """Until it is ready it refuses what it has not read yet; no caller may get that answer."""

    def say(_method: str, path: str, _query: dict[str, str]) -> Answer:
        if 10 <= quick[0] < 25:
            raise OSError("connection refused")
        if quick[0] >= 25 and path == "/readyz":
            return (500, b"[-]poststarthook/rbac failed") if quick[0] < 40 else (200, b"ok")
        assert quick[0] < 10 or quick[0] >= 40, "asked while it was starting"
        return 200, {"path": path}

    far = Far(say)
    made = far.server()
    assert made.get("/one") == {"path": "/one"}
    quick[0] = 10
    assert made.get("/two") == {"path": "/two"}
    assert far.reported == ["https://far:6443 does not answer (connection refused); waiting for it for 60 s"]
    # afterwards nothing is asked beside the request
    before = len(far.asked)
    made.get("/three")
    assert far.paths()[before:] == ["/three"]


def test_a_server_that_stays_away_is_reported_after_a_minute(quick: list[float]) -> None:
    def say(*_words: t.Any) -> Answer:
        if quick[0]:
            raise OSError("connection refused")
        return 200, {}

    made = Far(say).server()
    made.get("/one")
    quick[0] = 1
    with pytest.raises(Unreachable, match="connection refused"):
        made.get("/two")
    assert 60 <= quick[0] < 70


def test_without_the_right_to_check_readiness_the_run_continues(quick: list[float]) -> None:
    def say(_method: str, path: str, _query: dict[str, str]) -> Answer:
        if quick[0] == 10:
            raise OSError("reset by peer")
        return (403, {"message": "forbidden"}) if path == "/readyz" else (200, {})

    made = Far(say).server()
    made.get("/one")
    quick[0] = 10
    assert made.get("/two") == {}


def test_an_overloaded_server_is_given_time_and_then_quoted(quick: list[float]) -> None:
    until = [20.0]

    def say(*_words: t.Any) -> Answer:
        return (200, {}) if quick[0] == 0 or quick[0] > until[0] else (429, {"message": "too many requests"})

    made = Far(say).server()
    made.get("/one")
    quick[0] = 1
    assert made.get("/two") == {}
    quick[0], until[0] = 1, 1e9
    with pytest.raises(RailyardError, match="overloaded or not ready .429.: too many requests"):
        made.get("/three")
