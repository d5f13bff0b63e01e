# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""HTTP server of metrics."""

from __future__ import annotations

import http.server
import socket
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import CONTENT_TYPE

# Timeout of a connection, in seconds.
CLIENT_SECONDS = 10
# Seconds between two checks for the end of the server.
POLL_SECONDS = 2.0


class MetricsServer:
    """Serves ``/metrics`` from its construction on. Raises :class:`RailyardError` if the address cannot be used.

    :param address: ``HOST:PORT``; the host ``*`` means all addresses of the node.
    :param collect: returns the metrics in the text format.
    :param place: place of the error: the file with the address.
    """

    def __init__(self, address: str, collect: t.Callable[[], str], place: str) -> None:
        host, _colon, port = address.rpartition(":")

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = CLIENT_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "see /metrics")
                    return
                body = collect().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: t.Any) -> None:
                """Write nothing to the journal for a scrape."""

        # all addresses of both families, if the kernel has IPv6
        if host == "*":
            host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def server_bind(self) -> None:
                if host == "::":
                    self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                super().server_bind()

        try:
            self._server = Server((host.strip("[]"), int(port)), Handler)
        except (OSError, ValueError, OverflowError) as error:
            raise RailyardError(
                "metrics cannot be served on %s: %s" % (address, error), place, "write another address for 'metrics'"
            ) from None
        self.address = address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
