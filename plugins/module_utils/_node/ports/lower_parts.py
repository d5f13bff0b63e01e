# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The functions and bonds below rail ports, as ports without addresses that are configured before the rail ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import (
    LOWER_PREFIX,
    Bond,
    Function,
    Part,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

# Returns the present netdev of a PCI function.
NetdevOf = t.Callable[[str], t.Optional[str]]


def parts(ports: t.Sequence[Port], netdev_of: NetdevOf) -> list[Port]:
    """Return the ports and the functions and bonds below them: functions, then bonds, then VLANs.

    Each interface has its :class:`Part`, and a lower interface an MTU that suffices for those above. Without ``lower``,
    the ports are returned unchanged.
    """
    if not any(port.lower for port in ports):
        return list(ports)
    below = _Below(netdev_of)
    for port in ports:
        below.add(port)
    found = [below.with_part(port) for port in ports] + below.derived(ports)
    # within one depth, functions and bonds that only serve rail ports come first
    return sorted(found, key=lambda port: (port.part.depth if port.part else 0, not port.rail.startswith(LOWER_PREFIX)))


def of_node(system: System, ports: t.Sequence[Port], observed: Seen) -> list[Port]:
    """Return :func:`parts` with the names that functions without a planned one have on this node."""

    def netdev_of(pci: str) -> str | None:
        return next((name for name in pci_functions.netdevs(system, pci) if observed.named(name)), None)

    return parts(ports, netdev_of)


class _Below:
    def __init__(self, netdev_of: NetdevOf) -> None:
        self._netdev_of = netdev_of
        self._functions: dict[str, Port] = {}
        self._rails: dict[str, str] = {}
        self._bonds: dict[str, tuple[Bond, Port, tuple[str, ...]]] = {}
        self._masters: dict[str, str] = {}
        self._vlans: dict[str, list[str]] = {}
        self._mtus: dict[str, int] = {}

    def add(self, port: Port) -> None:
        lower = port.lower
        if not lower:
            return
        names = [self._name(function) for function in lower.functions]
        for number, (name, function) in enumerate(zip(names, lower.functions)):
            place = "%s.lower.functions[%d]" % (port.place, number)
            self._functions.setdefault(name, _port(place, name, function.pci, function.netdev))
            self._rails.setdefault(name, port.rail)
        if lower.bond:
            self._bonds.setdefault(lower.bond.name, (lower.bond, port, tuple(names)))
            self._masters.update((name, lower.bond.name) for name in names)
        if lower.vlan is not None:
            self._vlans.setdefault(lower.bond.name if lower.bond else names[0], []).append(str(port.netdev))
        for name in names + ([lower.bond.name] if lower.bond else []):
            if port.mtu:
                self._mtus[name] = max(port.mtu, self._mtus.get(name, 0))

    def with_part(self, port: Port) -> Port:
        """Return a rail port with its part; the port itself if it neither uses another interface nor serves one."""
        lower = port.lower
        if not lower:
            name = self._name(Function(port.pci, port.netdev))
            return port._replace(part=Part(0, vlans=self._vlans_on(name))) if name in self._vlans else port
        if lower.vlan is None and lower.bond:
            return port._replace(part=self._bond_part(lower.bond.name), mtu=self._mtus.get(lower.bond.name))
        parent = lower.bond.name if lower.bond else self._name(lower.functions[0])
        return port._replace(part=Part(2, vlan=lower.vlan, parent=parent))

    def derived(self, ports: t.Sequence[Port]) -> list[Port]:
        """Return the functions and bonds that are not the interface of a rail port."""
        interfaces = {port.netdev for port in ports if port.lower}
        interfaces |= {self._name(Function(port.pci, port.netdev)) for port in ports if not port.lower}
        found = []
        for name, function in self._functions.items():
            master = self._masters.get(name)
            is_primary = master is not None and self._bond_part(master).primary == name
            part = Part(0, master=master, vlans=self._vlans_on(name), is_primary=is_primary, rail=self._rails[name])
            if name not in interfaces:
                found.append(function._replace(mtu=self._mtus.get(name), part=part))
        for name, (_bond, port, _members) in self._bonds.items():
            if name not in interfaces:
                bond = _port(port.place + ".lower.bond", name, None, name)
                found.append(
                    bond._replace(mtu=self._mtus.get(name), part=self._bond_part(name)._replace(rail=port.rail))
                )
        return found

    def _name(self, function: Function) -> str:
        return function.netdev or self._netdev_of(str(function.pci)) or str(function.pci)

    def _vlans_on(self, name: str) -> tuple[str, ...]:
        return tuple(self._vlans.get(name, ()))

    def _bond_part(self, name: str) -> Part:
        bond, port, members = self._bonds[name]
        functions = port.lower.functions if port.lower else ()
        if bond.primary:
            # a PCI address becomes the name
            primary = next(each for each, function in zip(members, functions) if bond.primary in (each, *function))
            bond = bond._replace(primary=primary)
        return Part(1, bond=bond, members=members, vlans=self._vlans_on(name))


