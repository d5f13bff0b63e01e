# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with CAP_NET_ADMIN that change their interfaces and namespaces, records of other boots, and changes of the plan.

Ports are veth pairs whose peer is a leaf in a third namespace, by which the kernel identifies them. Of PCI functions,
only ``/sys/bus/pci`` is simulated.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import threading
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, host_links
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, link_messages, rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from tests.functional.node.agent_pods import PATIENCE, AgentNode, Pod
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip, shown
from tests.functional.node.test_agent_attach import refused
from tests.functional.node.test_agent_killed import rails_of
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

PCI = {1: "0000:01:00.0", 2: "0000:02:00.0"}
# What earlier releases did not record.
NEWER = ("boot_id", "inode", "cookie", "plan")
NEWER_OF_ROWS = ("ifindex", "identity", "rdma_index")


def port_of(number: int) -> dict[str, t.Any]:
    """The port of a rail in this namespace, found by its peer."""
    return next(each for each in shown("link") if each.get("link_index") == PEERS[number] and "link_netnsid" in each)


# rail -> index of the leaf's end in the namespace of the leaf
PEERS: dict[int, int] = {}


class PciSystem(System):
    """The kernel of this namespace, with ports that are PCI functions."""

    def listdir(self, path: str, complete: bool = False) -> list[str]:
        found = re.match("/sys/bus/pci/devices/([0-9a-f:.]+)/net$", path)
        if not found:
            return super().listdir(path, complete)
        peer = PEERS[next(number for number, pci in PCI.items() if pci == found.group(1))]
        return [each["ifname"] for each in shown("link") if each.get("link_index") == peer and "link_netnsid" in each]

    def exists(self, path: str) -> bool:
        return path.startswith("/sys/bus/pci/") or super().exists(path)


class HostDevices:
    """A node whose two ports move to pods. ``pci``: whether they are PCI functions."""

    def __init__(self, node: LiveNode, pci: bool = False) -> None:
        self.agents = AgentNode(node)
        self.system = PciSystem() if pci else node.system
        rows = rails_of("host-device")
        for number in PCI:
            PEERS[number] = shown("link", "show", "rail%d" % number)[0]["link_index"]
            rows[number - 1]["pci"] = PCI[number] if pci else None
        self.agents.write(document(*rows, attachment="host-device", conflict_check=False))
        self.before = self.ports()

    def agent(self) -> PodAttach:
        found = PodAttach(self.system, agent_spec.read_spec(self.system), SlotState(self.system), PATIENCE)
        found.recover()
        return found

    def ports(self) -> dict[str, t.Any]:
        """All that a pod can change of ports, without what the kernel counts."""
        found = {}
        for number in PCI:
            port = dict(port_of(number))
            (detail,) = shown("-d", "link", "show", port["ifname"])
            keys = ("ifname", "address", "mtu", "txqlen", "group", "altnames", "gso_max_segs", "promiscuity", "xdp")
            flags = set(detail["flags"]) & {"UP", "NOARP", "ALLMULTI", "PROMISC", "MULTICAST"}
            found[number] = ({key: detail.get(key) for key in keys}, flags, detail.get("ifalias") or "")
        return found

    def end(self, pod: Pod) -> None:
        """End the pod, and return its ports as the kernel returns PCI functions: with the names that they have."""
        for each in pod.shown("link"):
            if each.get("link_index") in PEERS.values():
                pod.run("ip", "link", "set", each["ifname"], "netns", str(os.getpid()))
        pod.end()


# -- what moves to the node --------------------------------------------------------------------------------------------


def bait(pod: Pod, *words: str) -> str:
    """Let a pod make an interface that looks like its rail. Return its MAC."""
    pod.run("ip", "link", "add", *words, "type", "veth", "peer", "name", "wire")
    pod.run("ip", "link", "set", "wire", "up")
    name = words[words.index("name") + 1] if "name" in words else words[0]
    return str(pod.shown("link", "show", name)[0]["address"])


def bait_with_alias(pod: Pod) -> str:
    (net1,) = pod.shown("link", "show", "net1")
    pod.run("ip", "link", "set", "net1", "down")
    pod.run("ip", "link", "set", "net1", "name", "hidden", "alias", "")
    mac = bait(pod, "bait")
    pod.run("ip", "link", "set", "bait", "alias", net1["ifalias"])
    return mac


