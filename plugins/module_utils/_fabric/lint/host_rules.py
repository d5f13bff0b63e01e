# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY96x and RY97x: settings of nodes beside their rail ports: PCI, limits, GPUDirect."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Setting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import cell
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_driver


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, %s}" % more


def _profile(more: str, gpus: bool = True) -> str:
    text = "profiles:\n  hgx:\n    %s\n    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}"
    return text % (more, *((", gpu: 0", ", gpu: 1") if gpus else ("", "")))


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


OWN_ARGUMENT = rule(
    "RY964 managed-kernel-argument: Kernel argument that another key sets",
    _fabric("pci: {kernel_arguments: [ib_core.netns_mode=0]}"),
    "fabric: {name: ai, provider: spiderpool, attachment: sriov, mtu: 4200, vfs: {count: 4}}",
    why="The kernel command line overrides other persistent settings, so a later change of that key would"
    " have no effect.",
)

TRANSLATED = rule(
    "RY965 iommu-conflict: Kernel argument that contradicts iommu: passthrough",
    _fabric("pci: {iommu: passthrough, kernel_arguments: [intel_iommu=off]}"),
    _fabric("pci: {iommu: passthrough}"),
)

ACS_IDLE = rule(
    "RY966 acs-without-gpu: ACS settings without a GPU",
    _profile("pci: {acs: disabled}", gpus=False),
    _profile("pci: {acs: disabled}"),
    WARNING,
)


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


THRESHOLD_ORDER = rule(
    "RY963 neighbour-thresholds: Neighbour table thresholds that do not increase",
    _fabric("limits: {neighbours: {gc_thresh1: 8192, gc_thresh3: 4096}}"),
    _fabric("limits: {neighbours: {gc_thresh1: 4096, gc_thresh3: 8192}}"),
)


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


CLOSED = rule(
    "RY971 dmabuf-proprietary-modules: DMA-BUF with the proprietary kernel modules",
    _profile("gpudirect: {path: dmabuf, flavour: proprietary}"),
    _profile("gpudirect: {path: dmabuf, flavour: open}"),
    why="The kernel exports dma_buf_export to GPL modules only, and of NVIDIA's modules only the open ones are.",
)

SOFT = rule(
    "RY972 gpudirect-soft-rdma: GPUDirect on a soft RDMA device",
    _profile("soft_rdma: rxe\n    gpudirect: {path: dmabuf}"),
    _profile("soft_rdma: rxe\n    gpudirect: {path: none}"),
    WARNING,
    why="Soft RDMA copies with the processor, which cannot read GPU memory through DMA-BUF or nvidia-peermem.",
)

NO_GPUS = rule(
    "RY973 gpudirect-without-gpu: GPUDirect without GPUs",
    _profile("gpudirect: {path: auto}", gpus=False),
    _profile("gpudirect: {path: auto}"),
    WARNING,
)


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


GPU_OPERATOR_CONFLICT = rule(
    "RY976 gpu-operator-conflict: Conflicting settings of the GPU Operator",
    _profile("gpudirect: {path: dmabuf, gpu_driver: container}")
    + "\ngroups:\n  old: {gpudirect: {path: peermem}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, groups: [old]}\n",
    _profile("gpudirect: {path: dmabuf, gpu_driver: container}")
    + "\nnodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    WARNING,
    why="Its chart has one driver.rdma, one gdrcopy and one driver.kernelModuleType for all nodes whose GPU driver it"
    " installs. The rendered values are those of the nodes that need more: nvidia-peermem rather than DMA-BUF, and"
    " gdrcopy.",
)


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


PEERMEM_INBOX = rule(
    "RY974 peermem-inbox-driver: nvidia-peermem with the inbox NIC driver",
    _profile("driver: {kind: inbox}\n    gpudirect: {path: peermem}"),
    _profile("driver: {kind: inbox}\n    gpudirect: {path: dmabuf}"),
    WARNING,
    why="nvidia-peermem registers with the peer memory interface of DOCA-OFED's and MLNX_OFED's RDMA core. Few"
    " distributions' kernels have it, and without it the module does not load (Invalid argument).",
)

PEERMEM_APART = rule(
    "RY975 peermem-driver-mismatch: nvidia-peermem and NIC driver from different places",
    "fabric: {name: ai, provider: network-operator, attachment: sriov, vfs: {count: 4}, mtu: 4200}\n"
    "addresses: {mode: prefix, node_prefix: 27}\n"
    "rails:\n  gpu01: {subnet: 172.16.0.0/16}\n  gpu02: {subnet: 172.17.0.0/16}\n"
    + _profile("driver: {kind: container}\n    gpudirect: {path: peermem, gpu_driver: host}"),
    "fabric: {name: ai, provider: network-operator, attachment: sriov, vfs: {count: 4}, mtu: 4200}\n"
    "addresses: {mode: prefix, node_prefix: 27}\n"
    "rails:\n  gpu01: {subnet: 172.16.0.0/16}\n  gpu02: {subnet: 172.17.0.0/16}\n"
    + _profile("driver: {kind: container}\n    gpudirect: {path: peermem, gpu_driver: container}"),
    WARNING,
    why="The module is built against the RDMA core that it finds, and a module of the host does not find a"
    " container's.",
)


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
