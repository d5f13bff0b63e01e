# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of rails in the import, between pools and the fabric file."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, Network, Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import without

SUBNET, BLOCK, PREFIX, LINK, NONE = "subnet", "block", "prefix", "link", "none"


@dataclass
class Addressed:
    """The addresses of one family of one rail. ``note``: a comment for the fabric file."""

    net: Network
    gateway: int | None = None
    # disjoint ranges; addresses in ``taken`` are not for pods even if a range of ``pods`` contains them
    pods: list[Range] = field(default_factory=list)
    hosts: list[Range] = field(default_factory=list)
    taken: dict[str, list[Range]] = field(default_factory=dict)
    note: str = ""
    # how the rails of this network divide its ranges; None: each rail has its own
    numbering: str | None = None

    @property
    def for_pods(self) -> list[Range]:
        return without(self.pods, self.all_taken)

    @property
    def all_taken(self) -> list[Range]:
        return [each for ranges in self.taken.values() for each in ranges]


@dataclass
class Addressing:
    """Addresses of all rails. ``rails``: bits -> position of the rail, from 1 -> addresses. ``indexes``: node ->
    index.

    Other attributes are the keys of the fabric file's section ``addresses``.
    """

    mode: str = SUBNET
    node_prefix: int | None = None
    node_aggregate: int | None = None
    block: int | None = None
    gateway: str | None = None
    host: str | None = None
    leaf_end: str | None = None
    pods_per_node: int | None = None
    rails: dict[int, dict[int, Addressed]] = field(default_factory=lambda: {IPV4: {}, IPV6: {}})
    indexes: dict[str, int] = field(default_factory=dict)
    # position of a rail without a subnet -> what the user must decide
    proposed: dict[int, str] = field(default_factory=dict)


def exclude(rail: Addressed, name: str, ranges: t.Iterable[Range]) -> None:
    """Add ranges to ``taken`` of the rail, under a name that is valid in a fabric file."""
    free = without(ranges, rail.all_taken)
    key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-") or "taken"
    if free:
        rail.taken[key] = rail.taken.get(key, []) + free
