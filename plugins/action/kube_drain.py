# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import MANAGER
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods.node_drain import Consent, Drain
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Drains and uncordons a node; documented in ``plugins/modules/kube_drain.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.CONNECTION,
        "node": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["drained", "restored"], "default": "drained"},
        "empty_dirs": {"type": "bool", "default": False},
        "unmanaged": {"type": "bool", "default": False},
        "grace": {"type": "int"},
        "timeout": {"type": "int", "default": 600},
        "cordon": {"type": "str", "default": ""},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        for key in ("grace", "timeout"):
            if options[key] is not None and options[key] < 0:
                raise RailyardError("%d is not a number of seconds" % options[key], key, "give 0 or more")
        consent = Consent(options["empty_dirs"], options["unmanaged"], options["grace"])
        server, say = _cluster_access.server(options), _cluster_access.say
        drain = Drain(server, options["node"], consent, MANAGER, check, say, options["cordon"])
        if options["state"] == "drained":
            drain.drained(float(options["timeout"]))
        else:
            drain.restored()
        return {
            "changed": bool(drain.done),
            "changes": [change.as_dict() for change in drain.done],
            "diff": as_diff(drain.done),
            "cordon": "" if check else drain.cordon,
            "waits": [{"pod": pod, "why": why} for pod, why in drain.waits.items()],
        }
