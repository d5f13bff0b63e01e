# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer of addresses: compare the IP configuration of each port with the plan."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import rails_of_network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import (
    ROCE,
    Live,
    device_name,
    gids_of,
    other_gids,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    VERIFY,
    NodeReport,
    Row,
    Run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import arp_answers

STRICT = 1
Place = t.Tuple[str, str]


def address(run: Run) -> None:
    """Check addresses, routes, rules, sysctls and GIDs of every port, and that each address is unique."""
    owners = _owners(run)
    macs = arp_answers.macs(run)
    networks = rails_of_network(run.fabric)
    # node -> rail -> ARP settings that differ
    arp: dict[str, dict[str, list[Row]]] = {}
    for report, port in run.ports("address"):
        live = report.live
        netdev = live.netdev(port)
        if netdev is None or not live.part("ip"):
            if _planned_addresses(port):
                run.unread("address", report.name, port["rail"], "addresses, rules and routes")
            continue
        if port["address"] and run.kind == VERIFY and not live.part("duplicates"):
            run.unread("address", report.name, port["rail"], "duplicates of the address")
        # duplicates first: other failures can follow from them
        _duplicates(run, report, port, netdev, live, owners, macs)
        present = [_address(run, report.name, port, netdev, each, live) for each in _planned_addresses(port)]
        # without the address its routes are gone, and rail_info does not report its rule
        if present and all(present):
            _rules(run, report.name, port, netdev, live)
            _routes(run, report.name, port, netdev, live)
            _gid(run, report.name, port, live)
        _leaks(run, report, port, netdev, live, networks.get(port["rail"], ()))
        differing = _sysctls(run, report.name, port, netdev, live, port["rail"] in networks)
        if differing:
            arp.setdefault(report.name, {})[port["rail"]] = differing
    arp_answers.report_sysctls(run, arp)


def _planned_addresses(port: Row) -> list[str]:
    """Return the planned addresses of a port, IPv4 first, with their prefix lengths."""
    return [port[key] for key in ("address", "address6") if port[key]]


def _owners(run: Run) -> dict[str, Place]:
    """Return planned address -> its node and rail."""
    owners: dict[str, Place] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            owners.update((bare(each), (report.name, port["rail"])) for each in _planned_addresses(port))
    return owners


def _duplicates(
    run: Run,
    report: NodeReport,
    port: Row,
    netdev: str,
    live: Live,
    owners: t.Mapping[str, Place],
    macs: t.Mapping[str, t.Sequence[Place]],
) -> None:
    """Report addresses of a port that belong to another port, and planned addresses that another host has."""
    name, rail = report.name, port["rail"]
    planned = {bare(each): each for each in _planned_addresses(port)}
    for row in live.addresses:
        plain = bare(row["address"])
        if row["netdev"] != netdev or plain in planned:
            continue
        owner = owners.get(plain)
        if owner and owner != (name, rail):
            _duplicate(run, (name, rail), owner, plain)
        elif any(_inside(plain, each) for each in planned.values()):
            run.warn(
                "RV503", name, rail, "addresses of %s" % netdev, expected=list(planned.values()), found=row["address"]
            )
    for row in live.info.get("duplicates") or ():
        if row["netdev"] != netdev or row["address"] not in planned:
            continue
        # the node's other ports do not have the address: they only answer for it
        others = [mac for mac in row["macs"] if not any(place[0] == name for place in macs.get(mac, ()))]
        places = [macs[mac] for mac in others if mac in macs]
        culprits = [next((each for each in of_mac if each[1] == rail), of_mac[0]) for of_mac in places]
        for culprit in culprits:
            _duplicate(run, culprit, (name, rail), row["address"])
        if others and not culprits:
            found = "%s answers for it as well" % ", ".join(others)
            run.fail("RV510", name, rail, "address %s" % row["address"], expected="only this port", found=found)


