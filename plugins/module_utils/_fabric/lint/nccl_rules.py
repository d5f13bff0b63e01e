# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY86x: what NCCL cannot use of the planned RDMA devices.

Source: NCCL 2.30.7, src/transport/net_ib/common.h (MAX_IB_DEVS; 16 at the tag v2.18.3-1, 32 at v2.18.5-1),
src/misc/param.cc (setEnvFile) and src/transport/net_ib/init.cc; read on 2026-11-29.
"""

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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Port, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.nccl_settings import GID_VERSION

_DEVICES, _OLD_DEVICES, _MORE_DEVICES = 32, 16, (2, 18, 5)
_PLANES = """
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


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    compute = fabric.compute_rails
    for variant, ports in variants.tables():
        version = host_model.nccl_version(variant.host)
        found = [(rail, ports[rail.name]) for rail in compute if rail.name in ports]
        if len(found) > _OLD_DEVICES:
            _count(variant, version, found, report)
        if version and version >= nccl_hca.RAIL_VERSION:
            _length(fabric, variant, found, report)
            _shared(found, report)
            _order(variant, found, report)
        if version and version < GID_VERSION and ports is variant.ports:
            _gid_index(fabric, variant, found, report)


Ports = t.Sequence[t.Tuple[Rail, Port]]


def _place(variant: Variant, ports: Ports) -> Path:
    """Return the place of the ports: their section, if one section has all of them."""
    places = {port.path[:-1] for _rail, port in ports}
    return places.pop() if len(places) == 1 else variant.path


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
    count = len(
        {(port.rdma or port.rdma_netdev or rail.name, port.rdma_port or port.rdma_netdev) for rail, port in ports}
    )
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


def _length(fabric: Fabric, variant: Variant, ports: Ports, report: Report) -> None:
    """Report a value of NCCL_IB_HCA that is longer than NCCL reads. The agent has no file: it sets the environment."""
    if facts_of(fabric.provider).slots and not host_model.value(variant.host, host_model.NCCL, "file", True):
        return
    named = [
        nccl_hca.HcaPort(port.rdma, port.rdma_port or 1, rail.base_number, rail.plane if rail.planes > 1 else None)
        for rail, port in ports
        if port.rdma
    ]
    length = len(nccl_hca.settings(named).get(nccl_hca.VARIABLE, ""))
    if length > nccl_hca.MAX_VALUE:
        message = "NCCL_IB_HCA of %s has %d bytes, and NCCL reads %d" % (variant.name, length, nccl_hca.MAX_VALUE)
        report.add(
            LENGTH, _place(variant, ports), message, "use shorter names, such as rdma: mlx5_%s" % ports[0][0].name
        )


SHARED = rule(
    "RY863 nccl-planes-without-ports: Planes of one RDMA device without the numbers of its ports",
    _PLANES % ("netdev: nic1, rdma: roce_r0", "netdev: nic2, rdma: roce_r0"),
    _PLANES % ("netdev: nic1, rdma: roce_r0:1", "netdev: nic2, rdma: roce_r0:2"),
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
    "RY864 nccl-planes-order: Planes of a rail that are not in the order of their PCI addresses",
    _PLANES % ('pci: "0000:0b:00.1", netdev: nic1', 'pci: "0000:0b:00.0", netdev: nic2'),
    _PLANES % ('pci: "0000:0b:00.0", netdev: nic1', 'pci: "0000:0b:00.1", netdev: nic2'),
    WARNING,
    why="NCCL merges the planes of a NIC, and connects the first function of a node with the first function of the"
    " other. If their planes differ, packets have no path, or an indirect one.",
)


def _order(variant: Variant, ports: Ports, report: Report) -> None:
    """Report planes with a PCI address that is below that of the plane before, where NCCL merges them."""
    before: tuple[Rail, Port] | None = None
    for rail, port in ports:
        if rail.planes == 1 or not port.pci or variant.has_vfs_on(rail):
            continue
        if before and before[0].base == rail.base and before[1].pci and port.pci < before[1].pci:
            message = "%s has %s, and %s has %s" % (before[0].name, before[1].pci, rail.name, port.pci)
            remedy = "give plane 1 the first function, or set nccl_settings: {NCCL_IB_MERGE_NICS: 0} on all nodes"
            report.add(ORDER, port.paths.get("pci", port.path), message, remedy)
        before = rail, port


GID_INDEX = rule(
    "RY865 nccl-without-gid-index: Pods with an NCCL that needs a GID index",
    example_file.fabric(', nccl: {version: "2.20.5", file: false}'),
    example_file.fabric(', nccl: {version: "2.21.5", file: false}'),
    WARNING,
    why="NCCL before 2.21 uses the GID with the index NCCL_IB_GID_INDEX, by default 0, which is one of RoCE v1. The"
    " index of a pod's address is known in the pod only. On hosts, the playbook reads it.",
)


def _gid_index(fabric: Fabric, variant: Variant, ports: Ports, report: Report) -> None:
    """Report a version of NCCL that does not select the GID, where pods use RoCE."""
    roce = [rail for rail, _port in ports if rail.for_pods and fabric.link_layer_on(rail) == ETHERNET]
    if roce and facts_of(fabric.provider).kubernetes:
        version = variant.host[host_model.NCCL]["version"]
        message = "NCCL %s in pods of %s does not select the GID of RoCE v2" % (version.value, variant.name)
        remedy = "use NCCL 2.21 or later in pods, or set NCCL_IB_GID_INDEX in each pod and suppress this finding"
        report.add(GID_INDEX, version.path, message, remedy)
