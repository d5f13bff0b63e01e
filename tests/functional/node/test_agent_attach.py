# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent attaches pods on this machine's kernel: macvlan, and a port of the node (veth), in network namespaces.

VFs and hardware RDMA devices are moved on guests of the lab.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import pod_links, rail_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError, read_pod
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import address_watch, arp
from tests.functional.node.agent_pods import AgentNode, Pod
from tests.functional.node.own_namespace import LiveNode, has_kind, in_own_namespace, ip, shown
from tests.functional.node.rail_hosts import RailHost, advertisement, arp_frame, detection
from tests.unit.node.agent_files import document, rail, slot
from tests.waiting import wait_for

WHOLE = {
    "names": ["net1", "net2"],
    "macs": {"lo": "00:00:00:00:00:00", "net1": "02:00:00:00:01:00", "net2": "02:00:00:00:02:00"},
    "addresses": {
        "net1": [("172.16.11.1", 24), ("fd00:11::1", 64)],
        "net2": [("172.16.12.1", 24), ("fd00:12::1", 64)],
    },
    "rules": [
        (10001, "172.16.11.1", "101"),
        (10001, "fd00:11::1", "101"),
        (10002, "172.16.12.1", "102"),
        (10002, "fd00:12::1", "102"),
    ],
    "tables": {
        101: [
            *(("default", "172.16.11.254", "net1"), ("172.16.11.0/24", None, "net1")),
            *(("fd00:11::/64", None, "net1"), ("default", "fd00:11::fe", "net1")),
        ],
        102: [
            *(("default", "172.16.12.254", "net2"), ("172.16.12.0/24", None, "net2")),
            *(("fd00:12::/64", None, "net2"), ("default", "fd00:12::fe", "net2")),
        ],
    },
}
# One datagram, for which the other host's hardware address is needed
SENDER = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind((sys.argv[1], 0))
    sock.sendto(b"x", (sys.argv[2], 9))
