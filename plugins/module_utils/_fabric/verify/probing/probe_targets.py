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
    """Return what ``node`` probes: every rail on which both nodes have an address or need none.

    :param node: ``railyard_node`` of the probing node.
    :param partner: ``railyard_node`` of the serving node.
    :param servers: the ``results`` of the partner's ``rail_probe`` in mode ``serve``.
    :param cross_rail: whether leaves lead from rail to rail according to the plan (``routing.cross_rail``).
    :param link_layer: of the fabric; RDMA over InfiniBand needs no addresses.
    """
    partner_ports = {port["rail"]: port for port in partner["ports"]}
    served = {result["rail"]: result for result in servers}
    known = {rail: port.get("address") or port.get("address6") for rail, port in partner_ports.items()}
    addresses = [{"rail": rail, "address": bare(address)} for rail, address in known.items() if address]
    rows: list[dict[str, t.Any]] = []
    for port in node["ports"]:
        partner_port = partner_ports.get(port["rail"])
        if not partner_port or not both_provable(port, partner_port, link_layer):
            continue
        server = served.get(port["rail"], {})
        key = shared_address(port, partner_port)
        target = {
            "rail": port["rail"],
            "peer": partner["name"],
            "netdev": port["netdev"],
            "device": port["rdma"]["name"],
            "pci": None if key else port.get("pci"),
            "source": bare(port[key]) if key else None,
            "address": bare(partner_port[key]) if key else None,
            **(_six(port, partner_port) if key == "address" else {}),
            "gpu": gpu_of(node, port) if server.get("gpu") else None,
            "mtu": min(port["mtu"], partner_port["mtu"]),
            "port": server.get("port"),
            "latency_port": server.get("latency_port"),
            "meet": server.get("meet"),
            "others": [each for each in addresses if each["rail"] != port["rail"]] if key else None,
            "cross": _cross(port, partner_ports, cross_rail) if key == "address" else None,
            "error": server.get("error") or "it was not started",
            "remedy": server.get("remedy") or "see why %s was not reached" % partner["name"],
        }
        rows.append({key: value for key, value in target.items() if value is not None})
    return rows


def shared_address(port: Result, other: Result) -> str | None:
    """Return ``address`` or ``address6``, the key under which both ports have an address; None without one."""
    return next((key for key in ("address", "address6") if port.get(key) and other.get(key)), None)


def both_provable(port: Result, other: Result, link_layer: str) -> bool:
    """Return whether RDMA can go between two ports of a rail."""
    if shared_address(port, other):
        return True
    return all(provable(each, link_layer) and not _addressed(each) for each in (port, other))


def _addressed(port: Result) -> bool:
    return bool(port.get("address") or port.get("address6"))


def _six(port: Result, other: Result) -> dict[str, str]:
    """Return the IPv6 addresses to probe in addition to IPv4."""
    if not port.get("address6") or not other.get("address6"):
        return {}
    return {"source6": bare(port["address6"]), "address6": bare(other["address6"])}


def _cross(port: Result, theirs: t.Mapping[str, Result], cross_rail: bool) -> dict[str, t.Any] | None:
    """Return the partner's next rail and its address; None if no other rail can be probed.

    Rails that must reach each other need gateways.
    """
    if cross_rail and not port.get("gateway"):
        return None
    addressed = [rail for rail in theirs if rail != port["rail"] and theirs[rail].get("address")]
    rails = [rail for rail in addressed if theirs[rail].get("gateway") or not cross_rail]
    if not rails:
        return None
    later = [rail for rail in rails if rail > port["rail"]]
    rail = later[0] if later else rails[0]
    return {"rail": rail, "address": bare(theirs[rail]["address"])}
