# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The management path: interfaces, cards and PCI functions by which the node is reached; never changed.

The kernel looks up the route of the session's answers as for a packet of the connection, with all rules, tables and
VRFs. Tunnels and interfaces on others are followed down to the ports. Interfaces with a default route belong to the
path too. The connection is that of the variable ``SSH_CONNECTION``, which sshd(8) sets for the session's first process.
"""

from __future__ import annotations

import ipaddress
import json
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import (
    InterfaceRoute,
    RouteLookup,
    acts_as_default,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IP,
    NARROW_SCOPES,
    PROTOCOL_RA,
    TABLE_LOCAL,
    TABLE_MAIN,
    Rtnetlink,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import (
    REPRESENTOR,
    is_pci_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import tunnels

CONNECTION = "carries this connection"
DEFAULT = "carries the default route"
ADVERTISED = (
    DEFAULT + " (IPv6, advertised by a router there; if that is not the node's way out,"
    " set net.ipv6.conf.%s.accept_ra to 0 and delete the route)"
)
UNKNOWN = (
    "the interface by which this node is reached is not known: the session has no SSH connection from another host, and"
    " the node has no default route"
)
# The master of Open vSwitch's ports. Only its daemon knows which of them an interface of a bridge uses.
OVS = "ovs-system"
# Interfaces that carry no packets out of the node by themselves.
PORTLESS = frozenset(("dummy", "bridge", "bond", "team", "vrf", "ifb"))
# The table of each IP version that the kernel's last rule selects.
TABLE_DEFAULT = 253
IFLA_VRF_TABLE = 1
# The record of rail_ports, whose tables are those of rails.
RAIL_PORTS = "/var/lib/railyard/rail_ports.json"


class Connection(t.NamedTuple):
    """The ends of this SSH session. ``zone``: the interface of link-local addresses, or empty. ``ports``: the local and
    the peer's TCP port, if both are known. ``local``: None if only the peer is known."""

    peer: IP
    local: IP | None
    zone: str
    ports: tuple[int, int] | None


class ManagementPath:
    """``netdevs``: name -> reason; ``functions``: PCI address -> reason.

    ``connection``: the interface with the local address of this SSH session; ``default_routes``: the interfaces with a
    default route in the main table. ``known``: whether a connection, a default route or the user names an interface.
    """

    def __init__(
        self,
        netdevs: t.Mapping[str, str],
        functions: t.Mapping[str, str],
        connection: str | None = None,
        default_routes: t.Sequence[str] = (),
        known: bool = True,
    ) -> None:
        self.netdevs = dict(netdevs)
        self.functions = dict(functions)
        self.connection = connection
        self.default_routes = list(default_routes)
        self.known = known

    @classmethod
    def observe(cls, system: System, kernel: RouteLookup | None = None) -> ManagementPath:
        """Return the node's management path. Includes interfaces below a bond, bridge or VLAN, and PFs of VFs.

        :param kernel: another source of the kernel's tables, for tests.
        :raises NetlinkError: if the kernel refuses a request.
        """
        tables = kernel or RouteLookup()
        try:
            return _Search(system, tables).path()
        finally:
            tables.close()

    def check_known(self) -> None:
        """Raise :class:`Refused` if it is not known by which interface the node is reached."""
        if not self.known:
            raise Refused(
                UNKNOWN,
                "management path",
                "set preflight_management_interfaces (option management_interfaces) to its interfaces",
            )

    def why_netdev(self, netdev: str) -> str | None:
        """Return why this interface must not be changed; None if it may be. Raises as :meth:`check_known`."""
        self.check_known()
        return self.netdevs.get(netdev)

    def why_function(self, pci: str) -> str | None:
        """Return why this PCI function must not be changed; None if it may be. Raises as :meth:`check_known`."""
        self.check_known()
        return self.functions.get(pci)

    def why_card(self, pci: str) -> str | None:
        """Return why the card of this PCI function must not be changed; None if it may be. Raises as
        :meth:`check_known`."""
        self.check_known()
        for function, why in self.functions.items():
            if function.rpartition(".")[0] == pci.rpartition(".")[0]:
                return why
        return None


