# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent's socket: requests and answers of one line of JSON. Only processes of root get an answer.

A client has a limited time for its whole request, and the number of clients is limited. The hook repeats a request
whose connection is closed without an answer.

Requests: ``{"do": "attach", "device": ID, "state": OCI state}``, answered with ``{"ok": true}`` or ``{"ok": false,
"error": sentence, "reason": word}``; ``{"do": "status"}``, answered with the agent's status document.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import hook
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import (
    AttachError,
    open_files_error,
    plain,
    read_pod,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError

SOCKET = hook.SOCKET
CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid
# Seconds for a whole request, and for the client to read the answer.
PATIENCE = 10.0
# Clients at the same time: more than the pods of a node that can start at the same time.
CLIENTS_MAX = 256
# Seconds without a new connection while all clients are served, or while a connection cannot be accepted.
_PAUSE = 0.1
# Seconds after which a failed attach is not repeated any more. The kubelet starts a container again after at most 300.
FAILURE_SECONDS = 600.0
Document = t.Dict[str, t.Any]
# Device, inode number and change time of a file. Inode numbers are used again.
Identity = t.Tuple[int, int, int]
# Called after each attach: device, seconds, and the reason of a failure.
Attached = t.Callable[[str, float, t.Optional[str]], None]


class AgentSocket:
    """Serves requests, each in its own thread, from :meth:`start` to :meth:`close`.

    :param status: returns the status document.
    :param attached: called after each attach.
    :param patience: seconds for a whole request, and for the client to read the answer.
    """

    def __init__(
        self,
        pods: PodAttach,
        status: t.Callable[[], Document],
        attached: Attached | None = None,
        path: str = SOCKET,
        patience: float = PATIENCE,
    ) -> None:
        self._pods = pods
        self._status = status
        self._attached = attached
        self._path = path
        self._patience = patience
        self._listener: socket.socket | None = None
        self._bound: Identity | None = None
        self._clients = threading.BoundedSemaphore(CLIENTS_MAX)

    @property
    def serving(self) -> bool:
        """Whether the path is still the socket that this object serves."""
        return self._bound is not None and _identity(self._path) == self._bound

    def start(self) -> None:
        """Create or replace the socket, and serve it in the background.

        :raises RailyardError: if it cannot be created.
        """
        self.close()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # renamed when it is complete, so that a client finds the socket that it replaces or this one
        directory, name = os.path.split(self._path)
        temporary = os.path.join(directory, "." + name)
        try:
            os.makedirs(directory, mode=0o755, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            listener.bind(temporary)
            os.chmod(temporary, 0o600)
            listener.listen(128)
            os.rename(temporary, self._path)
        except OSError as error:
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            remedy = "make its directory writable for root and the name free, and restart railyard-agent"
            raise RailyardError("cannot be created: %s" % error.strerror, self._path, remedy) from None
        self._bound = _identity(self._path)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Stop serving, and remove the socket if it is still this object's."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        if self.serving:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        self._bound = None

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is listener:
            try:
                client, _address = listener.accept()
            except OSError:
                time.sleep(_PAUSE)  # too many open files
                continue
            if not _is_root(client) or not self._clients.acquire(blocking=False):
                client.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            except RuntimeError:  # too many threads
                client.close()
                self._clients.release()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, contextlib.suppress(OSError):
                line = self._request(client)
                if line:
                    answer = json.dumps(self.answer(line)).encode() + b"\n"
                    # sendall has one timeout for the whole answer
                    client.settimeout(self._patience)
                    client.sendall(answer)
        finally:
            self._clients.release()

    def _request(self, client: socket.socket) -> bytes:
        """Return the line that a client sends; empty if it is not complete in time, or too long. Raises OSError."""
        deadline = time.monotonic() + self._patience
        line = b""
        while not line.endswith(b"\n"):
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            part = client.recv(65536)
            if not part or len(line) > hook.LENGTH or time.monotonic() > deadline:
                return b""
            line += part
        return line

    def answer(self, line: bytes) -> Document:
        try:
            request = json.loads(line)
            action = request["do"]
            if action == "status":
                return self._status()
            if action != "attach":
                raise ValueError(action)
            identity, state = str(request["device"]), request["state"]
        except (KeyError, TypeError, ValueError) as error:
            return {"ok": False, "error": "the request is wrong: %r" % error, "reason": "request"}
        return self._attach(identity, state)

    def _attach(self, identity: str, state: t.Any) -> Document:
        start = time.monotonic()
        document: Document = {"ok": True}
        try:
            self._pods.attach(identity, state)
        except Exception as error:
            document = _failure(open_files_error(error, "device %s" % plain(identity)) or error)
        if self._attached is not None:
            self._attached(identity, time.monotonic() - start, document.get("reason"))
        return document


class Failure(t.NamedTuple):
    """A failed attach of a device. ``pod``: NAMESPACE/NAME. ``at``: seconds of the monotonic clock."""

    device: str
    pod_uid: str
    pod: str
    error: str
    at: float


class Attaches:
    """Counts and failures of the attaches since the agent started. Safe for several threads.

    ``seconds``: the sum of all. ``reasons``: reason of a failure -> count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.seconds = 0.0
        self.reasons: dict[str, int] = {}
        self._failures: dict[tuple[str, str], Failure] = {}

    def count_attach(self, device: str, seconds: float, reason: str | None) -> None:
        """Count an attach. ``reason``: of its failure; None if it succeeded, which ends all failures of the device."""
        with self._lock:
            self.count += 1
            self.seconds += seconds
            if reason is not None:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if reason is None:
            self.end_failures(lambda failure: failure.device == device)

    def keep_failure(self, device: str, state: t.Any, error: str) -> None:
        """Keep the last error of a device and a pod for ``explain``, as not every runtime shows it in the pod's events.

        :param state: the OCI state of the container.
        """
        uid, name = "", ""
        with contextlib.suppress(RailyardError):
            pod = read_pod(state, device)
            uid, name = pod.uid, str(pod)
        with self._lock:
            self._failures[device, uid] = Failure(device, uid, name, error, time.monotonic())

    def failures(self) -> list[Failure]:
        """Return the last failures by device and pod, while the container runtime repeats them."""
        oldest = time.monotonic() - FAILURE_SECONDS
        self.end_failures(lambda failure: failure.at < oldest)
        with self._lock:
            return list(self._failures.values())

    def end_failures(self, is_over: t.Callable[[Failure], bool]) -> None:
        """Forget failures, such as those of pods that have ended."""
        with self._lock:
            self._failures = {key: each for key, each in self._failures.items() if not is_over(each)}

    def as_dict(self) -> Document:
        """Return key ``attaches`` of the status document."""
        failures = self.failures()
        with self._lock:
            return {
                "count": self.count,
                "seconds": self.seconds,
                "failed": dict(self.reasons),
                "errors": [{"device": each.device, "pod": each.pod, "error": each.error} for each in failures],
            }


def _identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _is_root(client: socket.socket) -> bool:
    try:
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    except OSError:
        return False
    return bool(CREDENTIALS.unpack(credentials)[1] == 0)


def _failure(error: Exception) -> Document:
    """Return the answer to an attach that failed."""
    if not isinstance(error, RailyardError):
        # a fault of the agent must also reach the pod's events, and the container must not start
        text = "%r. Remedy: run journalctl -u railyard-agent." % error
        return {"ok": False, "error": text, "reason": "agent"}
    if isinstance(error, AttachError):
        reason = error.reason
    else:
        # of the kernel, or a record that cannot be written
        reason = "kernel" if isinstance(error, NetlinkError) else "record"
    return {"ok": False, "error": str(error), "reason": reason}


def ask(request: Document, path: str = SOCKET, seconds: float = 5.0) -> Document:
    """Return the answer of the agent on this node. Raises :class:`RailyardError` if it does not answer."""
    try:
        answer = hook.ask(request, path, seconds)
    except (OSError, ValueError) as error:
        remedy = "run systemctl status railyard-agent"
        raise RailyardError("the rail agent does not answer: %s" % error, path, remedy) from None
    return answer if isinstance(answer, dict) else {}
