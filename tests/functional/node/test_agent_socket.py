# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's socket, and the OCI hook as it is packed, run as a container runtime runs it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import resource
import socket
import stat
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_metrics, agent_socket, hook
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_socket import AgentSocket, ask
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from tests.functional.node.agent_pods import AgentNode
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.unit.node.packed import reached
from tests.waiting import wait_for

OTHER_USER = 65534


def test_the_hook_imports_little() -> None:
    assert reached("_node.agent.hook") == {"_node.agent.hook"}
    source = Path(hook.__file__).read_text()
    imported = {line.split()[1] for line in source.splitlines() if line.startswith("import ")}
    assert imported <= {"json", "os", "socket", "struct", "sys", "time"}


def program() -> str:
    path = Path("/run/agent-hook")
    packed = packed_program.pack(("_node.agent.hook",), "_node.agent.hook", compiled=True)
    path.write_bytes(b"#!%s -IS\n" % sys.executable.encode() + packed)
    path.chmod(0o755)
    return str(path)


def start_hook(device: str, state: t.Any) -> subprocess.Popen[str]:
    """As runc does: no environment, the state on standard input."""
    running = subprocess.Popen(
        [program(), device],
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin
    running.stdin.write(state if isinstance(state, str) else json.dumps(state))
    running.stdin.close()
    running.stdin = None
    return running


def run_hook(device: str, state: t.Any) -> tuple[int, str, str]:
    running = start_hook(device, state)
    out, err = running.communicate()
    return running.returncode, out, err


class Served:
    """The socket of an agent that has just started, and what it reports of attaches."""

    def __init__(self, agents: AgentNode, pods: PodAttach | None = None) -> None:
        self.attached: list[tuple[str, str | None]] = []
        self.pods = pods or agents.agent()
        status = {"node": "node-1"}
        self.socket = AgentSocket(self.pods, lambda: status, lambda *each: self.attached.append((each[0], each[2])))
        self.socket.start()


@in_own_namespace
def test_the_hook_attaches_a_pod(node: LiveNode) -> None:
    agents = AgentNode(node)
    served, pod = Served(agents), agents.pod("a")
    assert run_hook("rails-0", pod.state()) == (0, "", "")
    assert pod.links() == {"net1", "net2"}
    other = agents.pod("b")
    status, out, err = run_hook("rails-0", other.state())
    assert (status, out) == (1, "")
    assert err.startswith("railyard: device rails-0: it is held by pod default/a. Remedy: delete that pod, or wait")
    assert served.attached == [("rails-0", None), ("rails-0", "held")]
    assert ask({"do": "status"}) == {"node": "node-1"}
    assert ask({"do": "fly"})["reason"] == "request"
    assert stat.S_IMODE(os.stat(agent_socket.SOCKET).st_mode) == 0o600
    # what is wrong never lets a container start
    for state in ("", "{", "[]", "null", json.dumps(pod.state(pid=1))):
        assert run_hook("rails-1", state)[0] == 1
    served.socket.close()
    with pytest.raises(RailyardError, match="the rail agent does not answer"):
        ask({"do": "status"}, seconds=0.3)


@in_own_namespace
def test_requests_that_are_wrong_are_answered(node: LiveNode) -> None:
    agents = AgentNode(node)
    served = Served(agents)
    for line in (b"\n", b"[]\n", b"\xff\n", b'{"do": "attach"}\n', b'{"do": "attach", "device": "rails-0"}\n', b"{}\n"):
        assert served.socket.answer(line)["ok"] is False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(agent_socket.SOCKET)
        client.sendall(b"x" * 1000)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b""
    assert ask({"do": "status"}) == {"node": "node-1"}


@in_own_namespace
def test_a_request_that_is_too_long_is_not_read(node: LiveNode) -> None:
    Served(AgentNode(node))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(20)
        client.connect(agent_socket.SOCKET)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(b"x" * (hook.LENGTH + 2**18))
            assert client.recv(10) == b""
    assert ask({"do": "status"}) == {"node": "node-1"}


@in_own_namespace
def test_a_request_for_the_pod_of_another_sandbox_is_refused(node: LiveNode) -> None:
    agents = AgentNode(node)
    served, owner, thief = Served(agents), agents.pod("a"), agents.pod("b")
    assert run_hook("rails-0", owner.state())[0] == 0
    before = owner.whole()
    # the ID of the owner's sandbox with a process of another pod, and the reverse
    for state in (owner.state(pid=thief.pid), thief.state(pid=owner.pid)):
        assert "it is held by pod default/a" in run_hook("rails-0", state)[2]
    assert "the pod has an interface net1 already" in run_hook("rails-1", thief.state(pid=owner.pid))[2]
    # a process of the node, and one that does not exist
    for pid in (os.getpid(), 2**22 + 1):
        assert run_hook("rails-1", thief.state(pid=pid))[0] == 1
    for device in ("../rails-0", "rails-0\nrails-1", "rails", "", "-" * 5000):
        error = run_hook(device, thief.state())[2]
        assert error.count("\n") == 1 and len(error) < 500, error
    assert (owner.whole(), thief.links()) == (before, set())
    assert served.pods._state.holders()["rails-0"].pod == "default/a"


@in_own_namespace
def test_names_of_a_pod_cannot_add_lines(node: LiveNode) -> None:
    agents = AgentNode(node)
    served, pod = Served(agents), agents.pod("a")
    state = pod.state()
    evil = 'x\n{"ok": true}\r\x1b[2J"} 1'
    for key in ("sandbox-uid", "sandbox-name", "sandbox-namespace", "container-name"):
        state["annotations"]["io.kubernetes.cri." + key] = evil
    assert run_hook("rails-0", state) == (0, "", "")
    holder = served.pods._state.holders()["rails-0"]
    out = Exposition()
    agent_metrics.add_pods(out, node.system, [holder])
    names = (holder.pod_uid, holder.pod_name, holder.pod_namespace, holder.container)
    assert {name.isprintable() for name in names} == {True}
    lines = [line for line in out.text().splitlines() if not line.startswith("#")]
    assert lines and all(line.startswith("railyard_pod_network_") and '\\"}?1"' in line for line in lines)
    error = run_hook("rails-0", agents.pod("b").state())[2]
    assert error.startswith("railyard: device rails-0: it is held by pod ") and error.count("\n") == 1


@in_own_namespace
def test_only_root_is_served(node: LiveNode) -> None:
    agents = AgentNode(node)
    Served(agents)
    os.chmod(agent_socket.SOCKET, 0o666)
    client = (
        "import os, socket, sys; os.setuid(%d); s = socket.socket(socket.AF_UNIX); s.connect(%r); "
        'line = b\'{"do": "status"}\\n\'\n'
        "try:\n s.sendall(line); sys.stdout.write(s.recv(99).decode())\nexcept OSError: pass"
    )
    words = [sys.executable, "-IS", "-c"]
    found = [
        subprocess.run(
            [*words, client % (user, agent_socket.SOCKET)], capture_output=True, text=True, check=True
        ).stdout
        for user in (0, OTHER_USER)
    ]
    assert found == ['{"node": "node-1"}\n', ""]
    # root of a user namespace, as in a pod with hostUsers: false
    inside = ["setpriv", "--reuid", str(OTHER_USER), "unshare", "--user", "--map-root-user", *words]
    done = subprocess.run([*inside, client % (0, agent_socket.SOCKET)], capture_output=True, text=True)
    assert done.stdout == "", done


@in_own_namespace
def test_clients_that_are_silent_or_slow_are_closed(node: LiveNode) -> None:
    agent_socket.CLIENTS_MAX = 4
    agents = AgentNode(node)
    served = AgentSocket(agents.agent(), lambda: {"text": "x" * 5_000_000}, patience=0.5)
    served.start()
    clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _number in range(8)]
    for client in clients:
        client.settimeout(20)
        client.connect(agent_socket.SOCKET)
    stopped = threading.Event()

    def send_slowly() -> None:
        with contextlib.suppress(OSError):
            while not stopped.wait(0.05):
                clients[0].sendall(b"x")

    sender = threading.Thread(target=send_slowly)
    sender.start()
    # too many clients, and then those without a complete request in time
    for client in reversed(clients):
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""
        client.close()
    stopped.set()
    sender.join()
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    slow.settimeout(20)
    with slow:
        slow.connect(agent_socket.SOCKET)
        slow.sendall(b'{"do": "status"}\n')
        slow.recv(1)
        wait_for(lambda: served._clients._value == 4)
        received = 1
        while part := slow.recv(2**20):
            received += len(part)
        assert received < 5_000_000
    answer = ask({"do": "status"})
    assert len(answer["text"]) == 5_000_000
    served.close()


