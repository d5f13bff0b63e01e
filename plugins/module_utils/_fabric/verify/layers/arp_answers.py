# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ARP flux: on one network for several rails, ports of a node that answer for the addresses of its other ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import rails_of_network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run

# Sysctls without which a port answers for, or announces, addresses of other ports.
SYSCTLS = ("arp_announce", "arp_filter", "arp_ignore")
_SHOWN = 3

Place = t.Tuple[str, str]


class WrongAnswer(t.NamedTuple):
    """An answer of a port for an address of another port of its node. ``rail``: the rail of the address."""

    rail: str
    address: str

    def __str__(self) -> str:
        return "%s of %s" % (self.address, self.rail)


def macs(run: Run) -> dict[str, list[Place]]:
    """Return MAC address -> the nodes and rails that have it. A VLAN has the same MAC address as its parent."""
    places: dict[str, list[Place]] = {}
    for report in run.nodes():
        live = report.live
        for port in report.plan["ports"]:
            row = live.interface(port)
            if row and row.get("mac"):
                places.setdefault(row["mac"], []).append((report.name, port["rail"]))
    return places


def wrong_answers(run: Run) -> dict[Place, list[WrongAnswer]]:
    """Return node and rail of each port that answers for addresses of other ports of its node -> those answers.

    The node itself (``duplicates`` of ``rail_info``) and the nodes that probed it have received them.
    """
    networks = rails_of_network(run.fabric)
    if not networks:
        return {}
    owners = macs(run)
    found: dict[Place, list[WrongAnswer]] = {}

    def note(node: str, rail: str, address: str, heard: t.Iterable[str]) -> None:
        for mac in heard:
            places = owners.get(mac, [])
            others = [each for each in places if each[0] == node and each[1] in networks.get(rail, ())]
            if others and (node, rail) not in places:
                wrong = WrongAnswer(rail, address)
                if wrong not in found.setdefault(others[0], []):
                    found[others[0]].append(wrong)

    for report in run.nodes():
        live = report.live
        rails = {live.netdev(port): port for port in report.plan["ports"]}
        for row in live.info.get("duplicates") or ():
            port = rails.get(row["netdev"])
            if port and port["address"] and bare(port["address"]) == row["address"]:
                note(report.name, port["rail"], row["address"], row.get("own") or ())
        for result in report.probed:
            server = run.reports.get(result["peer"])
            if not result.get("macs") or server is None or server.info is None:
                continue
            own = (server.live.interface(run.port(server.name, result["rail"])) or {}).get("mac")
            heard = [mac for mac in result["macs"] if mac != own]
            note(server.name, result["rail"], bare(run.port(server.name, result["rail"])["address"]), heard)
    return found


def answers_text(netdev: str, answers: t.Sequence[WrongAnswer]) -> str:
    """Return the addresses of other ports for which a netdev answers, as text."""
    return "%s answers for %s" % (netdev, first_of([str(each) for each in answers], _SHOWN))


def report_sysctls(run: Run, differing: t.Mapping[str, t.Mapping[str, t.Sequence[Row]]]) -> None:
    """Report ARP settings that differ from the plan: one failure for the ports of a node on one network.

    :param differing: node -> rail -> rows with ``key``, ``netdev``, ``expected`` and ``found``.
    """
    networks, answers = rails_of_network(run.fabric), wrong_answers(run) if differing else {}
    for node, by_rail in differing.items():
        reported: set[str] = set()
        for rail in by_rail:
            if rail in reported:
                continue
            ports = [each for each in by_rail if each == rail or each in networks[rail]]
            reported.update(ports)
            rows = [row for each in ports for row in by_rail[each]]
            what = first_of(["net.ipv4.conf.%s.%s" % (row["netdev"], row["key"]) for row in rows], _SHOWN)
            found = sorted({"%s %s" % (row["key"], row["found"]) for row in rows})
            found += [
                answers_text(by_rail[each][0]["netdev"], answers[node, each])
                for each in ports
                if (node, each) in answers
            ]
            run.fail(
                *("RV512", node, rail, what),
                expected=", ".join(sorted({"%s %s" % (row["key"], row["expected"]) for row in rows})),
                found="; ".join(found),
                others=[*ports[1:], *networks[rail]],
            )


def report_answers(run: Run) -> set[Place]:
    """Report ports that answer for other ports, and whose settings have the planned values or were not compared.

    :return: node and rail of each address for which another port has answered.
    """
    answered: set[Place] = set()
    for (node, rail), answers in wrong_answers(run).items():
        rails = [each.rail for each in answers]
        answered.update((node, each) for each in rails)
        if run.has("RV512", node, rail) or not run.covers(rail):
            continue
        netdev = run.reports[node].live.netdev(run.port(node, rail)) or rail
        found = answers_text(netdev, answers)
        expected = "each port answers for its own addresses only"
        run.fail("RV808", node, rail, "ARP on one network", expected=expected, found=found, others=rails)
    return answered
