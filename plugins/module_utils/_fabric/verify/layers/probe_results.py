# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Probes between two nodes or two pods: their results as texts, and the node that causes failed ones."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row

Place = t.Tuple[str, str]


class Probe(t.NamedTuple):
    """A probe of ``server`` by ``client`` on a rail. ``result``: None if the probe was planned but did not run.

    ``addressed``: whether the rail has addresses between which packets can be sent.
    """

    rail: str
    client: str
    server: str
    result: Row | None
    soft: bool
    addressed: bool = True


class Blame:
    """Finds the node that causes failed pairs: one without a successful pair, else the one with more failed pairs."""

    def __init__(self, bad: t.Sequence[Probe], good: t.Sequence[Probe]) -> None:
        self._fine = {(node, each.rail) for each in good for node in (each.client, each.server)}
        self._partners: dict[Place, set[str]] = {}
        for each in bad:
            self._partners.setdefault((each.client, each.rail), set()).add(each.server)
            self._partners.setdefault((each.server, each.rail), set()).add(each.client)

    def of(self, probe: Probe) -> tuple[str, str | None]:
        """Return the node, and also the peer if either of them can be the cause."""
        ends = [probe.client, probe.server]
        ill = [node for node in ends if (node, probe.rail) not in self._fine]
        if len(ill) == 1:
            return ill[0], None
        numbers = {node: len(self._partners.get((node, probe.rail), ())) for node in ends}
        if numbers[ends[0]] != numbers[ends[1]]:
            return max(ends, key=lambda node: numbers[node]), None
        return ends[0], ends[1]


def lost(probe: Probe, key: str = "reach") -> int:
    """Return the number of packets without a reply. ``key``: ``reach``, or ``reach6`` for IPv6."""
    answer: Row = (probe.result or {}).get(key) or {"sent": 0, "received": 0}
    return int(answer["sent"] - answer["received"])


def received_text(answer: Row, family: str = "") -> str:
    """Return how many packets were answered, and the error of sending them."""
    error = " (%s)" % answer["error"] if answer["error"] else ""
    return "%s of %d packets%s%s" % (answer["received"] or "none", answer["sent"], family, error)


def path_mtu_text(found: Row) -> str:
    """Return which packets pass. ``found``: what the probe observed after packets were lost."""
    return "%d bytes pass" % found["path_mtu"] if found.get("path_mtu") else "only small packets pass"
