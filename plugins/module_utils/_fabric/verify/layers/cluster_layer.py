# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer of Kubernetes: what is missing in the cluster, and what differs in it from the plan."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import reason_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    NOT_THOROUGH,
    Row,
    Run,
)

_NAMES = ("resource", "network", "pool", "pool6", "policy")
_FIELDS = 3


def kubernetes(run: Run, cluster: t.Mapping[str, t.Any] | None) -> None:
    """Check whether every node of the cluster is ready for pods on every rail, and every object is as planned.

    :param cluster: ``error`` if it did not answer, else ``missing`` and ``withheld`` of ``kube_ready``, ``changes`` of
        ``kube_objects``, and ``refused``, the errors of ``kube_objects``; None if no cluster was read (none is named,
        or ``site.yml`` has just applied what it read).
    """
    if cluster is None:
        option = "-e kubernetes_kubeconfig=PATH"
        why_not = "no cluster is named: add %s" if run.thorough else NOT_THOROUGH + " with %s"
        run.why_not["kubernetes"] = why_not % option
        return
    if cluster.get("error"):
        run.fail("RV900", None, None, "API server", expected="an answer", found=cluster["error"])
        run.why_not["kubernetes"] = "the cluster does not answer"
        return
    rails = rails_by_name(run)
    for node in run.reports:
        run.look("kubernetes", node)
    for subject, changes in _by_subject(cluster.get("changes") or ()).items():
        _differs(run, subject, changes, rails)
    for error in cluster.get("refused") or ():
        rail = _rail(error["place"], rails)
        if run.covers(rail):
            run.fail("RV907", None, rail, error["place"], found=error["message"], remedy=error["remedy"])
    for closed in cluster.get("withheld") or ():
        code = "RV905" if closed["field"] == "spec.disable" else "RV906"
        for subject in closed["subjects"]:
            rail = _rail(subject, rails)
            if run.covers(rail):
                run.fail(code, None, rail, subject, found=closed["what"], remedy=closed["reason"])
    known = {_plain(each.what) for each in run.failures}
    for group in cluster.get("missing") or ():
        for subject in group["subjects"]:
            _missing(run, subject, group, rails, known)


def rails_by_name(run: Run) -> dict[str, str]:
    """Return name of a resource, pool, network or policy -> its rail."""
    rails: dict[str, str] = {}
    for report in run.reports.values():
        for port in report.plan["ports"]:
            rails.update((port["names"][key], port["rail"]) for key in _NAMES if (port.get("names") or {}).get(key))
    return rails


def _rail(subject: str, rails: t.Mapping[str, str]) -> str | None:
    """Return the rail of an object, which is written as ``KIND NAME`` or ``KIND NAMESPACE/NAME``."""
    return rails.get(_plain(subject).partition(" ")[2])


def _plain(subject: str) -> str:
    """Return the kind and name of an object without its namespace, which not all sources have."""
    kind, _blank, name = subject.partition(" ")
    return "%s %s" % (kind, name.partition(" ")[0].rstrip(":").rpartition("/")[2])


def _by_subject(changes: t.Iterable[Row]) -> dict[str, list[Row]]:
    """Return object or node -> its changes, without changes of the owner or method only."""
    by_subject: dict[str, list[Row]] = {}
    for change in changes:
        if change["before"] == change["after"]:
            continue  # the value is as planned; only the owner of the field would change
        if change["attribute"] == "object" and change["after"] == "replaced":
            continue  # the method; the fields that differ follow
        by_subject.setdefault(str(change["subject"]), []).append(change)
    return by_subject


def _differs(run: Run, subject: str, changes: t.Sequence[Row], rails: t.Mapping[str, str]) -> None:
    """Report an object that differs from the plan, is missing, or is no longer planned."""
    kind, _blank, name = subject.partition(" ")
    rail = _rail(subject, rails)
    if not run.covers(rail):
        return
    node = name if kind == "Node" and name in run.reports else None
    first = changes[0]
    about: dict[str, str]
    if first["attribute"] != "object":
        about = _fields(changes)
    elif first["after"] == "adopted":
        about = {"expected": "created by Railyard", "found": "created by another program, with its values"}
    elif first["before"] is None:
        about = {"expected": "present", "found": "absent", "cause": "it was deleted, or not applied yet"}
    else:
        run.fail("RV904", node, rail, subject, expected="absent", found="present")
        return
    run.fail("RV902", node, rail, subject, **about)


def _fields(changes: t.Sequence[Row]) -> dict[str, str]:
    """Return the expected and the observed values of the first fields that differ."""
    further = len(changes) - _FIELDS
    tail = " and %d fields more" % further if further > 0 else ""
    return {
        key: ", ".join("%s %s" % (each["attribute"], _short(each[side])) for each in changes[:_FIELDS]) + tail
        for key, side in (("expected", "after"), ("found", "before"))
    }


def _short(value: t.Any) -> str:
    """Return a value as text of at most 60 characters."""
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _missing(run: Run, subject: str, group: Row, rails: t.Mapping[str, str], known: set[str]) -> None:
    """Report what a node or an object is missing, unless the object already has a failure.

    :param known: objects that have a failure, in the form of :func:`_plain`.
    """
    rail = group["rail"] or _rail(subject, rails)
    node = subject if subject in run.reports else None
    if not run.covers(rail) or (node and run.blocked("kubernetes", node, rail)) or _plain(subject) in known:
        return
    code = "RV901" if node else "RV903"
    what = "resources for pods" if node else subject
    about = {"found": group["what"], "cause": reason_of(group, subject), "remedy": "fix that, and run again"}
    run.fail(code, node, rail, what, playbook=group["playbook"], **about)
    if not node:
        known.add(_plain(subject))
