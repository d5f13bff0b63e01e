# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Client of the Kubernetes API on a node: one HTTPS request at a time, with the credentials of a kubeconfig file.

The kubeconfig may be the kubelet's own. It is read for each request, so that renewed certificates and tokens are used.
Nodes have no YAML library, so keys are read line by line, in the layout that kubeadm, K3s and RKE2 write.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import tempfile
import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Paths of the kubelet's kubeconfig in kubeadm, K3s and RKE2.
KUBECONFIGS = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
)
# Seconds for one request with its answer.
SECONDS = 10.0
# Longest answer that is read, in bytes. An object of the API server has at most 1.5 MiB, and a node's slices have less.
ANSWER_MAX = 16 << 20
# Longest token, in bytes.
TOKEN_MAX = 64 << 10
# The remedy for answers that are not those of an API server.
WRONG_SERVER = "make sure that the agent's kubeconfig names the cluster's API server"
JSON, APPLY = "application/json", "application/apply-patch+yaml"
# Keys that name files. With the suffix "-data", they have the file's content in base64.
_FILES = ("certificate-authority", "client-certificate", "client-key")
_KEYS = ("server", *_FILES, *(name + "-data" for name in _FILES), "token", "tokenFile", "exec")
_LINE = re.compile(r"^\s*(?:- )?[\"']?(%s)[\"']?:[ \t]*[\"']?([^\s\"',]*)[\"']?,?\s*$" % "|".join(_KEYS), re.MULTILINE)
Document = t.Dict[str, t.Any]


class ApiError(RailyardError):
    """A failed request. ``status``: the HTTP status; None if there was no answer.

    ``absent``: whether the object of the request does not exist. An API server that does not serve the kind of the
    object answers 404 too.
    """

    def __init__(
        self, message: str, place: str, remedy: str, status: int | None = None, absent: bool | None = None
    ) -> None:
        super().__init__(message, place, remedy)
        self.status = status
        self.absent = status == 404 if absent is None else absent


class ApiServer:
    """Sends requests to the API server that a kubeconfig file names.

    :param kubeconfig: the path of the file; None: the first of :data:`KUBECONFIGS` that exists.
    :param setting: the key of the fabric file that names another kubeconfig, for remedies.
    :param program: the name of the program that asks.
    """

    def __init__(
        self,
        system: System,
        kubeconfig: str | None = None,
        setting: str = "slots.kubeconfig",
        program: str = "railyard-agent",
    ) -> None:
        self._system = system
        self._kubeconfig = kubeconfig
        self._setting = setting
        self._program = program

    def request(
        self, method: str, path: str, body: Document | None = None, kind: str = JSON, seconds: float = SECONDS
    ) -> Document:
        """Send a request, and return the answer as data.

        :param path: path of the URL with the query.
        :param kind: content type of the body.
        :raises ApiError: if the server does not answer, or answers with an error.
        :raises RailyardError: if the kubeconfig or a file that it names cannot be used.
        """
        file, values = self._credentials()
        url = urllib.parse.urlsplit(values["server"])
        headers = {"Accept": JSON, "Content-Type": kind, "User-Agent": self._program}
        token = self._token(file, values)
        if token:
            headers["Authorization"] = "Bearer " + token
        context = self._context(file, values)
        data = None if body is None else json.dumps(body).encode()
        remedy = "make sure that the API server runs and that the node reaches it"
        try:
            with _connected(url, context, max(seconds, 0.1)) as connection:
                connection.request(method, url.path.rstrip("/") + path, data, headers)
                answer = connection.getresponse()
                text = answer.read(ANSWER_MAX + 1)
        except TimeoutError:
            message = "the API server does not answer within %d seconds" % max(seconds, 1)
            raise ApiError(message, values["server"], remedy) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError("the API server does not answer: %s" % error, values["server"], remedy) from None
        place = "%s %s" % (method, path.partition("?")[0])
        if len(text) > ANSWER_MAX:
            message = "the API server's answer has more than %d bytes" % ANSWER_MAX
            raise ApiError(message, place, WRONG_SERVER)
        return _document(answer.status, text, place, file)

    def check(self) -> None:
        """Raise :class:`RailyardError` if the kubeconfig or a file that it names cannot be used. Send no request."""
        file, values = self._credentials()
        self._token(file, values)
        self._context(file, values)

    def _credentials(self) -> tuple[str, dict[str, str]]:
        candidates = [self._kubeconfig] if self._kubeconfig else list(KUBECONFIGS)
        file = next((each for each in candidates if self._system.exists(each)), None)
        remedy = "set %s of the fabric file to a kubeconfig with a certificate or a token" % self._setting
        if file is None:
            raise RailyardError("there is no kubeconfig", " or ".join(candidates), remedy)
        values: dict[str, str] = {}
        for key, value in _LINE.findall(self._system.read_file(file) or ""):
            if values.setdefault(key, value) != value:
                raise RailyardError("%s occurs several times, with different values" % key, file, remedy)
        if "exec" in values:
            raise RailyardError("has a credential plugin (exec), which %s does not run" % self._program, file, remedy)
        try:
            url = urllib.parse.urlsplit(values.get("server", ""))
            is_https = url.scheme == "https" and bool(url.hostname) and url.port != 0
        except ValueError:
            is_https = False
        if not is_https:
            raise RailyardError("server is %r, not an https URL" % values.get("server"), file, remedy)
        return file, values

    def _named_file(self, file: str, values: t.Mapping[str, str], key: str) -> str | None:
        """Return the path of the file that the key names, relative to the kubeconfig's directory; None without it."""
        return self._system.path(os.path.join(os.path.dirname(file), values[key])) if values.get(key) else None

    def _token(self, file: str, values: t.Mapping[str, str]) -> str | None:
        path = self._named_file(file, values, "tokenFile")
        if not path:
            return values.get("token")
        try:
            with open(path, encoding="ascii") as stream:
                token = stream.read(TOKEN_MAX).strip()
        except (OSError, ValueError) as error:
            raise RailyardError("cannot be read: %s" % error, path, "write a token into it") from None
        if not re.fullmatch(r"[!-~]+", token):
            raise RailyardError("its content is not a token", path, "write a token into it")
        return token

    def _context(self, file: str, values: t.Mapping[str, str]) -> ssl.SSLContext:
        try:
            names = [key for key in _FILES if values.get(key + "-data")]
            data = {key: base64.b64decode(values[key + "-data"], validate=True) for key in names}
            authority = data.get("certificate-authority")
            context = ssl.create_default_context(
                cafile=None if authority else self._named_file(file, values, "certificate-authority"),
                cadata=authority.decode() if authority else None,
            )
            certificate, key = (self._named_file(file, values, name) for name in ("client-certificate", "client-key"))
            if "client-certificate" in data and "client-key" in data:
                # the ssl module loads certificates from files only
                with tempfile.NamedTemporaryFile() as chain:
                    chain.write(data["client-certificate"] + b"\n" + data["client-key"])
                    chain.flush()
                    context.load_cert_chain(chain.name)
            elif certificate:
                context.load_cert_chain(certificate, key)
        except (OSError, ValueError) as error:
            remedy = (
                "check the certificates that it names, or set %s of the fabric file to another file" % self._setting
            )
            raise RailyardError("its certificates cannot be used: %s" % error, file, remedy) from None
        return context


