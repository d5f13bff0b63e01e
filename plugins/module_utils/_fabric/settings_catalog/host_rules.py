# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY96x and RY97x: settings of nodes beside their rail ports: PCI, limits, GPUDirect."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, %s}" % more


def _profile(more: str, gpus: bool = True) -> str:
    text = "profiles:\n  hgx:\n    %s\n    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}"
    return text % (more, *((", gpu: 0", ", gpu: 1") if gpus else ("", "")))


ARGUMENT = rule(
    "RY961 invalid-kernel-argument: Invalid kernel argument",
    _fabric('pci: {kernel_arguments: ["pci=realloc quiet"]}'),
    _fabric("pci: {kernel_arguments: [pci=realloc, quiet]}"),
)

PAGE_SIZE = rule(
    "RY962 invalid-hugepage-size: Invalid hugepage size",
    _fabric("limits: {hugepages: {2048: 1024}}"),
    _fabric("limits: {hugepages: {2M: 1024}}"),
)

THRESHOLD_ORDER = rule(
    "RY963 neighbour-thresholds: Neighbour table thresholds that do not increase",
    _fabric("limits: {neighbours: {gc_thresh1: 8192, gc_thresh3: 4096}}"),
    _fabric("limits: {neighbours: {gc_thresh1: 4096, gc_thresh3: 8192}}"),
)

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
