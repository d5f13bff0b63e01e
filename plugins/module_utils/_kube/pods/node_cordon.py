# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Nodes with a bad rail: labelled, and kept free of new pods, until they are well again.

Only what this did itself is taken back: a node that somebody else has cordoned stays so. The label has a prefix of its
own, because those of the plan are taken from a node where the plan does not have them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import KIND, NODES

BAD = "health.railyard.fabric/bad-rails"
CORDONED = "health.railyard.fabric/cordoned"
# The most that a label's value may have.
LONGEST = 63

Object = t.Dict[str, t.Any]


def label(rails: t.Sequence[str]) -> str | None:
    """The rails as a label's value: those that there is room for, and ``more``; None for none."""
    if not rails:
        return None
    value = ".".join(rails)
    kept = list(rails)
    while len(value) > LONGEST:
        kept.pop()
        value = ".".join([*kept, "more"])
    return value


def patch(rails: t.Sequence[str], metadata: t.Mapping[str, t.Any], cordoned: t.Callable[[], bool]) -> Object:
    """The merge patch that a node needs; empty where it needs none.

    :param metadata: the node's, with ``labels`` and ``annotations``.
    :param cordoned: whether the node takes no new pods now; asked only where that decides something.
    """
    value = label(rails)
    ours = CORDONED in (metadata.get("annotations") or {})
    made: Object = {}
    if (metadata.get("labels") or {}).get(BAD) != value:
        made["metadata"] = {"labels": {BAD: value}}
    if value and not ours and not cordoned():
        made.setdefault("metadata", {})["annotations"] = {CORDONED: "true"}
        made["spec"] = {"unschedulable": True}
    elif not value and ours:
        made.setdefault("metadata", {})["annotations"] = {CORDONED: None}
        made["spec"] = {"unschedulable": None}
    return made


def cordon(server: Server, nodes: t.Mapping[str, t.Sequence[str]], manager: str, check: bool) -> list[Change]:
    """Bring the nodes' labels and cordons to what is known of their rails.

    :param nodes: node -> its bad rails.
    :raises RailyardError: for what the server refuses.
    """
    live = {each["metadata"]["name"]: each["metadata"] for each in server.list(NODES, accept=METADATA)}
    done: list[Change] = []
    for name, rails in nodes.items():
        if name not in live:
            continue

        def is_cordoned(node: str = name) -> bool:
            return bool(server.get(NODES.of(name=node), "nodes", node)["spec"].get("unschedulable"))

        made = patch(rails, live[name], is_cordoned)
        if made:
            server.merge(NODES, Key(*KIND, "", name), made, manager, check)
            done += _changes(name, live[name], made)
    return done


def _changes(name: str, metadata: t.Mapping[str, t.Any], made: Object) -> list[Change]:
    subject = "Node " + name
    labels = made.get("metadata", {}).get("labels", {})
    before = metadata.get("labels") or {}
    done = [Change(subject, "metadata.labels." + key, before.get(key), value, _sent) for key, value in labels.items()]
    if "spec" in made:
        to = bool(made["spec"]["unschedulable"])
        done.append(Change(subject, "spec.unschedulable", not to, to, _sent))
    return done


def _sent() -> None:
    raise NotImplementedError("a patch is sent as one")
