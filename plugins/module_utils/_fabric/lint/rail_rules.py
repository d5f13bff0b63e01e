# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY4xx: rails, profiles, ports and nodes, and references between them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Report,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.hosts.interface_rules import shares_netdev
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Node,
    Port,
    Profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

_GOOD_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02, gpu: 1}
"""

_GOOD_NODES = """
nodes:
  ai-[1:2]: {profile: hgx}
"""

NETDEV_TWICE = rule(
    "RY404 duplicate-netdev: Two ports with the same netdev",
    example_file.ports("gpu01: {netdev: enp11s0f0np0}", "gpu02: {netdev: enp11s0f0np0}"),
    _GOOD_PORTS,
)

PCI_TWICE = rule(
    "RY405 duplicate-pci-address: Two ports with the same PCI address",
    example_file.ports('gpu01: {netdev: nic1, pci: "0000:0b:00.0"}', 'gpu02: {netdev: nic2, pci: "0b:00.0"}'),
    _GOOD_PORTS,
)

RDMA_TWICE = rule(
    "RY406 duplicate-rdma-device: Two ports with the same RDMA device",
    example_file.ports("gpu01: {netdev: nic1, rdma: mlx5_gpu01}", "gpu02: {netdev: nic2, rdma: mlx5_gpu01}"),
    _GOOD_PORTS,
)

# Value of a port -> the key of the file, and the finding about a second port with this value.
_SHARED_OWNERS = (
    ("interface", "netdev", NETDEV_TWICE),
    ("pci", "pci", PCI_TWICE),
    ("rdma", "rdma", RDMA_TWICE),
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    rails = {rail.name: rail.base for rail in fabric.rails}
    bases = {rail.name: "%s %d" % (rail.base, rail.nic) for rail in fabric.rails}
    if any(report.has(rail.path) or report.has(rail.path + ("planes",)) for rail in fabric.rails):
        rails = {}  # references to unreadable rails are not checked
    owners: dict[str, list[Node]] = {}
    for node in fabric.nodes:
        if node.profile is not None:
            owners.setdefault(node.profile, []).append(node)
    _known_profiles(fabric, owners, report)
    for profile in fabric.profiles.values():
        _known_rails(profile.ports, rails, report)
        _duplicates(profile.ports, bases, report)
        _unserved(fabric, profile, owners.get(profile.name, []), report)
    for group in fabric.groups.values():
        _known_rails(group.ports, rails, report)
    for variant in variants:
        if any(group.ports for group in variant.groups):
            _duplicates(variant.ports, bases, report)
        for node in variants.nodes_of(variant):
            if node.ports:
                _overrides(node, variant, rails, report)
                _duplicates(ports_of(node, variant), bases, report)
    _groups(fabric, report)
    _empty(fabric, variants, report)
    _indexes(fabric.nodes, report)


PROFILE_UNKNOWN = rule(
    "RY401 undefined-profile: Undefined profile",
    """
nodes:
  ai-[1:2]: {profile: hgx-h100}
""",
    _GOOD_NODES,
)

PROFILE_UNUSED = rule(
    "RY413 unused-profile: Profile without nodes",
    _GOOD_PORTS + "  spare:\n    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n",
    _GOOD_PORTS,
    WARNING,
)


def _known_profiles(fabric: Fabric, owners: t.Mapping[str, t.Sequence[Node]], report: Report) -> None:
    """Report undefined and unused profiles. ``owners``: profile -> its nodes."""
    known = fabric.profiles
    for name, nodes in owners.items():
        if name in known or not known or report.has(("profiles", name)):
            continue
        near = nearest(name, known)
        more = " for %d nodes" % len(nodes) if len(nodes) > 1 else ""
        message = "undefined profile %s%s%s" % (shown(name), more, did_you_mean(near))
        remedy = "write %s" % near if near else "define it, or write one of %s" % ", ".join(known)
        report.add(PROFILE_UNKNOWN, nodes[0].path + ("profile",), message, remedy)
    for name, profile in known.items():
        if fabric.nodes and name not in owners and not report.within(("nodes",)):
            report.add(PROFILE_UNUSED, profile.path, "no node has the profile %s" % shown(name), "remove it")


RAIL_UNKNOWN = rule(
    "RY402 undefined-rail: Port on an undefined rail",
    example_file.ports("gpu01: {netdev: enp11s0f0np0}", "gpu2: {netdev: enp12s0f0np0}"),
    _GOOD_PORTS,
)


def _known_rails(ports: t.Mapping[str, Port | None], rails: t.Mapping[str, str], report: Report) -> None:
    """Report ports on undefined rails. ``rails``: name -> its base."""
    for name, port in ports.items():
        if port and rails and name not in rails:
            near = nearest(name, [rail for rail in rails if rail not in ports])
            remedy = "write %s" % near if near else "define the rail, or remove the port"
            message = "undefined rail %s%s" % (shown(name), did_you_mean(near))
            if name in rails.values():
                message = "%s has several NICs or planes, which have a port each" % shown(name)
                remedy = "write a port for each of %s" % ", ".join(rail for rail, base in rails.items() if base == name)
            report.add(RAIL_UNKNOWN, port.path, message, remedy)


PORT_UNFOUND = rule(
    "RY409 port-without-netdev: Added port without a netdev",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {gpu: 1}}}
""",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: {netdev: enp12s0f0np0, gpu: 1}}}
""",
)

OVERRIDE_IDLE = rule(
    "RY414 override-without-effect: Removal of a port that the profile does not have",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx, ports: {gpu02: null}}
  ai-2: {profile: hgx}
""",
    WARNING,
)


