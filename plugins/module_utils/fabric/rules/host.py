# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY96x and RY97x: what nodes are given beside their rail ports: the PCI bus, limits, GPUDirect."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import driver, host
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Setting
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variant, Variants


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, %s}" % more


def _profile(more: str, gpus: bool = True) -> str:
    text = "profiles:\n  hgx:\n    %s\n    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}"
    return text % (more, *((", gpu: 0", ", gpu: 1") if gpus else ("", "")))


ARGUMENT = rule(
    "RY961",
    "A kernel argument is not one word",
    _fabric('pci: {kernel_arguments: ["pci=realloc quiet"]}'),
    _fabric("pci: {kernel_arguments: [pci=realloc, quiet]}"),
)
PAGE_SIZE = rule(
    "RY962",
    "A size of hugepages is none",
    _fabric("limits: {hugepages: {2048: 1024}}"),
    _fabric("limits: {hugepages: {2M: 1024}}"),
)
NOT_RISING = rule(
    "RY963",
    "The thresholds of the neighbour tables do not rise",
    _fabric("limits: {neighbours: {gc_thresh1: 8192, gc_thresh3: 4096}}"),
    _fabric("limits: {neighbours: {gc_thresh1: 4096, gc_thresh3: 8192}}"),
)
OWN_ARGUMENT = rule(
    "RY964",
    "A kernel argument sets what follows from another key",
    _fabric("pci: {kernel_arguments: [ib_core.netns_mode=0]}"),
    "fabric: {name: ai, provider: spiderpool, attachment: sriov, mtu: 4200, vfs: {count: 4}}",
    why="The kernel command line wins over what is kept for boot elsewhere, so that a later change of that key would"
    " have no effect.",
)
TRANSLATED = rule(
    "RY965",
    "A kernel argument contradicts the IOMMU's passthrough",
    _fabric("pci: {iommu: passthrough, kernel_arguments: [intel_iommu=off]}"),
    _fabric("pci: {iommu: passthrough}"),
)
ACS_IDLE = rule(
    "RY966",
    "ACS shall be disabled between ports and GPUs, and no port has a GPU",
    _profile("pci: {acs: disabled}", gpus=False),
    _profile("pci: {acs: disabled}"),
    WARNING,
)
CLOSED = rule(
    "RY971",
    "DMA-BUF is wanted of the proprietary kernel modules",
    _profile("gpudirect: {path: dmabuf, flavour: proprietary}"),
    _profile("gpudirect: {path: dmabuf, flavour: open}"),
    why="The kernel exports dma_buf_export to modules under the GPL alone, and of NVIDIA's only the open ones are.",
)
SOFT = rule(
    "RY972",
    "GPUDirect is wanted of a soft RDMA device",
    _profile("soft_rdma: rxe\n    gpudirect: {path: dmabuf}"),
    _profile("soft_rdma: rxe\n    gpudirect: {path: none}"),
    WARNING,
    why="Soft RDMA copies with the processor, which cannot read GPU memory through DMA-BUF or nvidia-peermem.",
)
NO_GPUS = rule(
    "RY973",
    "GPUDirect is wanted of a server model without GPUs",
    _profile("gpudirect: {path: auto}", gpus=False),
    _profile("gpudirect: {path: auto}"),
    WARNING,
)
PEERMEM_INBOX = rule(
    "RY974",
    "nvidia-peermem is wanted beside the distribution's own NIC driver",
    _profile("driver: {kind: inbox}\n    gpudirect: {path: peermem}"),
    _profile("driver: {kind: inbox}\n    gpudirect: {path: dmabuf}"),
    WARNING,
    why="nvidia-peermem registers with the peer memory interface of DOCA-OFED's and MLNX_OFED's RDMA core. Few"
    " distributions' kernels have it, and without it the module does not load (Invalid argument).",
)
PEERMEM_APART = rule(
    "RY975",
    "The NIC driver and nvidia-peermem are to come from different places",
    "fabric: {name: ai, provider: network-operator, attachment: sriov, vfs: {count: 4}, mtu: 4200}\n"
    "addresses: {mode: prefix, node_prefix: 27}\n"
    "rails:\n  gpu01: {subnet: 172.16.0.0/16}\n  gpu02: {subnet: 172.17.0.0/16}\n"
    + _profile("driver: {kind: container}\n    gpudirect: {path: peermem, gpu_driver: host}"),
    "fabric: {name: ai, provider: network-operator, attachment: sriov, vfs: {count: 4}, mtu: 4200}\n"
    "addresses: {mode: prefix, node_prefix: 27}\n"
    "rails:\n  gpu01: {subnet: 172.16.0.0/16}\n  gpu02: {subnet: 172.17.0.0/16}\n"
    + _profile("driver: {kind: container}\n    gpudirect: {path: peermem, gpu_driver: container}"),
    WARNING,
    why="The module is built against the RDMA core that it finds. The host's never sees the container's.",
)

TWO_MINDS = rule(
    "RY976",
    "The GPU Operator is to set two things at once",
    _profile("gpudirect: {path: dmabuf, gpu_driver: container}")
    + "\ngroups:\n  old: {gpudirect: {path: peermem}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, groups: [old]}\n",
    _profile("gpudirect: {path: dmabuf, gpu_driver: container}")
    + "\nnodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    WARNING,
    why="Its chart has one driver.rdma, one gdrcopy and one driver.kernelModuleType for all nodes whose GPU driver it"
    " brings. What is rendered then serves the more demanding: nvidia-peermem before DMA-BUF, gdrcopy before none.",
)

