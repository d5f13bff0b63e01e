# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with the rail agent's core, on the kernel of this machine: rail ports, and pods as network namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, slot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from tests.functional.node.own_namespace import LiveNode, ip, shown
from tests.unit.node.agent_files import document, rail
from tests.waiting import wait_for

PATIENCE = 0.6
# Directories of a node in which an agent may leave files.
WRITTEN = ("/run", "/var/lib", "/var/run/cdi")
EMPTY_RECORD = b'{\n "format": 1,\n "holders": []\n}\n'


def node_state() -> dict[str, str]:
    """Return links, addresses, routes and files that pods may change, without empty records of slots."""
    wait_for(lambda: all(map(_is_settled, shown("address"))))
    found = {
        " ".join(words): json.dumps(shown(*words), sort_keys=True)
        for words in (
            ("link",),
            ("address",),
            ("-4", "rule"),
            ("-6", "rule"),
            ("-4", "route", "show", "table", "all"),
            ("-6", "route", "show", "table", "all"),
        )
    }
    with Rtnetlink() as kernel, open("/proc/self/ns/net", "rb") as namespace:
        # the kernel gives this namespace a number when links of another one are listed
        own = kernel.namespace_number(namespace.fileno())
    found["namespaces"] = str([row["nsid"] for row in shown("netns", "list-id") if row["nsid"] != own])
    for directory in WRITTEN:
        for place, _directories, names in os.walk(directory):
            for name in names:
                path = Path(place, name)
                if path.is_file() and path.read_bytes() != EMPTY_RECORD:
                    found[str(path)] = path.read_bytes().hex()
    return found


def _is_settled(link: dict[str, t.Any]) -> bool:
    """Whether the kernel has finished with a port that was just set up: its carrier and its link-local address."""
    changing = {"LOWER_UP", "NO-CARRIER"} <= set(link["flags"])
    return not changing and not any("tentative" in row for row in link["addr_info"])


