# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interfaces of nodes in configuration files that are not YAML.

Sources: ifcfg files of network-scripts and wicked, keyfiles of NetworkManager (nm-settings-keyfile(5)), and
systemd.network(5) and systemd.netdev(5).
"""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Facts,
    HostInterface,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Text
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import host_interfaces

_IFCFG = re.compile(r"ifcfg-([^/]+)\Z")
_ENDINGS = (".nmconnection", ".network", ".netdev")
# (section, key), both in lower case -> values
Keys = dict[tuple[str, str], list[str]]


def read(text: Text, facts: Facts) -> bool:
    """Read a file if its name identifies such a file. Return whether it does."""
    name = text.file.replace("\\", "/").rpartition("/")[2]
    ifcfg = _IFCFG.match(name)
    if not ifcfg and not name.lower().endswith(_ENDINGS):
        return False
    keys = _keys(text.lines)
    if ifcfg:
        found = _ifcfg(keys, ifcfg.group(1))
    elif name.lower().endswith(".nmconnection"):
        found = _keyfile(keys, name.rpartition(".")[0])
    else:
        found = _networkd(keys)
    nodes = host_interfaces.nodes_of_file(text.file, facts)
    for interface in found:
        interface.place, interface.nodes = Place(text.file), nodes
        known = [each for each in facts.interfaces if each.name == interface.name and each.nodes == nodes]
        if known:
            _merge(known[0], interface)
        else:
            facts.interfaces.append(interface)
    return True


def _merge(first: HostInterface, other: HostInterface) -> None:
    first.addresses.extend(each for each in other.addresses if each not in first.addresses)
    first.members.extend(each for each in other.members if each not in first.members)
    first.bond.update(other.bond)
    for key in ("mtu", "link", "mac", "parent", "vlan"):
        setattr(first, key, getattr(first, key) or getattr(other, key))


def _keys(lines: list[str]) -> Keys:
    found: Keys = {}
    section = ""
    for line in lines:
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].lower()
            continue
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found.setdefault((section, key.strip().lower()), []).append(value.strip().strip("\"'"))
    return found


def _one(keys: Keys, section: str, key: str) -> str:
    return (keys.get((section, key)) or [""])[-1]


def _mtu(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 6 and int(text) else None


def _vlan(text: str) -> int | None:
    return int(text) if text.isdecimal() and 0 < int(text[:6]) < 4095 else None


def _member(member: str, bond: str) -> list[HostInterface]:
    """Return the bond of a member, as far as the file of the member shows it."""
    return [HostInterface(Place(""), bond, members=[member])] if bond else []


def _ifcfg(keys: Keys, name: str) -> list[HostInterface]:
    interface = HostInterface(Place(""), _one(keys, "", "device") or name)
    interface.mtu = _mtu(_one(keys, "", "mtu"))
    interface.mac = _one(keys, "", "hwaddr") or None
    interface.link = "ib" if _one(keys, "", "type").lower() == "infiniband" else None
    for (_section, key), values in keys.items():
        number = re.match(r"ipaddr_?([0-9]*)\Z", key)
        if number:
            suffix = number.group(1)
            mask = _one(keys, "", "netmask" + suffix)
            length = (
                _one(keys, "", "prefix" + suffix)
                or _one(keys, "", "prefixlen" + suffix)
                or host_interfaces.prefix_length(mask)
            )
            host_interfaces.add_address(interface, values[-1] if "/" in values[-1] else "%s/%s" % (values[-1], length))
        elif key in ("ipv6addr", "ipv6addr_secondaries"):
            for text in values[-1].split():
                host_interfaces.add_address(interface, text)
    if _one(keys, "", "vlan").lower() == "yes" or _one(keys, "", "etherdevice"):
        parent, _dot, number_text = interface.name.rpartition(".")
        interface.parent = _one(keys, "", "physdev") or _one(keys, "", "etherdevice") or parent or None
        interface.vlan = _vlan(_one(keys, "", "vlan_id") or number_text)
    options = dict(part.partition("=")[::2] for part in _one(keys, "", "bonding_opts").split())
    if options or "bond" in _one(keys, "", "type").lower():
        host_interfaces.set_bond(
            interface, options.get("mode", ""), options.get("xmit_hash_policy", ""), options.get("lacp_rate", "")
        )
    return [interface, *_member(interface.name, _one(keys, "", "master"))]


def _keyfile(keys: Keys, name: str) -> list[HostInterface]:
    interface = HostInterface(Place(""), _one(keys, "connection", "interface-name") or name)
    kind = _one(keys, "connection", "type")
    interface.link = "ib" if kind == "infiniband" else None
    interface.mtu = next(filter(None, (_mtu(_one(keys, each, "mtu")) for each in ("ethernet", "802-3-ethernet"))), None)
    interface.mac = _one(keys, "ethernet", "mac-address") or None
    for (section, key), values in keys.items():
        if section in ("ipv4", "ipv6") and re.match(r"address(es)?[0-9]*\Z", key):
            for text in values[-1].split(";"):
                # a gateway can follow
                host_interfaces.add_address(interface, text.partition(",")[0])
    if kind == "vlan":
        interface.parent = _one(keys, "vlan", "parent") or None
        interface.vlan = _vlan(_one(keys, "vlan", "id"))
    if kind == "bond":
        host_interfaces.set_bond(
            interface, *(_one(keys, "bond", key) for key in ("mode", "xmit_hash_policy", "lacp_rate"))
        )
    port_of = "bond" in (_one(keys, "connection", "slave-type"), _one(keys, "connection", "port-type"))
    bond = _one(keys, "connection", "master") or _one(keys, "connection", "controller") if port_of else ""
    return [interface, *_member(interface.name, bond)]


def _networkd(keys: Keys) -> list[HostInterface]:
    if ("netdev", "name") in keys:
        interface = HostInterface(Place(""), _one(keys, "netdev", "name"))
        interface.mtu = _mtu(_one(keys, "netdev", "mtubytes"))
        interface.vlan = _vlan(_one(keys, "vlan", "id"))
        if _one(keys, "netdev", "kind").lower() == "bond":
            parameters = (_one(keys, "bond", key) for key in ("mode", "transmithashpolicy", "lacptransmitrate"))
            host_interfaces.set_bond(interface, *parameters)
        return [interface]
    names = " ".join(keys.get(("match", "name"), [])).split()
    found: list[HostInterface] = []
    for name in names:
        if any(mark in name for mark in "*?[!"):
            continue
        interface = HostInterface(Place(""), name)
        interface.mtu = _mtu(_one(keys, "link", "mtubytes"))
        for text in [*keys.get(("network", "address"), []), *keys.get(("address", "address"), [])]:
            host_interfaces.add_address(interface, text)
        found += [interface, *_member(name, _one(keys, "network", "bond"))]
        found += [HostInterface(Place(""), each, parent=name) for each in keys.get(("network", "vlan"), [])]
    return found
