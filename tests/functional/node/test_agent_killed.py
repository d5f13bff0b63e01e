# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent that is killed at any request to the kernel or in any write of its record: the next one undoes its work."""

from __future__ import annotations

import errno
import functools
import os
import signal
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHING, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import TEMPORARY, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from tests.functional.node.agent_pods import AgentNode, Pod
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, shown
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

MOST = 200
HOST_DEVICE = pytest.param("host-device", marks=pytest.mark.long)


def killed_at(number: int, act: t.Callable[[], object]) -> bool:
    """Whether a process that does it was killed before its request or write of this number; it may have fewer."""
    child = os.fork()
    if not child:
        try:
            _deadly(number)
            act()
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _deadly(number: int) -> None:
    left = [number]

    def before(method: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def act(*arguments: t.Any, **options: t.Any) -> t.Any:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments, **options)

        return act

    codec.NetlinkSocket._send = before(codec.NetlinkSocket._send)  # type: ignore[method-assign]
    System.write_file = before(System.write_file)  # type: ignore[method-assign]
    os.replace = before(os.replace)


def left_over() -> list[str]:
    """Return the names of incomplete files beside the record."""
    directory = AgentNode.record().parent
    return [name for name in os.listdir(directory) if name.startswith(TEMPORARY)] if directory.exists() else []


def ports(node: LiveNode) -> list[tuple[str, int, bool, str]]:
    return [
        (each["ifname"], each["mtu"], "UP" in each["flags"], each.get("ifalias") or "")
        for each in shown("link")
        if each["ifname"] != "lo"
    ]


def every_moment(node: LiveNode, attachment: str, container_ends: bool) -> None:
    agents = AgentNode(node)
    agents.write(document(*rails_of(attachment), attachment=attachment, conflict_check=False))
    pod: Pod = agents.pod("a")
    agent = agents.agent()
    agent.attach("rails-0", pod.state())
    wanted = pod.whole()
    assert agent.detach("rails-0")
    before = ports(node)
    number = 1
    while killed_at(number, lambda: agent.attach("rails-0", pod.state())):
        if container_ends:
            pod.end_container()
        successor = agents.agent()
        assert left_over() == []
        if agents.held():
            # the kill came after the last record, or a port waits in the namespace for its end
            assert attachment == "host-device" and container_ends
        else:
            assert (pod.links(), ports(node)) == (set(), before), number
            assert container_ends or pod.whole()["rules"] == [], number
        if container_ends:
            pod.restart_container()
        successor.attach("rails-0", pod.state())
        assert pod.whole() == wanted, number
        assert successor.detach("rails-0")
        assert (pod.links(), ports(node)) == (set(), before), number
        number += 1
        assert number < MOST
    # the last moment is after the last request of an attach
    assert number > 20 and agents.held() == {"rails-0": "default/a"}


def rails_of(attachment: str) -> list[dict[str, t.Any]]:
    """Return two rails, whose slots have no MAC addresses if the port itself moves to the pod."""
    own_mac = attachment == "host-device"
    return [rail(n, slots=[slot(n, 0, "rails", mac=None)]) if own_mac else rail(n) for n in (1, 2)]


def every_moment_of_the_end(node: LiveNode, attachment: str, pod_ends: bool) -> None:
    """Kill the agent in a detach, or in the sweep after the end of the pod."""
    agents = AgentNode(node)
    agents.write(document(*rails_of(attachment), attachment=attachment, conflict_check=False))
    before = ports(node)
    killed, number = True, 0
    while killed:
        number += 1
        assert number < MOST
        pod, agent = agents.pod("a%d" % number), agents.agent(20)
        agent.attach("rails-0", pod.state())
        if pod_ends:
            pod.end()
            wait_for(lambda: last_pod_is_gone(agents))
        act = agent.sweep if pod_ends else functools.partial(agent.detach, "rails-0")
        killed = killed_at(number, act)
        successor = agents.agent()
        assert left_over() == []
        if not pod_ends:
            # the kubelet repeats the request
            assert successor.detach("rails-0")
            assert (pod.links(), pod.whole()["rules"]) == (set(), [])
            pod.end()
        assert (agents.held(), ports(node)) == ({}, before), number
    assert number > 3