def bait_with_name(pod: Pod) -> str:
    pod.run("ip", "link", "set", "net1", "down")
    pod.run("ip", "link", "set", "net1", "name", "hidden")
    return bait(pod, "net1")


def bait_with_index(pod: Pod) -> str:
    """The port is in a namespace that the pod has made, and another interface has its index, name and alias."""
    (net1,) = pod.shown("link", "show", "net1")
    pod.run("ip", "link", "set", "net1", "netns", str(pod.inner().pid))
    mac = bait(pod, "name", "net1", "index", str(net1["ifindex"]))
    pod.run("ip", "link", "set", "net1", "alias", net1["ifalias"], "address", net1["address"], "up")
    return str(net1["address"]) if mac else mac


@pytest.mark.parametrize("make", [bait_with_alias, bait_with_name, bait_with_index])
def test_an_interface_that_a_pod_has_made_does_not_move_to_the_node(make: t.Callable[[Pod], str]) -> None:
    def scenario(node: LiveNode) -> None:
        devices = HostDevices(node)
        pod, agent = devices.agents.pod("a"), devices.agent()
        agent.attach("rails-0", pod.state())
        names = devices.agents.host_links()
        make(pod)
        # undoing finds the port itself, or leaves it until the namespace ends
        freed = agent.detach("rails-0")
        agent.sweep()
        returned = set() if make is bait_with_index else {"rail1"}
        assert devices.agents.host_links() == names | returned | {"rail2"}
        for name in devices.agents.host_links() - names:
            assert "link_netnsid" in shown("link", "show", name)[0]
        assert freed == (make is not bait_with_index)
        assert devices.agents.held() == ({} if freed else {"rails-0": "default/a"})
        assert {"bait", "net1"} & pod.links()

    in_own_namespace(scenario)()


@in_own_namespace
def test_a_port_that_the_kernel_cannot_identify_is_refused(node: LiveNode) -> None:
    """A pod could put another one in its place."""
    agents = AgentNode(node, ports=1)
    ip("tuntap", "add", "rail9", "mode", "tap")
    rows = [rail(1, netdev="rail9", slots=[slot(1, 0, "rails", mac=None)])]
    agents.write(document(*rows, attachment="host-device", conflict_check=False))
    pod, before = agents.pod("a"), agents.host_links()
    error = refused("identity", lambda: agents.agent().attach("rails-0", pod.state()))
    assert str(error).startswith(
        "slot 0 of rail gpu01: the kernel reports no parent device, permanent address or lower"
    )
    assert (agents.host_links(), agents.held(), pod.links()) == (before, {}, set())


