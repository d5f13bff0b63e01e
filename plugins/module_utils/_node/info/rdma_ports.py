# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ports of RDMA devices in the form of ``rdma`` of rail_info."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.verbs import DeviceReport

Row = t.Dict[str, t.Any]


def row(system: System, link: Row, device: Row, kind: str, report: DeviceReport | None) -> Row:
    """Return the row of a port.

    :param link: its row of :func:`.rdma_netlink.links`.
    :param device: the row of its device of :func:`.rdma_netlink.devices`.
    :param kind: the type of the device.
    :param report: what libibverbs reports about the device; None without the library.
    """
    name, port = link["device"], link["port"]
    directory = "/sys/class/infiniband/%s/ports/%d" % (name, port)
    max_mtu, active_mtu = report.mtus.get(port, (None, None)) if report else (None, None)
    layer = system.read("%s/link_layer" % directory)
    rate = (system.read("%s/rate" % directory) or "").split()
    netdev = link["netdev"]
    if netdev is None and (device["ports"] or 1) > 1:
        # some drivers report the netdev of a further port only with its GIDs
        netdev = system.read("%s/gid_attrs/ndevs/0" % directory) or None
    found = {
        "device": name,
        "port": port,
        "type": kind,
        "protocol": device["protocol"],
        "link_layer": layer.lower() if layer else None,
        "state": link["state"],
        "physical_state": link["physical_state"],
        "rate": float(rate[0]) if rate else None,
        "active_mtu": active_mtu,
        "max_mtu": max_mtu,
        "netdev": netdev,
        # for a soft link, the function of its netdev
        "pci": pci_functions.of_rdma_device(system, name)
        or (management_path.netdev_pci(system, netdev) if netdev else None),
        "lid": link["lid"],
        "node_guid": device["node_guid"],
        "sys_image_guid": device["sys_image_guid"],
        "firmware": device["fw_version"],
    }
    return dict(found, parent=device["parent"]) if device["parent"] else found
