# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects of the lab's nodes, for objects that name a node.

No kubelet speaks for them, and they say so: Ready is Unknown with that reason, they are tainted, and they offer no
resources. Nothing is ever scheduled on them.
"""

from __future__ import annotations

import re
from typing import Any

from lab.cluster.api import MANAGER, Api
from lab.errors import LabError

PATH = "/api/v1/nodes"
LABEL = "railyard.lab/kubelet"
TAINT = "railyard.lab/no-kubelet"
REASON = "NoKubelet"
MESSAGE = "a Node object of the lab: no kubelet runs for it"


def check(names: list[str]) -> None:
    """Raise LabError for a name that is not a valid node name."""
    for name in names:
        if len(name) > 253 or not re.fullmatch(
            r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", name
        ):
            raise LabError("'%s' is not a valid name of a node" % name, "use a-z, 0-9, - and dots, as in node-1")


def apply(api: Api, names: list[str]) -> list[str]:
    """Create these Node objects and delete other ones of the lab. Return the names of changed objects."""
    check(names)
    before = {item["metadata"]["name"]: item["metadata"] for item in api.get(PATH)["items"]}
    changed = []
    for name in names:
        api.apply("%s/%s" % (PATH, name), _node(name))
        # A separate manager: servers before 1.22 remove fields of a manager that its apply of the status omits.
        after = api.apply("%s/%s/status" % (PATH, name), _status(name), MANAGER + "-status")["metadata"]
        if name not in before or before[name]["resourceVersion"] != after["resourceVersion"]:
            changed.append(name)
    for name, metadata in before.items():
        if name not in names and metadata.get("labels", {}).get(LABEL) == "none":
            api.delete("%s/%s" % (PATH, name))
            changed.append(name)
    return changed


def _head(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _node(name: str) -> dict[str, Any]:
    node = _head(name)
    node["metadata"]["labels"] = {
        LABEL: "none",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    # With the server's taint of new nodes, because this apply owns the whole list.
    node["spec"] = {
        "taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": TAINT, "effect": "NoSchedule"},
        ]
    }
    return node


def _status(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "Unknown", "reason": REASON, "message": MESSAGE}
    return {**_head(name), "status": {"conditions": [ready]}}
