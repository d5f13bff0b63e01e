# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices of the rail agents of 512 and 4,096 nodes of 8 rails x 8 slots: objects, bytes and writes.

The objects are what each agent would write, by the functions of the agent. The requests of one node are counted at the
tests' API server, which checks objects by the rules of resource.k8s.io/v1. No scheduler runs.
"""

from __future__ import annotations

import json
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    ALL_RAILS,
    AgentSpec,
    parse_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import slice_devices
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import slice_publisher
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import KUBECONFIGS, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    DOWN,
    Row,
    SliceDevice,
    Writes,
    specs,
    writes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from benchmarks.figures import say
from tests.standins.dra_api import NODE, DraApi
from tests.unit.node.trees import Tree

SIZES = (512, 4096)
RAIL = "gpu01"
FABRIC = """\
plugin: railyard.fabric.rails
fabric: {name: scale, attachment: macvlan, provider: agent, mtu: 4200,
  slots: {all_rails: 4, per_rail: 4, kubelet_plugin: dra}}
addresses: {mode: prefix, supernet: 10.0.0.0/8, rail_prefix: 14, node_prefix: 27, gateway: first}
rails: {count: 8, name: "gpu{n:02}"}
profiles:
  hgx:
    speed: 400
    ports:
%snodes:
  node-[1:%d]: {profile: hgx}
"""
PORT = '      gpu%02d: {netdev: rail%02d, pci: "0000:%02x:00.0", rdma: mlx5_%d, gpu: %d}\n'
PORTS = [(rail + 1, rail + 1, 16 * rail + 10, rail, rail) for rail in range(8)]


class SameNode(System):
    """The filesystem of one node, used for all nodes. Each path is resolved once."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._resolved: dict[str, str] = {}

    def real_path(self, path: str) -> str:
        if path not in self._resolved:
            self._resolved[path] = super().real_path(path)
        return self._resolved[path]


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        system = _node_of_profile(Path(scratch) / "node")
        for size in SIZES:
            _sizes(size, system)
        _requests(Path(scratch) / "api", system)
    return 0


def _node_of_profile(root: Path) -> System:
    """Return a node with the ports' PCI functions, so that devices have all attributes."""
    root.mkdir()
    tree = Tree(root)
    for _rail, _name, bus, number, _gpu in PORTS:
        tree.function("pci0000:%02x/0000:%02x:00.0" % (bus, bus), numa=number // 4)
    return SameNode(str(root))


def _specs(nodes: int) -> list[AgentSpec]:
    plan = lint((FABRIC % ("".join(PORT % port for port in PORTS), nodes)).encode()).plan
    assert plan
    return [parse_spec(plan.node_vars(planned)["agent"]) for planned in plan.nodes]


def _devices(system: System, spec: AgentSpec) -> list[SliceDevice]:
    states = {
        device.id: DeviceState(device.id, True, (), "") for devices in spec.resources().values() for device in devices
    }
    return slice_devices(system, spec, states)


def _down(devices: t.Sequence[SliceDevice]) -> list[SliceDevice]:
    """Return the devices after rail :data:`RAIL` has gone down."""
    return [device._replace(taint=DOWN if device.resource in (RAIL, ALL_RAILS) else "") for device in devices]


def _sizes(nodes: int, system: System) -> None:
    begun = time.process_time()
    first: list[Writes] = []
    change: list[Writes] = []
    for spec in _specs(nodes):
        devices_up = _devices(system, spec)
        desired = specs(spec.resource_prefix, spec.node, devices_up)
        first.append(writes(desired, [], {"kind": "Node", "apiVersion": "v1", "name": spec.node, "uid": "0" * 36}))
        tainted = specs(spec.resource_prefix, spec.node, _down(devices_up))
        change.append(writes(tainted, first[-1].created, None))
    seconds = time.process_time() - begun
    slices = [row for node in first for row in node.created]
    sizes = [_size(row) for row in slices]
    devices = sum(len(row["spec"]["devices"]) for row in slices)
    say("%d nodes: devices, ResourceSlices" % nodes, "%d, %d" % (devices, len(sizes)))
    say("  bytes of all; of the largest", "%.1f MB; %.1f kB" % (sum(sizes) / 1e6, max(sizes) / 1e3))
    say("  writes at the start of all agents", str(sum(node.total for node in first)))
    text = "%d, %.1f kB" % (change[0].total, sum(map(_size, change[0].updated)) / 1e3)
    say("  writes when one rail of one node goes down, and their bytes", text)
    total = sum(_size(row) for node in change for row in node.updated)
    text = "%d, %.1f MB" % (sum(node.total for node in change), total / 1e6)
    say("  writes when one rail of all nodes goes down, and their bytes", text)
    say("  processor time of planning and computing them", "%.1f s" % seconds)


def _size(row: Row) -> int:
    return len(json.dumps(row))


def _requests(directory: Path, system: System) -> None:
    directory.mkdir()
    (spec,) = _specs(1)
    assert spec.node == NODE
    api = DraApi(directory)
    api.serve()
    kubeconfig = Path(system.path(KUBECONFIGS[0]))
    try:
        kubeconfig.parent.mkdir(parents=True)
        api.kubeconfig_with_data(kubeconfig)
        publisher = slice_publisher.SlicePublisher(lambda: ApiServer(system), spec.resource_prefix, spec.node)
        steps: list[tuple[str, t.Callable[[], list[SliceDevice]]]] = [
            ("at the start", lambda: _devices(system, spec)),
            ("every five minutes, with nothing to do", lambda: _devices(system, spec)),
            ("when one rail goes down", lambda: _down(_devices(system, spec))),
            ("when it comes back", lambda: _devices(system, spec)),
        ]
        for text, devices in steps:
            api.requests.clear()
            publisher.publish(devices())
            methods = [method for method, _path in api.requests]
            counted = ", ".join("%d %s" % (methods.count(method), method) for method in sorted(set(methods)))
            say("requests of one node %s" % text, counted)
    finally:
        api.close()
