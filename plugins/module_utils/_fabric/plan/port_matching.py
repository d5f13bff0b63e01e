# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the PCI functions of the rail ports of a live node that the plan identifies by slot, serial, MAC or RDMA device.

All planned values of a port must match; nothing is guessed. Values are compared, and mismatches reported, in this
order: PCI address, serial number and slot of the card, port number on the card, permanent hardware address, name of the
RDMA device.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    agent_lower,
    agent_planes,
    rdma_netdev,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions as functions_of

Row = t.Dict[str, t.Any]
Port = t.Mapping[str, t.Any]
# Keys that identify a card or function, in the order of resolution.
KEYS = ("pci", "serial", "slot", "mac", "rdma")
# Keys whose value all functions of a card share.
CARD = ("serial", "slot")
LABELS = {"pci": "PCI address", "serial": "serial number", "slot": "slot", "mac": "MAC", "rdma": "RDMA device"}
COMPARE = "compare the plan with the nics that railyard.fabric.rail_info reports for the node"
UNREPORTED = "no NIC of the node reports its %s: use another identity (mac, slot, pci), or run with become"


def unidentified(node: t.Mapping[str, t.Any], again: bool) -> bool:
    """Return whether ports of the node must be identified.

    :param again: also identify ports that were identified before, such as after a reboot.
    """
    return any(
        any(function.get("match") for function in functions_of(port)) and (again or "identified" not in port)
        for port in node["ports"]
    )


def identify(node: t.Mapping[str, t.Any], nics: t.Sequence[t.Mapping[str, t.Any]]) -> Row:
    """Return the node with ``pci`` and ``netdev`` filled in for functions that have ``match``.

    The planned values are kept under ``identified``, so that ports can be identified again after a reboot.

    :param node: a node's plan, ``railyard_node``.
    :param nics: ``nics`` of ``rail_info``.
    :raises RailyardError: for all mismatches, each with place and remedy.
    """
    functions: dict[str, list[Row]] = {}
    for nic in nics:
        functions.setdefault(nic["pci"], []).append(dict(nic))
    errors: list[RailyardError] = []
    ports = [_planned(port) for port in node["ports"]]
    # the functions of each port, and their PCI addresses
    planned = [[(each, _place(node, port, at)) for at, each in enumerate(functions_of(port))] for port in ports]
    addresses = [[_function(each, place, functions, errors) for each, place in of_port] for of_port in planned]
    _check_shared(node, ports, addresses, functions, errors)
    raise_all(errors)
    filled = [_filled_port(port, found, functions) for port, found in zip(ports, addresses)]
    identified = dict(node, ports=filled)
    if node.get("agent"):
        agent: Row = node["agent"]
        by_rail = {port["rail"]: port for port in filled}
        rails = [_agent_rail(rail, by_rail[rail["rail"]]) for rail in agent["rails"]]
        identified["agent"] = dict(agent, rails=rails)
    return identified


def _agent_rail(rail: Port, port: Port) -> Row:
    """Return a rail of the agent's spec with the functions of its port."""
    found = dict(rail, pci=port["pci"], netdev=port["netdev"])
    planes = agent_planes(port)
    found.update({"planes": planes} if planes else {})
    return dict(found, lower=agent_lower(port)) if port.get("lower") else found


def _place(node: t.Mapping[str, t.Any], port: Port, at: int | None = None) -> str:
    """Return the place of a port, or of a member of its bond. ``at``: the number of the member, from 0."""
    place = "nodes.%s.ports.%s" % (node["name"], port["rail"])
    if at is None or not (port.get("lower") or {}).get("bond"):
        return place
    return "%s.bond.members[%d]" % (place, at)


def _planned(port: Port) -> Row:
    """Return the port as planned, without values that an earlier identification filled in."""
    planned = dict(port)
    planned.update(planned.pop("identified", None) or {})
    return planned


def _function(port: Port, place: str, functions: t.Mapping[str, list[Row]], errors: list[RailyardError]) -> str | None:
    """Return the PCI address of a function: of a port, or of a member of its bond.

    None if no function matches, which is added to ``errors``, or if a port without ``match`` has no visible function.
    """
    match = {key: value for key, value in (port.get("match") or {}).items() if value is not None}
    if not match:
        return _by_pci_or_netdev(port, functions)
    spec = dict({"pci": port["pci"]} if port.get("pci") else {}, **match)
    number = spec.pop("port", None)
    errors_before = len(errors)
    candidates = set(functions)
    matched: list[str] = []
    for key in KEYS:
        if key not in spec:
            continue
        matching = {pci for pci, rows in functions.items() if any(_matches(key, spec[key], nic) for nic in rows)}
        if not matching:
            unreported = key in CARD and not any(nic.get(key) for rows in functions.values() for nic in rows)
            message = "no NIC has the %s %s" % (LABELS[key], spec[key])
            remedy = UNREPORTED % LABELS[key] if unreported else COMPARE
            errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))
            continue
        if key in CARD and number is not None:
            matching = _numbered(sorted(candidates & matching or matching), number, "%s.port" % place, errors)
        found_by = "%s %s is %s" % (LABELS[key], spec[key], " or ".join(sorted(matching)))
        if matching and not candidates & matching:
            message = "%s, but %s" % (found_by, " and ".join(matched))
            remedy = "correct one of them: two cards, or two cables, may have changed places; " + COMPARE
            errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))
            continue
        candidates &= matching
        matched.append(found_by)
    if len(errors) > errors_before:
        return None
    if len(candidates) > 1:
        message = "several functions match: %s" % ", ".join(sorted(candidates))
        remedy = "set the port's number on the card (port: 1 is %s), or its mac" % min(candidates)
        errors.append(RailyardError(message, place, remedy))
        return None
    return candidates.pop()


