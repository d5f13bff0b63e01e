# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states that follow from observations of a rail over time."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._node.health import health_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_judge import Judge
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import (
    Bond,
    Neighbour,
    Netdev,
    Observed,
    RdmaDevice,
    RdmaPort,
    Unread,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_rules import Fact
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import RailState

PCI = "0000:0b:00.0"
LEAF = {"name": "leaf-1", "port": "swp1"}
ADDRESS = "172.16.11.201"
ROW: dict[str, t.Any] = {
    "rail": "gpu01",
    "netdev": "eth1",
    "pci": PCI,
    "rdma": "mlx5_1",
    "mtu": 4200,
    "speed": 400,
    "address": ADDRESS + "/24",
    "leaf": LEAF,
}
PORT = Netdev("eth1", 3, True, True, 4200, speed=400.0, counters={"carrier_changes": 2, "rx_crc_errors": 0})
DEVICE = RdmaDevice(
    "mlx5_1",
    11,
    PCI,
    {1: RdmaPort("ACTIVE", "LinkUp", 400.0, {"symbol_error": 7, "link_downed": 1, "out_of_sequence": 0})},
    frozenset(["eth1"]),
    frozenset([ADDRESS]),
)
RIGHT = Neighbour("aa:bb:cc:dd:ee:ff", "swp1", None, "leaf-1.dc.example.com")
SEEN = Observed(interface=PORT, rdma=DEVICE, addresses=frozenset([ADDRESS]), neighbours={"eth1": (RIGHT,)})
STEP = 5.0


class Node:
    """A node with one rail, whose time the test sets. It booted long ago unless ``now`` is small."""

    def __init__(self, now: float = 10000.0, **changes: t.Any) -> None:
        document = {"format": 1, "fabric": "ai", "node": "n1", "rails": [dict(ROW, **changes)]}
        self.judge = Judge(health_spec.parse_spec(document))
        self.now = now

    def see(self, *observations: Observed | Unread | None, step: float = STEP) -> RailState:
        for seen in observations:
            self.now += step
            self.judge.add({"gpu01": seen}, self.now)
            (state,) = self.judge.states(self.now, self.now, 0.0)
        return state

    def codes(self, *observations: Observed | Unread | None, step: float = STEP) -> list[str]:
        return [each.code for each in self.see(*observations, step=step).findings]


def port(seen: Observed = SEEN, **changes: t.Any) -> Observed:
    assert seen.interface
    return seen._replace(interface=seen.interface._replace(**changes))


def device(seen: Observed = SEEN, number: int = 1, **changes: t.Any) -> Observed:
    assert seen.rdma
    row = seen.rdma.ports[number]._replace(**changes)
    return seen._replace(rdma=seen.rdma._replace(ports={**seen.rdma.ports, number: row}))


def counted(value: int, name: str = "port_rcv_errors", **changes: t.Any) -> Observed:
    assert SEEN.rdma
    seen = device(counters=dict(SEEN.rdma.ports[1].counters, **{name: value}))
    assert seen.rdma
    return seen._replace(rdma=seen.rdma._replace(**changes))


def device_with(ports: dict[int, RdmaPort], **changes: t.Any) -> RdmaDevice:
    return DEVICE._replace(ports=ports, **changes)


def changed(count: int, **changes: t.Any) -> Observed:
    """The port after ``count`` changes of its carrier."""
    return port(counters={"carrier_changes": count}, **changes)


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Observed(exists=False), "RV201"),
        (SEEN._replace(interface=None), "RV203"),
        (SEEN._replace(interface=None, other_name="enp11s0"), "RV204"),
        (port(up=False, carrier=False), "RV401"),
        (port(carrier=False), "RV402"),
        (port(mtu=1500), "RV404"),
        (port(speed=100.0), "RV403"),
        (SEEN._replace(rdma=None), "RV405"),
        (SEEN._replace(rdma=None, other_rdma="mlx5_7"), "RV406"),
        (SEEN._replace(rdma=DEVICE._replace(pci="0000:99:00.0", netdevs=frozenset(["eth9"]))), "RV406"),
        (device(state="DOWN", physical="Disabled"), "RV407"),
        (SEEN._replace(rdma=device_with({})), "RV405"),
        (SEEN._replace(addresses=frozenset()), "RV501"),
        (SEEN._replace(rdma=DEVICE._replace(gids=frozenset())), "RV511"),
        (SEEN._replace(neighbours={"eth1": (RIGHT._replace(system="leaf-2"),)}), "RV701"),
        (SEEN._replace(neighbours={"eth1": (RIGHT._replace(port="swp9"),)}), "RV704"),
    ],
)
def test_each_fault_fails_the_rail_and_clears_after_the_quiet_time(seen: Observed, code: str) -> None:
    node = Node()
    assert node.see(SEEN) == RailState("gpu01", "pass", False, node.now)
    state = node.see(seen, seen, seen)
    assert [each.code for each in state.findings] == [code] and state.state == "fail", state
    assert state.findings[0].cause and state.findings[0].remedy
    began = state.findings[0].since
    # repaired: 30 s of observations without it end the finding
    state = node.see(*[SEEN] * 6)
    assert (state.state, state.findings[0].since) == ("fail", began)
    state = node.see(SEEN)
    assert (state.state, state.findings, state.since) == ("pass", (), node.now)


