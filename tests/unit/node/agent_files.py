# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node files of the rail agent."""

from __future__ import annotations

import typing as t


def slot(rail: int, number: int, resource: str, **values: t.Any) -> dict[str, t.Any]:
    base: dict[str, t.Any] = {
        "number": number,
        "resource": resource,
        "address": "172.16.%d.%d/24" % (10 + rail, number + 1),
        "address6": "fd00:%d::%x/64" % (10 + rail, number + 1),
        "mac": "02:00:00:00:%02x:%02x" % (rail, number),
        "vf": None,
    }
    return dict(base, **values)


def rail(number: int, **values: t.Any) -> dict[str, t.Any]:
    """A rail ``gpu0N`` with the port ``railN``: slots 0 and 1 for all rails, slot 2 of its own."""
    name = "gpu%02d" % number
    base: dict[str, t.Any] = {
        "rail": name,
        "number": number,
        "netdev": "rail%d" % number,
        "pci": None,
        "rdma": None,
        "rdma_type": "hardware",
        "interface": "net%d" % number,
        "mtu": 1400,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "gateway": "172.16.%d.254" % (10 + number),
        "gateway6": "fd00:%d::fe" % (10 + number),
        "routes": [],
        "sysctl": {"arp_ignore": "1", "rp_filter": "2"},
        "slots": [slot(number, 0, "rails"), slot(number, 1, "rails"), slot(number, 2, name)],
    }
    return dict(base, **values)


def document(*rails: dict[str, t.Any], **values: t.Any) -> dict[str, t.Any]:
    base: dict[str, t.Any] = {
        "format": 1,
        "fabric": "ai",
        "node": "node-1",
        "resource_prefix": "railyard.fabric",
        "attachment": "macvlan",
        "rdma_mode": "shared",
        "conflict_check": True,
        "env": {"NCCL_IB_GID_INDEX": "3"},
        "rails": list(rails),
    }
    return dict(base, **values)
