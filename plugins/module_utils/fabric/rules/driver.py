# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY52x to RY54x: the NIC driver, firmware parameters, IPoIB and partitions."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils import firmware_names
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import CNI, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.driver import (
    CONTAINER,
    ENDINGS,
    INSTALLED,
    REMOTE,
    Driver,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.infiniband import CONNECTED, NETDEV_MAX
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Firmware, Port
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils.urls import masked

_PORTS = """
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""
_RAILS = """
rails:
  gpu01: {mode: prefix, subnet: 172.16.0.0/17, node_prefix: 24}
  gpu02: {mode: prefix, subnet: 172.16.128.0/17, node_prefix: 24}
"""
_ISO = "/srv/MLNX_OFED_LINUX-24.10-1.1.4.0-ubuntu22.04-x86_64.iso"


def _profile(words: str) -> str:
    return "profiles:\n  hgx:\n    %s%s" % (words, _PORTS)


_IPOIB = "provider: spiderpool, attachment: ipoib"
_WHOLE = "provider: network-operator, attachment: host-device, link_layer: infiniband"


def _ipoib(words: str, netdev: str = "ibs1", kind: str = _IPOIB) -> str:
    return (
        "fabric: {name: ai, %s, mtu: 4092, infiniband: {%s}}\n"
        'profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: %s, pci: "0000:0b:00.0"}\n'
        '      gpu02: {netdev: ibs2, pci: "0000:0c:00.0"}\n' % (kind, words, netdev)
    )


UNUSED = rule(
    "RY520",
    "The driver is not installed, and yet has a source or version",
    _profile('driver: {kind: inbox, version: "24.10-1.1.4.0"}'),
    _profile("driver: {kind: inbox}"),
    why="The inbox driver is the kernel's own, a container's is the operator's: neither is installed from packages.",
)
FORM = rule(
    "RY521",
    "The driver does not come in this form",
    _profile("driver: {kind: doca, version: 2.9.3, source: %s}" % _ISO),
    _profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
    why="MLNX_OFED comes as an ISO or a tgz, DOCA as a package that brings its repository; both as a repository.",
)
RELEASE = rule(
    "RY522",
    "The source is of another release than the version",
    _profile('driver: {kind: mlnx, version: "24.10-0.7.0.0", source: %s}' % _ISO),
    _profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
)
UNSIGNED = rule(
    "RY523",
    "A repository has no key",
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca}"),
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/pki/doca.asc}"),
    why="Without a key nothing tells whose packages they are, and they run as root.",
)
NOBODY = rule(
    "RY524",
    "Nobody brings the driver's container",
    "fabric: {name: ai, provider: cni, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}"),
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}"),
    WARNING,
)
APART = rule(
    "RY525",
    "The driver's container would run beside another driver",
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}")
    + "groups:\n  old: {driver: {kind: inbox}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, groups: [old]}\n",
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}")
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    WARNING,
    why="The operator's policy has one driver for all nodes of the fabric, and its container unloads the"
    " host's modules.",
)
PASSWORD = rule(
    "RY526",
    "A repository's address holds a password",
    _profile(
        'driver: {kind: doca, version: 2.9.3, source: "https://me:hush@mirror.example.com/doca", key: /etc/doca.asc}'
    ),
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/doca.asc}"),
    why="A fabric file holds no secret: plans, reports and pages show what it says. The variable ofed_source takes the"
    " source's place on nodes, with user and password, and can be in a file that ansible-vault encrypts.",
)
PARAMETER = rule(
    "RY530",
    "A firmware parameter has a name that none can have",
    _profile("firmware: {parameters: {relaxed-ordering: true}}"),
    _profile("firmware: {parameters: {relaxed_ordering: true}}"),
)
PARAMETER_VALUE = rule(
    "RY531",
    "A firmware parameter has a value that it does not take",
    _profile("firmware: {parameters: {cnp_dscp: 64}}"),
    _profile("firmware: {parameters: {cnp_dscp: 48}}"),
)
TWICE = rule(
    "RY532",
    "A firmware parameter is said twice",
    _profile("firmware: {num_of_vfs: 8, parameters: {NUM_OF_VFS: 16}}"),
    _profile("firmware: {num_of_vfs: 8}"),
)
HIDDEN = rule(
    "RY533",
    "A firmware parameter that another one hides",
    _profile("firmware: {parameters: {max_acc_out_read: 128}}"),
    _profile("firmware: {parameters: {advanced_pci_settings: true, max_acc_out_read: 128}}"),
    WARNING,
    why="Cards show MAX_ACC_OUT_READ only while ADVANCED_PCI_SETTINGS is in force. With both planned, a first reboot"
    " shows it and a second one brings it into force.",
)
PKEY = rule(
    "RY540",
    "A partition key is none",
    _ipoib("pkeys: [0xffff]", kind=_WHOLE),
    _ipoib("pkeys: [0x8001]", kind=_WHOLE),
    why="A key has 15 bits and the bit of full membership; 0 is none, and 0x7fff the partition that everybody is in.",
)
LAYER = rule(
    "RY541",
    "InfiniBand is described and the link layer is Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, infiniband: {ipoib_mode: datagram}}",
    _ipoib("ipoib_mode: datagram"),
)
CHILD = rule(
    "RY542",
    "A port's name leaves no room for its child interfaces",
    _ipoib("pkeys: [0x8001]", "ibp11s0f0np0", _WHOLE),
    _ipoib("pkeys: [0x8001]", "ibs1", _WHOLE),
    why="The kernel names the child of a partition after its port, with a full stop and four digits, in 15 characters.",
)
MODE = rule(
    "RY543",
    "Today's cards have no connected mode",
    _ipoib("ipoib_mode: connected"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The accelerated IPoIB of ConnectX-4 and later works in datagram mode alone. The driver refuses the other,"
    " unless it was loaded without (ipoib_enhanced=0).",
)
NOT_PODS = rule(
    "RY544",
    "Partitions do not reach pods on IPoIB",
    _ipoib("pkeys: [0x8001]"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The ipoib plugin makes a pod's interface as a child of the port, with the port's own key, which is that at"
    " index 0 of its table; and the kernel makes no child of a child, so the interface of a partition cannot be the"
    " pods' master. With ib-sriov each VF is in the partitions that the subnet manager gives its GUID.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    seen: set[int] = set()
    for variant in variants.with_unused():
        for found in (variant.driver, variant.firmware):
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            if isinstance(found, Driver):
                _driver(fabric, found, report)
            else:
                _parameters(found, report)
    _apart(fabric, variants, report)
    _infiniband(fabric, variants, report)


def _apart(fabric: Fabric, variants: Variants, report: Report) -> None:
    drivers = [variant.driver for variant in variants if variant.driver and variant.driver.kind]
    hosts = sorted({str(each.kind) for each in drivers if each.kind != CONTAINER})
    contained = next((each for each in drivers if each.kind == CONTAINER), None)
    if contained and hosts and fabric.provider != CNI:
        message = "other nodes have %s, and the container runs on all" % ", ".join(hosts)
        report.add(APART, contained.path + ("kind",), message, "set kind: container for all nodes, or for none")


def _driver(fabric: Fabric, driver: Driver, report: Report) -> None:
    if driver.kind is None:
        return
    if driver.kind not in INSTALLED:
        for key in ("version", "source", "key", "packages"):
            if getattr(driver, key):
                message = "%s is said, and the driver %s is not installed from packages" % (key, driver.kind)
                remedy = "remove it, or set kind: doca or mlnx"
                if driver.kind == CONTAINER:
                    remedy = "remove it; the container's release is images.driver of kubernetes_options"
                report.add(UNUSED, driver.path + (key,), message, remedy)
        if driver.kind == CONTAINER and fabric.provider == CNI:
            message = "the provider is cni, and the driver's container comes with an operator"
            remedy = "bring the container yourself, or set provider: network-operator"
            report.add(NOBODY, driver.path + ("kind",), message, remedy)
        return
    if driver.source is None:
        return
    path = driver.path + ("source",)
    ending = next((each for each in ENDINGS if driver.source.endswith(each)), None)
    if ending and driver.kind not in ENDINGS[ending]:
        message = "%s does not come as %s" % (driver.kind, ending)
        report.add(FORM, path, message, "set kind: %s, or name a repository" % ENDINGS[ending][0])
    elif ending and driver.version and driver.version not in driver.source:
        message = "%s does not name the release %s" % (shown(driver.source.rpartition("/")[2]), shown(driver.version))
        report.add(RELEASE, path, message, "write the version of the source, or name another source")
    source = masked(driver.source)
    if source != driver.source:
        remedy = "take user and password out, and give the whole address as ofed_source, from a file of ansible-vault"
        report.add(PASSWORD, path, "%s holds a password, which would be shown" % shown(source), remedy)
    if driver.source.startswith(REMOTE) and not driver.key and not driver.unsigned:
        message = "the repository %s has no key" % shown(source)
        report.add(UNSIGNED, path, message, "name the key's file with key, or set unsigned: true")


def _parameters(firmware: Firmware, report: Report) -> None:
    said: dict[str, str] = {}
    for name in firmware.parameters:
        path: Path = firmware.path + ("parameters", name)
        parameter = firmware_names.parameter(name)
        option = firmware_names.OPTIONS.get(parameter) or ("link_type" if parameter.startswith("LINK_TYPE_P") else None)
        other = said.setdefault(parameter, name)
        if option or other != name:
            message = "%s is said by %s" % (parameter, option or other)
            report.add(TWICE, path, message, "take it out, and say it as %s" % (option or other))
    guard = next(
        (name for name in firmware.parameters if firmware_names.parameter(name) == firmware_names.ADVANCED), None
    )
    for name in firmware.parameters:
        if firmware_names.parameter(name) in firmware_names.GUARDED and guard is None:
            message = "%s shows only while %s is in force" % (firmware_names.parameter(name), firmware_names.ADVANCED)
            report.add(HIDDEN, firmware.path + ("parameters", name), message, "plan advanced_pci_settings: true too")


def _infiniband(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.link_layer is None:
        return
    _partitions(fabric, variants, report)
    infiniband = fabric.infiniband
    if infiniband is None:
        return
    if fabric.link_layer != INFINIBAND:
        message = "the link layer is %s" % fabric.link_layer
        report.add(LAYER, infiniband.path, message, "take infiniband out, or set link_layer: infiniband")
        return
    if infiniband.ipoib_mode == CONNECTED:
        message = "connected is planned, which the accelerated IPoIB of ConnectX-4 and later does not have"
        report.add(MODE, infiniband.path + ("ipoib_mode",), message, "write datagram")


def _partitions(fabric: Fabric, variants: Variants, report: Report) -> None:
    """The partitions of each variant: its own, or the fabric's."""
    for variant in variants.with_unused():
        said = variant.partitions or fabric.infiniband
        if said is None:
            continue
        if fabric.link_layer != INFINIBAND:
            if said is variant.partitions:
                message = "the link layer is %s" % fabric.link_layer
                report.add(LAYER, said.path, message, "remove infiniband, or set link_layer: infiniband")
            continue
        if not said.pkeys:
            continue
        if variant.attachment == "ipoib":
            message = "nodes get an interface for each key, and pods on IPoIB have the port's own key alone"
            remedy = "let the subnet manager put the pods' partition at index 0 of the ports, or take ib-sriov for pods"
            report.add(NOT_PODS, said.path + ("pkeys",), message, remedy)
        _children(variant.ports.values(), report)
        for node in variants.nodes_of(variant):
            if node.ports:
                _children(ports_of(node, variant).values(), report)


def _children(ports: t.Iterable[Port], report: Report) -> None:
    for port in ports:
        if port.netdev is not None and len(port.netdev) > NETDEV_MAX:
            message = "%s has more than %d characters" % (shown(port.netdev), NETDEV_MAX)
            report.add(CHILD, port.path, message, "give the port a shorter name")