def test_a_lost_carrier_fails_at_once_and_a_rate_only_after_several_observations() -> None:
    node = Node()
    assert node.see(SEEN, port(carrier=False)).state == "fail"
    node = Node()
    assert node.see(SEEN, port(mtu=1500)).state == "pass", "confirmed by the next observation"
    assert node.see(SEEN).state == "pass"
    node = Node()
    assert node.codes(counted(0), counted(100), counted(200)) == []
    assert node.codes(counted(300)) == ["RV893"]
    state = node.see(counted(400))
    assert (state.state, state.degraded, state.findings[0].found) == ("pass", True, "20/s")
    assert node.see(*[counted(400)] * 7).degraded is False


def test_a_burst_of_errors_is_not_a_rate() -> None:
    node = Node()
    assert node.codes(counted(0), counted(110), counted(110), counted(115)) == []


def test_a_rate_is_that_of_each_vendor_by_the_name_that_its_driver_has() -> None:
    for name in ("out_of_sequence", "oos_drop_count", "resp_rx_outouf_seq", "out_of_seq_request"):
        ports = [RdmaPort("ACTIVE", "LinkUp", 400.0, {name: count}) for count in (0, 100, 200, 300)]
        node = Node()
        assert node.codes(*(SEEN._replace(rdma=device_with({1: each})) for each in ports)) == ["RV893"], name


def test_a_flapping_link_stays_failed_until_it_is_quiet() -> None:
    node = Node()
    assert node.see(SEEN, changed(4)).state == "pass", "one loss of the carrier that no observation saw"
    for count in range(6, 20, 2):
        assert node.codes(*[changed(count)] * 9) == ["RV891"], "it flaps every 45 s"
    state = node.see(*[changed(18)] * 11)
    assert (state.state, state.findings) == ("pass", ()), "50 s without a change"


def test_a_fatal_counter_fails_the_rail() -> None:
    node = Node()
    assert node.see(counted(1, "link_downed"), counted(2, "link_downed")).state == "fail"
    assert node.see(*[counted(2, "link_downed")] * 7).state == "pass"


@pytest.mark.parametrize("name", ["symbol_error", "link_downed", "carrier_changes"])
def test_a_counter_that_was_reset_or_wrapped_around_is_not_an_increase(name: str) -> None:
    def at(value: int) -> Observed:
        return changed(value) if name == "carrier_changes" else counted(value, name)

    node = Node()
    assert node.codes(at(2**32 - 1), at(0), at(0), at(0), at(0)) == []


def test_a_driver_that_was_loaded_again_begins_new_counters() -> None:
    node = Node()
    before, after = counted(0, "link_downed"), counted(9, "link_downed", identity=12)
    assert node.codes(before, after, after, after) == []
    assert node.codes(port(counters={"carrier_changes": 0}), port(ifindex=9, counters={"carrier_changes": 8})) == []


def test_what_was_counted_while_the_service_was_suspended_is_not_judged() -> None:
    node = Node()
    node.see(counted(0, "link_downed"))
    assert node.codes(counted(50, "link_downed"), step=3600.0) == []
    # nor does a suspension count as quiet time
    node.see(port(carrier=False))
    assert node.see(SEEN, step=3600.0).state == "fail"
    assert node.see(*[SEEN] * 6).state == "pass"


def test_the_first_counters_are_the_base() -> None:
    assert Node().codes(*[counted(10**6, "link_downed")] * 4) == []


def test_a_rail_is_unknown_before_the_first_observation_and_after_three_without_a_result() -> None:
    node, unread = Node(), Unread("x: cannot be read", "reset the device")
    state = node.see(None)
    assert (state.state, state.findings[0].code, node.judge.ready) == ("unknown", "RV890", False)
    assert node.see(SEEN).state == "pass" and node.judge.ready
    assert node.see(unread, unread).state == "pass"
    state = node.see(unread)
    assert (state.state, state.degraded) == ("unknown", False)
    assert (state.findings[0].found, state.findings[0].remedy) == ("x: cannot be read", "reset the device")
    assert node.see(SEEN).state == "pass"


