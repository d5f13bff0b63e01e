# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The OCI hook ``agent-hook DEVICE``: asks the rail agent to attach the container's pod, and waits for the answer.

The container runtime runs it as a ``createRuntime`` hook with the container's state on standard input. If it fails, the
container does not start, and its standard error is in the pod's events. A failure is final for a pod that is not
restarted, so the hook waits while the agent restarts, and repeats the request.

It is packed without the other modules and started for each container, so it imports little.
"""

from __future__ import annotations

import json
import socket
import sys
import time

SOCKET = "/run/railyard/agent.sock"
# Seconds for an answer: less than cdi_files.TIMEOUT, after which the runtime ends the hook.
PATIENCE = 105.0
# Seconds between two attempts to connect.
_PAUSE = 0.2
# Longest OCI state and request in bytes; usual are a few kilobytes.
LENGTH = 2**20


def ask(request: object, path: str = SOCKET, seconds: float = PATIENCE) -> object:
    """Send a request, and return the agent's answer.

    Repeated while the agent does not run, serves too many clients (EAGAIN), or ends before it answers.

    :raises OSError: if there is no answer within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return _ask_once(request, path, deadline)
        except (ConnectionError, FileNotFoundError, BlockingIOError):
            if time.monotonic() + _PAUSE > deadline:
                raise
        time.sleep(_PAUSE)


def _ask_once(request: object, path: str, deadline: float) -> object:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(max(deadline - time.monotonic(), 0.1))
        sock.connect(path)
        sock.sendall(json.dumps(request).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            sock.settimeout(max(deadline - time.monotonic(), 0.1))
            part = sock.recv(65536)
            if not part:
                raise ConnectionResetError("the agent ended before it answered")
            line += part
    return json.loads(line)


def main() -> int:
    """Attach the pod of the container on standard input, and return the exit status: 1 if it is not attached."""
    try:
        if len(sys.argv) != 2:
            raise ValueError("it takes one argument, the device; the container runtime starts it")
        state = json.loads(sys.stdin.buffer.read(LENGTH))
        answer = ask({"do": "attach", "device": sys.argv[1], "state": state})
    except OSError as error:
        text = "%s: the rail agent does not answer: %s. Remedy: run systemctl status railyard-agent."
        answer = {"ok": False, "error": text % (SOCKET, error)}
    except ValueError as error:
        answer = {"ok": False, "error": "the request is wrong: %s. Remedy: restart the container runtime." % error}
    if isinstance(answer, dict) and answer.get("ok") is True:
        return 0
    sys.stderr.write("railyard: %s\n" % (answer.get("error") if isinstance(answer, dict) else answer))
    return 1
