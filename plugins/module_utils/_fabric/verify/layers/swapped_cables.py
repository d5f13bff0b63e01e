# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Swapped cables of two rails, which probes find without LLDP."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import rails_of_network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe


def swaps(run: Run, failed: t.Sequence[Probe]) -> None:
    """Find swapped cables: two rails of a pair, on each of which the address of the other one answers.

    Which of the two nodes it is follows only from failed pairs with other nodes.
    """
    answered = {(*each.nodes, each.rail): answers(run, each) for each in failed}
    report: set[t.Any] = set()
    partners: dict[str, set[str]] = {}
    counts: collections.Counter[str] = collections.Counter()
    for each in failed:
        counts.update(each.nodes)
        partners.setdefault(each.client, set()).add(each.server)
        partners.setdefault(each.server, set()).add(each.client)
    for probe in failed:
        place, both = probe.nodes, frozenset(probe.nodes)
        for other_rail in answered[(*place, probe.rail)]:
            back = answered.get((*place, other_rail)) or []
            # two nodes probe in both directions
            if probe.rail not in back or {(both, other_rail), (both, probe.rail)} & report:
                continue
            report.update(((both, probe.rail), (both, other_rail)))
            # the node with more failed pairs, or the probing node if the numbers are equal
            node = max(place, key=lambda node: counts[node])
            if run.has("RV702", node, probe.rail):
                continue
            peer = None if len(partners[place[0]] | partners[place[1]]) > 2 else (set(place) - {node}).pop()
            cause = "each is plugged into the leaf of the other, at %s" % (
                node if peer is None else "%s or %s" % (node, peer)
            )
            run.fail(
                *("RV702", node, probe.rail, "cables of %s and %s" % (probe.rail, other_rail)),
                expected="each rail reaches itself",
                found="%s reaches %s, and %s reaches %s" % (probe.rail, other_rail, other_rail, probe.rail),
                cause=cause,
                peer=peer,
                others=[other_rail],
                peers=[peer] if peer else [],
            )


def answers(run: Run, probe: Probe) -> list[str]:
    """Return the rails whose address answered on the rail of a probe, except those of the same network."""
    rails = probe.found.get("answers") or []
    same = rails_of_network(run.fabric).get(probe.rail, ()) if rails else ()
    return [each for each in rails if each not in same]
