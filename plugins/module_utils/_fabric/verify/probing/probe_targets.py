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


def summary(
    rails: t.Sequence[str],
    pairs: t.Sequence[t.Sequence[str]],
    results: t.Mapping[str, t.Sequence[Result]],
    plans: t.Mapping[str, Node] | None = None,
) -> dict[str, t.Any]:
    """All results as one verdict, a matrix and lines for a terminal.

    :param pairs: every (server, client) pair that was to be probed; one without a result is red.
    :param results: client's name -> its results of ``rail_probe``.
    :param plans: name -> ``railyard_node``, by which a pair is not asked for rails that one of the two has no port on.
    :return: ``ok``, ``rails_proven``, ``rails``, ``checks`` (a flat list, one entry a pair and rail), ``table`` and
        ``failures`` (text).
    """
    checks: list[dict[str, t.Any]] = []
    for server, client in pairs:
        known = {(result["rail"], result["peer"]): result for result in results.get(client, ())}
        for rail in rails:
            if plans and not all(_has_port(plans.get(name), rail) for name in (server, client)):
                continue
            result = known.get((rail, server))
            transfer = (result or {}).get("transfer") or {}
            checks.append(
                {
                    "rail": rail,
                    "from": client,
                    "to": server,
                    "ok": bool(result and result["ok"]),
                    "gbits": transfer.get("gbits"),
                    # a rail without addresses was not asked to answer
                    "rtt_ms": ((result["reach"] or {}).get("rtt_ms") if result else None),
                    "error": result["error"] if result else "was not probed",
                    "remedy": result["remedy"] if result else _why_not_probed(results, server, client),
                }
            )
    of_rail: dict[str, list[bool]] = {rail: [] for rail in rails}
    for check in checks:
        of_rail[check["rail"]].append(check["ok"])
    proven = [rail for rail, well in of_rail.items() if well and all(well)]
    return {
        "ok": bool(checks) and len(proven) == len(rails),
        "rails": len(rails),
        "rails_proven": len(proven),
        "checks": checks,
        "table": _table(rails, checks),
        "failures": _failures(checks) + [_NO_PORTS % rail for rail, well in of_rail.items() if checks and not well],
    }


_NO_PORTS = "%s: no two of the nodes that met have a port on it. Remedy: let more nodes take part, or more rounds."


def _has_port(node: Node | None, rail: str) -> bool:
    """Whether the plan has a port for the node on a rail; of a node without a plan nothing is known."""
    return node is None or any(port["rail"] == rail for port in node["ports"])


def _failures(checks: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    if not checks:
        return ["nothing was probed: a proof needs two nodes. Remedy: name two or more with --limit, or none."]
    return [
        "%s from %s to %s: %s. Remedy: %s." % (c["rail"], c["from"], c["to"], c["error"], c["remedy"] or "none known")
        for c in checks
        if not c["ok"]
    ]


def _why_not_probed(results: t.Mapping[str, t.Sequence[Result]], server: str, client: str) -> str:
    if client not in results:
        return "see why %s gave no results" % client
    return "give the rail an address on %s and %s in the plan" % (client, server)


def _table(rails: t.Sequence[str], checks: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """A line a pair, a column a rail: Gb/s where it is proven, RED where it is not."""
    rows: dict[str, dict[str, str]] = {}
    for check in checks:
        cell = ("%.2f" % check["gbits"] if check["gbits"] is not None else "ok") if check["ok"] else "RED"
        rows.setdefault("%s -> %s" % (check["from"], check["to"]), {})[check["rail"]] = cell
    first = max([len(row) for row in rows] + [len("Gb/s")])
    width = [max([len(rail)] + [len(cells.get(rail, "")) for cells in rows.values()]) for rail in rails]
    lines = [" ".join(["Gb/s".ljust(first)] + [rail.rjust(size) for rail, size in zip(rails, width)])]
    for row, cells in rows.items():
        lines.append(
            " ".join([row.ljust(first)] + [cells.get(rail, "").rjust(size) for rail, size in zip(rails, width)])
        )
    return "\n".join(lines)
