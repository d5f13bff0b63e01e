# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY86x, RY96x and RY97x: settings of nodes beside their rail ports: PCI, limits, GPUDirect, NCCL."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import nccl_hca
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Port,
    Rail,
    Setting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.nccl_settings import (
    GID_VERSION,
    RailNumbers,
    rail_numbers,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import cell
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_driver

Ports = t.Sequence[t.Tuple[Rail, Port]]


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
    _nccl(fabric, variants, report)


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


_DEVICES, _OLD_DEVICES, _MORE_DEVICES = 32, 16, (2, 18, 5)
_NCCL_PLANES = """
fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, nccl: {version: "2.30.5"}}
rails: {gpu01: {planes: 2, subnet: "10.{p}.1.0/24", hosts: .201-.253}}
profiles:
  hgx:
    ports:
      gpu01p1: {%s}
      gpu01p2: {%s}
"""


def _many(rails: int, version: str, rdma: str) -> str:
    """Return a fabric without Kubernetes with this many rails, and the names of their RDMA devices."""
    ports = ["gpu%02d: {netdev: nic%d, rdma: %s}" % (number, number, rdma % number) for number in range(1, rails + 1)]
    return """
fabric: {name: ai, provider: none, mtu: 4200, nccl: {version: "%s"}}
rails: {count: %d, name: "gpu{n:02}", subnet: "10.2.{n}.0/24", hosts: .201-.253}
profiles:
  hgx:
    ports:
      %s
""" % (version, rails, "\n      ".join(ports))


def _nccl(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report what NCCL cannot use of the planned RDMA devices.

    Source: NCCL 2.30.7, src/transport/net_ib/common.h (MAX_IB_DEVS; 16 at the tag v2.18.3-1, 32 at v2.18.5-1),
    src/misc/param.cc (setEnvFile) and src/transport/net_ib/init.cc; read on 2026-11-29.
    """
    compute = fabric.compute_rails
    balanced = any(rail.device_planes > 1 for rail in compute)
    numbers = rail_numbers(fabric, variants)
    for variant, ports in variants.tables():
        version = host_model.nccl_version(variant.host)
        found = [(rail, ports[rail.name]) for rail in compute if rail.name in ports]
        if balanced or len(found) > _OLD_DEVICES:
            _count(variant, version, found, report)
        if version and version >= nccl_hca.RAIL_VERSION:
            _length(fabric, variant, numbers, found, report)
            _shared(found, report)
            _order(variant, found, report)
        if version and version < GID_VERSION and ports is variant.ports:
            _gid_index(fabric, variant, found, report)


def _place(variant: Variant, ports: Ports) -> Path:
    """Return the place of the ports: their section, if one section has all of them."""
    places = {port.path[:-1] for _rail, port in ports}
    return places.pop() if len(places) == 1 else variant.path


def _numbers(port: Port) -> t.Sequence[int | None]:
    """Return the numbers of the ports of the RDMA device: one for each plane, or the only one."""
    return [plane.rdma_port for plane in port.planes if plane.rdma_port] or [port.rdma_port]


COUNT = rule(
    "RY861 too-many-nccl-devices: More RDMA devices on compute rails than NCCL can use",
    _many(17, "2.18.3", "mlx5_gpu%02d"),
    _many(17, "2.18.5", "mlx5_gpu%02d"),
    WARNING,
    why="NCCL reads 32 entries of NCCL_IB_HCA, before 2.18.5 16, and opens as many ports of RDMA devices.",
)


def _count(variant: Variant, version: tuple[int, ...] | None, ports: Ports, report: Report) -> None:
    """Report nodes with more ports of RDMA devices than NCCL can use."""
    most = _OLD_DEVICES if version and version < _MORE_DEVICES else _DEVICES
    # rails on VLANs of one interface share its device
    devices = {
        (port.rdma, number) if number else (port.rdma_netdev or port.rdma or rail.name,)
        for rail, port in ports
        for number in _numbers(port)
    }
    count = len(devices)
    if count > most:
        message = "%s has %d RDMA devices on compute rails, and NCCL%s uses %d" % (
            variant.name,
            count,
            " before 2.18.5" if most == _OLD_DEVICES else "",
            most,
        )
        remedy = "use planes with balancing: hardware, or give rails that NCCL does not need the role storage"
        report.add(COUNT, _place(variant, ports), message, remedy)


LENGTH = rule(
    "RY862 nccl-value-too-long: Names of RDMA devices that are too long for the file of NCCL",
    _many(16, "2.30.5", "mlx5_rail_of_the_network_for_traffic_between_gpus_of_servers_%02d"),
    _many(16, "2.30.5", "mlx5_gpu%02d"),
    WARNING,
    why="NCCL reads 1023 bytes of a value in /etc/nccl.conf, and does not use the devices after them.",
)


def _length(fabric: Fabric, variant: Variant, numbers: RailNumbers, ports: Ports, report: Report) -> None:
    """Report a value of NCCL_IB_HCA that is longer than NCCL reads. The agent has no file: it sets the environment."""
    if facts_of(fabric.provider).slots and not host_model.value(variant.host, host_model.NCCL, "file", True):
        return
    named = [
        nccl_hca.HcaPort(port.rdma, number or 1, **numbers[id(variant), rail.name])
        for rail, port in ports
        if port.rdma
        for number in _numbers(port)
    ]
    length = len(nccl_hca.settings(named).get(nccl_hca.VARIABLE, ""))
    if length > nccl_hca.MAX_VALUE:
        message = "NCCL_IB_HCA of %s has %d bytes, and NCCL reads %d" % (variant.name, length, nccl_hca.MAX_VALUE)
        report.add(
            LENGTH, _place(variant, ports), message, "use shorter names, such as rdma: mlx5_%s" % ports[0][0].name
        )


SHARED = rule(
    "RY863 nccl-planes-without-ports: Planes of one RDMA device without the numbers of its ports",
    _NCCL_PLANES % ("netdev: nic1, rdma: roce_r0", "netdev: nic2, rdma: roce_r0"),
    _NCCL_PLANES % ("netdev: nic1, rdma: roce_r0:1", "netdev: nic2, rdma: roce_r0:2"),
    WARNING,
    why="An entry of NCCL_IB_HCA then has the rail and no port: NCCL does not get the planes, and versions before"
    " 2.30.5 do not use the device, because they read the empty field as port 0.",
)


def _shared(ports: Ports, report: Report) -> None:
    """Report ports of one RDMA device that differ only in their netdevs."""
    first: dict[str, tuple[Rail, Port]] = {}
    for rail, port in ports:
        if not port.rdma or port.rdma_port:
            continue
        known, other = first.setdefault(port.rdma, (rail, port))
        if other.rdma_netdev != port.rdma_netdev:
            message = "%s and %s are ports of %s without numbers" % (known.name, rail.name, port.rdma)
            remedy = "write the number of the port, such as rdma: %s:%d" % (port.rdma, rail.plane)
            report.add(SHARED, port.paths.get("rdma", port.path), message, remedy)


ORDER = rule(
    "RY864 nccl-planes-order: Planes of a rail in another order than their PCI addresses",
    _NCCL_PLANES % ('pci: "0000:0b:00.1", netdev: nic1', 'pci: "0000:0b:00.0", netdev: nic2'),
    _NCCL_PLANES % ('pci: "0000:0b:00.0", netdev: nic1', 'pci: "0000:0b:00.1", netdev: nic2'),
    WARNING,
    why="NCCL merges the planes of a NIC, and connects the first function of a node with the first function of the"
    " other. If their planes differ, packets have no path, or an indirect one.",
)


def _order(variant: Variant, ports: Ports, report: Report) -> None:
    """Report planes with a lower PCI address than the plane before, where NCCL merges them."""
    before: tuple[Rail, Port] | None = None
    for rail, port in ports:
        if rail.planes == 1 or not port.pci or variant.has_vfs_on(rail):
            continue
        same_nic = before and (before[0].base, before[0].nic) == (rail.base, rail.nic)
        if before and same_nic and before[1].pci and port.pci < before[1].pci:
            message = "%s has %s, and %s has %s" % (before[0].name, before[1].pci, rail.name, port.pci)
            remedy = "give plane 1 the first function, or set nccl_settings: {NCCL_IB_MERGE_NICS: 0} on all nodes"
            report.add(ORDER, port.paths.get("pci", port.path), message, remedy)
        before = rail, port


GID_INDEX = rule(
    "RY865 nccl-without-gid-index: Pods with an NCCL that needs a GID index",
    example_file.fabric(', nccl: {version: "2.20.5", file: false}'),
    example_file.fabric(', nccl: {version: "2.21.5", file: false}'),
    WARNING,
    why="NCCL before 2.21 uses the GID with the index NCCL_IB_GID_INDEX, by default 0, which belongs to RoCE v1. Only"
    " the pod shows the index of its address. On hosts, the playbook reads it.",
)


def _gid_index(fabric: Fabric, variant: Variant, ports: Ports, report: Report) -> None:
    """Report a version of NCCL that does not select the GID, where pods use RoCE."""
    roce = [rail for rail, _port in ports if rail.for_pods and fabric.link_layer_on(rail) == ETHERNET]
    if roce and facts_of(fabric.provider).kubernetes:
        version = variant.host[host_model.NCCL]["version"]
        message = "NCCL %s in pods of %s does not select the GID of RoCE v2" % (version.value, variant.name)
        remedy = "use NCCL 2.21 or later in pods, or set NCCL_IB_GID_INDEX in each pod and suppress this finding"
        report.add(GID_INDEX, version.path, message, remedy)