def _numbered(card: t.Sequence[str], number: int, place: str, errors: list[RailyardError]) -> set[str]:
    """Return the function of port ``number`` of a card. Ports count from 1 in the order of their PCI addresses."""
    if 1 <= number <= len(card):
        return {card[number - 1]}
    message = "the card has %d port%s (%s), but no port %d"
    errors.append(
        RailyardError(
            message % (len(card), "" if len(card) == 1 else "s", ", ".join(card), number),
            place,
            "count the card's ports from 1, or omit port for a card with one port",
        )
    )
    return set()


def _matches(key: str, value: t.Any, row: Row) -> bool:
    """Return whether a NIC of ``rail_info`` has this value."""
    if key == "mac":
        # The current MAC may be that of a bond, or set by an administrator.
        return _normalized(str(value)) == _normalized(row.get("permanent_mac") or row.get("mac") or "")
    if key == "rdma":
        return value in (row.get("rdma") or ())
    observed = row.get(key)
    return observed is not None and str(observed).lower() == str(value).lower()


def _normalized(mac: str) -> str:
    """Return a MAC address without separators, in lower case."""
    return "".join(char for char in mac.lower() if char.isalnum())


def _by_pci_or_netdev(port: Port, functions: t.Mapping[str, list[Row]]) -> str | None:
    """Return the function of a port that the plan identifies by PCI address or netdev; None if no NIC has it."""
    if port.get("pci"):
        return str(port["pci"])
    for pci, rows in functions.items():
        for row in rows:
            if port.get("netdev") and port["netdev"] in (row.get("netdev"), *(row.get("altnames") or ())):
                return pci
    return None


def _check_shared(
    node: t.Mapping[str, t.Any],
    ports: t.Sequence[Port],
    addresses: t.Sequence[t.Sequence[str | None]],
    functions: t.Mapping[str, list[Row]],
    errors: list[RailyardError],
) -> None:
    """Add an error for each function of two ports, and for each that is also another port.

    Two rail ports can have a function if they are VLANs of one netdev, or different netdevs of the function, which some
    drivers have. Such netdevs are identified by their names only.
    """
    owners: dict[t.Hashable, tuple[str, Port]] = {}
    for other in node.get("other_ports") or ():
        pci = _by_pci_or_netdev(other, functions)
        if pci:
            owners[pci] = "the port %s, which is not on a rail" % other["name"], {}
    for port, found in zip(ports, addresses):
        for at, (function, pci) in enumerate(zip(functions_of(port), found)):
            if pci is None:
                continue
            named = len(functions.get(pci, ())) > 1 and not function.get("pci") and function.get("netdev")
            key: t.Hashable = (pci, named) if named else pci
            owner, first = owners.get(key) or owners.get(pci) or ("", port)
            beside = rdma_netdev(first) == rdma_netdev(port) and first.get("netdev") != port.get("netdev")
            if owner and not beside:
                message = "%s is also %s" % (pci, owner)
                remedy = "give each port its own address: correct the port whose card or cable is elsewhere"
                errors.append(RailyardError(message, _place(node, port, at), remedy))
            owners.setdefault(key, ("the port of %s" % port["rail"], port))


def _filled_port(port: Row, addresses: t.Sequence[str | None], functions: t.Mapping[str, list[Row]]) -> Row:
    """Return the port with its functions filled in. ``addresses``: the PCI address of each, None if not visible."""
    lower = port.get("lower")
    if not any(function.get("match") for function in functions_of(port)):
        return port
    filled = [
        dict(each, **_filled(each, pci, functions[pci])) if each.get("match") and pci else each
        for each, pci in zip(functions_of(port), addresses)
    ]
    if lower:
        return dict(port, lower=dict(lower, functions=filled), identified={"lower": lower})
    planes = port.get("planes")
    if planes and len(functions_of(port)) == len(planes["ports"]):
        own = {key: port.get(key) for key in ("pci", "netdev")}
        first = {key: own[key] or filled[0][key] for key in own}
        return dict(port, **first, planes=dict(planes, ports=filled), identified=dict(own, planes=planes))
    return dict(filled[0], identified={"pci": port.get("pci"), "netdev": port.get("netdev")})


def _filled(function: Port, pci: str, rows: t.Sequence[Row]) -> Row:
    """Return the PCI address of a function and the name of its netdev.

    :param rows: the function's NICs in ``rail_info``.
    """
    mac = (function["match"] or {}).get("mac")
    matching = [row for row in rows if mac is None or _matches("mac", mac, row)]
    names = [row["netdev"] for row in matching if row.get("netdev")]
    # The function alone does not identify one of its several netdevs.
    return {"pci": pci, "netdev": function.get("netdev") or (names[0] if len(names) == 1 else None)}
