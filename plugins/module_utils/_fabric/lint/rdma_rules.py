# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY5xx: attachment, RDMA mode, link layer, soft RDMA and firmware."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
    INFINIBAND,
    IPOIB_REMOVED,
    LINK_LAYER_REASONS,
    MODE_REASONS,
    SHARED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    LINK_TYPE,
    Fabric,
    Firmware,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import CONNECTED
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, %s}" % more


_IPOIB_MTU = 4092


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    checked: set[Path] = set()
    known = variants.with_unused()
    if not known and fabric.attachment:
        _layer(fabric, fabric.attachment, ("fabric", "attachment"), report)
    for variant in known:
        if variant.attachment and variant.attachment_path not in checked:
            checked.add(variant.attachment_path)
            _layer(fabric, variant.attachment, variant.attachment_path, report)
        _soft(fabric, variant, report)
        if variant.firmware:
            _firmware(fabric, variant, variant.firmware, report)
    _mode(fabric, report)
    _ipoib(fabric, known, report)


LINK_LAYER = rule(
    "RY503 attachment-link-layer: Attachment that does not support the link layer",
    _fabric("attachment: macvlan, link_layer: infiniband"),
    _fabric("attachment: macvlan, link_layer: ethernet"),
)


def _layer(fabric: Fabric, attachment: str, path: Path, report: Report) -> None:
    """Report an attachment that the link layer does not support."""
    if fabric.link_layer is None or fabric.link_layer in ATTACHMENTS[attachment].link_layers:
        return
    reason = LINK_LAYER_REASONS[attachment, fabric.link_layer]
    served = facts_of(fabric.provider).served
    fitting = [name for name in served if fabric.link_layer in ATTACHMENTS[name].link_layers]
    equivalent = {"sriov": "ib-sriov", "ib-sriov": "sriov"}.get(attachment)
    of_fabric = path == ("fabric", "attachment")
    message = "%s does not support %s: %s" % (attachment, fabric.link_layer, reason)
    remedy = "write %s" % equivalent if equivalent else "use one of %s" % ", ".join(fitting)
    if of_fabric and not equivalent:
        remedy += ", or remove link_layer"
    report.add(LINK_LAYER, ("fabric", "link_layer") if of_fabric and not equivalent else path, message, remedy)


MODE = rule(
    "RY502 rdma-mode-conflict: RDMA mode that contradicts the attachment",
    _fabric("attachment: macvlan, rdma_mode: exclusive"),
    _fabric("attachment: macvlan, rdma_mode: shared"),
    why="k8s-rdma-shared-dev-plugin, which allocates the devices of macvlan, ipvlan and ipoib, exits at its start on"
    " nodes with the mode exclusive.",
)

SHARED_DEVICES = rule(
    "RY507 shared-rdma-devices: RDMA mode in which every pod sees every device",
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: shared"),
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: exclusive"),
    WARNING,
    why="In the mode shared, an RDMA device is in every network namespace, wherever its netdev is. Only the permissions"
    " of /dev/infiniband then separate a pod from the VFs of others.",
)


def _mode(fabric: Fabric, report: Report) -> None:
    """Report an RDMA mode that the attachment does not support."""
    if not fabric.attachment or not fabric.rdma_mode:
        return
    kind = ATTACHMENTS[fabric.attachment]
    path = ("fabric", "rdma_mode")
    modes = facts_of(fabric.provider).rdma_modes(fabric.attachment, fabric.link_layer)
    if fabric.rdma_mode not in kind.modes:
        reason = MODE_REASONS[fabric.attachment, fabric.rdma_mode]
        message = "%s needs the RDMA mode %s: %s" % (fabric.attachment, modes[0], reason)
        report.add(MODE, path, message, "remove rdma_mode: the attachment determines it")
    elif fabric.rdma_mode not in modes:
        message = "%s with %s needs the RDMA mode %s on InfiniBand: %s" % (
            *(fabric.attachment, fabric.provider, modes[0]),
            IPOIB_REMOVED,
        )
        report.add(MODE, path, message, "remove rdma_mode: the default is %s" % modes[0])
    elif fabric.rdma_mode == SHARED and modes[0] == EXCLUSIVE:
        message = "with %s in the RDMA mode shared, %s" % (fabric.attachment, kind.shared_drawback)
        report.add(SHARED_DEVICES, path, message, "remove rdma_mode: the default is exclusive")


