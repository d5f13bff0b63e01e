# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent as it is packed, started on a root directory of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import hook
from tests.functional.node.agent_pods import Pod
from tests.functional.node.own_namespace import why_not
from tests.unit.node.agent_files import document, rail, slot

# The node's network: ports rail1 and rail2, whose other ends are leaf1 and leaf2.
NETWORK = """
for number in 1 2; do
    ip link add rail$number type veth peer name leaf$number && ip link set rail$number up && ip link set leaf$number up
done
ip link set lo up && echo ready && exec sleep 600
"""


def node_file(**changed: t.Any) -> dict[str, t.Any]:
    """Two rails; slots 0 and 1 for both, slots 2 to 4 of each alone."""
    rails = [
        rail(
            number,
            pci="0000:0%d:00.0" % number,
            slots=[slot(number, each, "rails" if each < 2 else "gpu%02d" % number) for each in range(5)],
        )
        for number in (1, 2)
    ]
    return dict(document(*rails, metrics=None), **changed)


class Node:
    """A root directory with a node file, and the agent on it."""

    def __init__(self, root: Path, program: Path) -> None:
        self.root = root
        self.program = program
        self.agent: subprocess.Popen[str] | None = None
        self.network: subprocess.Popen[str] | None = None
        self.log = root / "log"
        (root / "proc").symlink_to("/proc")
        for number in (1, 2):
            self.put("/sys/bus/pci/devices/0000:0%d:00.0/numa_node" % number, "%d\n" % (number - 1))
        self.write(node_file())

    def put(self, path: str, text: str) -> None:
        full = self.root / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def write(self, content: dict[str, t.Any]) -> None:
        self.put("/etc/railyard/agent.json.new", json.dumps(content))
        (self.root / "etc/railyard/agent.json.new").rename(self.root / "etc/railyard/agent.json")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(self.program), "--root", str(self.root), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False, timeout=60)

    def start(self, *before: str, **environment: str) -> subprocess.Popen[str]:
        """Start the service; ``before``: a program that starts it."""
        with self.log.open("a") as log:
            env = dict(os.environ, **environment)
            self.agent = subprocess.Popen([*before, *self.command("run")], stdout=log, stderr=log, text=True, env=env)
        return self.agent

    def start_with_rails(self) -> None:
        """Start the service in a network namespace that has the ports of its rails."""
        if why_not():
            pytest.skip("no namespaces here: %s" % why_not())
        command = ["unshare", "--net", "sh", "-c", NETWORK]
        self.network = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.network.stdout
        assert self.network.stdout.readline() == "ready\n"
        self.start(*self._there())

    def _there(self) -> list[str]:
        assert self.network
        return ["nsenter", "--net=/proc/%d/ns/net" % self.network.pid]

    def inside(self, *command: str) -> str:
        """Run a command in the namespace of the service."""
        return subprocess.run([*self._there(), *command], check=True, capture_output=True, text=True).stdout

    def attach(self, device: str, pod: Pod) -> dict[str, t.Any]:
        request = {"do": "attach", "device": device, "state": pod.state()}
        found = hook.ask(request, str(self.root) + hook.SOCKET)
        assert isinstance(found, dict)
        return found

    def stop(self) -> int:
        assert self.agent
        self.agent.send_signal(signal.SIGTERM)
        return self.agent.wait(30)

    def logged(self, text: str) -> int:
        return self.log.read_text().count(text)
