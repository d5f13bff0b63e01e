# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan as Slurm configuration: ``gres.conf`` with a line per GPU, and ``topology.conf`` for the plugins tree and
block."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import compute_ports, functions

Document = t.Mapping[str, t.Any]
Node = t.Mapping[str, t.Any]

_HEAD = "# %s of the fabric %s, written from its plan. Changes here are lost.\n"
# Slurm supports a range of numbers at the end of a name. Names without a number are listed.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})\Z")


def files(document: Document) -> dict[str, str]:
    """Return file name -> text."""
    return {
        "slurm/gres.conf": gres(document),
        "slurm/topology.conf": topology(document),
        "slurm/topology-block.conf": blocks(document),
    }


def gres(document: Document) -> str:
    """Return a line for each GPU, grouped by nodes with the same GPU and nearest rail port. The comment names that
    port.

    Files of AMD's GPUs have numbers that other display devices of the node change, so Slurm finds these GPUs itself
    (``AutoDetect=rsmi``, gres.conf(5)): the lines are comments.
    """
    lines: dict[tuple[str, int, str, str], list[str]] = {}
    detected: dict[str, list[str]] = {}
    for node in document["nodes"]:
        if node.get("gpu_vendor") == "amd":
            detected.setdefault(node["profile"], []).append(node["name"])
        ports = {gpu: port for port in compute_ports(node["ports"]) for gpu in port["gpus"]}
        for number in map(int, node["gpus"]):
            near = ports.get(number)
            kind = node.get("gpu_model", node["profile"])
            lines.setdefault((node["profile"], number, _port(near) if near else "no rail port", kind), []).append(
                node["name"]
            )
    text = _HEAD % ("gres.conf", document["fabric"]["name"])
    for _profile, nodes in sorted(detected.items()):
        text += "NodeName=%s AutoDetect=rsmi Name=gpu\n" % hostlist(nodes)
    for (profile, number, port, kind), nodes in sorted(lines.items()):
        if profile in detected:
            text += "# %s: GPU %d, %s\n" % (hostlist(nodes), number, port)
            continue
        text += "NodeName=%s Name=gpu Type=%s File=/dev/nvidia%d # %s\n" % (hostlist(nodes), kind, number, port)
    return text


def _port(port: t.Mapping[str, t.Any]) -> str:
    names = [port["rail"], port["rdma"]["name"], port["netdev"], *(each["pci"] for each in functions(port))]
    return " ".join(dict.fromkeys(name for name in names if name))


def topology(document: Document) -> str:
    """Return a switch for each unit, and switches above them for sites and the fabric where there are several.

    In Slurm's tree, each node is below one leaf, and the nodes of a unit share all of theirs.
    """
    fabric = document["fabric"]["name"]
    text = _HEAD % ("topology.conf", fabric)
    children: dict[str, list[str]] = {}
    for unit in document["units"]:
        nodes = [node["name"] for node in document["nodes"] if node["unit"] == unit["name"]]
        if nodes:
            text += "# leaves of %s: %s\n" % (unit["name"], ", ".join(leaf["name"] for leaf in unit["leaves"]))
            text += "SwitchName=%s Nodes=%s\n" % (unit["name"], hostlist(nodes))
            children.setdefault(unit["site"] or fabric, []).append(unit["name"])
    if not children:
        return text + "SwitchName=%s Nodes=%s\n" % (fabric, hostlist([node["name"] for node in document["nodes"]]))
    sites = [site for site in children if site != fabric]
    if children.get(fabric) or len(sites) > 1:
        children[fabric] = children.pop(fabric, []) + sites
    for parent, names in children.items():
        text += "SwitchName=%s Switches=%s\n" % (parent, hostlist(names))
    return text


def blocks(document: Document) -> str:
    """Return a block for each NVLink domain, and one for each unit with nodes outside of NVLink domains.

    Slurm (24.11, ``topology_block.so``) stops if a block has fewer nodes than the first of ``BlockSizes``, and if one
    of the others is not the first times a power of two. Nodes without a block get no jobs.
    """
    fabric = document["fabric"]["name"]
    domains: dict[str, list[str]] = {}
    units: dict[str, list[str]] = {}
    for node in document["nodes"]:
        domain = node.get("nvlink_domain")
        found = domains.setdefault(domain, []) if domain else units.setdefault(node["unit"] or fabric, [])
        found.append(node["name"])
    named = dict(domains)
    for name, nodes in units.items():
        block = name
        while block in named or (block != name and block in units):
            block += "-other"
        named[block] = nodes
    smallest, largest = (size(map(len, named.values())) for size in (min, max))
    text = _HEAD % ("topology.conf", fabric)
    if smallest != largest:
        text += "# The blocks have %d to %d nodes. Slurm plans with the smallest.\n" % (smallest, largest)
    for name, nodes in named.items():
        text += "BlockName=%s Nodes=%s\n" % (name, hostlist(nodes))
    sizes = (smallest << doubled for doubled in range(len(named).bit_length()))
    return text + "BlockSizes=%s\n" % ",".join(map(str, sizes))


def hostlist(names: t.Sequence[str]) -> str:
    """Return names in Slurm's hostlist format: consecutive numbers at the ends of names become ranges."""
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
    """Return whether a number follows another one and has the same width, or neither has leading zeros."""
    alike = len(before) == len(after) or not (before.startswith("0") or after.startswith("0"))
    return int(after) == int(before) + 1 and alike