def _overrides(node: Node, variant: Variant, rails: t.Mapping[str, str], report: Report) -> None:
    """Report overrides of a node without effect, and those that do not identify a port."""
    profile = variant.profile
    own = {rail: port for rail, port in node.ports.items() if rail not in variant.ports}
    _known_rails(own, rails, report)
    unread = (profile.path, profile.path + ("ports",))
    if not profile.ports or any(report.has(path) for path in unread) or _has_undefined_rails(profile, rails):
        return
    for rail, port in own.items():
        path = node.path + ("ports", rail)
        if report.has(profile.path + ("ports", rail)) or report.within(path):
            continue
        if port is None:
            message = "%s has no port on %s" % (profile.name, shown(rail))
            report.add(OVERRIDE_IDLE, path, message, "remove the line")
        elif rail in rails and not port.identified:
            message = "%s has no port on %s, and this entry does not identify one" % (profile.name, rail)
            report.add(PORT_UNFOUND, path, message, "set netdev or pci of the port")


def _has_undefined_rails(profile: Profile, rails: t.Collection[str]) -> bool:
    return any(name not in rails for name in profile.ports)


RAIL_UNSERVED = rule(
    "RY403 profile-misses-rail: Profile without a port on a rail",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: enp11s0f0np0}\n",
    _GOOD_PORTS,
    WARNING,
)


def _unserved(fabric: Fabric, profile: Profile, nodes: t.Sequence[Node], report: Report) -> None:
    """Report rails of which a profile has no port."""
    path = profile.path + ("ports",)
    # Misnamed or unreadable rails and ports are reported already.
    if not profile.ports or report.has(path) or _has_undefined_rails(profile, [rail.name for rail in fabric.rails]):
        return
    missing = [rail.name for rail in fabric.rails if rail.name not in profile.ports and not report.has(rail.path)]
    if nodes:  # if each node has its own port, nothing is missing
        missing = [rail for rail in missing if not all(rail in node.ports for node in nodes)]
    if any(report.has(at + (rail,)) for at in [path] + [node.path + ("ports",) for node in nodes] for rail in missing):
        return
    if missing:
        message = "%s has no port on %s" % (profile.name, ", ".join(missing))
        report.add(RAIL_UNSERVED, path, message, "add the ports if the server has them")


def _duplicates(ports: t.Mapping[str, Port], bases: t.Mapping[str, str], report: Report) -> None:
    """Report two ports of a server with the same netdev, PCI address or RDMA device.

    :param bases: rail -> its NIC, planes of which can share an RDMA device.
    """
    for value_of, key, twice in _SHARED_OWNERS:
        values = [value for port in ports.values() for value in [getattr(port, value_of)] if value is not None]
        if len(set(values)) == len(values):
            continue
        owners: dict[str, list[Port]] = {}
        for port in ports.values():
            if getattr(port, value_of) is not None:
                owners.setdefault(getattr(port, value_of), []).append(port)
        for value, (first, *rest) in owners.items():
            others = [port for port in rest if not (key != "netdev" and _shares(key, port, first, bases))]
            if not others:
                others = _same_number(key, rest, first)
            if not others:
                continue
            more = ", and of %d more rails" % (len(others) - 1) if len(others) > 1 else ""
            message = "%s is also the %s of %s%s" % (value, key, first.rail, more)
            remedy = "correct it for the port of %s" % others[0].rail
            if key == "netdev" and first.rail in bases and bases.get(others[0].rail) == bases[first.rail]:
                base = bases[first.rail].rpartition(" ")[0]
                remedy = "for planes of one netdev, write planes: {count: N, balancing: hardware} at %s" % base
            if key == "pci" and len({port.netdev for port in (first, *others)} - {None}) > len(others):
                remedy += "; if one function has both netdevs, remove pci of both, and keep netdev"
            if key == "rdma" and (more or first.rdma_port or others[0].rdma_port):
                remedy = "if the device has a port for each rail, write its number: rdma: %s:1" % value
            report.add(twice, others[0].paths.get(key, others[0].path), message, remedy)


