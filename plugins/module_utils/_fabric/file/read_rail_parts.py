# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the keys ``nics`` and ``planes``, which divide a rail into parts that are planned by themselves."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import BALANCINGS, HARDWARE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping

PLANES, NICS = (1, 2, 4, 8), (1, 2, 4)


class Part(t.NamedTuple):
    """A part of a rail that is planned by itself: a NIC, or a plane of it that has its own network.

    ``device_planes``: the planes over which the NIC itself distributes packets. ``sections``: the sections of the part
    itself, the plane before the NIC. ``fields``: values of the fields of its templates.
    """

    nic: int = 1
    nics: int = 1
    plane: int = 1
    planes: int = 1
    device_planes: int = 1
    sections: tuple[Section, ...] = ()
    fields: t.Mapping[str, int] = {}


class _Planes(t.NamedTuple):
    """The planes of a NIC. ``sections``: of each plane with its own network; None for a plane without keys."""

    sections: t.Sequence[Section | None] = (None,)
    device_planes: int = 1
    has_field: bool = False


INVALID_PLANES = rule(
    "RY419 invalid-planes: Invalid number of planes or NICs",
    """
rails: {count: 2, name: "gpu{n:02}", planes: 3, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}
""",
    """
rails: {count: 1, name: "gpu{n:02}", planes: 2, subnet: "10.{p}.{n}.0/24", hosts: .201-.253}
profiles:
  hgx: {ports: {gpu01p1: {netdev: nic1}, gpu01p2: {netdev: nic2}}}
""",
)


def read_parts(section: Section, report: Report) -> list[Part]:
    """Return the parts of a rail, in the order of NICs, and of the planes of each."""
    nics, planes = _nics(section, report), _planes(section, report)
    found = []
    for nic, of_nic in enumerate(nics, 1):
        of_planes = _planes(of_nic, report) if of_nic and of_nic.has("planes") else planes
        for plane, of_plane in enumerate(of_planes.sections, 1):
            fields = {"c": nic} if section.has("nics") else {}
            fields.update({"p": plane} if of_planes.has_field else {})
            sections = tuple(each for each in (of_plane, of_nic) if each)
            size = (len(of_planes.sections), of_planes.device_planes)
            found.append(Part(nic, len(nics), plane, *size, sections, fields))
    return found


def _nics(section: Section, report: Report) -> t.Sequence[Section | None]:
    """Return the section of each NIC of a rail; None for a NIC without keys."""
    items = section.items("nics")
    if items is None:
        count = _count(section, report, "nics", NICS, "NICs of a rail")
        return [None] * (count or 1)
    if len(items) not in NICS:
        _report_count(report, section.path + ("nics",), str(len(items)), NICS, "NICs of a rail")
        return [None]
    for item in items:
        if item:
            item.value("planes")
    return items


def _planes(section: Section, report: Report) -> _Planes:
    """Return the planes of the NICs of a rail."""
    items = section.items("planes")
    if items is not None:
        if len(items) in PLANES:
            return _Planes(items, has_field=True)
        _report_count(report, section.path + ("planes",), str(len(items)), PLANES, "planes")
        return _Planes(has_field=True)
    if not isinstance(section.value("planes"), Mapping):
        count = _count(section, report, "planes", PLANES, "planes")
        return _Planes([None] * (count or 1), has_field=section.has("planes"))
    own = section.section("planes")
    if own is None:
        return _Planes()
    count = _count(own, report, "count", PLANES, "planes", "set the number of planes")
    balancing = own.choice("balancing", BALANCINGS)
    # software is the default, so a misspelt key or value probably means hardware
    misspelt = balancing is None and (own.has("balancing") or own.misspelt("balancing"))
    own.done()
    if count is None:
        return _Planes()
    if balancing == HARDWARE or misspelt:
        return _Planes(device_planes=count)
    return _Planes([None] * count, has_field=True)


def _count(
    section: Section, report: Report, key: str, counts: t.Sequence[int], things: str, required: str = ""
) -> int | None:
    """Return a number of NICs or planes; None if the key is absent or invalid."""
    text = section.text(key, required)
    if text is None or text in map(str, counts):
        return int(text) if text else None
    _report_count(report, section.path + (key,), shown(text), counts, things)
    return None


def _report_count(report: Report, path: Path, text: str, counts: t.Sequence[int], things: str) -> None:
    message = "%s is not a valid number of %s" % (text, things)
    remedy = "write %s or %d, or a list with an entry for each" % (", ".join(map(str, counts[:-1])), counts[-1])
    report.add(INVALID_PLANES, path, message, remedy)
