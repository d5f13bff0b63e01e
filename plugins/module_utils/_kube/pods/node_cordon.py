# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Label and cordon nodes with failed rails until they are healthy again.

Only our own cordons are removed: a node that another user cordoned stays cordoned. The label has a separate prefix,
because labels with the prefix of the plan are removed from nodes if they are not planned.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import bad_rails_label
from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import sent_as_one
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import NODES
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import cordon_holders

CORDONED = cordon_holders.HEALTH

Object = t.Dict[str, t.Any]


def patch(rails: t.Sequence[str], unschedulable: bool, manager: str, node: Object) -> Object:
    """Return the merge patch that a node needs; empty if it needs none.

    :param unschedulable: whether a node with failed rails is cordoned.
    :param node: as it was read, at least its metadata and ``spec.unschedulable``.
    """
    value = bad_rails_label.value_of(rails)
    ours = cordon_holders.holder_of(node, CORDONED) is not None
    wanted = bool(value) and unschedulable
    made: Object = {}
    if wanted and not ours:
        # The cordon of another user suffices. The cordon of a drain may end before the rail is repaired.
        drained = cordon_holders.holder_of(node, cordon_holders.REBOOT) is not None
        if drained or not cordon_holders.is_cordoned(node):
            made = cordon_holders.held(CORDONED, "true")
    elif ours and not wanted:
        made = cordon_holders.released(node, CORDONED, manager)
    if (node["metadata"].get("labels") or {}).get(BAD) != value:
        made.setdefault("metadata", {})["labels"] = {BAD: value}
    return made


def cordon(
    server: Server, nodes: t.Mapping[str, t.Sequence[str]], manager: str, check: bool, unschedulable: bool = True
) -> list[Change]:
    """Set labels and cordons of nodes according to their failed rails.

    :param nodes: node -> its failed rails.
    :param unschedulable: whether nodes with failed rails are cordoned, and not only labelled.
    :raises RailyardError: for refusals of the server.
    """
    live = {each["metadata"]["name"]: each for each in server.list(NODES, accept=METADATA)}
    done: list[Change] = []
    for name, rails in nodes.items():
        # metadata suffices to see that a node needs nothing; a cordon is decided with the whole node
        decide = functools.partial(patch, rails, unschedulable, manager)
        if name in live and decide(live[name]):
            node, made = cordon_holders.patched(server, name, manager, check, decide)
            done += _changes(name, node, made)
    return done


def _changes(name: str, node: Object, made: Object) -> list[Change]:
    subject = "Node " + name
    labels = made.get("metadata", {}).get("labels", {})
    before = node["metadata"].get("labels") or {}
    done = [
        Change(subject, "metadata.labels." + key, before.get(key), value, sent_as_one) for key, value in labels.items()
    ]
    if "spec" in made:
        to = bool(made["spec"]["unschedulable"])
        if cordon_holders.is_cordoned(node) != to:
            done.append(Change(subject, "spec.unschedulable", not to, to, sent_as_one))
    return done
