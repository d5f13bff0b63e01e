# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probes of a node in virtual time: faults are named in seconds, a planned network never alarms."""

from __future__ import annotations

import random
import statistics
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_judge import Judge, Observation
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Netdev, Observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.probe_part import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_evidence import (
    Loss,
    Outcome,
    RailEvidence,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_judge import ProbeVerdict
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_pace import Pace
from tests.unit.node.probe_network import BEGAN, Network, Path, nothing, probe_spec

Names = t.Tuple[str, t.Optional[str]]
OWN = {
    "down": (Path(lost=1.0), "RV801"),
    "small packets only": (Path(full=1.0), "RV802"),
    "loses 95 %": (Path(lost=0.95), "RV803"),
    "loses half": (Path(lost=0.5), "RV803"),
    "loses 5 %": (Path(lost=0.05), "RV803"),
    "2 ms slower": (Path(delay=2000.0), "RV854"),
    "delays of 20 ms for 10 %": (Path(delay=20000.0, delayed=0.1), "RV854"),
    "marks congestion": (Path(marked=0.5), "RV895"),
}
# The same from a partner's port. Full-size packets to a partner are too rare for its path to be named in its turn.
PEER = {key: OWN[key] for key in ("down", "loses half", "2 ms slower")}


def _names(verdicts: t.Mapping[str, ProbeVerdict], rail: str = "gpu01") -> set[Names]:
    """The findings of a rail. The others have none, and are not unknown."""
    for name, verdict in verdicts.items():
        assert not verdict.unknown
        assert name == rail or not verdict.findings, (name, verdict)
    return {(each.code, each.peer) for each in verdicts[rail].findings}


@pytest.mark.parametrize("fault", OWN)
@pytest.mark.parametrize("seed", range(3))
def test_fault_of_a_port_is_named_within_30_seconds_and_ends_within_30(fault: str, seed: int) -> None:
    path, code = OWN[fault]
    network = Network(probe_spec(), seed)
    assert not _names(network.run(40 + 7 * seed))
    network.fault = lambda rail, _node: path if rail == "gpu01" else None
    assert network.seconds_until(lambda verdicts: (code, None) in _names(verdicts)) <= 30
    # for as long as the fault lasts; whether tails and small loss are seen in each window is chance
    steady = path.lost == 1 or path.full == 1 or path.lost == 0.5
    for _second in range(100 if steady else 0):
        assert _names(network.second()) == {(code, None)}
    network.fault = nothing
    assert network.seconds_until(lambda verdicts: not _names(verdicts)) <= 30


@pytest.mark.parametrize("fault", PEER)
def test_fault_of_a_partner_names_it_within_30_seconds_and_fails_no_rail(fault: str) -> None:
    path, code = PEER[fault]
    network = Network(probe_spec(), 5)
    # at this time, node-3 is one of the partners that are probed
    network.run(200)
    while "node-3" not in _probed(network):
        network.second()
    network.fault = lambda rail, node: path if (rail, node) == ("gpu01", "node-3") else None
    assert network.seconds_until(lambda verdicts: (code, "node-3") in _names(verdicts)) <= 30
    # it stays named while other partners have their turn
    for _second in range(100 if code != "RV854" else 0):
        verdicts = network.second()
        assert _names(verdicts) == {(code, "node-3")}
        assert not any(each.fails for each in verdicts["gpu01"].findings)
    network.fault = nothing
    assert network.seconds_until(lambda verdicts: not _names(verdicts)) <= 30


class _Service:
    """The probes of a node with two rails, and their judgement with the quiet time of the service."""

    def __init__(self, seed: int, partners: int, mtu: int = 4200) -> None:
        self.spec = probe_spec(rails=2, partners=partners, mtu=mtu)
        self.network, self._judge = Network(self.spec, seed), Judge(self.spec)
        self._seen: dict[str, Observation] = {
            rail.rail: Observed(
                interface=Netdev(str(rail.netdev), 3, True, True, mtu), addresses=frozenset(rail.addresses)
            )
            for rail in self.spec.rails
        }

    def observe(self) -> set[tuple[str, str]]:
        """Let time pass until the next observation. Return rail and code of the findings."""
        verdicts = self.network.run(self.spec.interval)
        now = self.network.now
        facts = {rail: facts_of(rail, verdict, self.spec.quiet) for rail, verdict in verdicts.items()}
        self._judge.add(self._seen, now, facts)
        states = self._judge.states(now, 1e6 + now, 0.0)
        return {(state.rail, finding.code) for state in states for finding in state.findings}

    def seconds_until(self, condition: t.Callable[[set[tuple[str, str]]], bool]) -> float:
        began = self.network.now
        while not condition(self.observe()):
            assert self.network.now - began < 3600
        return self.network.now - began


@pytest.mark.parametrize("mtu", [4200, 9000])
@pytest.mark.parametrize("node", [None, "node-2"], ids=["port", "partner"])
@pytest.mark.parametrize("fault", [*OWN, "loses 1 of 200"])
def test_findings_end_within_a_minute_of_the_repair(fault: str, node: str | None, mtu: int) -> None:
    """On a fabric of three nodes, after a fault of some minutes."""
    path, code = {**OWN, "loses 1 of 200": (Path(lost=0.005), "RV803")}[fault]
    times = []
    for seed in range(5):
        service = _Service(seed, 2, mtu)
        for _time in range(10 + seed):
            assert not service.observe()
        service.network.fault = lambda rail, partner: path if rail == "gpu01" and node in (None, partner) else None
        service.seconds_until(lambda found: ("gpu01", code) in found)
        for _time in range(20 + seed):
            service.observe()
        service.network.fault = nothing
        times.append(service.seconds_until(lambda found: not found))
    # both the start and the end of a loss of 0.5 % need many packets
    small = path.lost == 0.005
    assert statistics.median(times) <= (90 if small else 60) and max(times) <= (180 if small else 90), times


@pytest.mark.parametrize("lost", [0.005, 0.02, 0.2])
def test_finding_of_a_constant_loss_rarely_ends(lost: float) -> None:
    """A path with a small loss often loses no packet for some seconds."""
    changes = 0
    for seed in range(3):
        service = _Service(seed, 8)
        service.network.fault = lambda rail, _partner: Path(lost=lost) if rail == "gpu01" else None
        service.seconds_until(bool)
        before = True
        for _time in range(720):
            now = bool(service.observe())
            changes, before = changes + (now != before), now
    # in three hours
    assert changes <= (24 if lost == 0.005 else 12)


def _probed(network: Network) -> set[str]:
    before = network.prober.figures(network.now)["gpu01"]["peers"]
    network.second()
    after = network.prober.figures(network.now)["gpu01"]["peers"]
    return {name for name in after if after[name] != before.get(name)}


def test_loss_of_one_in_200_packets_is_named_in_half_a_minute_typically() -> None:
    """docs/health.md has the figures of more runs."""
    seconds = []
    for seed in range(15):
        network = Network(probe_spec(rails=2), seed)
        network.run(40 + seed)
        network.fault = lambda rail, _node: Path(lost=0.005) if rail == "gpu01" else None
        seconds.append(network.seconds_until(lambda verdicts: ("RV803", None) in _names(verdicts)))
    assert statistics.median(seconds) <= 45


@pytest.mark.parametrize(
    "down", [("node-1",), ("node-1", "node-2", "node-5"), tuple("node-%d" % n for n in range(1, 8))]
)
def test_partners_that_are_down_or_restart_are_not_named(down: tuple[str, ...]) -> None:
    network = Network(probe_spec(rails=3), 3)
    network.run(60)
    for _restart in range(3):
        network.fault = lambda _rail, node: Path(lost=1.0) if node in down else None
        for _second in range(100):
            assert not any(verdict.findings for verdict in network.second().values())
        network.fault = nothing
        for _second in range(100):
            assert not any(verdict.findings for verdict in network.second().values())


def test_silence_on_all_rails_is_unknown_and_not_a_failure() -> None:
    network = Network(probe_spec(), 2)
    network.run(30)
    network.fault = lambda _rail, _node: Path(lost=1.0)
    verdicts = network.run(40)
    assert all(verdict.unknown and not verdict.findings for verdict in verdicts.values())
    network.fault = nothing
    assert not any(verdict.unknown for verdict in network.run(5).values())


def test_the_only_partner_silent_on_one_rail_fails_it() -> None:
    network = Network(probe_spec(partners=1), 2)
    network.run(30)
    network.fault = lambda rail, _node: Path(lost=1.0) if rail == "gpu01" else None
    network.run(10)
    assert _names(network.second()) == {("RV801", None)}


@pytest.mark.parametrize("silent", ["port", "partner on all rails"])
@pytest.mark.parametrize("partners", [3, 8])
def test_accidental_loss_before_an_outage_does_not_make_a_partner_its_cause(silent: str, partners: int) -> None:
    network = Network(probe_spec(rails=4, partners=partners), 4)
    network.run(60)
    while "node-3" in _probed(network):
        network.second()
    # its last request was lost before other partners had their turn, and the outage begins with its next turn
    rail = network.prober._rails["gpu01"]
    rail.evidence.record(Outcome(2, network.now - 2, -1, False, False, None))
    while 2 not in rail.pace.active(BEGAN + network.now + 1):
        network.second()
    if silent == "port":
        network.fault = lambda rail, _node: Path(lost=1.0) if rail == "gpu01" else None
    else:
        network.fault = lambda _rail, node: Path(lost=1.0) if node == "node-3" else None
    for _second in range(40):
        assert _names(network.second()) <= ({("RV801", None)} if silent == "port" else set())
    assert silent != "port" or _names(network.second())


@pytest.mark.parametrize("seed", range(3))
def test_flapping_link_of_the_node_is_not_packet_loss(seed: int) -> None:
    """The health service reports the flapping itself (RV891), and its end must not wait for the probes."""
    network = Network(probe_spec(rails=4), seed)
    network.run(40)
    for number in range(24):
        network.carrier_changes["gpu01"] = number + 1
        network.fault = nothing if number % 2 else lambda rail, _node: Path(lost=1.0) if rail == "gpu01" else None
        for _second in range(2 + number % 2):
            assert not _names(network.second()) - {("RV801", None)}
    for _second in range(60):
        assert not _names(network.second())


def test_replies_dropped_by_the_own_kernel_are_not_packet_loss() -> None:
    network = Network(probe_spec(rails=2), 3)
    network.run(60)
    socket = network.prober._rails["gpu01"]._socket
    assert socket
    for second in range(120):
        network.fault = lambda rail, _node, busy=second % 3 == 0: Path(lost=0.5) if busy and rail == "gpu01" else None
        verdicts = network.second()
        # the kernel reports it with the next reply
        socket.dropped += second % 3 == 0
        assert not any(verdict.findings for verdict in verdicts.values())


def test_the_only_rail_is_unknown_when_silent() -> None:
    network = Network(probe_spec(rails=1), 2)
    network.run(30)
    network.fault = lambda _rail, _node: Path(lost=1.0)
    verdict = network.run(40)["gpu01"]
    assert verdict.unknown.endswith(" reply on no rail") and not verdict.findings


def test_load_that_delays_replies_on_all_rails_is_not_named() -> None:
    network = Network(probe_spec(), 4)
    for _second in range(300):
        assert not any(verdict.findings for verdict in network.second().values())
        if network.now == 100:
            network.fault = lambda _rail, _node: Path(delay=30000.0, delayed=0.1)
        if network.now == 200:
            network.fault = lambda _rail, _node: Path(delay=3000.0, marked=0.5)


def test_short_outage_is_not_loss() -> None:
    network = Network(probe_spec(), 4)
    for turn in range(12):
        network.fault = nothing
        for _second in range(25):
            assert not any(each.code == "RV803" for row in network.second().values() for each in row.findings)
        network.fault = lambda rail, _node, odd=turn % 2: Path(lost=1.0) if rail == "gpu01" else None
        network.run(2 if turn % 2 else 15)


@pytest.mark.parametrize("mtu", [1500, 4200, 9000, 65520])
@pytest.mark.parametrize("lost", [0.0, 0.005, 0.05])
def test_traffic_stays_below_the_rate(mtu: int, lost: float) -> None:
    """Half of the rate: partners need as much for their requests. In an hour, a burst takes its share too."""
    network = Network(probe_spec(rails=1, mtu=mtu), 4, loss=lost)
    network.run(3600)
    bits = network.prober.figures(network.now)["gpu01"]["bits"]
    assert 3000 * 3600 <= bits <= 5000 * 3600 + 900000 + 8 * mtu


@given(st.integers(1500, 65520), st.booleans(), st.booleans())
def test_requests_and_full_size_packets_take_half_of_the_rate(mtu: int, version6: bool, vlan: bool) -> None:
    pace = Pace(RailEvidence(["a"]), 10000, mtu, version6, vlan)
    assert pace.small_rate > 1
    assert pace.small_rate * pace.small_bits + pace.full_bits / pace.full_every <= 5000


def test_no_false_alarm_in_10000_hours_of_rare_loss() -> None:
    """One of 100,000 packets is lost, on a rail with 8 requests per second. Without evidence of loss, replies do not
    change the state of the test. So only the packets after a loss are simulated.
    """
    chance, requests = random.Random(7), 0.0
    loss = Loss()
    losses = 0
    while requests < 10000 * 3600 * 8:
        requests += chance.expovariate(1e-5)
        losses += 1
        loss.loss(chance.randrange(4), 0.0)
        while loss.score:
            requests += 1
            if chance.random() < 1e-5:
                loss.loss(chance.randrange(4), 0.0)
            loss.reply(chance.randrange(4))
            assert loss.cause(False) is None
    assert losses > 2000


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([None, 10.0, 500.0, 90000.0])), max_size=200)
)
def test_any_outcomes_are_recorded_and_judged(rows: list[tuple[int, bool, float | None]]) -> None:
    evidence = RailEvidence(["a", "b", "c"])
    for number, (partner, full, round_trip) in enumerate(rows):
        evidence.record(Outcome(partner, number / 4, number // 4, full, False, round_trip))
        evidence.decide(number / 4)
    figures = evidence.figures(len(rows) / 4)
    assert figures["sent"] == len(rows)
    assert figures["received"] == sum(row[2] is not None for row in rows)