@contextlib.contextmanager
def _connected(
    url: urllib.parse.SplitResult, context: ssl.SSLContext, seconds: float
) -> t.Iterator[http.client.HTTPSConnection]:
    """Yield a connection that ends after ``seconds``, also while the server sends byte by byte.

    Timeouts of sockets are for each call, so they do not limit the request.

    :raises TimeoutError: if it ended for this reason.
    """
    deadline = time.monotonic() + seconds
    host = url.hostname or ""
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(socket.create_connection((host, url.port or 443), seconds))
        sock = stack.enter_context(context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False))
        # not SSLSocket.shutdown, after which other threads would read without TLS
        timer = threading.Timer(deadline - time.monotonic(), _shut_down, [sock])
        timer.daemon = True
        timer.start()
        stack.callback(timer.cancel)
        connection = http.client.HTTPSConnection(host, url.port or 443, context=context)
        stack.callback(connection.close)
        try:
            sock.do_handshake()
            connection.sock = sock
            yield connection
            if time.monotonic() >= deadline:
                # what was read may be a part of the answer
                raise TimeoutError
        except (OSError, ValueError, http.client.HTTPException):
            if time.monotonic() >= deadline:
                raise TimeoutError from None
            raise


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _document(status: int, text: bytes, place: str, file: str) -> Document:
    """Return the document of a successful answer. Raises :class:`ApiError` for an error or an empty answer."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    document: Document = parsed if isinstance(parsed, dict) else {}
    if 200 <= status < 300 and document:
        return document
    message = document.get("message") or text[:200].decode("utf-8", "replace") or "no text"
    remedy = "see docs/agent.md for the versions of Kubernetes that the agent supports"
    if status >= 500:
        remedy = "make sure that the API server is healthy"
    elif status == 401:
        remedy = "renew the token or the certificate of %s, which has expired or is wrong; no restart is needed" % file
    elif status == 403:
        remedy = "give the user of %s the right" % file
    details = document.get("details")
    absent = status == 404 and isinstance(details, dict) and bool(details.get("name"))
    raise ApiError("the API server answers %d: %s" % (status, message), place, remedy, status, absent)