def last_pod_is_gone(agents: AgentNode) -> bool:
    """Return whether the network namespace of the only holder has ended."""
    (holder,) = SlotState(agents.node.system).holders().values()
    with Rtnetlink() as kernel:
        try:
            return kernel.link(1, namespace=holder.nsid) is None
        except codec.NetlinkError as error:
            return error.errno == errno.EINVAL


def every_moment_of_a_recovery(node: LiveNode, attachment: str) -> None:
    """Kill the agent that undoes the attach of an agent that was killed."""
    agents = AgentNode(node)
    agents.write(document(*rails_of(attachment), attachment=attachment, conflict_check=False))
    pod, before = agents.pod("a"), ports(node)
    killed, number = True, 0
    while killed:
        number += 1
        assert number < MOST
        agent = agents.agent()
        # killed when one interface or both exist
        attach = functools.partial(agent.attach, "rails-0", pod.state())
        assert killed_at(30 if number % 2 else 43, attach)
        killed = killed_at(number, agents.agent)
        agents.agent()
        assert (agents.held(), left_over(), pod.links(), pod.whole()["rules"]) == ({}, [], set(), []), number
        assert ports(node) == before, number
    assert number > 10


@in_own_namespace
def test_a_pod_keeps_its_interfaces_if_the_agent_is_killed_when_a_container_restarts(node: LiveNode) -> None:
    agents = AgentNode(node)
    agents.write(document(rail(1), rail(2), conflict_check=False))
    pod = agents.pod("a")
    agent = agents.agent()
    agent.attach("rails-0", pod.state())
    wanted = pod.whole()
    number = 1
    while killed_at(number, lambda: agent.attach("rails-0", pod.state())):
        agents.agent()
        assert pod.whole() == wanted, number
        assert agents.held() == {"rails-0": "default/a"}
        number += 1
        assert number < MOST
    assert number > 20


@in_own_namespace
def test_an_agent_starts_although_something_cannot_be_undone(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod = agents.pod("a")
    holder = agents.agent().attach("rails-0", pod.state())
    SlotState(node.system).take(holder._replace(phase=ATTACHING))
    delete = Rtnetlink.delete_link

    def refuse(*_arguments: t.Any) -> None:
        raise codec.NetlinkError(errno.EBUSY)

    Rtnetlink.delete_link = refuse  # type: ignore[method-assign]
    agents.agent()
    assert agents.held() == {"rails-0": "default/a"}
    Rtnetlink.delete_link = delete  # type: ignore[method-assign]
    agents.agent()
    assert (pod.links(), agents.held()) == (set(), {})


@pytest.mark.parametrize("container_ends", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("attachment", ["macvlan", HOST_DEVICE])
def test_a_killed_agent_leaves_nothing_half_made(attachment: str, container_ends: bool) -> None:
    in_own_namespace(lambda node: every_moment(node, attachment, container_ends))()


@pytest.mark.parametrize(
    ("attachment", "pod_ends"),
    # the kernel deletes a veth at the end of its namespace, and returns other ports
    [("macvlan", False), ("macvlan", True), pytest.param("host-device", False, marks=pytest.mark.long)],
)
def test_an_agent_killed_at_the_end_of_a_pod_keeps_no_slot(attachment: str, pod_ends: bool) -> None:
    in_own_namespace(lambda node: every_moment_of_the_end(node, attachment, pod_ends))()


@pytest.mark.parametrize("attachment", ["macvlan", HOST_DEVICE])
def test_an_agent_completes_the_recovery_of_a_killed_agent(attachment: str) -> None:
    in_own_namespace(lambda node: every_moment_of_a_recovery(node, attachment))()
