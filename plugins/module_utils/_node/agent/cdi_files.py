# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""CDI files: what the container runtime adds to a container that holds a device.

One file for each resource, with all its devices: they are written from the node file when the agent starts, and not for
a pod, so that nothing is left of a pod. Source: the CDI specification 0.5.0, https://github.com/cncf-tags/container-device-interface.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    ALL_RAILS,
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import PCI, vf_pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DIRECTORY = "/var/run/cdi"
VERSION = "0.5.0"
# The prefix of resources in a node file that does not set another.
PREFIX = "railyard.fabric"
HOOK = "/usr/local/lib/railyard/agent-hook"
# Seconds; the hook itself gives up a little earlier. The kubelet waits two minutes for the start of a container.
TIMEOUT = 110
RDMA_CM = "/dev/infiniband/rdma_cm"


def kind(spec: AgentSpec, resource: str) -> str:
    return "%s/%s" % (spec.resource_prefix, resource)


def qualified_name(spec: AgentSpec, device: Device) -> str:
    """How kubelet and the container runtime name a device: ``railyard.fabric/gpu01=gpu01-4``."""
    return "%s=%s" % (kind(spec, device.resource), device.id)


def write_cdi(system: System, spec: AgentSpec) -> None:
    """Write the files that differ, and remove those of other resources. Raises :class:`RailyardError`.

    Device nodes of RDMA devices have no fixed numbers: call it again after devices have come or gone.
    """
    wanted = {
        path(spec, resource): json.dumps(document(system, spec, resource, devices), indent=1) + "\n"
        for resource, devices in spec.resources().items()
    }
    for name in _ours(system, spec.resource_prefix):
        if name not in wanted:
            system.remove_file(name)
    for name, text in wanted.items():
        if system.read_file(name) != text:
            system.write_file(name, text)


def remove_cdi(system: System, prefix: str = PREFIX) -> None:
    for name in _ours(system, prefix):
        system.remove_file(name)


def path(spec: AgentSpec, resource: str) -> str:
    return "%s/%s-%s.json" % (DIRECTORY, spec.resource_prefix, resource)


def _ours(system: System, prefix: str) -> list[str]:
    names = system.listdir(DIRECTORY)
    return ["%s/%s" % (DIRECTORY, each) for each in names if each.startswith(prefix + "-") and each.endswith(".json")]


def document(system: System, spec: AgentSpec, resource: str, devices: t.Sequence[Device]) -> dict[str, t.Any]:
    return {
        "cdiVersion": VERSION,
        "kind": kind(spec, resource),
        "devices": [{"name": device.id, "containerEdits": _edits(system, spec, device)} for device in devices],
    }


def _edits(system: System, spec: AgentSpec, device: Device) -> dict[str, t.Any]:
    nodes = [each for name, slot in device.slots.items() for each in _uverbs(system, spec, spec.rail(name), slot)]
    if any(spec.rail(name).rdma or spec.rail(name).soft for name in device.slots) and system.exists(RDMA_CM):
        nodes.insert(0, RDMA_CM)
    edits: dict[str, t.Any] = {
        "env": ["%s=%s" % entry for entry in sorted(environment(system, spec, device).items())],
        "hooks": [
            {"hookName": "createRuntime", "path": HOOK, "args": ["agent-hook", device.id], "timeout": TIMEOUT},
        ],
    }
    if nodes:
        edits["deviceNodes"] = [{"path": node, "permissions": "rw"} for node in nodes]
    return edits


def environment(system: System, spec: AgentSpec, device: Device) -> dict[str, str]:
    """The variables of a device's container. A container with devices of several rails gets the variables of them all,
    so those of single rails have the rail in their name, and name no RDMA devices.
    """
    if device.resource != ALL_RAILS:
        name = re.sub("[^A-Z0-9]", "_", device.resource.upper())
        return dict({"RAILYARD_SLOT_" + name: str(device.number)}, **spec.env)
    found = {"RAILYARD_RAILS": ",".join(device.slots), "RAILYARD_SLOT": str(device.number)}
    names = [_rdma(system, spec, spec.rail(name), slot) for name, slot in device.slots.items()]
    if names and all(names):
        # the exact names: without the sign, NCCL takes them as prefixes
        found["NCCL_IB_HCA"] = "=" + ",".join(str(name) for name in names)
    return dict(found, **spec.env)


def _rdma(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> str | None:
    """The RDMA device of a slot; None for a soft one, which is made for the pod."""
    if rail.soft or rail.rdma is None:
        return None
    if spec.attachment != "sriov":
        return rail.rdma
    pci = vf_pci(system, rail, slot)
    return next(iter(system.listdir(PCI % pci + "/infiniband")), None) if pci else None


def _uverbs(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> list[str]:
    """The verbs files of a slot's RDMA device. That of a soft one does not exist before the pod: a container that uses
    soft RDMA must be privileged.
    """
    device = _rdma(system, spec, rail, slot)
    names = system.listdir("/sys/class/infiniband/%s/device/infiniband_verbs" % device) if device else []
    return ["/dev/infiniband/" + name for name in names]
