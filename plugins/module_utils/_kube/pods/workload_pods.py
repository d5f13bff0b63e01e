# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods of a DaemonSet: their nodes, attached networks, and why one does not run."""

from __future__ import annotations

import json
import typing as t
from urllib.parse import urlencode

from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Object

RUNNING = "Running"
# These reasons do not explain why the pod's network is not ready.
_WAITING = ("ContainerCreating", "PodInitializing")
# Warnings of the kubelet that do not keep a pod from starting.
_HARMLESS = ("DNSConfigForming", "FailedToRetrieveImagePullSecret", "MissingClusterDNS", "ProbeWarning")
# Maximum number of pods whose events are read: most have the same cause.
_EVENTS_READ = 32


def there(server: Server, namespace: str, names: t.Iterable[str]) -> list[str]:
    """Return the DaemonSets that exist on the server.

    :raises RailyardError: for refusals of the server.
    """
    found = []
    for name in names:
        path = Resource("/apis/apps/v1", "daemonsets", True).of(namespace, name)
        status, answer = server.ask("GET", path)
        if status >= 400 and status != 404:
            raise refusal(status, answer, "get", "daemonsets.apps", server.url)
        if status != 404:
            found.append(name)
    return found


def of(server: Server, namespace: str, selector: str, networks: str) -> list[Object]:
    """Return a row per pod.

    Keys: ``name``, ``namespace``, ``uid``, ``node`` (None: not scheduled), ``phase``, ``running``, ``leaving``, ``why``
    (the reason why it does not run, or empty) and ``networks``, ``[{interface, network}]``.

    :param networks: the annotation with the attached networks.
    :raises RailyardError: for refusals of the server.
    """
    resource = Resource("/api/v1/namespaces/%s" % namespace, "pods", False)
    rows = server.list(resource, selector, keep=lambda pod: _row(pod, networks))
    pending = [row for row in rows if not row["running"] and not row["leaving"]]
    for row in pending[:_EVENTS_READ]:
        row["why"] = _warning(server, namespace, row["uid"]) or row["why"]
    return rows


def _row(pod: Object, networks: str) -> Object:
    metadata, status = pod["metadata"], pod.get("status") or {}
    states = status.get("containerStatuses") or ()
    phase = status.get("phase") or "Unknown"
    running = phase == RUNNING and all("running" in (each.get("state") or {}) for each in states)
    return {
        "name": metadata["name"],
        "namespace": metadata.get("namespace"),
        "uid": metadata["uid"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "wanted": _wanted(pod),
        "phase": phase,
        "running": running,
        "leaving": bool(metadata.get("deletionTimestamp")),
        "why": "" if running else _why(status, phase),
        "networks": _networks((metadata.get("annotations") or {}).get(networks)),
    }


def _wanted(pod: Object) -> str | None:
    """Return the node for which a DaemonSet created the pod: an affinity names it until the pod is scheduled."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return None


def _why(status: Object, phase: str) -> str:
    """Return the reason in the pod's status, the most specific one first."""
    for each in status.get("containerStatuses") or ():
        for name in ("waiting", "terminated"):
            state = (each.get("state") or {}).get(name) or {}
            if state and state.get("reason") not in _WAITING:
                code = "exit status %s" % state["exitCode"] if "exitCode" in state else ""
                return _joined(state.get("reason"), state.get("message") or code)
    for each in status.get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return _joined(each.get("reason"), each.get("message"))
    return _joined(status.get("reason"), status.get("message")) or "it is %s" % phase


def _warning(server: Server, namespace: str, uid: str) -> str:
    """Return the newest warning event that explains why a pod does not run; empty without one, or if the user may not
    read events."""
    query = urlencode({"fieldSelector": "involvedObject.uid=%s,type=Warning" % uid})
    path = "%s?%s" % (Resource("/api/v1", "events", True).of(namespace), query)
    status, answer = server.ask("GET", path)
    items = [] if status >= 400 else answer.get("items") or []
    events = [each for each in items if each.get("reason") not in _HARMLESS]
    if not events:
        return ""
    newest = max(events, key=_last_observed)
    return _joined(newest.get("reason"), newest.get("message"))


def _last_observed(event: Object) -> str:
    """Return when the event was last observed. The API's times sort as text."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(each) for each in times if each), str(event["metadata"].get("creationTimestamp") or ""))


def _joined(reason: str | None, message: str | None) -> str:
    text = ": ".join(each for each in (reason, " ".join((message or "").split())) if each)
    return text.rstrip(".")


def _networks(text: str | None) -> list[Object]:
    try:
        rows = json.loads(text or "[]")
        return [{"interface": each.get("interface"), "network": each.get("name")} for each in rows]
    except (ValueError, TypeError, AttributeError):
        return []
