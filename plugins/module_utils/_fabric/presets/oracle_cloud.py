# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bare-metal GPU shapes of Oracle Cloud Infrastructure.

``BM.GPU.MI355X-v1.8`` is missing: its entry in the document numbers the GPUs in two ways.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import (
    Document,
    Preset,
    PresetOtherPort,
    PresetPort,
)

# A GPU, its PCI address, the card of its NIC, and the number N of the RDMA device mlx5_N of each function of the card.
_Row = t.Tuple[int, str, str, t.Tuple[int, ...]]
# How the netdevs of a shape are named: by their number among the ports, or by the PCI bus and function.
_RDMA, _FUNCTIONS, _PORTS = "rdma%(number)d", "enp%(bus)ds0f%(function)d", "enp%(bus)ds0np%(function)d"


def _shape(shapes: t.Sequence[str], netdev: str, rows: t.Sequence[_Row], others: t.Sequence[str]) -> Preset:
    """Return the preset of shapes with the same map.

    :param netdev: the pattern of the names of netdevs.
    :param rows: in the order of ports.
    :param others: the PCI addresses of the ports on the virtual cloud network.
    """
    names = ", ".join(shapes)
    functions = [(gpu, card, *each) for gpu, _pci, card, devices in rows for each in enumerate(devices)]
    ports = []
    for number, (gpu, card, function, device) in enumerate(functions):
        values = {"number": number, "function": function, "bus": int(card.split(":")[1], 16)}
        ports.append(PresetPort("%s.%d" % (card, function), (gpu,), "mlx5_%d" % device, netdev % values))
    return Preset(
        tuple(["oci-" + shape.lower() for shape in shapes]),
        "Oracle Cloud Infrastructure " + names,
        Document(
            "Oracle Cloud Infrastructure: HPC on OKE",
            "manifests/sriov-network-node-policy/shapes.json (version 20251203-0.5.91): " + names,
            "https://github.com/oracle-quickstart/oci-hpc-oke",
            "commit f9bc35757efcc109828ddc4f35f1e7f8b7f1f2cd (2025-12-08)",
            "2026-11-29",
        ),
        tuple(ports),
        {gpu: pci for gpu, pci, _card, _devices in sorted(rows)},
        link_layer="ethernet",
        other_ports=tuple([PresetOtherPort("vcn%d" % at, pci) for at, pci in enumerate(others)]),
    )


