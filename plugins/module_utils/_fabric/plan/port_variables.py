# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a planned port that depend on the file only: its identity, interface, RDMA device and expectations,
which a node may override, its firmware, IPoIB settings and kind of rail."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    EXPECTED,
    HARDWARE,
    LINK_TYPE,
    Fabric,
    Port,
    Profile,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import child_netdev
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Member, Plane
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    ECN,
    MANAGED,
    QOS,
    NicFamily,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import (
    FAMILIES,
    keeps_names,
)

_MATCH = ("slot", "serial", "mac")


def overridable(variant: Variant, rail: Rail, port: Port) -> dict[str, t.Any]:
    """Return the keys that all ports have. ``pci`` and ``match`` are null above a bond or VLAN (see `optional`)."""
    profile = variant.profile
    identity = {"pci": None, "match": None} if port.bond or port.vlan else _identity(port)
    return {
        "pci": identity["pci"],
        "netdev": port.interface,
        "match": identity["match"],
        "rdma": _rdma(profile, rail, port),
        "gpus": list(port.gpus),
        "expect": dict(
            {key: getattr(port, key) or profile.expected.get(key) for key in EXPECTED},
            gpu_distance=profile.gpu_distance if port.gpus else None,
        ),
    }


def optional(fabric: Fabric, variant: Variant, rail: Rail, port: Port) -> dict[str, t.Any]:
    """Return the keys that only ports with a bond or VLAN, with several NICs or planes on their rail, with an interface
    of others, or with a NIC that takes only a part of the QoS have."""
    managed = port.managed is not False
    found: dict[str, t.Any] = {} if managed else {"managed": False}
    if rail.nics > 1:
        found["nic"] = rail.nic
    if rail.device_planes > 1:
        found["planes"] = {"balancing": HARDWARE, "count": rail.device_planes, "ports": _planes(rail, port)}
    if port.bond or port.vlan:
        found["lower"] = {
            "vlan": port.vlan.id if port.vlan else None,
            "parent": port.rdma_netdev if port.vlan else None,
            "bond": port.bond.host_variable(managed) if port.bond else None,
            "functions": [_identity(function) for function in port.functions],
        }
    family = FAMILIES.get(variant.profile.nic or "")
    qos = fabric.qos_on(rail, variant.profile.nic) if family else None
    if family and qos:
        settings = qos_model.host_variable(qos)
        on_nic = qos_on_nic(settings, family)
        if on_nic != settings:
            found["qos_on_nic"] = on_nic
    return found


def qos_on_nic(settings: dict[str, t.Any], family: NicFamily) -> dict[str, t.Any]:
    """Return the settings of QoS; None for a setting for which Railyard has no interface of this family."""
    found = dict(settings)
    if family.layers[QOS].level != MANAGED:
        # a change of 802.3x may switch off the PFC that the vendor's tool has set
        found.update(trust=None, pfc=None, ets=None, buffers=None, global_pause=None, dscp2prio=[])
    if family.layers[ECN].level != MANAGED:
        found["ecn"] = None
    return found


def _planes(rail: Rail, port: Port) -> list[dict[str, t.Any]]:
    """Return the planes over which the NIC distributes packets: with a bond, its members."""
    listed: t.Sequence[Plane | Member] = port.bond.members if port.bond else port.planes
    found = []
    for number in range(1, rail.device_planes + 1):
        plane = listed[number - 1] if number <= len(listed) else Plane()
        function = (plane.function or Member()) if isinstance(plane, Plane) else plane
        found.append({"plane": number, "rdma_port": getattr(plane, "rdma_port", None), **_identity(function)})
    return found


def firmware(fabric: Fabric, variant: Variant, rail: Rail) -> dict[str, t.Any] | None:
    """Return the firmware settings of a port; None if they are not managed."""
    settings = variant.firmware
    if settings is None:
        return None
    return {
        "link_type": settings.link_type or LINK_TYPE[fabric.link_layer_on(rail) or ""],
        "sriov_en": True if settings.sriov_en is None and variant.has_vfs_on(rail) else settings.sriov_en,
        "num_of_vfs": settings.num_of_vfs,
        "version": settings.version,
        "parameters": dict(settings.parameters),
    }


def ipoib(fabric: Fabric, variant: Variant, rail: Rail, port: Port) -> dict[str, t.Any] | None:
    """Return a port's IPoIB mode, partition keys and their child interfaces; None without settings."""
    section, pkeys = variant.pkeys_on(fabric, rail)
    if (section is None and rail.infiniband is None) or fabric.link_layer_on(rail) != INFINIBAND:
        return None
    children = [child_netdev(port.interface, key) for key in pkeys] if port.interface else []
    return {"mode": fabric.ipoib_mode_on(rail), "pkeys": ["0x%04x" % key for key in pkeys], "children": children}


def kind(fabric: Fabric, rail: Rail, nic: str | None) -> dict[str, t.Any]:
    """Return the values of a rail's kind that the file has, the link layer also if the attachment determines it, and
    the QoS on NICs of a family if it differs from the QoS of the fabric."""
    found: dict[str, t.Any] = {"role": rail.role} if rail.has_role else {}
    if rail.link_layer:
        found["link_layer"] = rail.link_layer
    if rail.attachment:
        found["attachment"] = rail.attachment
    qos = fabric.qos_on(rail, nic)
    if qos is not fabric.qos:
        found["qos"] = qos_model.host_variable(qos) if qos else None
    return found


def _identity(function: Port | Member) -> dict[str, t.Any]:
    """Return how a function is found: by PCI address, by netdev, or by values that ``port_matching`` resolves."""
    match = {key: getattr(function, key) for key in _MATCH}
    by_identity = any(match.values())
    rdma = getattr(function, "rdma", None)
    only_rdma = not by_identity and function.pci is None and function.netdev is None and rdma is not None
    match.update(rdma=rdma if only_rdma else None, port=function.port)
    return {
        "pci": function.pci,
        "netdev": function.netdev,
        "match": match if by_identity or only_rdma else None,
    }


def _rdma(profile: Profile, rail: Rail, port: Port) -> dict[str, t.Any]:
    """Return the RDMA device of a port. Without ``managed: false``, a hardware device gets the name."""
    name, soft_rdma = port.rdma, profile.soft_rdma
    if soft_rdma and not name:
        # Rails on different VLANs of one netdev share its device.
        name = "%s_%s" % (soft_rdma, _as_device(port.rdma_netdev) if port.bond or port.vlan else rail.name)
    device: dict[str, t.Any] = {"name": name, "type": soft_rdma or "hardware"}
    if name and not soft_rdma and keeps_names(profile.nic):
        device["managed"] = False
    number = port.rdma_port or (port.planes[0].rdma_port if port.planes else None)
    return dict(device, port=number) if number else device


def _as_device(netdev: str | None) -> str:
    """Return the name of a netdev with the characters that are valid for an RDMA device."""
    return re.sub("[^A-Za-z0-9_.-]", "_", netdev or "")
