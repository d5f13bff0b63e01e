# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports in options, by PCI address, netdev or both: read and check them, and find them on the node.

If both are given, the PCI address identifies the port, and netdev is its present or planned name. Features that run
after the ports have their names check that both agree (:func:`check_pair`).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    netdev_pci,
)

NETDEV = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}\Z")


class Port(t.Protocol):
    """The common attributes of ports of all features. ``place``: the place of its options, for errors."""

    @property
    def place(self) -> str: ...

    @property
    def pci(self) -> str | None: ...

    @property
    def netdev(self) -> str | None: ...


class PortReference(t.NamedTuple):
    """A checked port of options. An invalid name is None."""

    place: str
    pci: str | None
    netdev: str | None


def read(options: t.Mapping[str, t.Any], place: str, errors: list[RailyardError]) -> PortReference:
    """Read ``pci`` and ``netdev`` of the options of one port. Errors are added to ``errors``."""
    pci, netdev = options.get("pci") or None, options.get("netdev") or None
    if not pci and not netdev:
        errors.append(RailyardError("names neither pci nor netdev", place, "give one of them"))
    address = pci_functions.full_address(str(pci)) if pci else None
    if address and not pci_functions.is_pci_address(address):
        remedy = "write it as 'lspci -D' prints it, such as 0000:0b:00.0"
        errors.append(RailyardError("%r is not a PCI address" % pci, place + ".pci", remedy))
        address = None
    if netdev and not NETDEV.match(str(netdev)):
        remedy = "use at most 15 letters, digits, '-', '_' and '.'"
        errors.append(RailyardError("%r is not a valid netdev name" % netdev, place + ".netdev", remedy))
        netdev = None
    return PortReference(place, address, netdev)


def vf_range(options: t.Mapping[str, t.Any], place: str, errors: list[RailyardError]) -> range | None:
    """Read ``range`` of the options of one port, numbers of VFs; None without it. Errors are added to ``errors``."""
    text = options.get("range")
    numbers = vf_attributes.numbers(text, 0) if text else None
    if text and not numbers:
        message = "%r is not a range of VFs" % text
        errors.append(RailyardError(message, place + ".range", "write first-last from 0, such as 5-9"))
    return numbers


def refuse_duplicates(values: t.Iterable[tuple[t.Any, str]], what: str, errors: list[RailyardError]) -> None:
    """Add an error for each of the (value, place) whose value is a duplicate. None is ignored."""
    first: dict[t.Any, str] = {}
    for value, place in values:
        if value is None:
            continue
        if value in first:
            message = "%s %s is given already in %s" % (what, value, first[value])
            errors.append(RailyardError(message, place, "give each once"))
        first.setdefault(value, place)


def refuse_duplicate_ports(ports: t.Iterable[Port], errors: list[RailyardError]) -> None:
    """Add an error for each port whose PCI address or netdev is a duplicate."""
    ports = list(ports)
    refuse_duplicates(((port.pci, port.place + ".pci") for port in ports), "PCI address", errors)
    refuse_duplicates(((port.netdev, port.place + ".netdev") for port in ports), "netdev", errors)


def missing_function(function: str, place: str) -> RailyardError:
    return RailyardError("there is no PCI function %s" % function, place, "see 'lspci -D'")


def missing_netdev(netdev: str | None, place: str) -> RailyardError:
    remedy = "see 'ip link'; it may have another name, or be in another network namespace"
    return RailyardError("there is no netdev %s" % netdev, place, remedy)


def no_netdev_of(system: System, function: str, place: str) -> RailyardError:
    """Return the error for a PCI function without a netdev in this network namespace."""
    driver = system.link_name(pci_functions.attribute(function, "driver")) or "none"
    message = "%s has no netdev in this network namespace (driver: %s)" % (function, driver)
    return RailyardError(message, place, "load its driver, or end the pod or namespace that has its netdev")


def several_netdevs(function: str, netdevs: t.Iterable[str], place: str) -> RailyardError:
    return RailyardError("%s has several netdevs: %s" % (function, ", ".join(netdevs)), place, "give one as netdev")


def check_function(system: System, function: str, place: str) -> None:
    if not system.exists("%s/%s" % (pci_functions.DEVICES, function)):
        raise missing_function(function, place)


def check_netdev(system: System, netdev: str | None, place: str) -> None:
    if not _exists(system, netdev):
        raise missing_netdev(netdev, place)


def check_pair(system: System, port: Port) -> None:
    """Check that the port's netdev, if it exists, belongs to its PCI address. Raises :class:`RailyardError`."""
    if port.pci and _exists(system, port.netdev):
        behind = netdev_pci(system, str(port.netdev))
        if behind != port.pci:
            message = "netdev %s is %s, not %s" % (port.netdev, behind or "not a PCI function", port.pci)
            raise RailyardError(message, port.place, "correct one of the two, or leave netdev out")


def find_function(system: System, port: Port) -> str | None:
    """Return the port's PCI function; None for a netdev without one. Raises if the port does not exist."""
    if port.pci:
        check_function(system, port.pci, port.place + ".pci")
        return port.pci
    check_netdev(system, port.netdev, port.place + ".netdev")
    return netdev_pci(system, str(port.netdev))


def function_of(system: System, port: Port) -> str:
    """Return the port's PCI function. Raises if it has none."""
    function = find_function(system, port)
    if function is None:
        remedy = "see 'ip link', or give the port by pci"
        raise RailyardError("netdev %s is not a PCI function" % port.netdev, port.place + ".netdev", remedy)
    return function


def physical_function_of(system: System, port: Port) -> str:
    """Return the port's PCI function. Raises if it is a VF."""
    function = function_of(system, port)
    parent = pci_functions.physical_function(system, function)
    if parent:
        message = "%s is a VF of %s" % (port.netdev or function, parent)
        raise RailyardError(message, port.place, "name the PF, %s" % parent)
    return function


def find_netdev(system: System, port: Port) -> str | None:
    """Return the port's netdev; None if its PCI function has none here. Raises if the port does not exist."""
    find_function(system, port)
    if not port.pci:
        return port.netdev
    netdevs = pci_functions.netdevs(system, port.pci)
    if port.netdev in netdevs:
        return port.netdev
    if len(netdevs) > 1:
        raise several_netdevs(port.pci, netdevs, port.place + ".pci")
    return netdevs[0] if netdevs else None


def netdev_of(system: System, port: Port) -> str:
    """Return the port's netdev. Raises if it has none here."""
    netdev = find_netdev(system, port)
    if netdev is None:
        raise no_netdev_of(system, str(port.pci), port.place + ".pci")
    return netdev


def refusal(path: ManagementPath, place: str, netdev: str | None, function: str | None = None) -> list[Refused]:
    """Return the refusal of a port on the management path; empty for other ports."""
    why = path.why_netdev(netdev) if netdev else None
    text = "%s %s, and is not changed" % (netdev, why)
    if not why:
        why = path.why_function(function) if function else None
        text = "%s, and %s is not changed" % (why, function)
    return [Refused(text, place, "leave the ports of the management network out")] if why else []


def _exists(system: System, netdev: str | None) -> bool:
    return bool(netdev) and system.exists("/sys/class/net/%s" % netdev)
