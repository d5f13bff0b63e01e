# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY2xx: names of fabrics, rails, profiles, nodes, devices, groups and variables."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_nodes import NODE_NAME
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    NETDEV_OF_IPOIB,
    NETDEV_OF_KERNEL,
    RDMA_OF_KERNEL,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import keeps_names

RAIL_ORDER = rule(
    "RY203 rail-order: Rail names that do not sort in the order of the rails",
    """
rails:
  gpu9: {subnet: 172.16.19.0/24, hosts: .201-.253}
  gpu10: {subnet: 172.16.20.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu9: {netdev: enp19s0f0np0}
      gpu10: {netdev: enp20s0f0np0}
""",
    """
rails:
  gpu09: {subnet: 172.16.19.0/24, hosts: .201-.253}
  gpu10: {subnet: 172.16.20.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu09: {netdev: enp19s0f0np0}
      gpu10: {netdev: enp20s0f0np0}
""",
)

RDMA_OF_THE_KERNEL = rule(
    "RY211 kernel-rdma-device-name: RDMA device name that the kernel itself assigns",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02}
""",
    example_file.RDMA_PORTS,
    WARNING,
)

NETDEV_OF_THE_KERNEL = rule(
    "RY215 kernel-netdev-name: Netdev name that the kernel itself assigns",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: eth0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    example_file.RDMA_PORTS,
    WARNING,
    why="The kernel assigns eth0 and ib0 in the order in which it finds the cards. The rename of a port fails if"
    " another card has the name at boot.",
)

NETDEV_OF_INFINIBAND = rule(
    "RY219 infiniband-netdev-name: Name of an IPoIB interface for a port of an Ethernet rail",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: ibs1}
      gpu02: {netdev: enp12s0f0np0}
""",
    example_file.PORTS,
    WARNING,
    why="Only InfiniBand ports get these names. The kernel refuses macvlan and ipvlan interfaces on them.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    names = [rail.name for rail in fabric.rails]
    for before, rail in zip(fabric.rails, fabric.rails[1:]):
        if rail.name <= before.name and names.count(rail.name) == 1:
            report.add(
                RAIL_ORDER,
                rail.path,
                "%s is rail %d and sorts before %s, rail %d" % (rail.name, rail.number, before.name, before.number),
                "number the rails in their order, all with as many digits: %s01, %s02" % ((_stem(before.base),) * 2),
            )
            break
    groups = {"all", "ungrouped"}.union(fabric.groups, *(node.groups for node in fabric.nodes))
    for node in fabric.nodes:
        if node.name in groups:
            # Ansible applies variables and --limit to the group if a host and a group have the same name.
            message = "%s is also the name of a group" % node.name
            report.add(NODE_NAME, node.path, message, "rename the node or the group")
    _infiniband_names(fabric, variants, report)
    numbers = {rail.name: rail.number for rail in fabric.rails}
    # Pairs of a netdev and an RDMA device whose names the kernel does not assign.
    clean: set[tuple[str | None, str | None]] = set()
    for variant, ports in variants.tables():
        if variant.profile.soft_rdma:
            continue  # soft RDMA devices are created with their name and never renamed
        for port in ports.values():
            if port.managed is False:
                continue  # nothing is renamed
            _member_names(port, report)
            # A port that is identified only by its RDMA device keeps the device's name.
            if (port.netdev, port.rdma) in clean or port.netdev is None and port.pci is None and not port.bond:
                continue
            netdev, rdma = NETDEV_OF_KERNEL.match(port.netdev or ""), RDMA_OF_KERNEL.match(port.rdma or "")
            if not netdev and not rdma:
                clean.add((port.netdev, port.rdma))
            number = numbers.get(port.rail, 1)
            if port.netdev and netdev and port.renamed:
                name = _other_name(port.rail[:15], "rail%02d" % number, NETDEV_OF_KERNEL)
                message = "the kernel may assign %s to another card" % port.netdev
                remedy = "name it after its rail, such as %s" % name
                report.add(NETDEV_OF_THE_KERNEL, port.paths.get("netdev", port.path), message, remedy)
            if port.rdma and rdma and not keeps_names(variant.profile.nic):
                prefix = _driver_prefix(port.rdma) + "_"
                name = _other_name(prefix + port.rail, prefix + "rail%02d" % number, RDMA_OF_KERNEL)
                message = "the kernel may give %s to another device" % port.rdma
                remedy = "name it after its rail, such as %s" % name
                report.add(RDMA_OF_THE_KERNEL, port.paths["rdma"], message, remedy)


def _other_name(of_rail: str, by_number: str, of_kernel: re.Pattern[str]) -> str:
    """Return the name of a port after its rail, or after the number of a rail whose name the kernel may assign."""
    return by_number if of_kernel.match(of_rail) else of_rail


def _member_names(port: Port, report: Report) -> None:
    """Report members of a bond that get names that the kernel assigns."""
    for at, member in enumerate(port.bond.members if port.bond else ()):
        if member.renamed and NETDEV_OF_KERNEL.match(member.netdev or ""):
            message = "the kernel may assign %s to another card" % member.netdev
            remedy = "name it after its rail, such as %sm%d" % (port.rail[:13], at + 1)
            report.add(NETDEV_OF_THE_KERNEL, port.function_path(at) + ("netdev",), message, remedy)


def _infiniband_names(fabric: Fabric, variants: Variants, report: Report) -> None:
    ethernet = {rail.name for rail in fabric.rails if fabric.link_layer_on(rail) == ETHERNET}
    # names that Ethernet ports can have: most nodes have the same
    clean: set[str | None] = {None}
    for _variant, ports in variants.tables():
        for port in ports.values():
            if port.netdev in clean:
                continue
            if not NETDEV_OF_IPOIB.match(port.netdev or ""):
                clean.add(port.netdev)
            elif port.rail in ethernet and not port.renamed:
                message = "%s is a name of an InfiniBand port, and %s is an Ethernet rail" % (port.netdev, port.rail)
                remedy = "set attachment: ipoib or ib-sriov, or name the port's Ethernet interface"
                report.add(NETDEV_OF_INFINIBAND, port.paths.get("netdev", port.path), message, remedy)


def _driver_prefix(device: str) -> str:
    """Return the driver's prefix of a device name: ``mlx5`` of ``mlx5_0``, ``bnxt`` of ``bnxt_re0``."""
    return device.partition("_")[0] if "_" in device else device.rstrip("0123456789")


def _stem(name: str) -> str:
    """Return a rail's name without the digits at its end."""
    return name.rstrip("0123456789") or "rail"
