# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""CDI files: what the container runtime adds to a container with a device.

Each resource has one file with all its devices. Files are written from the node file, independently of pods. Other
programs have files in the same directory: ours are those whose devices have our hook. Files of others and links are
neither written nor removed. Source: the CDI specification 0.5.0, https://github.com/cncf-tags/container-device-interface.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import nccl_hca
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._common.nccl_hca import HcaPort
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    ALL_RAILS,
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import PCI, vf_pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

DIRECTORY = "/var/run/cdi"
VERSION = "0.5.0"
HOOK = "/usr/local/lib/railyard/agent-hook"
# Seconds; hook.PATIENCE is shorter. The kubelet waits two minutes for the start of a container.
TIMEOUT = 110
# Bytes of a file that is read. Our largest has less; containerd's configuration of a container has some 100 KB.
LENGTH = 16 << 20
RDMA_CM = "/dev/infiniband/rdma_cm"


def kind(spec: AgentSpec, resource: str) -> str:
    """Return the CDI kind of a resource, such as ``railyard.fabric/gpu01``."""
    return "%s/%s" % (spec.resource_prefix, resource)


def qualified_name(spec: AgentSpec, device: Device) -> str:
    """Return the qualified CDI name of a device, such as ``railyard.fabric/gpu01=gpu01-4``."""
    return "%s=%s" % (kind(spec, device.resource), device.id)


def write_cdi(system: System, spec: AgentSpec) -> None:
    """Write the files that differ, and remove our files of other resources and prefixes.

    Call it again after RDMA devices have changed, because the numbers of their device nodes are not fixed.

    :raises RailyardError: if a file cannot be written, or if another program has a file with its path, after all other
        files are written.
    """
    desired = {
        path(spec, resource): json.dumps(document(system, spec, resource, devices), indent=1) + "\n"
        for resource, devices in spec.resources().items()
    }
    for file in own_files(system):
        if file not in desired:
            system.remove_file(file)
    errors = other_files(system, spec)
    others = {error.place for error in errors}
    for file, text in desired.items():
        if file not in others and read_bounded(system, file) != text.encode():
            system.write_file(file, text)
    raise_all(errors)


def remove_cdi(system: System) -> None:
    """Remove our files, of any prefix."""
    for file in own_files(system):
        system.remove_file(file)


def path(spec: AgentSpec, resource: str) -> str:
    return "%s/%s-%s.json" % (DIRECTORY, spec.resource_prefix, resource)


def own_files(system: System) -> list[str]:
    """Return the paths of our files, by their content: VENDOR-CLASS.json is the usual name of all CDI files."""
    files = ["%s/%s" % (DIRECTORY, name) for name in system.listdir(DIRECTORY) if name.endswith(".json")]
    return [file for file in files if _is_own(read_bounded(system, file))]


def other_files(system: System, spec: AgentSpec) -> list[RailyardError]:
    """Return an error per file of another program that has the path of one of our files."""
    files = [path(spec, resource) for resource in spec.resources()]
    remedy = "set another slots.resource_prefix in the fabric file, or remove this file"
    return [
        RailyardError("another program has a CDI file with this path", file, remedy)
        for file in files
        if system.exists(file) and not _is_own(read_bounded(system, file))
    ]


