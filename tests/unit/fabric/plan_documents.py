# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan documents of any size in the shape of ``Plan.document()``, for what reads them and for nothing else."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml


def document(nodes: int = 2, rails: int = 8, units: int = 0, planes: int = 1, gpus: int = 1) -> dict[str, t.Any]:
    """``nodes`` in all, spread over ``units`` (0: none) in equal parts; one prefix per node and rail."""
    names = [("gpu%02d" % (1 + at // planes), at % planes + 1, at + 1) for at in range(rails * planes)]
    full = [(base if planes == 1 else "%sp%d" % (base, plane), base, plane, number) for base, plane, number in names]
    per = -(-nodes // units) if units else nodes
    return {
        "format": 1,
        "fabric": {
            "name": "ai",
            "attachment": "sriov",
            "attachments": ["sriov"],
            "provider": "spiderpool",
            "rdma_mode": "exclusive",
            "link_layer": "ethernet",
            "mtu": 9000,
            "rails": [name for name, _base, _plane, _number in full],
            "max_nodes": nodes,
            "resource_prefix": "spidernet.io",
            "namespace": "kube-system",
            "qos": {
                "priority": 3,
                "dscp": 26,
                "trust": "dscp",
                "pfc": [0, 0, 0, 1, 0, 0, 0, 0],
                "ecn": {"enable": True, "cnp_dscp": 48, "cnp_priority": 6},
            },
            "reserved": {"lan": "10.1.0.0/16"},
        },
        "rails": [_rail(name, base, plane, number) for name, base, plane, number in full],
        "units": [
            {
                "name": "su%d" % unit,
                "number": unit,
                "site": "ams1",
                "nodes": per,
                "leaves": [_unit_leaf(name, number, unit, per) for name, _base, _plane, number in full],
            }
            for unit in range(1, units + 1)
        ],
        "nodes": [_node(index, full, per, bool(units), gpus) for index in range(1, nodes + 1)],
    }


def _rail(name: str, base: str, plane: int, number: int) -> dict[str, t.Any]:
    return {
        "name": name,
        "number": number,
        "base": base,
        "plane": plane,
        "mode": "prefix",
        "subnet": "10.%d.0.0/16" % number,
        "subnet6": None,
        "gateway": "first",
        "mtu": 9000,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "networks": [{"attachment": "sriov", "network": "%s-sriov" % name, "resource": "%s_sriov" % name}],
        "capacity": {
            "addresses": 65536,
            "taken": {"network": 2048, "broadcast": 2048, "gateway": 2048, "hosts": 2048, "reserved": 0},
            "pods": 57344,
            "pods_per_node": 28,
            "nodes": 2048,
            "needed": 64,
        },
    }


def _unit_leaf(name: str, number: int, unit: int, per: int) -> dict[str, t.Any]:
    return {
        "rail": name,
        "name": "su%d-r%02d" % (unit, number),
        "aggregate": "10.%d.%d.0/22" % (number, (unit - 1) * 4 % 256),
        "aggregate6": None,
    }


def _node(index: int, full: t.Sequence[t.Any], per: int, units: bool, gpus: int) -> dict[str, t.Any]:
    unit, place = (index - 1) // per + 1, (index - 1) % per + 1
    name = "ai-su%d-%03d" % (unit, place) if units else "ai-%03d" % index
    return {
        "name": name,
        "index": index,
        "unit": "su%d" % unit if units else None,
        "unit_number": unit if units else None,
        "place": place,
        "rack": "r%d" % (place // 8 + 1) if units else None,
        "site": "ams1" if units else None,
        "profile": "hgx",
        "attachment": "sriov",
        "rdma_mode": "exclusive",
        "groups": [],
        "gpus": {str(gpu): None for gpu in range(len(full) * gpus)},
        "other_ports": [],
        "ports": [_port(name, index, place, unit if units else 0, *each, gpus=gpus) for each in full],
    }


def _port(
    node: str, index: int, place: int, unit: int, rail: str, base: str, plane: int, number: int, gpus: int
) -> dict[str, t.Any]:
    block = "10.%d.%d.%d" % (number, index * 32 // 256 % 256, index * 32 % 256)
    stem, last = block.rsplit(".", 1)
    return {
        "rail": rail,
        "base": base,
        "plane": plane,
        "number": number,
        "pci": "0000:%02x:00.0" % (10 + number),
        "netdev": "enp%ds0f0np0" % (10 + number),
        "match": None,
        "rdma": {"name": "mlx5_%s" % rail, "type": "hardware"},
        "gpus": [(number - 1) * gpus + at for at in range(gpus)],
        "mtu": 9000,
        "address": "%s.%d/27" % (stem, int(last) + 2),
        "gateway": "%s.%d" % (stem, int(last) + 1),
        "address6": None,
        "gateway6": None,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "routes": [],
        "sysctl": {"arp_ignore": 1},
        "vfs": {
            "count": 2,
            "attributes": [
                {"index": at, "mac": "02:00:00:%02x:%02x:%02x" % (index % 256, number, at), "vlan": None}
                for at in range(2)
            ],
        },
        "firmware": None,
        "leaf": {
            "name": "su%d-r%02d" % (unit, number),
            "port": "swp%d" % place,
            "address": None,
            "address6": None,
            "aggregate": "10.%d.%d.0/22" % (number, (unit - 1) * 4 % 256),
            "aggregate6": None,
        }
        if unit
        else None,
        "pods": {
            "first": "%s.%d" % (stem, int(last) + 3),
            "last": "%s.%d" % (stem, int(last) + 30),
            "subnet": "%s/27" % block,
            "gateway": "%s.%d" % (stem, int(last) + 1),
        },
        "names": {
            "resource": "%s_sriov" % rail,
            "network": "%s-sriov" % rail,
            "pool": "ai-%s-%s" % (rail, node),
            "policy": "ai-%s-hgx" % rail,
            "interface": "net%d" % number,
        },
        "expect": {"speed": 400, "width": None, "pcie_gen": None, "pcie_lanes": None, "gpu_distance": "PIX"},
    }


SVG = "{http://www.w3.org/2000/svg}"


def svg(raw: bytes) -> xml.Element:
    """A picture as its elements."""
    root = xml.fromstring(raw)
    assert root.tag == SVG + "svg"
    return root


def words_of(root: xml.Element) -> str:
    """All texts of a picture."""
    return " ".join("".join(element.itertext()) for element in root.iter(SVG + "text"))
