# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The section ``nodes``: ranges of names, with what runs along with them."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog import (
    name_rules,
    rail_rules,
    routing_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_ports import (
    Texts,
    make_port,
    port_texts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import entries_of, host_range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_variables import (
    read_groups_of,
    read_variables,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section


def read_nodes(fabric: Fabric, section: Section, report: Report) -> None:
    known: dict[str, str] = {}
    total = 0
    for pattern, path, spread, own in entries_of(section, "set its profile, such as {profile: hgx}", report):
        total += len(spread)
        if total > rail_rules.MAX_NODES:
            message = "with {} there are {:,} nodes; {:,} are the most".format(
                shown(pattern), total, rail_rules.MAX_NODES
            )
            report.add(rail_rules.TOO_MANY_NODES, path, message, "correct the range, or describe one fabric a file")
            return
        if own:
            _Pattern(fabric, pattern, spread, own, report).read(known)


class _Pattern:
    """One entry: a node, or a range of them."""

    def __init__(
        self, fabric: Fabric, pattern: str, spread: name_syntax.HostRange, section: Section, report: Report
    ) -> None:
        self.fabric = fabric
        self.pattern = pattern
        self.spread = spread
        self.section = section
        self.report = report
        self.path = section.path
        self.count = len(spread)

    def read(self, known: dict[str, str]) -> None:
        section, report = self.section, self.report
        profile = section.text("profile", "say the node's server model, one of profiles")
        addresses = self._along("address")
        indexes = self._along("index")
        units = self._along("unit", outer=True)
        places = self._along("place", inner=True)
        racks = self._along("rack", outer=True)
        groups = read_groups_of(section, report)
        variables = read_variables(section, report)
        ports = self._overrides()
        misspelt = {key: section.misspelt(key) for key in ("index", "place", "unit")}
        section.done()
        counted = not section.has("index") and not misspelt["index"] and not misspelt["unit"]
        # Where a unit is missing or could not be read, so is what would be counted by it.
        counted = counted and bool(units) == bool(self.fabric.units or section.has("unit"))
        placed = not section.has("place") and not misspelt["place"]
        for at, (name, number) in enumerate(self.spread.numbered()):
            if name in known:
                message = "%s is in %s already" % (shown(name), shown(known[name]))
                report.add(name_rules.NODE_TWICE, self.path, message, "keep each node in one entry")
                continue
            known[name] = self.pattern
            if not name_syntax.NODE.match(name):
                remedy = "use lower-case letters, digits, hyphens and dots, at most 63 between dots"
                report.add(name_rules.NODE_NAME, self.path, "%s is not a host name" % shown(name), remedy)
            node = Node(name, self.path, profile=profile, groups=groups, vars=variables)
            if ports:
                node.ports = {rail: each[at] if len(each) > 1 else each[0] for rail, each in ports.items() if each}
            if addresses:
                node.address = _management(_at(addresses, at), self.path + ("address",), report)
            if racks:
                node.rack = _at(racks, at)
            if units:
                node.unit = _at(units, at)
            own = number if self.spread.ranges else None
            if places:
                node.place = self._number(places, at, "place")
            elif placed and node.unit is not None:
                node.place = self._counted(name, own, "place")
            if indexes:
                node.index_path = self.path + ("index",)
                node.index = self._number(indexes, at, "index")
            elif counted:
                if node.unit is not None:
                    node.index = self._from_place(node)
                else:
                    node.index = self._counted(name, own if self.spread.ranges == 1 else None, "index")
            self.fabric.nodes.append(node)

    def _along(self, key: str, outer: bool = False, inner: bool = False) -> list[str]:
        text = self.section.text(key)
        found = along(text, self.path + (key,), self.spread, self.report, outer, inner)
        return found

    def _from_place(self, node: Node) -> int | None:
        """The index that follows from the unit; None where the unit cannot be counted by, which rules report."""
        places = self.fabric.places
        unit = self.fabric.units.get(node.unit or "")
        if places is None or unit is None or node.place is None or not unit.number:
            return None
        return places.index(unit.number, node.place)

    def _number(self, texts: t.Sequence[str], at: int, key: str) -> int | None:
        text = _at(texts, at)
        path = self.path + (key,)
        if len(texts) == 1 and self.count > 1:
            remedy = 'write a range, such as %s: "[1:%d]"' % (key, self.count)
            message = "%s is one %s for %d nodes" % (shown(text), key, self.count)
            self.report.add(rail_rules.INDEX, path, message, remedy)
            return None
        if not re.match(r"[0-9]{1,9}\Z", text) or int(text) < 1:
            message = "%s is no %s" % (shown(text), key)
            self.report.add(rail_rules.INDEX, path, message, "write a whole number from 1")
            return None
        return int(text)

    def _counted(self, name: str, number: int | None, key: str) -> int | None:
        """The index or place that follows from the name."""
        found = name_syntax.trailing_number(name) if number is None else number
        if found is None:
            message = "%s has no number to be its %s" % (shown(name), key)
            remedy = "say %s, a number that stays with the node for good" % key
            self.report.add(rail_rules.NO_INDEX, self.path, message, remedy)
        elif found < 1:
            message = "%s has the number 0, and %s begin at 1" % (shown(name), {"place": "places"}.get(key, "indexes"))
            remedy = 'say %s, such as %s: "[1:8]" for a range of nodes' % (key, key)
            self.report.add(rail_rules.INDEX, self.path, message, remedy)
            return None
        return found

    def _overrides(self) -> dict[str, list[Port | None]]:
        """Rail -> the ports of the pattern's nodes, or the one port of all of them."""
        own = self.section.section("ports")
        found: dict[str, list[Port | None]] = {}
        for rail, (_key, value) in own.mapping.entries.items() if own else ():
            path = self.path + ("ports", rail)
            found[rail] = [None] if value.null else self._override(rail, path, own.section(rail) if own else None)
        return found

    def _override(self, rail: str, path: Path, section: Section | None) -> list[Port | None]:
        if section is None:
            return []
        texts = port_texts(section)
        section.done()
        if not any("[" in text for each in texts.values() for text, _place in each):
            return [make_port(rail, path, texts, self.report)]
        spread: dict[str, list[list[str]]] = {}
        for key, each in texts.items():
            spread[key] = [along(text, place, self.spread, self.report) for text, place in each]
        if any(not one for each in spread.values() for one in each):
            return []
        many = any(len(one) > 1 for each in spread.values() for one in each)
        ports: list[Port | None] = []
        for at in range(self.count if many else 1):
            mine: Texts = {
                key: [(_at(one, at), place) for one, (_text, place) in zip(spread[key], texts[key])] for key in texts
            }
            ports.append(make_port(rail, path, mine, self.report))
        return ports


def _at(values: t.Sequence[str], at: int) -> str:
    return values[at] if len(values) > 1 else values[0]


def along(
    text: str | None, path: Path, nodes: name_syntax.HostRange, report: Report, outer: bool = False, inner: bool = False
) -> list[str]:
    """A text's expansions, one for each node, or a single one for all; empty without a text and for a wrong one.

    :param outer: it may run along with the names' first ranges alone (the unit of ``su[1:4]-[01:32]``).
    :param inner: it may run along with the names' last range alone.
    """
    if text is None:
        return []
    count = len(nodes)
    spread = host_range(text, path, report)
    if spread is None:
        return []
    size = len(spread)
    if not spread.ranges or size == count:
        return list(spread)
    last = nodes.last
    if outer and nodes.ranges > 1 and size * last == count:
        return [each for each in spread for _again in range(last)]
    if inner and nodes.ranges > 1 and size == last:
        return list(spread) * (count // last)
    message = "%s is %d values for %d nodes" % (shown(text), size, count)
    report.add(name_rules.RANGE_LENGTH, path, message, "make both ranges equally long")
    return []


def _management(text: str, path: Path, report: Report) -> str | None:
    try:
        ipaddress.ip_address(text)
        return text
    except ValueError:
        pass
    if name_syntax.HOST.match(text) and not re.match(r"[0-9.]+\Z", text):
        return text
    message = "%s is neither an IP address nor a host name" % shown(text)
    report.add(routing_rules.NODE_ADDRESS, path, message, "write the address by which Ansible reaches the node")
    return None
