# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY52x to RY54x: the NIC driver, firmware parameters, IPoIB and partitions."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import masked
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import LINK, NONE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    dotted,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import HOST, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import REMOTE, Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Firmware,
    Port,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    CONNECTED,
    NO_IPOIB,
    PARENT_MAX,
    Infiniband,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import CONTAINER
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import vendor_firmwares
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import (
    ENDINGS,
    INSTALLED,
)

_RAILS = """
rails:
  gpu01: {mode: prefix, subnet: 172.16.0.0/17, node_prefix: 24}
  gpu02: {mode: prefix, subnet: 172.16.128.0/17, node_prefix: 24}
"""

_ISO = "/srv/MLNX_OFED_LINUX-24.10-1.1.4.0-ubuntu22.04-x86_64.iso"

_IPOIB = "provider: spiderpool, attachment: ipoib"

_WHOLE = "provider: network-operator, attachment: host-device, link_layer: infiniband"


def _ipoib(settings: str, netdev: str = "ibs1", kind: str = _IPOIB) -> str:
    return (
        "fabric: {name: ai, %s, mtu: 4092, infiniband: {%s}}\n"
        'profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: %s, pci: "0000:0b:00.0"}\n'
        '      gpu02: {netdev: ibs2, pci: "0000:0c:00.0"}\n' % (kind, settings, netdev)
    )


