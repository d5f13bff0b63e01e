# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec of rail ports: read and checked from a module's options, and recorded for later runs."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import RouteSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IP,
    RESERVED_TABLES,
    TABLE_MAIN,
    Interface,
    Network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import lower_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import Lower, Part
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import RAIL_PORTS

# The record of the settings that Railyard made, in one format for all back-ends.
RECORD = RAIL_PORTS
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
SYSCTL = re.compile(r"[a-z0-9_]+\Z")
# The kernel's rules have the priorities 0, 32766 and 32767.
PRIORITIES = range(1, 32766)
MTU_LEAST = 68
# The least MTU of IPv6 (RFC 8200). With a smaller MTU the kernel removes IPv6 from the interface.
MTU_LEAST_6 = 1280

Wrong = t.Callable[[str, str, str], None]

ROUTE_SPEC = {
    "to": {"type": "str", "required": True},
    "via": {"type": "str"},
    "table": {"type": "int"},
}
PORT_SPEC = {
    "rail": {"type": "str", "required": True},
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "mtu": {"type": "int"},
    "address": {"type": "str"},
    "gateway": {"type": "str"},
    "address6": {"type": "str"},
    "gateway6": {"type": "str"},
    "table": {"type": "int"},
    "rule_priority": {"type": "int"},
    "routes": {"type": "list", "elements": "dict", "options": ROUTE_SPEC, "default": []},
    "sysctl": {"type": "dict", "default": {}},
    "lower": {"type": "dict", "options": lower_spec.LOWER_SPEC},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT_SPEC, "default": []},
    "backend": {
        "type": "str",
        "choices": ["auto", "networkd", "netplan", "networkmanager", "none"],
        "default": "auto",
    },
    "persist": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Side(t.NamedTuple):
    """The IPv4 or IPv6 settings of a port. ``key``: the option of its address."""

    key: str
    address: Interface
    gateway: IP | None

    @property
    def version(self) -> int:
        return int(self.address.version)

    @property
    def source(self) -> Network:
        """The address as the selector of a rule."""
        return ipaddress.ip_network(self.address.ip)


class Port(t.NamedTuple):
    """One desired rail port. ``place``: the place of its options. ``sysctl``: values in the format of procfs.

    ``lower``: the interfaces below; None for the interface of a function. ``part``: set by :mod:`.lower_parts`.
    """

    place: str
    rail: str
    pci: str | None
    netdev: str | None
    mtu: int | None
    address: Interface | None
    gateway: IP | None
    table: int | None
    priority: int | None
    sysctl: dict[str, str]
    address6: Interface | None = None
    gateway6: IP | None = None
    routes: tuple[RouteSpec, ...] = ()
    lower: Lower | None = None
    part: Part | None = None

    @property
    def label(self) -> str:
        """The rail for messages; for an interface that only serves rail ports, the first of their rails."""
        return (self.part.rail if self.part else "") or self.rail

    @property
    def sides(self) -> list[Side]:
        """The port's settings of IPv4 and IPv6, in this order, without versions that have no address."""
        found = [Side("address", self.address, self.gateway)] if self.address else []
        return found + ([Side("address6", self.address6, self.gateway6)] if self.address6 else [])

    def side(self, version: int) -> Side | None:
        """Return the port's settings of an IP version; None if it has no address of it."""
        return next((side for side in self.sides if side.version == version), None)

    def as_options(self) -> dict[str, t.Any]:
        """Return the port in the shape of the module's option; ``lower`` only if it has one."""
        options = {
            "rail": self.rail,
            "pci": self.pci,
            "netdev": self.netdev,
            "mtu": self.mtu,
            "address": str(self.address) if self.address else None,
            "gateway": str(self.gateway) if self.gateway else None,
            "address6": str(self.address6) if self.address6 else None,
            "gateway6": str(self.gateway6) if self.gateway6 else None,
            "table": self.table,
            "rule_priority": self.priority,
            "routes": [route.as_options() for route in self.routes],
            "sysctl": {key: int(value) for key, value in self.sysctl.items()},
        }
        return dict(options, lower=self.lower.as_options()) if self.lower else options


def read_ports(options: t.Sequence[t.Mapping[str, t.Any]]) -> list[Port]:
    """Read and check the option ``ports``. Raises all errors together."""
    errors: list[RailyardError] = []
    ports = [read_port(option, "ports[%d]" % index, errors) for index, option in enumerate(options)]
    for name in ("rail", "pci", "netdev", "address", "address6", "table", "rule_priority"):
        values = [getattr(port, "priority" if name == "rule_priority" else name) for port in ports]
        places = ["%s.%s" % (port.place, name) for port in ports]
        port_reference.refuse_duplicates(
            ((getattr(value, "ip", value), place) for value, place in zip(values, places)), name, errors
        )
    _check_main_routes(ports, errors)
    raise_all(errors)
    return ports


