# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interfaces above the ports of a node: bonds, VLANs, bridges, teams and VRFs, and what each is built on."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import bond_messages, link_kinds
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    made_by_rail_ports,
)

KINDS = (link_kinds.BOND, link_kinds.VLAN, "bridge", "team", "vrf")
Row = t.Dict[str, t.Any]


class Selection(t.NamedTuple):
    """The ports and interfaces that a call is restricted to: their netdevs and PCI functions."""

    netdevs: frozenset[str]
    functions: frozenset[str]


class Interfaces:
    """The interfaces of :data:`KINDS` that have a port of the node below them, at any depth.

    :param links: name -> interface, of this network namespace.
    :param ports: netdev -> PCI function, of the node's PFs.
    """

    def __init__(self, links: t.Mapping[str, Link], ports: t.Mapping[str, str]) -> None:
        self._links = links
        self._ports = ports
        self._names = {link.ifindex: name for name, link in links.items()}
        self.lower = self._above_ports()

    def _above_ports(self) -> dict[str, list[str]]:
        """Return the interfaces with those that each is directly built on. An interface follows those below it."""
        lower = {name: self._directly_below(link) for name, link in self._links.items() if link.kind in KINDS}
        found: dict[str, list[str]] = {}
        left = list(lower)
        while left:
            on_ports = [name for name in left if any(each in self._ports or each in found for each in lower[name])]
            if not on_ports:
                break
            found.update((name, lower[name]) for name in on_ports)
            left = [name for name in left if name not in found]
        return found

    def _directly_below(self, link: Link) -> list[str]:
        if link.kind == link_kinds.VLAN:
            parent = self._names.get(link.below or 0) if link.below_namespace is None else None
            return [parent] if parent else []
        return [name for name, each in self._links.items() if each.master == link.ifindex]

    def below(self, name: str) -> list[str]:
        """Return all netdevs that an interface is built on, nearest first."""
        found: list[str] = []
        queue = list(self.lower.get(name, ()))
        while queue:
            netdev = queue.pop(0)
            if netdev not in found:
                found.append(netdev)
                queue += self.lower.get(netdev, ())
        return found

    def functions(self, name: str) -> list[str]:
        """Return the PCI functions below an interface."""
        return list(dict.fromkeys(self._ports[each] for each in self.below(name) if each in self._ports))

    def master(self, link: Link | None) -> str | None:
        """Return the bond, bridge, team or VRF that an interface is part of."""
        return self._names.get(link.master or 0) if link else None

    def selection(self, netdevs: t.Iterable[str], functions: t.Iterable[str]) -> Selection:
        """Return these ports, what they are built on, and the interfaces above them."""
        functions = set(functions)
        named = {*netdevs, *(name for name, function in self._ports.items() if function in functions)}
        chosen = named | {each for name in named for each in self.below(name)}
        chosen |= {name for name in self.lower if named.intersection(self.below(name))}
        below = {function for name in named for function in self.functions(name)}
        return Selection(frozenset(chosen), frozenset(functions | below))

    def rows(self, system: System, management: ManagementPath, rdma_links: t.Iterable[Row]) -> list[Row]:
        """Return a row per interface, in the form of ``interfaces`` of rail_info.

        :param rdma_links: rows of :func:`.rdma_netlink.links`.
        """
        devices: dict[str, list[str]] = {}
        for each in rdma_links:
            devices.setdefault(each["netdev"] or "", []).append(each["device"])
        made = made_by_rail_ports(system)
        return [dict(self._row(system, name, management, devices), managed=name in made) for name in self.lower]

    def _row(
        self, system: System, name: str, management: ManagementPath, devices: t.Mapping[str, t.Sequence[str]]
    ) -> Row:
        link, functions = self._links[name], self.functions(name)
        hardware = [each for function in functions for each in pci_functions.rdma_devices(system, function)]
        # soft devices, and a device of hardware on another function than its netdev
        others = [each for netdev in (name, *self.below(name)) for each in devices.get(netdev, ())]
        why = [management.why_netdev(name), *map(management.why_card, functions)] if management.known else []
        return {
            "netdev": name,
            "kind": link.kind,
            "lower": self.lower[name],
            "functions": functions,
            "master": self.master(link),
            "vlan": link_kinds.decode_vlan(link.data) if link.kind == link_kinds.VLAN else None,
            "mac": hardware_address(link.address) if link.address else None,
            "mtu": link.mtu,
            "up": link.up,
            "operstate": link.operstate.lower(),
            "carrier": link.carrier,
            "rdma": list(dict.fromkeys([*hardware, *others])),
            "management_path": next(filter(None, why), None),
            "bond": self._bond(system, link) if link.kind == link_kinds.BOND else None,
        }

    def _bond(self, system: System, link: Link) -> Row:
        row = bond_messages.bond(link.data, self._names)
        partners: dict[str, str | None] = {}
        if row["mode"] == bond_messages.LACP:
            partners = bond_messages.partner_macs(system.read("/proc/net/bonding/" + link.name) or "")
        row["members"] = [
            dict(netdev=name, partner_mac=partners.get(name), **bond_messages.member(self._links[name].member))
            for name in self.lower[link.name]
        ]
        return row


def duplicates(asked: t.Mapping[str, t.Sequence[str]], macs: t.Mapping[str, str], seconds: float) -> list[Row]:
    """Return a row per address of this node for which another host, or another port of the node, answers.

    :param asked: IPv4 addresses by the netdev that has them.
    :param macs: the hardware address of each netdev of the node.
    :param seconds: how long to wait for answers, twice.
    :return: rows with ``netdev``, ``address``, ``macs`` (of other hosts) and ``own`` (of other ports of the node; only
        if there are any).
    """
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp

    own: arp.Answers = {}
    others = arp.ask(asked, seconds, set(macs.values()), own)
    # a NIC with VFs returns a probe to its own netdev, which has the address
    wrong = {key: [mac for mac in heard if mac != macs[key[0]]] for key, heard in own.items()}
    wrong = {key: heard for key, heard in wrong.items() if heard}
    rows = [(key, others.get(key, [])) for key in sorted({*others, *wrong})]
    return [
        {"netdev": key[0], "address": key[1], "macs": heard, **({"own": wrong[key]} if key in wrong else {})}
        for key, heard in rows
    ]
