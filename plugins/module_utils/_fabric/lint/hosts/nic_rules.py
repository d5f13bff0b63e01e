# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY55x: settings that do not fit the family of a profile's NICs, or the maker of its GPUs."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    ECN,
    MANAGED,
    QOS,
    NicFamily,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import (
    INSTALLED,
    of_kind,
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        family = FAMILIES.get(variant.profile.nic or "")
        if family:
            _firmware(variant, family, report)
            _driver(variant, family, report)
            _link_layer(fabric, variants, variant, family, report)
            _qos(fabric, variant, family, report)
            _devices(variant, family, report)
        _gpus(variant, report)


FIRMWARE = rule(
    "RY550 unmanaged-firmware: Firmware settings of NICs whose firmware Railyard does not manage",
    example_file.profile("nic: bnxt_re\n    firmware: {num_of_vfs: 16}"),
    example_file.profile("nic: mlx5\n    firmware: {num_of_vfs: 16}"),
    why="Only mlxconfig has these parameters. Other vendors have other programs, which Railyard does not run.",
)


def _firmware(variant: Variant, family: NicFamily, report: Report) -> None:
    if variant.firmware and not family.has_firmware_parameters:
        message = "Railyard does not set firmware parameters of %s (%s)" % (family.name, family.title)
        remedy = "remove firmware" + (", and set them with %s" % family.tool if family.tool_sets else "")
        report.add(FIRMWARE, variant.firmware.path, message, remedy)


DRIVER = rule(
    "RY551 driver-of-another-vendor: NIC driver of another vendor",
    example_file.profile("nic: ionic\n    driver: {kind: doca, version: 2.9.3, source: /srv/doca, unsigned: true}"),
    example_file.profile("nic: ionic\n    driver: {kind: inbox}"),
)


def _driver(variant: Variant, family: NicFamily, report: Report) -> None:
    kind = variant.driver.kind if variant.driver else None
    product = of_kind(kind) if kind else None
    if variant.driver and kind in INSTALLED and product and product.pci_vendor != family.pci_vendor:
        message = "%s is a driver of other NICs than %s (%s)" % (kind, family.name, family.title)
        remedy = "set kind: inbox, or remove driver and install the driver of the vendor by other means"
        report.add(DRIVER, variant.driver.path + ("kind",), message, remedy)


ETHERNET = rule(
    "RY552 infiniband-on-ethernet-nic: InfiniBand on NICs that have only Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: ipoib, mtu: 4092}\n" + example_file.profile("nic: bnxt_re"),
    example_file.profile("nic: bnxt_re"),
)


def _link_layer(fabric: Fabric, variants: Variants, variant: Variant, family: NicFamily, report: Report) -> None:
    names = variants.rails_of(variant)
    wrong = [rail.name for rail in fabric.rails if rail.name in names and fabric.link_layer_on(rail) == INFINIBAND]
    if wrong and family.pci_vendor != "15b3":
        message = "%s (%s) has no InfiniBand ports, and the link layer of %s is infiniband" % (
            family.name,
            family.title,
            ", ".join(wrong),
        )
        report.add(ETHERNET, variant.profile.path + ("nic",), message, "set link_layer: ethernet, or correct nic")


UNMANAGED_QOS = rule(
    "RY553 unmanaged-qos: QoS that Railyard does not set on these NICs",
    example_file.profile("nic: ionic") + "qos: {dscp: 24, cnp_dscp: 46, cnp_priority: 6}\n",
    example_file.profile("nic: bnxt_re") + "qos: {cnp_dscp: 48, cnp_priority: 7}\n",
    WARNING,
    why="Without an interface of the kernel for PFC, ETS, trust or congestion control, roce_qos sets only the marks of"
    " RDMA connections. NCCL's settings, the leaves' tables and verify use the planned values.",
)

OTHER_MARKS = rule(
    "RY554 marks-of-another-vendor: QoS that differs from the vendor's",
    example_file.profile("nic: bnxt_re") + "qos: {}\n",
    example_file.profile("nic: bnxt_re") + "qos: {cnp_dscp: 48, cnp_priority: 7}\n",
    WARNING,
    why="Switches and NICs that map a DSCP to different priorities drop or delay what the other end pauses. The"
    " defaults of qos fit NVIDIA's NICs. With a profile (docs/qos.md), they fit the NICs of the vendor.",
)


def _qos(fabric: Fabric, variant: Variant, family: NicFamily, report: Report) -> None:
    rails = [rail for rail in fabric.rails if rail.name in variant.ports]
    found = [qos for rail in rails for qos in [fabric.qos_on(rail, family.name)] if qos]
    if not found:
        return
    place = variant.profile.path + ("nic",)
    kinds = (("PFC, ETS, trust", QOS, True), ("congestion control", ECN, any(qos.ecn for qos in found)))
    left = [text for text, layer, planned in kinds if planned and family.layers[layer].level != MANAGED]
    if left:
        message = "Railyard does not set %s of %s (%s)" % (", ".join(left), family.name, family.title)
        remedy = "set ecn: false in qos of these rails" if len(left) == 1 else "remove qos of these rails"
        remedy += ", or suppress this finding"
        if family.tool_sets:
            remedy = "set them with %s, and suppress this finding" % family.tool
        report.add(UNMANAGED_QOS, place, message, remedy)
    defaults = family.qos_defaults
    if defaults is None:
        return
    for qos in {qos.path: qos for qos in found}.values():
        for key in ("priority", "dscp", "cnp_priority", "cnp_dscp"):
            expected, value = getattr(defaults, key), getattr(qos, key)
            if value != expected:
                message = "%s is %d, and the vendor's value for %s is %d (%s)" % (
                    key,
                    value,
                    family.name,
                    expected,
                    defaults.source,
                )
                remedy = "write %s: %d, or suppress this finding if the switches have your value" % (key, expected)
                report.add(OTHER_MARKS, qos.where(key), message, remedy)


RDMA_PORT = rule(
    "RY555 port-of-single-port-device: RDMA port that the NIC's device does not have",
    example_file.profile("nic: bnxt_re").replace('pci: "0000:0b:00.0"', 'pci: "0000:0b:00.0", rdma: "roce1:2"'),
    example_file.profile("nic: bnxt_re"),
)

KEPT_NAME = rule(
    "RY556 renamed-gaudi-device: RDMA device that must keep the name of its driver",
    example_file.profile("nic: habanalabs").replace('pci: "0000:0b:00.0"', 'pci: "0000:0b:00.0", rdma: roce1'),
    example_file.profile("nic: habanalabs").replace(', pci: "0000:0b:00.0"', ', rdma: "hbl_0:22"'),
    why="The libraries of Gaudi find the accelerator by the number in the name hbl_N. Its ports share a PCI function,"
    " so only netdev identifies a port. Railyard does not rename these devices.",
)


def _devices(variant: Variant, family: NicFamily, report: Report) -> None:
    kernel_name = re.compile(family.rdma_name.replace("N", r"\d+") + r"\Z")
    for port in variant.ports.values():
        place = port.paths.get("rdma", port.path)
        if port.rdma_port is not None and port.rdma_port > family.rdma_ports:
            message = "an RDMA device of %s (%s) has %d port%s" % (
                family.name,
                family.title,
                family.rdma_ports,
                "s" if family.rdma_ports > 1 else "",
            )
            report.add(RDMA_PORT, place, message, "remove the number of the port, or correct nic")
        if port.rdma and family.keeps_names and not (port.netdev and kernel_name.match(port.rdma)):
            message = "libraries for %s look for the name %s" % (family.title, family.rdma_name)
            remedy = 'identify the port by netdev, and write the kernel\'s name or none: rdma: "hbl_0:22"'
            report.add(KEPT_NAME, place, message, remedy)


_AMD = "profiles:\n  mi355x:\n    gpu_vendor: amd\n    gpudirect: {path: %s}\n    ports:\n"
_AMD += "      gpu01: {netdev: nic1, gpu: 0}\n      gpu02: {netdev: nic2, gpu: 1}\nnodes: {ai-1: {profile: mi355x}}\n"

NO_PEERMEM = rule(
    "RY557 peermem-of-another-vendor: nvidia-peermem or gdrcopy for GPUs of another vendor",
    _AMD % "peermem",
    _AMD % "dmabuf",
    why="nvidia-peermem, gdrcopy and the flavours of kernel modules belong to NVIDIA's driver. amdgpu exports DMA-BUF"
    " itself.",
)


def _gpus(variant: Variant, report: Report) -> None:
    vendor = variant.profile.gpu_vendor
    if vendor in (None, "nvidia"):
        return
    wrong = {"path": host_model.PEERMEM, "gdrcopy": True, "flavour": None}
    for key, value in wrong.items():
        setting = variant.host.get(host_model.GPUDIRECT, {}).get(key)
        if setting is not None and (value is None or setting.value == value):
            message = "%s: %s is a setting of NVIDIA's driver, and gpu_vendor is %s" % (key, setting.value, vendor)
            report.add(NO_PEERMEM, setting.path, message, "remove it, or write path: dmabuf")
