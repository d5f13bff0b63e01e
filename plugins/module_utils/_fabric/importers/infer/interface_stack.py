# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of a rail port above its functions: a bond, a VLAN, or a VLAN on a bond."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Facts,
    HostInterface,
)

# Names that only bonds get from usual programs.
_BOND = re.compile(r"bond[-_]?[a-z0-9]*\Z")


class Stack(t.NamedTuple):
    """``port``: keys of the port in a profile. ``text``: the interface in words; empty if it is the function's own.

    ``unknown``: whether it is a bond without known members.
    """

    port: dict[str, t.Any]
    text: str = ""
    unknown: bool = False

    @property
    def written(self) -> str:
        keys = [key for key in ("bond", "vlan", "managed") if key in self.port]
        return ", ".join("%s: %s" % (key, str(self.port[key]).lower()) for key in keys if key != "bond") + (
            ", with its bond" if "bond" in self.port else ""
        )


def of_port(netdev: str, vlan: int | None, vlan_name: str | None, facts: Facts) -> Stack:
    """Return the port of a netdev.

    :param vlan: VLAN above the netdev that is the interface of the rail.
    :param vlan_name: the name of that interface, if it is not NETDEV.VLAN.
    """
    below = of_name(netdev, facts)
    port: dict[str, t.Any] = {"netdev": netdev}
    texts = []
    if vlan:
        port["vlan"] = {"id": vlan, "name": vlan_name} if vlan_name and vlan_name != "%s.%d" % (netdev, vlan) else vlan
        texts.append("the VLAN %d of %s" % (vlan, netdev))
    if below and below.members:
        del port["netdev"]
        members = [_member(name, facts) for name in below.members]
        port["bond"] = {"name": netdev, **below.bond, "members": members}
        texts.append("the bond %s of %s" % (netdev, " and ".join(below.members)))
    elif below and below.pci:
        port["pci"] = below.pci
    if below and below.rdma:
        port["rdma"] = below.rdma
    if texts:
        port["managed"] = False
    unknown = _BOND.match(netdev) is not None and "bond" not in port
    return Stack(port, " and ".join(texts), unknown)


def of_name(netdev: str, facts: Facts) -> HostInterface | None:
    """Return an interface by name, the most complete description of it first."""
    named = [each for each in facts.interfaces if each.name == netdev]
    return max(named, key=lambda each: (len(each.members), each.vlan or 0, bool(each.pci)), default=None)


def _member(netdev: str, facts: Facts) -> dict[str, t.Any]:
    function = of_name(netdev, facts)
    return {"netdev": netdev, **({"pci": function.pci} if function and function.pci else {})}


def resolve_masters(facts: Facts) -> None:
    """Replace VLANs that are masters of networks by the interface below and the VLAN."""
    for network in facts.networks:
        for at, master in enumerate(network.masters):
            above = of_name(master, facts)
            if above and above.vlan and above.parent:
                network.masters[at], network.vlan, network.vlan_name = above.parent, above.vlan, above.name