def test_a_port_that_a_pod_may_hold_is_unknown_and_no_fault() -> None:
    node = Node(movable=True)
    state = node.see(Unread("a pod may hold the port", "delete the pod", held=True))
    assert (state.state, node.judge.ready) == ("unknown", True)


def test_links_are_trained_after_a_boot() -> None:
    node = Node(now=10.0)
    state = node.see(port(carrier=False))
    assert (state.state, state.findings[0].remedy) == ("unknown", "wait two minutes")
    assert node.see(*[SEEN] * 8).state == "pass"
    assert node.see(port(carrier=False)).state == "fail", "it was healthy once"
    node = Node(now=10.0)
    assert node.see(*[port(carrier=False)] * 23).state == "fail", "after two minutes"


def test_probes_fail_the_rail_degrade_it_for_one_partner_and_leave_it_unknown_without_partners() -> None:
    def state(*facts: Fact) -> tuple[str, bool, str]:
        node = Node()
        node.see(SEEN)
        node.now += STEP
        node.judge.add({"gpu01": SEEN}, node.now, {"gpu01": facts})
        (state,) = node.judge.states(node.now, node.now, 0.0)
        return state.state, state.degraded, state.findings[0].code

    silent = Fact("RV801", "probes of gpu01", "replies", "none")
    unproven = Fact("RV894", "probes of gpu01", "replies", "none")
    assert state(silent) == ("fail", False, "RV801")
    assert state(silent._replace(peer="n2")) == ("pass", True, "RV801")
    assert state(silent._replace(peer="n2"), unproven) == ("unknown", False, "RV894")
    assert state(silent, unproven)[0] == "fail"
    assert state(Fact("RV895", "probes of gpu01", "none", "30 %")) == ("pass", True, "RV895")


def test_a_restart_of_the_service_ends_no_finding() -> None:
    node = Node()
    state = node.see(SEEN, port(carrier=False))
    again = Node(now=node.now)
    again.judge.resume([state], 0.0)
    after = again.see(SEEN)
    assert (after.state, after.since, after.findings[0].since) == ("fail", state.since, state.findings[0].since)
    assert again.see(*[SEEN] * 6).state == "pass"


def test_other_leaves_and_ports_in_lldp() -> None:
    node = Node()
    wrong = Neighbour("11:22:33:44:55:66", "eth0", None, "dpu")
    both = SEEN._replace(neighbours={"eth1": (wrong, RIGHT)})
    assert node.codes(SEEN, both, SEEN._replace(neighbours={})) == [], "another sender, and no sender"
    described = SEEN._replace(neighbours={"eth1": (RIGHT._replace(port="11:22", port_description="swp1"),)})
    assert node.codes(described) == []


# -- bonds and planes --------------------------------------------------------------------------------------------------

MEMBERS = [{"pci": "0000:29:00.%d" % number, "netdev": "ens%d" % number, "leaf": None} for number in range(2)]
BONDED = {"netdev": "bond0", "bond": "bond0", "bond_mode": "802.3ad", "pci": None, "functions": MEMBERS, "rdma": None}
BOND = Netdev("bond0", 5, True, True, 4200, "bond")


def member(number: int, **changes: t.Any) -> Netdev:
    row = Netdev("ens%d" % number, 10 + number, True, True, 4200, speed=400.0, master=5)
    return row._replace(link="up", aggregator=1, partner="aa:aa:aa:aa:aa:aa")._replace(**changes)


def bonded(*members: Netdev | None, **changes: t.Any) -> Observed:
    bond = Bond(BOND, "802.3ad", 1, "aa:aa:aa:aa:aa:aa")
    seen = Observed(interface=BOND, bond=bond, functions=members, addresses=frozenset([ADDRESS]))
    return seen._replace(**changes)


@pytest.mark.parametrize(
    ("seen", "code", "state"),
    [
        (bonded(member(0), member(1, carrier=False, link="down")), "RV414", "degraded"),
        (bonded(member(0), member(1, partner=None)), "RV414", "degraded"),
        (bonded(member(0), member(1, aggregator=2)), "RV414", "degraded"),
        (bonded(member(0), member(1, master=None)), "RV413", "degraded"),
        (bonded(member(0), None), "RV413", "degraded"),
        (bonded(member(0), member(1), bond=None), "RV411", "fail"),
        (bonded(member(0), member(1), bond=Bond(BOND, "active-backup", None, None)), "RV415", "fail"),
        (
            bonded(member(0, partner=None), member(1, partner=None), bond=Bond(BOND, "802.3ad", 1, None)),
            *("RV417", "fail"),
        ),
        (
            bonded(*(member(each, carrier=False) for each in (0, 1)), interface=BOND._replace(carrier=False)),
            *("RV402", "fail"),
        ),
    ],
)
def test_members_of_bonds(seen: Observed, code: str, state: str) -> None:
    node = Node(**BONDED)
    assert node.codes(bonded(member(0), member(1))) == []
    found = node.see(seen, seen)
    assert [each.code for each in found.findings] == [code], found
    assert ("degraded" if found.degraded else found.state) == state


