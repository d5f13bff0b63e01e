# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client with which the lab sets up a cluster: JSON and YAML over HTTPS with a client certificate."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.cluster.binaries import API
from lab.cluster.state import Cluster
from lab.errors import LabError

MANAGER = "railyard-lab"
APPLY = "application/apply-patch+yaml"
# Seconds before each repetition of a request that the server does not serve yet (429). 1.36 answers so to requests for
# custom resources for a moment after a change of their definition.
AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)


class Unreachable(LabError):
    """The server did not answer, or its answer is not valid."""


class Refused(LabError):
    """The server's answer is an error; ``status`` is its HTTP status."""

    def __init__(self, status: int, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.status = status


def trust(pki: Path, authority: str, who: str | None) -> ssl.SSLContext:
    """Return a TLS context that trusts only ``authority``, with the client certificate of ``who``, if any."""
    context = ssl.create_default_context(cafile=str(pki / (authority + ".crt")))
    if who:
        context.load_cert_chain(pki / (who + ".crt"), pki / (who + ".key"))
    return context


def answers(port: int, path: str, context: ssl.SSLContext, seconds: float = 5.0) -> bool:
    """Return whether a loopback port answers a GET with 200."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Api:
    """One connection to a cluster's API server, as its administrator."""

    def __init__(self, cluster: Cluster, seconds: float = 60.0) -> None:
        self.cluster = cluster
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", cluster.ports["api"], context=trust(cluster.pki, "ca", "admin"), timeout=seconds
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def request(
        self, method: str, path: str, body: bytes | dict[str, Any] | None = None, kind: str = "application/json"
    ) -> Any:
        """Send a request, and return the answer as data.

        :raises Refused: if the server answers with an error.
        :raises Unreachable: if it does not answer.
        """
        remedy = "lab cluster up --name %s" % self.cluster.name
        headers = {"Accept": "application/json", **({"Content-Type": kind} if body is not None else {})}
        try:
            for wait in (*AGAIN, None):
                self._connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
                answer = self._connection.getresponse()
                text = answer.read()
                if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS or wait is None:
                    break
                time.sleep(wait)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unreachable("the API server does not answer (%s)" % error, remedy) from None
        try:
            value = json.loads(text)
        except ValueError:
            value = {"message": text.decode("utf-8", "replace").strip()}
        if answer.status >= 400:
            why = " ".join(str(value.get("message")).split())
            message = "the API server refuses %s %s: %s" % (method, path.partition("?")[0], why)
            raise Refused(answer.status, message, "fix the request, or see %s" % self.cluster.log(API))
        return value

    def get(self, path: str) -> Any:
        """Return an object or a list."""
        return self.request("GET", path)

    def delete(self, path: str, at_once: bool = False) -> None:
        """Delete an object, if it exists. ``at_once``: without a grace period."""
        now = {"gracePeriodSeconds": 0, "apiVersion": "v1", "kind": "DeleteOptions"}
        try:
            self.request("DELETE", path, now if at_once else None)
        except Refused as error:
            if error.status != 404:
                raise

    def apply(self, path: str, body: bytes | dict[str, Any], manager: str = MANAGER) -> Any:
        """Apply an object by server-side apply, and return it. Fields of other managers are taken over.

        :param body: data, or YAML as bytes.
        """
        return self.request("PATCH", "%s?fieldManager=%s&force=true" % (path, manager), body, APPLY)
