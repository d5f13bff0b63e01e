# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the ports whose interface is a bond or a VLAN, and ports below other interfaces, which cannot be rail ports."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic, Row
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DISTANCES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import (
    BOND_MODES,
    HASH_POLICIES,
    LACP_RATES,
    Bond,
    Member,
    Vlan,
)

SOFT = ("rxe", "siw")


class Interfaces:
    """The interfaces of a node above its functions.

    :param functions: the functions by their keys.
    :param rows: ``interfaces`` of rail_info: each after those below it.
    :param devices: RDMA device -> its first port.
    """

    def __init__(self, functions: t.Mapping[str, Nic], rows: t.Iterable[Row], devices: t.Mapping[str, Row]) -> None:
        self.functions = {nic.netdev: nic for nic in functions.values() if nic.netdev}
        self._ports = dict(functions)
        self._devices = devices
        # interface -> the port that it belongs to; a VLAN is a port of its own until `ports` chooses
        self.by_netdev: dict[str, Nic] = dict(self.functions)
        self._vlans: dict[str, list[Nic]] = {}
        for row in rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        name, kind = str(row["netdev"]), row.get("kind")
        lower = [str(each) for each in row.get("lower") or ()]
        below = list({nic.key: nic for nic in map(self.by_netdev.get, lower) if nic}.values())
        if not below:
            return
        if kind == "vlan":
            self._add_vlan(row, below[0])
        elif kind in ("bond", "team") and not any(nic.vlan or nic.bond for nic in below):
            self._add_bond(row, below, [each for each in lower if each not in self.functions])
        else:
            for nic in below:
                nic.obstacle = "it is part of %s, a %s" % (name, kind)
            if len(below) == 1 and kind == "bridge":
                # the bridge has the addresses of the port
                self.by_netdev[name] = below[0]

    def _add_vlan(self, row: Row, base: Nic) -> None:
        name, number = str(row["netdev"]), row.get("vlan")
        own = replace(
            base,
            netdev=name,
            mtu=row.get("mtu"),
            carrier=row.get("carrier"),
            carries=base.carries or row.get("management_path"),
            vlan=Vlan(number, None if name == "%s.%s" % (base.netdev, number) else name),
            parent=base.netdev,
            managed=bool(row.get("managed")) and base.managed,
            addresses={},
            leased={},
            routes=[],
            routed=False,
            table=None,
            priority=None,
        )
        if base.vlan or number is None:
            own.obstacle = "%s is a VLAN of %s, which is a VLAN itself" % (name, base.netdev)
        self.by_netdev[name] = own
        self._vlans.setdefault(base.key, []).append(own)

    def _add_bond(self, row: Row, members: list[Nic], others: t.Sequence[str]) -> None:
        """Replace the members by one port."""
        name, own = str(row["netdev"]), row.get("bond") or {}
        members.sort(key=lambda nic: nic.key)
        first, mode = members[0], own.get("mode")
        obstacle = None
        if row.get("kind") == "team":
            obstacle = "%s is a team, and an interface of several ports must be a bond" % name
        elif mode not in BOND_MODES:
            obstacle = "%s has the mode %s, but RoCE over a bond needs %s" % (name, mode, " or ".join(BOND_MODES))
        elif others:
            obstacle = "%s has members that are not ports of a card: %s" % (name, ", ".join(others))
        elif len({nic.card for nic in members}) > 1:
            cards = " and ".join(nic.pci for nic in members)
            obstacle = "the members of %s belong to several cards (%s), and RoCE over a bond needs one" % (name, cards)
        device = next(iter(row.get("rdma") or ()), None)
        soft = (self._devices.get(device or "") or {}).get("type")
        port = replace(
            first,
            netdev=name,
            near=nearest(members),
            mtu=row.get("mtu"),
            carrier=row.get("carrier"),
            carries=row.get("management_path") or next((nic.carries for nic in members if nic.carries), None),
            rdma=device or first.rdma,
            soft=soft if soft in SOFT else None if device else first.soft,
            bond=_bond(name, own, members),
            members=tuple(members),
            managed=bool(row.get("managed")),
            obstacle=obstacle,
            vfs=[],
            addresses={},
            leased={},
            routes=[],
        )
        for nic in members:
            self._ports.pop(nic.key, None)
        self._ports[port.key] = self.by_netdev[name] = port

    def ports(self, node: str, findings: Findings) -> dict[str, Nic]:
        """Return the ports by their keys.

        A VLAN with addresses is the interface of a port without addresses. Further such VLANs are further ports.
        Call it after addresses and neighbours are set.
        """
        chosen = dict(self._ports)
        for key, vlans in self._vlans.items():
            base = chosen.get(key)
            addressed = sorted((nic for nic in vlans if nic.addresses or nic.leased), key=_vlan_number)
            if base is not None and addressed and not (base.addresses or base.leased):
                chosen[key] = addressed.pop(0)
            for nic in addressed:
                nic.key, nic.further, nic.vfs = "%s %s" % (nic.pci, nic.netdev), True, []
                chosen[nic.key] = nic
        for port in chosen.values():
            bond = port.parent or port.netdev
            if any(nic.vfs for nic in port.members) and not port.obstacle:
                port.obstacle = "members of %s have VFs, and RoCE over a bond does not work with them" % bond
            for nic in port.members:
                for own in nic.addresses.values():
                    message = "%s, a member of %s, has an address in %s" % (nic.netdev, bond, own.net)
                    findings.add("DS303", ("rails",), message, "remove it; only the bond has addresses", [node])
            functions = port.members or [self.functions.get(port.parent or "", port)]
            leaves = sorted({nic.leaf for nic in functions if nic.leaf})
            port.leaf = shown(" and ".join(leaves)) if leaves else None
        return dict(sorted(chosen.items()))


def _vlan_number(nic: Nic) -> int:
    return (nic.vlan.id if nic.vlan else None) or 0


def nearest(members: t.Iterable[Nic]) -> dict[int, str]:
    """Return GPU -> how near the nearest member is."""
    found: dict[int, str] = {}
    for nic in members:
        for gpu, how in nic.near.items():
            found[gpu] = min(
                found.get(gpu, how), how, key=lambda each: DISTANCES.index(each) if each in DISTANCES else 9
            )
    return found


def _bond(name: str, own: Row, members: t.Sequence[Nic]) -> Bond:
    """Return the settings of a bond that differ from the defaults, with its mode. Its primary is a PCI address."""
    hash_policy, rate = own.get("hash_policy"), own.get("lacp_rate")
    return Bond(
        name=name,
        mode=own.get("mode"),
        hash_policy=hash_policy if hash_policy != HASH_POLICIES[0] else None,
        lacp_rate=rate if rate != LACP_RATES[0] else None,
        primary=next((nic.pci for nic in members if own.get("primary") and nic.netdev == own["primary"]), None),
        min_links=own.get("min_links") or None,
        members=tuple([Member(pci=nic.pci) for nic in members]),
    )
