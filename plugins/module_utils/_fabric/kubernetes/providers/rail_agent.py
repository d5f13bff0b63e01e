# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent of each node: a device plugin for the slots of the plan, and no object in the cluster."""

from __future__ import annotations

import json

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import OwnTables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Node, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import AGENT

FILE = "/etc/railyard/agent.json"


class RailAgent(OwnTables):
    """The kubelet gives slots to pods, and a hook of the container runtime makes their interfaces."""

    facts = AGENT

    def node_files(self, view: View, options: Options, node: Node) -> dict[str, str]:
        return {FILE: json.dumps(node["agent"], indent=2) + "\n"}


def allocatable(view: View) -> dict[str, dict[str, int]]:
    """What each node must report: node -> resource with its prefix -> slots."""
    wanted: dict[str, dict[str, int]] = {}
    for node in view.nodes:
        resources: dict[str, set[int]] = {}
        for rail in node["agent"]["rails"]:
            for slot in rail["slots"]:
                # a unit of `rails` is one slot on every rail, and all of them have the same number
                resources.setdefault(view.qualified(slot["resource"]), set()).add(slot["number"])
        wanted[node["name"]] = {resource: len(numbers) for resource, numbers in resources.items()}
    return wanted
