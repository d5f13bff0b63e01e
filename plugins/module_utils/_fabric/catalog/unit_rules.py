# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY42x: units, places and leaves."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import rule

_UNITS = "units:\n  su[1:2]: {nodes: 32}\n"

_NODES = 'nodes:\n  ai-su[1:2]-[01:02]: {profile: hgx, unit: "su[1:2]"}\n'

_GOOD = _UNITS + _NODES

NUMBER = rule(
    "RY421 missing-unit-number: Unit without a unique number",
    "units:\n  north: {nodes: 32}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: north}\n",
    "units:\n  north: {nodes: 32, number: 1}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: north}\n",
    why="The addresses of a unit are derived from its number, so the number must not change when units are added.",
)

UNEQUAL = rule(
    "RY422 unit-size-mismatch: Units of different sizes",
    "units:\n  su1: {nodes: 32}\n  su2: {nodes: 16}\n" + _NODES,
    _GOOD,
    why="An index combines the unit's number and the place in the unit, and the aggregates of all leaves have the"
    " same size. A smaller unit leaves places empty, which costs only addresses.",
)

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

LEAF_PORT_TWICE = rule(
    "RY427 duplicate-leaf-port: Two rail ports on the same leaf port",
    'units: {su1: {nodes: 32, leaf: leaf, leaf_port: "swp{i}"}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n',
    'units: {su1: {nodes: 32, leaf: "r{n}", leaf_port: "swp{i}"}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n',
)

LEAF_UNKNOWN = rule(
    "RY428 leaf-of-undefined-rail: Leaf of an undefined rail",
    "units:\n  su1: {nodes: 32, leaves: {gpu1: leaf-a}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n",
    "units:\n  su1: {nodes: 32, leaves: {gpu01: leaf-a}}\nnodes:\n  ai-[1:2]: {profile: hgx, unit: su1}\n",
)

GROWN = rule(
    "RY429 more-than-max-nodes: More nodes than max_nodes",
    "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, max_nodes: 1}\n",
    "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, max_nodes: 16}\n",
)
