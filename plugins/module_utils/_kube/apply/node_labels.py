# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels of nodes. Only labels with our prefix are set, and removed from nodes that left the plan if we set them.

Device plugins and policies select nodes by these labels, so a node of another fabric is never relabelled.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Exists
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Pace, Say, each, repeated
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Object,
    first_of,
    selected,
    sent_as_one,
    version_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import owned_labels

KIND = ("v1", "Node")
NODES = Resource("/api/v1", "nodes", False)
Labels = t.Mapping[str, str]
# Node, label -> value to set (None: to remove), and current labels.
Patch = t.Tuple[str, t.Dict[str, t.Optional[str]], Labels]
# Maximum number of nodes named in a line.
_SHOWN = 5


class Observed(t.NamedTuple):
    """A node as it was read. ``others``: its labels with our prefix that others set."""

    labels: Labels
    version: str
    others: frozenset[str]


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
        # Label that is not planned and that others set -> its nodes.
        self._kept: dict[str, set[str]] = {}

    @property
    def warnings(self) -> list[str]:
        """A warning for each label that stays because others set it."""
        return [
            "Node %s: the label %s is not planned, was not set by Railyard, and is kept. Remedy: kubectl label node %s"
            " %s-, if nothing needs it" % (first_of(sorted(names), _SHOWN), key, min(names), key)
            for key, names in sorted(self._kept.items())
        ]

    def observed(self) -> dict[str, Observed]:
        """Return the nodes by their names.

        :raises RailyardError: for planned nodes that have another fabric's labels.
        """
        live = self._read()
        self.missing = [name for name in self.wanted if name not in live]
        raise_all(list(_anothers(self.wanted, live, self.ours)))
        return live

    def _read(self, fields: str = "") -> dict[str, Observed]:
        def keep(node: Object) -> Object:
            labels, own = node["metadata"].get("labels") or {}, owned_labels(node, self.manager)
            others = frozenset(key for key in labels if key.startswith(self.prefix) and key not in own)
            return {node["metadata"]["name"]: Observed(labels, version_of(node), others)}

        rows = self.server.list(NODES, accept=METADATA, keep=keep, fields=fields)
        return {name: node for row in rows for name, node in row.items()}

    def run(self, check: bool, say: Say) -> None:
        """Patch the nodes whose labels differ.

        :raises RailyardError: for all refusals; for nodes of another fabric, before anything is sent.
        """
        live = self.observed()
        each(
            lambda patch: self._patch(patch, live, check),
            self._patches(live),
            self.server.connections,
            say,
            "labelling nodes",
            Pace(self.server.connections),
        )
        self.done.sort(key=lambda change: (change.subject, change.attribute))

    def _patches(self, live: t.Mapping[str, Observed]) -> list[Patch]:
        """Return the patch of each node that differs, without the removal of labels that others set."""
        found = []
        for name, labels, has in patches(
            self.wanted, {name: node.labels for name, node in live.items()}, self.ours, self.prefix
        ):
            stay = {key for key, value in labels.items() if value is None and key in live[name].others}
            for key in stay:
                self._kept.setdefault(key, set()).add(name)
            if stay != set(labels):
                found.append((name, {key: value for key, value in labels.items() if key not in stay}, has))
        return found

    def _patch(self, patch: Patch, live: t.Mapping[str, Observed], check: bool) -> None:
        """Send the patch of a node. If the node changed since it was read, it is read and decided again."""

        def again() -> None:
            now = self._read("metadata.name=%s" % patch[0])
            raise_all(list(_anothers(self.wanted, now, self.ours)))
            for changed in self._patches(now):
                self._send(changed, now, check)

        try:
            self._send(patch, live, check)
        except Exists:
            repeated(again)

    def _send(self, patch: Patch, live: t.Mapping[str, Observed], check: bool) -> None:
        name, labels, before = patch
        node, body = Key(*KIND, "", name), {"metadata": {"labels": labels}}
        self.server.merge(NODES, node, body, self.manager, check, live[name].version)
        self.done.extend(
            Change("Node " + name, "metadata.labels.%s" % key, before.get(key), value, sent_as_one)
            for key, value in labels.items()
        )


def _anothers(wanted: t.Iterable[str], live: t.Mapping[str, Observed], ours: Labels) -> t.Iterator[RailyardError]:
    """Yield an error for each planned node that belongs to another fabric."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in wanted:
        has = live[name].labels if name in live else {}
        for key, value in ours.items():
            carried = has.get(key, value)
            if carried != value:
                found.setdefault((key, carried), []).append(name)
    for (key, carried), names in found.items():
        yield Refused(
            "in this plan, and labelled for another one: %s=%s" % (key, carried),
            "Node %s" % first_of(names, _SHOWN),
            "remove the nodes from the fabric file of %s and apply that first, or tear %s down; if that fabric is"
            " gone: kubectl label node NODE %s-" % (carried, carried, key),
        )


def patches(wanted: t.Mapping[str, Labels], live: t.Mapping[str, Labels], ours: Labels, prefix: str) -> list[Patch]:
    """Return the patch of each node that differs."""
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