_NO_IPOIB = (
    "fabric: {name: ai, provider: network-operator, attachment: ib-sriov, vfs: {count: 4}, mtu: 4092,"
    " infiniband: {ipoib_mode: none}}\nrails:\n  gpu01: {%s}\n  gpu02: {%s}\n"
    'profiles:\n  hgx:\n    ports: {gpu01: {pci: "0000:0b:00.0"}, gpu02: {pci: "0000:0c:00.0"}}\n'
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    checked: set[int] = set()
    for variant in variants.with_unused():
        for section in (variant.driver, variant.firmware):
            if section is None or id(section) in checked:
                continue
            checked.add(id(section))
            if isinstance(section, Driver):
                _driver(fabric, section, report)
            else:
                _parameters(section, report)
    _mixed_containers(fabric, variants, report)
    _infiniband(fabric, variants, report)


CONTAINER_CONFLICT = rule(
    "RY525 driver-container-conflict: Driver container and another driver in one fabric",
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + example_file.profile("driver: {kind: container}")
    + "groups:\n  old: {driver: {kind: inbox}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, groups: [old]}\n",
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + example_file.profile("driver: {kind: container}")
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    WARNING,
    why="The policy of the operator has one driver for all nodes of the fabric, and its container unloads the modules"
    " of the host.",
)


def _mixed_containers(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report nodes with a driver of the host if other nodes use the driver container, which runs on all nodes."""
    drivers = [variant.driver for variant in variants if variant.driver and variant.driver.kind]
    hosts = sorted({str(each.kind) for each in drivers if each.kind != CONTAINER})
    contained = next((each for each in drivers if each.kind == CONTAINER), None)
    if contained and hosts and facts_of(fabric.provider).driver_container:
        message = "other nodes have %s, but the container runs on all nodes" % ", ".join(hosts)
        report.add(
            CONTAINER_CONFLICT, contained.path + ("kind",), message, "set kind: container for all nodes, or for none"
        )


UNUSED = rule(
    "RY520 driver-not-installed: Source or version of a driver that is not installed",
    example_file.profile('driver: {kind: inbox, version: "24.10-1.1.4.0"}'),
    example_file.profile("driver: {kind: inbox}"),
    why="The inbox driver is part of the kernel, and an operator provides the driver in a container. Neither is"
    " installed from packages.",
)

FORM = rule(
    "RY521 driver-package-form: Unsupported form of driver package",
    example_file.profile("driver: {kind: doca, version: 2.9.3, source: %s}" % _ISO),
    example_file.profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
    why="MLNX_OFED is an ISO, a tgz or a repository. DOCA is a repository, or a package that adds its repository.",
)

RELEASE = rule(
    "RY522 driver-release-mismatch: Driver version that differs from the release of its source",
    example_file.profile('driver: {kind: mlnx, version: "24.10-0.7.0.0", source: %s}' % _ISO),
    example_file.profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
)

UNSIGNED = rule(
    "RY523 repository-without-key: Repository without a signing key",
    example_file.profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca}"),
    example_file.profile(
        "driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/pki/doca.asc}"
    ),
    why="Without a key the origin of the packages is not verified, and they run as root.",
)

NOT_DEPLOYED = rule(
    "RY524 driver-container-missing: Driver container that the provider does not deploy",
    "fabric: {name: ai, provider: cni, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + example_file.profile("driver: {kind: container}"),
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + example_file.profile("driver: {kind: container}"),
    WARNING,
)

PASSWORD = rule(
    "RY526 password-in-address: Password in a repository address",
    example_file.profile(
        'driver: {kind: doca, version: 2.9.3, source: "https://me:hush@mirror.example.com/doca", key: /etc/doca.asc}'
    ),
    example_file.profile(
        "driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/doca.asc}"
    ),
    why="A fabric file contains no secrets: plans and reports show its values. On nodes, the variable ofed_source"
    " replaces the source. It can contain user and password, in a file that ansible-vault encrypts.",
)


def _driver(fabric: Fabric, driver: Driver, report: Report) -> None:
    """Report settings of a driver that do not go together."""
    if driver.kind is None:
        return
    if driver.kind not in INSTALLED:
        for key in ("version", "source", "key", "packages"):
            if getattr(driver, key):
                message = "%s is set, but the driver %s is not installed from packages" % (key, driver.kind)
                remedy = "remove it, or set kind: %s" % " or ".join(INSTALLED)
                if driver.kind == CONTAINER:
                    remedy = "remove it; the container's release is images.driver of kubernetes_options"
                report.add(UNUSED, driver.path + (key,), message, remedy)
        if driver.kind == CONTAINER and not facts_of(fabric.provider).driver_container:
            message = "with the provider %s, no operator deploys the driver's container" % fabric.provider
            remedy = "deploy the container yourself, or set provider: network-operator"
            report.add(NOT_DEPLOYED, driver.path + ("kind",), message, remedy)
        return
    if driver.source is None:
        return
    path = driver.path + ("source",)
    ending = next((each for each in ENDINGS if driver.source.endswith(each)), None)
    if ending and driver.kind not in ENDINGS[ending]:
        message = "%s is not available as %s" % (driver.kind, ending)
        report.add(FORM, path, message, "set kind: %s, or use a repository as source" % ENDINGS[ending][0])
    elif ending and driver.version and driver.version not in driver.source:
        message = "%s does not name the release %s" % (shown(driver.source.rpartition("/")[2]), shown(driver.version))
        report.add(RELEASE, path, message, "write the version of the source, or use another source")
    source = masked(driver.source)
    if source != driver.source:
        remedy = (
            "remove user and password, and set the whole address as ofed_source in a file that ansible-vault encrypts"
        )
        report.add(PASSWORD, path, "%s contains a password, which reports would show" % shown(source), remedy)
    if driver.source.startswith(REMOTE) and not driver.key and not driver.unsigned:
        message = "the repository %s has no signing key" % shown(source)
        report.add(UNSIGNED, path, message, "set key to the path of the key file, or set unsigned: true")


TWICE = rule(
    "RY532 duplicate-firmware-parameter: Duplicate firmware parameter",
    example_file.profile("firmware: {num_of_vfs: 8, parameters: {NUM_OF_VFS: 16}}"),
    example_file.profile("firmware: {num_of_vfs: 8}"),
)

HIDDEN = rule(
    "RY533 hidden-firmware-parameter: Firmware parameter hidden by another one",
    example_file.profile("firmware: {parameters: {max_acc_out_read: 128}}"),
    example_file.profile("firmware: {parameters: {advanced_pci_settings: true, max_acc_out_read: 128}}"),
    WARNING,
    why="Cards have MAX_ACC_OUT_READ only while ADVANCED_PCI_SETTINGS is in effect. With both set, a first reboot"
    " makes it available and a second one activates it.",
)


def _parameters(firmware: Firmware, report: Report) -> None:
    """Report firmware parameters that are set twice, or hidden by others."""
    owners: dict[str, str] = {}
    parameters = [(name, vendor_firmwares.parameters_of(name)) for name in firmware.parameters]
    read = {name: (known, known.parameter(name)) for name, known in parameters if known}
    for name, (known, parameter) in read.items():
        path: Path = firmware.path + ("parameters", name)
        option = known.option(parameter)
        other = owners.setdefault(parameter, name)
        if option or other != name:
            message = "%s is already set by %s" % (parameter, option or other)
            report.add(TWICE, path, message, "remove it, and use %s" % (option or other))
    for name, (known, parameter) in read.items():
        if parameter in known.guarded and known.guard not in owners:
            message = "%s is available only while %s is in effect" % (parameter, known.guard)
            remedy = "add %s: true" % known.guard.lower()
            report.add(HIDDEN, firmware.path + ("parameters", name), message, remedy)


LAYER = rule(
    "RY541 infiniband-on-ethernet: InfiniBand settings on Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, infiniband: {ipoib_mode: datagram}}",
    _ipoib("ipoib_mode: datagram"),
)

MODE = rule(
    "RY543 connected-mode: IPoIB connected mode, which current cards do not support",
    _ipoib("ipoib_mode: connected"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The accelerated IPoIB of ConnectX-4 and later works in datagram mode only. The driver rejects connected mode,"
    " unless it was loaded with ipoib_enhanced=0.",
)


def _infiniband(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report InfiniBand settings that the link layer or the mode does not support."""
    if fabric.link_layer is None:
        return
    _partitions(fabric, variants, report)
    _links(fabric, variants, report)
    holders = [(rail.infiniband, [rail]) for rail in fabric.rails] + [(fabric.infiniband, fabric.rails)]
    for infiniband, rails in holders:
        if infiniband is None:
            continue
        layers = [fabric.link_layer_on(rail) for rail in rails] or [fabric.link_layer]
        if INFINIBAND not in layers:
            message = "the link layer is %s" % layers[0]
            report.add(LAYER, infiniband.path, message, "remove infiniband, or set link_layer: infiniband")
        elif infiniband.ipoib_mode == NO_IPOIB:
            _without_interface(fabric, variants, infiniband, rails, report)
        elif infiniband.ipoib_mode == CONNECTED:
            message = "the accelerated IPoIB of ConnectX-4 and later does not support connected mode"
            report.add(MODE, infiniband.path + ("ipoib_mode",), message, "write datagram")


_OF_LINKS = "addresses: {mode: link, supernet: 172.20.0.0/16, rail_prefix: 24}\n"
_OF_HOST = "fabric: {name: ai, provider: none, link_layer: infiniband, mtu: 4092}\nrails: {gpu01: {}, gpu02: {}}\n"
_OF_POD = "fabric: {name: ai, %s, mtu: 4092}\nrails: {gpu01: {}, gpu02: {}}\n" % _WHOLE
_OF_POD += 'profiles: {hgx: {ports: {gpu01: {pci: "0000:0b:00.0"}, gpu02: {pci: "0000:0c:00.0"}}}}\n'
_NO_ADDRESSES = "addresses: {mode: none}\n"
_WHY = "A leaf of InfiniBand has no address."

LINKS = rule(
    "RY546 infiniband-links: Links to leaves on InfiniBand",
    _OF_HOST + _OF_LINKS,
    _OF_HOST + _NO_ADDRESSES,
    why=_WHY + " The IPoIB interfaces of a rail share a subnet, and RDMA needs no addresses.",
)

POD_LINKS = rule(
    "RY547 infiniband-links-of-pods: Links from pods to leaves on InfiniBand",
    _OF_POD + _OF_LINKS,
    _OF_POD + _NO_ADDRESSES,
    WARNING,
    why=_WHY,
)


def _links(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report links to leaves on InfiniBand, each setting once."""
    known = variants.with_unused()
    for rail in fabric.rails:
        if rail.mode == LINK and fabric.link_layer_on(rail) == INFINIBAND:
            attachments = {variant.attachment_on(rail) for variant in known} or {fabric.attachment}
            broken = LINKS if attachments & {HOST, "ipoib"} else POD_LINKS
            message = "the link layer of %s is infiniband, whose leaves have no addresses" % rail.name
            report.add(broken, rail.where("mode"), message, "write none, or subnet for addresses of IPoIB")


NO_INTERFACE = rule(
    "RY545 setting-of-missing-interface: Setting of an interface that InfiniBand ports without IPoIB do not have",
    _NO_IPOIB % ("mode: prefix, node_prefix: 24, subnet: 172.16.0.0/17", "mode: none"),
    _NO_IPOIB % ("mode: none", "mode: none"),
    why="With ipoib_mode: none, a port has an RDMA device and no netdev, so it has no address, no name and no child"
    " interface of a partition.",
)


def _without_interface(
    fabric: Fabric, variants: Variants, infiniband: Infiniband, rails: t.Sequence[Rail], report: Report
) -> None:
    """Report settings that need the interface of ports without IPoIB."""
    path = infiniband.path + ("ipoib_mode",)
    bare = [
        rail for rail in rails if fabric.link_layer_on(rail) == INFINIBAND and fabric.ipoib_mode_on(rail) == NO_IPOIB
    ]
    if infiniband.pkeys:
        message = "partitions get child interfaces, and the ports have no interface"
        report.add(NO_INTERFACE, infiniband.path + ("pkeys",), message, "remove pkeys, or ipoib_mode")
    for rail in bare:
        if rail.mode not in (None, NONE):
            message = "the ports of %s have no interface that could have an address" % rail.name
            report.add(NO_INTERFACE, rail.path, message, "write mode: none, or remove %s" % dotted(path))
    for variant, ports in variants.tables():
        for rail in bare:
            port = ports.get(rail.name)
            if port is None:
                continue
            attachment = variant.attachment_on(rail)
            moved = facts_of(fabric.provider).slots and rail.for_pods
            if attachment == "ipoib" or (moved and attachment != HOST):
                message = "%s needs an interface of the port, and %s has none" % (
                    "the agent" if moved else attachment,
                    rail.name,
                )
                report.add(NO_INTERFACE, path, message, "remove ipoib_mode, or use ib-sriov with another provider")
            if port.interface is not None and "netdev" in port.paths:
                message = "%s is the name of an interface, and the ports of %s have none" % (port.interface, rail.name)
                report.add(NO_INTERFACE, port.paths["netdev"], message, "remove netdev, and identify the port by pci")


NOT_PODS = rule(
    "RY544 partitions-without-pods: Partitions that do not reach pods on IPoIB",
    _ipoib("pkeys: [0x8001]"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The ipoib plugin creates the interface of a pod as a child of the port, with the key at index 0 of the port's"
    " table. The kernel creates no children of children, so the interface of a partition cannot be the master of pods."
    " With ib-sriov, a VF is in the partitions that the subnet manager assigns to its GUID.",
)


def _partitions(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Check the partition keys that the rail, the variant or the fabric sets."""
    for variant in variants.with_unused():
        names = variants.rails_of(variant)
        rails = [rail for rail in fabric.rails if rail.name in names]
        layers = [fabric.link_layer_on(rail) for rail in rails] or [fabric.link_layer]
        if variant.partitions and INFINIBAND not in layers:
            message = "the link layer is %s" % layers[0]
            report.add(LAYER, variant.partitions.path, message, "remove infiniband, or set link_layer: infiniband")
        keyed = set()
        for rail in rails:
            section, pkeys = variant.pkeys_on(fabric, rail)
            if not section or not pkeys or fabric.link_layer_on(rail) != INFINIBAND:
                continue
            keyed.add(rail.name)
            if variant.attachment_on(rail) == "ipoib":
                message = "nodes get an interface for each key, but pods on IPoIB have only the port's own key"
                remedy = "configure the pods' partition at index 0 of the ports in the subnet manager, or use ib-sriov"
                report.add(NOT_PODS, section.path + ("pkeys",), message, remedy)
        _children([port for rail, port in variant.ports.items() if rail in keyed], report)
        for node in variants.nodes_of(variant):
            if node.ports:
                _children([port for rail, port in ports_of(node, variant).items() if rail in keyed], report)


CHILD = rule(
    "RY542 no-room-for-child-name: Netdev name too long for child interfaces",
    _ipoib("pkeys: [0x8001]", "ibp11s0f0np0", _WHOLE),
    _ipoib("pkeys: [0x8001]", "ibs1", _WHOLE),
    why="The name of a child interface is that of the port, a full stop and four digits. The kernel accepts at most 15"
    " characters.",
)


def _children(ports: t.Iterable[Port], report: Report) -> None:
    """Report netdevs whose names are too long for child interfaces."""
    for port in ports:
        if port.interface is not None and len(port.interface) > PARENT_MAX:
            message = "%s has more than %d characters" % (shown(port.interface), PARENT_MAX)
            report.add(CHILD, port.path, message, "give the port a shorter name")
