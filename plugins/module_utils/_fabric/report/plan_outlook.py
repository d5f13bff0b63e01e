# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the plan means for the nodes and the cluster: what is configured, what may need a reboot, what is left alone."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import has_interface, is_managed
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_rows
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

Document = t.Mapping[str, t.Any]
# Kinds of objects in the order of the line.
_KINDS = {"network": ("network", "networks"), "pool": ("pool", "pools"), "policy": ("policy", "policies"),
          "resource": ("resource", "resources")}  # fmt: skip


def lines(document: Document) -> list[str]:
    """Return the lines. Only a run in check mode knows which of these changes a node still needs."""
    nodes = document["nodes"]
    ports = [port for node in nodes for port in node["ports"]]
    managed = sum(is_managed(port) for port in ports)
    vfs = sum((port.get("vfs") or {}).get("count") or 0 for port in ports)
    slots = sum(len(rail["slots"]) for node in nodes for rail in (node.get("agent") or {}).get("rails") or ())
    kinds = collections.Counter(row[0] for row in plan_rows.objects(document))
    parts = [count(managed, "port"), *([count(vfs, "VF")] if vfs else []), *([count(slots, "slot")] if slots else [])]
    found = ["%s: %s to configure" % (count(len(nodes), "node"), ", ".join(parts))]
    objects = [count(kinds[kind], *names) for kind, names in _KINDS.items() if kinds[kind]]
    if objects:
        found.append("in Kubernetes: %s" % ", ".join(objects))
    reboots = _reboots(nodes)
    found.append("reboots: %s" % ("; ".join(reboots) if reboots else "the plan has no setting that usually needs one"))
    left = _left_alone(nodes, ports)
    if left:
        found.append("left alone: %s" % ", ".join(left))
    return found


def _reboots(nodes: t.Sequence[Document]) -> list[str]:
    """Return the settings that may need a reboot, with the number of nodes that have them."""
    reasons: dict[str, int] = {}
    for node in nodes:
        ports, pci, limits = node["ports"], node.get("pci") or {}, node.get("limits") or {}
        own = {
            "driver": bool(node.get("driver")) and node["driver"].get("kind") != "container",
            "NIC firmware": any(port.get("firmware") for port in ports),
            "RDMA mode exclusive": node.get("rdma_mode") == "exclusive",
            "kernel arguments": bool(pci.get("kernel")),
            "hugepages": bool(limits.get("hugepages")),
        }
        for reason, needed in own.items():
            if needed:
                reasons[reason] = reasons.get(reason, 0) + 1
    return ["%s of %s may need one" % (reason, count(number, "node")) for reason, number in reasons.items()]


def _left_alone(nodes: t.Sequence[Document], ports: t.Sequence[Document]) -> list[str]:
    others = sum(len(node.get("other_ports") or ()) for node in nodes)
    unmanaged = sum(not is_managed(port) for port in ports)
    bare = sum(is_managed(port) and not has_interface(port) for port in ports)
    rows = (
        (others, "port outside of the rails", "ports outside of the rails"),
        (unmanaged, "port that other programs configure", "ports that other programs configure"),
        (bare, "IPoIB interface", "IPoIB interfaces"),
    )
    return [count(*row) for row in rows if row[0]]
