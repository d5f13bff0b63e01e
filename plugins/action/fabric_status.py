# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import calendar
import json
import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.html import report_documents
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.fabric_status import (
    FabricStatus,
    node_status,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import NODES
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import cordon_holders
from ansible_collections.railyard.fabric.plugins.plugin_utils import (
    _cluster_access,
    _fabric_files,
    _output,
    _run_guard,
    _this_run,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_FILE, _VERDICT = "status.json", "verify.json"
# The variable of each node with the result of rail_info.
_SEEN = "railyard_status_node"
_BEGAN = "%Y-%m-%dT%H:%M:%SZ"
# Maximum bytes of a verdict, as for the report.
_MOST = 1 << 30


class ActionModule(ControllerAction):
    """Shows the state of all nodes on one screen; documented in ``plugins/modules/fabric_status.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        **_cluster_access.CONNECTION,
        "report_dir": {"type": "path", "default": "reports"},
        "cluster": {"type": "bool", "default": False},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        nodes = []
        fabric: t.Mapping[str, t.Any] = {}
        for name in self._vars["groups"].get(_run_guard.NODES) or ():
            variables = self._vars["hostvars"].raw_get(name)
            # nodes that the limit excludes were not read
            if _SEEN in variables:
                fabric = variables.get("railyard_fabric") or fabric
                node = variables.get("railyard_node") or {}
                nodes.append(node_status(str(name), node, variables[_SEEN], bool(fabric.get("health"))))
        notes: list[str] = []
        cordoned = None
        if options["cluster"] and fabric.get("provider") != "none":
            cordoned = _cordoned(options, [node.name for node in nodes], notes)
        verdict, is_ok = last_verdict(options["report_dir"], str(fabric.get("name") or ""), time.time())
        status = FabricStatus(str(fabric.get("name") or ""), nodes, VERSION, cordoned, verdict, notes)
        differences = status.differences()
        lines = status.lines(_output.width())
        result: dict[str, t.Any] = {"changed": False, "counts": status.counts, "summary": status.summary}
        result["differences"] = differences
        if status.health:
            result["health"] = status.health
        if differences or not is_ok:
            following = command(playbook("verify"), _fabric_files.inventory())
            what = "launch the template verify" if _this_run.in_awx() else following
            lines += ["", "next: %s" % what]
        try:
            content = json.dumps(status.document(), indent=1).encode() + b"\n"
            files = _fabric_files.write(options["report_dir"], {_FILE: content}, check, "verify_report_dir")
            result["file"] = files[0]["path"]
        except RailyardError as error:
            result["warnings"] = [str(error)]
        _output.show(lines)
        return dict(result, lines=lines)


def _cordoned(options: t.Mapping[str, t.Any], names: t.Sequence[str], notes: list[str]) -> list[str] | None:
    """Return the cordoned nodes of the fabric; None, with a note, if the cluster cannot be read."""
    known = set(names)
    try:
        live = _cluster_access.server(options).list(NODES)
        return sorted(
            node["metadata"]["name"]
            for node in live
            if node["metadata"]["name"] in known and cordon_holders.is_cordoned(node)
        )
    except RailyardError as error:
        notes.append("cordons of the cluster are unknown: %s" % error)
        return None


def last_verdict(directory: str, fabric: str, now: float) -> tuple[str, bool]:
    """Return a line about the newest verdict of verify, and whether it found no failure.

    :param now: seconds since 1970.
    """
    path = os.path.join(directory, _VERDICT)
    if not os.path.exists(path):
        return "no verdict of verify in %s" % _fabric_files.shown_path(directory), False
    try:
        raw = _fabric_files.read(path, most=_MOST)
        found = report_documents.verdict(raw, _fabric_files.shown_path(path), report_documents.VERIFY)
        ended = calendar.timegm(time.strptime(found.began, _BEGAN)) + (found.seconds or 0)
    except (RailyardError, ValueError) as error:
        return "the last verdict of verify is unknown: %s" % str(error).rstrip("."), False
    other = " of fabric %s" % found.fabric if found.fabric not in ("", fabric) else ""
    return "last verify%s %s: %s" % (other, age(now - ended), found.headline.strip().rstrip(".")), found.ok


def age(seconds: float) -> str:
    """Return how long ago something was, in the largest unit that counts at least two: ``3 h ago``."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return "%d %s ago" % (seconds // size, unit)
    return "%d s ago" % max(0, int(seconds))
