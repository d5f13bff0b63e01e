# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes between two nodes or two pods: their results as texts, and the node that causes failed ones."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import (
    leaves_of,
    purpose,
)

Place = t.Tuple[str, str]


# Why a probe proves nothing, and what to do.
NOT_SENT, RUN_AGAIN = "the prober sent no packet", "see the earlier messages of the nodes, and run again"


class Probe(t.NamedTuple):
    """A probe of ``server`` by ``client`` on a rail. ``result``: empty if the probe was planned but did not run.

    ``addressed``: whether the rail has addresses between which packets can be sent.
    """

    rail: str
    client: str
    server: str
    result: Row
    soft: bool
    addressed: bool = True

    @property
    def nodes(self) -> tuple[str, str]:
        """Return the client and the server."""
        return self.client, self.server

    @property
    def transfer(self) -> Row:
        """Return the result of the RDMA transfer; empty if it did not run."""
        return self.result.get("transfer") or {}

    @property
    def found(self) -> Row:
        """Return what the probe observed after lost packets."""
        return self.result.get("found") or {}


def blamed(
    failed: t.Sequence[Probe],
    successful: t.Iterable[Probe],
    named: t.Callable[[Probe], str | None] = lambda _probe: None,
) -> t.Iterator[tuple[Probe, str, str | None]]:
    """Return each failed probe with the node that causes it, and with the peer if either node can be the cause.

    The cause is the node that ``named`` returns, else the node without a successful probe on the rail, else the one
    with more failed partners, if it has more of them than successful ones.
    """
    successful = list(successful)
    fine = carried(successful)
    good = collections.Counter((node, probe.rail) for probe in successful for node in probe.nodes)
    partners: dict[Place, set[str]] = {}
    for each in failed:
        partners.setdefault((each.client, each.rail), set()).add(each.server)
        partners.setdefault((each.server, each.rail), set()).add(each.client)
    for probe in failed:
        ends = probe.nodes
        suspects = [node for node in ends if (node, probe.rail) not in fine]
        numbers = [len(partners[node, probe.rail]) for node in ends]
        most = ends[numbers[1] > numbers[0]]
        node = named(probe)
        if node or len(suspects) == 1:
            yield probe, node or suspects[0], None
        elif numbers[0] != numbers[1] and max(numbers) > good[most, probe.rail]:
            yield probe, most, None
        else:
            yield probe, ends[0], ends[1]


def purpose_of(run: Run, probe: Probe) -> str | None:
    """Return what the pair of a probe tests."""
    leaves = [leaves_of(run.port(node, probe.rail)) for node in probe.nodes]
    return purpose(leaves, [run.reports[node].plan["unit"] for node in probe.nodes])


def carried(successful: t.Iterable[Probe]) -> set[Place]:
    """Return the nodes and rails over which a probe was successful."""
    return {(node, probe.rail) for probe in successful for node in probe.nodes}


def sent(probe: Probe, key: str = "reach") -> int:
    """Return the number of packets that the probe sent. ``key``: as in :func:`lost`."""
    return int((probe.result.get(key) or {}).get("sent") or 0)


def lost(probe: Probe, key: str = "reach") -> int:
    """Return the number of packets without a reply. ``key``: ``reach``, or ``reach6`` for IPv6."""
    answer: Row = probe.result.get(key) or {"sent": 0, "received": 0}
    return int(answer["sent"] - answer["received"])


def received_text(answer: Row, family: str = "") -> str:
    """Return how many packets were answered, and the error of sending them."""
    error = " (%s)" % answer["error"] if answer["error"] else ""
    return "%s of %d packets%s%s" % (answer["received"] or "none", answer["sent"], family, error)


def path_mtu_text(found: Row) -> str:
    """Return which packets pass. ``found``: what the probe observed after packets were lost."""
    return "%d bytes pass" % found["path_mtu"] if found.get("path_mtu") else "only small packets pass"
