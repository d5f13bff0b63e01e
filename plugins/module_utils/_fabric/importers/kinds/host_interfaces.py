# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interfaces of nodes in YAML: nmstate, netplan, the states that operators report, and templates of interface names.

Sources: nmstate.io/v1 (NodeNetworkConfigurationPolicy, NodeNetworkState) and nmstate's own files; netplan version 2;
SriovNetworkNodeState of the SR-IOV network operator; NicInterfaceNameTemplate of the NIC configuration operator.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    node_selectors,
    pool_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Facts,
    HostInterface,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_texts import Manifest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.node_selectors import ALL, Selector
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import object_shape
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NODE, pci
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence, Value

GROUP = "nmstate.io"
_BOND_MODES = ("802.3ad", "active-backup", "balance-xor")
_NUMBERS = {"1": "active-backup", "2": "balance-xor", "4": "802.3ad"}
# Folders of configuration files on a node, which are not the name of a node.
_FOLDERS = frozenset(
    ("etc", "systemd", "network", "netplan", "networkmanager", "system-connections", "sysconfig", "network-scripts")
    + ("nmstate", "run", "lib", "usr", "hosts", "nodes", "manifests", "config", "configs", "files", "host", "net")
)


def policy(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a NodeNetworkConfigurationPolicy."""
    nodes = node_selectors.read(object_shape.entry(manifest.root, "spec", "nodeSelector"))
    _nmstate(manifest, object_shape.entry(manifest.root, "spec", "desiredState"), nodes, facts)


def state(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read a NodeNetworkState, which has the name of its node."""
    _namespace, name = object_shape.name_of(manifest)
    current = object_shape.entry(manifest.root, "status", "currentState")
    use(object_shape.entry(manifest.root, "status"))
    _nmstate(manifest, current, node_selectors.of_names([name]), facts)


def kindless(manifest: Manifest, facts: Facts) -> str:
    """Read a document without a kind. Return what it is; empty if it does not configure interfaces."""
    nodes = nodes_of_file(manifest.file, facts)
    if isinstance(object_shape.entry(manifest.root, "interfaces"), Sequence):
        _nmstate(manifest, manifest.root, nodes, facts)
        return "the nmstate file"
    sections = ("ethernets", "bonds", "vlans")
    network = object_shape.entry(manifest.root, "network")
    if network is None and "version" in manifest.root.entries:
        network = manifest.root  # network-config of cloud-init
    if isinstance(object_shape.entry(network, "config"), Sequence):
        _cloud_init(manifest, network, nodes, facts)
        return "the network configuration of cloud-init"
    if isinstance(network, Mapping) and any(key in network.entries for key in sections):
        for key in ("version", "renderer"):
            object_shape.text_at(network, key)
        for key in sections:
            section = object_shape.entry(network, key)
            for name, (_key, value) in section.entries.items() if isinstance(section, Mapping) else ():
                _netplan(manifest, name, value, key, nodes, facts)
        return "the netplan file"
    return ""


def nodes_of_file(path: str, facts: Facts) -> Selector:
    """Return the node whose file this is, by the names of its folders and of itself; ``ALL`` if none is a name."""
    *folders, name = path.replace("\\", "/").split("/")
    stem = name.partition(".")[0].lower()
    known = {*facts.nodes, *facts.mentioned, *facts.node_indexes}
    for text in (name, stem, *(stem[len(prefix) :] for prefix in ("netplan-", "nmstate-", "ifcfg-")), *folders[::-1]):
        if text in known:
            return node_selectors.of_names([text])
    if facts.node_indexes:
        return ALL
    own = [each for each in folders[::-1] if each.lower() not in _FOLDERS and NODE.match(each) and each[-1:].isdigit()]
    return node_selectors.of_names(own[:1])


# -- nmstate


def _nmstate(manifest: Manifest, root: Value | None, nodes: Selector, facts: Facts) -> None:
    for item in object_shape.items_at(root, "interfaces"):
        name = object_shape.text_at(item, "name")
        if not name:
            continue
        place = object_shape.place_at(manifest, item, "interfaces")
        interface = HostInterface(place, name, nodes)
        kind = object_shape.text_at(item, "type")
        interface.link = object_shape.link_type([kind]) if kind in ("ethernet", "infiniband") else None
        interface.mtu = _number(object_shape.entry(item, "mtu"))
        interface.mac = object_shape.text_at(item, "mac-address") or None
        object_shape.text_at(item, "state")
        for family in ("ipv4", "ipv6"):
            section = object_shape.entry(item, family)
            for key in ("enabled", "dhcp", "autoconf"):
                object_shape.text_at(section, key)
            for each in object_shape.items_at(section, "address"):
                text = "%s/%s" % (object_shape.text_at(each, "ip"), object_shape.text_at(each, "prefix-length"))
                add_address(interface, text)
        bond = object_shape.entry(item, "link-aggregation")
        members = object_shape.items_at(bond, "port") or object_shape.items_at(bond, "slaves")
        interface.members = _texts(members)
        options = object_shape.entry(bond, "options")
        set_bond(
            interface,
            object_shape.text_at(bond, "mode"),
            object_shape.text_at(options, "xmit_hash_policy"),
            object_shape.text_at(options, "lacp_rate"),
        )
        vlan = object_shape.entry(item, "vlan")
        interface.parent = object_shape.text_at(vlan, "base-iface") or None
        interface.vlan = _number(object_shape.entry(vlan, "id"))
        facts.interfaces.append(interface)


def set_bond(interface: HostInterface, mode: str, hash_policy: str = "", lacp_rate: str = "") -> None:
    """Set the keys of a bond that a fabric file has, from the names or numbers of the kernel."""
    mode = _NUMBERS.get(mode, mode)
    if mode in _BOND_MODES:
        interface.bond["mode"] = mode
    if mode != "active-backup" and hash_policy in ("layer2", "layer2+3", "layer3+4"):
        interface.bond["hash_policy"] = hash_policy
    if mode == "802.3ad" and lacp_rate in ("fast", "slow", "0", "1"):
        interface.bond["lacp_rate"] = {"0": "slow", "1": "fast"}.get(lacp_rate, lacp_rate)


def add_address(interface: HostInterface, text: str) -> None:
    """Add an address with its prefix length; other texts, such as a template, are left out."""
    parsed = pool_ranges.prefixed(text)
    if parsed:
        interface.addresses.append(parsed)


def prefix_length(mask: str) -> str:
    """Return the prefix length of a netmask; empty for a text that is not a netmask."""
    parsed = pool_ranges.address(mask) if mask else None
    if not parsed:
        return ""
    number, bits = parsed
    length = bin(number).count("1")
    return str(length) if number == (1 << bits) - (1 << bits - length) else ""


def _texts(items: t.Iterable[Value]) -> list[str]:
    return [text for text in map(object_shape.plain_text, items) if text]


def _number(value: Value | None) -> int | None:
    text = object_shape.plain_text(value)
    return int(text) if text.isdecimal() and len(text) < 6 else None


# -- netplan


def _netplan(manifest: Manifest, name: str, value: Value, kind: str, nodes: Selector, facts: Facts) -> None:
    set_name = object_shape.text_at(value, "set-name")
    interface = HostInterface(object_shape.place_at(manifest, value, "network.%s.%s" % (kind, name)), name, nodes)
    interface.name = set_name or name
    interface.mac = object_shape.text_at(value, "match", "macaddress") or None
    for key in ("dhcp4", "dhcp6", "optional", "accept-ra"):
        object_shape.text_at(value, key)
    for each in object_shape.items_at(value, "addresses"):
        # an address with options is a mapping of one key
        text = next(iter(each.entries), "") if isinstance(each, Mapping) else object_shape.plain_text(each)
        use(each)
        add_address(interface, text)
    interface.mtu = _number(object_shape.entry(value, "mtu"))
    if kind == "bonds":
        members = object_shape.items_at(value, "interfaces")
        interface.members = _texts(members)
        parameters = object_shape.entry(value, "parameters")
        keys = ("mode", "transmit-hash-policy", "lacp-rate")
        set_bond(interface, *(object_shape.text_at(parameters, key) for key in keys))
    if kind == "vlans":
        interface.parent = object_shape.text_at(value, "link") or None
        interface.vlan = _number(object_shape.entry(value, "id"))
    facts.interfaces.append(interface)


def _cloud_init(manifest: Manifest, network: Value | None, nodes: Selector, facts: Facts) -> None:
    """Read version 1 of the network configuration of cloud-init."""
    object_shape.text_at(network, "version")
    for item in object_shape.items_at(network, "config"):
        name = object_shape.text_at(item, "name")
        kind = object_shape.text_at(item, "type")
        if kind not in ("physical", "bond", "vlan") or not name:
            continue
        interface = HostInterface(object_shape.place_at(manifest, item, "network.config"), name, nodes)
        interface.mac = object_shape.text_at(item, "mac_address") or None
        interface.mtu = _number(object_shape.entry(item, "mtu"))
        interface.parent = object_shape.text_at(item, "vlan_link") or None
        interface.vlan = _number(object_shape.entry(item, "vlan_id"))
        members = object_shape.items_at(item, "bond_interfaces")
        interface.members = _texts(members)
        set_bond(interface, object_shape.text_at(item, "params", "bond-mode"))
        for subnet in object_shape.items_at(item, "subnets"):
            object_shape.text_at(subnet, "type")
            address, mask = (object_shape.text_at(subnet, key) for key in ("address", "netmask"))
            add_address(interface, address if "/" in address else "%s/%s" % (address, prefix_length(mask)))
        facts.interfaces.append(interface)


# -- what operators report and set


def sriov_state(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read the ports of a node from a SriovNetworkNodeState: PCI address, netdev and link type."""
    _namespace, name = object_shape.name_of(manifest)
    for item in object_shape.items_at(object_shape.entry(manifest.root, "status"), "interfaces"):
        netdev = object_shape.text_at(item, "name")
        if netdev:
            place = Place(manifest.file, item.line, item.column, "status.interfaces")
            interface = HostInterface(place, netdev, node_selectors.of_names([name]))
            interface.pci = pci(object_shape.text_at(item, "pciAddress"))
            interface.link = object_shape.link_type([object_shape.text_at(item, "linkType")])
            facts.interfaces.append(interface)
    use(manifest.root)


def name_template(manifest: Manifest, facts: Facts, found: Found) -> None:
    """Read the PCI address and the names of each rail's ports from a NicInterfaceNameTemplate.

    The lists of ``railPciAddresses`` are the rails. With several functions per card, the names have ``%plane_id%``.
    """
    spec = object_shape.spec_of(manifest)
    if not isinstance(object_shape.entry(spec, "railPciAddresses"), Sequence):
        return
    nodes = node_selectors.read(object_shape.entry(spec, "nodeSelector"))
    netdev = object_shape.text_at(spec, "netDevicePrefix")
    rdma = object_shape.text_at(spec, "rdmaDevicePrefix")
    planes = max(_number(object_shape.entry(spec, "pfsPerNic")) or 1, 1)
    number = 0
    for rail, item in enumerate(object_shape.items_at(spec, "railPciAddresses")):
        for text in map(object_shape.plain_text, getattr(item, "items", ())):
            address = pci(text)
            for plane in range(planes if address else 0):
                function = pci("%s%d" % ((address or "")[:-1], int((address or "0")[-1]) + plane))
                place = Place(manifest.file, item.line, item.column, "spec.railPciAddresses")
                if function is None:
                    message = "pfsPerNic is %d, but a PCI device has the functions 0 to 7 only" % planes
                    remedy = "correct pfsPerNic, or the function of %s" % address
                    found.add(import_rules.NOT_KNOWN, place, message, remedy, "the functions up to 7")
                    break
                names = [_filled(each, rail, number, plane) for each in (netdev, rdma)]
                if names[0]:
                    interface = HostInterface(place, names[0], nodes, pci=function, rdma=names[1] or None)
                    facts.interfaces.append(interface)
            number += 1


def _filled(template: str, rail: int, nic: int, plane: int) -> str:
    """Return a name of the template. A prefix without fields is followed by the number of the rail."""
    fields = {"%rail_id%": rail, "%rail%": rail, "%nic_id%": nic, "%nic%": nic, "%plane_id%": plane, "%plane%": plane}
    text = template
    for field, value in fields.items():
        text = text.replace(field, str(value))
    return text if text != template or not template else "%s%d" % (template, rail)
