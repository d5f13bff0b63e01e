# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY96x and RY97x: settings of nodes beside their rail ports: PCI, limits, GPUDirect."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Setting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog.host_rules import (
    ACS_IDLE,
    CLOSED,
    GPU_OPERATOR_CONFLICT,
    NO_GPUS,
    OWN_ARGUMENT,
    PEERMEM_APART,
    PEERMEM_INBOX,
    SOFT,
    THRESHOLD_ORDER,
    TRANSLATED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import cell
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_driver

# Kernel argument -> the key of the fabric file that sets it.
_OWNED = {"ib_core.netns_mode": "fabric.rdma_mode"}
# Arguments that enable DMA translation, or disable the IOMMU; both contradict passthrough.
_TRANSLATING = frozenset(("iommu=off", "iommu=nopt", "intel_iommu=off", "amd_iommu=off", "iommu.passthrough=0"))


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        if host_model.PCI in variant.host:
            _pci(variant, report)
        if host_model.LIMITS in variant.host:
            _limits(variant, report)
        if host_model.GPUDIRECT in variant.host:
            _gpudirect(variant, report)
    _operator(variants, report)


def _path(variant: Variant, layer: str, key: str) -> Path:
    """Return the place of a key's effective value; without a value, the place where its section would be."""
    setting: Setting | None = variant.host[layer].get(key)
    if setting:
        return setting.path
    stated = next(iter(variant.host[layer].values()), None)
    return stated.path[:-1] if stated else variant.path + (layer,)


def _pci(variant: Variant, report: Report) -> None:
    """Report kernel arguments that contradict other settings, and ACS settings without GPUs."""
    arguments = host_model.value(variant.host, host_model.PCI, "kernel_arguments", ())
    path = _path(variant, host_model.PCI, "kernel_arguments")
    passthrough = host_model.value(variant.host, host_model.PCI, "iommu") == host_model.PASSTHROUGH
    for at, argument in enumerate(arguments):
        owner = _OWNED.get(argument.partition("=")[0].replace("-", "_"))
        if owner:
            message = "%s is set by %s" % (argument, owner)
            report.add(OWN_ARGUMENT, path + (at,), message, "remove it, and set %s" % owner)
        elif passthrough and argument in _TRANSLATING:
            message = "%s contradicts iommu: passthrough" % argument
            report.add(TRANSLATED, path + (at,), message, "remove one of the two")
    disabled = host_model.value(variant.host, host_model.PCI, "acs") == host_model.DISABLED
    if disabled and not _has_gpus(variant) and not report.within(variant.profile.path):
        message = "acs is disabled, and no port of %s has a GPU" % variant.name
        report.add(ACS_IDLE, _path(variant, host_model.PCI, "acs"), message, "set gpu at the ports, or remove acs")


def _limits(variant: Variant, report: Report) -> None:
    """Report thresholds of the neighbour table that do not increase."""
    stated = host_model.value(variant.host, host_model.LIMITS, "neighbours", {})
    values = [stated[key] for key in host_model.THRESHOLDS if key in stated]
    if values != sorted(values):
        message = "%s do not increase" % ", ".join(
            "%s: %d" % (key, stated[key]) for key in host_model.THRESHOLDS if key in stated
        )
        path = _path(variant, host_model.LIMITS, "neighbours")
        report.add(THRESHOLD_ORDER, path, message, "set gc_thresh1 to the lowest value and gc_thresh3 to the highest")


def _gpudirect(variant: Variant, report: Report) -> None:
    """Report GPUDirect paths that the node cannot have."""
    path = host_model.value(variant.host, host_model.GPUDIRECT, "path", host_model.AUTO)
    if path == host_model.NONE:
        return
    place = _path(variant, host_model.GPUDIRECT, "path")
    if (
        path == host_model.DMABUF
        and host_model.value(variant.host, host_model.GPUDIRECT, "flavour") == host_model.PROPRIETARY
    ):
        message = "the proprietary kernel modules cannot export DMA-BUF"
        report.add(CLOSED, place, message, "install the open kernel modules, or set path: peermem")
    if path == host_model.PEERMEM:
        _peermem(variant, place, report)
    soft = variant.profile.soft_rdma
    if soft:
        message = "%s cannot access GPU memory" % soft
        report.add(SOFT, place, message, "set path: none for %s" % variant.name)
    elif not _has_gpus(variant) and not report.within(variant.profile.path):
        message = "%s has no GPUs" % variant.name
        report.add(NO_GPUS, place, message, "set path: none for it, or set its gpus")


def _operator(variants: Variants, report: Report) -> None:
    """Report nodes whose settings differ, although the GPU Operator has one setting for all nodes."""
    settings: dict[str, tuple[str, object]] = {}
    for variant in variants:
        if host_model.value(variant.host, host_model.GPUDIRECT, "gpu_driver") != host_model.CONTAINER:
            continue
        for key in ("path", "gdrcopy", "flavour"):
            stated = host_model.value(variant.host, host_model.GPUDIRECT, key)
            if stated in (None, host_model.AUTO):
                continue
            owner, other = settings.setdefault(key, (variant.name, stated))
            if stated != other:
                message = "%s is %s, and %s on other nodes (%s)" % (key, cell(stated), cell(other), owner)
                remedy = (
                    "set the same value for all nodes with gpu_driver: container, or use the host's GPU driver on some"
                )
                report.add(GPU_OPERATOR_CONFLICT, _path(variant, host_model.GPUDIRECT, key), message, remedy)


def _peermem(variant: Variant, place: Path, report: Report) -> None:
    """Report NIC drivers with which nvidia-peermem does not work."""
    kind = variant.driver.kind if variant.driver else None
    if kind == vendor_driver.INBOX:
        message = "the driver is inbox, and few distribution kernels have a peer memory interface"
        report.add(PEERMEM_INBOX, place, message, "set path: dmabuf, or install the driver, such as kind: doca")
    elif (
        kind == vendor_driver.CONTAINER
        and host_model.value(variant.host, host_model.GPUDIRECT, "gpu_driver", host_model.HOST) == host_model.HOST
    ):
        message = "the NIC driver is in a container, but nvidia-peermem comes with the host's GPU driver"
        report.add(PEERMEM_APART, place, message, "set gpu_driver: container, or path: dmabuf")


def _has_gpus(variant: Variant) -> bool:
    return bool(variant.profile.gpus) or any(port.gpus for port in variant.ports.values())
