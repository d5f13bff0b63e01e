# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The management path: interfaces, cards and PCI functions that carry the connection or the default route.

Read from procfs and sysfs, so that a module without changes needs no netlink library. Sources: the kernel's
``/proc/net/route``, ``/proc/net/ipv6_route``, ``/proc/net/if_inet6``, SIOCGIFCONF (netdevice(7)), and the variable
``SSH_CONNECTION`` that sshd(8) sets for the session's first process.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import (
    REPRESENTOR,
    is_pci_address,
)

SIOCGIFCONF = 0x8912
IFREQ_SIZE = 40
RTF_UP = 0x1
RTF_REJECT = 0x200
RTF_ADDRCONF = 0x40000
DEFAULT = "carries the default route"
ADVERTISED = (
    DEFAULT + " (IPv6, advertised by a router there; if that is not the node's way out,"
    " set net.ipv6.conf.%s.accept_ra to 0 and delete the route)"
)
# The master of Open vSwitch's ports. Only its daemon knows which of them an interface of a bridge uses.
OVS = "ovs-system"


class ManagementPath:
    """``netdevs``: name -> reason; ``functions``: PCI address -> reason. A card: an address without function number."""

    def __init__(self, netdevs: t.Mapping[str, str], functions: t.Mapping[str, str]) -> None:
        self.netdevs = dict(netdevs)
        self.functions = dict(functions)

    @classmethod
    def observe(cls, system: System) -> ManagementPath:
        """Return the node's management path. Includes interfaces below a bond, bridge or VLAN, and PFs of VFs."""
        reasons: dict[str, str] = {}
        for name in default_route_netdevs(system):
            reasons.setdefault(name, DEFAULT)
        for name in reasons.keys() & _advertised(system):
            reasons[name] = ADVERTISED % name
        connection = connection_netdev(system)
        if connection:
            reasons[connection] = "carries this connection"
        netdevs: dict[str, str] = {}
        functions: dict[str, str] = {}
        for name, why in reasons.items():
            for netdev in [name] + lower_netdevs(system, name):
                below = why if netdev == name else "is part of %s, which %s" % (name, why)
                netdevs.setdefault(netdev, below)
                pci = netdev_pci(system, netdev)
                while pci:
                    functions.setdefault(pci, "%s %s" % (netdev, below))
                    pci = system.link_name("/sys/bus/pci/devices/%s/physfn" % pci)
        return cls(netdevs, functions)

    def why_netdev(self, netdev: str) -> str | None:
        """Return why this interface must not be changed; None if it may be."""
        return self.netdevs.get(netdev)

    def why_function(self, pci: str) -> str | None:
        """Return why this PCI function must not be changed; None if it may be."""
        return self.functions.get(pci)

    def why_card(self, pci: str) -> str | None:
        """Return why the card of this PCI function must not be changed; None if it may be."""
        for function, why in self.functions.items():
            if function.rpartition(".")[0] == pci.rpartition(".")[0]:
                return why
        return None


def netdev_pci(system: System, netdev: str) -> str | None:
    """Return the PCI address of a netdev, also if a virtio or other bus is between them; None without one."""
    device = "/sys/class/net/%s/device" % netdev
    if not system.exists(device):
        return None
    for part in reversed(system.real_path(device).split("/")):
        if is_pci_address(part):
            return part
    return None


def lower_netdevs(system: System, netdev: str) -> list[str]:
    """Return all interfaces that this one is built on, nearest first."""
    found: list[str] = []
    ports_added = False
    queue = [netdev]
    while queue:
        name = queue.pop(0)
        below = _below(system, name)
        if not below and not ports_added and _ovs_internal(system, name):
            ports_added = True
            ports = [each for each in _below(system, OVS) if each != name]
            labels = {each: system.read("/sys/class/net/%s/phys_port_name" % each) or "" for each in ports}
            below = [each for each in ports if not REPRESENTOR.match(labels[each])]
        for each in below:
            if each not in found and each != netdev:
                found.append(each)
                queue.append(each)
    return found


def _below(system: System, netdev: str) -> list[str]:
    entries = system.listdir("/sys/class/net/%s" % netdev)
    return [entry[len("lower_") :] for entry in entries if entry.startswith("lower_")]


def _ovs_internal(system: System, netdev: str) -> bool:
    """Return whether this may be the internal interface of an Open vSwitch bridge: it has no attribute of its own in
    sysfs, so every virtual interface of no other kind is one."""
    place = "/sys/class/net/%s/" % netdev
    others = any(system.exists(place + name) for name in ("device", "bridge", "bonding", "tun_flags"))
    return not others and system.read_int(place + "type") in (None, 1) and system.exists("/sys/class/net/" + OVS)


