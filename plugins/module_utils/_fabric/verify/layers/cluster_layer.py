# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layer of Kubernetes: what is missing in the cluster, and what differs in it from the plan."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import reason_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import HOSTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run

_NAMES = ("resource", "network", "pool", "pool6", "policy")
_FIELDS = 3


def kubernetes(run: Run, cluster: t.Mapping[str, t.Any] | None) -> None:
    """Is every node of the cluster ready for pods on every rail, and every object as planned?

    :param cluster: ``error`` where it did not answer, else ``missing`` and ``withheld`` of ``kube_ready``, ``changes``
        and the errors of ``kube_objects`` (``refused``); None where none was looked at (none is named,
        or ``site.yml`` has just applied what it read).
    """
    if cluster is None:
        run.why_not["kubernetes"] = named("verify.yml and drift.yml look at it") + " with -e kubernetes_kubeconfig=PATH"
        return
    if cluster.get("error"):
        run.fail("RV900", None, None, "API server", expected="an answer", found=cluster["error"])
        run.why_not["kubernetes"] = "the cluster does not answer"
        return
    rails = rails_by_name(run)
    for node in run.told:
        run.look("kubernetes", node)
    for change in _objects(cluster.get("changes") or ()):
        _differs(run, change, rails)
    for error in cluster.get("refused") or ():
        rail = rail_in(error["place"], rails)
        if rail is None or rail in run.rails:
            run.fail("RV907", None, rail, error["place"], found=error["message"], remedy=error["remedy"])
    for closed in cluster.get("withheld") or ():
        code = "RV905" if closed["field"] == "spec.disable" else "RV906"
        for subject in closed["subjects"]:
            rail = rail_in(subject, rails)
            if rail is None or rail in run.rails:
                run.fail(code, None, rail, subject, found=closed["what"], remedy=closed["reason"])
    known = {_plain(each.what) for each in run.failures}
    for group in cluster.get("missing") or ():
        for subject in group["subjects"]:
            _missing(run, subject, group, rails, known)


def rails_by_name(run: Run) -> dict[str, str]:
    """Names of resources, pools and networks -> their rail."""
    found: dict[str, str] = {}
    for told in run.told.values():
        for port in told.plan["ports"]:
            found.update((port["names"][key], port["rail"]) for key in _NAMES if (port.get("names") or {}).get(key))
    return found


def rail_in(text: str, rails: t.Mapping[str, str]) -> str | None:
    return next((rails[word] for word in re.split(r"[\s,:/()]+", text) if word in rails), None)


def _objects(changes: t.Iterable[Row]) -> list[Row]:
    """One row an object or node: its changes together."""
    found: dict[str, Row] = {}
    for change in changes:
        if change["before"] == change["after"]:
            continue  # a field that another has written, and as planned: only whose it is would change
        if change["attribute"] == "object" and change["after"] == "replaced":
            continue  # how it is done: the fields that differ follow
        row = found.setdefault(str(change["subject"]), {"subject": str(change["subject"]), "changes": []})
        row["changes"].append(change)
    return list(found.values())


def _differs(run: Run, row: Row, rails: t.Mapping[str, str]) -> None:
    kind, _blank, name = row["subject"].partition(" ")
    rail = rail_in(name, rails)
    if rail is not None and rail not in run.rails:
        return
    node = name if kind == "Node" and name in run.told else None
    first = row["changes"][0]
    whole = first["attribute"] == "object"
    if whole and first["after"] == "adopted":
        run.fail(
            "RV902", node, rail, row["subject"], expected="made by Railyard", found="made by another, with its values"
        )
    elif whole and first["before"] is None:
        run.fail("RV902", node, rail, row["subject"], expected="there", found="not there", cause="somebody deleted it")
    elif whole:
        run.fail("RV904", node, rail, row["subject"], expected="not there", found="there")
    else:
        more = len(row["changes"]) - _FIELDS
        fields = ["%s %s" % (each["attribute"], _short(each["after"])) for each in row["changes"][:_FIELDS]]
        seen = ["%s %s" % (each["attribute"], _short(each["before"])) for each in row["changes"][:_FIELDS]]
        tail = [" and %d fields more" % more] if more > 0 else [""]
        expected, found = (", ".join(each) + tail[0] for each in (fields, seen))
        run.fail("RV902", node, rail, row["subject"], expected=expected, found=found)


def _short(value: t.Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(subject: str) -> str:
    """An object's kind and name without its namespace, which not all who speak of it say."""
    kind, _blank, name = subject.partition(" ")
    return "%s %s" % (kind, name.rpartition("/")[2])


def _missing(run: Run, subject: str, group: t.Mapping[str, t.Any], rails: t.Mapping[str, str], known: set[str]) -> None:
    """:param known: objects of which something was told, in the form of :func:`_plain`."""
    rail = rail_in(group["what"], rails) or rail_in(subject, rails)
    node = subject if subject in run.told else None
    if rail is not None and rail not in run.rails:
        return
    if node and run.blocked("kubernetes", node, rail):
        return
    if _plain(subject) in known:
        return
    reason = reason_of(group, subject)
    mends = HOSTS if HOSTS in reason else None
    code = "RV901" if node else "RV903"
    what = "what it offers to pods" if node else subject
    run.fail(code, node, rail, what, found=group["what"], cause=reason, remedy="fix that, and run again", mends=mends)
    known.add(_plain(what))
