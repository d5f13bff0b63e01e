# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Releases of Helm as it notes them in the cluster: how the last thing that was done to one ended."""

from __future__ import annotations

import typing as t
from urllib.parse import urlencode

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server

FAILED = "failed"
_UNINSTALLING = "uninstalling"
# What ends one that was cut off: a first one has nothing before it to go back to.
_ENDS = {"pending-install": "uninstall", "pending-upgrade": "rollback", "pending-rollback": "rollback"}


def state(server: Server, namespace: str, name: str) -> str:
    """Helm's word for it; empty where there is no such release, or who asks may not see Helm's notes."""
    path = Resource("/api/v1", "secrets", True).of(namespace)
    query = urlencode({"labelSelector": "owner=helm,name=%s" % name})
    status, answer = server.ask("GET", "%s?%s" % (path, query), accept=METADATA)
    if status in (403, 404):
        return ""
    if status >= 400:
        raise refusal(status, answer, "list", "secrets", server.url)
    found = answer.get("items") or []
    labels: list[t.Mapping[str, str]] = [each["metadata"].get("labels") or {} for each in found]
    numbered = [each for each in labels if each.get("version", "").isdigit()]
    return max(numbered, key=lambda each: int(each["version"])).get("status", "") if numbered else ""


def unfinished(found: str, namespace: str, name: str) -> RailyardError | None:
    """The error for a release that somebody is at, or that a run left when it was cut off; Helm refuses each change."""
    if found not in _ENDS:
        return None
    return Refused(
        "it is %s: another run is at it, or one was cut off" % found,
        _place(namespace, name),
        "wait for the other run; where there is none, end it with helm %s %s -n %s, then run again"
        % (_ENDS[found], name, namespace),
    )


def half_gone(found: str, namespace: str, name: str) -> RailyardError | None:
    """The error for a release of which a removal left something; Helm's module takes it for one that is gone."""
    if found != _UNINSTALLING:
        return None
    return Refused(
        "it is uninstalling: another run is at it, or one failed half-way",
        _place(namespace, name),
        "wait for the other run; where there is none, see what its hooks say and end it with helm uninstall %s -n %s,"
        " then run again" % (name, namespace),
    )


def _place(namespace: str, name: str) -> str:
    return "Helm's release %s/%s" % (namespace, name)
