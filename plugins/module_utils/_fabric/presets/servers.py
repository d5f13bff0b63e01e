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


def _document(directory: str) -> Document:
    return Document(
        "NVIDIA Kubernetes Launch Kit",
        "presets/%s/topology.yaml" % directory,
        "https://github.com/NVIDIA/k8s-launch-kit",
        "commit aa1fef72c7cfcce13c7830b41a19d106fb8ead78",
        "2026-11-29",
    )


PRESETS = (
    Preset(
        ("dell-xe9680-h200-bf3",),
        "Dell PowerEdge XE9680 with NVIDIA H200 and BlueField-3 SuperNICs",
        _document("PowerEdge-XE9680"),
        ports=(
            PresetPort("0000:1a:00.0", (0,), "rocep26s0f0"),
            PresetPort("0000:3c:00.0", (1,), "rocep60s0f0"),
            PresetPort("0000:4d:00.0", (2,), "rocep77s0f0"),
            PresetPort("0000:5e:00.0", (3,), "rocep94s0f0"),
            PresetPort("0000:9c:00.0", (4,), "rocep156s0f0"),
            PresetPort("0000:bc:00.0", (5,), "rocep188s0f0"),
            PresetPort("0000:cc:00.0", (6,), "rocep204s0f0"),
            PresetPort("0000:dc:00.0", (7,), "rocep220s0f0"),
        ),
        gpus=dict.fromkeys(range(8)),
        gpu_distance="PIX",
        other_ports=(
            PresetOtherPort("north-south-1", "0000:9d:00.0"),
            PresetOtherPort("north-south-2", "0000:9d:00.1"),
        ),
        product="PowerEdge-XE9680",
    ),
    Preset(
        ("lenovo-sr680a-v3-h200-bf3",),
        "Lenovo ThinkSystem SR680a V3 with NVIDIA H200 and BlueField-3 SuperNICs",
        _document("ThinkSystem-SR680a-V3"),
        ports=(
            PresetPort("0000:19:00.0", (0,), "rocep25s0f0"),
            PresetPort("0000:2a:00.0", (1,), "rocep42s0f0"),
            PresetPort("0000:3b:00.0", (2,), "rocep59s0f0"),
            PresetPort("0000:4c:00.0", (3,), "rocep76s0f0"),
            PresetPort("0000:9b:00.0", (4,), "rocep155s0f0"),
            PresetPort("0000:ab:00.0", (5,), "rocep171s0f0"),
            PresetPort("0000:c1:00.0", (6,), "rocep193s0f0"),
            PresetPort("0000:cb:00.0", (7,), "rocep203s0f0"),
        ),
        gpus=dict.fromkeys(range(8)),
        gpu_distance="PIX",
        other_ports=(
            PresetOtherPort("north-south-1", "0000:5a:00.0"),
            PresetOtherPort("north-south-2", "0000:5a:00.1"),
            PresetOtherPort("north-south-3", "0000:d8:00.0"),
            PresetOtherPort("north-south-4", "0000:d8:00.1"),
        ),
        product="ThinkSystem-SR680a-V3",
    ),
    Preset(
        ("cisco-885a-m8-h200-bf3",),
        "Cisco UCS C885A M8 with NVIDIA H200 and BlueField-3 SuperNICs",
        _document("UCSC-885A-M8-H22"),
        ports=(
            PresetPort("0000:09:00.0", (0,), "rocep9s0f0"),
            PresetPort("0000:23:00.0", (1,), "rocep35s0f0"),
            PresetPort("0000:53:00.0", (2,), "rocep83s0f0"),
            PresetPort("0000:69:00.0", (3,), "rocep105s0f0"),
            PresetPort("0000:8f:00.0", (4,), "rocep143s0f0"),
            PresetPort("0000:9c:00.0", (5,), "rocep156s0f0"),
            PresetPort("0000:cd:00.0", (6,), "rocep205s0f0"),
            PresetPort("0000:f1:00.0", (7,), "rocep241s0f0"),
        ),
        gpus=dict.fromkeys(range(8)),
        gpu_distance="PIX",
        other_ports=(
            PresetOtherPort("north-south-1", "0000:35:00.0"),
            PresetOtherPort("north-south-2", "0000:35:00.1"),
        ),
        product="UCSC-885A-M8-H22",
    ),
)
