# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a node is given beside its rail ports: the PCI bus, limits, GPUDirect, NCCL's settings.

A layer that is not named is not managed.

The fabric, a profile and a group may say each key, the later over the earlier.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import HostSettings

PCI, LIMITS, GPUDIRECT, NCCL = "pci", "limits", "gpudirect", "nccl"
LAYERS = (PCI, LIMITS, GPUDIRECT, NCCL)
LEAVE, DISABLED, PASSTHROUGH, UNLIMITED, UNMANAGED = "leave", "disabled", "passthrough", "unlimited", "unmanaged"
# Maximum Read Request Sizes of PCI Express, in bytes.
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)
THRESHOLDS = ("gc_thresh1", "gc_thresh2", "gc_thresh3")
AUTO, DMABUF, PEERMEM, NONE = "auto", "dmabuf", "peermem", "none"
# Who brings the GPU driver, and which of NVIDIA's kernel modules it has.
HOST, CONTAINER = "host", "container"
OPEN, PROPRIETARY = "open", "proprietary"
# Where NCCL and UCX look for settings of all programs on a node.
NCCL_FILE, UCX_FILE = "/etc/nccl.conf", "/etc/ucx/ucx.conf"
# Words for the kernel's ``hugepagesz=`` -> kB.
_UNITS = {"K": 1, "M": 1 << 10, "G": 1 << 20}


def size_kb(text: str) -> int | None:
    """A hugepage's size as the kernel's arguments have it, such as ``2M``, in kB; None where it is not one."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or number.startswith("0") or len(number) > 6:
        return None
    return int(number) * _UNITS[unit]


def over(base: HostSettings, own: HostSettings) -> HostSettings:
    """Settings with others over them, key by key."""
    if not own:
        return base
    return {layer: dict(base.get(layer, {}), **own.get(layer, {})) for layer in LAYERS if layer in base or layer in own}


def value(host: HostSettings, layer: str, key: str, default: t.Any = None) -> t.Any:
    """What a key is set to; ``default`` where it is not set, or could not be read."""
    setting = host.get(layer, {}).get(key)
    return default if setting is None or setting.value is None else setting.value


def derived(host: HostSettings) -> dict[str, t.Any]:
    """Each layer as plain data for its role; None where it is not managed.

    Within a layer, None and ``leave`` mean that this is left as it is; sizes are in bytes, those of hugepages in kB.
    """
    found: dict[str, t.Any] = dict.fromkeys(LAYERS)
    if PCI in host:
        kernel = "iommu" in host[PCI] or "kernel_arguments" in host[PCI]
        found[PCI] = {
            "acs": value(host, PCI, "acs", LEAVE),
            "max_read_request": value(host, PCI, "max_read_request"),
            "kernel": {
                "iommu": value(host, PCI, "iommu", LEAVE),
                "arguments": list(value(host, PCI, "kernel_arguments", ())),
            }
            if kernel
            else None,
        }
    if LIMITS in host:
        pages = value(host, LIMITS, "hugepages")
        found[LIMITS] = {
            "memlock": value(host, LIMITS, "memlock", LEAVE),
            "hugepages": None
            if pages is None
            else [{"size_kb": size, "count": count} for size, count in sorted(pages.items())],
            "neighbours": dict(value(host, LIMITS, "neighbours", {})),
            "network_manager": value(host, LIMITS, "network_manager", LEAVE),
            "cloud_init": value(host, LIMITS, "cloud_init", LEAVE),
        }
    if GPUDIRECT in host:
        found[GPUDIRECT] = {
            "path": value(host, GPUDIRECT, "path", AUTO),
            "gdrcopy": value(host, GPUDIRECT, "gdrcopy"),
            "gpu_driver": value(host, GPUDIRECT, "gpu_driver", HOST),
            "flavour": value(host, GPUDIRECT, "flavour"),
        }
    if NCCL in host:
        found[NCCL] = {
            "file": NCCL_FILE if value(host, NCCL, "file", True) else None,
            "ucx_file": UCX_FILE if value(host, NCCL, "ucx", False) else None,
        }
    return found
