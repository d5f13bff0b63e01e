# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel in a directory: interfaces, addresses, routes and rules that answer to changes as Linux does."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rtnetlink as rt
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
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
        index = len(self.table) + 2
        mac = bytes((2, 0, 0, 0, 0, index))
        self.table[index] = rt.Link(index, name, up, 1500, 68, max_mtu, mac, ())
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

    def set_link(self, index: int, mtu: int | None = None, name: str | None = None, up: bool | None = None) -> None:
        link = self.table[index]
        if mtu is not None:
            link = link._replace(mtu=mtu)
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
