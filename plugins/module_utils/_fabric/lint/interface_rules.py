# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY45x: bonds and VLANs as interfaces of rail ports, and the functions below them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Report,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    INFINIBAND,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import IDENTITIES, Fabric, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import (
    FUNCTION_KEYS,
    LACP,
    SETTING_MODES,
    Bond,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NETDEV_MAX

_SECOND = 'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}'
_MEMBERS = 'members: [{pci: "0000:0b:00.0", netdev: nic1}, {pci: "0000:0b:00.1", netdev: nic2}]'
_BOND = "bond: {name: bond0, %s}" % _MEMBERS


def _first(port: str) -> str:
    """Return the ports of an example whose first port has these keys."""
    return example_file.ports("gpu01: {%s}" % port, _SECOND)


# What a name means that only such interfaces have, and what to write. ``%s``: the name.
_ABOVE = (
    (
        re.compile(r"bond\d+\Z"),
        "the name of a bond",
        "write bond: {name: %s, members: [{pci: ...}, {pci: ...}]} in place of netdev",
    ),
    (
        re.compile(r"vlan\d+\Z"),
        "the name of a VLAN",
        "write the netdev of the function, and vlan: {id: ..., name: %s}",
    ),
    (
        re.compile(r"(br|virbr|vmbr|docker|ovs|lxcbr)\d+\Z|br-"),
        "the name of a bridge",
        "remove the function from the bridge, and write its netdev: pods and addresses are not attached to bridges",
    ),
    (
        re.compile(r"team\d+\Z"),
        "the name of a team",
        "make it a bond, because no RDMA device supports teams: bond: {name: bond0, members: [...]}",
    ),
    (
        re.compile(r"(vrf|vxlan|dummy|veth|tun|tap|wg|macvlan|ipvlan|ifb)[-_]?\d+\Z|vrf[-_]"),
        "the name of a virtual interface",
        "write the netdev of the function below it",
    ),
)
_TAGGED = re.compile(r"(.+)\.([1-9]\d{0,3})\Z")
_LAG_DEVICE = re.compile(r"mlx5_bond_\d+\Z")


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    checked: set[tuple[int, str | None, bool]] = set()
    # rail, netdev and RDMA device of functions whose names have no finding: most nodes have the same
    plain: set[tuple[str, str | None, str | None]] = set()
    rails = {rail.name: rail for rail in fabric.rails}
    for variant, ports in variants.tables():
        stacked = False
        for port in ports.values():
            if port.bond or port.vlan:
                stacked = True
            elif (port.rail, port.netdev, port.rdma) in plain:
                continue
            rail = rails.get(port.rail)
            attachment = variant.attachment_on(rail) if rail else variant.attachment
            link_layer = fabric.link_layer_on(rail) if rail else fabric.link_layer
            key = (id(port), attachment, bool(variant.profile.soft_rdma))
            if key in checked:
                continue
            checked.add(key)
            if _named_as_function(link_layer, port, report):
                plain.add((port.rail, port.netdev, port.rdma))
            if port.bond:
                _bond(port, port.bond, variant, report)
            if port.vlan:
                _vlan(port, report)
            if port.bond or port.vlan:
                _supported(fabric, link_layer, attachment, port, report)
        if stacked:
            _shared(ports, report)
            _names(ports, report)


ABOVE = rule(
    "RY450 interface-above-function: Bond, VLAN or bridge that is described as a function",
    _first("netdev: bond0, rdma: mlx5_gpu01"),
    _first(_BOND + ", rdma: mlx5_gpu01"),
    why="Railyard finds a port by its functions. The members of a bond or the parent of a VLAN have them, and the RDMA"
    " device, so the file must describe the bond or VLAN.",
    suppressible=True,
)