def tunnels_over(system: System, kernel: RouteLookup) -> dict[str, list[str]]:
    """Return the names of the tunnels whose packets leave by each interface, by its name. Raises
    :class:`NetlinkError`."""
    search = _Search(system, kernel)
    found: dict[str, list[str]] = {}
    for link in search.links.values():
        for name in search.carriers(link) if link.kind in tunnels.TUNNELS else ():
            found.setdefault(name, []).append(link.name)
    return found


class _Search:
    """The search for the management path in one state of the kernel's tables."""

    def __init__(self, system: System, kernel: RouteLookup) -> None:
        self._system = system
        self._kernel = kernel
        self.links = {link.ifindex: link for link in kernel.links()}
        self._by_name = {link.name: link for link in self.links.values()}
        self._addresses = kernel.addresses()
        self._netdevs: dict[str, str] = {}
        # whether the path of the connection was followed to a port
        self._found_port = False

    def path(self) -> ManagementPath:
        session = connection(self._system)
        local = self._names(self._with_address(session.local)) if session else []
        # of a link-local address, only the interface of its zone
        local = [name for name in local if not session or session.zone in ("", name)]
        answers = self._answers_of(session, local) if session else []
        for name in [*local, *answers]:
            self._add(name, CONNECTION)
        # a session that another program on this node relays does not show by which interface it arrived
        followed = bool(answers) and self._found_port
        main: list[str] = []
        for name, why, table in self._default_routes(followed):
            self._add(name, why)
            main += [name] if table == TABLE_MAIN and name not in main else []
        named = self._system.management_interfaces
        for name in named or ():
            if name not in self._by_name:
                remedy = "see 'ip link', and correct preflight_management_interfaces"
                message = "there is no interface %s" % (name or "with an empty name")
                raise Refused(message, "management path", remedy)
            self._add(name, "is named as a management interface")
        functions: dict[str, str] = {}
        for netdev, why in self._netdevs.items():
            pci = netdev_pci(self._system, netdev)
            while pci:
                functions.setdefault(pci, "%s %s" % (netdev, why))
                pci = self._system.link_name("/sys/bus/pci/devices/%s/physfn" % pci)
        # None: at boot, when there is no session
        known = self._found_port or named is None
        return ManagementPath(self._netdevs, functions, next(iter(local), None), main, known)

    # -- the connection ----------------------------------------------------------------------------------------------

    def _answers_of(self, session: Connection, local: t.Sequence[str]) -> list[str]:
        """Return the interfaces by which the answers of the session leave; none if its peer is the node itself.

        :param local: the interfaces with its local address.
        """
        bound = {self._by_name[session.zone].ifindex} if session.zone in self._by_name else set()
        bound |= {index for name in local for index in self._domains(name)}
        out: set[int] = set()
        for oif in sorted(bound) or [0]:
            found = self._kernel.interfaces_to(session.peer, session.local, oif, ports=session.ports)
            # the local address may be that of a device in front of the node
            out |= found or self._kernel.interfaces_to(session.peer, None, oif, ports=session.ports)
        return [name for name in self._names(sorted(out)) if name != "lo"]

    def _names(self, indices: t.Iterable[int]) -> list[str]:
        """Return the names of interfaces, each once, without those that this namespace does not have."""
        return [self.links[index].name for index in dict.fromkeys(indices) if index in self.links]

    def _with_address(self, address: IP | None) -> list[int]:
        """Return the indices of the interfaces with an address."""
        return [each.ifindex for each in self._addresses if each.interface.ip == address]

    def _domains(self, netdev: str) -> list[int]:
        """Return the index of the VRF that an interface is or belongs to; empty without one."""
        link = self._by_name.get(netdev)
        candidates = [link, self.links.get(link.master or 0)] if link else []
        return [each.ifindex for each in candidates if each and each.kind == "vrf"]

    # -- default routes ----------------------------------------------------------------------------------------------

    def _default_routes(self, followed: bool) -> t.Iterator[tuple[str, str, int]]:
        """Yield interface, reason and table of each interface with a default route.

        Tables that a rule selects only for a source or an interface, and tables of VRFs, count only if the path of the
        connection was not followed to a port. Otherwise the kernel has looked up its route with these rules.
        """
        ours = _rail_tables(self._system)
        for version in (4, 6):
            tables = {TABLE_MAIN: "", TABLE_DEFAULT: ""}
            for rule in self._kernel.rules(version):
                if rule.restricted and (followed or rule.table in ours):
                    continue
                why = " of table %d, which the rule with priority %d selects" % (rule.table, rule.priority)
                tables.setdefault(rule.table, why)
            for link in self.links.values() if not followed else ():
                number = codec.table(link.data).get(IFLA_VRF_TABLE) if link.kind == "vrf" else None
                if number:
                    tables.setdefault(codec.number(number), " of %s" % link.name)
            tables.pop(TABLE_LOCAL, None)
            by_interface: dict[tuple[int, int], list[InterfaceRoute]] = {}
            for route in self._kernel.wide_routes(version):
                for index in route.interfaces if route.table in tables else ():
                    by_interface.setdefault((route.table, index), []).append(route)
            for (table, index), routes in by_interface.items():
                name = self.links[index].name if index in self.links else "lo"
                if name != "lo" and acts_as_default(route.destination for route in routes):
                    yield name, self._why_default(name, routes, tables[table], version), table

    def _why_default(self, name: str, routes: t.Sequence[InterfaceRoute], why: str, version: int) -> str:
        parts = [str(route.destination) for route in routes if route.destination.prefixlen]
        whole = [route for route in routes if not route.destination.prefixlen]
        if version == 6 and not parts and all(route.protocol == PROTOCOL_RA for route in whole):
            return ADVERTISED % name
        return DEFAULT + why + ("" if whole else " (%s)" % ", ".join(parts))

    # -- from an interface to the ports that carry its packets -------------------------------------------------------

    def _add(self, netdev: str, why: str) -> None:
        """Add an interface and all interfaces that its packets pass. Each is added once, so a loop ends."""
        queue = [(netdev, why)]
        while queue:
            name, reason = queue.pop(0)
            if name == "lo" or name in self._netdevs:
                continue
            self._netdevs[name] = reason
            link = self._by_name.get(name)
            below = lower_netdevs(self._system, name)
            peer = self.links.get(link.below or 0) if link and link.below_namespace is None else None
            # of a veth, the bridge that its other end is a port of
            master = self.links.get(peer.master or 0) if peer and link and link.kind == "veth" else None
            below += [each.name for each in (peer, master) if each]
            queue += [(each, "is part of %s, which %s" % (name, reason)) for each in below]
            if link and link.kind in tunnels.TUNNELS:
                queue += [(each, "carries the tunnel %s, which %s" % (name, reason)) for each in self.carriers(link)]
            elif link is None or link.kind in (None, "veth") or (not below and link.kind not in PORTLESS):
                self._found_port = True

    def carriers(self, link: Link) -> list[str]:
        """Return the interfaces by which the packets of a tunnel leave."""
        ends = tunnels.wireguard_ends(link.ifindex) if link.kind == tunnels.WIREGUARD else tunnels.ends(link)
        if link.kind == "vxlan":
            first = ends[0]
            ends = ends + [first._replace(remote=each) for each in self._kernel.forwarding_remotes(link.ifindex)]
        found: list[int] = []
        for end in dict.fromkeys(ends):
            found += [*self._with_address(end.local), end.interface]
            if end.remote:
                found += sorted(self._kernel.interfaces_to(end.remote, end.local, end.interface, end.mark))
        return self._names(found)


