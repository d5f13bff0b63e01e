# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The plan as Slurm's configuration: ``gres.conf``, a line for each GPU, and ``topology.conf`` of the tree plugin."""

from __future__ import annotations

import re
import typing as t

Document = t.Mapping[str, t.Any]
Node = t.Mapping[str, t.Any]

_HEAD = "# %s of the fabric %s, written from its plan. Changes here are lost.\n"
# Slurm takes a range of numbers at the end of a name; a name without a number is listed.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})\Z")


def files(document: Document) -> dict[str, str]:
    """Path -> text."""
    return {"slurm/gres.conf": gres(document), "slurm/topology.conf": topology(document)}


def gres(document: Document) -> str:
    """A line for each GPU, by the nodes that have it and its nearest rail port alike. The comment names that port."""
    lines: dict[tuple[str, int, str], list[str]] = {}
    for node in document["nodes"]:
        ports = {gpu: port for port in node["ports"] for gpu in port["gpus"]}
        for number in map(int, node["gpus"]):
            near = ports.get(number)
            lines.setdefault((node["profile"], number, _port(near) if near else "no rail port"), []).append(
                node["name"]
            )
    text = _HEAD % ("gres.conf", document["fabric"]["name"])
    for (profile, number, port), nodes in sorted(lines.items()):
        text += "NodeName=%s Name=gpu Type=%s File=/dev/nvidia%d # %s\n" % (hostlist(nodes), profile, number, port)
    return text


def _port(port: t.Mapping[str, t.Any]) -> str:
    words = [port["rail"], port["rdma"]["name"], port["netdev"], port["pci"]]
    return " ".join(dict.fromkeys(word for word in words if word))


def topology(document: Document) -> str:
    """A switch for each unit, because Slurm's tree has each node below one leaf and a unit's nodes share all of theirs;
    above it one for each site, and one for the fabric.
    """
    fabric = document["fabric"]["name"]
    text = _HEAD % ("topology.conf", fabric)
    below: dict[str, list[str]] = {}
    for unit in document["units"]:
        nodes = [node["name"] for node in document["nodes"] if node["unit"] == unit["name"]]
        if nodes:
            text += "# leaves of %s: %s\n" % (unit["name"], ", ".join(leaf["name"] for leaf in unit["leaves"]))
            text += "SwitchName=%s Nodes=%s\n" % (unit["name"], hostlist(nodes))
            below.setdefault(unit["site"] or fabric, []).append(unit["name"])
    if not below:
        return text + "SwitchName=%s Nodes=%s\n" % (fabric, hostlist([node["name"] for node in document["nodes"]]))
    sites = [site for site in below if site != fabric]
    if below.get(fabric) or len(sites) > 1:
        below[fabric] = below.pop(fabric, []) + sites
    for above, names in below.items():
        text += "SwitchName=%s Switches=%s\n" % (above, hostlist(names))
    return text


def hostlist(names: t.Sequence[str]) -> str:
    """Names as Slurm's hostlist: runs of numbers at the ends of names as ranges."""
    runs: list[tuple[str, str, str]] = []
    for name in names:
        found = _NUMBERED.match(name)
        head, number = (found.group(1), found.group(2)) if found else (name, "")
        if runs and found and runs[-1][0] == head and runs[-1][2] and _next(runs[-1][2], number):
            runs[-1] = (head, runs[-1][1], number)
        else:
            runs.append((head, number, number))
    heads: dict[str, list[str]] = {}
    for head, first, last in runs:
        heads.setdefault(head, []).append(first if first == last else "%s-%s" % (first, last))
    found_all = []
    for head, parts in heads.items():
        one = len(parts) == 1 and "-" not in parts[0]
        found_all.append(head + (parts[0] if one else "[%s]" % ",".join(parts)))
    return ",".join(found_all)


def _next(before: str, after: str) -> bool:
    """Whether a number follows another one, in a form that a range keeps: as wide, or without zeros before both."""
    alike = len(before) == len(after) or not (before.startswith("0") or after.startswith("0"))
    return int(after) == int(before) + 1 and alike