def _duplicate(run: Run, culprit: Place, owner: Place, address: str) -> None:
    """Report a duplicate address once, for the port that must not have it. Two observations can show the same one."""
    what = "address %s" % address
    if any(
        each.code == "RV510" and each.what == what and each.node == culprit[0] for each in run.failures_of(culprit[0])
    ):
        return
    peer = owner[0] if owner[0] != culprit[0] else None
    run.fail(
        *("RV510", culprit[0], culprit[1], what),
        expected="only %s of %s" % (owner[1], owner[0]),
        found="also here",
        peer=peer,
        peers=[owner[0]],
        others=[owner[1]],
        remedy="remove it here with 'ip address del'",
    )


def _inside(address: str, interface: str) -> bool:
    """Return whether an address is in the subnet of an interface's address."""
    network = ipaddress.ip_interface(interface).network
    plain = ipaddress.ip_address(address)
    return plain.version == network.version and plain in network


def _address(run: Run, name: str, port: Row, netdev: str, spec: str, live: Live) -> bool:
    """Report a planned address that is missing or has another prefix length. Return whether it is as planned."""
    live_addresses = [row["address"] for row in live.addresses if row["netdev"] == netdev]
    if spec in live_addresses:
        return True
    rail, plain = port["rail"], bare(spec)
    same_address = [each for each in live_addresses if bare(each) == plain]
    if same_address:
        run.fail("RV502", name, rail, "address of %s" % netdev, expected=spec, found=same_address[0])
        return False
    elsewhere = [row["netdev"] for row in live.addresses if bare(row["address"]) == plain]
    found = "on %s" % ", ".join(elsewhere) if elsewhere else ", ".join(live_addresses) or "none"
    run.fail("RV501", name, rail, "address of %s" % netdev, expected=spec, found=found)
    return False


class Way(t.NamedTuple):
    """A route by its destination, next hop and table (None: the main table)."""

    to: str
    via: str | None
    table: int | None

    def __str__(self) -> str:
        by = " via %s" % self.via if self.via else ""
        return "%s%s in table %s" % (self.to, by, self.table or "main")


def planned_ways(port: Row) -> list[Way]:
    """Return the routes that the plan gives to a port, without those that the kernel adds for its addresses."""
    ways: list[Way] = []
    for key, gateway in (("address", "gateway"), ("address6", "gateway6")):
        if not port[key] or port["table"] is None:
            continue
        interface = ipaddress.ip_interface(port[key])
        if interface.network.prefixlen < interface.max_prefixlen:
            ways.append(Way(str(interface.network), None, port["table"]))
        if port[gateway]:
            ways.append(Way(ANYWHERE[interface.version], port[gateway], port["table"]))
    return ways + [Way(each["to"], each["via"], each["table"]) for each in port["routes"]]


def _routes(run: Run, name: str, port: Row, netdev: str, live: Live) -> None:
    """Report planned routes that are missing or have another next hop."""
    ways = [Way(row["to"], row["via"], row["table"]) for row in live.routes if row["netdev"] == netdev]
    for spec in planned_ways(port):
        if spec in ways:
            continue
        differing = [each for each in ways if (each.to, each.table) == (spec.to, spec.table)]
        netdevs = [row["netdev"] for row in live.routes if (row["to"], row["table"]) == (spec.to, spec.table)]
        found = str(differing[0]) if differing else "dev %s" % netdevs[0] if netdevs else "none"
        run.fail("RV504", name, port["rail"], "route", expected="%s dev %s" % (spec, netdev), found=found)


def _rules(run: Run, name: str, port: Row, netdev: str, live: Live) -> None:
    """Report the first address whose policy rules are missing."""
    if port["table"] is None or port["rule_priority"] is None:
        return
    live_rules = {(row["from"], row["oif"], row["table"], row["priority"]) for row in live.rules}
    target = (port["table"], port["rule_priority"])
    for interface in map(ipaddress.ip_interface, _planned_addresses(port)):
        source = "%s/%d" % (interface.ip, interface.max_prefixlen)
        missing = [each for each in ((source, None, *target), (None, netdev, *target)) if each not in live_rules]
        if missing:
            rules = " and ".join("from %s" % each[0] if each[0] else "oif %s" % each[1] for each in missing)
            of_source = [each for each in live_rules if each[0] == source and each[2:] != target]
            found = "table %s at %s" % of_source[0][2:] if of_source else "none"
            expected = "%s lookup %d at %d" % (rules, port["table"], port["rule_priority"])
            run.fail("RV505", name, port["rail"], "policy rule", expected=expected, found=found)
            return


