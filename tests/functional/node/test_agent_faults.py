# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a node while the rail agent attaches pods, each several times: the node is as before, no slot has two pods.

``RAILYARD_INTERRUPTIONS`` is how often each fault happens (2). ``test_agent_killed.py`` kills the agent at each
request, ``test_agent_calls.py`` in calls of the kubelet.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import subprocess
import threading
import typing as t
from unittest import mock

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import pod_links
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from tests.functional.node.agent_pods import AgentNode, Pod, difference, node_state
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.test_agent_killed import killed_at, rails_of
from tests.unit.node.agent_files import document, rail
from tests.waiting import wait_for

TIMES = int(os.environ.get("RAILYARD_INTERRUPTIONS", "2"))
RECORDS = "/var/lib/railyard/agent"
# Most of the seconds that an attach of two rails takes.
ATTACH_SECONDS = 0.6


class Rig:
    """A node with two rails, on which a fault happens to the attach of a pod."""

    def __init__(self, node: LiveNode) -> None:
        self.node = node
        self.agents = AgentNode(node)
        self.random = random.Random(16)

    def write(self, **values: t.Any) -> None:
        self.agents.write(document(rail(1), rail(2), **values))

    def attach(self, agent: PodAttach, pod: Pod) -> str:
        """Return the reason why a pod does not get its rails; empty if it gets all. It must not get a part of them."""
        try:
            agent.attach("rails-0", pod.state())
        except RailyardError as error:
            assert (pod.links(), pod.whole()["rules"]) == (set(), [])
            return str(getattr(error, "reason", error.message))
        assert (pod.links(), len(pod.whole()["rules"])) == ({"net1", "net2"}, 4)
        return ""

    def slot_is_given_once(self, number: int) -> None:
        """Check that a pod gets the slot, another pod does not, and the end of the pod frees the slot."""
        agent = self.agents.agent(20)
        pod, rival = self.agents.pod("after-%d" % number), self.agents.pod("rival-%d" % number)
        assert self.attach(agent, pod) == ""
        assert self.attach(self.agents.agent(0.1), rival) == "held"
        self.end(pod)
        self.end(rival)

    def end(self, pod: Pod) -> None:
        pod.end()
        wait_for(lambda: self.agents.agent().sweep() or not self.agents.held(), "the slot is not freed")

    def random_moment(self, act: t.Callable[[], object]) -> threading.Timer:
        timer = threading.Timer(self.random.uniform(0, ATTACH_SECONDS), act)
        timer.start()
        return timer


def killed_in_attach(rig: Rig, number: int) -> None:
    """The container runtime sends the request again to the next agent, or the pod is deleted first."""
    pod, agent = rig.agents.pod("victim-%d" % number), rig.agents.agent()
    killed_at(rig.random.randint(1, 60), functools.partial(agent.attach, "rails-0", pod.state()))
    if number % 2:
        assert rig.attach(rig.agents.agent(), pod) == ""
    rig.end(pod)


def disk_full(rig: Rig, number: int) -> None:
    """No space for the record, before the attach or after it."""
    os.makedirs(RECORDS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % (4 * (1 + number % 2)), "tmpfs", RECORDS], check=True)
    try:
        with open(RECORDS + "/filler", "wb") as filler:
            filler.write(b"x" * 4096)
        if number % 2:
            # for the first record only, as the old file stays until the new one is complete
            os.unlink(RECORDS + "/filler")
            subprocess.run(["mount", "-o", "remount,size=4k", RECORDS], check=True)
        pod = rig.agents.pod("victim-%d" % number)
        assert "No space left on device" in rig.attach(rig.agents.agent(), pod)
        pod.end()
    finally:
        subprocess.run(["umount", RECORDS], check=True)


def link_down_in_attach(rig: Rig, number: int) -> None:
    pod, agent = rig.agents.pod("victim-%d" % number), rig.agents.agent()
    timer = rig.random_moment(lambda: rig.node.leaf("ip", "link", "set", "leaf2", "down"))
    # after the check of the carrier, the attach succeeds
    with mock.patch.object(pod_links, "PATIENCE", 0.5):
        assert rig.attach(agent, pod) in ("", "carrier")
    timer.join()
    rig.node.leaf("ip", "link", "set", "leaf2", "up")
    rig.end(pod)


