# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The observed state of a PF and its VFs, from sysfs and rtnetlink.

Sources: the kernel's ``Documentation/ABI/testing/sysfs-bus-pci`` (``sriov_numvfs``, ``sriov_totalvfs``,
``sriov_drivers_autoprobe``, ``virtfnN``) and ``rtnl_fill_vfinfo()``.
"""

from __future__ import annotations

import errno
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.vf_spec import ATTRIBUTES

# Exists while sriov_drivers_autoprobe is temporarily 0, and holds its former value. A boot removes both.
MARK = "/run/railyard/sriov_drivers_autoprobe-%s"


class PfState:
    """The observed state of a PF, read by the constructor and again by :meth:`read`.

    ``netdev`` and ``index``: its netdev in this network namespace, or None. ``total``: the greatest number of VFs; None
    without SR-IOV. ``vfs``: rows of ``index``, ``pci``, ``driver``, ``netdev``, ``netdev_address``, ``rdma_device``.
    ``attributes``: rows of ``index`` and the attributes of each VF; empty if they cannot be read, for the reason
    ``unreadable``.
    """

    def __init__(self, system: System, table: Rtnetlink, address: str) -> None:
        self.system = system
        self.table = table
        self.pci = address
        self.directory = "%s/%s" % (pci_functions.DEVICES, address)
        self.vendor = nic_vendors.of_function(system, address)
        self.read()

    def read(self) -> None:
        system = self.system
        self.driver = system.link_name(self.path("driver"))
        self.total = system.read_int(self.path("sriov_totalvfs"))
        self.count = system.read_int(self.path("sriov_numvfs")) or 0
        probe = system.read_int(self.path("sriov_drivers_autoprobe"))
        self.autoprobe = None if probe is None else bool(probe)
        # the value to restore after an interrupted run
        mark = system.read_int(MARK % self.pci)
        self.marked = None if mark is None else bool(mark)
        self.netdev, self.representors = self._netdevs()
        self.rdma_device = _first(pci_functions.rdma_devices(system, self.pci))
        self.index: int | None = None
        self.up = self.carrier = False
        self.infiniband = system.read(self.path("class")) == "0x020700"
        self.vfs = [self._vf(number) for number in range(self.count)]
        self.unreadable = ""
        self.attributes = self._attributes()

    @property
    def name(self) -> str:
        return "%s (%s)" % (self.pci, self.netdev) if self.netdev else self.pci

    @property
    def is_switchdev(self) -> bool:
        """Whether the NIC's switch has the mode switchdev; only then its ports have the id of the switch."""
        return bool(self.representors or self.system.read("/sys/class/net/%s/phys_switch_id" % self.netdev))

    @property
    def bond(self) -> str | None:
        """The bond that its netdev is a member of."""
        directory = "/sys/class/net/%s/" % self.netdev
        return self.system.link_name(directory + "master") if self.system.exists(directory + "bonding_slave") else None

    @property
    def link_layer(self) -> str:
        return vf_attributes.INFINIBAND if self.infiniband else vf_attributes.ETHERNET

    def path(self, name: str) -> str:
        return pci_functions.attribute(self.pci, name)

    def vf_name(self, index: int) -> str:
        return "%s vf %d" % (self.pci, index)

    def _netdevs(self) -> tuple[str | None, int]:
        netdevs: list[tuple[int, str]] = []
        representors = 0
        for name in self.system.listdir(self.path("net")):
            port = self.system.read("/sys/class/net/%s/phys_port_name" % name)
            if port and pci_functions.REPRESENTOR.match(port):
                representors += 1
            else:
                netdevs.append((self.system.read_int("/sys/class/net/%s/dev_port" % name) or 0, name))
        return (min(netdevs)[1] if netdevs else None), representors

    def _vf(self, number: int) -> Row:
        system = self.system
        address = system.link_name(self.path("virtfn%d" % number))
        row: Row = {"index": number, "pci": address, "driver": None, "netdev": None, "netdev_address": None}
        row["rdma_device"] = None
        if address:
            row["driver"] = system.link_name(pci_functions.attribute(address, "driver"))
            row["netdev"] = _first(system.listdir(pci_functions.attribute(address, "net")))
            row["rdma_device"] = _first(pci_functions.rdma_devices(system, address))
        if row["netdev"]:
            row["netdev_address"] = system.read("/sys/class/net/%s/address" % row["netdev"])
        return row

    # -- attributes ------------------------------------------------------------------------------------------------

    def _attributes(self) -> list[Row]:
        rows: list[Row] = []
        if self.netdev:
            rows = self._attributes_by_netlink(self.netdev)
        if not self.count:
            return []
        known = len(rows) >= self.count
        rows = rows if known else [{"index": number} for number in range(self.count)]
        for row in rows:
            files = self.vendor.vf_files
            row.update(files.attributes(self.system, self.directory, row["index"], self.link_layer, known))
        if any(len(row) == 1 for row in rows):
            self.unreadable = self.unreadable or "it has no netdev in this network namespace"
            return []
        self.unreadable = ""
        return [_attribute_row(row) for row in rows]

    def _attributes_by_netlink(self, netdev: str) -> list[Row]:
        try:
            link = self.table.link(netdev, vfs=bool(self.count))
        except NetlinkError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise
            link = self.table.link(netdev)
            self.unreadable = "the attributes of %d VFs do not fit into one netlink message" % self.count
        if link is None:
            return []
        self.index, self.up, self.carrier = link.ifindex, link.up, link.carrier
        self.infiniband = link.type == ARPHRD_INFINIBAND
        rows = list(link.vfs)
        if len(rows) < self.count and not self.unreadable:
            self.unreadable = "the kernel reports %d of its %d VFs" % (len(rows), self.count)
        return rows[: self.count] if len(rows) >= self.count else []


def is_passed_on(driver: str) -> bool:
    """Return whether the driver passes the VF to a process or a virtual machine, which configures the VF itself."""
    return "vfio" in driver or driver.startswith(("uio", "igb_uio", "pci-stub"))


def is_part_of_interface(system: System, netdev: str) -> bool:
    """Return whether a bond, bridge or other interface uses the netdev."""
    entries = system.listdir("/sys/class/net/" + netdev)
    return any(entry == "master" or entry.startswith("upper_") for entry in entries)


def _attribute_row(row: Row) -> Row:
    values = {name: row.get(name) for name in ATTRIBUTES}
    for attribute in vf_attributes.IDENTITIES:
        # all zero: not set
        if not (values[attribute.name] or "").strip("0:"):
            values[attribute.name] = None
    return dict({"index": row["index"]}, **values)


def _first(names: t.Sequence[str]) -> str | None:
    return names[0] if names else None
