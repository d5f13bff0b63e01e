# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers of Dell, Lenovo and Cisco, from the presets of NVIDIA's Kubernetes Launch Kit."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import (
    Document,
    Preset,
    PresetOtherPort,
    PresetPort,
)


def _server(name: str, title: str, product: str, buses: str, north_south: tuple[str, ...]) -> Preset:
    """Return the preset of a server with H200 and BlueField-3 SuperNICs.

    :param product: the product name of its DMI table, and of its directory.
    :param buses: the PCI buses of the ports, in the order of rails and GPUs.
    :param north_south: the PCI addresses of the other ports.
    """
    ports = [
        PresetPort("0000:%s:00.0" % bus, (gpu,), "rocep%ds0f0" % int(bus, 16)) for gpu, bus in enumerate(buses.split())
    ]
    return Preset(
        (name,),
        title + " with NVIDIA H200 and BlueField-3 SuperNICs",
        Document(
            "NVIDIA Kubernetes Launch Kit",
            "presets/%s/topology.yaml" % product,
            "https://github.com/NVIDIA/k8s-launch-kit",
            "commit aa1fef72c7cfcce13c7830b41a19d106fb8ead78",
            "2026-11-29",
        ),
        tuple(ports),
        gpus=dict.fromkeys(range(len(ports))),
        gpu_distance="PIX",
        other_ports=tuple([PresetOtherPort("north-south-%d" % at, pci) for at, pci in enumerate(north_south, 1)]),
        product=product,
    )


PRESETS = (
    _server(
        "dell-xe9680-h200-bf3",
        "Dell PowerEdge XE9680",
        "PowerEdge-XE9680",
        "1a 3c 4d 5e 9c bc cc dc",
        ("0000:9d:00.0", "0000:9d:00.1"),
    ),
    _server(
        "lenovo-sr680a-v3-h200-bf3",
        "Lenovo ThinkSystem SR680a V3",
        "ThinkSystem-SR680a-V3",
        "19 2a 3b 4c 9b ab c1 cb",
        ("0000:5a:00.0", "0000:5a:00.1", "0000:d8:00.0", "0000:d8:00.1"),
    ),
    _server(
        "cisco-885a-m8-h200-bf3",
        "Cisco UCS C885A M8",
        "UCSC-885A-M8-H22",
        "09 23 53 69 8f 9c cd f1",
        ("0000:35:00.0", "0000:35:00.1"),
    ),
)
