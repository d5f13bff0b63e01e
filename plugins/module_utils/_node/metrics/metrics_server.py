# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP server of metrics, for clients that are not trusted.

One thread serves all clients, so that they cost a fixed number of files and no thread each. It follows RFC 9112 as far
as a scrape needs it: one GET request per connection.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import threading
import time
import traceback
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import CONTENT_TYPE

# Connections at the same time. A new one replaces the oldest one without a complete request.
CLIENTS_MAX = 16
# Connections that the kernel has accepted and the server has not; more of them wait for a second.
BACKLOG = 128
# Seconds for a client's whole request, and again for the whole answer.
CLIENT_SECONDS = 10.0
# Longest request in bytes.
REQUEST_MAX = 8192
# Seconds for which the metrics are not read again.
CACHE_SECONDS = 3.0
# Seconds between two new connections, so that many of them do not keep the processor busy.
ACCEPT_SECONDS = 0.005
# The same if a connection cannot be accepted, such as with too many open files.
FAILED_ACCEPT_SECONDS = 0.2
PATH = "/metrics"


class Client:
    """A connection. ``answer``: what is left of the answer; None while the request is not complete.

    ``deadline``: when it is closed, in seconds of the monotonic clock.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.deadline = deadline
        self.request = b""
        self.answer: memoryview | None = None


class MetricsServer:
    """Serves ``/metrics`` from its construction on. Raises :class:`RailyardError` if the address cannot be used.

    :param address: ``HOST:PORT``; the host ``*`` means all addresses of the node.
    :param collect: returns the metrics in the text format.
    :param place: place of the error: the file with the address.
    :param seconds: for a client's whole request, and again for the whole answer.
    """

    def __init__(self, address: str, collect: t.Callable[[], str], place: str, seconds: float = CLIENT_SECONDS) -> None:
        host, _colon, port = address.rpartition(":")
        # all addresses of both families, if the kernel has IPv6
        if host == "*":
            host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        try:
            self._listener = socket.create_server(
                (host.strip("[]"), int(port)),
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=host == "::",
            )
        except (OSError, ValueError, OverflowError) as error:
            raise RailyardError(
                "metrics cannot be served on %s: %s" % (address, error), place, "write another address for 'metrics'"
            ) from None
        self.address = address
        self._collect = collect
        self._seconds = seconds
        self._cached = b""
        self._cached_until = float("-inf")
        self._accept_at = float("-inf")
        # in the order of their arrival
        self._clients: list[Client] = []
        self._selector = selectors.DefaultSelector()
        self._listener.setblocking(False)
        # closed to end the thread
        self._ended, self._end = socket.socketpair()
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._end.close()
        self._thread.join()
        for client in list(self._clients):
            self._drop(client)
        self._listener.close()
        self._ended.close()
        self._selector.close()

    # -- connections --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        accepting = False
        while True:
            now = time.monotonic()
            if not accepting and now >= self._accept_at:
                self._selector.register(self._listener, selectors.EVENT_READ)
                accepting = True
            deadlines = [client.deadline for client in self._clients]
            if not accepting:
                deadlines.append(self._accept_at)
            timeout = max(min(deadlines) - now, 0) if deadlines else None
            ready = [key.fileobj for key, _events in self._selector.select(timeout)]
            if self._ended in ready:
                return
            # clients first, so that a new one does not replace one whose request has arrived
            for client in list(self._clients):
                if client.sock in ready:
                    self._serve(client)
            if self._listener in ready:
                self._selector.unregister(self._listener)
                accepting = False
                self._accept()
            for client in list(self._clients):
                if time.monotonic() >= client.deadline:
                    self._drop(client)

    def _accept(self) -> None:
        now = time.monotonic()
        try:
            sock, _address = self._listener.accept()
        except OSError:
            self._accept_at = now + FAILED_ACCEPT_SECONDS
            return
        self._accept_at = now + ACCEPT_SECONDS
        if len(self._clients) >= CLIENTS_MAX:
            silent = [each for each in self._clients if each.answer is None]
            self._drop((silent or self._clients)[0])
        sock.setblocking(False)
        self._clients.append(Client(sock, now + self._seconds))
        self._selector.register(sock, selectors.EVENT_READ)

    def _drop(self, client: Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.sock)
        client.sock.close()

    def _serve(self, client: Client) -> None:
        """Read or write what is possible without waiting."""
        try:
            if client.answer is None:
                self._read(client)
            if client.answer is not None:
                client.answer = client.answer[client.sock.send(client.answer) :]
                if not client.answer:
                    self._drop(client)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)

    def _read(self, client: Client) -> None:
        """Read a part of the request, and compute the answer if it is complete. Raises OSError."""
        part = client.sock.recv(REQUEST_MAX)
        client.request += part
        if not part or len(client.request) > REQUEST_MAX:
            raise ConnectionResetError("the request is not complete, or too long")
        head, end, _rest = client.request.replace(b"\r\n", b"\n").partition(b"\n\n")
        if end:
            client.answer = memoryview(self._answer(head))
            client.deadline = time.monotonic() + self._seconds
            self._selector.modify(client.sock, selectors.EVENT_WRITE)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, head: bytes) -> bytes:
        """Return the answer to a request. ``head``: its first line and its headers."""
        words = head.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return response("400 Bad Request", "the request is not HTTP/1\n")
        if words[0] != b"GET":
            return response("405 Method Not Allowed", "use GET\n", "Allow: GET\r\n")
        if words[1].partition(b"?")[0] != PATH.encode():
            return response("404 Not Found", "see %s\n" % PATH)
        if time.monotonic() >= self._cached_until:
            self._cached = self._metrics()
            # from the end of a slow collection on, so that clients cannot cause one after the other
            self._cached_until = time.monotonic() + CACHE_SECONDS
        return self._cached

    def _metrics(self) -> bytes:
        try:
            return response("200 OK", self._collect(), content_type=CONTENT_TYPE)
        except Exception:
            with contextlib.suppress(OSError):
                sys.stderr.write("metrics: %s" % traceback.format_exc())
            return response("500 Internal Server Error", "the log of the service has the error\n")


def response(status: str, text: str, headers: str = "", content_type: str = "text/plain; charset=utf-8") -> bytes:
    """Return an HTTP response. ``headers``: further ones, each with its line end."""
    body = text.encode()
    head = "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n"
    return (head % (status, content_type, len(body), headers)).encode() + body
