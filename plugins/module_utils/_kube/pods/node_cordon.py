# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Label and cordon nodes with failed rails until they are healthy again.

Only our own cordons are removed: a node that another user cordoned stays cordoned. The label has a separate prefix,
because labels with the prefix of the plan are removed from nodes if they are not planned.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import bad_rails_label
from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, sent_as_one
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import KIND, NODES

CORDONED = "health.railyard.fabric/cordoned"

Object = t.Dict[str, t.Any]


def patch(
    rails: t.Sequence[str], unschedulable: bool, metadata: t.Mapping[str, t.Any], cordoned: t.Callable[[], bool]
) -> Object:
    """Return the merge patch that a node needs; empty if it needs none.

    :param unschedulable: whether a node with failed rails is cordoned.
    :param metadata: the node's, with ``labels`` and ``annotations``.
    :param cordoned: returns whether the node is unschedulable; called only if that matters.
    """
    value = bad_rails_label.value_of(rails)
    ours = CORDONED in (metadata.get("annotations") or {})
    made: Object = {}
    if (metadata.get("labels") or {}).get(BAD) != value:
        made["metadata"] = {"labels": {BAD: value}}
    wanted = bool(value) and unschedulable
    if wanted and not ours and not cordoned():
        made.setdefault("metadata", {})["annotations"] = {CORDONED: "true"}
        made["spec"] = {"unschedulable": True}
    elif ours and not wanted:
        made.setdefault("metadata", {})["annotations"] = {CORDONED: None}
        made["spec"] = {"unschedulable": None}
    return made


def cordon(
    server: Server, nodes: t.Mapping[str, t.Sequence[str]], manager: str, check: bool, unschedulable: bool = True
) -> list[Change]:
    """Set labels and cordons of nodes according to their failed rails.

    :param nodes: node -> its failed rails.
    :param unschedulable: whether nodes with failed rails are cordoned, and not only labelled.
    :raises RailyardError: for refusals of the server.
    """
    live = {each["metadata"]["name"]: each["metadata"] for each in server.list(NODES, accept=METADATA)}
    done: list[Change] = []
    for name, rails in nodes.items():
        if name not in live:
            continue

        def is_cordoned(node: str = name) -> bool:
            return bool(server.get(NODES.of(name=node), "nodes", node)["spec"].get("unschedulable"))

        made = patch(rails, unschedulable, live[name], is_cordoned)
        if made:
            server.merge(NODES, Key(*KIND, "", name), made, manager, check)
            done += _changes(name, live[name], made)
    return done


def _changes(name: str, metadata: t.Mapping[str, t.Any], made: Object) -> list[Change]:
    subject = "Node " + name
    labels = made.get("metadata", {}).get("labels", {})
    before = metadata.get("labels") or {}
    done = [
        Change(subject, "metadata.labels." + key, before.get(key), value, sent_as_one) for key, value in labels.items()
    ]
    if "spec" in made:
        to = bool(made["spec"]["unschedulable"])
        done.append(Change(subject, "spec.unschedulable", not to, to, sent_as_one))
    return done
