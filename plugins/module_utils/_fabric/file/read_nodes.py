# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the section ``nodes``: ranges of names, with values that have ranges of the same length."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_ports import (
    Texts,
    make_port,
    port_texts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import (
    along,
    entries_of,
    read_domain,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import MAX_NODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_variables import (
    read_groups_of,
    read_variables,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import parse_address
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Value

# What entries contain -> the port that was read from it without findings. Most nodes repeat the ports of others.
Known = t.Dict[t.Hashable, Port]
# Values of the largest entry that is compared with others: a port has at most 12 keys and 64 GPUs.
MAX_REPEATED = 80

TOO_MANY_NODES = rule(
    "RY415 too-many-nodes: Too many nodes",
    """
nodes:
  ai-[1:70000]: {profile: hgx}
""",
    "nodes:\n  ai-[1:2]: {profile: hgx}\n",
)


def read_nodes(fabric: Fabric, section: Section, report: Report) -> None:
    patterns: dict[str, str] = {}
    known: Known = {}
    total = 0
    for pattern, path, names, own in entries_of(section, "set its profile, such as {profile: hgx}", report):
        total += len(names)
        if total > MAX_NODES:
            message = "with {} there are {:,} nodes; the maximum is {:,}".format(shown(pattern), total, MAX_NODES)
            report.add(TOO_MANY_NODES, path, message, "correct the range, or write a file for each fabric")
            return
        if own:
            _Pattern(fabric, pattern, names, own, known, report).read(patterns)


NODE_NAME = rule(
    "RY205 node-name: Node name that is not a host name, or is also the name of a group",
    """
nodes:
  AI_1: {profile: hgx}
""",
    example_file.NODES,
)

NODE_TWICE = rule(
    "RY208 duplicate-node: Node in two entries",
    """
nodes:
  ai-[1:2]: {profile: hgx}
  ai-2: {profile: hgx}
""",
    """
nodes:
  ai-[1:2]: {profile: hgx}
  ai-3: {profile: hgx}
""",
)

NO_INDEX = rule(
    "RY410 missing-index: Node without an index",
    """
nodes:
  jupiter: {profile: hgx}
""",
    """
nodes:
  jupiter: {profile: hgx, index: 1}
""",
)

INVALID_INDEX = rule(
    "RY411 invalid-index: Invalid node index",
    """
nodes:
  ai-[0:1]: {profile: hgx}
""",
    """
nodes:
  ai-[0:1]: {profile: hgx, index: "[1:2]"}
""",
)


class _Pattern:
    """An entry of the section: a node, or a range of nodes with the ``names``."""

    def __init__(
        self, fabric: Fabric, pattern: str, names: name_syntax.HostRange, section: Section, known: Known, report: Report
    ) -> None:
        self.fabric = fabric
        self.pattern = pattern
        self.names = names
        self.section = section
        self.known = known
        self.report = report
        self.path = section.path
        self.count = len(names)

    def read(self, patterns: dict[str, str]) -> None:
        """Add the nodes to the fabric. ``patterns``: name of a node -> its entry; the names are added."""
        section, report = self.section, self.report
        profile = section.text("profile", "set the server model of the node, one of profiles")
        addresses = self._along("address")
        indexes = self._along("index")
        units = self._along("unit", outer=True)
        places = self._along("place", inner=True)
        racks = self._along("rack", outer=True)
        domains, no_domain = self._along("nvlink_domain", outer=True), section.written_null("nvlink_domain")
        groups = read_groups_of(section, report)
        variables = read_variables(section, report)
        ports = self._overrides()
        misspelt = {key: section.misspelt(key) for key in ("index", "place", "unit")}
        section.done()
        derive_index = not section.has("index") and not misspelt["index"] and not misspelt["unit"]
        # The index is unknown if it depends on a unit that is missing or could not be read.
        derive_index = derive_index and bool(units) == bool(self.fabric.units or section.has("unit"))
        derive_place = not section.has("place") and not misspelt["place"]
        for at, (name, number) in enumerate(self.names.numbered()):
            if name in patterns:
                message = "%s is already in %s" % (shown(name), shown(patterns[name]))
                report.add(NODE_TWICE, self.path, message, "write each node in one entry only")
                continue
            patterns[name] = self.pattern
            if not name_syntax.NODE.match(name):
                remedy = "use lower-case letters, digits, hyphens and dots, with at most 63 characters between dots"
                report.add(NODE_NAME, self.path, "%s is not a host name" % shown(name), remedy)
            node = Node(name, self.path, profile=profile, groups=groups, vars=variables)
            if ports:
                node.ports = {rail: own[at] if len(own) > 1 else own[0] for rail, own in ports.items() if own}
            if addresses:
                node.address = _management(_at(addresses, at), self.path + ("address",), report)
            if racks:
                node.rack = _at(racks, at)
            if domains or no_domain:
                domain = None if no_domain else _at(domains, at)
                node.nvlink_domain = read_domain(domain, self.path, report, no_domain)
            if units:
                node.unit = _at(units, at)
            if places:
                node.place = self._number(places, at, "place")
            elif derive_place and node.unit is not None:
                node.place = self._derived(name, number, "place")
            if indexes:
                node.index_path = self.path + ("index",)
                node.index = self._number(indexes, at, "index")
            elif derive_index:
                if node.unit is not None:
                    node.index = self._from_place(node)
                else:
                    node.index = self._derived(name, number if self.names.ranges == 1 else None, "index")
            self.fabric.nodes.append(node)

    def _along(self, key: str, outer: bool = False, inner: bool = False) -> list[str]:
        return along(self.section.text(key), self.path + (key,), self.names, self.report, outer, inner)

    def _from_place(self, node: Node) -> int | None:
        """Return the index from unit and place; None if one of them is invalid, which rules report."""
        places = self.fabric.places
        unit = self.fabric.units.get(node.unit or "")
        if places is None or unit is None or node.place is None or not unit.number:
            return None
        return places.index(unit.number, node.place)

    def _number(self, texts: t.Sequence[str], at: int, key: str) -> int | None:
        """Return the index or place of a node; None for an invalid text, which is reported."""
        text = _at(texts, at)
        path = self.path + (key,)
        if len(texts) == 1 and self.count > 1:
            remedy = 'write a range, such as %s: "[1:%d]"' % (key, self.count)
            message = "%s is one %s for %d nodes" % (shown(text), key, self.count)
            self.report.add(INVALID_INDEX, path, message, remedy)
            return None
        if not re.match(r"[0-9]{1,9}\Z", text) or int(text) < 1:
            message = "%s is not a valid %s" % (shown(text), key)
            self.report.add(INVALID_INDEX, path, message, "write a whole number from 1")
            return None
        return int(text)

    def _derived(self, name: str, number: int | None, key: str) -> int | None:
        """Return the index or place from the name; None, reported, if the name has no valid number.

        :param number: the value of the last range of the name, if it determines the number.
        """
        if number is None:
            number = name_syntax.trailing_number(name)
        if number is None:
            message = "the name %s has no number for its %s" % (shown(name), key)
            remedy = "set %s to a number that the node keeps" % key
            self.report.add(NO_INDEX, self.path, message, remedy)
        elif number < 1:
            message = "%s has the number 0, and %s begin at 1" % (shown(name), {"place": "places"}.get(key, "indexes"))
            remedy = 'set %s, such as %s: "[1:8]" for a range of nodes' % (key, key)
            self.report.add(INVALID_INDEX, self.path, message, remedy)
            return None
        return number

    def _overrides(self) -> dict[str, list[Port | None]]:
        """Return rail -> the overriding ports of the nodes, or one port for all nodes."""
        own = self.section.section("ports")
        ports: dict[str, list[Port | None]] = {}
        if own:
            for rail, (_key, value) in own.mapping.entries.items():
                ports[rail] = [None] if value.null else self._override(own, rail, value)
        return ports

    def _override(self, own: Section, rail: str, value: Value) -> list[Port | None]:
        """Return the port of each node, or one for all nodes; an empty list if it could not be read."""
        path = own.path + (rail,)
        # With aliases, a value can be larger than the file.
        written = value.written if value.size <= MAX_REPEATED else path
        if written in self.known:
            return [self.known[written].at(rail, path)]
        section = own.section(rail)
        if section is None:
            return []
        texts = port_texts(section)
        section.done()
        if not any("[" in text for values in texts.values() for text, _place in values):
            port = make_port(rail, path, texts, self.report)
            if not self.report.within(path):
                self.known[written] = port
            return [port]
        expanded = {
            key: [(along(text, place, self.names, self.report), place) for text, place in values]
            for key, values in texts.items()
        }
        expansions = [texts_of for values in expanded.values() for texts_of, _place in values]
        if not all(expansions):
            return []
        ports: list[Port | None] = []
        for at in range(self.count if any(len(texts_of) > 1 for texts_of in expansions) else 1):
            of_node: Texts = {
                key: [(_at(texts_of, at), place) for texts_of, place in values] for key, values in expanded.items()
            }
            ports.append(make_port(rail, path, of_node, self.report))
        return ports


def _at(values: t.Sequence[str], at: int) -> str:
    """Return the value of a node; a single value is that of all nodes."""
    return values[at] if len(values) > 1 else values[0]


NODE_ADDRESS = rule(
    "RY315 invalid-node-address: Node address that is neither an IP address nor a host name",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1:22}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
)


def _management(text: str, path: Path, report: Report) -> str | None:
    """Return a management address or name; None for an invalid text, which is reported."""
    if parse_address(text) is not None:
        return text
    try:
        ipaddress.ip_address(text)
        return text
    except ValueError:
        pass
    if name_syntax.HOST.match(text) and not re.match(r"[0-9.]+\Z", text):
        return text
    message = "%s is neither an IP address nor a host name" % shown(text)
    report.add(NODE_ADDRESS, path, message, "write the address by which Ansible reaches the node")
    return None
