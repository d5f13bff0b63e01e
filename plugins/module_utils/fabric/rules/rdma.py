# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY5xx: attachment, rdma mode, link layer, soft RDMA and firmware."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import (
    INFINIBAND,
    LINK_TYPE,
    RDMA_MODE,
    Fabric,
    Profile,
)

_PORTS = """
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, %s}" % more


ATTACHMENT_LATER = rule(
    "RY501",
    "The attachment is not yet supported",
    _fabric("attachment: ipvlan"),
    _fabric("attachment: macvlan"),
)
MODE = rule(
    "RY502",
    "The rdma mode contradicts the attachment",
    _fabric("attachment: macvlan, rdma_mode: exclusive"),
    _fabric("attachment: macvlan, rdma_mode: shared"),
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
    "fabric: {name: ai, provider: spiderpool, attachment: sriov, vfs: {count: 4}, link_layer: infiniband, mtu: 4092}\n"
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
    "Firmware is managed on a port without a PCI address",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}\n    ports:\n"
    "      gpu01: {netdev: enp11s0f0np0}\n      gpu02: {netdev: enp12s0f0np0}",
    "profiles:\n  hgx:\n    firmware: {link_type: eth}" + _PORTS,
)


def check(fabric: Fabric, report: Report) -> None:
    attachment = fabric.attachment
    if attachment and attachment not in RDMA_MODE:
        report.add(
            ATTACHMENT_LATER,
            ("fabric", "attachment"),
            "%s is not yet supported" % attachment,
            "take one of %s" % ", ".join(RDMA_MODE),
        )
    elif attachment:
        mode = RDMA_MODE[attachment]
        if fabric.rdma_mode not in (None, mode):
            message = "%s needs the rdma mode %s, not %s" % (attachment, mode, fabric.rdma_mode)
            report.add(MODE, ("fabric", "rdma_mode"), message, "take rdma_mode out: it follows from the attachment")
        if attachment == "macvlan" and fabric.link_layer == INFINIBAND:
            message = "macvlan needs Ethernet, and the link layer is infiniband"
            report.add(LINK_LAYER, ("fabric", "link_layer"), message, "set link_layer: ethernet, or attachment: sriov")
    for profile in fabric.profiles.values():
        if profile.soft_rdma and fabric.link_layer == INFINIBAND:
            message = "%s stands on Ethernet, and the link layer is infiniband" % profile.soft_rdma
            report.add(
                SOFT_RDMA, profile.path + ("soft_rdma",), message, "take soft_rdma out, or set link_layer: ethernet"
            )
        _firmware(fabric, profile, report)


def _firmware(fabric: Fabric, profile: Profile, report: Report) -> None:
    firmware = profile.firmware
    if firmware is None:
        return
    wanted = LINK_TYPE.get(fabric.link_layer or "")
    if wanted and firmware.link_type not in (None, wanted):
        message = "%s does not fit the link layer %s" % (firmware.link_type, fabric.link_layer)
        report.add(
            FIRMWARE_LINK, firmware.path + ("link_type",), message, "take link_type out: it follows, as %s" % wanted
        )
    for port in profile.ports.values():
        if port.pci is None and not report.within(port.path):
            message = "the port of %s has no PCI address, by which firmware tools know a card" % port.rail
            report.add(FIRMWARE_PCI, port.path, message, "add pci")
            break