def _check_main_routes(ports: t.Sequence[Port], errors: list[RailyardError]) -> None:
    """Check that no two ports have a route to the same destination in the main table."""
    first: dict[Network, Port] = {}
    for port in ports:
        for number, route in enumerate(port.routes):
            if route.table is None and first.setdefault(route.to, port) is not port:
                message = "the main table's route to %s is that of %s (%s) too"
                errors.append(
                    RailyardError(
                        message % (route.to, first[route.to].place, first[route.to].rail),
                        "%s.routes[%d].to" % (port.place, number),
                        "plan it for one port, or in each rail's own table",
                    )
                )


def read_port(option: t.Mapping[str, t.Any], place: str, errors: list[RailyardError]) -> Port:
    """Read one entry. Errors are added to ``errors``, and invalid values left out of the result."""

    def wrong(key: str, message: str, remedy: str) -> None:
        errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))

    rail = str(option["rail"])
    if not NAME.match(rail):
        wrong("rail", "%r cannot be part of a file's name" % rail, "use letters, digits, '-', '_' and '.'")
    _place, pci, netdev = port_reference.read(option, place, errors)
    mtu = option.get("mtu")
    if mtu is not None and mtu < MTU_LEAST:
        wrong("mtu", "%d bytes is less than IP needs (%d)" % (mtu, MTU_LEAST), "plan a larger MTU")
    address, gateway = _addresses(option, "address", "gateway", wrong)
    address6, gateway6 = _addresses(option, "address6", "gateway6", wrong)
    if address6 is not None and address6.version == 4:
        wrong("address6", "%s is an IPv4 address" % address6, "write it as address")
        address6 = gateway6 = None
    if address is not None and address.version == 6 and option.get("address6"):
        wrong("address", "%s is an IPv6 address, and address6 is given too" % address, "write an IPv4 address")
        address = gateway = None
    if mtu is not None and mtu < MTU_LEAST_6 and 6 in [each.version for each in (address, address6) if each]:
        wrong("mtu", "%d bytes is less than IPv6 needs (%d)" % (mtu, MTU_LEAST_6), "plan a larger MTU")
    table, priority = option.get("table"), option.get("rule_priority")
    if table is not None and (table in RESERVED_TABLES or not 0 < table < 2**32):
        wrong("table", "%d is a table of the system's own" % table, "plan another number, such as 101")
        table = None
    if priority is not None and priority not in PRIORITIES:
        wrong("rule_priority", "%d is not between 1 and 32765" % priority, "plan a number in that range")
        priority = None
    for key in ("gateway", "gateway6"):
        if option.get(key) and option.get("table") is None:
            wrong(
                key,
                "there is no table for the route to it",
                "plan a table: it never becomes a default of the main one",
            )
    if option.get("table") is not None and option.get("rule_priority") is None:
        wrong("rule_priority", "table %d has no rule that leads to it" % option["table"], "plan a rule_priority")
    sysctl = _sysctl(option.get("sysctl") or {}, wrong)
    lower = None
    if option.get("lower"):
        lower = lower_spec.read(option["lower"], place + ".lower", netdev, errors)
        if pci:
            wrong("pci", "%s is given beside lower" % pci, "move it to lower.functions")
    port = Port(place, rail, pci, netdev, mtu, address, gateway, table, priority, sysctl, address6, gateway6)
    return port._replace(routes=_routes(option, port, wrong), lower=lower)


def _routes(option: t.Mapping[str, t.Any], port: Port, wrong: Wrong) -> tuple[RouteSpec, ...]:
    found: list[RouteSpec] = []
    for number, each in enumerate(option.get("routes") or []):
        place = "routes[%d]" % number
        route = _route(each, place, option, port, wrong)
        if route and (route.to, route.table) in [(other.to, other.table) for other in found]:
            wrong(place + ".to", "there is a route to %s in that table already" % route.to, "leave one of them out")
        elif route:
            found.append(route)
    return tuple(found)


def _addresses(
    option: t.Mapping[str, t.Any], key: str, gateway_key: str, wrong: Wrong
) -> tuple[Interface | None, IP | None]:
    address: Interface | None = None
    gateway: IP | None = None
    text = option.get(key)
    if text:
        try:
            address = ipaddress.ip_interface(text)
        except ValueError as error:
            wrong(key, str(error), "write it with its prefix length, such as 172.16.11.201/24")
    if address is not None:
        problem = _host_address_problem(address, "/" in str(text))
        if problem:
            wrong(key, "%s %s" % (text, problem), "plan a host's address, with its prefix length")
            address = None
    text = option.get(gateway_key)
    if text:
        try:
            gateway = ipaddress.ip_address(text)
        except ValueError as error:
            wrong(gateway_key, str(error), "write an IP address without prefix length")
    if gateway is not None and not option.get(key):
        wrong(gateway_key, "the port has no %s to use it with" % key, "plan an address or no gateway")
    elif gateway is not None and address is not None:
        problem = _next_hop_problem(gateway, address)
        if problem:
            wrong(gateway_key, "%s %s" % (gateway, problem), "plan a gateway in the rail's subnet")
    return address, gateway