@in_own_namespace
def test_the_hook_waits_while_the_queue_of_the_socket_is_full(node: LiveNode) -> None:
    os.makedirs(os.path.dirname(agent_socket.SOCKET), exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as full, contextlib.ExitStack() as stack:
        full.bind(agent_socket.SOCKET)
        full.listen(0)
        with pytest.raises(BlockingIOError):
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.setblocking(False)
                client.connect(agent_socket.SOCKET)
        running = start_hook("rails-0", AgentNode(node).pod("a").state())

        def answer() -> bool:
            full.settimeout(20)
            with full.accept()[0] as client:
                if client.recv(9):
                    client.sendall(b'{"ok": true}\n')
                    return True
            return False

        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        stack.close()
        wait_for(answer)
        assert (running.communicate(), running.returncode) == (("", ""), 0)


@in_own_namespace
def test_too_many_open_files_are_named_as_that(node: LiveNode) -> None:
    agents = AgentNode(node)
    served, pod = Served(agents), agents.pod("a")
    request = json.dumps({"do": "attach", "device": "rails-0", "state": pod.state()}).encode()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # close the files of earlier tests now, and not while open files are counted
    gc.collect()
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    while os.open(os.devnull, os.O_RDONLY) < highest:
        pass
    for left in (0, 1, 2, 3, 5, 7):
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + left, hard))
        try:
            answer = served.socket.answer(request)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert answer.get("reason") == "files", (left, answer)
        assert re.search(r"cannot open more files: Too many open files\. Remedy: run systemctl", answer["error"]), (
            answer
        )
    assert {reason for _device, reason in served.attached} == {"files"}
    assert served.socket.answer(request) == {"ok": True}


