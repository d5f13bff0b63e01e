# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    MANAGER,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import Write
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Maximum number of nodes in a warning, and of whole objects in a diff.
_SHOWN = 5
_WHOLE = 256
# Actions on an object, as in counts and in the summary.
_DONE = ("created", "adopted", "changed", "replaced", "removed", "released")
_MORE = "and %%d more objects that are created or deleted (%s writes all that are planned)" % playbook("render")


class ActionModule(ControllerAction):
    """Applies a plan's objects to a cluster, or removes them; documented in ``plugins/modules/kube_objects.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.SPEC,
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "consent": {"type": "str"},
        "prune": {"type": "bool", "default": True},
        "force": {"type": "bool", "default": False},
        "replace": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 120},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        plan, server = _cluster_access.Planned(options), _cluster_access.server(options)
        present = options["state"] == "present"
        if not present and not check and options["consent"] != plan.fabric:
            raise Refused(
                "removing the networks of fabric %s from their pods needs consent" % plan.fabric,
                "teardown_consent",
                "see with --check what would be removed, then consent with -e teardown_consent=%s" % plan.fabric,
            )
        _version = server.version
        apply = Apply(server, plan.desired(options["force"], options["replace"]), check, _cluster_access.say)
        labels = Labelling(server, plan.node_labels() if present else {}, {FABRIC: plan.fabric}, LABEL, MANAGER)
        failed: dict[str, t.Any] = {}
        try:
            # Labels are set before the policies that select nodes by them, and removed after these policies.
            if present and plan.labels_nodes:
                labels.run(check, _cluster_access.say)
            if present:
                apply.present(options["prune"], options["timeout"])
            else:
                apply.absent(options["timeout"])
                labels.run(check, _cluster_access.say)
        except RailyardError as error:
            failed = error.as_result()
        changes = labels.done + [change for write in _sorted(apply.done) for change in write.changes()]
        return {
            "changed": bool(changes),
            "changes": [change.as_dict() for change in changes],
            "diff": self._diff(labels.done, apply.done),
            "counts": _counts(apply.done, labels.done),
            "requests": dict(server.sent),
            "summary": ""
            if failed
            else _summary(plan.fabric, len(plan.objects) if present else 0, apply.done, labels.done, check),
            "warnings": apply.warnings + labels.warnings + _missing(labels.missing),
            **failed,
        }

    def _diff(self, labels: t.Sequence[Change], writes: t.Sequence[Write]) -> dict[str, t.Any]:
        """Return the diff. The first objects that are created or deleted are shown as a whole."""
        if not self._task.diff:
            return {}
        ordered = _sorted(writes)
        diff = as_diff([*labels, *(change for write in ordered if write.fields for change in write.changes())])
        whole = [write for write in ordered if not write.fields]
        for write in whole[:_WHOLE]:
            diff["before"][str(write.key)] = _shown(write.live)
            diff["after"][str(write.key)] = _shown(write.wanted)
        if whole[_WHOLE:]:
            diff["after"][_MORE % len(whole[_WHOLE:])] = {}
        return diff


def _sorted(writes: t.Sequence[Write]) -> list[Write]:
    """Return the writes by kind in the order of sending, then by name, because concurrent writes end in any order."""
    order = {kind: number for number, kind in enumerate(dict.fromkeys(write.key.type for write in writes))}
    return sorted(writes, key=lambda write: (write.wanted is None, order[write.key.type], write.key))


def _shown(found: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    plain = {key: value for key, value in (found or {}).items() if key not in ("metadata", "status")}
    return dict(plain, labels=(found["metadata"].get("labels") or {})) if found else {}


def _did(write: Write) -> str:
    """Return the action on an object."""
    if write.adopts or write.releases:
        return "adopted" if write.adopts else "released"
    if write.replaces:
        return "replaced"
    if write.live is None:
        return "created"
    return "removed" if write.wanted is None else "changed"


def _counts(writes: t.Sequence[Write], labels: t.Sequence[Change]) -> dict[str, int]:
    did = collections.Counter(map(_did, writes))
    labelled = {change.subject for change in labels if change.after is not None}
    unlabelled = {change.subject for change in labels} - labelled
    return dict({word: did[word] for word in _DONE}, labelled=len(labelled), unlabelled=len(unlabelled))


def _summary(fabric: str, objects: int, writes: t.Sequence[Write], labels: t.Sequence[Change], check: bool) -> str:
    counts = _counts(writes, labels)
    going = collections.Counter(write.key.kind for write in writes if _did(write) == "removed")
    kinds = ", ".join("%d %s" % (number, kind) for kind, number in sorted(going.items()))
    parts = [
        "%d %s%s" % (counts[word], word, " (%s)" % kinds if word == "removed" else "") for word in _DONE if counts[word]
    ]
    if counts["labelled"]:
        parts.append("%s labelled" % count(counts["labelled"], "node"))
    if counts["unlabelled"]:
        parts.append("labels removed from %s" % count(counts["unlabelled"], "node"))
    return "fabric %s: %s; %s%s" % (
        fabric,
        count(objects, "object") if objects else "no objects",
        ", ".join(parts) or "nothing differs",
        " (nothing is written in check mode)" if check and parts else "",
    )


def _missing(nodes: t.Sequence[str]) -> list[str]:
    return ["planned nodes that the cluster does not have yet: %s" % first_of(nodes, _SHOWN)] if nodes else []