"""


def refused(reason: str, act: t.Callable[[], object]) -> AttachError:
    with pytest.raises(AttachError) as caught:
        act()
    assert caught.value.reason == reason, str(caught.value)
    return caught.value


@in_own_namespace
def test_a_pod_gets_its_slots_on_all_rails(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod = agents.pod("a")
    before = agents.host_links()
    holder = agents.agent().attach("rails-0", pod.state())
    assert pod.whole() == WHOLE
    assert agents.host_links() == before
    assert agents.held() == {"rails-0": "default/a"}
    assert [(row["rail"], row["interface"], row["address"], row["mac"]) for row in holder.interfaces] == [
        ("gpu01", "net1", "172.16.11.1/24", "02:00:00:00:01:00"),
        ("gpu02", "net2", "172.16.12.1/24", "02:00:00:00:02:00"),
    ]
    assert {each["mtu"] for each in pod.shown("link") if each["ifname"] != "lo"} == {1400}
    for path, value in (("ipv4/conf/net1/arp_ignore", "1"), ("ipv6/conf/net2/accept_ra", "0")):
        assert pod.run("cat", "/proc/sys/net/" + path).strip() == value
    # and traffic goes
    node.leaf("ip", "address", "add", "172.16.11.254/24", "dev", "leaf1")
    pod.run(sys.executable, "-c", SENDER, "172.16.11.1", "172.16.11.254")
    wait_for(lambda: pod.shown("neigh", "show", "172.16.11.254")[0].get("lladdr") is not None, "no answer")
    # a single rail has another slot
    other = agents.pod("b")
    agents.agent().attach("gpu02-2", other.state())
    assert other.links() == {"net2"}
    assert agents.held() == {"rails-0": "default/a", "gpu02-2": "default/b"}


@in_own_namespace
def test_no_pod_is_attached_while_a_run_changes_devices(node: LiveNode) -> None:
    agents, system = AgentNode(node), System()
    pod, agent = agents.pod("a"), agents.agent(patience=0.3)
    with boot_lock.turn(system, "the module sriov_vfs", 0, boot_lock.DEVICES):
        error = refused("node", lambda: agent.attach("rails-0", pod.state()))
    assert "the module sriov_vfs (pid %d)" % os.getpid() in error.message and error.remedy
    assert pod.links() == set() and agents.held() == {}
    agent.attach("rails-0", pod.state())
    assert pod.whole() == WHOLE and not system.exists(boot_lock.DEVICES)


@in_own_namespace
def test_a_restart_of_the_container_keeps_interfaces_routes_and_rules(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    since = agent.attach("rails-0", pod.state()).since
    index = pod.shown("link", "show", "net1")[0]["ifindex"]
    pod.restart_container()
    holder = agents.agent().attach("rails-0", pod.state())
    assert (holder.since, holder.pid) == (since, pod.pid)
    assert pod.whole() == WHOLE
    assert pod.shown("link", "show", "net1")[0]["ifindex"] == index
    # what a container has changed meanwhile is as planned again
    pod.run("ip", "rule", "del", "priority", "10001")
    pod.run("ip", "link", "set", "net1", "down")
    pod.run("ip", "link", "del", "net2")
    pod.restart_container()
    agent.attach("rails-0", pod.state())
    assert pod.whole() == WHOLE


@in_own_namespace
def test_a_slot_is_free_when_the_namespace_of_its_pod_has_ended(node: LiveNode) -> None:
    agents = AgentNode(node)
    first, second, agent = agents.pod("a"), agents.pod("b"), agents.agent()
    agent.attach("rails-0", first.state())
    error = refused("held", lambda: agent.attach("rails-0", second.state()))
    assert str(error).startswith("device rails-0: it is held by pod default/a. Remedy: delete that pod, or wait")
    # the end of the container is not the end of the pod
    first.end_container()
    assert agent.sweep() == []
    refused("held", lambda: agent.attach("rails-0", second.state()))
    assert second.links() == set()
    first.end()
    agents.agent(20).attach("rails-0", second.state())
    assert second.whole() == WHOLE
    second.end()
    wait_for(lambda: agent.sweep() == ["rails-0"] or agents.held() == {}, "the slot is not freed")
    assert agents.held() == {}


@in_own_namespace
def test_an_address_that_another_host_has_is_refused_and_nothing_is_left(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    before = agents.host_links()
    node.leaf("ip", "address", "add", "172.16.12.1/24", "dev", "leaf2")
    mac = mac_of_leaf(node, "leaf2")
    error = refused("conflict", lambda: agent.attach("rails-0", pod.state()))
    assert str(error) == (
        "slot 0 of rail gpu02: the address 172.16.12.1 is in use by %s. "
        "Remedy: find the host with this MAC, and remove the address." % mac
    )
    assert (pod.links(), pod.whole()["rules"], agents.host_links(), agents.held()) == (set(), [], before, {})
    node.leaf("ip", "address", "flush", "dev", "leaf2")
    node.leaf("ip", "address", "add", "fd00:12::1/64", "nodad", "dev", "leaf2")
    assert "fd00:12::1 is in use by " + mac in str(refused("conflict", lambda: agent.attach("rails-0", pod.state())))
    agents.write(document(rail(1), rail(2), conflict_check=False))
    agents.agent().attach("rails-0", pod.state())
    assert pod.whole() == WHOLE


def mac_of_leaf(node: LiveNode, name: str) -> str:
    return (
        node.leaf("cat", "/proc/net/dev", "/dev/null")
        and node.leaf("sh", "-c", "ip -o link show %s | sed 's/.*ether \\([^ ]*\\).*/\\1/'" % name).strip()
    )


# slot 0 of rail gpu01, as a clone of this node has it
ADDRESS, ADDRESS6, MAC, OTHER_MAC = "172.16.11.1", "fd00:11::1", "02:00:00:00:01:00", "02:00:00:00:00:99"


def clone_probe(mac: str) -> bytes:
    """A probe of another agent, whose process has another nonce."""
    frame = arp.arp_probe(arp.LinkAddresses(bytes.fromhex(mac.replace(":", ""))), ADDRESS)
    return frame[: -len(arp.NONCE)] + bytes(len(arp.NONCE))


@in_own_namespace
def test_claims_of_other_hosts_refuse_an_address_even_with_the_mac_of_the_slot(node: LiveNode) -> None:
    """Sources: RFC 5227, 2.1.1; RFC 4862, 5.4."""
    agents = AgentNode(node, ports=1)
    before = agents.host_links()
    claims = {
        "reply": ("0", arp_frame(arp.REPLY, MAC, ADDRESS, "0.0.0.0", MAC)),
        "announcement": ("repeat", arp_frame(arp.REQUEST, MAC, ADDRESS, ADDRESS)),
        "request of a clone": ("repeat", arp_frame(arp.REQUEST, MAC, ADDRESS, "172.16.11.254")),
        "probe of another host": ("repeat", arp_frame(arp.REQUEST, OTHER_MAC, "0.0.0.0", ADDRESS)),
        "probe of a clone": ("repeat", clone_probe(MAC)),
        "advertisement": ("0", advertisement(MAC, ADDRESS6)),
        "detection": ("repeat", detection(OTHER_MAC, ADDRESS6)),
        "detection of a clone": ("repeat", detection(MAC, ADDRESS6)),
    }
    for name, (does, frame) in claims.items():
        host, pod = RailHost(node, does, frame), agents.pod("a")
        with pytest.raises(AttachError) as caught:
            agents.agent().attach("rails-0", pod.state())
        address = ADDRESS6 if "adv" in name or "det" in name else ADDRESS
        mac = OTHER_MAC if frame[6:12].hex(":") == OTHER_MAC else MAC
        message = "the address %s is in use by %s" % (address, mac)
        assert (name, caught.value.place, caught.value.message) == (name, "slot 0 of rail gpu01", message)
        assert (pod.links(), agents.host_links(), agents.held()) == (set(), before, {})
        host.end()
        pod.end()


@contextlib.contextmanager
def attached(agents: AgentNode, host: RailHost) -> t.Iterator[tuple[PodAttach, Pod]]:
    """A pod that holds rails-0, while another host is on the rail."""
    pod, agent = agents.pod("a"), agents.agent()
    agent.attach("rails-0", pod.state())
    yield agent, pod
    host.end()
    agent.detach("rails-0")
    pod.end()


@in_own_namespace
def test_frames_that_are_not_claims_do_not_refuse_an_address(node: LiveNode) -> None:
    agents = AgentNode(node, ports=1)
    claim = arp_frame(arp.REPLY, OTHER_MAC, ADDRESS, "0.0.0.0", MAC)
    for frame in (
        # sizes of addresses; another VLAN; a host that resolves the address; a hop limit of a routed packet
        claim[:18] + b"\x08" + claim[19:],
        claim[:12] + b"\x81\0\0\x07" + claim[12:],
        arp_frame(arp.REQUEST, OTHER_MAC, "172.16.11.9", ADDRESS),
        advertisement(OTHER_MAC, ADDRESS6, hops=64),
    ):
        with attached(agents, RailHost(node, "repeat", frame)) as (agent, _pod):
            assert agent.conflicts() == []


@in_own_namespace
def test_frames_that_a_nic_or_switch_returns_are_not_claims(node: LiveNode) -> None:
    agents = AgentNode(node, ports=1)
    address_watch.LISTEN, address_watch.PROBE, address_watch.LAST_ANSWER = 1.5, 0.2, 0.5
    for does in ("return", "pad"):
        with attached(agents, RailHost(node, does)) as (agent, pod):
            # resolves an address with its own, and answers its returned probes
            pod.run(sys.executable, "-c", SENDER, ADDRESS, "172.16.11.254")
            heard: list[t.Any] = []
            agent.watch.changed = lambda *changes, heard=heard: heard.append(changes)
            wait_for(lambda agent=agent: not agent.watch._watched, "listening does not end")  # type: ignore[misc]
            assert heard == []


@in_own_namespace
def test_late_answers_refuse_an_address_or_are_a_problem_of_the_slot(node: LiveNode) -> None:
    agents = AgentNode(node, ports=1)
    assert pod_links.LAST_ANSWER > 0.6
    late = arp_frame(arp.REPLY, MAC, ADDRESS, "0.0.0.0", MAC)
    host, pod, agent = RailHost(node, "0.6", late), agents.pod("a"), agents.agent()
    # a busy machine may need longer; the answer ends the wait
    pod_links.LAST_ANSWER = 60
    refused("conflict", lambda: agent.attach("rails-0", pod.state()))
    host.end()
    pod_links.LAST_ANSWER = 0.65
    host = RailHost(node, "2.5", late)
    agent.attach("rails-0", pod.state())
    assert agent.conflicts() == []
    (conflict,) = wait_for(agent.conflicts)
    assert (conflict["device"], conflict["rail"], conflict["address"]) == ("rails-0", "gpu01", ADDRESS)
    assert conflict["error"] == (
        "pod default/a, slot 0 of rail gpu01: the address 172.16.11.1 is in use by 02:00:00:00:01:00. "
        "Remedy: find the host with this MAC, and remove the address."
    )
    # a restart of the container finds it again; the end of the pod ends it
    pod.restart_container()
    agent.attach("rails-0", pod.state())
    wait_for(agent.conflicts)
    pod.end()
    wait_for(lambda: not agent.conflicts())
    wait_for(agent.sweep, "the sockets keep the namespace")


@in_own_namespace
def test_a_gateway_must_answer_where_the_node_file_asks_for_it(node: LiveNode) -> None:
    agents = AgentNode(node)
    agents.write(document(rail(1, gateway6=None), rail(2, gateway6=None), gateway_check=True))
    pod, agent = agents.pod("a"), agents.agent()
    node.leaf("ip", "address", "add", "172.16.11.254/24", "dev", "leaf1")
    error = refused("gateway", lambda: agent.attach("rails-0", pod.state()))
    assert (error.place, error.message) == ("slot 0 of rail gpu02", "the gateway 172.16.12.254 does not answer")
    assert pod.links() == set()
    # late
    RailHost(node, "2", arp_frame(arp.REPLY, OTHER_MAC, "172.16.12.254", "0.0.0.0"), "leaf2")
    agent.attach("rails-0", pod.state())
    assert pod.links() == {"net1", "net2"}


@in_own_namespace
def test_an_impossible_attach_is_refused(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    error = refused("host-network", lambda: agent.attach("rails-0", pod.state(pid=os.getpid())))
    assert "pod default/a has hostNetwork: true" in str(error)
    refused("gone", lambda: agent.attach("rails-0", pod.state(pid=2**22 + 1)))
    refused("device", lambda: agent.attach("rails-7", pod.state()))
    for wrong in ({"pid": 0}, {"pid": True}, {"pid": "1; reboot"}, {"annotations": []}, {"annotations": {}}):
        refused("state", lambda wrong=wrong: agent.attach("rails-0", pod.state(**wrong)))  # type: ignore[misc]
    refused("state", lambda: agent.attach("rails-0", ["state"]))
    # the pod has another network of that name
    pod.run("ip", "link", "add", "net2", "type", "veth", "peer", "name", "x")
    error = refused("interface", lambda: agent.attach("rails-0", pod.state()))
    assert error.place == "slot 0 of rail gpu02"
    pod.run("ip", "link", "del", "net2")
    # a port that is missing
    ip("link", "del", "rail2")
    error = refused("port", lambda: agent.attach("rails-0", pod.state()))
    assert str(error) == "slot 0 of rail gpu02: rail2 is not on the node. Remedy: run ip link and the playbook again."
    # the kernel's own words
    ip("link", "set", "rail1", "mtu", "1300")
    error = refused("kernel", lambda: agent.attach("gpu01-2", pod.state()))
    assert (error.place, pod.links(), agents.held()) == ("slot 2 of rail gpu01", set(), {})


@in_own_namespace
def test_a_namespace_that_cannot_be_opened_is_not_gone(node: LiveNode) -> None:
    agents = AgentNode(node)
    agent, pod = agents.agent(), read_pod(agents.pod("a").state(), "")
    with contextlib.ExitStack() as stack:
        refused("gone", lambda: agent._open(stack, "/proc/%d/ns/net" % 2**22, pod))
        os.seteuid(65534)
        try:
            error = refused("access", lambda: agent._open(stack, "/proc/1/ns/net", pod))
        finally:
            os.seteuid(0)
    assert "cannot be opened: Permission denied. Remedy: start the agent by its unit" in str(error)


@in_own_namespace
def test_a_port_without_carrier_is_named(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    pod_links.PATIENCE = 0.2
    node.leaf("ip", "link", "set", "leaf2", "down")
    error = refused("carrier", lambda: agent.attach("rails-0", pod.state()))
    assert (str(error), pod.links(), agents.held()) == (
        "slot 0 of rail gpu02: rail2 has no carrier. Remedy: check its cable and the port of the leaf.",
        set(),
        {},
    )
    found = rail_health.look(agent.spec, [], {}, {}, node.system)
    assert found == {"gpu01": ("", "", None), "gpu02": ("rail2 has no carrier", "", None)}


@in_own_namespace
def test_a_pod_whose_ipv6_is_off_has_it_on_its_rails(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod = agents.pod("a")
    for name in ("all", "default"):
        pod.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/%s/disable_ipv6" % name)
    agents.agent().attach("rails-0", pod.state())
    assert pod.whole() == WHOLE


def test_a_pod_by_ipvlan_has_the_mac_of_the_port() -> None:
    if not has_kind("ipvlan"):
        pytest.skip("this kernel has no ipvlan")

    def scenario(node: LiveNode) -> None:
        agents = AgentNode(node)
        bare = [rail(n, slots=[slot(n, k, "rails", mac=None) for k in (0, 1)]) for n in (1, 2)]
        agents.write(document(*bare, attachment="ipvlan"))
        first, second, agent = agents.pod("a"), agents.pod("b"), agents.agent()
        agent.attach("rails-0", first.state())
        agent.attach("rails-1", second.state())
        macs = {each["ifname"]: each["address"] for each in shown("link")}
        assert first.whole() == dict(WHOLE, macs={"lo": macs["lo"], "net1": macs["rail1"], "net2": macs["rail2"]})
        assert agent.detach("rails-0") and agent.detach("rails-1")

    in_own_namespace(scenario)()


@in_own_namespace
def test_names_of_pods_are_one_line_in_messages(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    state = pod.state()
    state["annotations"]["io.kubernetes.cri.sandbox-name"] = "a\nWarning: all is well\x1b[2J" + "x" * 1000
    agent.attach("rails-0", state)
    assert agents.held()["rails-0"] == "default/a?Warning:?all?is?well?[2J" + "x" * 227
    error = refused("held", lambda: agent.attach("rails-0", agents.pod("b").state()))
    assert "\n" not in str(error)


@in_own_namespace
def test_two_containers_of_a_pod_cannot_have_one_rail_twice(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    agent.attach("rails-0", pod.state())
    assert refused("interface", lambda: agent.attach("rails-1", pod.state())).place == "slot 1 of rail gpu01"
    assert pod.whole() == WHOLE
    assert agents.held() == {"rails-0": "default/a"}


@in_own_namespace
def test_an_interface_of_the_last_pod_that_is_just_ending_is_waited_for(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    # the kernel removes interfaces some time after the number of their namespace
    last = ["link", "add", "last", "link", "rail2", "address", "02:00:00:00:02:00", "type", "macvlan", "mode", "bridge"]
    ip(*last)
    ip("link", "set", "last", "up")
    ending = threading.Timer(1, lambda: ip("link", "del", "last"))
    ending.start()
    agent.attach("rails-0", pod.state())
    ending.join()
    assert pod.whole() == WHOLE
    assert agent.detach("rails-0")
    pod_links.PATIENCE = 0.2
    ip(*last)
    ip("link", "set", "last", "up")
    error = refused("kernel", lambda: agent.attach("rails-0", pod.state()))
    assert error.message == "the kernel refuses it: Address already in use (EADDRINUSE)"


@in_own_namespace
def test_an_address_that_a_pod_has_by_an_older_plan_is_held(node: LiveNode) -> None:
    agents = AgentNode(node)
    first, second = agents.pod("a"), agents.pod("b")
    agents.agent().attach("rails-0", first.state())
    agents.write(document(rail(1, slots=[slot(1, 0, "gpu01")])))
    refused("held", lambda: agents.agent().attach("gpu01-0", second.state()))
    first.end()
    agents.agent(20).attach("gpu01-0", second.state())


@in_own_namespace
def test_a_record_that_cannot_be_written_stops_the_attach(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod = agents.pod("a")
    os.makedirs("/var/lib/railyard/agent")
    assert not os.system("mount -t tmpfs -o size=4k tmpfs /var/lib/railyard/agent")
    filler = Path("/var/lib/railyard/agent/filler")
    filler.write_bytes(b"x" * 4096)
    agent = agents.agent()
    full = (
        "/var/lib/railyard/agent/slots.json: cannot be written: No space left on device. "
        "Remedy: free space on the filesystem of the file, or make it writable for root."
    )
    with pytest.raises(RailyardError) as caught:
        agent.attach("rails-0", pod.state())
    assert (str(caught.value), pod.links(), agents.held()) == (full, set(), {})
    # space for the first record, and none for the second
    filler.unlink()
    with pytest.raises(RailyardError) as caught:
        agent.attach("rails-0", pod.state())
    assert (str(caught.value), pod.links(), pod.whole()["rules"]) == (full, set(), [])
    assert not os.system("mount -o remount,size=64k /var/lib/railyard/agent")
    assert agent.sweep() == ["rails-0"]
    agent.attach("rails-0", pod.state())
    assert pod.whole() == WHOLE
    # the slot of a pod that has ended stays held until the record can be written, and the status names the reason
    with contextlib.suppress(OSError):
        filler.write_bytes(b"x" * (64 << 10))
    pod.end()
    wait_for(lambda: agent.sweep() or agent.problems, "the end of the pod is not noticed")
    assert agent.problems == {"rails-0": full}
    filler.unlink()
    assert (agent.sweep(), agent.problems) == (["rails-0"], {})


@in_own_namespace
def test_a_damaged_record_is_refused(node: LiveNode) -> None:
    agents = AgentNode(node)
    agents.agent().attach("rails-0", agents.pod("a").state())
    text = agents.record().read_text()
    for damaged in (
        "",
        "{",
        "[]",
        text[: len(text) // 2],
        text.replace('"pid"', '"pit"'),
        '{"format": 2, "holders": []}',
    ):
        agents.record().write_text(damaged)
        with pytest.raises(RailyardError, match="is damaged .* drain the node"):
            SlotState(node.system)
        assert agents.record().read_text() == damaged


@in_own_namespace
def test_a_port_moves_into_the_pod_and_returns(node: LiveNode) -> None:
    agents = AgentNode(node)
    bare = [rail(n, slots=[slot(n, 0, "rails", mac=None)]) for n in (1, 2)]
    agents.write(document(*bare, attachment="host-device"))
    macs = {each["ifname"]: each["address"] for each in shown("link")}
    pod, agent = agents.pod("a"), agents.agent()
    before = agents.host_links()
    agent.attach("rails-0", pod.state())
    assert agents.host_links() == before - {"rail1", "rail2"}
    whole = pod.whole()
    assert whole["macs"]["net1"] == macs["rail1"]
    assert {key: whole[key] for key in whole if key != "macs"} == {key: WHOLE[key] for key in WHOLE if key != "macs"}
    # again, by another agent
    agents.agent().attach("rails-0", pod.state())
    assert pod.whole() == whole
    refused("held", lambda: agent.attach("rails-0", agents.pod("b").state()))
    assert agent.detach("rails-0")
    assert (pod.links(), pod.whole()["rules"], agents.host_links(), agents.held()) == (set(), [], before, {})
    port = next(each for each in shown("link") if each["ifname"] == "rail1")
    assert (port["mtu"], "UP" in port["flags"], port.get("ifalias") or "") == (1500, True, "")


@in_own_namespace
def test_ports_go_back_when_another_rail_fails(node: LiveNode) -> None:
    agents = AgentNode(node)
    bare = [rail(n, slots=[slot(n, 0, "rails", mac=None)]) for n in (1, 2)]
    agents.write(document(*bare, attachment="host-device"))
    pod, agent = agents.pod("a"), agents.agent()
    before = agents.host_links()
    node.leaf("ip", "address", "add", "172.16.12.1/24", "dev", "leaf2")
    refused("conflict", lambda: agent.attach("rails-0", pod.state()))
    assert (pod.links(), agents.host_links(), agents.held()) == (set(), before, {})
    assert all("UP" in each["flags"] for each in shown("link") if each["ifname"] in ("rail1", "rail2"))


@in_own_namespace
def test_detaching_a_running_pod_removes_its_interfaces(node: LiveNode) -> None:
    agents = AgentNode(node)
    pod, agent = agents.pod("a"), agents.agent()
    agent.attach("rails-0", pod.state())
    assert agent.detach("rails-0")
    assert (pod.links(), pod.whole()["rules"], agents.held()) == (set(), [], {})
    # without a process of the container the interfaces go nevertheless
    agent.attach("rails-0", pod.state())
    pod.end_container()
    assert agent.detach("rails-0")
    assert (pod.links(), agents.held()) == (set(), {})
