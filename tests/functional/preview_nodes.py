# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that were never prepared, as ``rail_host`` sees them in check mode: recorded in a network namespace, replayed.

``PYTHONPATH=collections python -m tests.functional.preview_nodes > tests/functional/previews/rail_host.json``
records them again, as root.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import host_layers
from benchmarks import recordings
from benchmarks.replay_fabric import plan
from tests.functional.node.own_namespace import LiveNode, in_own_namespace

DIRECTORY = Path(__file__).parent / "previews"
RECORDING = DIRECTORY / "rail_host.json"
FABRIC = """\
plugin: railyard.fabric.rails
fabric:
  {name: ai-east, attachment: macvlan, provider: agent, mtu: 4200, max_nodes: 512, slots: {all_rails: 4, per_rail: 2}}
addresses: {mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 14, node_prefix: 27, gateway: first}
rails: {count: 8, name: "rail{n:02}"}
profiles:
  hgx:
    soft_rdma: rxe
    limits: {neighbours: {gc_thresh3: 16384}}
    nccl: {}
    ports:
%s
nodes:
%s"""
_NODES = '  hgx-[%d:%d]: {profile: hgx, address: "172.30.%d.[1:%d]"}\n'
_PORT = "      rail%02d: {netdev: rail%d, gpu: %d}\n"
# Nodes with addresses of one range.
_BLOCK = 250
Row = t.Dict[str, t.Any]


def fabric(nodes: int) -> str:
    """A fabric file of servers with eight rails: ``rail01`` is the netdev ``rail1``."""
    ports = "".join(_PORT % (number, number, number - 1) for number in range(1, 9))
    firsts = range(1, nodes + 1, _BLOCK)
    blocks = [(first, min(first + _BLOCK - 1, nodes)) for first in firsts]
    lines = [_NODES % (first, last, first // _BLOCK, last - first + 1) for first, last in blocks]
    return FABRIC % (ports.rstrip("\n"), "".join(lines))


def results(nodes: int) -> t.Iterator[tuple[str, str, Row]]:
    """Name, address and result of each node, without the rail agent."""
    recorded = RECORDING.read_text()
    made = plan(fabric(nodes))
    for planned in made.nodes:
        values = recordings.values(made.node_vars(planned))
        result = json.loads(_with_values(recorded, values))
        del result["modules"]["rail_agent"]
        result["errors"] = []
        yield planned.node.name, str(planned.node.address), result


def _with_values(recorded: str, values: t.Mapping[str, str]) -> str:
    return recordings._PLACE.sub(lambda found: values[found.group(1)], recorded)


def without_containerd(result: Row) -> None:
    """Let a node refuse the rail agent, because containerd is not installed."""
    (error,) = (each for each in json.loads(RECORDING.read_text())["errors"] if each["place"] == "containerd")
    result["modules"]["rail_agent"] = {"failed": True, "changed": False, "changes": [], "errors": [error], "msg": ""}
    result["errors"] = [error]


def prepare(directory: Path, nodes: int, of_node: t.Mapping[str, t.Callable[[Row], object]] | None = None) -> None:
    """Write what ``benchmarks/connection`` needs: a fabric file, the recording, and the values of each node.

    :param of_node: node -> what changes its result.
    """
    (directory / "fabric.yml").write_text(fabric(nodes))
    for name in ("recordings", "values"):
        (directory / name).mkdir(exist_ok=True)
    (directory / "recordings/rail_host.json").write_text("{{result}}")
    for name, address, result in results(nodes):
        if of_node and name in of_node:
            of_node[name](result)
        (directory / "values" / address).write_text(json.dumps({"result": json.dumps(result)}))
    (directory / "executions").write_text("")


@in_own_namespace
def record(node: LiveNode) -> None:
    """Write what the layers of a node with new ports, systemd-networkd and no container runtime predict."""
    for number in range(1, 9):
        node.rail(number)
    node.networkd()
    node.running("systemd-networkd")
    made = plan(fabric(2))
    variables = made.node_vars(made.nodes[0])
    # soft RDMA devices need a module that kernels for containers do not have
    chosen = [layer for layer in LAYERS if layer != "rdma_links"]
    rows = layer_modules.layer_modules(variables, made.fabric_vars(), {}, chosen)
    options: Row = {"keep_going": False, "preview": True, "states": False, "packages": None, "control_boot_id": None}
    options["modules"] = [dict(row, skip_missing=False) for row in rows]
    result = host_layers.run(options, node.system, True, [])
    for part in [result, *result["modules"].values()]:
        part.pop("diff", None)
    sys.stdout.write(recordings.template(result, variables))


if __name__ == "__main__":
    record()
