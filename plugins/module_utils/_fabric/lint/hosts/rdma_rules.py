# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY5xx: attachment, RDMA mode, link layer, soft RDMA and firmware."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    ETHERNET,
    EXCLUSIVE,
    HOST,
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
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    CONNECTED,
    NO_IPOIB,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import (
    Kind,
    Kinds,
    Variant,
    Variants,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES


def _fabric(more: str) -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, %s}" % more


_IPOIB_MTU = 4092
# The largest MTU of Ethernet cards. IPoIB in connected mode has larger ones.
_ETHERNET_MTU = 9978

_PORTS = "profiles: {hgx: {ports: {gpu01: {netdev: nic1}, stor1: {netdev: nic2}}}}\n"

_MIXED = (
    "fabric: {name: ai, provider: none, link_layer: infiniband, mtu: 65520, infiniband: {ipoib_mode: none}}\n"
    "rails:\n  gpu01: {mode: none}\n"
    "  stor1: {link_layer: ethernet, subnet: 172.16.12.0/24, hosts: .201-.253%s}\n"
    'profiles: {hgx: {ports: {gpu01: {pci: "0000:0b:00.0"}, stor1: {netdev: nic2}}}}\n'
)

_KINDS = (
    _fabric("attachment: %s").replace("provider", "pods_per_node: 2, provider")
    + "\nrails:\n  gpu01: {subnet: 172.16.11.0/24, pods: .1-.200, hosts: .201-.253}\n"
    + "  stor1: {role: storage, attachment: %s, subnet: 172.16.12.0/24, pods: .1-.200, hosts: .201-.253}\n"
    + _PORTS
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    checked: set[tuple[Path, str | None]] = set()
    known = variants.with_unused()
    if not known and fabric.attachment:
        _layer(fabric, None, fabric.attachment, fabric.link_layer, ("fabric", "attachment"), report)
    for variant in known:
        kinds = variants.kinds_of(variant)
        # A variant without ports on rails has only the attachment and the link layer of the fabric.
        every: dict[Kind, Rail | None] = {**kinds} if kinds else {(variant.attachment, fabric.link_layer): None}
        for (attachment, layer), rail in every.items():
            path = variant.attachment_path_on(rail) if rail else variant.attachment_path
            if attachment and (path, layer) not in checked:
                checked.add((path, layer))
                _layer(fabric, rail, attachment, layer, path, report)
        layers = {layer: rail for (_attachment, layer), rail in every.items()}
        _soft(variant, layers, report)
        family = FAMILIES.get(variant.profile.nic or "")
        if variant.firmware and (family is None or family.has_firmware_parameters):
            _firmware(variant, variant.firmware, layers, report)
        _one_mode(fabric, variant, kinds, report)
    _mode(fabric, variants, report)
    _ipoib(fabric, known, report)
    _mtus(fabric, report)


LINK_LAYER = rule(
    "RY503 attachment-link-layer: Attachment that does not support the link layer",
    _fabric("attachment: macvlan, link_layer: infiniband"),
    _fabric("attachment: macvlan, link_layer: ethernet"),
)


def _layer(fabric: Fabric, rail: Rail | None, attachment: str, layer: str | None, path: Path, report: Report) -> None:
    """Report an attachment that the link layer does not support. ``rail``: the first of the rails that have both."""
    if layer is None or layer in ATTACHMENTS[attachment].link_layers:
        return
    reason = LINK_LAYER_REASONS[attachment, layer]
    fitting = _fitting(fabric, layer)
    equivalent = {"sriov": "ib-sriov", "ib-sriov": "sriov"}.get(attachment)
    message = "%s does not support %s: %s" % (attachment, layer, reason)
    if rail and rail.link_layer and not rail.attachment:
        remedy = "set the attachment of %s to one of %s" % (rail.name, ", ".join(fitting))
        report.add(LINK_LAYER, rail.where("link_layer"), message, remedy)
        return
    of_fabric = path == ("fabric", "attachment")
    remedy = "write %s" % equivalent if equivalent else "use one of %s" % ", ".join(fitting)
    if of_fabric and not equivalent:
        remedy += ", or remove link_layer"
    report.add(LINK_LAYER, ("fabric", "link_layer") if of_fabric and not equivalent else path, message, remedy)


def _fitting(fabric: Fabric, layer: str | None) -> list[str]:
    """Return the attachments of the provider that support a link layer."""
    return [name for name in facts_of(fabric.provider).served if layer in ATTACHMENTS[name].link_layers]


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


def _mode(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report an RDMA mode that an attachment does not support."""
    if not fabric.attachment or not fabric.rdma_mode:
        return
    facts = facts_of(fabric.provider)
    path = ("fabric", "rdma_mode")
    # The mode applies to nodes with the fabric's attachment, and to nodes with several ones.
    using = [kinds for kinds in map(variants.kinds_of, variants.with_unused()) if len(kinds) > 1]
    every = {kind for kinds in using for kind in kinds}
    every.add((fabric.attachment, fabric.link_layer))
    needs_shared = any(facts.rdma_modes(*each)[0] == SHARED and each[0] != HOST for each in every)
    for attachment, layer in sorted((name, layer) for name, layer in every if name and layer):
        kind = ATTACHMENTS[attachment]
        modes = facts.rdma_modes(attachment, layer)
        if fabric.rdma_mode not in kind.modes:
            reason = MODE_REASONS[attachment, fabric.rdma_mode]
            message = "%s needs the RDMA mode %s: %s" % (attachment, modes[0], reason)
            one = "remove rdma_mode: the attachment determines it"
            report.add(MODE, path, message, one if len(every) == 1 else "write %s" % modes[0])
        elif fabric.rdma_mode not in modes:
            message = "%s with %s needs the RDMA mode %s on InfiniBand: %s" % (
                *(attachment, fabric.provider, modes[0]),
                IPOIB_REMOVED,
            )
            one = "remove rdma_mode: the default is %s" % modes[0]
            report.add(MODE, path, message, one if len(every) == 1 else "write %s" % modes[0])
        elif fabric.rdma_mode == SHARED and modes[0] == EXCLUSIVE:
            message = "with %s in the RDMA mode shared, %s" % (attachment, kind.shared_drawback)
            remedy = "remove rdma_mode: the default is exclusive"
            if needs_shared:
                remedy = "suppress this finding, or use attachments with the mode exclusive on all rails of the nodes"
            report.add(SHARED_DEVICES, path, message, remedy)


ONE_MODE = rule(
    "RY509 rdma-modes-of-rails: Rails of a node that need different RDMA modes",
    _KINDS % ("sriov, vfs: {count: 4}", "ipvlan"),
    _KINDS % ("sriov, vfs: {count: 4}", "sriov"),
    why="A node has one RDMA mode, shared or exclusive, for all of its devices.",
)


def _one_mode(fabric: Fabric, variant: Variant, kinds: Kinds, report: Report) -> None:
    """Report rails of a variant's nodes whose attachments have different default modes, unless the file has one."""
    facts = facts_of(fabric.provider)
    first: dict[str, tuple[str, Rail]] = {}
    for (attachment, layer), rail in kinds.items():
        if attachment not in (None, HOST) and not facts.refused(attachment):
            first.setdefault(facts.rdma_modes(attachment, layer)[0], (attachment or "", rail))
    if len(first) < 2 or (fabric.rdma_mode and not report.has(("fabric", "rdma_mode"))):
        return
    (exclusive, isolated), (shared, sharing) = first[EXCLUSIVE], first[SHARED]
    layer = fabric.link_layer_on(sharing)
    others = [name for name in _fitting(fabric, layer) if facts.rdma_modes(name, layer)[0] == EXCLUSIVE]
    message = "nodes of %s have one RDMA mode, and %s of %s needs exclusive, %s of %s shared" % (
        variant.name,
        exclusive,
        isolated.name,
        shared,
        sharing.name,
    )
    remedy = "set fabric.rdma_mode: shared, with which %s" % ATTACHMENTS[exclusive].shared_drawback
    if others:
        remedy += "; or set attachment: %s for %s" % (others[0], sharing.name)
    report.add(ONE_MODE, sharing.paths.get("attachment", variant.attachment_path), message, remedy)


SOFT_RDMA = rule(
    "RY504 soft-rdma-without-ethernet: Soft RDMA without Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: ib-sriov, vfs: {count: 4}, mtu: 4092}\n"
    + example_file.profile("soft_rdma: rxe"),
    example_file.profile("soft_rdma: rxe"),
)


# Link layer -> the first of a variant's rails that have it.
Layers = t.Mapping[t.Optional[str], t.Optional[Rail]]


def _soft(variant: Variant, layers: Layers, report: Report) -> None:
    profile = variant.profile
    if profile.soft_rdma and INFINIBAND in layers:
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
    rails = [
        rail
        for rail in fabric.rails
        if fabric.link_layer_on(rail) == INFINIBAND
        and fabric.ipoib_mode_on(rail) not in (CONNECTED, NO_IPOIB)
        and any(_on_infiniband(variant.attachment_on(rail)) for variant in variants)
    ]
    mtus = [(rail.mtu, rail.where("mtu")) for rail in rails]
    if any(rail.mtu is None for rail in rails) or (rails and len(rails) == len(fabric.rails)):
        mtus.insert(0, (fabric.mtu, ("fabric", "mtu")))
    for mtu, path in mtus:
        if mtu is not None and mtu > _IPOIB_MTU:
            message = "%d exceeds %d, the limit of IPoIB in datagram mode" % (mtu, _IPOIB_MTU)
            report.add(IPOIB_MTU, path, message, "set it to %d, or to 2044 if the subnet's MTU is 2048" % _IPOIB_MTU)


def _on_infiniband(attachment: str | None) -> bool:
    return attachment in ATTACHMENTS and INFINIBAND in ATTACHMENTS[attachment].link_layers


MTU_LAYER = rule(
    "RY510 mtu-of-other-link-layer: MTU of the fabric that the link layer of a rail does not have",
    _MIXED % "",
    _MIXED % ", mtu: 9000",
    why="A rail without mtu has the MTU of the fabric, and IPoIB in connected mode has larger ones than Ethernet.",
)


def _mtus(fabric: Fabric, report: Report) -> None:
    """Report rails with Ethernet that would get an MTU above the maximum of Ethernet from the fabric."""
    for rail in fabric.rails:
        of_fabric = rail.mtu is None and "mtu" not in rail.paths
        if of_fabric and (fabric.mtu or 0) > _ETHERNET_MTU and fabric.link_layer_on(rail) == ETHERNET:
            message = "%s has Ethernet, whose largest MTU is %d, and the fabric's mtu is %d" % (
                rail.name,
                _ETHERNET_MTU,
                fabric.mtu or 0,
            )
            report.add(MTU_LAYER, rail.path, message, "set mtu for the rail, such as mtu: 9000")


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


def _firmware(variant: Variant, firmware: Firmware, layers: Layers, report: Report) -> None:
    """Report link types that contradict the link layer, and ports without a PCI address, which firmware tools need."""
    for layer, rail in layers.items():
        needed = LINK_TYPE.get(layer or "")
        if needed and firmware.link_type not in (None, needed):
            message = "%s does not fit the link layer %s" % (firmware.link_type, layer)
            remedy = "remove link_type: the default is %s" % needed
            if rail and len(layers) > 1:
                message += " of %s" % rail.name
                remedy = "remove link_type: each port then gets the link type of its rail"
            report.add(FIRMWARE_LINK, firmware.path + ("link_type",), message, remedy)
    for port in variant.ports.values():
        if not all(function.renamed for function in port.functions) and not report.within(port.path):
            message = "the port of %s has no PCI address, which firmware tools need" % port.rail
            report.add(FIRMWARE_PCI, port.path, message, "add pci")
            break
    for other in variant.profile.other_ports.values():
        if other.port.pci is None and not report.within(other.path):
            message = "%s has no PCI address, which protects its card from a reset" % other.name
            report.add(FIRMWARE_PCI, other.path, message, "add pci")