def test_members_that_carry_planes_are_reported_by_the_number_of_the_plane() -> None:
    planes = [{"plane": number + 1, "leaf": {"name": "leaf-%d" % number, "port": None}} for number in range(2)]
    node = Node(**BONDED, planes=planes)
    assert [each.state for each in node.see(bonded(member(0), member(1))).planes] == ["pass", "pass"]
    found = node.see(bonded(member(0), member(1, carrier=False)))
    assert [(each.code, each.plane) for each in found.findings] == [("RV422", 2)] and found.degraded
    assert [(each.plane, each.state) for each in found.planes] == [(1, "pass"), (2, "fail")]
    other = {"ens1": (RIGHT._replace(system="leaf-0"),)}
    node = Node(**BONDED, planes=planes)
    found = node.see(bonded(member(0), member(1), neighbours=other))
    assert [(each.code, each.plane) for each in found.findings] == [("RV427", 2)]


PLANES = [{"plane": number, "rdma_port": number + 2} for number in (1, 2)]


def planed(*states: str) -> Observed:
    ports = {number + 3: RdmaPort(state, "LinkUp", 400.0) for number, state in enumerate(states)}
    return SEEN._replace(rdma=device_with(ports), planes=(None, None))


def test_planes_of_rdma_ports() -> None:
    node = Node(planes=PLANES)
    assert [each.state for each in node.see(planed("ACTIVE", "ACTIVE")).planes] == ["pass", "pass"]
    found = node.see(planed("ACTIVE", "DOWN"))
    assert [(each.code, each.plane) for each in found.findings] == [("RV422", 2)] and found.degraded
    node = Node(planes=PLANES)
    assert node.codes(planed("ACTIVE")) == ["RV423"]
    node = Node(planes=PLANES)
    found = node.see(planed("DOWN", "DOWN"))
    assert [each.code for each in found.findings] == ["RV407"] and found.state == "fail"
    assert [each.state for each in found.planes] == ["fail", "fail"]


def test_vlans() -> None:
    vlan = Netdev("eth1.100", 7, True, True, 4200, "vlan")
    parent = Netdev("eth1", 3, True, True, 4200, speed=400.0)
    changes = {"vlan": 100, "netdev": "eth1.100", "parent": "eth1", "rdma": None, "pci": None}
    functions = [{"pci": PCI, "netdev": "eth1"}]
    right = Observed(interface=vlan, functions=(parent,), vlan=100, parent=3, parent_netdev=parent)
    right = right._replace(addresses=frozenset([ADDRESS]))
    for seen, codes in (
        (right, []),
        (right._replace(vlan=200), ["RV419"]),
        (right._replace(parent=4), ["RV419"]),
        (right._replace(interface=None), ["RV411"]),
        (right._replace(interface=vlan._replace(kind="dummy")), ["RV410"]),
        (right._replace(parent_netdev=parent._replace(up=False)), ["RV401"]),
    ):
        assert Node(**changes, functions=functions).codes(seen) == codes


# -- properties --------------------------------------------------------------------------------------------------------

_seconds = st.floats(min_value=0.5, max_value=20.0)
_counts = st.integers(min_value=0, max_value=2**40)


@given(st.lists(_seconds, min_size=1, max_size=40), _counts)
def test_the_planned_state_never_alarms(steps: list[float], base: int) -> None:
    node = Node()
    for step in steps:
        state = node.see(counted(base), step=step)
        assert (state.state, state.degraded, state.findings) == ("pass", False, ())


@given(st.lists(st.tuples(_seconds, st.booleans()), min_size=1, max_size=60))
def test_a_rail_passes_only_after_the_quiet_time_and_then_at_once(steps: list[tuple[float, bool]]) -> None:
    node = Node()
    node.see(SEEN)
    clear: float | None = float("-inf")
    for step, carrier in steps:
        state = node.see(port(carrier=carrier), step=step)
        if not carrier:
            clear = None
        elif clear is None:
            clear = node.now
        assert (state.state == "pass") == (clear is not None and node.now - clear >= 30)