def _is_own(data: bytes | None) -> bool:
    """Return whether each device of a CDI file has our hook, which no other program writes."""
    try:
        devices = json.loads(data or b"null")["devices"]
        return bool(devices) and all(
            any(hook["path"] == HOOK for hook in device["containerEdits"]["hooks"]) for device in devices
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def read_bounded(system: System, file: str) -> bytes | None:
    """Return the bytes of a regular file of at most :data:`LENGTH` bytes. None if it is not one, such as a link."""
    try:
        fd = os.open(system.path(file), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LENGTH:
            return None
        with open(fd, "rb", closefd=False) as stream:
            return stream.read(LENGTH)
    finally:
        os.close(fd)


def document(system: System, spec: AgentSpec, resource: str, devices: t.Sequence[Device]) -> dict[str, t.Any]:
    return {
        "cdiVersion": VERSION,
        "kind": kind(spec, resource),
        "devices": [{"name": device.id, "containerEdits": _edits(system, spec, device)} for device in devices],
    }


def _edits(system: System, spec: AgentSpec, device: Device) -> dict[str, t.Any]:
    nodes = device_nodes(system, spec, device)
    edits: dict[str, t.Any] = {
        "env": ["%s=%s" % entry for entry in sorted(environment(system, spec, device).items())],
        "hooks": [
            {"hookName": "createRuntime", "path": HOOK, "args": ["agent-hook", device.id], "timeout": TIMEOUT},
        ],
    }
    if nodes:
        edits["deviceNodes"] = [{"path": node, "permissions": "rw"} for node in nodes]
    return edits


def device_nodes(system: System, spec: AgentSpec, device: Device) -> dict[str, str]:
    """Return the device files of a device's container: path -> its number in the kernel, such as ``231:192``."""
    nodes = {}
    rails = {name: spec.rail(name) for name in device.slots}
    if any(rail.rdma or rail.soft for rail in rails.values()) and system.exists(RDMA_CM):
        nodes[RDMA_CM] = system.read("/sys/class/misc/rdma_cm/dev") or ""
    for name, slot in device.slots.items():
        for file in verbs(system, spec, rails[name], slot):
            nodes["/dev/infiniband/" + os.path.basename(file)] = system.read(file + "/dev") or ""
    return nodes


def environment(system: System, spec: AgentSpec, device: Device) -> dict[str, str]:
    """Return the environment variables of a device's container.

    A container with devices of several rails gets the variables of all of them. So the variable of a single rail has
    the rail in its name, and NCCL_IB_HCA is set only for devices on all rails. With rails in NCCL_IB_HCA, NCCL merges
    devices of one rail only.
    """
    if device.resource != ALL_RAILS:
        name = re.sub("[^A-Z0-9]", "_", device.resource.upper())
        return dict({"RAILYARD_SLOT_" + name: str(device.number)}, **spec.env)
    variables = {"RAILYARD_RAILS": ",".join(device.slots), "RAILYARD_SLOT": str(device.number)}
    devices = [_hca_ports(system, spec, spec.rail(name), slot) for name, slot in device.slots.items()]
    if all(devices):
        vfs = any(spec.rail(name).has_vfs for name in device.slots)
        variables.update(nccl_hca.settings([port for ports in devices for port in ports], vfs))
    return dict(variables, **spec.env)


def _hca_ports(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> list[HcaPort]:
    """Return the ports of a slot's RDMA device; empty for soft RDMA, whose device is made for the pod."""
    if rail.soft or rail.rdma is None:
        return []
    name = _vf_device(system, spec, rail, slot) if rail.has_vfs else rail.rdma
    if not name:
        return []
    if rail.nccl:
        return [HcaPort(name, port, rail.nccl.rail, rail.nccl.plane) for port in rail.nccl.ports or (None,)]
    return [HcaPort(name, None if rail.has_vfs else rail.rdma_port)]


def _vf_device(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec) -> str | None:
    """Return the RDMA device of a slot's VF."""
    pci = vf_pci(system, rail, slot)
    names = system.listdir(PCI % pci + "/infiniband") if pci else []
    if not names:
        names = [system.read(file + "/ibdev") or "" for file in verbs(system, spec, rail, slot)]
    return next(filter(None, names), None)


def verbs(system: System, spec: AgentSpec, rail: RailSpec, slot: SlotSpec | None = None) -> list[str]:
    """Return the verbs files of a slot's RDMA device by their directories in sysfs, which have the names that the files
    have in ``/dev/infiniband``.

    Empty for soft RDMA, whose device does not exist before the pod; its containers must be privileged. While a device
    is in the network namespace of a pod (RDMA mode exclusive), the class ``infiniband`` of the node does not show it,
    and the class ``infiniband_verbs`` does.

    :param slot: required with VFs.
    """
    if rail.soft or rail.rdma is None:
        return []
    if rail.has_vfs:
        pci = vf_pci(system, rail, slot) if slot else None
        return _entries(system, PCI % pci + "/infiniband_verbs") if pci else []
    found = _entries(system, "/sys/class/infiniband/%s/device/infiniband_verbs" % rail.rdma)
    if not found and spec.rdma_mode == "exclusive":
        every = _entries(system, "/sys/class/infiniband_verbs")
        found = [file for file in every if system.read(file + "/ibdev") == rail.rdma]
    return found


def _entries(system: System, directory: str) -> list[str]:
    return ["%s/%s" % (directory, name) for name in system.listdir(directory)]


def check_device_files(system: System, spec: AgentSpec, device: Device, oci_state: t.Any) -> None:
    """Raise :class:`AttachError` if a container does not have the files of its RDMA devices as the kernel has them now.

    The numbers of these files are not fixed, and a driver may have been loaded after the container was created.

    :param oci_state: of the hook.
    """
    rdma = {name: spec.rail(name) for name in device.slots if spec.rail(name).rdma and not spec.rail(name).soft}
    missing = ["verbs file on rail " + name for name in rdma if not verbs(system, spec, rdma[name], device.slots[name])]
    desired = device_nodes(system, spec, device)
    observed = _container_nodes(system, spec, device, oci_state) if desired else {}
    missing += [
        file
        for file, number in desired.items()
        if file not in observed or (number and observed[file] and observed[file] != number)
    ]
    if missing:
        # the runtime reads the files again when the kubelet starts the container again
        with contextlib.suppress(RailyardError):
            write_cdi(system, spec)
        raise AttachError("device-files", "device %s" % device.id, files=", ".join(missing))


def _container_nodes(system: System, spec: AgentSpec, device: Device, oci_state: t.Any) -> dict[str, str]:
    """Return the device files of a container: path -> number, as in the configuration that the runtime wrote for it. If
    that cannot be read, or if a user other than root can write it: path -> empty, as in the CDI file in force.
    """
    bundle = oci_state.get("bundle") if isinstance(oci_state, dict) else None
    config = "%s/config.json" % bundle
    if isinstance(bundle, str) and bundle.startswith("/") and not root_owned.why_not(system, config):
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            devices = json.loads(read_bounded(system, config) or b"null")["linux"].get("devices") or []
            return {str(row["path"]): "%d:%d" % (row.get("major", 0), row.get("minor", 0)) for row in devices}
    data = read_bounded(system, path(spec, device.resource))
    devices = json.loads(data or b"null")["devices"] if _is_own(data) else []
    own = [each["containerEdits"] for each in devices if each.get("name") == device.id]
    return {str(row["path"]): "" for edits in own for row in edits.get("deviceNodes", [])}
