# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Namespaces that are there, are not, or are being deleted: such a one refuses what is new until it is gone."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Object, Server


def read(server: Server, name: str) -> Object | None:
    """The namespace; None where there is none; empty where who asks may not see it."""
    status, answer = server.ask("GET", "/api/v1/namespaces/" + name)
    if status == 404:
        return None
    return answer if status < 400 else {}


def ending(found: Object | None) -> bool:
    """Whether it is being deleted."""
    return bool(found and found["metadata"].get("deletionTimestamp"))


def hanging(server: Server, found: Object, after: str = "") -> RailyardError:
    """What keeps one that is being deleted, in the server's own words where it has some."""
    name = found["metadata"]["name"]
    conditions = (found.get("status") or {}).get("conditions") or ()
    reasons = [
        " ".join(str(each["message"]).split()).rstrip(".") for each in conditions if each.get("status") == "True"
    ]
    why = ": %s" % "; ".join(sorted(reasons)) if reasons else ""
    return RailyardError(
        "the namespace %s is being deleted%s%s" % (name, after, why),
        server.url,
        "let what it still holds go (kubectl get namespace %s -o yaml names it), and run again when it is gone" % name,
    )
