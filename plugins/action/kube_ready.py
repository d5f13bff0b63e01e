# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Goal,
    Missing,
    grouped,
    lines,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Unreachable
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import NODES
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import observed, plainly
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Seconds after which progress is shown without a change.
_STILL = 60.0
# Minimum pause as a multiple of the duration of a check, because long lists are expensive for the server.
_REST = 5.0
# Keys of a spec that are kept: the place of a network's definition, fields that users set on pools, the pods of a
# DaemonSet, and the devices of a ResourceSlice.
_READ = ("networkNamespace", "disable", "excludeIPs", "selector", "driver", "nodeName", "pool", "devices")


class ActionModule(ControllerAction):
    """Waits until a cluster is as planned; documented in ``plugins/modules/kube_ready.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.SPEC,
        "timeout": {"type": "int", "default": 600},
        "interval": {"type": "int", "default": 10},
        "required": {"type": "bool", "default": True},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        plan, server = _cluster_access.Planned(options), _cluster_access.server(options)
        goal = Goal(plan.document, plan.given, plan.objects)
        begun = time.monotonic()
        reached, missing, withheld = _look(server, goal)
        took = time.monotonic() - begun
        last, shown_at = reached, begun
        # In check mode, nothing was applied that could become ready.
        while missing and not check and time.monotonic() - begun < options["timeout"]:
            pause = max(float(options["interval"]), _REST * took)
            time.sleep(max(0.1, min(pause, begun + options["timeout"] - time.monotonic())))
            looked = time.monotonic()
            try:
                reached, missing, withheld = _look(server, goal)
            except Unreachable as error:
                # A control plane returns after an upgrade. At the timeout, an older observation is not a result.
                if time.monotonic() - begun >= options["timeout"]:
                    raise
                _cluster_access.say(str(error))
                continue
            now = time.monotonic()
            took = now - looked
            if missing and (reached != last or now - shown_at >= _STILL):
                last, shown_at = reached, now
                _cluster_access.say(
                    "%d of %d resources exist, %s" % (reached, goal.resources, lines(grouped(missing[:1]))[0])
                )
        groups = grouped(missing)
        text = lines(groups)
        summary = "fabric %s: %d of %d resources of %d nodes at the planned number; %s" % (
            plan.fabric,
            reached,
            goal.resources,
            len(plan.document["nodes"]),
            _count(len(missing)) if missing else "all objects are accepted",
        )
        result = {
            "changed": False,
            "summary": summary,
            "missing": [group._asdict() for group in groups],
            "lines": text,
            "withheld": [group._asdict() for group in grouped(withheld)],
            "warnings": lines(grouped([each for each in withheld if each not in missing])),
        }
        if missing and not check and options["required"]:
            waited = "after %d s" % (time.monotonic() - begun)
            result.update(failed=True, msg="%s %s:\n%s" % (summary, waited, "\n".join(text)))
        return result


def _look(server: Server, goal: Goal) -> tuple[int, list[Missing], list[Missing]]:
    """Return the number of existing resources, the missing ones, and pools on which a user withholds addresses."""
    nodes = {each["metadata"]["name"]: each for each in server.list(NODES, keep=_judged_node)}
    own = observed(server, server.resources(goal.kinds), _cluster_access.FAMILY, _cluster_access.say, _judged)
    beside = observed(server, server.resources(goal.beside()), {}, _cluster_access.say, _judged)
    live = {(key.kind, key.namespace, key.name): each for key, each in {**beside, **own}.items()}
    return goal.reached(nodes, live), goal.missing(nodes, live), goal.withheld(live)


def _judged_node(node: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a node without its list of images, its largest part."""
    metadata, status = node["metadata"], node["status"]
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "labels")},
        "status": {key: status.get(key) for key in ("conditions", "allocatable")},
    }


def _judged(found: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return an object with the needed part of its spec, and its status."""
    kept = plainly(found)
    spec = kept.pop("spec", None) or {}
    kept["spec"] = {key: spec[key] for key in _READ if key in spec}
    return kept


def _count(number: int) -> str:
    return "1 thing is missing" if number == 1 else "%d things are missing" % number
