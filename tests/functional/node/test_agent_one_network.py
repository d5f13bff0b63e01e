# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods whose rails are all in one network: two ports at one bridge, and rails with one subnet in each pod."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from tests.functional.node.agent_pods import AgentNode, Pod
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

SYSCTL = {"arp_announce": "2", "arp_filter": "1", "arp_ignore": "1", "rp_filter": "2"}


def address(number: int, index: int) -> str:
    """The address of a slot of a rail, without its prefix."""
    return "172.16.%d.%d" % (number, index + 1)


def one_network(node: LiveNode) -> AgentNode:
    """Two rails of 172.16.0.0/16 and fd00::/64, whose ports share one bridge with a host of that network."""
    agents = AgentNode(node)
    node.leaf("ip", "link", "add", "br0", "type", "bridge")
    for number in (1, 2):
        node.leaf("ip", "link", "set", "leaf%d" % number, "master", "br0")
    node.leaf("ip", "address", "add", "172.16.9.9/16", "dev", "br0")
    node.leaf("ip", "link", "set", "br0", "up")
    rows = []
    for number in (1, 2):
        slots = [
            slot(
                number,
                each,
                "rails",
                address=address(number, each) + "/16",
                address6="fd00::%d:%d/64" % (number, each + 1),
            )
            for each in (0, 1)
        ]
        rows.append(rail(number, gateway=None, gateway6=None, sysctl=SYSCTL, slots=slots))
    agents.write(document(*rows))
    return agents


def answering(node: LiveNode, target: str) -> list[str]:
    """The MAC addresses that answer a host of the network for an address."""
    with open("/proc/%d/ns/net" % node._leaf.pid, "rb") as stream:
        answers = in_namespace(stream.fileno(), lambda: arp.ask({"br0": [target]}, 0.5))
    return sorted(answers.get(("br0", target), ()))


def mac_of(pod: Pod, name: str) -> str:
    return str(pod.shown("link", "show", name)[0]["address"])


@in_own_namespace
def test_each_address_of_a_pod_is_answered_by_its_own_interface(node: LiveNode) -> None:
    agents = one_network(node)
    agent, pods = agents.agent(), [agents.pod("a"), agents.pod("b")]
    for index, pod in enumerate(pods):
        agent.attach("rails-%d" % index, pod.state())
    for index, pod in enumerate(pods):
        for number in (1, 2):
            wait_for(lambda: answering(node, address(number, index)), "no answer")  # noqa: B023
            assert answering(node, address(number, index)) == [mac_of(pod, "net%d" % number)]
        # the source decides by which interface a packet leaves
        for number in (1, 2):
            words = ("route", "get", "172.16.9.9", "from", address(number, index))
            assert [row["dev"] for row in pod.shown(*words)] == ["net%d" % number]
    assert agent.conflicts() == []


@in_own_namespace
def test_without_the_planned_settings_another_interface_answers_too(node: LiveNode) -> None:
    agents = one_network(node)
    agent, pod = agents.agent(), agents.pod("a")
    agent.attach("rails-0", pod.state())
    for name in ("net1", "net2"):
        for key in ("arp_ignore", "arp_filter"):
            pod.run("sysctl", "-q", "-w", "net.ipv4.conf.%s.%s=0" % (name, key))
    macs = {mac_of(pod, name) for name in ("net1", "net2")}
    wait_for(lambda: set(answering(node, address(1, 0))) == macs, "only one interface answers")


@pytest.mark.parametrize("number", [1, 2])
def test_a_host_of_the_network_with_an_address_of_a_pod_is_a_conflict(number: int) -> None:
    def scenario(node: LiveNode) -> None:
        agents = one_network(node)
        node.leaf("ip", "address", "add", address(number, 0) + "/16", "dev", "br0")
        pod = agents.pod("a")
        with pytest.raises(AttachError, match="the address %s is in use" % address(number, 0)) as caught:
            agents.agent().attach("rails-0", pod.state())
        assert caught.value.reason == "conflict"
        assert pod.links() == set()

    in_own_namespace(scenario)()