def _leaks(run: Run, report: NodeReport, port: Row, netdev: str, live: Live, same_network: t.Container[str]) -> None:
    """Report routes over the rail that are not planned.

    :param same_network: the other rails of its network, from which a route to this network takes no packets.
    """
    name, rail = report.name, port["rail"]
    planned = planned_ways(port)
    tables = {each["table"]: each["rail"] for each in report.plan["ports"] if each["table"] is not None}
    for row in live.routes:
        way = Way(row["to"], row["via"], row["table"])
        found = "%s dev %s" % (way, netdev)
        if row["netdev"] != netdev or way in planned or row["to"].startswith("fe80"):
            continue
        if way.table is None and way.to in ANYWHERE.values():
            run.fail("RV507", name, rail, "main table", expected="no default route dev %s" % netdev, found=str(way))
        elif way.table is not None and tables.get(way.table, rail) != rail:
            expected, others = "only routes of rail %s" % tables[way.table], [tables[way.table]]
            run.fail("RV508", name, rail, "table %d" % way.table, expected=expected, found=found, others=others)
        elif way.table is None and (others := _of_other_rails(way.to, report, rail, same_network)):
            expected = "no route dev %s to %s" % (netdev, way.to)
            run.fail("RV508", name, rail, "main table", expected=expected, found=found, others=others)
        elif not any((each.to, each.table) == (way.to, way.table) for each in planned):
            run.warn("RV508", name, rail, "route", expected="none that is not planned", found=found)


def _of_other_rails(to: str, report: NodeReport, rail: str, same_network: t.Container[str]) -> list[str]:
    """Return the other rails whose traffic a route diverts."""
    network = ipaddress.ip_network(to)

    def overlaps(port: Row) -> bool:
        subnets = [ipaddress.ip_interface(each).network for each in _planned_addresses(port)]
        return any(subnet.version == network.version and subnet.overlaps(network) for subnet in subnets)

    others = [port for port in report.plan["ports"] if port["rail"] != rail and port["rail"] not in same_network]
    return [port["rail"] for port in others if overlaps(port)]


def _sysctls(run: Run, name: str, port: Row, netdev: str, live: Live, one_network: bool) -> list[Row]:
    """Report sysctls without the planned effect. A larger value of all interfaces is only a warning.

    :param one_network: whether other rails have the same network.
    :return: with ``one_network``, the ARP settings that differ, which are reported for all ports of the node together.
    """
    effective = (live.info.get("sysctls") or {}).get(netdev) or {}
    arp: list[Row] = []
    for key, spec in sorted(port["sysctl"].items()):
        value = effective.get(key)
        if value == int(spec):
            continue
        what = "net.ipv4.conf.%s.%s" % (netdev, key)
        if value is None:
            run.unread("address", name, port["rail"], key)
        elif one_network and key in arp_answers.SYSCTLS and value < int(spec):
            arp.append({"key": key, "netdev": netdev, "expected": spec, "found": value})
        elif value < int(spec) or (key, value) == ("rp_filter", STRICT):
            run.fail("RV506", name, port["rail"], what, expected=spec, found=value)
        else:
            cause = "net.ipv4.conf.all.%s is %d, and the larger value is in force" % (key, value)
            run.warn("RV506", name, port["rail"], what, expected=spec, found=value, cause=cause, playbook=None)
    return arp


def _gid(run: Run, name: str, port: Row, live: Live) -> None:
    """Report the first address without a GID of RoCE v2."""
    device = live.device(port)
    if device is not None and device["link_layer"] == "infiniband":
        return
    if not live.part("gids") or device is None:
        run.unread("address", name, port["rail"], "GIDs")
        return
    gids = gids_of(live, device)
    for plain in map(bare, _planned_addresses(port)):
        found = other_gids(gids, plain)
        if found:
            expected = "%s for %s" % (ROCE, plain)
            run.fail(
                "RV511", name, port["rail"], "GID of %s" % device_name(live, device), expected=expected, found=found
            )
            return
