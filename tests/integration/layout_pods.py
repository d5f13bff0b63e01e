# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the rail agent on guests without Kubernetes: the core of the agent attaches network namespaces."""

from __future__ import annotations

import json
import shlex
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from tests.integration.conftest import Node
from tests.unit.node.packed import reached

ENTRY = "_node.agent.agent_main"
PROGRAM = "/var/tmp/agent.pyz"
SCRIPT = (
    """
import json, sys, time
sys.path.insert(0, %r)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, rail_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
system = System()
spec = agent_spec.read_spec(system)
agent = PodAttach(system, spec, SlotState(system))
agent.recover()
pods = json.load(sys.stdin)
found = {"pods": {}, "conflicts": []}
for name, device, pid in pods:
    names = {"sandbox-id": name * 8, "sandbox-uid": name, "sandbox-name": name, "sandbox-namespace": "default"}
    annotations = {"io.kubernetes.cri." + key: value for key, value in names.items()}
    try:
        holder = agent.attach(device, {"pid": pid, "annotations": annotations})
        found["pods"][name] = {row["interface"]: row for row in holder.interfaces}
    except AttachError as error:
        found["pods"][name] = {"reason": error.reason, "error": str(error)}
end = time.monotonic() + (8 if pods else 0)
while time.monotonic() < end:
    time.sleep(0.5)
found["conflicts"] = [row["error"] for row in agent.conflicts()]
health = rail_health.look(spec, [], {}, rail_health.rdma_down(spec, [], system), system)
found["down"] = {rail: each.down for rail, each in health.items() if each.down}
found["degraded"] = {rail: each.degraded for rail, each in health.items() if each.degraded}
print(json.dumps(found))
"""
    % PROGRAM
)


class AgentGuest:
    """A guest with the agent's core and the agent's part of the plan, without RDMA devices of pods, for which Debian's
    kernel is too old.
    """

    def __init__(self, node: Node, agent: dict[str, t.Any]) -> None:
        self.node = node
        rails = [dict(rail, rdma=None, rdma_type="hardware") for rail in agent["rails"]]
        node.put("/etc/railyard/agent.json", json.dumps(dict(agent, rails=rails)))
        node.put(PROGRAM, packed_program.pack(sorted(reached(ENTRY)), ENTRY))
        self._names: set[str] = set()

    def attach(self, **pods: str) -> dict[str, t.Any]:
        """Give devices to new pods: name -> device.

        :return: ``pods``, name -> interface -> its row in the record, or ``reason`` and ``error``; ``conflicts`` after
            the time in which the agent listens; ``down`` and ``degraded``, rail -> why.
        """
        rows = []
        for name, device in pods.items():
            self._names.add(name)
            self.node.run("ip netns add %s" % name)
            rows.append((name, device, int(self.node.hold(name))))
        line = "echo %s | python3 -c %s" % (shlex.quote(json.dumps(rows)), shlex.quote(SCRIPT))
        found: dict[str, t.Any] = json.loads(self.node.run(line))
        return found

    def end(self) -> None:
        """End all pods."""
        for name in sorted(self._names):
            self.node.run("ip netns pids %s | xargs -r kill; ip netns del %s" % (name, name), check=False)
        self.node.run("rm -rf /var/lib/railyard/agent /etc/railyard/agent.json %s" % PROGRAM)

    def ping(self, pod: str, source: str, target: str) -> None:
        """Send a packet of the MTU from an address of a pod to another pod."""
        self.node.run("ip netns exec %s ping -c 2 -i 0.2 -W 5 -M do -s 4172 -I %s %s" % (pod, source, target))

    def neighbour(self, pod: str, interface: str, address: str) -> str | None:
        """The MAC address that a pod has learned of an address."""
        rows = self.node.json("ip netns exec %s ip -j neigh show dev %s" % (pod, interface))
        return next((row.get("lladdr") for row in rows if row["dst"] == address), None)