@in_own_namespace
def test_only_the_own_socket_is_removed(node: LiveNode) -> None:
    served, serving = Served(AgentNode(node)).socket, []
    serving.append(served.serving)
    os.unlink(agent_socket.SOCKET)
    serving.append(served.serving)
    Path(agent_socket.SOCKET).write_text("of another program")
    serving.append(served.serving)
    assert serving == [True, False, False]
    served.close()
    assert Path(agent_socket.SOCKET).read_text() == "of another program"
    served.start()
    assert ask({"do": "status"}) == {"node": "node-1"}
    served.close()
    assert os.listdir(os.path.dirname(agent_socket.SOCKET)) == []
    # a directory cannot be replaced
    os.mkdir(agent_socket.SOCKET)
    with pytest.raises(
        RailyardError, match="agent.sock: cannot be created: Is a directory. Remedy: make its directory"
    ):
        served.start()
    assert os.listdir(os.path.dirname(agent_socket.SOCKET)) == ["agent.sock"]


@in_own_namespace
def test_the_hook_waits_for_an_agent_that_restarts(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod = agents.pod("a")
    running = start_hook("rails-0", pod.state())
    begun = threading.Event()

    class Ending(PodAttach):
        """An agent that ends in the midst of an attach: its connections are closed without an answer."""

        def attach(self, *_arguments: t.Any) -> t.Any:
            begun.set()
            raise SystemExit

    agent = agents.agent()
    first = Served(agents, Ending(node.system, agent.spec, agent._state))
    assert begun.wait(20)
    first.socket.close()
    Served(agents)
    assert (running.communicate(), running.returncode) == (("", ""), 0)
    assert pod.links() == {"net1", "net2"}


@in_own_namespace
def test_a_fault_of_the_agent_reaches_the_events_of_the_pod(node: LiveNode) -> None:
    agents = AgentNode(node)

    class Faulty(PodAttach):
        def attach(self, *_arguments: t.Any) -> t.Any:
            raise KeyError("gpu09")

    agent = agents.agent()
    served = Served(agents, Faulty(node.system, agent.spec, agent._state))
    status, _out, err = run_hook("rails-0", agents.pod("a").state())
    assert (status, err) == (1, "railyard: KeyError('gpu09'). Remedy: run journalctl -u railyard-agent.\n")
    assert served.attached == [("rails-0", "agent")]


def _state(pod: str) -> dict[str, t.Any]:
    annotations = {
        "io.kubernetes.cri.sandbox-id": "s",
        "io.kubernetes.cri.sandbox-uid": "uid-of-" + pod,
        "io.kubernetes.cri.sandbox-name": pod,
        "io.kubernetes.cri.sandbox-namespace": "ns",
    }
    return {"pid": 99, "annotations": annotations}


def test_a_failed_attach_is_of_a_device_and_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    attaches = agent_socket.Attaches()

    def errors() -> list[tuple[str, str]]:
        return [(row["pod"], row["error"]) for row in attaches.as_dict()["errors"]]

    for device, pod, error in (
        ("rails-0", "a", "1"),
        ("rails-0", "b", "2"),
        ("gpu01-2", "a", "3"),
        ("gpu01-2", "a", "4"),
    ):
        attaches.keep_failure(device, _state(pod), error)
    # a container without names of its pod
    attaches.keep_failure("gpu01-3", {"pid": "x"}, "5")
    assert errors() == [("ns/a", "1"), ("ns/b", "2"), ("ns/a", "4"), ("", "5")]
    # another pod has the device now
    attaches.count_attach("rails-0", 0.1, None)
    assert errors() == [("ns/a", "4"), ("", "5")]
    attaches.end_failures(lambda failure: failure.pod_uid == "uid-of-a")
    assert errors() == [("", "5")]
    later = agent_socket.time.monotonic() + agent_socket.FAILURE_SECONDS + 1
    monkeypatch.setattr(agent_socket.time, "monotonic", lambda: later)
    assert errors() == []
