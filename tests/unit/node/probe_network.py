# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated network below the real probes of a node, in virtual time, with faults of chosen ports and paths."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_probe import Prober, RailProber
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec, parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_judge import ProbeVerdict
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_socket import ProbeSocket, Reply

# The clock of the simulated kernels when the monotonic one is 0.
BEGAN = 1800000000.0


class Path(t.NamedTuple):
    """How a request and its reply travel. ``lost``: probability; ``full``: of full-size packets; ``delay``: µs, of the
    share ``delayed`` of the packets; ``marked``: the share of replies with a congestion mark.
    """

    lost: float = 0.0
    full: float = 0.0
    delay: float = 0.0
    delayed: float = 1.0
    marked: float = 0.0


Fault = t.Callable[[str, str], t.Optional[Path]]


def nothing(_rail: str, _node: str) -> Path | None:
    return None


class _Socket:
    """The network as a rail sees it: replies come within the time of the path."""

    def __init__(self, network: Network, rail: str, nodes: t.Sequence[str]) -> None:
        self._network, self._rail, self._nodes = network, rail, nodes
        self._replies: list[Reply] = []
        self.dropped = 0

    def stale(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def carrier_changes(self) -> int:
        return self._network.carrier_changes.get(self._rail, 0)

    def send(self, partner: int, sequence: int, full: bool) -> int | None:
        network = self._network
        left = round((BEGAN + network.now) * 1e9)
        path = network.fault(self._rail, self._nodes[partner]) or Path()
        chance = network.random.random
        if chance() >= max(path.lost, path.full if full else 0.0, network.loss):
            delay = path.delay if path.delay and chance() < path.delayed else 0.0
            taken = network.random.lognormvariate(3.0, 0.3) + delay
            self._replies.append(Reply(partner, sequence, left + round(taken * 1000), chance() < path.marked))
        return left

    def receive(self) -> list[Reply]:
        arrived = [each for each in self._replies if each.arrived <= (BEGAN + self._network.now) * 1e9]
        self._replies = [each for each in self._replies if each not in arrived]
        return arrived


class Network:
    """A node with its probes, and the rails between it and its partners.

    :param loss: the share of packets that every path loses.
    """

    def __init__(self, spec: HealthSpec, seed: int = 1, loss: float = 0.0) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.loss = loss
        self.fault: Fault = nothing
        # rail -> how often its link was lost or came back
        self.carrier_changes: dict[str, int] = {}
        self.prober = Prober(spec)
        for name, rail in self.prober._rails.items():
            self._connect(rail, name)

    def _connect(self, rail: RailProber, name: str) -> None:
        socket = _Socket(self, name, rail.evidence.names)
        rail._socket = t.cast(ProbeSocket, socket)

    def run(self, seconds: float) -> dict[str, ProbeVerdict]:
        """Let time pass, and return the last verdicts. The service judges every second."""
        verdicts: dict[str, ProbeVerdict] = {}
        for _second in range(round(seconds)):
            verdicts = self.second()
        return verdicts

    def second(self) -> dict[str, ProbeVerdict]:
        end = self.now + 1.0
        while True:
            due = self.prober.due(self.now)
            if due is None or due > end:
                break
            self.now = max(due, self.now)
            self.prober.turn(self.now, BEGAN + self.now)
        self.now = end
        return self.prober.verdicts(self.now)

    def seconds_until(self, condition: t.Callable[[dict[str, ProbeVerdict]], bool], most: float = 600.0) -> float:
        """Return the seconds until the condition is true; infinity after ``most`` seconds."""
        began = self.now
        while self.now - began < most:
            if condition(self.second()):
                return self.now - began
        return float("inf")


def probe_spec(rails: int = 8, partners: int = 8, mtu: int = 4200, rate: int = 10000, **keys: t.Any) -> HealthSpec:
    """The spec of a node with partners ``node-1`` ... on all rails."""
    names = ["gpu%02d" % (number + 1) for number in range(rails)]
    return parse_spec(
        {
            "format": 1,
            "fabric": "ai",
            "node": "node-0",
            "rails": [
                dict({"rail": name, "netdev": name, "mtu": mtu, "address": "172.16.%d.100/24" % place}, **keys)
                for place, name in enumerate(names)
            ],
            "probe": {
                "rate_bits": rate,
                "partners": {
                    name: [
                        {"node": "node-%d" % (number + 1), "address": "172.16.%d.%d" % (place, number + 101)}
                        for number in range(partners)
                    ]
                    for place, name in enumerate(names)
                },
            },
        }
    )