def _named_as_function(link_layer: str | None, port: Port, report: Report) -> bool:
    """Report names that only interfaces above a function have, and the RDMA device of a LAG at a function.

    Return whether the port is a function without such names.
    """
    if not (port.bond or port.vlan or _LAG_DEVICE.match(port.rdma or "")):
        netdev = port.netdev or ""
        if not any(pattern.match(netdev) for pattern in (_TAGGED, *(row[0] for row in _ABOVE))):
            return True
    owned = ", and managed: false if others configure it"
    for at, function in enumerate(port.functions):
        name = function.netdev
        if name is None:
            continue
        path = port.function_path(at) + ("netdev",)
        if not port.bond and not port.planes:
            path = port.paths.get("netdev", port.path)
        if report.within(path):
            continue
        tagged = _TAGGED.match(name) if link_layer != INFINIBAND else None
        if tagged and int(tagged.group(2)) <= 4094 and not port.bond and not port.vlan:
            remedy = "write netdev: %s, vlan: %s" % tagged.groups()
            report.add(ABOVE, path, "%s is the name of VLAN %s on %s" % (name, tagged[2], tagged[1]), remedy + owned)
            continue
        for pattern, what, remedy in _ABOVE:
            if pattern.match(name):
                remedy = remedy.replace("%s", name) + (owned if "bond:" in remedy or "vlan:" in remedy else "")
                report.add(ABOVE, path, "%s is %s, but netdev is the name of a function" % (shown(name), what), remedy)
                break
    if port.rdma and _LAG_DEVICE.match(port.rdma) and not (port.bond or port.planes or report.within(port.path)):
        message = "%s is the RDMA device of a bond, and the port of %s has no bond" % (port.rdma, port.rail)
        remedy = "write bond: {name: bond0, members: [{pci: ...}, {pci: ...}]} in place of netdev and pci" + owned
        report.add(ABOVE, port.paths.get("rdma", port.path), message, remedy)
    return False


INCOMPLETE = rule(
    "RY451 incomplete-bond: Bond without a name or members",
    _first('bond: {name: bond0, members: [{pci: "0000:0b:00.0", netdev: nic1}]}'),
    _first(_BOND),
)

IDENTITY = rule(
    "RY452 function-beside-bond: Port with a bond and with keys of a function",
    _first('pci: "0000:0b:00.0", ' + _BOND),
    _first(_BOND),
    why="Railyard finds a bond by its members. Each member has the keys of a function.",
)

SETTING = rule(
    "RY453 bond-setting-without-effect: Setting that the mode or the members of a bond do not support",
    _first(_BOND.replace("bond0", "bond0, mode: active-backup, lacp_rate: fast")),
    _first(_BOND.replace("bond0", "bond0, mode: active-backup, primary: nic1")),
)

CARDS = rule(
    "RY454 bond-across-cards: Bond of functions of different cards",
    _first(_BOND.replace("0b:00.1", "0d:00.0")),
    _first(_BOND),
    why="The driver makes one RDMA device of a bond (RoCE LAG) only if the members are all ports of one card. Otherwise"
    " each function keeps its own RDMA device, and the bond has none.",
    suppressible=True,
)


def _bond(port: Port, bond: Bond, variant: Variant, report: Report) -> None:
    path = port.paths["bond"]
    beside = [key for key in (*IDENTITIES, "port") if key != "rdma" and getattr(port, key) is not None]
    if beside:
        message = "%s is a key of a function, and the port has a bond" % beside[0]
        remedy = "write it at a member, or remove it; bond: null removes the bond of the profile"
        report.add(IDENTITY, port.paths.get(beside[0], port.path), message, remedy)
    if report.within(path):
        return
    missing = "name" if bond.name is None else "members" if len(bond.members) < 2 else None
    if missing:
        message = "the bond has no name" if missing == "name" else "the bond needs two or more members"
        remedy = 'write bond: {name: bond0, members: [{pci: "0000:29:00.0"}, {pci: "0000:29:00.1"}]}'
        report.add(INCOMPLETE, path + (missing,), message, remedy)
        return
    mode = bond.mode or LACP
    for key, modes in SETTING_MODES.items():
        if getattr(bond, key) is not None and mode not in modes:
            message = "%s has no effect in the mode %s" % (key, mode)
            report.add(SETTING, path + (key,), message, "remove it, or set mode: %s" % " or ".join(modes))
    if bond.min_links and mode == LACP and bond.min_links > len(bond.members):
        message = "min_links is %d, and the bond has %d members, so it is never up" % (
            bond.min_links,
            len(bond.members),
        )
        report.add(SETTING, path + ("min_links",), message, "write %d or less" % len(bond.members))
    if bond.primary and bond.primary not in [member.netdev for member in bond.members]:
        message = "primary %s is not the netdev of a member" % shown(bond.primary)
        report.add(SETTING, path + ("primary",), message, "write the netdev of a member, and set it there too")
    for key in ("pci", "slot", "serial") if not variant.profile.soft_rdma else ():
        values = [value for member in bond.members for value in [getattr(member, key)] if value]
        cards = list(dict.fromkeys(value.partition(".")[0] if key == "pci" else value for value in values))
        if len(cards) > 1:
            message = "%s and %s are different cards: the bond has no RDMA device" % (cards[0], cards[1])
            remedy = "bond the ports of one card, or plan each port as a rail or plane"
            report.add(CARDS, path + ("members",), message, remedy)
            break


