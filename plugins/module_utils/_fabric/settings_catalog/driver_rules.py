# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY52x to RY54x: the NIC driver, firmware parameters, IPoIB and partitions."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

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


def _profile(settings: str) -> str:
    return "profiles:\n  hgx:\n    %s%s" % (settings, _PORTS)


_IPOIB = "provider: spiderpool, attachment: ipoib"

_WHOLE = "provider: network-operator, attachment: host-device, link_layer: infiniband"


def _ipoib(settings: str, netdev: str = "ibs1", kind: str = _IPOIB) -> str:
    return (
        "fabric: {name: ai, %s, mtu: 4092, infiniband: {%s}}\n"
        'profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: %s, pci: "0000:0b:00.0"}\n'
        '      gpu02: {netdev: ibs2, pci: "0000:0c:00.0"}\n' % (kind, settings, netdev)
    )


UNUSED = rule(
    "RY520 driver-not-installed: Source or version of a driver that is not installed",
    _profile('driver: {kind: inbox, version: "24.10-1.1.4.0"}'),
    _profile("driver: {kind: inbox}"),
    why="The inbox driver is part of the kernel, and an operator provides the driver in a container. Neither is"
    " installed from packages.",
)

FORM = rule(
    "RY521 driver-package-form: Unsupported form of driver package",
    _profile("driver: {kind: doca, version: 2.9.3, source: %s}" % _ISO),
    _profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
    why="MLNX_OFED is an ISO, a tgz or a repository. DOCA is a repository, or a package that adds its repository.",
)

RELEASE = rule(
    "RY522 driver-release-mismatch: Driver version that differs from the release of its source",
    _profile('driver: {kind: mlnx, version: "24.10-0.7.0.0", source: %s}' % _ISO),
    _profile('driver: {kind: mlnx, version: "24.10-1.1.4.0", source: %s}' % _ISO),
)

UNSIGNED = rule(
    "RY523 repository-without-key: Repository without a signing key",
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca}"),
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/pki/doca.asc}"),
    why="Without a key the origin of the packages is not verified, and they run as root.",
)

NOT_DEPLOYED = rule(
    "RY524 driver-container-missing: Driver container that the provider does not deploy",
    "fabric: {name: ai, provider: cni, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}"),
    "fabric: {name: ai, provider: network-operator, attachment: macvlan, mtu: 4200}\n"
    + _RAILS
    + _profile("driver: {kind: container}"),
    WARNING,
)

CONTAINER_CONFLICT = rule(
    "RY525 driver-container-conflict: Driver container and another driver in one fabric",
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
    why="The policy of the operator has one driver for all nodes of the fabric, and its container unloads the modules"
    " of the host.",
)

PASSWORD = rule(
    "RY526 password-in-address: Password in a repository address",
    _profile(
        'driver: {kind: doca, version: 2.9.3, source: "https://me:hush@mirror.example.com/doca", key: /etc/doca.asc}'
    ),
    _profile("driver: {kind: doca, version: 2.9.3, source: https://mirror.example.com/doca, key: /etc/doca.asc}"),
    why="A fabric file contains no secrets: plans and reports show its values. On nodes, the variable ofed_source"
    " replaces the source. It can contain user and password, in a file that ansible-vault encrypts.",
)

PARAMETER = rule(
    "RY530 firmware-parameter-name: Invalid firmware parameter name",
    _profile("firmware: {parameters: {relaxed-ordering: true}}"),
    _profile("firmware: {parameters: {relaxed_ordering: true}}"),
)

PARAMETER_VALUE = rule(
    "RY531 firmware-parameter-value: Invalid firmware parameter value",
    _profile("firmware: {parameters: {cnp_dscp: 64}}"),
    _profile("firmware: {parameters: {cnp_dscp: 48}}"),
)

TWICE = rule(
    "RY532 duplicate-firmware-parameter: Duplicate firmware parameter",
    _profile("firmware: {num_of_vfs: 8, parameters: {NUM_OF_VFS: 16}}"),
    _profile("firmware: {num_of_vfs: 8}"),
)

HIDDEN = rule(
    "RY533 hidden-firmware-parameter: Firmware parameter hidden by another one",
    _profile("firmware: {parameters: {max_acc_out_read: 128}}"),
    _profile("firmware: {parameters: {advanced_pci_settings: true, max_acc_out_read: 128}}"),
    WARNING,
    why="Cards have MAX_ACC_OUT_READ only while ADVANCED_PCI_SETTINGS is in effect. With both set, a first reboot"
    " makes it available and a second one activates it.",
)

PKEY = rule(
    "RY540 invalid-partition-key: Invalid partition key",
    _ipoib("pkeys: [0xffff]", kind=_WHOLE),
    _ipoib("pkeys: [0x8001]", kind=_WHOLE),
    why="A key has 15 bits and the bit of full membership. 0 is invalid, and 0x7fff is the default partition.",
)

LAYER = rule(
    "RY541 infiniband-on-ethernet: InfiniBand settings on Ethernet",
    "fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200, infiniband: {ipoib_mode: datagram}}",
    _ipoib("ipoib_mode: datagram"),
)

CHILD = rule(
    "RY542 no-room-for-child-name: Netdev name too long for child interfaces",
    _ipoib("pkeys: [0x8001]", "ibp11s0f0np0", _WHOLE),
    _ipoib("pkeys: [0x8001]", "ibs1", _WHOLE),
    why="The name of a child interface is that of the port, a full stop and four digits. The kernel accepts at most 15"
    " characters.",
)

MODE = rule(
    "RY543 connected-mode: IPoIB connected mode, which current cards do not support",
    _ipoib("ipoib_mode: connected"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The accelerated IPoIB of ConnectX-4 and later works in datagram mode only. The driver rejects connected mode,"
    " unless it was loaded with ipoib_enhanced=0.",
)

NOT_PODS = rule(
    "RY544 partitions-without-pods: Partitions that do not reach pods on IPoIB",
    _ipoib("pkeys: [0x8001]"),
    _ipoib("ipoib_mode: datagram"),
    WARNING,
    why="The ipoib plugin creates the interface of a pod as a child of the port, with the key at index 0 of the port's"
    " table. The kernel creates no children of children, so the interface of a partition cannot be the master of pods."
    " With ib-sriov, a VF is in the partitions that the subnet manager assigns to its GUID.",
)
