# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import MANAGER
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_cordon import cordon
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Labels and cordons nodes with a bad rail; documented in ``plugins/modules/kube_cordon.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.SPEC,
        "nodes": {"type": "dict", "required": True},
        "unschedulable": {"type": "bool", "default": True},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        nodes: dict[str, list[str]] = {}
        for name, rails in options["nodes"].items():
            if not isinstance(rails, list):
                remedy = "set it to {node: [rail, ...]}, with an empty list for a healthy node"
                raise RailyardError("%r is not a list of rails" % (rails,), "nodes.%s" % name, remedy)
            nodes[str(name)] = [str(rail) for rail in rails]
        done = cordon(_cluster_access.server(options), nodes, MANAGER, check, options["unschedulable"])
        return {"changed": bool(done), "changes": [change.as_dict() for change in done], "diff": as_diff(done)}