def _shares(key: str, port: Port, first: Port, bases: t.Mapping[str, str]) -> bool:
    """Return whether two ports can have the same PCI address or RDMA device."""
    if shares_netdev(first, port):
        return True
    if key == "pci":
        return bool(port.vlan or first.vlan)  # interface_rules reports these
    numbers = (first.rdma_port, port.rdma_port)
    if None not in numbers:
        return first.rdma_port != port.rdma_port
    return numbers == (None, None) and bases.get(port.rail, port.rail) == bases.get(first.rail, first.rail)


def _same_number(key: str, rest: t.Sequence[Port], first: Port) -> list[Port]:
    """Return the first port with a port number of the RDMA device that another netdev has."""
    netdevs: dict[int, str | None] = {}
    for port in (first, *rest) if key == "rdma" else ():
        if port.rdma_port and netdevs.setdefault(port.rdma_port, port.rdma_netdev) != port.rdma_netdev:
            return [port]
    return []


GROUP_UNUSED = rule(
    "RY433 unused-group: Group without nodes",
    "groups:\n  rack_a: {vars: {row: 1}}\n",
    "groups:\n  rack_a: {vars: {row: 1}}\nnodes:\n  ai-[1:2]: {profile: hgx, groups: [rack_a]}\n",
    WARNING,
)


def _groups(fabric: Fabric, report: Report) -> None:
    used = {name for node in fabric.nodes for name in node.groups}
    for group in fabric.groups.values():
        if group.name not in used and fabric.nodes and not report.within(("nodes",)) and not report.has(group.path):
            near = nearest(group.name, used)
            message = "no node is in the group %s%s" % (shown(group.name), did_you_mean(near))
            report.add(GROUP_UNUSED, group.path, message, "write %s" % near if near else "remove it")


RAIL_EMPTY = rule(
    "RY435 unused-rail: Rail without ports",
    """
nodes:
  ai-[1:2]: {profile: hgx, ports: {gpu02: null}}
""",
    """
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx, ports: {gpu02: null}}
""",
    WARNING,
)


def _empty(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report rails of which no node has a port."""
    if not fabric.nodes or report.within(("nodes",)) or report.within(("profiles",)) or report.within(("rails",)):
        return
    served: set[str] = set()
    for variant in variants:
        plain = False
        for node in variants.nodes_of(variant):
            if node.ports:
                served.update(ports_of(node, variant))
            elif not plain:
                served.update(variant.ports)
                plain = True
    for rail in fabric.rails:
        if rail.name not in served and served:
            message = "no node has a port on %s" % rail.name
            report.add(RAIL_EMPTY, rail.path, message, "remove the rail, or give nodes a port on it")


INDEX_TWICE = rule(
    "RY412 duplicate-index: Two nodes with the same index",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx}
""",
    """
nodes:
  rack[1:2]-ai-[1:2]: {profile: hgx, index: "[1:4]"}
""",
)


def _indexes(nodes: t.Sequence[Node], report: Report) -> None:
    """Report two nodes with the same index."""
    owners: dict[int, Node] = {}
    highest = max([node.index or 0 for node in nodes] + [len(nodes)])
    for node in nodes:
        # Units and places, from which other indexes are derived, are checked by unit_rules.
        if node.index is None or (node.unit is not None and node.index_path is None):
            continue
        first = owners.setdefault(node.index, node)
        if first is not node:
            report.add(
                INDEX_TWICE,
                node.index_path or node.path,
                "%s and %s both have index %d" % (first.name, node.name, node.index),
                'set index, such as index: %d, or index: "[1:%d]" for a range of nodes' % (highest + 1, len(nodes)),
            )
