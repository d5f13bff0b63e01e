# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of eight rails that come and go on this machine's kernel, 16 at once. ``RAILYARD_CHURN``: how many (32)."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from tests.functional.node.agent_pods import AgentNode, Pod, difference, node_state
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

PODS = int(os.environ.get("RAILYARD_CHURN", "32"))
AT_ONCE, RAILS = 16, range(1, 9)
# Seconds that an attach waits for the end of the pod that had the slot.
PATIENCE = 120.0


class Churn:
    """Pods that use any free device, and release it while their namespace still ends."""

    def __init__(self, agent: PodAttach) -> None:
        self._agent = agent
        self._free: queue.Queue[str] = queue.Queue()
        for number in range(AT_ONCE):
            self._free.put("rails-%d" % number)
        self._owners: dict[str, str] = {}
        self._lock = threading.Lock()
        self.attached = 0

    def run_pod(self, number: int) -> None:
        device = self._free.get()
        pod = Pod("pod-%d" % number)
        try:
            holder = self._agent.attach(device, pod.state())
            addresses = self._addresses(pod)
            assert addresses == holder.addresses
            with self._lock:
                assert not addresses & set(self._owners), "an address that another pod has"
                self._owners.update(dict.fromkeys(addresses, pod.name))
                self.attached += 1
        finally:
            with self._lock:
                self._owners = {address: name for address, name in self._owners.items() if name != pod.name}
            pod.end()
            self._free.put(device)

    @staticmethod
    def _addresses(pod: Pod) -> set[str]:
        links: list[dict[str, t.Any]] = pod.shown("address")
        return {row["local"] for link in links for row in link["addr_info"] if row["scope"] == "global"}


def descriptors() -> set[tuple[str, str]]:
    """The open file descriptors of this process, each with its file, pipe or socket."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        # the list itself was read through one that is closed now
        with contextlib.suppress(FileNotFoundError):
            found.add((number, os.readlink("/proc/self/fd/" + number)))
    return found


@in_own_namespace
def test_pods_leave_the_node_as_it_was(node: LiveNode) -> None:
    agents = AgentNode(node, len(RAILS))
    rails = [rail(number, slots=[slot(number, each, "rails") for each in range(AT_ONCE)]) for number in RAILS]
    agents.write(document(*rails))
    before = node_state()
    agent = agents.agent(PATIENCE)
    # with the pipe that the agent keeps while it runs
    kept = descriptors()
    churn = Churn(agent)
    with futures.ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(churn.run_pod, number) for number in range(PODS)]:
            done.result()
    assert churn.attached == PODS

    def is_as_before() -> bool:
        agent.sweep()
        return not difference(before) and descriptors() <= kept

    wait_for(is_as_before, lambda: (agents.held(), difference(before), descriptors() - kept))
