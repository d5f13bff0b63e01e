# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cables between guests and leaves: commands to the leaf process, and the carrier that each guest sees."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from lab import process, qmp
from lab.errors import LabError
from lab.state import Lab, node_name


def command(run: Path, message: dict[str, Any], patience: float = 60.0) -> list[dict[str, Any]]:
    """Send a command to the leaf process. Return its description of all rail ports. Raises LabError on failure."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(patience)
            sock.connect(str(run / "leaf.control"))
            sock.sendall(json.dumps(message).encode() + b"\n")
            with sock.makefile("rb") as answers:
                answer = json.loads(answers.readline())
    except (OSError, ValueError) as error:
        raise LabError("the lab's leaf process does not answer (%s)" % error, "lab up") from None
    if not answer["ok"]:
        raise LabError("the leaf reports: %s" % answer["error"], "lab cable --help")
    ports: list[dict[str, Any]] = answer["ports"]
    return ports


def change(lab: Lab, message: dict[str, Any]) -> list[dict[str, Any]]:
    """Change cables, and set the carrier of the guests' NICs. Return the description of all rail ports."""
    ports = command(lab.run, message)
    sync_carrier(lab, ports)
    return ports


def sync_carrier(lab: Lab, ports: list[dict[str, Any]] | None = None) -> None:
    """Set the carrier of each running guest's NICs: a NIC with a cut cable does not have a carrier."""
    ports = command(lab.run, {"do": "show"}) if ports is None else ports
    alive = process.members(lab.directory)
    for node in range(1, lab.nodes + 1):
        if node_name(node) in alive:
            with qmp.Monitor(lab.run, node) as monitor:
                for port in ports:
                    if port["node"] == node:
                        monitor.execute("set_link", name="rail%d" % port["rail"], up=not port["cut"])


def faults(port: dict[str, Any]) -> list[str]:
    """Return the deviations of a cable from an intact one, as texts."""
    texts = []
    if (port["leaf"], port["socket"]) != (port["rail"], port["node"]):
        texts.append("plugged into leaf-%d Ethernet%d" % (port["leaf"], port["socket"]))
    if port["cut"]:
        texts.append("cut")
    if port["mtu"] is not None:
        texts.append("drops above %d bytes" % port["mtu"])
    if port["loss"]:
        texts.append("loses %g %%" % port["loss"])
    if port["vlans"]:
        texts.append("drops VLAN %s" % ", ".join(map(str, port["vlans"])))
    if not port["lacp"]:
        texts.append("has no LACP partner")
    if port["lldp"]:
        texts.append("hears LLDP")
    return texts
