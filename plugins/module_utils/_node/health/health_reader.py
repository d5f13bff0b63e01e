# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the state of a rail from the kernel: links by rtnetlink, RDMA devices and counters from sysfs.

Only files and interfaces of planned rails are read. An interface with a planned name that is not on its planned PCI
function is not the port: a pod with CAP_NET_ADMIN can make interfaces with any name.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import NETDEV, RDMA, THRESHOLDS
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import (
    Bond,
    Netdev,
    Observed,
    RdmaDevice,
    RdmaPort,
    Unread,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import Rail
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.kept_files import KeptFiles
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import bond_messages, link_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids, pci_functions

NET = "/sys/class/net/%s"
DEVICE = "/sys/class/infiniband/%s"
# The kernel assigns the lowest free index, so a longer gap in a GID table has no entries behind it.
GID_GAP = 16
DMESG = "run 'dmesg' on the node, and reset the device"
NETDEV_COUNTERS = tuple(
    dict.fromkeys(
        name for row in THRESHOLDS.values() if row.where == NETDEV for name in row.counters if name != "carrier_changes"
    )
)
RDMA_COUNTERS = frozenset(name for row in THRESHOLDS.values() if row.where == RDMA for name in row.counters)


class RailReader:
    """Reads one rail. An object belongs to one thread at a time."""

    def __init__(self, system: System, rail: Rail) -> None:
        self._system = system
        self._rail = rail
        self._attributes = KeptFiles(system)
        self._kernel: Rtnetlink | None = None
        # address -> the files of its GID, with their contents
        self._gid_files: dict[str, dict[str, str | None]] = {}
        # (directory of counters, identity of the device) -> the names in it
        self._names: dict[str, tuple[int, tuple[str, ...]]] = {}

    def read(self) -> Observed | Unread:
        """Return the rail as observed, without LLDP neighbours. Never raises :class:`.RailyardError`."""
        try:
            self._kernel = self._kernel or Rtnetlink()
            return self._read(self._kernel)
        except RailyardError as error:
            self.close()
            return Unread("%s: %s" % (error.place, error.message), error.remedy or DMESG)

    def close(self) -> None:
        """Close files and the connection to the kernel. :meth:`read` opens them again."""
        self._attributes.close()
        if self._kernel:
            self._kernel.close()
            self._kernel = None

    def _read(self, kernel: Rtnetlink) -> Observed | Unread:
        rail, system = self._rail, self._system
        pci = rail.pci if not rail.functions else None
        if pci and not system.exists("%s/%s" % (pci_functions.DEVICES, pci)):
            return Observed(exists=False)
        netdevs = pci_functions.netdevs(system, pci) if pci else []
        name = rail.netdev or (netdevs[0] if netdevs else None)
        link = kernel.link(name) if name and (not pci or name in netdevs) else None
        bond_link = kernel.link(rail.bond) if rail.bond else None
        partners = self._partners(bond_link)
        functions = tuple([self._function(kernel, each.pci, each.netdev, partners) for each in rail.functions])
        planes = () if rail.bond else tuple([self._function(kernel, each.pci, each.netdev) for each in rail.planes])
        rdma, other = self._rdma(netdevs)
        if rail.movable and ((rail.netdev and link is None) or (rail.rdma and rdma is None and not rail.soft)):
            return Unread("a pod or another network namespace may hold the port", "delete the pod to check it", True)
        return Observed(
            interface=self._netdev(link) if link else None,
            other_name=netdevs[0] if netdevs and link is None else None,
            functions=functions,
            planes=planes,
            vlan=link_kinds.decode_vlan(link.data) if link and link.kind == link_kinds.VLAN else None,
            parent=link.below if link and link.below_namespace is None else None,
            parent_netdev=self._parent(kernel),
            bond=self._bond(bond_link),
            rdma=rdma,
            other_rdma=other,
            addresses=self._addresses(kernel, link),
        )

    # -- links --------------------------------------------------------------------------------------------------------

    def _function(
        self,
        kernel: Rtnetlink,
        pci: str | None,
        name: str | None,
        partners: t.Mapping[str, str | None] | None = None,
    ) -> Netdev | None:
        """Return the interface of a planned function."""
        if pci:
            netdevs = pci_functions.netdevs(self._system, pci)
            name = name if name in netdevs else (netdevs[0] if netdevs else None)
        link = kernel.link(name) if name else None
        return self._netdev(link, partners) if link else None

    def _netdev(self, link: Link, partners: t.Mapping[str, str | None] | None = None) -> Netdev:
        attributes, place = self._attributes, NET % link.name
        attributes.follow(place, link.ifindex)
        counters = {name: attributes.read_int("%s/statistics/%s" % (place, name)) for name in NETDEV_COUNTERS}
        counters["carrier_changes"] = attributes.read_int(place + "/carrier_changes")
        speed = attributes.read_int(place + "/speed") if link.carrier else None
        member = bond_messages.member(link.member) if partners is not None and link.member else {}
        return Netdev(
            name=link.name,
            ifindex=link.ifindex,
            up=link.up,
            carrier=link.carrier,
            mtu=link.mtu,
            kind=link.kind,
            master=link.master,
            # the kernel reports -1 for an unknown speed
            speed=speed / 1000.0 if speed and speed > 0 else None,
            counters={key: value for key, value in counters.items() if value is not None},
            link=member.get("link"),
            aggregator=member.get("aggregator"),
            partner=(partners or {}).get(link.name),
        )

    def _bond(self, link: Link | None) -> Bond | None:
        if link is None or link.kind != link_kinds.BOND:
            return None
        row = bond_messages.bond(link.data, {})
        return Bond(self._netdev(link), row["mode"], row["aggregator"], row["partner_mac"])

    def _partners(self, bond: Link | None) -> dict[str, str | None]:
        text = self._system.read("/proc/net/bonding/" + bond.name) if bond else None
        return bond_messages.partner_macs(text or "")

    def _parent(self, kernel: Rtnetlink) -> Netdev | None:
        rail = self._rail
        name = rail.bond or rail.parent or (rail.functions[0].netdev if rail.functions else None)
        link = kernel.link(name) if rail.vlan is not None and name else None
        return self._netdev(link) if link else None

    def _addresses(self, kernel: Rtnetlink, link: Link | None) -> frozenset[str]:
        if link is None or not self._rail.addresses:
            return frozenset()
        rows = kernel.addresses(index=link.ifindex)
        return frozenset(str(row.interface.ip) for row in rows)

    # -- RDMA ---------------------------------------------------------------------------------------------------------

    def _rdma(self, netdevs: t.Sequence[str]) -> tuple[RdmaDevice | None, str | None]:
        """Return the RDMA device, and the name of the function's device if it has another name than planned."""
        rail, system = self._rail, self._system
        own = pci_functions.rdma_devices(system, rail.pci) if rail.pci and not rail.soft else []
        name = rail.rdma or (own[0] if own else None)
        if name is None:
            return None, None
        place = DEVICE % name
        try:
            identity = os.stat(system.path(place + "/")).st_ino
        except OSError:
            return None, own[0] if own else None
        self._attributes.follow(place, identity)
        ports = {
            int(number): self._port("%s/ports/%s" % (place, number))
            for number in system.listdir(place + "/ports")
            if number.isdigit() and rail.uses_port(int(number))
        }
        names = ["%s/ports/%d/gid_attrs/ndevs/0" % (place, number) for number in ports]
        device = RdmaDevice(
            name,
            identity,
            pci_functions.of_rdma_device(system, name),
            ports,
            frozenset(filter(None, (self._attributes.read(each) for each in names))),
            self._gids(name),
        )
        return device, None

    def _port(self, place: str) -> RdmaPort:
        attributes = self._attributes
        # such as "4: ACTIVE", "5: LinkUp" and "400 Gb/sec (4X NDR)"
        state = attributes.read(place + "/state")
        if state is None:
            raise RailyardError("the state of the port cannot be read", place + "/state", DMESG)
        physical, rate = attributes.read(place + "/phys_state") or "", (attributes.read(place + "/rate") or "").split()
        counters: dict[str, int] = {}
        for directory in ("%s/counters" % place, "%s/hw_counters" % place):
            for name in self._counters(directory):
                value = attributes.read_int("%s/%s" % (directory, name))
                if value is not None:
                    counters[name] = value
        return RdmaPort(_after_colon(state), _after_colon(physical), _number(rate[0]) if rate else None, counters)

    def _counters(self, directory: str) -> tuple[str, ...]:
        """Return the names of the counters in a directory that thresholds have."""
        try:
            identity = os.stat(self._system.path(directory)).st_ino
        except OSError:
            return ()
        known = self._names.get(directory)
        if known is None or known[0] != identity:
            found = tuple([name for name in self._system.listdir(directory) if name in RDMA_COUNTERS])
            self._names[directory] = known = (identity, found)
        return known[1]

    def _gids(self, device: str) -> frozenset[str] | None:
        """Return the addresses with GIDs of RoCE v2; None if the plan has no address or no RoCE."""
        rail = self._rail
        if not rail.addresses or not rail.rdma or rail.link_layer != "ethernet" or rail.rdma_type == "siw":
            return None
        if set(self._gid_files) != set(rail.addresses) or not all(map(self._unchanged, self._gid_files.values())):
            self._find_gids(device)
        return frozenset(self._gid_files)

    def _find_gids(self, device: str) -> None:
        """Search the tables, which may have 1,024 entries, for the addresses of the plan."""
        missing, self._gid_files = set(self._rail.addresses), {}
        for row in gids.from_sysfs(self._system, device, GID_GAP):
            if row["address"] in missing and row["type"] == "RoCE v2":
                missing.discard(row["address"])
                port = "%s/ports/%d" % (DEVICE % device, row["port"])
                places = ("%s/gids/%d" % (port, row["index"]), "%s/gid_attrs/types/%d" % (port, row["index"]))
                self._gid_files[row["address"]] = {place: self._attributes.read(place) for place in places}
                if not missing:
                    break

    def _unchanged(self, files: t.Mapping[str, str | None]) -> bool:
        return all(self._attributes.read(place) == text for place, text in files.items())


def _after_colon(text: str) -> str:
    return text.partition(":")[2].strip() or text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
