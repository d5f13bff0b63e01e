# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY2xx: names of fabrics, rails, profiles, nodes, devices, groups and variables."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog.name_rules import (
    NETDEV_OF_THE_KERNEL,
    NODE_NAME,
    RAIL_ORDER,
    RDMA_OF_THE_KERNEL,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    NETDEV_OF_KERNEL,
    RDMA_OF_KERNEL,
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
            # Ansible gives variables to the group where a host has its name, and --limit means the group too.
            message = "%s is also the name of a group" % node.name
            report.add(NODE_NAME, node.path, message, "rename the node or the group")
    seen: set[int] = set()
    for variant, ports in variants.tables():
        if variant.profile.soft_rdma:
            continue  # a soft device is made under its name and never renamed
        for port in ports.values():
            # Known by the device alone, a port keeps the name that it is known by.
            if id(port) in seen or port.netdev is None and port.pci is None:
                continue
            seen.add(id(port))
            if port.netdev and NETDEV_OF_KERNEL.match(port.netdev) and port.renamed:
                report.add(
                    NETDEV_OF_THE_KERNEL,
                    port.paths.get("netdev", port.path),
                    "the kernel may assign %s to another card" % port.netdev,
                    "name it after its rail, such as %s" % port.rail[:15],
                )
            if port.rdma and RDMA_OF_KERNEL.match(port.rdma):
                report.add(
                    RDMA_OF_THE_KERNEL,
                    port.paths["rdma"],
                    "the kernel may give %s to another device" % port.rdma,
                    "name it after its rail, such as %s_%s" % (_maker(port.rdma), port.rail),
                )


def _maker(device: str) -> str:
    """The prefix of a driver's device names: ``mlx5`` of ``mlx5_0``, ``bnxt`` of ``bnxt_re0``."""
    return device.partition("_")[0] if "_" in device else device.rstrip("0123456789")


def _stem(name: str) -> str:
    return name.rstrip("0123456789") or "rail"
