# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host settings beside the rail ports: PCI, limits, GPUDirect, NCCL.

The fabric, a profile and a group can set each key; the later overrides the earlier. A layer without a key is not
managed.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import HostSettings

PCI, LIMITS, GPUDIRECT, NCCL, IMEX = "pci", "limits", "gpudirect", "nccl", "imex"
LAYERS = (PCI, LIMITS, GPUDIRECT, NCCL, IMEX)
LEAVE, DISABLED, PASSTHROUGH, UNLIMITED, UNMANAGED = "leave", "disabled", "passthrough", "unlimited", "unmanaged"
# Values of Max_Read_Request_Size of PCI Express, in bytes.
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)
THRESHOLDS = ("gc_thresh1", "gc_thresh2", "gc_thresh3")
AUTO, DMABUF, PEERMEM, NONE = "auto", "dmabuf", "peermem", "none"
# Where the GPU driver is installed, and the flavour of NVIDIA's kernel modules.
HOST, CONTAINER = "host", "container"
OPEN, PROPRIETARY = "open", "proprietary"
# The files from which NCCL and UCX read settings for all programs of a node.
NCCL_FILE, UCX_FILE = "/etc/nccl.conf", "/etc/ucx/ucx.conf"
# Unit of the kernel argument ``hugepagesz=`` -> kB.
_UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20}


def size_kb(text: str) -> int | None:
    """Return the size of a hugepage in kB, from the form of kernel arguments, such as ``2M``; None for another text."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or number.startswith("0") or len(number) > 6:
        return None
    return int(number) * _UNITS[unit]


def version_numbers(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a version such as ``2.30.5``, always three; None for another text."""
    numbers = text.split(".")
    if len(numbers) != 3 or not all(each.isascii() and each.isdigit() and len(each) < 5 for each in numbers):
        return None
    return tuple(map(int, numbers))


def nccl_version(host: HostSettings) -> tuple[int, ...] | None:
    """Return the numbers of the oldest NCCL of the jobs; None if the file does not have it."""
    return version_numbers(value(host, NCCL, "version", ""))


def overlay(base: HostSettings, settings: HostSettings) -> HostSettings:
    """Return ``base`` with the keys of ``settings`` in place of its own."""
    if not settings:
        return base
    layers = [layer for layer in LAYERS if layer in base or layer in settings]
    return {layer: dict(base.get(layer, {}), **settings.get(layer, {})) for layer in layers}


def value(host: HostSettings, layer: str, key: str, default: t.Any = None) -> t.Any:
    """Return the value of a key; ``default`` if it is not set or could not be read."""
    setting = host.get(layer, {}).get(key)
    return default if setting is None or setting.value is None else setting.value


def host_variables(host: HostSettings) -> dict[str, t.Any]:
    """Return the host variable of each layer; None for a layer that is not managed. The variable of ``imex`` depends
    on the NVLink domain of the node: see :mod:`.nvlink_model`.

    Within a layer, None and ``leave`` mean that a setting is not changed. Sizes are in bytes, those of hugepages in kB.
    """
    variables: dict[str, t.Any] = dict.fromkeys(layer for layer in LAYERS if layer != IMEX)
    if PCI in host:
        manages_kernel = "iommu" in host[PCI] or "kernel_arguments" in host[PCI]
        variables[PCI] = {
            "acs": value(host, PCI, "acs", LEAVE),
            "max_read_request": value(host, PCI, "max_read_request"),
            "kernel": {
                "iommu": value(host, PCI, "iommu", LEAVE),
                "arguments": list(value(host, PCI, "kernel_arguments", ())),
            }
            if manages_kernel
            else None,
        }
    if LIMITS in host:
        pages = value(host, LIMITS, "hugepages")
        variables[LIMITS] = {
            "memlock": value(host, LIMITS, "memlock", LEAVE),
            "hugepages": None
            if pages is None
            else [{"size_kb": size, "count": count} for size, count in sorted(pages.items())],
            "neighbours": dict(value(host, LIMITS, "neighbours", {})),
            "network_manager": value(host, LIMITS, "network_manager", LEAVE),
            "cloud_init": value(host, LIMITS, "cloud_init", LEAVE),
        }
    if GPUDIRECT in host:
        variables[GPUDIRECT] = {
            "path": value(host, GPUDIRECT, "path", AUTO),
            "gdrcopy": value(host, GPUDIRECT, "gdrcopy"),
            "gpu_driver": value(host, GPUDIRECT, "gpu_driver", HOST),
            "flavour": value(host, GPUDIRECT, "flavour"),
        }
    if NCCL in host:
        variables[NCCL] = {
            "file": NCCL_FILE if value(host, NCCL, "file", True) else None,
            "ucx_file": UCX_FILE if value(host, NCCL, "ucx", False) else None,
        }
        version = value(host, NCCL, "version")
        if version:
            variables[NCCL]["version"] = version
    return variables
