# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""CDI files: what the container runtime adds to a container with a device.

Each resource has one file with all its devices. Files are written from the node file, independently of pods. Source:
the CDI specification 0.5.0, https://github.com/cncf-tags/container-device-interface.
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
# The default of resource_prefix in a node file.
PREFIX = "railyard.fabric"
HOOK = "/usr/local/lib/railyard/agent-hook"
# Seconds; hook.PATIENCE is shorter. The kubelet waits two minutes for the start of a container.
TIMEOUT = 110
RDMA_CM = "/dev/infiniband/rdma_cm"


def kind(spec: AgentSpec, resource: str) -> str:
    """Return the CDI kind of a resource, such as ``railyard.fabric/gpu01``."""
    return "%s/%s" % (spec.resource_prefix, resource)


def qualified_name(spec: AgentSpec, device: Device) -> str:
    """Return the qualified CDI name of a device, such as ``railyard.fabric/gpu01=gpu01-4``."""
    return "%s=%s" % (kind(spec, device.resource), device.id)


def write_cdi(system: System, spec: AgentSpec) -> None:
    """Write the files that differ, and remove files of other resources. Raises :class:`RailyardError`.

    Call it again after RDMA devices have changed, because the numbers of their device nodes are not fixed.
    """
    desired = {
        path(spec, resource): json.dumps(document(system, spec, resource, devices), indent=1) + "\n"
        for resource, devices in spec.resources().items()
    }
    for file in _agent_files(system, spec.resource_prefix):
        if file not in desired:
            system.remove_file(file)
    for file, text in desired.items():
        if system.read_file(file) != text:
            system.write_file(file, text)


def remove_cdi(system: System, prefix: str = PREFIX) -> None:
    """Remove the files of all resources with this prefix."""
    for file in _agent_files(system, prefix):
        system.remove_file(file)


def path(spec: AgentSpec, resource: str) -> str:
    return "%s/%s-%s.json" % (DIRECTORY, spec.resource_prefix, resource)


def _agent_files(system: System, prefix: str) -> list[str]:
    names = system.listdir(DIRECTORY)
    return ["%s/%s" % (DIRECTORY, name) for name in names if name.startswith(prefix + "-") and name.endswith(".json")]


def document(system: System, spec: AgentSpec, resource: str, devices: t.Sequence[Device]) -> dict[str, t.Any]:
    return {
        "cdiVersion": VERSION,
        "kind": kind(spec, resource),
        "devices": [{"name": device.id, "containerEdits": _edits(system, spec, device)} for device in devices],
    }


def _edits(system: System, spec: AgentSpec, device: Device) -> dict[str, t.Any]:
    nodes = [file for name, slot in device.slots.items() for file in _uverbs(system, spec, spec.rail(name), slot)]
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
    """Return the environment variables of a device's container.

    A container with devices of several rails gets the variables of all of them. So the variable of a single rail has
    the rail in its name, and NCCL_IB_HCA is set only for devices on all rails.
    """
    if device.resource != ALL_RAILS:
        name = re.sub("[^A-Z0-9]", "_", device.resource.upper())
        return dict({"RAILYARD_SLOT_" + name: str(device.number)}, **spec.env)
    variables = {"RAILYARD_RAILS": ",".join(device.slots), "RAILYARD_SLOT": str(device.number)}
    names = [_rdma_device(system, spec, spec.rail(name), slot) for name, slot in device.slots.items()]
    if names and all(names):
        # "=" makes NCCL match the exact names instead of prefixes
        variables["NCCL_IB_HCA"] = "=" + ",".join(str(name) for name in names)
    return dict(variables, **spec.env)


def _rdma_device(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> str | None:
    """Return the RDMA device of a slot; None for soft RDMA, whose device is made for the pod."""
    if rail.soft or rail.rdma is None:
        return None
    if not spec.has_vfs:
        return rail.rdma
    pci = vf_pci(system, rail, slot)
    return next(iter(system.listdir(PCI % pci + "/infiniband")), None) if pci else None


def _uverbs(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> list[str]:
    """Return the verbs files of a slot's RDMA device. Empty for soft RDMA, whose device does not exist before the pod;
    its containers must be privileged.
    """
    device = _rdma_device(system, spec, rail, slot)
    names = system.listdir("/sys/class/infiniband/%s/device/infiniband_verbs" % device) if device else []
    return ["/dev/infiniband/" + name for name in names]
