# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a node probes of its partner to prove that rails carry traffic."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare, gpu_of, provable

Node = t.Mapping[str, t.Any]
Result = t.Mapping[str, t.Any]


def targets(
    node: Node, partner: Node, servers: t.Sequence[Result], cross_rail: bool = True, link_layer: str = "ethernet"
) -> list[dict[str, t.Any]]:
    """What ``node`` probes: every rail on which both nodes have an address, or need none.

    :param node: ``railyard_node`` of the probing node; ``partner``: that of the serving one.
    :param servers: the ``results`` of the partner's ``rail_probe`` in mode ``serve``.
    :param cross_rail: whether the plan has the leaves lead from rail to rail (``routing.cross_rail``).
    :param link_layer: of the fabric; over InfiniBand RDMA needs no addresses.
    """
    theirs = {port["rail"]: port for port in partner["ports"]}
    served = {result["rail"]: result for result in servers}
    known = {rail: port.get("address") or port.get("address6") for rail, port in theirs.items()}
    addresses = [{"rail": rail, "address": bare(address)} for rail, address in known.items() if address]
    found: list[dict[str, t.Any]] = []
    for port in node["ports"]:
        other = theirs.get(port["rail"])
        if not other or not both_provable(port, other, link_layer):
            continue
        server = served.get(port["rail"], {})
        key = shared_address(port, other)
        target = {
            "rail": port["rail"],
            "peer": partner["name"],
            "netdev": port["netdev"],
            "device": port["rdma"]["name"],
            "pci": None if key else port.get("pci"),
            "source": bare(port[key]) if key else None,
            "address": bare(other[key]) if key else None,
            **(_six(port, other) if key == "address" else {}),
            "gpu": gpu_of(node, port) if server.get("gpu") else None,
            "mtu": min(port["mtu"], other["mtu"]),
            "port": server.get("port"),
            "latency_port": server.get("latency_port"),
            "meet": server.get("meet"),
            "others": [each for each in addresses if each["rail"] != port["rail"]] if key else None,
            "cross": _cross(port, theirs, cross_rail) if key == "address" else None,
            "error": server.get("error") or "it was not started",
            "remedy": server.get("remedy") or "see why %s was not reached" % partner["name"],
        }
        found.append({key: value for key, value in target.items() if value is not None})
    return found


def shared_address(port: Result, other: Result) -> str | None:
    """Under which key both ends of a rail have an address, ``address`` or ``address6``; None where they share none."""
    return next((key for key in ("address", "address6") if port.get(key) and other.get(key)), None)


def both_provable(port: Result, other: Result, link_layer: str) -> bool:
    """Whether RDMA can go between two ports of a rail."""
    if shared_address(port, other):
        return True
    return all(provable(each, link_layer) and not _addressed(each) for each in (port, other))


def _addressed(port: Result) -> bool:
    return bool(port.get("address") or port.get("address6"))


def _six(port: Result, other: Result) -> dict[str, str]:
    if not port.get("address6") or not other.get("address6"):
        return {}
    return {"source6": bare(port["address6"]), "address6": bare(other["address6"])}


def _cross(port: Result, theirs: t.Mapping[str, Result], cross_rail: bool) -> dict[str, t.Any] | None:
    """The partner's next rail. Rails that must reach each other need gateways; without them nothing is probed."""
    if cross_rail and not port.get("gateway"):
        return None
    others = [rail for rail in theirs if rail != port["rail"] and theirs[rail].get("address")]
    rails = [rail for rail in others if theirs[rail].get("gateway") or not cross_rail]
    if not rails:
        return None
    later = [rail for rail in rails if rail > port["rail"]]
    rail = later[0] if later else rails[0]
    return {"rail": rail, "address": bare(theirs[rail]["address"])}
