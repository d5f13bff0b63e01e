# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel in a directory: interfaces, addresses, routes and rules that answer to changes as Linux does."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rtnetlink as rt
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import (
    IFLA_BOND_AD_LACP_RATE,
    IFLA_BOND_MODE,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import (
    InterfaceRoute,
    RouteLookup,
)

IPV4 = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter", "promote_secondaries")
IPV6 = ("accept_ra", "autoconf", "disable_ipv6")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Kernel(RouteLookup):
    """``root`` is the node's filesystem; sysfs and procfs in it follow the interfaces."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.table: dict[int, rt.Link] = {}
        self.held_addresses: list[rt.Address] = []
        self.held_routes: list[rt.Route] = []
        self.held_rules: list[rt.Rule] = [
            rt.Rule(4, 0, None, "", 255, True),
            rt.Rule(4, 32766, None, "", 254, True),
        ]
        self.macs: dict[int, list[bytes]] = {}
        self._conf("all")
        self._conf("default")
        write(root / "proc/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n")

    def _conf(self, name: str, rename_from: str = "") -> None:
        for family, keys in (("ipv4", IPV4), ("ipv6", IPV6)):
            place = self.root / "proc/sys/net" / family / "conf"
            if rename_from:
                (place / rename_from).rename(place / name)
                continue
            for key in keys:
                write(place / name / key, "1" if key in ("accept_ra", "autoconf") else "0")

    def nic(self, name: str, pci: str | None = None, up: bool = False, max_mtu: int = 9216) -> int:
        index = max(self.table, default=1) + 1
        mac = bytes((2, 0, 0, 0, 0, index))
        self.table[index] = rt.Link(index, name, up, 1500, 68, max_mtu, mac, (), permanent=mac)
        self._conf(name)
        net = self.root / "sys/class/net"
        write(net / name / "carrier", "1")
        write(net / name / "type", "1")
        if pci:
            device = self.root / "sys/devices/pci0000:00" / pci
            (device / "net" / name).mkdir(parents=True)
            (net / name / "device").symlink_to(device)
            bus = self.root / "sys/bus/pci/devices"
            bus.mkdir(parents=True, exist_ok=True)
            (bus / pci).symlink_to(device)
        return index

    def default_route(self, name: str) -> None:
        with (self.root / "proc/net/route").open("a") as stream:
            stream.write("%s 00000000 0102A8C0 0003 0 0 0 00000000 0 0 0\n" % name)

    def sysctl(self, name: str, key: str, family: str = "ipv4") -> Path:
        return self.root / "proc/sys/net" / family / "conf" / name / key

    # -- reading

    def links(self) -> list[rt.Link]:
        return list(self.table.values())

    def addresses(self) -> list[rt.Address]:
        return list(self.held_addresses)

    def routes(self, version: int) -> list[rt.Route]:
        return [route for route in self.held_routes if route.destination.version == version]

    def interface_routes(self, version: int, longest: int = 128) -> list[InterfaceRoute]:
        return [
            InterfaceRoute(route.table, route.destination, frozenset((route.oif,)), route.protocol, route.gateway)
            for route in self.routes(version)
        ]

    def permanent_neighbours(self, index: int) -> list[rt.IP]:
        return []

    def rules(self, version: int) -> list[rt.Rule]:
        return sorted((rule for rule in self.held_rules if rule.version == version), key=lambda rule: rule.priority)

    def hardware_addresses(self, index: int) -> list[bytes]:
        return self.macs.get(index, [])

    # -- changing

    def set_link(
        self,
        index: int,
        mtu: int | None = None,
        name: str | None = None,
        up: bool | None = None,
        master: int | None = None,
        kind: bytes = b"",
        address: bytes | None = None,
    ) -> None:
        link = self.table[index]
        if mtu is not None:
            if link.kind == "vlan" and mtu > self.table[link.below or 0].mtu:
                raise NetlinkError(34)
            link = link._replace(mtu=mtu)
            for member in self.members(index):
                self.table[member.ifindex] = member._replace(mtu=mtu)
            for upper in [each for each in self.table.values() if each.below == index and each.mtu > mtu]:
                self.table[upper.ifindex] = upper._replace(mtu=mtu)
        if address is not None:
            link = link._replace(address=address)
        if kind:
            link = link._replace(data=self._changed_bond(link, kind))
        if master is not None:
            link = self._with_master(link, master)
        if up is False:
            self.held_routes = [route for route in self.held_routes if route.oif != index]
            link = link._replace(up=False)
        if up and not link.up:
            link = link._replace(up=True)
            for address in self.held_addresses:
                if address.ifindex == index and not address.flags & rt.IFA_F_NOPREFIXROUTE:
                    self._connected(address)
        if name is not None:
            if link.up or any(name in (other.name,) + other.altnames for other in self.table.values()):
                raise NetlinkError(16 if link.up else 17)
            self._rename(link.name, name)
            link = link._replace(name=name)
        self.table[index] = link

    def members(self, index: int) -> list[rt.Link]:
        return [link for link in self.table.values() if link.master == index]

    def _changed_bond(self, link: rt.Link, kind: bytes) -> bytes:
        """The attributes of a bond after a change. A mode needs a bond without members, and with LACP that is down."""
        data = codec.table(codec.table(codec.table(kind)[IFLA_LINKINFO])[IFLA_INFO_DATA])
        held = codec.table(link.data)
        if IFLA_BOND_MODE in data and (link.up or self.members(link.ifindex)):
            raise NetlinkError(16)
        if IFLA_BOND_AD_LACP_RATE in data and (link.up or {**held, **data}[IFLA_BOND_MODE] != b"\x04"):
            raise NetlinkError(16)
        return b"".join(codec.attribute(*each) for each in {**held, **data}.items())

    def _with_master(self, link: rt.Link, master: int) -> rt.Link:
        net = self.root / "sys/class/net"
        if link.master:
            (net / link.name / ("upper_" + self.table[link.master].name)).unlink()
            (net / self.table[link.master].name / ("lower_" + link.name)).unlink()
        if not master:
            # as it was before
            return link._replace(master=None, up=False, mtu=1500, address=link.permanent)
        if link.up or link.master:
            raise NetlinkError(1)
        bond = self.table[master]
        (net / link.name / ("upper_" + bond.name)).symlink_to("../" + bond.name)
        (net / bond.name / ("lower_" + link.name)).symlink_to("../" + link.name)
        return link._replace(master=master, up=True, mtu=bond.mtu, address=bond.address)

    def link(self, which: int | str, vfs: bool = False, namespace: int | None = None) -> rt.Link | None:
        return next((link for link in self.table.values() if which in (link.ifindex, link.name)), None)

    def new_link(
        self,
        kind: str | bytes,
        name: str,
        parent: int | None,
        namespace: int | None,
        mtu: int | None,
        address: bytes | None,
        index: int = 0,
    ) -> None:
        assert isinstance(kind, bytes)
        information = codec.table(codec.table(kind)[IFLA_LINKINFO])
        below = self.table[parent] if parent else None
        data, text = information[IFLA_INFO_DATA], codec.text(information[IFLA_INFO_KIND])
        twin = [each for each in self.table.values() if below and (each.below, each.data) == (parent, data)]
        if self.link(name) or twin:
            raise NetlinkError(17)
        mtu = mtu or (below.mtu if below else 1500)
        if below and mtu > below.mtu:
            raise NetlinkError(34)
        new = self.nic(name)
        self.table[new] = self.table[new]._replace(
            mtu=mtu, min_mtu=0, max_mtu=65535, kind=text, data=data, below=parent, permanent=b""
        )
        if address or below:
            self.table[new] = self.table[new]._replace(address=address or below.address)
        if below:
            place = self.root / "sys/class/net" / below.name / ("upper_" + name)
            place.symlink_to("../" + name)

    def delete_link(self, index: int, namespace: int | None = None) -> None:
        link = self.table.pop(index)
        for member in self.members(index):
            self.table[member.ifindex] = member._replace(master=None, up=False, mtu=1500, address=member.permanent)
        shutil.rmtree(self.root / "sys/class/net" / link.name)
        for place in (self.root / "sys/class/net").glob("*/*er_" + link.name):
            place.unlink()
        for family in ("ipv4", "ipv6"):
            shutil.rmtree(self.root / "proc/sys/net" / family / "conf" / link.name)
        self.held_addresses = [each for each in self.held_addresses if each.ifindex != index]
        self.held_routes = [each for each in self.held_routes if each.oif != index]

    def _rename(self, before: str, after: str) -> None:
        net = self.root / "sys/class/net"
        device = net / before / "device"
        if device.exists():
            (device / "net" / before).rename(device / "net" / after)
        (net / before).rename(net / after)
        self._conf(after, before)

    def delete_altname(self, index: int, name: str) -> None:
        link = self.table[index]
        self.table[index] = link._replace(altnames=tuple(each for each in link.altnames if each != name))

    def _connected(self, address: rt.Address) -> None:
        network = address.interface.network
        if address.interface.version == 4:
            route = rt.Route(254, network, address.ifindex, None, address.interface.ip, 0, 2, rt.SCOPE_LINK)
        else:
            route = rt.Route(254, network, address.ifindex, None, None, 256, 2, 0)
        self.held_routes.append(route)

    def add_address(self, index: int, interface: rt.Interface) -> None:
        if any((each.ifindex, each.interface) == (index, interface) for each in self.held_addresses):
            return
        first = not any(
            each.ifindex == index and each.interface.network == interface.network for each in self.held_addresses
        )
        address = rt.Address(index, interface, 0, 0 if first else rt.IFA_F_SECONDARY)
        self.held_addresses.append(address)
        if first and self.table[index].up:
            self._connected(address)

    def delete_address(self, index: int, interface: rt.Interface) -> None:
        gone = [each for each in self.held_addresses if (each.ifindex, each.interface) == (index, interface)]
        for address in list(gone):
            if not address.flags & rt.IFA_F_SECONDARY:
                network = interface.network
                gone += [
                    each
                    for each in self.held_addresses
                    if each.ifindex == index and each.flags & rt.IFA_F_SECONDARY and each.interface.network == network
                ]
                self.held_routes = [
                    route
                    for route in self.held_routes
                    if (route.table, route.destination, route.oif) != (254, network, index)
                ]
        self.held_addresses = [each for each in self.held_addresses if each not in gone]
        if not any(each.ifindex == index and each.interface.version == 4 for each in self.held_addresses):
            # with the last address goes all of IPv4 on the interface
            self.held_routes = [
                route for route in self.held_routes if route.oif != index or route.destination.version == 6
            ]

    def add_route(self, route: rt.Route) -> None:
        if not self.table[route.oif].up:
            raise NetlinkError(100)
        if route.source and not any(
            (each.ifindex, each.interface.ip) == (route.oif, route.source) for each in self.held_addresses
        ):
            raise NetlinkError(22)
        self.held_routes.append(route)

    def delete_route(self, route: rt.Route) -> None:
        self.held_routes.remove(route)

    def add_rule(self, rule: rt.Rule) -> None:
        self.held_rules.append(rule)

    def delete_rule(self, rule: rt.Rule) -> None:
        self.held_rules.remove(rule)

    # -- what tests compare

    def summary(self) -> dict[str, t.Any]:
        """All that a run may have changed, in no order."""
        return {
            "links": sorted((link.ifindex, link.name, link.up, link.mtu) for link in self.table.values()),
            "addresses": sorted((each.ifindex, str(each.interface)) for each in self.held_addresses),
            "routes": sorted(
                (each.table, str(each.destination), each.oif, str(each.gateway)) for each in self.held_routes
            ),
            "rules": sorted((each.priority, each.selector, each.table) for each in self.held_rules),
            "sysctl": {
                str(path.relative_to(self.root)): path.read_text()
                for path in sorted((self.root / "proc/sys/net").rglob("*"))
                if path.is_file()
            },
            "files": {
                str(path.relative_to(self.root)): path.read_text()
                for place in ("etc", "var")
                for path in sorted((self.root / place).rglob("*"))
                if path.is_file()
            },
        }


class Commands:
    """Programs that succeed; what was run is in ``ran``."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []

    def __call__(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        self.ran.append(list(argv))
        return CommandResult(0, "", "")


class Node:
    """A kernel with four rail ports (0000:0b:00.0...) and a management NIC; systemd has ``units`` active."""

    def __init__(self, root: Path, units: t.Sequence[str] = ("systemd-networkd",)) -> None:
        self.root = root
        self.kernel = Kernel(root)
        self.commands = Commands()
        self.system = System(str(root), self.commands)
        for unit in units:
            write(root / ("run/systemd/units/invocation:%s.service" % unit), "")
        self.management = self.kernel.nic("eth0", "0000:01:00.0", up=True)
        self.kernel.default_route("eth0")
        for number in range(1, 5):
            self.kernel.nic("enp%ds0" % (10 + number), "0000:%02x:00.0" % (10 + number))
