# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVLink domains: compare the domain that the GPUs of each node report with the plan.

The plan has names of domains, and GPUs report a cluster UUID and a clique. So nodes are compared with one another: the
nodes of a planned domain report one identity, and nodes of different domains report different ones.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    VERIFY,
    NodeReport,
    Row,
    Run,
)

COMPLETED, SUCCESS = "Completed", "Success"
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_SHOWN = 3
# Cluster UUID and clique
Identity = t.Tuple[str, str]


def nvlink(run: Run) -> None:
    """Check the GPUs of all nodes that have a planned NVLink domain."""
    if not run.fabric.get("nvlink_domains"):
        return
    # domain -> identity -> the nodes that report it
    domains: dict[str, dict[Identity, list[str]]] = {}
    for report in run.nodes():
        domain = report.plan.get("nvlink_domain")
        state = report.live.info.get("nvlink")
        if not domain or not run.look("driver", report.name):
            continue
        if state is None:
            if run.kind == VERIFY:
                run.unread("driver", report.name, None, "NVLink domain %s" % domain)
            continue
        identity = _of_node(run, report, state)
        if identity:
            domains.setdefault(domain, {}).setdefault(identity, []).append(report.name)
    owners: dict[Identity, str] = {}
    for domain, identities in domains.items():
        usual = _domain(run, domain, identities)
        other = owners.setdefault(usual, domain)
        if other != domain:
            node = identities[usual][0]
            found = "%s, as %s of %s" % (_text(usual), domains[other][usual][0], other)
            run.fail("RV447", node, None, "NVLink domain %s" % domain, expected="a domain of its own", found=found)


def _of_node(run: Run, report: NodeReport, state: Row) -> Identity | None:
    """Return the identity that all GPUs of a node report; None if they are not ready, which is reported."""
    if state["error"] or not state["gpus"]:
        container = (report.plan.get("gpudirect") or {}).get("gpu_driver") == "container"
        if container:
            why = "the GPU driver is in a container, and nvidia-smi on the node reports nothing"
            remedy = "run 'nvidia-smi -q' in the pod of the GPU driver, and compare its section Fabric"
            run.unknown("driver", report.name, None, "NVLink domain", why, remedy)
        else:
            found = state["error"] or "no GPU with a section Fabric"
            run.fail("RV449", report.name, None, "nvidia-smi", expected="the state of each GPU", found=found)
        return None
    count, planned = len(state["gpus"]), len(report.plan.get("gpus") or ())
    if count < planned:
        run.fail("RV449", report.name, None, "nvidia-smi", expected="%d GPUs" % planned, found="%d GPUs" % count)
        return None
    broken = [row for row in state["gpus"] if not _is_ready(row)]
    if broken:
        row = broken[0]
        keys = ("state", "status", "clique", "cluster")
        found = ", ".join("%s %s" % (key, row[key] or "N/A") for key in keys)
        others = "" if len(broken) == 1 else " and %d more" % (len(broken) - 1)
        what = "GPU %s%s" % (row["pci"], others)
        run.fail("RV445", report.name, None, what, expected="%s, %s" % (COMPLETED, SUCCESS), found=found)
        return None
    identities = list(dict.fromkeys((row["cluster"].lower(), row["clique"]) for row in state["gpus"]))
    if len(identities) > 1:
        found = first_of([_text(each) for each in identities], _SHOWN)
        run.fail("RV446", report.name, None, "GPUs of the node", expected="one NVLink domain", found=found)
        return None
    return identities[0]


def _is_ready(row: Row) -> bool:
    """Return whether a GPU is registered. A node whose partition is missing reports a cluster UUID of zeros."""
    registered = row["state"] == COMPLETED and row["status"] == SUCCESS
    return bool(registered and row["clique"] and (row["cluster"] or _NO_CLUSTER) != _NO_CLUSTER)


def _domain(run: Run, domain: str, identities: t.Mapping[Identity, t.Sequence[str]]) -> Identity:
    """Return the identity of most nodes of a domain, and report the nodes with another one."""
    usual = max(identities, key=lambda each: len(identities[each]))
    for identity, nodes in identities.items():
        for node in nodes if identity != usual else ():
            expected = "%s, as %s" % (_text(usual), identities[usual][0])
            run.fail("RV446", node, None, "NVLink domain %s" % domain, expected=expected, found=_text(identity))
    return usual


def _text(identity: Identity) -> str:
    return "cluster %s clique %s" % identity
