# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy of a cluster that records requests, for tests and benchmarks that count them."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

from lab.cluster import api
from lab.cluster.state import Cluster

WRITES = ("POST", "PUT", "PATCH", "DELETE")
PASSED = ("Accept", "Authorization", "Content-Type")


class Proxy:
    """Passes requests to the cluster, and records them as ``(method, path)``.

    A connection whose first request has a token is passed with the rights of that token. Any other connection has the
    rights of the administrator.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.seen: list[tuple[str, str]] = []
        self.after: Callable[[int], None] = lambda writes: None
        self.away = False
        outer, lock = self, threading.Lock()
        contexts = {token: api.trust(cluster.pki, "ca", None if token else "admin") for token in (True, False)}
        port = cluster.ports["api"]

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # headers and body are sent in one packet; the other end would wait for a second one
            wbufsize = -1
            disable_nagle_algorithm = True

            # One connection to the cluster per connection of a client
            _upstream: http.client.HTTPSConnection | None = None

            def finish(self) -> None:
                if self._upstream:
                    self._upstream.close()
                super().finish()

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    outer.seen.append((self.command, self.path))
                    writes = len(outer.writes)
                if self.command in WRITES:
                    outer.after(writes)
                if outer.away:
                    self.close_connection = True
                    return
                headers = {key: self.headers[key] for key in PASSED if self.headers[key]}
                if not self._upstream:
                    context = contexts["Authorization" in headers]
                    self._upstream = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
                try:
                    self._upstream.request(self.command, self.path, body, headers)
                    answer = self._upstream.getresponse()
                    text = answer.read()
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.getheader("Content-Type") or "text/plain")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass

            def log_message(self, *_words: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self._http.server_address[1]

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Return the writes, without dry runs and reviews."""
        return [
            (method, path)
            for method, path in self.seen
            if method in WRITES and "dryRun" not in path and "reviews" not in path
        ]

    @property
    def lists(self) -> list[str]:
        """Return the listed kinds, one entry per request."""
        return [path.partition("?")[0] for method, path in self.seen if "limit=" in path]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