SOFT_RDMA = rule(
    "RY504 soft-rdma-without-ethernet: Soft RDMA without Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: ib-sriov, vfs: {count: 4}, mtu: 4092}\n"
    + example_file.profile("soft_rdma: rxe"),
    example_file.profile("soft_rdma: rxe"),
)


def _soft(fabric: Fabric, variant: Variant, report: Report) -> None:
    profile = variant.profile
    if profile.soft_rdma and fabric.link_layer == INFINIBAND:
        message = "%s needs Ethernet, and the link layer is infiniband" % profile.soft_rdma
        report.add(SOFT_RDMA, profile.path + ("soft_rdma",), message, "remove soft_rdma, or set link_layer: ethernet")


IPOIB_MTU = rule(
    "RY508 ipoib-mtu: MTU above the limit of IPoIB in datagram mode",
    _fabric("attachment: ipoib").replace("4200", "9000"),
    _fabric("attachment: ipoib").replace("4200", "4092"),
    WARNING,
    why="IPoIB in datagram mode carries the InfiniBand MTU less 4 bytes, at most 4092, and the accelerated IPoIB of"
    " current cards has no connected mode.",
)


def _ipoib(fabric: Fabric, variants: list[Variant], report: Report) -> None:
    """Report MTUs above the limit of IPoIB in datagram mode."""
    using = [variant for variant in variants if variant.attachment == "ipoib"]
    connected = fabric.infiniband is not None and fabric.infiniband.ipoib_mode == CONNECTED
    if not using or fabric.link_layer != INFINIBAND or connected:
        return
    mtus = [(fabric.mtu, ("fabric", "mtu"))] + [(rail.mtu, rail.where("mtu")) for rail in fabric.rails]
    for mtu, path in mtus:
        if mtu is not None and mtu > _IPOIB_MTU:
            message = "%d exceeds %d, the limit of IPoIB in datagram mode" % (mtu, _IPOIB_MTU)
            report.add(IPOIB_MTU, path, message, "set it to %d, or to 2044 if the subnet's MTU is 2048" % _IPOIB_MTU)


FIRMWARE_LINK = rule(
    "RY505 firmware-link-type: Firmware link type that contradicts the link layer",
    example_file.profile("firmware: {link_type: ib}"),
    example_file.profile("firmware: {link_type: eth}"),
)

FIRMWARE_PCI = rule(
    "RY506 firmware-without-pci-address: Managed firmware on a port without a PCI address",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}\n    ports:\n"
    "      gpu01: {netdev: enp11s0f0np0}\n      gpu02: {netdev: enp12s0f0np0}",
    example_file.profile("firmware: {link_type: eth}"),
)


def _firmware(fabric: Fabric, variant: Variant, firmware: Firmware, report: Report) -> None:
    """Report link types that contradict the link layer, and ports without a PCI address, which firmware tools need."""
    needed = LINK_TYPE.get(fabric.link_layer or "")
    if needed and firmware.link_type not in (None, needed):
        message = "%s does not fit the link layer %s" % (firmware.link_type, fabric.link_layer)
        report.add(
            FIRMWARE_LINK, firmware.path + ("link_type",), message, "remove link_type: the default is %s" % needed
        )
    for port in variant.ports.values():
        if not all(function.renamed for function in port.functions) and not report.within(port.path):
            message = "the port of %s has no PCI address, which firmware tools need" % port.rail
            report.add(FIRMWARE_PCI, port.path, message, "add pci")
            break
    for other in variant.profile.other_ports.values():
        if other.port.pci is None and not report.within(other.path):
            message = "%s has no PCI address, which protects its card from a reset" % other.name
            report.add(FIRMWARE_PCI, other.path, message, "add pci")