def _port(place: str, name: str, pci: str | None, netdev: str | None) -> Port:
    return Port(place, LOWER_PREFIX + name, pci, netdev, None, None, None, None, None, {})


def check(ports: t.Sequence[Port]) -> None:
    """Check that no two ports contradict each other about an interface below them. Raises all errors together."""
    errors: list[RailyardError] = []
    if not any(port.lower for port in ports):
        return
    bonds: dict[str, Port] = {}
    uses: dict[str, tuple[str | None, Port]] = {}
    vlans: dict[tuple[str, int], Port] = {}
    for port in ports:
        lower = port.lower
        bond = lower.bond if lower else None
        if port.rail.startswith(LOWER_PREFIX):
            message = "a rail's name cannot begin with %s: files of interfaces below rail ports do" % LOWER_PREFIX
            errors.append(RailyardError(message, port.place + ".rail", "give the rail another name"))
        if lower and bond:
            first = bonds.setdefault(bond.name, port)
            if first.lower and (first.lower.bond, first.lower.functions) != (bond, lower.functions):
                message = "%s differs from the bond of that name in %s (%s)" % (bond.name, first.place, first.rail)
                errors.append(RailyardError(message, port.place + ".lower.bond", "describe it the same for all ports"))
        for number, function in enumerate(lower.functions if lower else [Function(port.pci, port.netdev)]):
            place = "%s.lower.functions[%d]" % (port.place, number) if lower else port.place
            for key in filter(None, function):
                other_bond, other = uses.setdefault(key, (bond.name if bond else None, port))
                if other_bond != (bond.name if bond else None):
                    message = "%s is a member of %s (%s), and a member cannot be used by another port"
                    where = (other_bond, other.rail) if other_bond else (bond.name if bond else "", port.rail)
                    errors.append(RailyardError(message % (key, *where), place, "give each function to one of them"))
                    break
        if lower and lower.vlan is not None:
            parent = bond.name if bond else lower.functions[0].key
            other = vlans.setdefault((parent, lower.vlan), port)
            if other is not port:
                message = "%s (%s) has the same VLAN %d of %s" % (other.place, other.rail, lower.vlan, parent)
                errors.append(RailyardError(message, port.place + ".lower.vlan", "give each rail its own VLAN"))
            errors += _mtu_errors(port, ports)
    for port in ports:
        if not port.lower and port.netdev in bonds:
            message = "%s is the bond of %s (%s)" % (port.netdev, bonds[port.netdev].place, bonds[port.netdev].rail)
            errors.append(RailyardError(message, port.place + ".netdev", "give this port the same lower.bond"))
    raise_all(errors)


def _mtu_errors(port: Port, ports: t.Sequence[Port]) -> t.Iterator[RailyardError]:
    """Yield the error of a VLAN with a larger MTU than its parent, if this is a rail port."""
    lower = port.lower
    for other in ports if lower else ():
        if other.lower:
            is_parent = other.lower.vlan is None and lower and other.netdev == lower.parent
        else:
            is_parent = bool(lower and not lower.bond and (other.pci or other.netdev) in lower.functions[0])
        if is_parent and port.mtu and other.mtu and port.mtu > other.mtu:
            message = "%d bytes is more than the %d of its parent %s (%s)"
            message %= (port.mtu, other.mtu, other.netdev or other.pci, other.rail)
            yield RailyardError(message, port.place + ".mtu", "plan at most the MTU of the parent")