def default_route_netdevs(system: System) -> list[str]:
    """Return the interfaces with an IPv4 or IPv6 default route in the main table."""
    names = _ipv4_defaults(system)
    others = [name for name, _flags in _ipv6_defaults(system)]
    return names + (_in_main_table(others) if others and system.root == "/" else others)


def _ipv4_defaults(system: System) -> list[str]:
    names = []
    for line in (system.read("/proc/net/route") or "").splitlines()[1:]:
        index = line.split()
        if len(index) > 7 and index[1] == "00000000" and index[7] == "00000000" and not int(index[3], 16) & RTF_REJECT:
            names.append(index[0])
    return names


def _ipv6_defaults(system: System) -> list[tuple[str, int]]:
    """Return (interface, flags) of each IPv6 default route of all tables."""
    found = []
    for line in (system.read("/proc/net/ipv6_route") or "").splitlines():
        index = line.split()
        if len(index) > 9 and index[0] == "0" * 32 and index[1] == "00" and index[9] != "lo":
            flags = int(index[8], 16)
            if flags & RTF_UP and not flags & RTF_REJECT:
                found.append((index[9], flags))
    return found


def _advertised(system: System) -> set[str]:
    """Return the interfaces whose only default route is from a router advertisement.

    Leaves with unnumbered BGP send such advertisements, and a rail port accepts them until it is configured.
    """
    routes = _ipv6_defaults(system)
    other_default_routes = {name for name, flags in routes if not flags & RTF_ADDRCONF} | set(_ipv4_defaults(system))
    return {name for name, _flags in routes} - other_default_routes


def _in_main_table(netdevs: t.Sequence[str]) -> list[str]:
    """Return those with an IPv6 default route in the main table, because procfs lists the routes of all tables."""
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rtnetlink

    kernel = rtnetlink.Rtnetlink()
    carriers = {
        route.oif
        for route in kernel.routes(6)
        if route.table == rtnetlink.TABLE_MAIN and not route.destination.prefixlen
    }
    # a route with several next hops has interface 0 here; all interfaces are returned then
    names = {link.name for link in kernel.links() if 0 in carriers or link.ifindex in carriers}
    return [name for name in netdevs if name in names]


def connection_netdev(system: System) -> str | None:
    """Return the interface with the local address of this SSH session; None without a session."""
    local = _connection_end(system, 2)
    return _netdev_with_address(system, *local) if local else None


def connection_address(system: System) -> str | None:
    """Return the local address of this SSH session; None without a session."""
    local = _connection_end(system, 2)
    return socket.inet_ntop(*local) if local else None


def connection_peer(system: System) -> str | None:
    """Return the peer's address of this SSH session; None without a session."""
    peer = _connection_end(system, 0)
    return socket.inet_ntop(*peer) if peer else None


def _connection_end(system: System, index: int) -> tuple[int, bytes] | None:
    """Return (family, packed address) of one end of this SSH session: ``index`` 0 is the peer's, 2 the local one."""
    connection = os.environ.get("SSH_CONNECTION") or _ancestors_variable(system, "SSH_CONNECTION")
    fields = connection.split() if connection else []
    if len(fields) != 4:
        return None
    address = fields[index].partition("%")[0]
    if address.startswith("::ffff:") and "." in address:
        address = address[len("::ffff:") :]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return int(family), socket.inet_pton(family, address)
    except OSError:
        return None


def _netdev_with_address(system: System, family: int, packed: bytes) -> str | None:
    if family == socket.AF_INET6:
        for line in (system.read("/proc/net/if_inet6") or "").splitlines():
            index = line.split()
            if index[0] == packed.hex():
                return index[5]
        return None
    size = IFREQ_SIZE * 1024
    names = array.array("B", bytes(size))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address, _length = names.buffer_info()
        reply = fcntl.ioctl(sock.fileno(), SIOCGIFCONF, struct.pack("iP", size, address))
    used = struct.unpack("iP", reply)[0]
    data = names.tobytes()
    for start in range(0, used, IFREQ_SIZE):
        if data[start + 20 : start + 24] == packed:
            # the address of an alias (eth0:1) belongs to eth0
            return data[start : start + 16].partition(b"\0")[0].decode().partition(":")[0]
    return None


def _ancestors_variable(system: System, variable: str) -> str | None:
    """Return an environment variable of the nearest ancestor process that has it, because sudo removes it."""
    pid = os.getpid()
    prefix = variable.encode() + b"="
    for _generation in range(32):
        stat = system.read("/proc/%d/stat" % pid)
        if not stat:
            return None
        pid = int(stat.rpartition(")")[2].split()[1])
        if pid <= 0:
            return None
        try:
            environ = system.read_bytes("/proc/%d/environ" % pid) or b""
        except RailyardError:
            continue  # process 1 of a container or of a hardened kernel is not readable by root either
        for entry in environ.split(b"\0"):
            if entry.startswith(prefix):
                return entry[len(prefix) :].decode()
    return None