def address_of_another_host(rig: Rig, number: int) -> None:
    address = rig.random.choice(["172.16.11.1/24", "fd00:11::1/64", "172.16.12.1/24", "fd00:12::1/64"])
    leaf = "leaf1" if ".11." in address or ":11:" in address else "leaf2"
    rig.node.leaf("ip", "address", "add", address, "dev", leaf, *(["nodad"] if ":" in address else []))
    pod = rig.agents.pod("victim-%d" % number)
    assert rig.attach(rig.agents.agent(), pod) == "conflict"
    rig.node.leaf("ip", "address", "del", address, "dev", leaf)
    pod.end()


def silent_gateway(rig: Rig, number: int) -> None:
    rig.write(gateway_check=True)
    pod = rig.agents.pod("victim-%d" % number)
    rig.node.leaf("ip", "address", "add", "172.16.11.254/24", "dev", "leaf1")
    with mock.patch.object(pod_links, "GATEWAY", 0.5):
        assert rig.attach(rig.agents.agent(), pod) == "gateway"
    rig.node.leaf("ip", "address", "flush", "dev", "leaf1", "scope", "global")
    rig.write()
    pod.end()


def port_held_by_another(rig: Rig, number: int) -> None:
    """A bridge has the port of a rail, or another namespace has it."""
    pod = rig.agents.pod("victim-%d" % number)
    if number % 2:
        ip("link", "add", "bridge", "type", "bridge")
        ip("link", "set", "rail2", "master", "bridge")
        assert rig.attach(rig.agents.agent(), pod) == "kernel"
        ip("link", "del", "bridge")
    else:
        other = rig.agents.pod("other-%d" % number)
        rig.agents.write(document(*rails_of("host-device"), attachment="host-device"))
        ip("link", "set", "rail2", "netns", str(other.pid))
        assert rig.attach(rig.agents.agent(), pod) == "port"
        other.run("ip", "link", "set", "rail2", "netns", str(os.getpid()))
        ip("link", "set", "rail2", "up")
        other.end()
        rig.write()
    pod.end()


def container_ends_in_attach(rig: Rig, number: int) -> None:
    """The container ends at a random moment of the attach."""
    pod, agent = rig.agents.pod("victim-%d" % number), rig.agents.agent()
    timer = rig.random_moment(pod.end_container)
    with contextlib.suppress(RailyardError):
        agent.attach("rails-0", pod.state())
    timer.join()
    rig.end(pod)


def two_pods_at_once(rig: Rig, number: int) -> None:
    """Two pods request one slot at the same time, such as after a forced deletion."""
    pods = [rig.agents.pod("%s-%d" % (name, number)) for name in ("first", "second")]
    agent, outcomes = rig.agents.agent(), {}
    threads = [threading.Thread(target=lambda pod=pod: outcomes.update({pod: rig.attach(agent, pod)})) for pod in pods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes.values()) in (["", "busy"], ["", "held"])
    # either may have the slot, which only its end frees
    for pod in sorted(pods, key=lambda pod: outcomes[pod]):
        rig.end(pod)


FAULTS = [
    killed_in_attach,
    disk_full,
    link_down_in_attach,
    address_of_another_host,
    silent_gateway,
    port_held_by_another,
    container_ends_in_attach,
    two_pods_at_once,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_leaves_nothing_and_no_slot_is_given_twice(fault: t.Callable[[Rig, int], None]) -> None:
    def scenario(node: LiveNode) -> None:
        rig = Rig(node)
        before = node_state()
        for number in range(TIMES):
            fault(rig, number)
            wait_for(lambda: not difference(before), lambda: difference(before))
            rig.slot_is_given_once(number)
            wait_for(lambda: not difference(before), lambda: difference(before))

    in_own_namespace(scenario)()
