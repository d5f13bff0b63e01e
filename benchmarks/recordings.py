# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded results of modules: a node's names and addresses are replaced by their places in its plan.

``python -m benchmarks record --lab NAME`` records what the nodes of a lab return for rail_host and rail_info. The other
results, and without a lab all of them, follow from the plan of `replay_fabric.py`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

from benchmarks.figures import BIN, ROOT

Row = t.Dict[str, t.Any]
DIRECTORY = ROOT / "benchmarks" / "recordings"
_PLACE = re.compile(r"\{\{([^{}]+)\}\}")
_ADDRESS = re.compile(r"[0-9a-f.:]+/\d+$")
# Shorter texts are words such as "auto", and not names or addresses of a node.
_LEAST = 4
# Characters that continue a name or an address. A name may have a domain.
_BEFORE, _AFTER = r"[0-9A-Za-z_.:-]", r"[0-9A-Za-z_:-]"


def values(node: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return place in a node's plan, such as ``ports/0/netdev`` -> name or address.

    An address is without its prefix, because modules report both. The network of an address has the place of the
    address with ``^`` behind it.
    """
    found: dict[str, str] = {}

    def look(value: t.Any, place: str) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                look(each, "%s/%s" % (place, key))
        elif isinstance(value, (list, tuple)):
            for number, each in enumerate(value):
                look(each, "%s/%d" % (place, number))
        elif isinstance(value, str):
            if _ADDRESS.match(value):
                known = ipaddress.ip_interface(value)
                found[place[1:]] = str(known.ip)
                found.setdefault(place[1:] + "^", str(known.network.network_address))
            else:
                found[place[1:]] = value

    look(node, "")
    return found


def template(result: Row, node: t.Mapping[str, t.Any], peer: str = "") -> str:
    """Return a result as JSON, with places instead of the values that differ between nodes."""
    places: dict[str, str] = {}
    for place, value in values(node).items():
        if len(value) >= _LEAST:
            places.setdefault(value, place)
    if peer:
        places[peer] = "peer"
    known = "|".join(re.escape(value) for value in sorted(places, key=len, reverse=True))
    pattern = re.compile("(?<!%s)(?:%s)(?!%s)" % (_BEFORE, known, _AFTER))

    def replace(value: t.Any) -> t.Any:
        if isinstance(value, dict):
            return {replace(key): replace(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replace(each) for each in value]
        return pattern.sub(lambda found: "{{%s}}" % places[found.group()], value) if isinstance(value, str) else value

    return json.dumps(replace(result), indent=1) + "\n"


def places(directory: Path = DIRECTORY) -> set[str]:
    """Return the places in all recordings."""
    return {place for path in directory.glob("*.json") for place in _PLACE.findall(path.read_text())} - {"peer"}


def of_plan(directory: Path = DIRECTORY) -> None:
    """Write the results that follow from the plan."""
    from benchmarks import replay_fabric

    world = replay_fabric.World(replay_fabric.plan(replay_fabric.fabric(2)), rounds=1)
    ((_server, client),) = world.pairs
    for name, result in replay_fabric.planned_results(world, client).items():
        peer = _server if name == "rail_probe.collect" else ""
        (directory / (name + ".json")).write_text(template(result, world.plans[client], peer))


def of_nodes(inventory: str, directory: Path = DIRECTORY, words: t.Sequence[str] = (), **environment: str) -> None:
    """Run the modules on two nodes that are as planned, and write their results."""
    env = dict(
        os.environ,
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "benchmarks/callback"),
        ANSIBLE_CALLBACKS_ENABLED="recorder",
        RAILYARD_RECORDINGS=str(directory),
        **environment,
    )
    command = [str(BIN / "ansible-playbook"), "-i", inventory, "benchmarks/record.yml", *words]
    subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, check=True)


def main(lab: str | None) -> int:
    if lab is None:
        of_plan()
    else:
        of_nodes("inventories/lab", RAILYARD_LAB=lab)
    for path in sorted(DIRECTORY.glob("*.json")):
        print("%s: %d bytes" % (path.relative_to(ROOT), path.stat().st_size))
    return 0


if __name__ == "__main__":
    sys.exit(main(None))
