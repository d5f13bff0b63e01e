# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The addresses of rails as the import has them, on their way from pools to a fabric file."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Net

SUBNET, BLOCK, PREFIX, LINK, NONE = "subnet", "block", "prefix", "link", "none"


@dataclass
class Addressed:
    """One family of one rail."""

    net: Net
    gateway: int | None = None
    # ranges, apart; what is in ``taken`` is not for pods even where a range holds it
    pods: list[pool_ranges.Run] = field(default_factory=list)
    hosts: list[pool_ranges.Run] = field(default_factory=list)
    taken: dict[str, list[pool_ranges.Run]] = field(default_factory=dict)
    note: str = ""

    @property
    def given(self) -> list[pool_ranges.Run]:
        """The addresses that pods get."""
        return pool_ranges.without(self.pods, self.held)

    @property
    def held(self) -> list[pool_ranges.Run]:
        """The addresses that are taken."""
        return [run for runs in self.taken.values() for run in runs]


@dataclass
class Addressing:
    """``rails``: IP version -> place of the rail, from 1 -> its addresses. ``indexes``: node -> its index."""

    mode: str = SUBNET
    node_prefix: int | None = None
    block: int | None = None
    gateway: str | None = None
    host: str | None = None
    leaf_end: str | None = None
    pods_per_node: int | None = None
    rails: dict[int, dict[int, Addressed]] = field(default_factory=lambda: {4: {}, 6: {}})
    indexes: dict[str, int] = field(default_factory=dict)
    # place of a rail without a subnet -> what to decide
    proposed: dict[int, str] = field(default_factory=dict)


def exclude(rail: Addressed, name: str, runs: t.Sequence[pool_ranges.Run]) -> None:
    """Note runs as taken of the rail, under a name that a fabric file can have."""
    runs = pool_ranges.without(runs, rail.held)
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-") or "taken"
    if runs:
        rail.taken[word] = rail.taken.get(word, []) + runs