# BM.GPU.GB200-v3.4 and BM.GPU.GB300.4
_GB300 = (
    (1, "0009:06:00.0", "0000:03:00", (0, 1)),
    (0, "0008:06:00.0", "0002:03:00", (2, 3)),
    (3, "0019:06:00.0", "0010:03:00", (5, 6)),
    (2, "0018:06:00.0", "0012:03:00", (7, 8)),
)
PRESETS = (
    _shape(
        ("BM.GPU.H100.8",),
        _RDMA,
        (
            (0, "0000:0f:00.0", "0000:0c:00", (0, 1)),
            (1, "0000:2d:00.0", "0000:2a:00", (3, 4)),
            (2, "0000:44:00.0", "0000:41:00", (5, 6)),
            (3, "0000:5b:00.0", "0000:58:00", (7, 8)),
            (4, "0000:89:00.0", "0000:86:00", (9, 10)),
            (5, "0000:a8:00.0", "0000:a5:00", (12, 13)),
            (6, "0000:c0:00.0", "0000:bd:00", (14, 15)),
            (7, "0000:d8:00.0", "0000:d5:00", (16, 17)),
        ),
        ("0000:1f:00.0", "0000:9a:00.0"),
    ),
    _shape(
        ("BM.GPU.H200.8", "BM.GPU.H200-NC.8", "BM.GPU.B200.8"),
        _RDMA,
        (
            (0, "0000:0f:00.0", "0000:0c:00", (0,)),
            (1, "0000:2d:00.0", "0000:2a:00", (3,)),
            (2, "0000:44:00.0", "0000:41:00", (4,)),
            (3, "0000:5b:00.0", "0000:58:00", (5,)),
            (4, "0000:89:00.0", "0000:86:00", (6,)),
            (5, "0000:a8:00.0", "0000:a5:00", (9,)),
            (6, "0000:c0:00.0", "0000:bd:00", (10,)),
            (7, "0000:d8:00.0", "0000:d5:00", (11,)),
        ),
        ("0000:1f:00.0", "0000:1f:00.1", "0000:9a:00.0", "0000:9a:00.1"),
    ),
    _shape(
        ("BM.GPU4.8",),
        _FUNCTIONS,
        (
            (0, "0000:0f:00.0", "0000:0c:00", (6, 7)),
            (1, "0000:15:00.0", "0000:16:00", (8, 9)),
            (2, "0000:51:00.0", "0000:48:00", (0, 1)),
            (3, "0000:54:00.0", "0000:4c:00", (2, 3)),
            (4, "0000:8d:00.0", "0000:8a:00", (14, 15)),
            (5, "0000:92:00.0", "0000:94:00", (16, 17)),
            (6, "0000:d6:00.0", "0000:c3:00", (10, 11)),
            (7, "0000:da:00.0", "0000:d1:00", (12, 13)),
        ),
        ("0000:2d:00.0",),
    ),
    _shape(
        ("BM.GPU.B4.8", "BM.GPU.A100-v2.8", "BM.GPU.GM4.8"),
        _FUNCTIONS,
        (
            (0, "0000:0f:00.0", "0000:0c:00", (5, 6)),
            (1, "0000:15:00.0", "0000:16:00", (7, 8)),
            (2, "0000:50:00.0", "0000:47:00", (1, 2)),
            (3, "0000:53:00.0", "0000:4b:00", (3, 4)),
            (4, "0000:8c:00.0", "0000:89:00", (14, 15)),
            (5, "0000:91:00.0", "0000:93:00", (16, 17)),
            (6, "0000:d6:00.0", "0000:c3:00", (9, 10)),
            (7, "0000:da:00.0", "0000:d1:00", (11, 12)),
        ),
        ("0000:6b:00.0",),
    ),
    _shape(
        ("BM.GPU.MI300X.8",),
        _PORTS,
        (
            (0, "0000:11:00.0", "0000:0c:00", (0,)),
            (1, "0000:2f:00.0", "0000:2a:00", (2,)),
            (2, "0000:46:00.0", "0000:41:00", (3,)),
            (3, "0000:5d:00.0", "0000:58:00", (4,)),
            (4, "0000:8b:00.0", "0000:86:00", (5,)),
            (5, "0000:aa:00.0", "0000:a5:00", (7,)),
            (6, "0000:c2:00.0", "0000:bd:00", (8,)),
            (7, "0000:da:00.0", "0000:d5:00", (9,)),
        ),
        ("0000:1f:00.0", "0000:9a:00.0"),
    ),
    _shape(
        ("BM.GPU.GB200.4",),
        _RDMA,
        (
            (0, "0008:01:00.0", "0000:03:00", (0,)),
            (1, "0009:01:00.0", "0002:03:00", (1,)),
            (2, "0018:01:00.0", "0010:03:00", (3,)),
            (3, "0019:01:00.0", "0012:03:00", (4,)),
        ),
        ("0006:09:00.0", "0016:0b:00.0"),
    ),
    _shape(
        ("BM.GPU.GB200-v2.4",),
        _RDMA,
        (
            (0, "0008:01:00.0", "0000:03:00", (0,)),
            (1, "0009:01:00.0", "0002:03:00", (1,)),
            (2, "0018:01:00.0", "0010:03:00", (4,)),
            (3, "0019:01:00.0", "0012:03:00", (5,)),
        ),
        ("0006:03:00.0", "0006:03:00.1"),
    ),
    _shape(
        ("BM.GPU.GB200-v3.4",),
        _RDMA,
        _GB300,
        ("0006:09:00.0", "0016:0b:00.0"),
    ),
    _shape(
        ("BM.GPU.GB300.4",),
        _RDMA,
        _GB300,
        ("0007:01:00.0", "0017:01:00.0"),
    ),
)
