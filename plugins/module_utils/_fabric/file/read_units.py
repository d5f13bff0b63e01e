# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the section ``units``: scalable units with their places and leaves."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import label, template
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import NO_DOMAIN, Fabric, Unit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section

MAX_UNITS = 4096
MAX_PLACES = 65536
# n: rail number; c: NIC of the rail; p: plane; k: rail number with NICs and planes counted; u: unit number;
# m: member of a bond; i: place in the unit
LEAF_FIELDS = ("n", "c", "p", "k", "u", "m")
PORT_FIELDS = (*LEAF_FIELDS, "i")
LEAF_TEXTS = ("rail", "unit")


HOST_RANGE = rule(
    "RY206 invalid-host-range: Invalid host range",
    """
nodes:
  ai-[2:1]: {profile: hgx}
""",
    example_file.NODES,
)


def host_range(text: str, path: Path, report: Report) -> name_syntax.HostRange | None:
    """Return the names of a pattern; None for an invalid range, which is reported."""
    try:
        return name_syntax.HostRange(text)
    except name_syntax.BadRange as error:
        message = "%s cannot be expanded: %s" % (shown(text), error)
        report.add(HOST_RANGE, path, message, "write it as [1:16] or [01:16]")
        return None


RANGE_LENGTH = rule(
    "RY207 range-length-mismatch: Ranges of different lengths in one entry",
    """
nodes:
  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:4]"}
""",
    example_file.NODES,
)


def along(
    text: str | None, path: Path, nodes: name_syntax.HostRange, report: Report, outer: bool = False, inner: bool = False
) -> list[str]:
    """Return the expansions of a text with host ranges: one for each node, or one for all nodes.

    Return an empty list without a text, and for an invalid text, which is reported.

    :param outer: the text can have one value for each value of the first ranges of the names, such as the unit of
        ``su[1:4]-[01:32]``.
    :param inner: the text can have one value for each value of the last range of the names.
    """
    if text is None:
        return []
    count = len(nodes)
    values = host_range(text, path, report)
    if values is None:
        return []
    size = len(values)
    if not values.ranges or size == count:
        return list(values)
    last = nodes.last
    if outer and nodes.ranges > 1 and size * last == count:
        return [value for value in values for _repeat in range(last)]
    if inner and nodes.ranges > 1 and size == last:
        return list(values) * (count // last)
    message = "%s has %d values for %d nodes" % (shown(text), size, count)
    report.add(RANGE_LENGTH, path, message, "write as many values as nodes")
    return []


def entries_of(
    section: Section, remedy: str, report: Report
) -> t.Iterator[tuple[str, Path, name_syntax.HostRange, Section | None]]:
    """Yield key, path, names and value of each entry of a section whose keys are names or ranges of names."""
    for pattern in section.mapping.entries:
        path = section.path + (pattern,)
        own = section.section(pattern, remedy)
        names = host_range(pattern, path, report)
        if names is not None:
            yield pattern, path, names, own


INVALID_DOMAIN = rule(
    "RY629 nvlink-domain-name: Invalid name of an NVLink domain",
    "nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: Rack 1}\n",
    "nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: rack1}\n",
)


def read_domain(name: str | None, path: Path, report: Report, null: bool = False) -> str | None:
    """Return the name of an NVLink domain. An invalid name is reported.

    :param path: of the unit, group or node.
    :param null: whether the file sets the key to null, which removes the domain of the unit or group.
    """
    if null:
        return NO_DOMAIN
    if name is not None:
        label(name, path + ("nvlink_domain",), INVALID_DOMAIN, "an NVLink domain", report)
    return name


UNIT_NUMBER = rule(
    "RY421 missing-unit-number: Unit without a unique number",
    "units:\n  north: {nodes: 32}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: north}\n",
    "units:\n  north: {nodes: 32, number: 1}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: north}\n",
    why="The addresses of a unit are derived from its number, so the number must not change when units are added.",
)


def read_units(fabric: Fabric, section: Section, report: Report) -> None:
    total = 0
    remedy = "set the number of its places, such as {nodes: 32}"
    for pattern, path, names, own in entries_of(section, remedy, report):
        total += len(names)
        if total > MAX_UNITS:
            message = "with %s there are %d units; the maximum is %d" % (shown(pattern), total, MAX_UNITS)
            report.add(UNIT_NUMBER, path, message, "correct the range")
            return
        if own:
            _read_pattern(fabric, names, own, report)


UNIT_NAME = rule(
    "RY214 unit-name: Invalid unit name",
    """
units:
  SU_1: {nodes: 32}
nodes:
  ai-[1:2]: {profile: hgx, unit: SU_1}
""",
    """
units:
  su1: {nodes: 32}
nodes:
  ai-[1:2]: {profile: hgx, unit: su1}
""",
)


def _read_pattern(fabric: Fabric, names: name_syntax.HostRange, section: Section, report: Report) -> None:
    path = section.path
    count = len(names)
    site = section.text("site")
    nodes = section.number(
        "nodes", 1, MAX_PLACES, "nodes", "set the number of places for nodes, which does not change later"
    )
    number = section.number("number", 1, MAX_UNITS)
    if number and count > 1:
        message = "%d is one number for %d units" % (number, count)
        report.add(UNIT_NUMBER, path + ("number",), message, "remove number: it is derived from the names")
        number = None
    domains = along(section.text("nvlink_domain"), path + ("nvlink_domain",), names, report)
    leaf, leaf_port = (section.text(key) for key in ("leaf", "leaf_port"))
    leaf_form = template(leaf, path + ("leaf",), LEAF_FIELDS, LEAF_TEXTS, report) if leaf else None
    port_form = template(leaf_port, path + ("leaf_port",), PORT_FIELDS, LEAF_TEXTS, report) if leaf_port else None
    leaves = {}
    own = section.section("leaves")
    for rail in own.mapping.entries if own else ():
        text = own.text(rail) if own else None
        if text is not None:
            leaves[rail] = text
    section.done()
    for at, (name, range_number) in enumerate(names.numbered()):
        label(name, path, UNIT_NAME, "a unit", report)
        if name in fabric.units:
            report.add(UNIT_NUMBER, path, "%s is in two entries" % shown(name), "write it in one entry only")
            continue
        own_number = number or (range_number if names.ranges == 1 else None) or name_syntax.trailing_number(name)
        if not own_number:
            message = "the name %s has no number from 1" % shown(name)
            report.add(UNIT_NUMBER, path, message, "set number, which the unit keeps")
            own_number = 0
        domain = read_domain(domains[at if len(domains) > 1 else 0], path, report) if domains else None
        fabric.units[name] = Unit(name, own_number, path, site, nodes, leaf_form, port_form, leaves, domain)
