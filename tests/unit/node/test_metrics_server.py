# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of metrics, and clients that try to keep it busy."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import typing as t
import urllib.error
import urllib.request

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import metrics_server
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.metrics_server import MetricsServer
from tests.waiting import wait_for

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"


class Served:
    """A server whose metrics count how often they were collected."""

    def __init__(self, address: str = "127.0.0.1:0", seconds: float = 20, text: str = "up 1\n") -> None:
        self.text = text
        self.collected = 0
        self.server = MetricsServer(address, self.collect, "/etc/railyard/agent.json", seconds)

    def collect(self) -> str:
        self.collected += 1
        return self.text

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def get(self, path: str = "/metrics", host: str = "127.0.0.1") -> str:
        with urllib.request.urlopen("http://%s:%d%s" % (host, self.server.port, path), timeout=20) as answer:
            return str(answer.read().decode())


@pytest.fixture
def served() -> t.Iterator[Served]:
    found = Served()
    yield found
    found.server.close()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_metrics_are_served_by_http(served: Served) -> None:
    assert served.get() == served.get("/metrics?a=b") == "up 1\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        served.get("/other")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen("http://127.0.0.1:%d/metrics" % served.server.port, data=b"x", timeout=20)


def test_all_addresses_of_both_families_are_served() -> None:
    served = Served("*:0")
    hosts = ["127.0.0.1", "[::1]"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
    assert {served.get(host=host) for host in hosts} == {"up 1\n"}
    served.server.close()


def test_a_used_address_is_an_error(served: Served) -> None:
    for address in ("127.0.0.1:%d" % served.server.port, "127.0.0.1:99999", "127.0.0.1:x", "192.0.2.1:80"):
        with pytest.raises(RailyardError, match="metrics cannot be served on .* Remedy: write another address"):
            MetricsServer(address, str, "/etc/railyard/agent.json")


def test_silent_clients_do_not_keep_others_from_the_metrics(served: Served) -> None:
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    silent = [served.connect() for _number in range(4 * metrics_server.CLIENTS_MAX)]
    for client in silent[::2]:
        with contextlib.suppress(ConnectionError):
            client.sendall(b"G")
    assert served.get() == "up 1\n"
    # the clients of this test, and what the server has of them
    assert len(os.listdir("/proc/self/fd")) <= before + len(silent) + metrics_server.CLIENTS_MAX
    assert threading.active_count() == threads
    # the oldest were closed for the newest
    assert is_closed(silent[0]) and is_closed(silent[1])
    for client in silent:
        client.close()


def test_a_client_that_sends_byte_after_byte_is_closed() -> None:
    served = Served(seconds=0.5)
    endless = threading.Event()
    with served.connect() as client:

        def send() -> None:
            with contextlib.suppress(OSError):
                while not endless.wait(0.05):
                    client.sendall(b"x")

        thread = threading.Thread(target=send)
        thread.start()
        assert is_closed(client)
        endless.set()
        thread.join()
    served.server.close()


@pytest.mark.parametrize(
    ("request_sent", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 20000 + b"\r\n\r\n", b""),
        (b"x" * 20000, b""),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x00\xff\r\n\r\n", b"400"),
        (b"GET /\xff HTTP/1.1\n\n", b"404"),
        (b"HEAD /metrics HTTP/1.1\n\n", b"405"),
        (b"", b""),
    ],
)
def test_a_wrong_request_gets_a_short_answer(served: Served, request_sent: bytes, status: bytes) -> None:
    with served.connect() as client:
        # the server may close the connection before it has the rest
        with contextlib.suppress(OSError):
            client.sendall(request_sent)
            client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            answer = client.recv(1000)
            assert answer[9:12] == status and len(answer) < 300
    assert served.collected == 0
    assert served.get() == "up 1\n"


def test_a_client_that_does_not_read_is_closed_and_others_are_answered() -> None:
    served = Served(seconds=0.5, text="x" * 20_000_000)
    with served.connect() as slow:
        slow.sendall(REQUEST)
        received = len(slow.recv(1))
        assert len(served.get()) == 20_000_000
        wait_for(lambda: not served.server._clients)
        with contextlib.suppress(ConnectionError):
            while part := slow.recv(1_000_000):
                received += len(part)
        assert received < 20_000_000
    served.server.close()


def test_many_scrapes_collect_the_metrics_once(served: Served) -> None:
    entered, go_on, concurrent = threading.Event(), threading.Event(), []

    def collect() -> str:
        concurrent.append(served.collected)
        entered.set()
        go_on.wait(20)
        return Served.collect(served)

    served.server._collect = collect
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(served.get())) for _number in range(8)]
    for thread in threads:
        thread.start()
    assert entered.wait(20)
    go_on.set()
    for thread in threads:
        thread.join()
    assert (answers, concurrent) == (["up 1\n"] * 8, [0])


def test_a_failure_of_the_metrics_is_answered(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    served.server._collect = lambda: str(1 // 0)
    with pytest.raises(urllib.error.HTTPError, match="500"):
        served.get()
    assert "ZeroDivisionError" in capfd.readouterr().err
    served.server._collect = served.collect
    served.server._cached_until = 0
    assert served.get() == "up 1\n"