def difference(before: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the differences from an earlier state: subject -> (before, now)."""
    now = node_state()
    return {key: (before.get(key), now.get(key)) for key in {**before, **now} if before.get(key) != now.get(key)}


class Pod:
    """A network namespace, its sandbox and a container in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sandbox = self._start(["unshare", "--net", "sleep", "600"])
        here = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(self.net(self._sandbox.pid)) != here, "the pod does not start")
        self._container = self._start(["nsenter", "--net=" + self.net(self._sandbox.pid), "sleep", "600"])
        inside = os.readlink(self.net(self._sandbox.pid))
        wait_for(lambda: os.readlink(self.net(self.pid)) == inside, "the container does not start")
        self.sandbox_id = (name * 64)[:64]
        self._inner: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def _start(command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    @staticmethod
    def net(pid: int | str) -> str:
        return "/proc/%s/ns/net" % pid

    @property
    def pid(self) -> int:
        return self._container.pid

    def state(self, **values: t.Any) -> dict[str, t.Any]:
        """The OCI state that containerd gives to a hook."""
        annotations = {
            "io.kubernetes.cri.sandbox-id": self.sandbox_id,
            "io.kubernetes.cri.sandbox-uid": "uid-of-" + self.name,
            "io.kubernetes.cri.sandbox-name": self.name,
            "io.kubernetes.cri.sandbox-namespace": "default",
            "io.kubernetes.cri.container-name": "main",
        }
        base = {"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": self.pid, "annotations": annotations}
        return dict(base, **values)

    def run(self, *command: str) -> str:
        inside = ["nsenter", "--net=" + self.net(self._sandbox.pid), *command]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    def shown(self, *words: str) -> list[dict[str, t.Any]]:
        """Return what ip shows in the pod; nothing of an interface that does not exist."""
        try:
            found: list[dict[str, t.Any]] = json.loads(self.run("ip", "-j", *words) or "[]")
        except subprocess.CalledProcessError as error:
            if "does not exist" not in error.stderr:
                raise
            return []
        return found

    def links(self) -> set[str]:
        return {each["ifname"] for each in self.shown("link")} - {"lo"}

    def whole(self) -> dict[str, t.Any]:
        """All that an attach makes, without what the kernel counts."""
        links, every, rules, routes = self._shown("", "link", "address", "rule", "route show table all")
        (rules6,) = self._shown("-6", "rule")
        names = sorted({each["ifname"] for each in links} - {"lo"})
        addresses = {
            each["ifname"]: sorted((a["local"], a["prefixlen"]) for a in each["addr_info"] if a["scope"] == "global")
            for each in every
        }
        tables = {
            number: [
                (each["dst"], each.get("gateway"), each["dev"]) for each in routes if each.get("table") == str(number)
            ]
            for number in (101, 102)
        }
        own = [each for each in rules + rules6 if 0 < each["priority"] < 32766]
        return {
            "names": names,
            "macs": {each["ifname"]: each["address"] for each in links},
            "addresses": {name: addresses[name] for name in names},
            "rules": sorted((each["priority"], each["src"], each["table"]) for each in own),
            "tables": tables,
        }

    def _shown(self, family: str, *commands: str) -> list[list[dict[str, t.Any]]]:
        """What several commands of one ``ip`` show."""
        inside = ["nsenter", "--net=" + self.net(self._sandbox.pid), "ip", *family.split(), "-j", "-batch", "-"]
        done = subprocess.run(inside, input="\n".join(commands), check=True, capture_output=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def inner(self) -> subprocess.Popen[bytes]:
        """A process in a namespace that the pod has made; both end with the pod."""
        inside = ["nsenter", "--net=" + self.net(self._sandbox.pid), "unshare", "--net", "sleep", "600"]
        found = self._start(inside)
        self._inner.append(found)
        others = {os.readlink(self.net(pid)) for pid in ("self", self._sandbox.pid)}
        wait_for(lambda: os.readlink(self.net(found.pid)) not in others, "the namespace does not start")
        return found

    def end_container(self) -> None:
        self._container.kill()
        self._container.wait()

    def restart_container(self) -> None:
        self.end_container()
        self._container = self._start(["nsenter", "--net=" + self.net(self._sandbox.pid), "sleep", "600"])
        inside = os.readlink(self.net(self._sandbox.pid))
        wait_for(lambda: os.readlink(self.net(self.pid)) == inside, "the container does not start")

    def end(self) -> None:
        self.end_container()
        for process in (*self._inner, self._sandbox):
            process.kill()
            process.wait()


class AgentNode:
    """The rails of a node, each with its port and a leaf behind it, and the agent's core. ``ports``: how many rails."""

    def __init__(self, node: LiveNode, ports: int = 2, **values: t.Any) -> None:
        self.node = node
        for number in range(1, ports + 1):
            node.rail(number)
            ip("link", "set", "rail%d" % number, "up")
        self.write(document(*(rail(number) for number in range(1, ports + 1)), **values))

    def write(self, content: dict[str, t.Any]) -> None:
        os.makedirs("/etc/railyard", exist_ok=True)
        Path(agent_spec.FILE).write_text(json.dumps(content))

    def agent(self, patience: float = PATIENCE) -> PodAttach:
        """An agent that has just started."""
        system = self.node.system
        found = PodAttach(system, agent_spec.read_spec(system), SlotState(system), patience)
        found.recover()
        return found

    def pod(self, name: str) -> Pod:
        found = Pod(name)
        self.node.at_end(found.end)
        return found

    def held(self) -> dict[str, str]:
        """Device -> pod, from the file."""
        return {key: value.pod for key, value in SlotState(self.node.system).holders().items()}

    def host_links(self) -> set[str]:
        return {each["ifname"] for each in shown("link")}

    @staticmethod
    def record() -> Path:
        return Path(slot_state.FILE)
