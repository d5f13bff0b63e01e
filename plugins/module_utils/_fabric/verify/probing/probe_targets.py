# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The turns of a prober: the addresses at which it connects to its partner, and the targets that it probes."""

from __future__ import annotations

import ipaddress
import random
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import (
    bare,
    gpu_of,
    port_options,
    provable,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    link_layer_of,
    own_values,
    role_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.pair_purposes import leaves_of

Node = t.Mapping[str, t.Any]
Result = t.Mapping[str, t.Any]
PROBE, SERVE = "probe", "serve"
# TCP ports from which the kernel chooses (the default of net.ipv4.ip_local_port_range), and how many a prober tries.
_LOCAL_PORTS, _TRIED = range(32768, 61000), 4
_RANGE = re.compile(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*\Z")
# Keys of a port that probes need.
_PORT = ("rail", "pci", "netdev", "rdma", "mtu", "address", "address6", "gateway", "gpus")


def probe_node(
    node: Node, rails: t.Sequence[str], meet: str | None, tcp_ports: str | None, management: t.Sequence[str]
) -> dict[str, t.Any]:
    """Return the part of ``railyard_node`` that partners need. A run keeps no other part of it.

    :param rails: the rails to probe; empty: all.
    :param meet: the address at which partners connect instead of the rails' (``proof_meet``).
    :param tcp_ports: the TCP ports that its firewall allows (``proof_tcp_ports``).
    :param management: addresses of the node outside the rails, the best first.
    """
    ports = [
        dict({key: port.get(key) for key in _PORT}, **_location(port), **own_values(port)) for port in node["ports"]
    ]
    own = {bare(port[key]) for port in ports for key in ("address", "address6") if port[key]}
    known = {key: node.get(key) for key in ("name", "unit", "gpus", "gpudirect")}
    for port in _on_one_network(ports):
        port["one_network"] = True
    chosen = [port for port in ports if not rails or port["rail"] in rails]
    outside = next((address for address in management if address not in own), None)
    return {**known, "ports": chosen, "meet": meet or None, "tcp_ports": tcp_ports or "", "management": outside}


def _location(port: Result) -> dict[str, t.Any]:
    """Return the leaves of a port, and its planned speed in Gb/s or None."""
    return {"leaves": leaves_of(port), "speed": (port.get("expect") or {}).get("speed")}


def _on_one_network(ports: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the ports whose IPv4 network other ports of the node have too. Prefixes /31 and /32 do not count."""
    networks: dict[t.Any, list[dict[str, t.Any]]] = {}
    for port in ports:
        address = port["address"]
        if address and not address.endswith(("/31", "/32")):
            networks.setdefault(ipaddress.ip_interface(address).network, []).append(port)
    return [port for members in networks.values() if len(members) > 1 for port in members]


def listen_ports(run: str, tcp_ports: str) -> list[int]:
    """Return the TCP ports of which a prober listens on the first free one. They differ between runs.

    :param tcp_ports: the range ``FIRST-LAST`` of the node; empty: those from which the kernel chooses. The node reports
        a text that is not a range.
    """
    ends = _RANGE.match(tcp_ports)
    choice = range(int(ends.group(1)), int(ends.group(2)) + 1) if ends else _LOCAL_PORTS
    return random.Random(run).sample(choice, min(_TRIED, len(choice)))


def listen_addresses(node: Node, link_layer: str) -> list[str]:
    """Return the addresses of a node at which its prober listens."""
    if node.get("meet"):
        return [node["meet"]]
    ports = [port for port in node["ports"] if provable(port, link_layer)]
    rails = [bare(port[key]) for port in ports for key in ("address", "address6") if port.get(key)]
    outside = [node["management"]] if node.get("management") and not all(map(_addressed, ports)) else []
    return [*rails, *outside]


def served_ports(node: Node, link_layer: str) -> list[dict[str, t.Any]]:
    """Return the option ``ports`` of ``rail_probe`` for a node."""
    rows = port_options(node["ports"], "rail_probe", node, link_layer)
    return [_with_meet(row, node) for row in rows]


def _with_meet(row: dict[str, t.Any], node: Node) -> dict[str, t.Any]:
    meet = node.get("meet") or (None if row.get("address") else node.get("management"))
    return {**row, "meet": meet} if meet else row


def turn(
    number: int, mode: str, node: Node, partner: Node, listen: t.Sequence[int], cross_rail: bool, link_layer: str
) -> dict[str, t.Any]:
    """Return a turn of ``node``, in the form of ``turns`` of ``rail_probe``.

    :param node, partner: results of :func:`probe_node`, or pods as :func:`.pod_targets.pod_node` returns them.
    :param listen: the result of :func:`listen_ports` for the partner.
    """
    known = {port["rail"]: port.get("address") or port.get("address6") for port in partner["ports"]}
    return {
        "turn": number,
        "mode": mode,
        "partner": partner["name"],
        "listen": list(listen),
        "ways": _ways(node, partner, link_layer),
        "others": [{"rail": rail, "address": bare(address)} for rail, address in known.items() if address],
        "targets": targets(node, partner, cross_rail, link_layer) if mode == PROBE else [],
    }


def _ways(node: Node, partner: Node, link_layer: str) -> list[dict[str, t.Any]]:
    """Return the addresses at which a partner's prober listens, and from which to connect to them."""
    if partner.get("meet"):
        return [{"address": partner["meet"], "source": None}]
    own = {port["rail"]: port for port in node["ports"]}
    rows = []
    for port in partner["ports"]:
        key = shared_address(own[port["rail"]], port) if port["rail"] in own else None
        if key:
            rows.append({"address": bare(port[key]), "source": bare(own[port["rail"]][key])})
    listens = listen_addresses(partner, link_layer)
    # across rails, and outside of them, the routes of the node determine the source address
    return rows + [{"address": each, "source": None} for each in listens if each == partner.get("management")]


def targets(node: Node, partner: Node, cross_rail: bool = True, link_layer: str = "ethernet") -> list[dict[str, t.Any]]:
    """Return what ``node`` probes: every rail on which both nodes have an address or need none.

    :param cross_rail: whether leaves lead from rail to rail according to the plan (``routing.cross_rail``).
    :param link_layer: of the fabric; RDMA over InfiniBand needs no addresses.
    """
    partner_ports = {port["rail"]: port for port in partner["ports"]}
    rows: list[dict[str, t.Any]] = []
    for port in node["ports"]:
        partner_port = partner_ports.get(port["rail"])
        if not partner_port or not both_provable(port, partner_port, link_layer):
            continue
        key = shared_address(port, partner_port)
        target = {
            "rail": port["rail"],
            "netdev": port["netdev"],
            "device": port["rdma"]["name"],
            "rdma_port": port["rdma"].get("port"),
            "pci": None if key else port.get("pci"),
            "source": bare(port[key]) if key else None,
            "address": bare(partner_port[key]) if key else None,
            **(_six(port, partner_port) if key == "address" else {}),
            "gpu": gpu_of(node, port),
            # other ports of the partner use the same network, and may answer for this one
            "ask_arp": True if key == "address" and port.get("one_network") else None,
            "mtu": min(port["mtu"], partner_port["mtu"]),
            "cross": _cross(port, partner_ports, cross_rail, link_layer) if key == "address" else None,
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


def _kind(port: Result, link_layer: str) -> tuple[str, str]:
    """Return role and link layer of a port. ``link_layer``: the one of the fabric."""
    return role_of(port), link_layer_of({"link_layer": link_layer}, port)


def _cross(port: Result, theirs: t.Mapping[str, Result], cross_rail: bool, link_layer: str) -> dict[str, t.Any] | None:
    """Return the partner's next rail and its address; None if no other rail can be probed.

    Rails that must reach each other need gateways. Rails of different kinds are different networks.
    """
    if cross_rail and not port.get("gateway"):
        return None
    addressed = [
        rail
        for rail, other in theirs.items()
        if rail != port["rail"] and other.get("address") and _kind(other, link_layer) == _kind(port, link_layer)
    ]
    rails = [rail for rail in addressed if theirs[rail].get("gateway") or not cross_rail]
    if not rails:
        return None
    later = [rail for rail in rails if rail > port["rail"]]
    rail = later[0] if later else rails[0]
    return {"rail": rail, "address": bare(theirs[rail]["address"])}
