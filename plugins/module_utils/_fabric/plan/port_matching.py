# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which PCI function of a live node is which rail port, if the plan identifies it by slot, serial, MAC or RDMA device.

Everything that the plan contains about a port must match; nothing is guessed. Values are compared, and mistakes are
reported, in this order: PCI address, serial number and slot of the card, port number on the card, permanent hardware
address, name of the RDMA device.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all

Row = t.Dict[str, t.Any]
Port = t.Mapping[str, t.Any]
# What may say which card or function it is, in the order of resolution.
KEYS = ("pci", "serial", "slot", "mac", "rdma")
# Of these a card's functions are all the same.
CARD = ("serial", "slot")
WORDS = {"pci": "PCI address", "serial": "serial number", "slot": "slot", "mac": "MAC", "rdma": "RDMA device"}
WHERE = "compare the plan with the nics that railyard.fabric.rail_info reports for the node"
UNREPORTED = "no NIC of the node reports its %s: use another identity (mac, slot, pci), or run with become"


def identify(node: t.Mapping[str, t.Any], nics: t.Sequence[t.Mapping[str, t.Any]]) -> Row:
    """The node with ``pci`` and ``netdev`` of the ports that have ``match`` filled in.

    The plan's own values are kept under ``identified``, so that ports can be identified again after a reboot.

    :param node: a node's plan, ``railyard_node``.
    :param nics: ``nics`` of ``rail_info``.
    :raises RailyardError: all that does not fit, each with place and remedy.
    """
    functions: dict[str, list[Row]] = {}
    for nic in nics:
        functions.setdefault(nic["pci"], []).append(dict(nic))
    errors: list[RailyardError] = []
    ports = [_planned(port) for port in node["ports"]]
    found = [_function(port, _place(node, port), functions, errors) for port in ports]
    _check_shared(node, ports, found, functions, errors)
    raise_all(errors)
    done = [
        _filled(port, pci, functions[pci]) if port.get("match") and pci else port for port, pci in zip(ports, found)
    ]
    identified = dict(node, ports=done)
    if node.get("agent"):
        agent: Row = node["agent"]
        rails = [dict(rail, pci=port["pci"], netdev=port["netdev"]) for rail, port in zip(agent["rails"], done)]
        identified["agent"] = dict(agent, rails=rails)
    return identified


def _place(node: t.Mapping[str, t.Any], port: Port) -> str:
    return "nodes.%s.ports.%s" % (node["name"], port["rail"])


def _planned(port: Port) -> Row:
    """The port as the plan has it, without what an earlier identification filled in."""
    planned = dict(port)
    planned.update(planned.pop("identified", None) or {})
    return planned


def _function(port: Port, place: str, functions: t.Mapping[str, list[Row]], errors: list[RailyardError]) -> str | None:
    """The function of the port; None if it was not found, which is reported, or is not visible here."""
    match = {key: value for key, value in (port.get("match") or {}).items() if value is not None}
    if not match:
        return _by_itself(port, functions)
    spec = dict({"pci": port["pci"]} if port.get("pci") else {}, **match)
    number = spec.pop("port", None)
    known = len(errors)
    left = set(functions)
    stated: list[str] = []
    for key in KEYS:
        if key not in spec:
            continue
        fits = {pci for pci, rows in functions.items() if any(_fits(key, spec[key], row) for row in rows)}
        if not fits:
            untold = key in ("serial", "slot") and not any(row.get(key) for rows in functions.values() for row in rows)
            message = "no NIC has the %s %s" % (WORDS[key], spec[key])
            errors.append(RailyardError(message, "%s.%s" % (place, key), UNREPORTED % WORDS[key] if untold else WHERE))
            continue
        if key in CARD and number is not None:
            fits = _numbered(sorted(left & fits or fits), number, "%s.port" % place, errors)
        found_by = "%s %s is %s" % (WORDS[key], spec[key], " or ".join(sorted(fits)))
        if fits and not left & fits:
            message = "%s, but %s" % (found_by, " and ".join(stated))
            remedy = "correct one of them: two cards, or two cables, may have changed places; " + WHERE
            errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))
            continue
        left &= fits
        stated.append(found_by)
    if len(errors) > known:
        return None
    if len(left) > 1:
        message = "several functions match: %s" % ", ".join(sorted(left))
        remedy = "set the port's number on the card (port: 1 is %s), or its mac" % min(left)
        errors.append(RailyardError(message, place, remedy))
        return None
    return left.pop()


def _numbered(card: t.Sequence[str], number: int, place: str, errors: list[RailyardError]) -> set[str]:
    """The function of a card's port; ports count from 1 in the order of their functions' addresses."""
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


def _fits(key: str, value: t.Any, row: Row) -> bool:
    if key == "mac":
        # a bond or an administrator may have given the netdev another one
        return _bare(str(value)) == _bare(row.get("permanent_mac") or row.get("mac") or "")
    if key == "rdma":
        return value in (row.get("rdma") or ())
    held = row.get(key)
    return held is not None and str(held).lower() == str(value).lower()


def _bare(mac: str) -> str:
    return "".join(char for char in mac.lower() if char.isalnum())


def _by_itself(port: Port, functions: t.Mapping[str, list[Row]]) -> str | None:
    """The function of a port that the plan identifies by PCI address or netdev; None where it is not to be seen."""
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
    found: t.Sequence[str | None],
    functions: t.Mapping[str, list[Row]],
    errors: list[RailyardError],
) -> None:
    """No function may be two ports, or both a rail port and another port."""
    first: dict[str, str] = {}
    for other in node.get("other_ports") or ():
        pci = _by_itself(other, functions)
        if pci:
            first[pci] = "the port %s, which is not on a rail" % other["name"]
    for port, pci in zip(ports, found):
        if pci is None:
            continue
        if pci in first:
            message = "%s is also %s" % (pci, first[pci])
            remedy = "give each port its own address: correct the port whose card or cable is elsewhere"
            errors.append(RailyardError(message, _place(node, port), remedy))
        first.setdefault(pci, "the port of %s" % port["rail"])


def _filled(port: Row, pci: str, rows: t.Sequence[Row]) -> Row:
    mac = (port["match"] or {}).get("mac")
    mine = [row for row in rows if mac is None or _fits("mac", mac, row)]
    names = [row["netdev"] for row in mine if row.get("netdev")]
    # a function with several netdevs: by the function alone it is not known which one is meant
    netdev = port.get("netdev") or (names[0] if len(names) == 1 else None)
    planned = {"pci": port.get("pci"), "netdev": port.get("netdev")}
    return dict(port, pci=pci, netdev=netdev, identified=planned)
