# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Labels of nodes. Only labels with our prefix are set, and removed from nodes that left the plan if we set them.

Device plugins and policies select nodes by these labels, so a node of another fabric is never relabelled.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Exists
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Object,
    first_of,
    selected,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.pace import Pace
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import owned_labels

KIND = ("v1", "Node")
NODES = Resource("/api/v1", "nodes", False)
Labels = t.Mapping[str, str]
# Node, label -> value to set (None: to remove), and current labels.
Patch = t.Tuple[str, t.Dict[str, t.Optional[str]], Labels]
# Seconds before a node is read again that changed between the read and the patch.
_PAUSES = (0.0, 0.1, 0.3, 1.0, 3.0)
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
        self.warnings: list[str] = []
        self._versions: dict[str, str] = {}
        self._others: dict[str, frozenset[str]] = {}

    def observed(self) -> dict[str, Labels]:
        """Return node -> its labels.

        :raises RailyardError: for planned nodes that have another fabric's labels.
        """
        live = self._read()
        self.missing = [name for name in self.wanted if name not in live]
        raise_all(list(_anothers(self.wanted, live, self.ours)))
        return live

    def _read(self, fields: str = "") -> dict[str, Labels]:
        """Return node -> its labels, and store its version and the labels with our prefix that others set."""
        live: dict[str, Labels] = {}
        for node in self.server.list(NODES, accept=METADATA, keep=self._kept, fields=fields):
            live[node["name"]] = node["labels"]
            self._versions[node["name"]] = node["version"]
            self._others[node["name"]] = node["others"]
        return live

    def _kept(self, node: Object) -> Object:
        metadata = node["metadata"]
        labels = metadata.get("labels") or {}
        own = owned_labels(node, self.manager)
        others = frozenset(key for key in labels if key.startswith(self.prefix) and key not in own)
        version = metadata.get("resourceVersion") or ""
        return {"name": metadata["name"], "labels": labels, "version": version, "others": others}

    def run(self, check: bool, say: Say) -> None:
        """Patch the nodes whose labels differ.

        :raises RailyardError: for all refusals; for nodes of another fabric, before anything is sent.
        """
        live = self.observed()
        self._warn(live)
        each(
            lambda change: self._patch(change, check),
            self._patches(live),
            self.server.connections,
            say,
            "labelling nodes",
            Pace(self.server.connections),
        )
        self.done.sort(key=lambda change: (change.subject, change.attribute))

    def _patches(self, live: t.Mapping[str, Labels]) -> list[Patch]:
        return patches(self.wanted, live, self.ours, self.prefix, self._others)

    def _warn(self, live: t.Mapping[str, Labels]) -> None:
        """Add a warning for the labels that stay because others set them."""
        found: dict[str, list[str]] = {}
        all_of_them = {name: labels for name, labels, _has in patches(self.wanted, live, self.ours, self.prefix)}
        for name, labels in all_of_them.items():
            for key, value in labels.items():
                if value is None and key in self._others[name]:
                    found.setdefault(key, []).append(name)
        self.warnings += [
            "Node %s: the label %s is not planned, was not set by Railyard, and is kept. Remedy: kubectl label node %s"
            " %s-, if nothing needs it" % (first_of(names, _SHOWN), key, names[0], key)
            for key, names in found.items()
        ]

    def _patch(self, patch: Patch, check: bool) -> None:
        """Send the patch of a node. A node that changed since it was read is read and decided again."""
        name, labels, before = patch
        for pause in (*_PAUSES, None):
            version = self._versions[name]
            metadata: Object = {"labels": labels, **({"resourceVersion": version} if version else {})}
            try:
                self.server.merge(NODES, Key(*KIND, "", name), {"metadata": metadata}, self.manager, check)
                break
            except Exists:
                if pause is None:
                    raise
            time.sleep(pause)
            live = self._read("metadata.name=%s" % name)
            raise_all(list(_anothers([name] if name in self.wanted else [], live, self.ours)))
            again = [each for each in self._patches(live) if each[0] == name]
            if not again:
                return
            name, labels, before = again[0]
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
    wanted: t.Mapping[str, Labels],
    live: t.Mapping[str, Labels],
    ours: Labels,
    prefix: str,
    others: t.Mapping[str, t.Container[str]] | None = None,
) -> list[Patch]:
    """Return the patch of each node that differs.

    :param others: node -> labels that others set, which are not removed.
    """
    found = []
    for name, has in live.items():
        if name not in wanted and not selected({"metadata": {"labels": has}}, ours):
            continue
        labels: dict[str, str | None] = {
            key: value for key, value in wanted.get(name, {}).items() if has.get(key) != value
        }
        stay = (others or {}).get(name, ())
        labels.update(
            {key: None for key in has if key.startswith(prefix) and key not in wanted.get(name, {}) and key not in stay}
        )
        if labels:
            found.append((name, labels, has))
    return found
