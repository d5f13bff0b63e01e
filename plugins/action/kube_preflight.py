# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    NAD,
    beside,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import rail_agent
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Checks whether a plan can be applied to a cluster; documented in ``plugins/modules/kube_preflight.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.SPEC,
        "kinds_from": {"type": "str", "default": ""},
        "prune": {"type": "bool", "default": True},
        "wait": {"type": "bool", "default": True},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        plan, server = _cluster_access.Planned(options), _cluster_access.server(options)
        desired = plan.desired()
        if options["kinds_from"]:
            desired.makers = dict.fromkeys(desired.makers, options["kinds_from"])
        later = preflight.Later(options["prune"], options["wait"], beside(desired.own_kinds))
        raise_all(preflight.problems(server, desired, plan.labels_nodes, _cluster_access.say, plan.secrets(), later))
        warnings = preflight.overwritten(server, desired, "SpiderMultusConfig", NAD, _cluster_access.say)
        if plan.facts.networks:  # which Multus attaches
            warnings += preflight.cilium_renames_configurations(server)
        warnings += rail_agent.version_warnings(plan.objects, server.version)
        if plan.labels_nodes:
            Labelling(server, plan.node_labels(), {FABRIC: plan.fabric}, LABEL, MANAGER).observed()
        return {
            "changed": False,
            "warnings": warnings,
            "server": server.url,
            "version": "%d.%d" % server.version,
            "summary": "%s: Kubernetes %d.%d has all that %d objects of fabric %s need"
            % (server.url, *server.version, len(plan.objects), plan.fabric),
        }