VLAN = rule(
    "RY455 incomplete-vlan: VLAN without a number or a name",
    _first('pci: "0000:0b:00.0", vlan: 100'),
    _first('pci: "0000:0b:00.0", netdev: enp11s0, vlan: 100'),
    why="By default, the interface of a VLAN has the name of its parent, a full stop and the number. The kernel accepts"
    " at most 15 characters.",
)


def _vlan(port: Port, report: Report) -> None:
    vlan, path = port.vlan, port.paths["vlan"]
    if vlan is None or report.within(path) or report.within(port.path):
        return
    name = port.interface
    if vlan.id is None:
        report.add(VLAN, path, "the VLAN has no number", "write vlan: {id: 100, name: %s}" % vlan.name)
    elif port.rdma_netdev is None:
        report.add(VLAN, path, "the VLAN needs the name of its parent", "add netdev")
    elif name is not None and len(name) > NETDEV_MAX:
        message = "%s has more than %d characters" % (shown(name), NETDEV_MAX)
        report.add(VLAN, path, message, "write vlan: {id: %d, name: %s}" % (vlan.id, port.rail[:NETDEV_MAX]))


UNSUPPORTED = rule(
    "RY456 attachment-on-bond: Attachment that a bond or VLAN does not support",
    "fabric: {name: ai, attachment: sriov, provider: spiderpool, mtu: 4200, vfs: {count: 4}}\n" + _first(_BOND),
    _first(_BOND),
    why="The driver makes no RoCE LAG of ports with VFs, except in the switchdev mode. The kernel does not move bonds"
    " to other network namespaces, and the RDMA device of a VLAN stays with its parent.",
)

ON_INFINIBAND = rule(
    "RY457 bond-on-infiniband: Bond or VLAN on InfiniBand",
    "fabric: {name: ai, attachment: ipoib, provider: spiderpool, mtu: 4092}\n" + _first(_BOND),
    "fabric: {name: ai, attachment: ipoib, provider: spiderpool, mtu: 4092}\n" + example_file.PORTS,
    why="Each port of an InfiniBand card has its own RDMA device, which a bond does not combine, and the driver of"
    " IPoIB supports no VLANs.",
)

NO_NETDEV = rule(
    "RY458 members-without-netdev: Bond whose members have no names that the device plugin needs",
    _first(re.sub(r", netdev: nic\d", "", _BOND)),
    _first(_BOND),
    why="k8s-rdma-shared-dev-plugin finds PCI functions by the names of their netdevs, and does not support bonds.",
)


def _supported(fabric: Fabric, link_layer: str | None, attachment: str | None, port: Port, report: Report) -> None:
    """Report what bonds and VLANs do not support."""
    key = "bond" if port.bond else "vlan"
    path = port.paths[key]
    if link_layer == INFINIBAND:
        remedy = "remove it: plan each port as a rail, or as a plane of a rail; partitions separate tenants"
        report.add(ON_INFINIBAND, path, "the link layer is infiniband, which has no %ss for RDMA" % key, remedy)
        return
    known = ATTACHMENTS.get(attachment or "")
    if known is None or report.within(path):
        return
    reason = None
    if known.vfs and port.bond:
        reason = "the driver creates no RDMA device for a bond whose ports have VFs"
    elif known.name == "host-device":
        reason = "the kernel moves no bond to a pod" if port.bond else "its RDMA device stays on the node"
    if reason:
        message = "%s does not support a %s: %s" % (known.name, key, reason)
        remedy = "use macvlan or ipvlan, or plan each port as a rail or plane"
        report.add(UNSUPPORTED, path, message, remedy)
    facts = facts_of(fabric.provider)
    plugin = known.master and facts.kubernetes and not facts.slots
    if plugin and not any(function.netdev for function in port.functions):
        remedy = "add netdev at the members: a function with another name is renamed"
        message = "the device plugin finds the functions of %s by their netdevs" % port.interface
        report.add(NO_NETDEV, path, message, remedy)


SHARED = rule(
    "RY459 function-of-two-ports: Function below two interfaces that do not share it",
    example_file.ports("gpu01: {%s}" % _BOND, 'gpu02: {netdev: nic3, pci: "0000:0b:00.1"}'),
    example_file.ports("gpu01: {%s, vlan: 100}" % _BOND, "gpu02: {%s, vlan: 200}" % _BOND),
    why="A member carries only the traffic of its bond, and the kernel refuses macvlan interfaces on it. Several rails"
    " can share a bond or function only through VLANs of it.",
)