@in_own_namespace
def test_a_pod_with_a_name_or_alias_of_the_agent_is_refused(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    pod.run("ip", "link", "add", "x", "type", "veth", "peer", "name", "y")
    for words in (("alias", "railyard rails-0 %s gpu02" % pod.sandbox_id), ("alias", "", "name", "net2")):
        pod.run("ip", "link", "set", "x", *words)
        refused("interface", lambda: agent.attach("rails-0", pod.state()))
        assert (pod.whole()["rules"], agents.held()) == ([], {})


# -- what returns ------------------------------------------------------------------------------------------------------


def load_xdp() -> int:
    """Return a file descriptor of an XDP program that passes all packets: ``r0 = 2; exit``; see bpf(2)."""
    code = struct.pack("=BBhi", 0xB7, 0, 0, 2) + struct.pack("=BBhi", 0x95, 0, 0, 0)
    text, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    values = (6, 2, ctypes.addressof(text), ctypes.addressof(licence))
    attributes = ctypes.create_string_buffer(struct.pack("=IIQQ", *values).ljust(128, b"\0"))
    return ctypes.CDLL(None, use_errno=True).syscall(321, 5, attributes, 128)


def attach_xdp(pod: Pod, name: str) -> None:
    index = pod.shown("link", "show", name)[0]["ifindex"]
    program = load_xdp()
    assert program >= 0, os.strerror(ctypes.get_errno())
    flags = codec.u32(link_messages.IFLA_XDP_FLAGS, link_messages.XDP_MODES[2])
    attribute = codec.attribute(link_messages.IFLA_XDP, codec.u32(link_messages.IFLA_XDP_FD, program) + flags)

    def attach() -> None:
        sock = codec.NetlinkSocket(rtnetlink.NETLINK_ROUTE)
        sock.request(rtnetlink.RTM_NEWLINK, link_messages.LINK_HEADER.pack(0, 0, index, 0, 0) + attribute)
        sock.close()

    with open("/proc/%d/ns/net" % pod.pid, "rb") as stream:
        in_namespace(stream.fileno(), attach)
    os.close(program)


def settings(pod: Pod) -> None:
    pod.run("ip", "link", "set", "net1", "down")
    for words in (
        ("address", "02:de:ad:00:00:01"),
        ("mtu", "68"),
        ("txqueuelen", "1"),
        ("group", "7"),
        ("arp", "off"),
        ("promisc", "on"),
        ("allmulticast", "on"),
        ("gso_max_segs", "1"),
    ):
        pod.run("ip", "link", "set", "net1", *words)
    pod.run("ip", "link", "property", "add", "dev", "net1", "altname", "rail2")
    attach_xdp(pod, "net2")


def names_of_the_node(pod: Pod) -> None:
    """The ports look as if they had never moved."""
    for number in PCI:
        pod.run("ip", "link", "set", "net%d" % number, "down")
        pod.run("ip", "link", "set", "net%d" % number, "name", "rail%d" % number, "alias", "", "mtu", "68")


def swapped_names(pod: Pod) -> None:
    for number in PCI:
        pod.run("ip", "link", "set", "net%d" % number, "down")
        pod.run("ip", "link", "set", "net%d" % number, "name", "rail%d" % (3 - number))


def swapped_aliases(pod: Pod) -> None:
    aliases = [pod.shown("link", "show", "net%d" % number)[0]["ifalias"] for number in PCI]
    pod.run("ip", "link", "set", "net1", "alias", aliases[1])
    pod.run("ip", "link", "set", "net2", "alias", aliases[0])


@pytest.mark.parametrize("pci", [True, False])
def test_a_port_returns_as_it_was_whatever_the_pod_did(pci: bool) -> None:
    def scenario(node: LiveNode) -> None:
        devices = HostDevices(node, pci)
        agent = devices.agent()
        for change in (settings, names_of_the_node, swapped_names, swapped_aliases):
            pod = devices.agents.pod(change.__name__)
            agent.attach("rails-0", pod.state())
            change(pod)
            assert agent.sweep() == [] and devices.agents.held()
            devices.end(pod)
            wait_for(lambda: agent.sweep() or not devices.agents.held(), lambda: agent.problems)
            assert (devices.ports(), agent.problems) == (devices.before, {}), change.__name__

    in_own_namespace(scenario)()


@pytest.mark.parametrize("pci", [True, False])
def test_a_taken_name_is_reported_and_keeps_only_a_port_that_is_found_by_it(pci: bool) -> None:
    def scenario(node: LiveNode) -> None:
        devices = HostDevices(node, pci)
        pod, agent = devices.agents.pod("a"), devices.agent()
        agent.attach("rails-0", pod.state())
        ip("link", "add", "rail1", "type", "veth", "peer", "name", "foreign")
        devices.end(pod)
        wait_for(lambda: agent.sweep() or agent.problems, "the end of the pod is not noticed")
        agent.sweep()
        (problem,) = agent.problems.values()
        if not pci:
            assert devices.agents.held() == {"rails-0": "default/a"}
            assert "rail1: another interface has the name of the returned port. Remedy: rename" in problem
            ip("link", "del", "rail1")
            wait_for(lambda: agent.sweep() or not devices.agents.held(), lambda: agent.problems)
            assert devices.ports() == devices.before
            return
        assert devices.agents.held() == {}
        assert "and no pod holds it. Remedy: give it the name of its port" in problem
        name = port_of(1)["ifname"]
        ip("link", "del", "rail1")
        # another pod gets it nevertheless, as it is found by its PCI address
        other = devices.agents.pod("b")
        agent.attach("rails-0", other.state())
        assert agent.detach("rails-0")
        assert port_of(1)["ifname"] == name

    in_own_namespace(scenario)()


@in_own_namespace
def test_an_interface_with_an_alias_of_the_agent_without_a_holder_is_reported_and_left(node: LiveNode) -> None:
    agents = AgentNode(node)
    agent = agents.agent()
    ip("link", "set", "rail2", "alias", "railyard rails-0 4f1b gpu02")
    before = shown("link")
    agent.sweep()
    assert list(agent.problems) == ["interface rail2"]
    assert agent.problems["interface rail2"].startswith(
        "interface rail2: it has a name or alias of the rail agent (rai"
    )
    assert shown("link") == before
    ip("link", "set", "rail2", "alias", "")
    agent.sweep()
    assert agent.problems == {}


# -- when a slot is free -----------------------------------------------------------------------------------------------

DISGUISES = {
    "alias": [["link", "set", "net1", "alias", ""], ["link", "set", "net2", "alias", ""]],
    "name": [["link", "set", "net1", "down"], ["link", "set", "net1", "name", "x", "alias", ""]],
    "deleted": [["link", "del", "net1"], ["link", "del", "net2"]],
    "address": [["link", "set", "net1", "arp", "off", "address", "02:00:00:00:99:99", "alias", ""]],
}


@in_own_namespace
def test_nothing_that_a_running_pod_does_frees_its_slot(node: LiveNode) -> None:
    agents = AgentNode(node)
    agents.write(document(rail(1), rail(2), conflict_check=False))
    agent, other = agents.agent(), agents.pod("other")
    for name, commands in DISGUISES.items():
        pod = agents.pod(name)
        agent.attach("rails-0", pod.state())
        for command in commands:
            pod.run("ip", *command)
        # also without the process of the container, and for an agent that has just started
        pod.end_container()
        for each in (agent, agents.agent(0)):
            each.sweep()
            assert agents.held() == {"rails-0": "default/" + name}
            refused("held", lambda each=each: each.attach("rails-0", other.state()))  # type: ignore[misc]
        pod.end()
        wait_for(lambda: agent.sweep() or not agents.held(), "the slot is not freed")


@in_own_namespace
def test_a_namespace_that_gets_the_number_of_an_ended_one_holds_nothing(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, other, agent = agents.pod("a"), agents.pod("b"), agents.agent()
    agent.attach("rails-0", pod.state())
    number = agent.attach("gpu02-2", other.state()).nsid
    pod.end()
    holder = SlotState(node.system).holders()["rails-0"]
    # the kernel gives the lowest free number, and later also the inode, to the next namespace
    for reused in (
        holder._replace(nsid=number),
        holder._replace(nsid=number, inode=os.stat(other.net(other.pid)).st_ino),
    ):
        SlotState(node.system).take(reused)
        assert agents.agent().problems == {}
        assert agents.held() == {"gpu02-2": "default/b"}


# -- records of other boots and releases -------------------------------------------------------------------------------


def change_record(agents: AgentNode, change: t.Callable[[dict[str, t.Any]], None]) -> None:
    record = json.loads(agents.record().read_text())
    for row in record["holders"]:
        change(row)
    agents.record().write_text(json.dumps(record))


def of_an_earlier_release(row: dict[str, t.Any]) -> None:
    for key in NEWER:
        del row[key]
    for interface in row["interfaces"]:
        for key in NEWER_OF_ROWS:
            del interface[key]
        if interface["host"]:
            interface["host"] = {key: interface["host"][key] for key in ("name", "mtu", "up", "pci")}


def attached(node: LiveNode, attachment: str) -> tuple[AgentNode, Pod, Pod]:
    """The node, a pod that holds rails-0, and one that does not."""
    agents = AgentNode(node)
    agents.write(document(*rails_of(attachment), attachment=attachment, conflict_check=False))
    pod, other = agents.pod("a"), agents.pod("b")
    agents.agent().attach("rails-0", pod.state())
    return agents, pod, other


@pytest.mark.parametrize("attachment", ["macvlan", "host-device"])
def test_rows_of_another_boot_hold_nothing(attachment: str) -> None:
    """Also if a namespace has their number, and other ports have the names of their ports."""

    def scenario(node: LiveNode) -> None:
        agents, pod, other = attached(node, attachment)
        for number in (1, 2) if attachment == "host-device" else ():
            node.rail(number + 2)
            ip("link", "set", "rail%d" % (number + 2), "name", "rail%d" % (3 - number), "up")
        links = agents.host_links()
        change_record(agents, lambda row: row.update(boot_id="0a55ed00-0000-4000-8000-000000000000"))
        assert agents.held() == {}
        agent = agents.agent()
        assert (agents.held(), agent.problems, agents.host_links()) == ({}, {}, links)
        assert json.loads(agents.record().read_text())["holders"] == []
        if attachment == "host-device":
            agent.attach("rails-0", other.state())

    in_own_namespace(scenario)()


@pytest.mark.parametrize("attachment", ["macvlan", "host-device"])
def test_an_upgrade_keeps_the_slots_of_running_pods(attachment: str) -> None:
    def scenario(node: LiveNode) -> None:
        agents, pod, other = attached(node, attachment)
        whole = pod.whole()
        if attachment == "macvlan":
            # the process of the container shows the namespace
            pod.run("ip", "link", "set", "net1", "alias", "")
            pod.run("ip", "link", "set", "net2", "alias", "")
        change_record(agents, of_an_earlier_release)
        agent = agents.agent()
        (row,) = json.loads(agents.record().read_text())["holders"]
        assert [key for key in NEWER if row[key] is None] == []
        # from now on, nothing that the pod writes frees it
        pod.run("ip", "link", "set", "net1", "alias", "")
        pod.end_container()
        agent.sweep()
        refused("held", lambda: agent.attach("rails-0", other.state()))
        pod.restart_container()
        agent.attach("rails-0", pod.state())
        assert pod.whole() == whole
        assert agent.detach("rails-0")
        assert (pod.links(), pod.whole()["rules"]) == (set(), [])

    in_own_namespace(scenario)()


@in_own_namespace
def test_a_row_of_an_earlier_release_holds_nothing_after_the_end_of_its_pod(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, other, agent = agents.pod("a"), agents.pod("b"), agents.agent()
    agent.attach("rails-0", pod.state())
    number = agent.attach("gpu02-2", other.state()).nsid
    pod.end()
    change_record(agents, lambda row: of_an_earlier_release(row) if row["device"] == "rails-0" else None)
    text = agents.record().read_text()
    for nsid in (number + 4711, number):
        agents.record().write_text(text)
        change_record(agents, lambda row: "cookie" in row or row.update(nsid=nsid))  # noqa: B023
        agents.agent()
        assert agents.held() == {"gpu02-2": "default/b"}


# -- a plan that changes while a pod runs ------------------------------------------------------------------------------

PLANS: dict[str, t.Callable[[], list[dict[str, t.Any]]]] = {
    "address": lambda: [rail(1, slots=[slot(1, 0, "rails", address="172.16.11.50/24", address6=None)]), rail(2)],
    "mac": lambda: [rail(1, slots=[slot(1, 0, "rails", mac="02:00:00:00:77:77")]), rail(2)],
    "mtu": lambda: [rail(1, mtu=1300), rail(2)],
    "interface": lambda: [rail(1, interface="rail-a"), rail(2)],
    "table": lambda: [rail(1, table=55, rule_priority=55, gateway="172.16.11.200"), rail(2)],
    "routes": lambda: [rail(1, routes=[{"to": "10.0.0.0/8", "via": "172.16.11.254", "table": None}]), rail(2)],
    "rail removed": lambda: [rail(2)],
    "slot removed": lambda: [rail(1, slots=[slot(1, 5, "rails")]), rail(2, slots=[slot(2, 5, "rails")])],
}


@in_own_namespace
def test_a_pod_keeps_what_it_was_attached_with_when_the_plan_changes(node: LiveNode) -> None:
    agents = AgentNode(node)
    agents.write(document(rail(1), rail(2), conflict_check=False))
    pod = agents.pod("a")
    holder = agents.agent().attach("rails-0", pod.state())
    whole = pod.whole()
    files = {name: document(*rows(), conflict_check=False) for name, rows in PLANS.items()}
    files["attachment"] = document(*rails_of("host-device"), attachment="host-device", conflict_check=False)
    for name, content in files.items():
        agents.write(content)
        # a part that the container has removed is completed as it was
        pod.run("ip", "rule", "del", "priority", "10001")
        pod.run("ip", "link", "del", "net2")
        pod.restart_container()
        again = agents.agent().attach("rails-0", pod.state())
        assert pod.whole() == whole, name
        assert (again.addresses, again.plan) == (holder.addresses, holder.plan), name
    # the next pod gets the new values, and no address that the pod has
    agents.write(document(rail(1, slots=[slot(1, 3, "gpu01", address="172.16.11.1/24", address6=None)])))
    agents.write(dict(document(rail(1, slots=[slot(1, 3, "gpu01", address="172.16.11.1/24")])), conflict_check=False))
    refused("held", lambda: agents.agent().attach("gpu01-3", agents.pod("b").state()))
    agents.write(files["address"])
    pod.end()
    other = agents.pod("c")
    agents.agent(20).attach("rails-0", other.state())
    assert other.whole()["addresses"]["net1"] == [("172.16.11.50", 24)]


@in_own_namespace
def test_two_attaches_at_once_do_not_get_one_address(node: LiveNode) -> None:
    """One of them began with the plan before, in which its device had the address."""
    agents = AgentNode(node)
    agents.write(document(rail(1), conflict_check=False))
    old = agents.agent()
    spec = agent_spec.parse_spec(
        document(rail(1, slots=[slot(1, 3, "gpu01", address="172.16.11.3/24", address6=None)]), conflict_check=False)
    )
    first, second = agents.pod("a"), agents.pod("b")
    jobs, took = old._jobs, []

    def attach_other_first(*arguments: t.Any) -> t.Any:
        # between the check that the address is free and the record
        old._jobs, old.spec = jobs, spec  # type: ignore[method-assign]
        took.append(old.attach("gpu01-3", second.state()))
        return jobs(*arguments)

    old._jobs = attach_other_first  # type: ignore[method-assign]
    refused("held", lambda: old.attach("gpu01-2", first.state()))
    assert (len(took), agents.held(), first.links()) == (1, {"gpu01-3": "default/b"}, set())


# -- bounds ------------------------------------------------------------------------------------------------------------


def received(act: t.Callable[[], object]) -> int:
    """Return how many messages of the kernel are read while a function runs."""
    decode, count = codec.decode, [0]

    def counted(data: bytes) -> list[codec.Message]:
        messages = decode(data)
        count[0] += len(messages)
        return messages

    codec.decode = counted
    try:
        act()
    finally:
        codec.decode = decode
    return count[0]


def batch(pod: Pod, lines: t.Iterable[str], *options: str) -> None:
    inside = ["nsenter", "--net=" + pod.net(pod.pid), "ip", *options, "-batch", "-"]
    subprocess.run(inside, input="\n".join(lines), check=True, text=True, capture_output=True)


@in_own_namespace
def test_the_size_of_a_pod_does_not_matter_for_others(node: LiveNode) -> None:
    host_links.MOST = 400
    agents = AgentNode(node)
    agents.write(document(rail(1), rail(2), conflict_check=False))
    pod, agent = agents.pod("a"), agents.agent()
    agent.attach("rails-0", pod.state())
    progress: list[int] = []
    before = received(lambda: agent.sweep(lambda: progress.append(1)))
    assert progress == [1]
    batch(pod, ["link add d%d type veth peer name e%d" % (number, number) for number in range(250)])
    batch(pod, ["rule add priority %d table 9" % number for number in range(20000, 20500)])
    assert received(agent.sweep) == before
    # the pod itself gets an error, and keeps what it has
    assert received(lambda: refused("size", lambda: agent.attach("rails-0", pod.state()))) < 2000
    assert agents.held() == {"rails-0": "default/a"}
    assert {"net1", "net2"} <= pod.links()
    # so does one that has many of them before
    for name, lines in {
        "links": ["link add d{0} type veth peer name e{0}"],
        "routes": ["route add 10.0.{0}.0/25 dev lo", "route add 10.0.{0}.128/25 dev lo"],
        "addresses": ["address add 10.1.0.{0}/8 dev lo", "address add 10.1.1.{0}/8 dev lo"],
    }.items():
        other = agents.pod(name)
        other.run("ip", "link", "set", "lo", "up")
        batch(other, [line.format(number) for line in lines for number in range(250)])
        refused("size", lambda other=other: agent.attach("rails-1", other.state()))  # type: ignore[misc]
        assert not {"net1", "net2"} & other.links()
        other.end()
    assert agent.detach("rails-0")
    assert agents.held() == {}


@in_own_namespace
def test_one_sweep_runs_at_a_time_and_others_take_its_result(node: LiveNode) -> None:
    agents = AgentNode(node)
    agent = agents.agent()
    running, release, runs = threading.Event(), threading.Event(), []
    sweep = agent._sweep

    def slow(progress: t.Callable[[], object]) -> list[str]:
        runs.append(1)
        running.set()
        release.wait(60)
        return sweep(progress)

    agent._sweep = slow  # type: ignore[method-assign]
    threads = [threading.Thread(target=agent.sweep) for _each in range(20)]
    for thread in threads:
        thread.start()
    running.wait(60)
    wait_for(lambda: all(thread.is_alive() for thread in threads), "a sweep did not wait")
    release.set()
    for thread in threads:
        thread.join()
    assert len(runs) == 1
