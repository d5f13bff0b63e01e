# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cordons of nodes and their holders: a drain before a reboot, and a bad rail.

Each holder sets an annotation. A node is uncordoned only after its last holder has released it, and the cordon of
another user stays. Each patch contains the resourceVersion of the node that was read: if the node changed since then,
it is read and decided again.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Gone
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import repeated
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, Object, version_of
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import KIND, NODES

REBOOT = "reboot.railyard.fabric/cordoned"
HEALTH = "health.railyard.fabric/cordoned"
_HOLDERS = (REBOOT, HEALTH)


def is_cordoned(node: Object) -> bool:
    """Return whether the node is unschedulable."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def holder_of(node: Object, holder: str) -> str | None:
    """Return the value of a holder's annotation; None without it."""
    value = (node["metadata"].get("annotations") or {}).get(holder)
    return None if value is None else str(value)


def held(holder: str, value: str) -> Object:
    """Return the patch by which a holder cordons a node, or holds the cordon of another holder too."""
    return {"metadata": {"annotations": {holder: value}}, "spec": {"unschedulable": True}}


def released(node: Object, holder: str, manager: str) -> Object:
    """Return the patch by which a holder releases a node.

    The node stays cordoned if another holder needs it, or if another user cordoned it after our cordon was removed.
    """
    patch: Object = {"metadata": {"annotations": {holder: None}}}
    others = [each for each in _HOLDERS if each != holder and holder_of(node, each) is not None]
    managers = [
        entry.get("manager")
        for entry in node["metadata"].get("managedFields") or ()
        if "f:unschedulable" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    if not others and (not managers or manager in managers):
        patch["spec"] = {"unschedulable": None}
    return patch


def read(server: Server, node: str) -> Object:
    """Return a node.

    :raises RailyardError: if the cluster does not have it, and for refusals of the server.
    """
    try:
        return server.get(NODES.of(name=node), "nodes", "Node %s" % node)
    except Gone:
        raise RailyardError(
            "the cluster has no node of this name",
            "Node %s" % node,
            "compare the plan's names with 'kubectl get nodes', or drain by hand and run without reboot_drain",
        ) from None


def patched(
    server: Server, node: str, manager: str, check: bool, decide: t.Callable[[Object], Object]
) -> tuple[Object, Object]:
    """Read a node, and send the patch that ``decide`` returns for it.

    :param check: send it as a dry run.
    :return: the node as it was read, and the patch, which is empty if none was required.
    :raises RailyardError: if the node changes during each try, and for refusals of the server.
    """

    def send() -> tuple[Object, Object]:
        found = read(server, node)
        made = decide(found)
        if made:
            server.merge(NODES, Key(*KIND, "", node), made, manager, check, version_of(found))
        return found, made

    return repeated(send)
