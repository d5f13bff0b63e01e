# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Helm releases, as their Secrets record them: how the last action ended."""

from __future__ import annotations

import typing as t
from urllib.parse import urlencode

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import METADATA, Resource, Server

FAILED = "failed"
_UNINSTALLING = "uninstalling"
# The command that ends an interrupted action: a first installation has no revision to roll back to.
_ENDS = {"pending-install": "uninstall", "pending-upgrade": "rollback", "pending-rollback": "rollback"}


def state(server: Server, namespace: str, name: str) -> str:
    """Return the status that Helm recorded; empty if the release does not exist or the user may not read Helm's
    Secrets."""
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
    """Return an error for a release with a running or interrupted action, which Helm refuses to change; else None."""
    if found not in _ENDS:
        return None
    return Refused(
        "it is %s: another run changes it, or one was interrupted" % found,
        _place(namespace, name),
        "wait for the other run; if no other run exists, end it with helm %s %s -n %s, then run again"
        % (_ENDS[found], name, namespace),
    )


def half_gone(found: str, namespace: str, name: str) -> RailyardError | None:
    """Return an error for a partly removed release, which Helm's module treats as removed; else None."""
    if found != _UNINSTALLING:
        return None
    return Refused(
        "it is uninstalling: another run removes it, or one failed half-way",
        _place(namespace, name),
        "wait for the other run; if no other run exists, see the logs of its hooks and end it with"
        " helm uninstall %s -n %s, then run again" % (name, namespace),
    )


def _place(namespace: str, name: str) -> str:
    return "Helm's release %s/%s" % (namespace, name)
