# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Goal,
    Lack,
    alike,
    told,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Unreachable
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import NODES
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import observed, plainly
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Seconds after which progress is told although nothing moved.
_STILL = 60.0
# How many times as long as a look takes nobody looks: that at thousands of nodes is not all that a server has to do.
_REST = 5.0
# What is read of a spec: where the definition of a network is, and what people set on pools beside the plan.
_READ = ("networkNamespace", "disable", "excludeIPs")


class ActionModule(ControllerAction):
    """Waits until a cluster is where the plan has it; documented in ``plugins/modules/kube_ready.py``."""

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
        reached, lacks, withheld = _look(server, goal)
        took = time.monotonic() - begun
        last, told_at = reached, begun
        # in check mode nothing was applied that could still come
        while lacks and not check and time.monotonic() - begun < options["timeout"]:
            pause = max(float(options["interval"]), _REST * took)
            time.sleep(max(0.1, min(pause, begun + options["timeout"] - time.monotonic())))
            looked = time.monotonic()
            try:
                reached, lacks, withheld = _look(server, goal)
            except Unreachable as error:
                # a control plane that is upgraded comes back; what was seen before is no answer when the time is up
                if time.monotonic() - begun >= options["timeout"]:
                    raise
                _cluster_access.say(str(error))
                continue
            now = time.monotonic()
            took = now - looked
            if lacks and (reached != last or now - told_at >= _STILL):
                last, told_at = reached, now
                _cluster_access.say(
                    "%d of %d resources there, %s" % (reached, goal.resources, told(alike(lacks[:1]))[0])
                )
        groups = alike(lacks)
        lines = told(groups)
        summary = "fabric %s: %d of %d resources of %d nodes at the planned number; %s" % (
            plan.fabric,
            reached,
            goal.resources,
            len(plan.document["nodes"]),
            "%s missing" % ("1 thing is" if len(lacks) == 1 else "%d things are" % len(lacks))
            if lacks
            else "every object is taken up",
        )
        aside = alike(withheld)
        result = {
            "changed": False,
            "summary": summary,
            "lacks": [group._asdict() for group in groups],
            "lines": lines,
            "withheld": [group._asdict() for group in aside],
            "warnings": told(alike([each for each in withheld if each not in lacks])),
        }
        if lacks and not check and options["required"]:
            waited = "after %d s" % (time.monotonic() - begun)
            result.update(failed=True, msg="%s %s:\n%s" % (summary, waited, "\n".join(lines)))
        return result


def _look(server: Server, goal: Goal) -> tuple[int, list[Lack], list[Lack]]:
    """How many resources are there, what is missing, and pools that somebody closed to pods as a whole or in part."""
    nodes = {each["metadata"]["name"]: each for each in server.list(NODES, keep=_judged_node)}
    own = observed(server, server.resources(goal.kinds), _cluster_access.FAMILY, _cluster_access.say, _judged)
    beside = observed(server, server.resources(goal.beside()), {}, _cluster_access.say, _judged)
    live = {(key.kind, key.namespace, key.name): each for key, each in {**beside, **own}.items()}
    return goal.reached(nodes), goal.lacks(nodes, live), goal.withheld(live)


def _judged_node(node: dict[str, t.Any]) -> dict[str, t.Any]:
    """Of a node mostly the images that it holds are told, which nobody asks for here."""
    metadata, status = node["metadata"], node["status"]
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "labels")},
        "status": {key: status.get(key) for key in ("conditions", "allocatable")},
    }


def _judged(found: dict[str, t.Any]) -> dict[str, t.Any]:
    """An object without most of what was wanted of it: how far it came is in its status."""
    kept = plainly(found)
    spec = kept.pop("spec", None) or {}
    kept["spec"] = {key: spec[key] for key in _READ if key in spec}
    return kept


def _missing(number: int) -> str:
    return "1 thing is missing" if number == 1 else "%d things are missing" % number
