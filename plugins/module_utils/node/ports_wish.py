# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What is wanted of rail ports: read from a module's options, checked, and kept to know later what is ours."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils.node.branch import is_pci_address
from ansible_collections.railyard.fabric.plugins.module_utils.node.rtnetlink import (
    IP,
    RESERVED_TABLES,
    Interface,
    Network,
)
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

# Kept beside the files of whatever back-end there is, so that one reader knows what is ours under all of them.
RECORD = "/var/lib/railyard/rail_ports.json"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
SYSCTL = re.compile(r"[a-z0-9_]+\Z")
NAME_MAX = 15
# The kernel's own rules stand at 0, 32766 and 32767.
PRIORITIES = range(1, 32766)
MTU_LEAST = 68


class Port(t.NamedTuple):
    """One rail port as wanted. ``place`` is where its options stand; ``sysctl`` values are as procfs has them."""

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

    @property
    def source(self) -> Network | None:
        """The port's address as the selector of a rule."""
        return ipaddress.ip_network(self.address.ip) if self.address else None

    def as_options(self) -> dict[str, t.Any]:
        """The port in the shape of the module's option."""
        return {
            "rail": self.rail,
            "pci": self.pci,
            "netdev": self.netdev,
            "mtu": self.mtu,
            "address": str(self.address) if self.address else None,
            "gateway": str(self.gateway) if self.gateway else None,
            "table": self.table,
            "rule_priority": self.priority,
            "sysctl": {key: int(value) for key, value in self.sysctl.items()},
        }


def read_ports(options: t.Sequence[t.Mapping[str, t.Any]]) -> list[Port]:
    """Read and check the option ``ports``. Raises all that is wrong with it at once."""
    errors: list[RailyardError] = []
    ports = [read_port(option, "ports[%d]" % index, errors) for index, option in enumerate(options)]
    for attribute, name in (
        ("rail", "rail"),
        ("pci", "pci"),
        ("netdev", "netdev"),
        ("address", "address"),
        ("table", "table"),
        ("priority", "rule_priority"),
    ):
        first: dict[t.Any, Port] = {}
        for port in ports:
            value = getattr(port, attribute)
            value = value.ip if attribute == "address" and value else value
            if value is not None and first.setdefault(value, port) is not port:
                errors.append(
                    RailyardError(
                        "%s is that of %s (%s) too" % (value, first[value].place, first[value].rail),
                        "%s.%s" % (port.place, name),
                        "give each rail port its own",
                    )
                )
    raise_all(errors)
    return ports


def read_port(option: t.Mapping[str, t.Any], place: str, errors: list[RailyardError]) -> Port:
    """Read one entry; what is wrong is added to ``errors``, and left out of the result."""

    def wrong(key: str, message: str, remedy: str) -> None:
        errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))

    rail = str(option["rail"])
    if not NAME.match(rail):
        wrong("rail", "%r cannot be part of a file's name" % rail, "use letters, digits, '-', '_' and '.'")
    pci = option.get("pci")
    pci = pci.lower() if pci else None
    if pci and not is_pci_address(pci):
        wrong("pci", "%r is not a PCI address" % pci, "write it in full, such as 0000:0b:00.0")
        pci = None
    netdev = option.get("netdev") or None
    if netdev and (not NAME.match(netdev) or len(netdev) > NAME_MAX):
        wrong("netdev", "%r cannot be an interface's name" % netdev, "use at most %d letters and digits" % NAME_MAX)
        netdev = None
    if not option.get("pci") and not option.get("netdev"):
        wrong("pci", "neither pci nor netdev is given", "say by one of them which interface is the rail's port")
    mtu = option.get("mtu")
    if mtu is not None and mtu < MTU_LEAST:
        wrong("mtu", "%d bytes is less than IP needs (%d)" % (mtu, MTU_LEAST), "plan a larger MTU")
    address, gateway = _addresses(option, wrong)
    table, priority = option.get("table"), option.get("rule_priority")
    if table is not None and (table in RESERVED_TABLES or not 0 < table < 2**32):
        wrong("table", "%d is a table of the system's own" % table, "plan another number, such as 101")
        table = None
    if priority is not None and priority not in PRIORITIES:
        wrong("rule_priority", "%d is not between 1 and 32765" % priority, "plan a number in that range")
        priority = None
    if option.get("gateway") and option.get("table") is None:
        wrong(
            "gateway",
            "there is no table for the route to it",
            "plan a table: it never becomes a default of the main one",
        )
    if option.get("table") is not None and option.get("rule_priority") is None:
        wrong("rule_priority", "table %d has no rule that leads to it" % option["table"], "plan a rule_priority")
    sysctl = _sysctl(option.get("sysctl") or {}, wrong)
    return Port(place, rail, pci, netdev, mtu, address, gateway, table, priority, sysctl)


def _addresses(
    option: t.Mapping[str, t.Any], wrong: t.Callable[[str, str, str], None]
) -> tuple[Interface | None, IP | None]:
    address: Interface | None = None
    gateway: IP | None = None
    text = option.get("address")
    if text:
        try:
            address = ipaddress.ip_interface(text)
        except ValueError as error:
            wrong("address", str(error), "write it with its prefix length, such as 172.16.11.201/24")
    if address is not None:
        problem = _not_a_hosts(address, "/" in str(text))
        if problem:
            wrong("address", "%s %s" % (text, problem), "plan a host's address, with its prefix length")
            address = None
    text = option.get("gateway")
    if text:
        try:
            gateway = ipaddress.ip_address(text)
        except ValueError as error:
            wrong("gateway", str(error), "write an IP address without prefix length")
    if gateway is not None:
        if not option.get("address"):
            wrong("gateway", "the port has no address to use it with", "plan an address or no gateway")
        elif address is not None and (gateway not in address.network or gateway == address.ip):
            which = "is the port's own address" if gateway == address.ip else "is not in %s" % address.network
            wrong("gateway", "%s %s" % (gateway, which), "plan a gateway in the rail's subnet")
    return address, gateway


def _not_a_hosts(address: Interface, has_prefix: bool) -> str:
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


def _sysctl(values: t.Mapping[str, t.Any], wrong: t.Callable[[str, str, str], None]) -> dict[str, str]:
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
    """What earlier runs set: the ``ports`` in force, and ``former`` ones that a run was taking away.

    ``done`` is false from before the first of a run's changes until after its last: what is found so was interrupted.
    """

    ports: list[Port]
    former: list[Port]
    done: bool

    def text(self) -> str:
        held = {
            "ports": [port.as_options() for port in self.ports],
            "former": [port.as_options() for port in self.former],
            "done": self.done,
        }
        return json.dumps(held, indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls, system: System) -> Record:
        """The record of this node; an empty one where there is none, or it makes no sense."""
        text = system.read(RECORD)
        if text is None:
            return cls([], [], True)
        try:
            held = json.loads(text)
            errors: list[RailyardError] = []
            ports = [read_port(option, RECORD, errors) for option in held["ports"]]
            former = [read_port(option, RECORD, errors) for option in held["former"]]
            return cls(ports, former, bool(held["done"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls([], [], False)
