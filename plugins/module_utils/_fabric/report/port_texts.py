# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and ports of the picture as short texts."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions

Document = t.Mapping[str, t.Any]


def where(node: Document) -> str:
    """Return the profile, rack and place of a node."""
    words = ["%s %s" % (key, node[key]) for key in ("rack", "place") if node.get(key) is not None]
    return ", ".join(filter(None, [node.get("profile"), *words]))


def port_lines(port: Document) -> list[str]:
    """Return the names and address of a port."""
    match = port.get("match") or {}
    known = port.get("netdev") or port.get("pci") or (port.get("rdma") or {}).get("name")
    if not known:
        known = next(("%s %s" % (key, value) for key, value in match.items() if value is not None), "port")
    addresses = [port[key] for key in ("address", "address6") if port.get(key)]
    # The functions below a bond or VLAN have names of their own.
    members = [each.get("netdev") or each.get("pci") for each in functions(port)] if port.get("lower") else []
    below = ["on %s" % ", ".join(filter(None, members))] if any(members) else []
    planes = ["%d planes" % port["planes"]["count"]] if port.get("planes") else []
    return [known, *(planes or below), *addresses]


def gpu_text(port: Document) -> str:
    """Return ``GPU 0``, ``GPU 0-3,5`` or ``no GPU``."""
    gpus = sorted(port.get("gpus") or ())
    if not gpus:
        return "no GPU"
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    words = ["%d-%d" % (run[0], run[-1]) if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return "GPU " + ",".join(words)
