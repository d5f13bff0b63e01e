# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY6xx: VFs, their attributes, MAC addresses and GUIDs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)


def _fabric(vfs: str, more: str = "", attachment: str = "sriov") -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: %s%s%s}" % (
        attachment,
        more,
        vfs and ", vfs: {%s}" % vfs,
    )


_GOOD = _fabric("count: 4, trust: true")

_PORTS = """
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""

VFS_UNUSED = rule(
    "RY601 vfs-without-attachment: VFs that the attachment does not use",
    "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: macvlan, vfs: {count: 4}}",
    _GOOD,
)

VFS_MISSING = rule("RY602 missing-vf-count: Missing VF count", _fabric(""), _GOOD)

RATES = rule(
    "RY603 vf-rate-order: Minimum VF rate above the maximum",
    _fabric("count: 4, min_tx_rate: 20000, max_tx_rate: 10000"),
    _fabric("count: 4, min_tx_rate: 10000, max_tx_rate: 20000"),
)

QOS = rule(
    "RY604 vf-priority-without-vlan: VF priority without a VLAN",
    _fabric("count: 4, qos: 3"),
    _fabric("count: 4, vlan: 100, qos: 3"),
)

ETHERNET_ONLY = rule(
    "RY605 vf-attribute-link-layer: Ethernet VF attribute on InfiniBand",
    _fabric("count: 4, vlan: 100", "", "ib-sriov"),
    _fabric("count: 4, link_state: enable", "", "ib-sriov"),
)

INFINIBAND_MANY = rule(
    "RY606 many-vfs: More VFs than InfiniBand cards commonly support",
    _fabric("count: 32", "", "ib-sriov"),
    _fabric("count: 16", "", "ib-sriov"),
    WARNING,
)

FIRMWARE_VFS = rule(
    "RY607 firmware-vf-count: Fewer VFs in firmware than planned",
    _fabric("count: 8") + "\nprofiles:\n  hgx:\n    firmware: {num_of_vfs: 4}" + _PORTS,
    _fabric("count: 8") + "\nprofiles:\n  hgx:\n    firmware: {num_of_vfs: 8}" + _PORTS,
)

FIRMWARE_OFF = rule(
    "RY608 sriov-off-in-firmware: SR-IOV disabled in firmware",
    _fabric("count: 8") + "\nprofiles:\n  hgx:\n    firmware: {sriov_en: false}" + _PORTS,
    _fabric("count: 8") + "\nprofiles:\n  hgx:\n    firmware: {sriov_en: true}" + _PORTS,
)

COLLISION = rule(
    "RY609 vf-identity-collision: Two VFs with the same MAC address or GUID",
    # Found by search: on gpu01, VF 0 of both nodes hashes to 12:da:a9:45:6e:8f.
    _fabric("count: 1") + "\nnodes:\n  ai-632966: {profile: hgx, index: 1}\n  ai-6307574: {profile: hgx, index: 2}",
    _fabric("count: 1") + "\nnodes:\n  ai-1: {profile: hgx, index: 1}\n  ai-2: {profile: hgx, index: 2}",
)

PODS_MANY = rule(
    "RY610 too-few-vfs: Fewer VFs than pods on a node",
    _fabric("count: 4", ", pods_per_node: 8"),
    _fabric("count: 8", ", pods_per_node: 8"),
    why="Each pod takes one VF of every rail, so the pods above that count stay pending.",
)

NO_VFS = rule("RY611 zero-vfs: Zero VFs for an attachment that needs them", _fabric("count: 0"), _fabric("count: 8"))

LINK_DOWN = rule(
    "RY612 vf-link-down: VF link permanently down",
    _fabric("count: 4, link_state: disable"),
    _fabric("count: 4, link_state: auto"),
    WARNING,
)

ONE_DEVICE = rule(
    "RY613 too-few-devices: Fewer devices than pods on a node",
    "fabric: {name: ai, provider: network-operator, mtu: 4200, attachment: host-device, pods_per_node: 2}",
    "fabric: {name: ai, provider: network-operator, mtu: 4200, attachment: host-device, pods_per_node: 1}",
    why="With host-device a pod gets the port itself, and a node has one on each rail.",
)
