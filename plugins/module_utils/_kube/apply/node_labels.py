# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Labels of nodes. Only labels with our prefix are set, and removed from nodes that left the plan.

Device plugins and policies select nodes by these labels, so a node of another fabric is never relabelled.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    first_of,
    selected,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.pace import Pace

KIND = ("v1", "Node")
NODES = Resource("/api/v1", "nodes", False)
Labels = t.Mapping[str, str]
# Maximum number of nodes named in a line.
_SHOWN = 5


class Labelling:
    """``wanted``: node -> labels. Nodes with the labels ``ours`` that are not in it lose all labels with ``prefix``."""

    def __init__(self, server: Server, wanted: t.Mapping[str, Labels], ours: Labels, prefix: str, manager: str) -> None:
        self.server = server
        self.wanted = wanted
        self.ours = ours
        self.prefix = prefix
        self.manager = manager
        self.missing: list[str] = []
        self.done: list[Change] = []

    def observed(self) -> dict[str, Labels]:
        """Return node -> its labels.

        :raises RailyardError: for planned nodes that have another fabric's labels.
        """
        live = {
            each["name"]: each.get("labels") or {}
            for each in self.server.list(NODES, accept=METADATA, keep=lambda node: node["metadata"])
        }
        self.missing = [name for name in self.wanted if name not in live]
        raise_all(list(_anothers(self.wanted, live, self.ours)))
        return live

    def run(self, check: bool, say: Say) -> None:
        """Patch the nodes whose labels differ.

        :raises RailyardError: for all refusals; for nodes of another fabric, before anything is sent.
        """
        live = self.observed()
        each(
            lambda change: self._patch(change, check),
            patches(self.wanted, live, self.ours, self.prefix),
            self.server.connections,
            say,
            "labelling nodes",
            Pace(self.server.connections),
        )
        self.done.sort(key=lambda change: (change.subject, change.attribute))

    def _patch(self, patch: tuple[str, dict[str, str | None], Labels], check: bool) -> None:
        name, labels, before = patch
        self.server.merge(NODES, Key(*KIND, "", name), {"metadata": {"labels": labels}}, self.manager, check)
        self.done.extend(
            Change("Node " + name, "metadata.labels.%s" % key, before.get(key), value, sent_as_one)
            for key, value in labels.items()
        )


def _anothers(wanted: t.Iterable[str], live: t.Mapping[str, Labels], ours: Labels) -> t.Iterator[RailyardError]:
    """Yield an error for each planned node that belongs to another fabric."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in wanted:
        for key, value in ours.items():
            carried = live.get(name, {}).get(key, value)
            if carried != value:
                found.setdefault((key, carried), []).append(name)
    for (key, carried), names in found.items():
        yield Refused(
            "in this plan, and labelled for another one: %s=%s" % (key, carried),
            "Node %s" % first_of(names, _SHOWN),
            "remove the nodes from the fabric file of %s and apply that first, or tear %s down; if that fabric is"
            " gone: kubectl label node NODE %s-" % (carried, carried, key),
        )


def patches(
    wanted: t.Mapping[str, Labels], live: t.Mapping[str, Labels], ours: Labels, prefix: str
) -> list[tuple[str, dict[str, str | None], Labels]]:
    """Return node, label -> value to set (None: to remove), and current labels of each node that differs."""
    found = []
    for name, has in live.items():
        if name not in wanted and not selected({"metadata": {"labels": has}}, ours):
            continue
        labels: dict[str, str | None] = {
            key: value for key, value in wanted.get(name, {}).items() if has.get(key) != value
        }
        labels.update({key: None for key in has if key.startswith(prefix) and key not in wanted.get(name, {})})
        if labels:
            found.append((name, labels, has))
    return found
