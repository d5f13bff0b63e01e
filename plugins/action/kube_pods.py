# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import test_workload
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import workload_pods
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access, _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_BRING = named("kubectl apply -k DIR/workload, with the DIR that playbooks/render.yml -e render_dir=DIR has written")
_IMAGE = " with kubernetes_options.images.test"


class ActionModule(ControllerAction):
    """Reads the pods of the test workload; documented in ``plugins/modules/kube_pods.py``."""

    SPEC: t.Mapping[str, t.Any] = _cluster_access.SPEC

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        document = _planned.document(options["file"])
        given = Options.of(options["kubernetes"], document["fabric"])
        server, view = _cluster_access.server(options), View(document)
        wanted = test_workload.names(view)
        there = workload_pods.there(server, given.workload_namespace, wanted)
        nodes = [node for name in there for node in wanted[name]]
        found = []
        if there:
            selector = test_workload.selector(there)
            found = workload_pods.of(server, given.workload_namespace, selector, test_workload.NETWORK_STATUS)
        return {
            "changed": False,
            "there": bool(there),
            "nodes": list(dict.fromkeys(nodes)),
            "pods": found,
            "running": _running(found),
            "settings": test_workload.settings(view, given, there),
            "remedy": "" if there else _BRING + ("" if "test" in given.images else _IMAGE),
        }


def _running(pods_found: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """Return node -> the uids of its running pods."""
    found: dict[str, list[str]] = {}
    for each in pods_found:
        if each["running"] and not each["leaving"] and each["node"]:
            found.setdefault(each["node"], []).append(each["uid"])
    return found
