# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The agent's socket: requests and answers of one line of JSON. Only processes of root get an answer.

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
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import read_pod
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError

SOCKET = hook.SOCKET
CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid
# Seconds in which a client must send its request.
PATIENCE = 10.0
# Seconds after which a failed attach is not repeated any more. The kubelet starts a container again after at most 300.
FAILURE_SECONDS = 600.0
Document = t.Dict[str, t.Any]
# Called after each attach: device, seconds, and the reason of a failure.
Attached = t.Callable[[str, float, t.Optional[str]], None]


class AgentSocket:
    """Serves requests, each in its own thread, from :meth:`start` to :meth:`close`.

    :param status: returns the status document.
    :param attached: called after each attach.
    """

    def __init__(
        self,
        pods: PodAttach,
        status: t.Callable[[], Document],
        attached: Attached | None = None,
        path: str = SOCKET,
    ) -> None:
        self._pods = pods
        self._status = status
        self._attached = attached
        self._path = path
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Create the socket, and serve it in the background. Raises :class:`RailyardError` if it cannot be created."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o755, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            mask = os.umask(0o177)
            try:
                listener.bind(self._path)
            finally:
                os.umask(mask)
            listener.listen(128)
        except OSError as error:
            listener.close()
            remedy = "make its directory writable for root, and restart railyard-agent"
            raise RailyardError("cannot be created: %s" % error.strerror, self._path, remedy) from None
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Stop serving, and remove the socket."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                if self._listener is not listener:
                    return
                time.sleep(0.1)  # too many open files
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            if CREDENTIALS.unpack(credentials)[1] != 0:
                return
            client.settimeout(PATIENCE)
            line = b""
            while not line.endswith(b"\n"):
                part = client.recv(65536)
                if not part or len(line) > hook.LENGTH:
                    return
                line += part
            client.sendall(json.dumps(self.answer(line)).encode() + b"\n")

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
        except RailyardError as error:
            # errors without a reason: of the kernel, or a record that cannot be written
            default = "kernel" if isinstance(error, NetlinkError) else "record"
            document = {"ok": False, "error": str(error), "reason": getattr(error, "reason", default)}
        except Exception as error:
            # a fault of the agent must also reach the pod's events, and the container must not start
            text = "%r. Remedy: run journalctl -u railyard-agent." % error
            document = {"ok": False, "error": text, "reason": "agent"}
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


def ask(request: Document, path: str = SOCKET, seconds: float = 5.0) -> Document:
    """Return the answer of the agent on this node. Raises :class:`RailyardError` if it does not answer."""
    try:
        answer = hook.ask(request, path, seconds)
    except (OSError, ValueError) as error:
        remedy = "run systemctl status railyard-agent"
        raise RailyardError("the rail agent does not answer: %s" % error, path, remedy) from None
    return answer if isinstance(answer, dict) else {}
