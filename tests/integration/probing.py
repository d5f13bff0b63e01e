# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the probers of guests with a schedule, as verify.yml does, and collect their results."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets

if t.TYPE_CHECKING:
    from tests.integration.conftest import Node

Row = t.Dict[str, t.Any]
Pairs = t.Sequence[t.Sequence[str]]
RUN, TOKEN = "a test (10001)", "0123456789abcdef" * 4
LISTEN = probe_targets.listen_ports(RUN, "")


def schedules(
    nodes: t.Mapping[str, Row], pairs: Pairs, cross_rail: bool = False, layer: str = "ethernet", **other: t.Any
) -> dict[str, Row]:
    """Return name of the node -> the options of ``rail_probe`` that start its prober. Each pair is a round.

    :param nodes: of :func:`.probe_targets.probe_node`, or pods of :func:`.pod_node`.
    """
    # the clocks of busy emulated guests are fast
    other = {"silence": 180, **other}
    made: dict[str, Row] = {}
    for name, node in nodes.items():
        turns = []
        for number, (server, client) in enumerate(pairs):
            if name in (server, client):
                mode, partner = ("serve", client) if name == server else ("probe", server)
                turns.append(probe_targets.turn(number, mode, node, nodes[partner], LISTEN, cross_rail, layer))
        part: Row = {"turns": turns, "addresses": probe_targets.listen_addresses(node, layer)}
        ports = [port for port in node["ports"] if port["rdma"].get("transfers", True)]
        part["ports"] = probe_targets.served_ports(dict(node, ports=ports), layer)
        made[name] = {"mode": "start", "run": RUN, "token": TOKEN, "name": name, "listen": LISTEN, **other}
        made[name].update({"pod": dict(part, uid=node["pod"])} if "pod" in node else part)
    return made


def collection(name: str) -> Row:
    """Return the options of ``rail_probe`` that collect the results of a node."""
    return {"mode": "collect", "run": RUN, "name": name}


def call(node: Node, options: Row) -> Row:
    """Return the result of ``rail_probe`` on a guest. It must not fail."""
    (result,) = node.modules.call(("rail_probe", options, False))
    assert not result.get("failed"), result
    return result