TWO_DEVICES = rule(
    "RY460 vlans-with-two-rdma-devices: VLANs of one netdev with different RDMA devices",
    example_file.ports(
        'gpu01: {netdev: nic1, pci: "0000:0b:00.0", vlan: 100, rdma: mlx5_gpu01}',
        'gpu02: {netdev: nic1, pci: "0000:0b:00.0", vlan: 200, rdma: mlx5_gpu02}',
    ),
    example_file.ports(
        'gpu01: {netdev: nic1, pci: "0000:0b:00.0", vlan: 100, rdma: mlx5_nic1}',
        'gpu02: {netdev: nic1, pci: "0000:0b:00.0", vlan: 200, rdma: mlx5_nic1}',
    ),
)


def _shared(ports: t.Mapping[str, Port], report: Report) -> None:
    """Report functions and bonds of two ports, unless these are VLANs of one netdev."""
    owners: dict[tuple[str, str], tuple[Port, int]] = {}
    below: dict[str, Port] = {}
    for port in ports.values():
        if report.within(port.path):
            continue
        beside = below.setdefault(port.rdma_netdev, port) if port.rdma_netdev else port
        if beside.bond != port.bond:
            message = "%s has other members or settings on %s" % (port.rdma_netdev, beside.rail)
            report.add(SHARED, port.paths.get("bond", port.path), message, "write the same bond at both ports")
            continue
        if shares_netdev(beside, port) and (beside.rdma, beside.rdma_port) != (port.rdma, port.rdma_port):
            message = "%s has one RDMA device, but the ports of %s and %s have different ones" % (
                *(port.rdma_netdev, beside.rail),
                port.rail,
            )
            place = port.paths.get("rdma", port.path)
            report.add(TWO_DEVICES, place, message, "write the same rdma at both ports, or at neither")
        _shared_functions(port, owners, report)


def _shared_functions(port: Port, owners: dict[tuple[str, str], tuple[Port, int]], report: Report) -> None:
    """Report the first function of a port that another port, or another member, has.

    :param owners: identity of a function -> the port that has it, and the number of the function.
    """
    for at, function in enumerate(port.functions):
        for key, value in _identities(function):
            first, number = owners.setdefault((key, value), (port, at))
            if (first is port and number == at) or shares_netdev(first, port):
                continue
            if first is port:
                message, remedy = "two members have the %s %s" % (key, shown(value)), "correct one of them"
            elif first.bond or first.vlan or port.bond or port.vlan:
                message = "the ports of %s and %s use the same function: %s %s" % (
                    *(first.rail, port.rail, key),
                    shown(value),
                )
                remedy = "correct it for the port of %s; for two VLANs, write the same netdev or bond at both"
                remedy = remedy % port.rail
            else:
                continue
            report.add(SHARED, port.function_path(at), message, remedy)
            return


NAME_TWICE = rule(
    "RY461 name-of-two-netdevs: Bond or VLAN with the name of another netdev of the node",
    _first('pci: "0000:0b:00.0", netdev: nic1, vlan: {id: 100, name: nic1}'),
    _first('pci: "0000:0b:00.0", netdev: nic1, vlan: {id: 100, name: enp11v100}'),
)


def _names(ports: t.Mapping[str, Port], report: Report) -> None:
    """Report names that netdevs of two kinds have. Other rules report two functions, bonds or VLANs with one name."""
    owners: dict[str, tuple[str, Port]] = {}
    for port in ports.values():
        if report.within(port.path):
            continue
        netdevs = [("netdev", function.netdev) for function in port.functions]
        netdevs += [("bond", port.bond.name)] if port.bond else []
        netdevs += [("vlan", port.interface)] if port.vlan else []
        for kind, name in netdevs:
            first, owner = owners.setdefault(name, (kind, port)) if name else (kind, port)
            if first != kind:
                message = "%s is the name of the %s of %s and of the %s of %s" % (
                    *(name, _KINDS[first], owner.rail),
                    *(_KINDS[kind], port.rail),
                )
                report.add(NAME_TWICE, port.paths.get(kind, port.path), message, "give each netdev its own name")
                break


# Key of a port -> the netdev that it describes.
_KINDS = {"netdev": "function", "bond": "bond", "vlan": "VLAN"}


def _identities(function: t.Any) -> t.Iterator[tuple[str, str]]:
    """Yield the keys that identify a function, with their values."""
    for key in FUNCTION_KEYS:
        value = getattr(function, key)
        if value is None or key == "port":
            continue
        yield key, "%s port %d" % (value, function.port or 1) if key in ("slot", "serial") else value


def shares_netdev(first: Port, port: Port) -> bool:
    """Return whether two ports are VLANs of one netdev, or a VLAN and the netdev itself."""
    return (
        first is not port
        and first.rdma_netdev is not None
        and first.rdma_netdev == port.rdma_netdev
        and first.bond == port.bond
        and first.interface != port.interface
    )
