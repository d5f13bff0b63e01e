# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespaces, including those that are being deleted and refuse new objects."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Object, Server


def read(server: Server, name: str) -> Object | None:
    """Return the namespace; None if it does not exist; empty if the user may not read it."""
    status, answer = server.ask("GET", "/api/v1/namespaces/" + name)
    if status == 404:
        return None
    return answer if status < 400 else {}


def ending(found: Object | None) -> bool:
    """Return whether the namespace is being deleted."""
    return bool(found and found["metadata"].get("deletionTimestamp"))


def hanging(server: Server, found: Object, after: str = "") -> RailyardError:
    """Return the error for a namespace whose deletion does not end, with the server's reasons. ``after``: seconds."""
    name = found["metadata"]["name"]
    conditions = (found.get("status") or {}).get("conditions") or ()
    reasons = [
        " ".join(str(each["message"]).split()).rstrip(".") for each in conditions if each.get("status") == "True"
    ]
    why = ": %s" % "; ".join(sorted(reasons)) if reasons else ""
    return RailyardError(
        "the namespace %s is being deleted%s%s" % (name, after, why),
        server.url,
        "delete what it still contains (kubectl get namespace %s -o yaml names it), and run again when it is gone"
        % name,
    )
