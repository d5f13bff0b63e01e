# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many-to-one rounds: which nodes write to which server at the same time, and the turns of their probers."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import qos_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live, counter_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets

# Modes of the turns, and the least and greatest number of clients of a server.
GATHER, WRITE = "gather", "write"
CLIENTS_MIN, CLIENTS_MAX = 2, 16

Group = t.Tuple[str, t.List[str]]
Row = t.Dict[str, t.Any]


def check_clients(clients: int) -> None:
    """Check the number of clients of a server (``verify_congestion``); 0: no many-to-one rounds.

    :raises RailyardError: for numbers that congest no port, or that no port can serve at the same time.
    """
    if clients and not CLIENTS_MIN <= clients <= CLIENTS_MAX:
        remedy = "write 0 for no many-to-one rounds, or a number from %d to %d, such as 4" % (CLIENTS_MIN, CLIENTS_MAX)
        raise RailyardError("%d is not a number of clients" % clients, "verify_congestion", remedy)


def rounds(nodes: t.Sequence[str], clients: int, most: int) -> list[list[Group]]:
    """Return at most ``most`` rounds of groups ``(server, clients)``.

    In a round, a node is in at most one group. Each node is the server of one round if ``most`` allows it. The servers
    of a round follow one another in ``nodes``, and their clients come in turn from all other nodes, so that most of
    them have other leaf switches. A group has at least two clients.

    :param clients: the maximum number of clients of a server.
    """
    count = len(nodes)
    if count <= CLIENTS_MIN or not clients:
        return []
    servers = min(-(-count // (clients + 1)), count // (CLIENTS_MIN + 1))
    found: list[list[Group]] = []
    for first in range(0, count, servers)[:most]:
        chosen = nodes[first : first + servers]
        others = [*nodes[first + len(chosen) :], *nodes[:first]]
        groups = [(server, others[place :: len(chosen)][:clients]) for place, server in enumerate(chosen)]
        found.append([group for group in groups if len(group[1]) >= CLIENTS_MIN])
    return found


def watched(info: t.Mapping[str, t.Any], ports: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, dict[str, list[str]]]:
    """Return rail -> the names of the netdevs and RDMA devices whose counters show congestion.

    :param info: the result of ``rail_info``.
    """
    live = Live(info)
    return {port["rail"]: counter_names(live, port) for port in ports}


def gather_turn(
    number: int, node: Row, clients: t.Sequence[tuple[Row, t.Sequence[int]]], cross_rail: bool, link_layer: str
) -> Row:
    """Return the turn of a server, in the form of ``turns`` of ``rail_probe``.

    :param clients: the result of :func:`.probe_targets.probe_node` and the TCP ports of each client.
    """
    rows = []
    for client, listen in clients:
        turn = probe_targets.turn(number, GATHER, node, client, listen, cross_rail, link_layer)
        rails = [target["rail"] for target in probe_targets.targets(client, node, cross_rail, link_layer)]
        rows.append({**{key: turn[key] for key in ("partner", "listen", "ways")}, "rails": rails})
    return {"turn": number, "mode": GATHER, "partner": "", "clients": rows}


def write_turn(
    number: int, node: Row, server: Row, listen: t.Sequence[int], planned: Row, fabric: Row, link_layer: str
) -> Row:
    """Return the turn of a client, whose packets have the traffic class of the planned QoS.

    :param planned: ``railyard_node`` of the client.
    """
    cross_rail = bool(fabric["routing"]["cross_rail"])
    qos = {port["rail"]: qos_of(fabric, port) or {} for port in planned["ports"]}
    turn = probe_targets.turn(number, probe_targets.PROBE, node, server, listen, cross_rail, link_layer)
    targets = [
        {key: value for key, value in target.items() if key not in ("cross", "ask_arp", "source6", "address6")}
        for target in turn["targets"]
    ]
    for target in targets:
        tclass = qos[target["rail"]].get("tclass")
        target.update({} if tclass is None else {"tclass": tclass})
    return {**turn, "mode": WRITE, "targets": targets}
