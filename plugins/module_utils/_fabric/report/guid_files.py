# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GUIDs of a plan's VFs for the subnet manager: a table, and partitions for opensm and UFM.

The plan assigns the GUIDs of VFs. It does not know the GUIDs of ports, which the cards have.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import as_csv

Document = t.Mapping[str, t.Any]
COLUMNS = ("node", "rail", "netdev", "pci", "vf", "node_guid", "port_guid")
# Members per line: opensm limits the length of a line, but not the number of lines.
_A_LINE = 4


def rows(document: Document) -> list[tuple[t.Any, ...]]:
    """Return a row for each VF with GUIDs."""
    found: list[tuple[t.Any, ...]] = []
    for node in document["nodes"]:
        for port in node["ports"]:
            for vf in (port.get("vfs") or {}).get("attributes") or ():
                if vf.get("port_guid"):
                    below = functions(port)[0]
                    head = (node["name"], port["rail"], below["netdev"], below["pci"], vf["index"])
                    found.append((*head, vf["node_guid"], vf["port_guid"]))
    return found


def files(document: Document) -> dict[str, bytes]:
    """Return file name -> contents; empty if the plan assigns no GUIDs. The same plan gives the same bytes."""
    found = rows(document)
    if not found:
        return {}
    made = {"guids.csv": as_csv(COLUMNS, found)}
    partitions = _partitions(document)
    if partitions:
        made["partitions.conf"] = _opensm(document["fabric"]["name"], partitions).encode("utf-8")
        made["ufm-pkeys.json"] = _ufm(partitions).encode("utf-8")
    return made


def _partitions(document: Document) -> dict[str, list[str]]:
    """Return partition key -> the GUIDs of the VFs of nodes that have the key."""
    found: dict[str, list[str]] = {}
    for node in document["nodes"]:
        for port in node["ports"]:
            guids = [vf.get("port_guid") for vf in (port.get("vfs") or {}).get("attributes") or ()]
            for key in (port.get("ipoib") or {}).get("pkeys") or ():
                found.setdefault(key, []).extend(guid.replace(":", "") for guid in guids if guid)
    return {key: found[key] for key in sorted(found) if found[key]}


def _opensm(name: str, partitions: t.Mapping[str, t.Sequence[str]]) -> str:
    text = "# The VFs of the fabric %s, from its plan. Add the ports' own GUIDs (ibstat -p), or ALL=full.\n" % name
    if len({frozenset(guids) for guids in partitions.values()}) > 1:
        text = (
            "# The VFs of the fabric %s, from its plan. Add the ports' own GUIDs (ibstat -p) of each partition.\n"
            % name
        )
        text += "# ALL=full in Default lets partitions reach each other; ALL=limited keeps them apart.\n"
    text += "Default=0x7fff, ipoib : ALL=full, SELF=full;\n"
    for key, guids in partitions.items():
        members = ["0x%s=full" % guid for guid in guids]
        lines = [", ".join(members[at : at + _A_LINE]) for at in range(0, len(members), _A_LINE)]
        text += "%s_%s=%s, ipoib : SELF=full,\n    %s;\n" % (
            name.replace("-", "_"),
            key[2:],
            key,
            ",\n    ".join(lines),
        )
    return text


def _ufm(partitions: t.Mapping[str, t.Sequence[str]]) -> str:
    """Return a request body for each partition, for UFM's resource ``pkeys``."""
    bodies = [
        {"pkey": key, "ip_over_ib": True, "index0": False, "membership": "full", "guids": list(guids)}
        for key, guids in partitions.items()
    ]
    return json.dumps(bodies, indent=1) + "\n"