def _next_hop_problem(via: IP, address: Interface) -> str:
    """Return why ``via`` cannot be a next hop of a port with this address; empty if it can."""
    if via == address.ip:
        return "is the port's own address"
    # a router's link-local address is reachable on every IPv6 link
    if via.version == 6 == address.version and via.is_link_local:
        return ""
    return "" if via in address.network else "is not in %s" % address.network


def _route(
    route: t.Mapping[str, t.Any], place: str, option: t.Mapping[str, t.Any], port: Port, wrong: Wrong
) -> RouteSpec | None:
    """Read one of a port's routes. Return None and add an error if it is invalid."""
    try:
        to: Network = ipaddress.ip_network(str(route.get("to")))
    except ValueError as error:
        wrong(place + ".to", str(error), "write a network with its prefix length, such as 172.16.0.0/16")
        return None
    try:
        via = ipaddress.ip_address(route["via"]) if route.get("via") else None
    except ValueError as error:
        wrong(place + ".via", str(error), "write an IP address without prefix length, or none")
        return None
    table = None if route.get("table") == TABLE_MAIN else route.get("table")
    side = port.side(to.version)
    if table is not None and table != option.get("table"):
        wrong(place + ".table", "%d is not the port's table" % table, "name the port's own table, or none for main")
    elif to.is_link_local or to.is_multicast or to.is_loopback:
        wrong(place + ".to", "%s is never routed" % to, "leave it out")
    elif table is None and not to.prefixlen:
        wrong(place + ".to", "a rail never gives the main table a default route", "plan a table for it")
    elif side is None:
        # an invalid address has been reported
        if not option.get("address6" if to.version == 6 else "address"):
            wrong(place + ".to", "the port has no IPv%d address" % to.version, "plan one, or no such route")
    elif not to.prefixlen and side.gateway:
        wrong(place + ".to", "the default route of table %s is the gateway's" % table, "plan one of the two")
    elif to == side.address.network:
        wrong(place + ".to", "%s is the port's own subnet" % to, "leave it out: it comes with the address")
    elif via is not None and via.version != to.version:
        wrong(place + ".via", "%s is not a next hop to %s" % (via, to), "write an IPv%d address" % to.version)
    elif via is not None and _next_hop_problem(via, side.address):
        wrong(place + ".via", "%s %s" % (via, _next_hop_problem(via, side.address)), "plan one in the rail's subnet")
    else:
        return RouteSpec(to, via, table)
    return None


def _host_address_problem(address: Interface, has_prefix: bool) -> str:
    ip, network = address.ip, address.network
    if not has_prefix:
        return "has no prefix length"
    if ip.is_multicast or ip.is_loopback or ip.is_unspecified:
        return "is not the address of a host"
    if network.prefixlen >= network.max_prefixlen - 1:
        return ""
    if ip == network.network_address:
        return "is the subnet itself"
    return "is the subnet's broadcast address" if ip.version == 4 and ip == network.broadcast_address else ""


def _sysctl(values: t.Mapping[str, t.Any], wrong: Wrong) -> dict[str, str]:
    read: dict[str, str] = {}
    for key, value in sorted(values.items()):
        if not SYSCTL.match(key):
            wrong("sysctl.%s" % key, "is not a setting of an interface", "name one of those under net.ipv4.conf.NETDEV")
            continue
        try:
            read[key] = str(int(value))
        except (TypeError, ValueError):
            wrong("sysctl.%s" % key, "%r is not a whole number" % (value,), "write a whole number")
    return read


class Record(t.NamedTuple):
    """The settings of earlier runs: the present ``ports``, and ``former`` ones that a run was removing.

    ``done`` is false from before a run's first change until after its last, so a record with false is of an interrupted
    run. ``made``: the names of the bonds and VLANs that Railyard made, and may remove.
    """

    ports: list[Port]
    former: list[Port]
    done: bool
    made: tuple[str, ...] = ()

    def text(self) -> str:
        document = {
            "ports": [port.as_options() for port in self.ports],
            "former": [port.as_options() for port in self.former],
            "done": self.done,
            **({"made": list(self.made)} if self.made else {}),
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls, system: System) -> Record:
        """Return the record of this node; an empty one if it does not exist or is invalid (``done`` is false then)."""
        text = system.read(RECORD)
        if text is None:
            return cls([], [], True)
        try:
            document = json.loads(text)
            errors: list[RailyardError] = []
            ports = [read_port(option, RECORD, errors) for option in document["ports"]]
            former = [read_port(option, RECORD, errors) for option in document["former"]]
            made = tuple(str(name) for name in document.get("made", ()))
            return cls(ports, former, bool(document["done"]), made)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls([], [], False)
