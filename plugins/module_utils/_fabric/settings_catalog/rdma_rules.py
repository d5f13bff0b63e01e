# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY5xx: attachment, RDMA mode, link layer, soft RDMA and firmware."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_PORTS = """
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, %s}" % more


MODE = rule(
    "RY502 rdma-mode-conflict: RDMA mode that contradicts the attachment",
    _fabric("attachment: macvlan, rdma_mode: exclusive"),
    _fabric("attachment: macvlan, rdma_mode: shared"),
    why="k8s-rdma-shared-dev-plugin, which allocates the devices of macvlan, ipvlan and ipoib, exits at its start on"
    " nodes with the mode exclusive.",
)

LINK_LAYER = rule(
    "RY503 attachment-link-layer: Attachment that does not support the link layer",
    _fabric("attachment: macvlan, link_layer: infiniband"),
    _fabric("attachment: macvlan, link_layer: ethernet"),
)

SOFT_RDMA = rule(
    "RY504 soft-rdma-without-ethernet: Soft RDMA without Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: ib-sriov, vfs: {count: 4}, mtu: 4092}\n"
    "profiles:\n  hgx:\n    soft_rdma: rxe" + _PORTS,
    "profiles:\n  hgx:\n    soft_rdma: rxe" + _PORTS,
)

FIRMWARE_LINK = rule(
    "RY505 firmware-link-type: Firmware link type that contradicts the link layer",
    "profiles:\n  hgx:\n    firmware: {link_type: ib}" + _PORTS,
    "profiles:\n  hgx:\n    firmware: {link_type: eth}" + _PORTS,
)

FIRMWARE_PCI = rule(
    "RY506 firmware-without-pci-address: Managed firmware on a port without a PCI address",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}\n    ports:\n"
    "      gpu01: {netdev: enp11s0f0np0}\n      gpu02: {netdev: enp12s0f0np0}",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}" + _PORTS,
)

SHARED_DEVICES = rule(
    "RY507 shared-rdma-devices: RDMA mode in which every pod sees every device",
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: shared"),
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: exclusive"),
    WARNING,
    why="In the mode shared, an RDMA device is in every network namespace, wherever its netdev is. Only the permissions"
    " of /dev/infiniband then separate a pod from the VFs of others.",
)

IPOIB_MTU = rule(
    "RY508 ipoib-mtu: MTU above the limit of IPoIB in datagram mode",
    _fabric("attachment: ipoib").replace("4200", "9000"),
    _fabric("attachment: ipoib").replace("4200", "4092"),
    WARNING,
    why="IPoIB in datagram mode carries the InfiniBand MTU less 4 bytes, at most 4092, and the accelerated IPoIB of"
    " current cards has no connected mode.",
)
