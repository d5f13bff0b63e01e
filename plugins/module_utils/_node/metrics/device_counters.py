# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of RDMA devices and their netdevs, with the names in ``rdma statistic`` and ``ethtool -S``."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool, rdma_netlink


class DeviceCounters(t.NamedTuple):
    """The counters of an RDMA device's port. ``netdev`` is None if it is in another network namespace."""

    device: str
    netdev: str | None
    node_guid: str
    sys_image_guid: str
    counters: dict[str, int]


class Statistic(t.NamedTuple):
    """A statistic of a netdev. ``priority``: the counted priority; None: all."""

    name: str
    priority: str | None
    value: int


def rdma_ports(system: System, files: bool = False) -> list[DeviceCounters]:
    """Return the ports of the RDMA devices in the network namespace of the calling thread.

    :param files: add the counters of the InfiniBand specification, which only sysfs has. It shows the devices of the
        network namespace in which it was mounted.
    :raises NetlinkError: for an error of the kernel.
    """
    sock = rdma_netlink.connect(system)
    if not sock:
        return []
    ports = []
    with contextlib.closing(sock):
        devices = {row["index"]: row for row in rdma_netlink.devices(sock)}
        for link in rdma_netlink.links(sock, devices.values()):
            device = devices[link["device_index"]]
            counters = dict(rdma_netlink.hardware_counters(sock, device["index"], link["port"]))
            if files:
                counters.update(_files(system, device["name"], link["port"]))
            guids = (device["node_guid"] or "", device["sys_image_guid"] or "")
            ports.append(DeviceCounters(device["name"], link["netdev"], *guids, counters))
    return ports


def _files(system: System, device: str, port: int) -> dict[str, int]:
    directory = "/sys/class/infiniband/%s/ports/%d/counters" % (device, port)
    values = {name: system.read_int("%s/%s" % (directory, name)) for name in system.listdir(directory)}
    return {name: value for name, value in values.items() if value is not None}


def netdev_statistics(netdevs: t.Iterable[str]) -> dict[str, list[Statistic]]:
    """Return netdev -> statistics of RDMA and flow control, without netdevs whose driver does not have them."""
    vendors = nic_vendors.every()
    found: dict[str, tuple[str, str | None]] = {}

    def wanted(name: str) -> bool:
        known = next(filter(None, (vendor.statistic(name) for vendor in vendors)), None)
        if known:
            found[name] = known
        return known is not None

    values = ethtool.statistics(netdevs, wanted)
    return {netdev: [Statistic(*found[name], value) for name, value in rows.items()] for netdev, rows in values.items()}