# Argument of the kernel -> the key that it belongs to.
_OWNED = {"ib_core.netns_mode": "fabric.rdma_mode"}
# Arguments with which devices' transfers are translated, or the IOMMU is not there to pass them through.
_TRANSLATING = frozenset(("iommu=off", "iommu=nopt", "intel_iommu=off", "amd_iommu=off", "iommu.passthrough=0"))


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        if host.PCI in variant.host:
            _pci(variant, report)
        if host.LIMITS in variant.host:
            _limits(variant, report)
        if host.GPUDIRECT in variant.host:
            _gpudirect(variant, report)
    _operator(variants, report)


def _where(variant: Variant, layer: str, key: str) -> Path:
    """Where a key's last word stands; where the layer's would, if nobody says it."""
    setting: Setting | None = variant.host[layer].get(key)
    if setting:
        return setting.path
    said = next(iter(variant.host[layer].values()), None)
    return said.path[:-1] if said else variant.path + (layer,)


def _pci(variant: Variant, report: Report) -> None:
    arguments = host.value(variant.host, host.PCI, "kernel_arguments", ())
    path = _where(variant, host.PCI, "kernel_arguments")
    passthrough = host.value(variant.host, host.PCI, "iommu") == host.PASSTHROUGH
    for at, word in enumerate(arguments):
        owner = _OWNED.get(word.partition("=")[0].replace("-", "_"))
        if owner:
            message = "%s is what %s decides" % (word, owner)
            report.add(OWN_ARGUMENT, path + (at,), message, "take it out, and set %s" % owner)
        elif passthrough and word in _TRANSLATING:
            message = "%s stands beside iommu: passthrough" % word
            report.add(TRANSLATED, path + (at,), message, "take one of the two out")
    disabled = host.value(variant.host, host.PCI, "acs") == host.DISABLED
    if disabled and not _has_gpus(variant) and not report.within(variant.profile.path):
        message = "acs is disabled, and no port of %s has a GPU" % variant.name
        report.add(ACS_IDLE, _where(variant, host.PCI, "acs"), message, "say gpu at the ports, or take acs out")


def _limits(variant: Variant, report: Report) -> None:
    said = host.value(variant.host, host.LIMITS, "neighbours", {})
    given = [said[key] for key in host.THRESHOLDS if key in said]
    if given != sorted(given):
        message = "%s do not rise" % ", ".join("%s: %d" % (key, said[key]) for key in host.THRESHOLDS if key in said)
        path = _where(variant, host.LIMITS, "neighbours")
        report.add(NOT_RISING, path, message, "let gc_thresh1 be the least and gc_thresh3 the greatest")


def _gpudirect(variant: Variant, report: Report) -> None:
    path = host.value(variant.host, host.GPUDIRECT, "path", host.AUTO)
    if path == host.NONE:
        return
    place = _where(variant, host.GPUDIRECT, "path")
    if path == host.DMABUF and host.value(variant.host, host.GPUDIRECT, "flavour") == host.PROPRIETARY:
        message = "the proprietary kernel modules cannot export DMA-BUF"
        report.add(CLOSED, place, message, "install the open ones, or set path: peermem")
    if path == host.PEERMEM:
        _peermem(variant, place, report)
    soft = variant.profile.soft_rdma
    if soft:
        message = "%s does not reach GPU memory" % soft
        report.add(SOFT, place, message, "set path: none for %s" % variant.name)
    elif not _has_gpus(variant) and not report.within(variant.profile.path):
        message = "%s has no GPUs" % variant.name
        report.add(NO_GPUS, place, message, "set path: none for it, or say its gpus")


def _operator(variants: Variants, report: Report) -> None:
    """That nodes with a GPU driver of the GPU Operator's agree in what it has one setting of."""
    asked: dict[str, tuple[str, object]] = {}
    for variant in variants:
        if host.value(variant.host, host.GPUDIRECT, "gpu_driver") != host.CONTAINER:
            continue
        for key in ("path", "gdrcopy", "flavour"):
            said = host.value(variant.host, host.GPUDIRECT, key)
            if said in (None, host.AUTO):
                continue
            owner, other = asked.setdefault(key, (variant.name, said))
            if said != other:
                message = "%s is %s, and %s on other nodes (%s)" % (key, _word(said), _word(other), owner)
                remedy = "say one for all nodes with gpu_driver: container, or give some a GPU driver of the host's"
                report.add(TWO_MINDS, _where(variant, host.GPUDIRECT, key), message, remedy)


def _word(said: object) -> str:
    return str(said).lower() if isinstance(said, bool) else str(said)


def _peermem(variant: Variant, place: Path, report: Report) -> None:
    kind = variant.driver.kind if variant.driver else None
    if kind == driver.INBOX:
        message = "the driver's kind is inbox, and few kernels of distributions have a peer memory interface"
        report.add(PEERMEM_INBOX, place, message, "set path: dmabuf, or install the driver, such as kind: doca")
    elif kind == driver.CONTAINER and host.value(variant.host, host.GPUDIRECT, "gpu_driver", host.HOST) == host.HOST:
        message = "the NIC driver comes from a container, and the GPU driver with nvidia-peermem is the host's"
        report.add(PEERMEM_APART, place, message, "set gpu_driver: container, or path: dmabuf")


def _has_gpus(variant: Variant) -> bool:
    return bool(variant.profile.gpus) or any(port.gpus for port in variant.ports.values())
