# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY42x: units, places and leaves. RY85x: the topology that schedulers get from units."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import UNIT_NUMBER
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import label_value
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.hosts.interface_rules import shares_netdev
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Port, Unit
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.leaves import Leaves
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    did_you_mean,
    nearest,
    remedy_of,
)

_UNITS = "units:\n  su[1:2]: {nodes: 32}\n"

_NODES = 'nodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "su[1:2]"}\n'

_GOOD = _UNITS + _NODES

# A fabric without Kubernetes, with rails without pods.
_SLURM = (
    "fabric: {name: ai, provider: none, mtu: 4200}\n"
    "rails: {gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}, gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253}}\n"
)

GROWN = rule(
    "RY429 more-than-max-nodes: More nodes than max_nodes",
    example_file.fabric(", max_nodes: 1") + "\n",
    example_file.fabric(", max_nodes: 16") + "\n",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.max_nodes and len(fabric.nodes) > fabric.max_nodes:
        message = "max_nodes is %d, and there are %d nodes" % (fabric.max_nodes, len(fabric.nodes))
        report.add(GROWN, ("fabric", "max_nodes"), message, "raise it to the planned number of nodes")
    _numbers(fabric, report)
    _nodes(fabric, report)
    _topology(fabric, report)
    if fabric.units and not report.within(("units",)) and not report.within(("rails",)):
        _leaves(fabric, variants, report)


UNEQUAL = rule(
    "RY422 unit-size-mismatch: Units of different sizes",
    "units:\n  su1: {nodes: 32}\n  su2: {nodes: 16}\n" + _NODES,
    _GOOD,
    why="An index combines the unit's number and the place in the unit, and the aggregates of all leaves have the"
    " same size. A smaller unit leaves places empty, which costs only addresses.",
)

LEAF_UNKNOWN = rule(
    "RY428 leaf-of-undefined-rail: Leaf of an undefined rail",
    "units:\n  su1: {nodes: 32, leaves: {gpu1: leaf-a}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n",
    "units:\n  su1: {nodes: 32, leaves: {gpu01: leaf-a}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n",
)


def _numbers(fabric: Fabric, report: Report) -> None:
    """Report unit numbers, sizes and leaves that are inconsistent."""
    known: dict[int, str] = {}
    size: tuple[str, int] | None = None
    for unit in fabric.units.values():
        first = known.setdefault(unit.number, unit.name) if unit.number else unit.name
        if first != unit.name:
            message = "%s and %s both have the number %d" % (first, unit.name, unit.number)
            report.add(UNIT_NUMBER, unit.path, message, "set number, which must never change")
        if unit.nodes is None:
            continue
        size = size or (unit.name, unit.nodes)
        if unit.nodes != size[1]:
            message = "%s has %d places, but %s has %d" % (unit.name, unit.nodes, size[0], size[1])
            most = max(unit.nodes, size[1])
            report.add(UNEQUAL, unit.path + ("nodes",), message, "set nodes: %d for both" % most)
    rails = {rail.name for rail in fabric.rails}
    for unit in fabric.units.values():
        for name in unit.leaves:
            if rails and name not in rails and not report.within(("rails",)):
                near = nearest(name, rails)
                message = "undefined rail %s%s" % (shown(name), did_you_mean(near))
                remedy = remedy_of(near, "name a rail, or remove the leaf")
                report.add(LEAF_UNKNOWN, unit.path + ("leaves", name), message, remedy)


UNIT_UNKNOWN = rule(
    "RY423 undefined-unit: Undefined unit",
    _UNITS + 'nodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "unit[1:2]"}\n',
    _GOOD,
)

UNIT_MISSING = rule(
    "RY424 node-without-unit: Node without a unit", _UNITS + "nodes:\n  ai-[1:2]: {profile: hgx}\n", _GOOD
)

PLACE_HIGH = rule(
    "RY425 place-outside-unit: Place beyond the size of the unit",
    _UNITS + "nodes:\n  ai-[31:34]: {profile: hgx, unit: su1}\n",
    _UNITS + "nodes:\n  ai-[29:32]: {profile: hgx, unit: su1}\n",
)

PLACE_TWICE = rule(
    "RY426 duplicate-place: Two nodes in the same place of a unit",
    _UNITS + "nodes:\n  ai-1: {profile: hgx, unit: su1}\n  bi-1: {profile: hgx, unit: su1, index: 7}\n",
    _UNITS + "nodes:\n  ai-1: {profile: hgx, unit: su1}\n  bi-2: {profile: hgx, unit: su1}\n",
)


def _nodes(fabric: Fabric, report: Report) -> None:
    """Report nodes with an invalid unit or place."""
    owners: dict[tuple[str, int], Node] = {}
    if report.has(("units",)):
        return
    for node in fabric.nodes:
        if node.unit is None:
            if fabric.units and not report.within(node.path):
                message = "%s has no unit, which its addresses depend on" % node.name
                report.add(
                    UNIT_MISSING, node.path, message, "set unit to one of %s" % ", ".join(list(fabric.units)[:8])
                )
            continue
        unit = fabric.units.get(node.unit)
        path: Path = node.path + ("unit",)
        if unit is None:
            near = nearest(node.unit, fabric.units)
            message = "undefined unit %s%s" % (shown(node.unit), did_you_mean(near))
            remedy = remedy_of(near, "define it in units, or remove unit")
            if not report.within(("units",)):
                report.add(UNIT_UNKNOWN, path, message, remedy)
            continue
        if node.place is None or not unit.nodes:
            continue
        if node.place > unit.nodes:
            message = "%s has place %d, and %s has %d places" % (node.name, node.place, unit.name, unit.nodes)
            report.add(PLACE_HIGH, node.path, message, "set place to a number from 1 to %d" % unit.nodes)
            continue
        first = owners.setdefault((unit.name, node.place), node)
        if first is not node:
            message = "%s and %s both have place %d in %s" % (first.name, node.name, node.place, unit.name)
            beside = sum(1 for each in fabric.nodes if each.path == node.path and each.unit == node.unit)
            form = 'place: "[1:%d]"' % beside if beside > 1 else "place: %d" % (len(owners) + 1)
            remedy = "give each node its own place, which must never change, such as %s" % form
            report.add(PLACE_TWICE, node.path, message, remedy)


SITE_NAME = rule(
    "RY850 site-name: Site name that schedulers cannot use",
    _SLURM + 'units:\n  su[1:2]: {nodes: 32, site: "Hall 1"}\n' + _NODES,
    _SLURM + "units:\n  su[1:2]: {nodes: 32, site: hall1}\n" + _NODES,
    WARNING,
    why="Without Kubernetes, the site is a switch in Slurm's topology.conf, where a blank ends the name. With"
    " Kubernetes, it is a label of nodes, in which other characters become hyphens, so two sites can get the same"
    " label.",
)

SWITCH_TWICE = rule(
    "RY851 duplicate-switch: Fabric, site or unit with the same name",
    _SLURM + "units:\n  su[1:2]: {nodes: 32, site: su1}\n" + _NODES,
    _SLURM + "units:\n  su[1:2]: {nodes: 32, site: hall1}\n" + _NODES,
    WARNING,
    why="Each of them is a switch in Slurm's topology.conf, and slurmctld refuses a file that defines a switch twice.",
)


def _topology(fabric: Fabric, report: Report) -> None:
    """Report sites and units with names that schedulers cannot use."""
    slurm = not facts_of(fabric.provider).kubernetes
    sites: dict[str, Unit] = {}
    labels: dict[str, str] = {}
    for unit in fabric.units.values():
        if unit.site:
            sites.setdefault(unit.site, unit)
    for site, unit in sites.items():
        path, label = unit.path + ("site",), label_value(site)
        first = labels.setdefault(label, site)
        remedy = "write at most 63 letters, digits, hyphens, underscores and dots"
        if not label:
            report.add(SITE_NAME, path, "%s has no character for a label" % shown(site), remedy)
        elif first != site:
            report.add(SITE_NAME, path, "the sites %s and %s get the label %s" % (first, site, label), remedy)
        elif slurm and label != site:
            report.add(SITE_NAME, path, "%s cannot be the name of a switch in topology.conf" % shown(site), remedy)
        if slurm and (site in fabric.units or site == fabric.name):
            message = "the site %s has the name of a unit or of the fabric" % shown(site)
            report.add(SWITCH_TWICE, path, message, "give the site another name")
    if slurm and fabric.name in fabric.units:
        message = "the unit %s has the name of the fabric" % shown(fabric.name)
        report.add(SWITCH_TWICE, fabric.units[fabric.name].path, message, "give the fabric or the unit another name")


LEAF_PORT_TWICE = rule(
    "RY427 duplicate-leaf-port: Two rail ports on the same leaf port",
    'units: {su1: {nodes: 32, leaf: leaf, leaf_port: "swp{i}"}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n',
    'units: {su1: {nodes: 32, leaf: "r{n}", leaf_port: "swp{i}"}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n',
)


def _leaves(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report two rail ports on one leaf port."""
    # Nodes at the same place have the same leaf port, and are reported already.
    if report.within_by(PLACE_TWICE, ("nodes",)) or not any(unit.leaf_port for unit in fabric.units.values()):
        return
    leaves = Leaves(fabric)
    owners: dict[tuple[str, str], tuple[Node, str, int]] = {}
    for node in fabric.nodes:
        variant = variants.of(node)
        unit = fabric.units.get(node.unit or "")
        if not variant or not unit or not unit.leaf_port or not node.place:
            continue
        ports = ports_of(node, variant)
        for rail in fabric.rails:
            if rail.name not in ports:
                continue
            for member in range(1, max(len(ports[rail.name].functions), leaves.planes(rail)) + 1):
                leaf, port = leaves.name(unit, rail, member), leaves.port(unit, rail, node.place, member)
                first = owners.setdefault((leaf, port or ""), (node, rail.name, member))
                if first == (node, rail.name, member) or (first[0] is node and _one_cable(ports, first[1], rail.name)):
                    continue
                message = "%s on %s and %s on %s are both on port %s of %s" % (
                    *(first[0].name, first[1], node.name, rail.name, port),
                    leaf,
                )
                remedy = "use {n}, {c}, {p} and {i} in leaf or leaf_port, so that rails, NICs, planes and places differ"
                if rail.nics == 1:
                    remedy = "use {n}, {p} and {i} in leaf or leaf_port, so that rails, planes and places differ"
                if first[:2] == (node, rail.name):
                    message = "two members of the bond of %s on %s use port %s of %s" % (
                        *(node.name, rail.name, port),
                        leaf,
                    )
                    remedy = "use {m}, the number of the member, in leaf or leaf_port"
                    if rail.device_planes > 1:
                        message = "two planes of %s on %s use port %s of %s" % (node.name, rail.name, port, leaf)
                        remedy = "use {p}, the number of the plane, in leaf or leaf_port"
                report.add(LEAF_PORT_TWICE, unit.path + ("leaf_port",), message, remedy)
                return


def _one_cable(ports: t.Mapping[str, Port], first: str, rail: str) -> bool:
    """Return whether two rails of a node are VLANs of one netdev, so that they have the same cables."""
    return first != rail and shares_netdev(ports[first], ports[rail])