def _rail_tables(system: System) -> set[int]:
    """Return the routing tables that rail_ports has recorded as those of rails."""
    record = recorded(system)
    try:
        ports = record.get("ports", []) + record.get("former", [])
        return {int(port["table"]) for port in ports if port.get("table")}
    except (ValueError, TypeError, AttributeError):
        return set()


def made_by_rail_ports(system: System) -> t.Sequence[str]:
    """Return the names of the bonds and VLANs that rail_ports has recorded as made by it."""
    made = recorded(system).get("made")
    return made if isinstance(made, list) else []


def recorded(system: System) -> dict[str, t.Any]:
    """Return the record of rail_ports; empty without a valid one. rail_ports itself reports a damaged record."""
    try:
        record = json.loads(system.read(RAIL_PORTS) or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


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
        below = directly_below(system, name)
        if not below and not ports_added and _ovs_internal(system, name):
            ports_added = True
            ports = [each for each in directly_below(system, OVS) if each != name]
            labels = {each: system.read("/sys/class/net/%s/phys_port_name" % each) or "" for each in ports}
            below = [each for each in ports if not REPRESENTOR.match(labels[each])]
        for each in below:
            if each not in found and each != netdev:
                found.append(each)
                queue.append(each)
    return found


def directly_below(system: System, netdev: str) -> list[str]:
    """Return the interfaces that this one is directly built on, such as the members of a bond."""
    entries = system.listdir("/sys/class/net/%s" % netdev)
    return [entry[len("lower_") :] for entry in entries if entry.startswith("lower_")]


def _ovs_internal(system: System, netdev: str) -> bool:
    """Return whether this may be the internal interface of an Open vSwitch bridge: it has no attribute of its own in
    sysfs, so every virtual interface of no other kind is one."""
    place = "/sys/class/net/%s/" % netdev
    others = any(system.exists(place + name) for name in ("device", "bridge", "bonding", "tun_flags"))
    return not others and system.read_int(place + "type") in (None, 1) and system.exists("/sys/class/net/" + OVS)


def connection(system: System) -> Connection | None:
    """Return this SSH session; None without one. Sources: sshd(8), sudo(8), which removes the variable."""
    for variable in ("SSH_CONNECTION", "SSH_CLIENT"):
        fields = (os.environ.get(variable) or _ancestors_variable(system, variable) or "").split()
        if len(fields) < 3:
            continue
        peer = _address(fields[0])
        local = _address(fields[2]) if len(fields) == 4 else None
        if peer and (local or variable == "SSH_CLIENT"):
            zone = next((each.partition("%")[2] for each in (fields[2], fields[0]) if "%" in each), "")
            ports = (fields[-1], fields[1])
            numbers = (int(ports[0]), int(ports[1])) if all(each.isdigit() for each in ports) else None
            return Connection(peer, local, zone, numbers)
    return None


def addresses(system: System, path: ManagementPath, table: t.Callable[[], Rtnetlink] | None = None) -> list[str]:
    """Return the node's address of this session, and then those of the interfaces with the default route.

    :param table: opens the kernel's tables.
    """
    session = connection(system)
    own = str(session.local) if session and session.local else ""
    # an address that no interface has belongs to a device in front of the node
    found = [own] if own and path.connection and not own.startswith("fe80") else []
    if path.default_routes:
        with (table or Rtnetlink)() as kernel:
            places = {
                link.ifindex: path.default_routes.index(link.name)
                for link in kernel.links()
                if link.name in path.default_routes
            }
            rows = [row for row in kernel.addresses() if row.ifindex in places and row.scope not in NARROW_SCOPES]
        rows.sort(key=lambda row: (row.interface.version, places[row.ifindex]))
        found += [str(row.interface.ip) for row in rows]
    return list(dict.fromkeys(found))


def _address(text: str) -> IP | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if address.version == 6 else address


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
