# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a planned port that a node may override: its identity, interface, RDMA device and expectations."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import EXPECTED, Port, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Member
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant

_MATCH = ("slot", "serial", "mac")


def overridable(variant: Variant, rail: Rail, port: Port) -> dict[str, t.Any]:
    """Return the keys that all ports have. ``pci`` and ``match`` are null above a bond or VLAN (see `optional`)."""
    profile = variant.profile
    identity = {"pci": None, "match": None} if port.bond or port.vlan else _identity(port)
    return {
        "pci": identity["pci"],
        "netdev": port.interface,
        "match": identity["match"],
        "rdma": _rdma(profile.soft_rdma, rail, port),
        "gpus": list(port.gpus),
        "expect": dict(
            {key: getattr(port, key) or profile.expected.get(key) for key in EXPECTED},
            gpu_distance=profile.gpu_distance if port.gpus else None,
        ),
    }


def optional(port: Port) -> dict[str, t.Any]:
    """Return the keys that only ports with a bond or VLAN, or with an interface of others, have."""
    managed = port.managed is not False
    found: dict[str, t.Any] = {} if managed else {"managed": False}
    if port.bond or port.vlan:
        found["lower"] = {
            "vlan": port.vlan.id if port.vlan else None,
            "parent": port.rdma_netdev if port.vlan else None,
            "bond": port.bond.host_variable(managed) if port.bond else None,
            "functions": [_identity(function) for function in port.functions],
        }
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


def _rdma(soft_rdma: str | None, rail: Rail, port: Port) -> dict[str, t.Any]:
    """Return the RDMA device of a port."""
    name = port.rdma
    if soft_rdma and not name:
        # Rails on different VLANs of one netdev share its device.
        name = "%s_%s" % (soft_rdma, _as_device(port.rdma_netdev) if port.bond or port.vlan else rail.name)
    device = {"name": name, "type": soft_rdma or "hardware"}
    return dict(device, port=port.rdma_port) if port.rdma_port else device


def _as_device(netdev: str | None) -> str:
    """Return the name of a netdev with the characters that are valid for an RDMA device."""
    return re.sub("[^A-Za-z0-9_.-]", "_", netdev or "")
