# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY5xx: attachment, rdma mode, link layer, soft RDMA and firmware."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import (
    ATTACHMENTS,
    EXCLUSIVE,
    INFINIBAND,
    LINK_LAYER_REASONS,
    MODE_REASONS,
    SHARED,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.infiniband import CONNECTED
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import LINK_TYPE, Fabric, Firmware
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variant, Variants

_PORTS = """
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, %s}" % more


MODE = rule(
    "RY502",
    "The rdma mode contradicts the attachment",
    _fabric("attachment: macvlan, rdma_mode: exclusive"),
    _fabric("attachment: macvlan, rdma_mode: shared"),
    why="k8s-rdma-shared-dev-plugin, which hands out the devices of macvlan, ipvlan and ipoib, ends at its start where"
    " the node's mode is exclusive.",
)
LINK_LAYER = rule(
    "RY503",
    "The attachment does not run on the link layer",
    _fabric("attachment: macvlan, link_layer: infiniband"),
    _fabric("attachment: macvlan, link_layer: ethernet"),
)
SOFT_RDMA = rule(
    "RY504",
    "Soft RDMA needs Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: ib-sriov, vfs: {count: 4}, mtu: 4092}\n"
    "profiles:\n  hgx:\n    soft_rdma: rxe" + _PORTS,
    "profiles:\n  hgx:\n    soft_rdma: rxe" + _PORTS,
)
FIRMWARE_LINK = rule(
    "RY505",
    "The firmware's link type contradicts the link layer",
    "profiles:\n  hgx:\n    firmware: {link_type: ib}" + _PORTS,
    "profiles:\n  hgx:\n    firmware: {link_type: eth}" + _PORTS,
)
FIRMWARE_PCI = rule(
    "RY506",
    "Firmware is managed, and a port has no PCI address",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}\n    ports:\n"
    "      gpu01: {netdev: enp11s0f0np0}\n      gpu02: {netdev: enp12s0f0np0}",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}" + _PORTS,
)


WIDE = rule(
    "RY507",
    "The rdma mode shared shows every pod every device",
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: shared"),
    _fabric("attachment: sriov, vfs: {count: 4}, rdma_mode: exclusive"),
    WARNING,
    why="In the mode shared an RDMA device belongs to every network namespace, whoever has its netdev. Only the access"
    " to /dev/infiniband is then between a pod and the VFs of others.",
)
IPOIB_MTU = rule(
    "RY508",
    "An MTU is beyond IPoIB's in datagram mode",
    _fabric("attachment: ipoib").replace("4200", "9000"),
    _fabric("attachment: ipoib").replace("4200", "4092"),
    WARNING,
    why="IPoIB in datagram mode carries the InfiniBand MTU less 4 bytes, 4092 at the most, and the accelerated IPoIB of"
    " today's cards has no connected mode.",
)

_IPOIB_MTU = 4092


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    seen: set[Path] = set()
    known = variants.with_unused()
    if not known and fabric.attachment:
        _layer(fabric, fabric.attachment, ("fabric", "attachment"), report)
    for variant in known:
        if variant.attachment and variant.attachment_path not in seen:
            seen.add(variant.attachment_path)
            _layer(fabric, variant.attachment, variant.attachment_path, report)
        _soft(fabric, variant, report)
        if variant.firmware:
            _firmware(fabric, variant, variant.firmware, report)
    _mode(fabric, report)
    _ipoib(fabric, known, report)


def _layer(fabric: Fabric, attachment: str, path: Path, report: Report) -> None:
    if fabric.link_layer is None or fabric.link_layer in ATTACHMENTS[attachment].link_layers:
        return
    why = LINK_LAYER_REASONS[attachment, fabric.link_layer]
    fitting = [name for name, each in ATTACHMENTS.items() if fabric.link_layer in each.link_layers]
    near = {"sriov": "ib-sriov", "ib-sriov": "sriov"}.get(attachment)
    own = path == ("fabric", "attachment")
    message = "%s does not run on %s: %s" % (attachment, fabric.link_layer, why)
    remedy = "write %s" % near if near else "take one of %s" % ", ".join(fitting)
    if own and not near:
        remedy += ", or take link_layer out"
    report.add(LINK_LAYER, ("fabric", "link_layer") if own and not near else path, message, remedy)


def _mode(fabric: Fabric, report: Report) -> None:
    if not fabric.attachment or not fabric.rdma_mode:
        return
    kind = ATTACHMENTS[fabric.attachment]
    path = ("fabric", "rdma_mode")
    if fabric.rdma_mode not in kind.modes:
        why = MODE_REASONS[fabric.attachment, fabric.rdma_mode]
        message = "%s needs the rdma mode %s: %s" % (fabric.attachment, kind.modes[0], why)
        report.add(MODE, path, message, "take rdma_mode out: it follows from the attachment")
    elif fabric.rdma_mode == SHARED and kind.modes[0] == EXCLUSIVE:
        message = "with %s in the mode shared, %s" % (fabric.attachment, kind.wide)
        report.add(WIDE, path, message, "take rdma_mode out: it follows as exclusive")


def _soft(fabric: Fabric, variant: Variant, report: Report) -> None:
    profile = variant.profile
    if profile.soft_rdma and fabric.link_layer == INFINIBAND:
        message = "%s stands on Ethernet, and the link layer is infiniband" % profile.soft_rdma
        report.add(SOFT_RDMA, profile.path + ("soft_rdma",), message, "take soft_rdma out, or set link_layer: ethernet")


def _ipoib(fabric: Fabric, variants: list[Variant], report: Report) -> None:
    using = [variant for variant in variants if variant.attachment == "ipoib"]
    connected = fabric.infiniband is not None and fabric.infiniband.ipoib_mode == CONNECTED
    if not using or fabric.link_layer != INFINIBAND or connected:
        return
    said = [(fabric.mtu, ("fabric", "mtu"))] + [(rail.mtu, rail.where("mtu")) for rail in fabric.rails]
    for mtu, path in said:
        if mtu is not None and mtu > _IPOIB_MTU:
            message = "%d is more than the %d that IPoIB carries in datagram mode" % (mtu, _IPOIB_MTU)
            report.add(IPOIB_MTU, path, message, "set it to %d, or to 2044 where the subnet's MTU is 2048" % _IPOIB_MTU)


def _firmware(fabric: Fabric, variant: Variant, firmware: Firmware, report: Report) -> None:
    wanted = LINK_TYPE.get(fabric.link_layer or "")
    if wanted and firmware.link_type not in (None, wanted):
        message = "%s does not fit the link layer %s" % (firmware.link_type, fabric.link_layer)
        report.add(
            FIRMWARE_LINK, firmware.path + ("link_type",), message, "take link_type out: it follows, as %s" % wanted
        )
    for port in variant.ports.values():
        if port.pci is None and not (port.slot or port.serial or port.mac) and not report.within(port.path):
            message = "the port of %s has no PCI address, by which firmware tools know a card" % port.rail
            report.add(FIRMWARE_PCI, port.path, message, "add pci")
            break
    for other in variant.profile.other_ports.values():
        if other.port.pci is None and not report.within(other.path):
            message = "%s has no PCI address, by which its card is told from those that may be reset" % other.name
            report.add(FIRMWARE_PCI, other.path, message, "add pci")
