# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers with an HGX board of NVIDIA that contains the NICs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import (
    Document,
    Preset,
    PresetPort,
)

PRESETS = (
    Preset(
        ("hgx-b300",),
        "Server with NVIDIA HGX B300 and eight ConnectX-8 on the board (PCI addresses of NVIDIA's test system)",
        Document(
            "NVIDIA AI Enterprise: Optimizing VM Configuration for AI Inference, Blackwell Ultra HGX",
            "Appendix, Enabling ATS on NVIDIA NICs",
            "https://docs.nvidia.com/ai-enterprise/planning-resource/"
            "optimizing-vm-configuration-ai-inference-blackwell-ultra-hgx/latest/appendix.html",
            "undated web page (latest)",
            "2026-11-29",
        ),
        # In the order of the document, which does not name the GPUs beside them.
        ports=(
            PresetPort("0000:17:00.0"),
            PresetPort("0000:39:00.0"),
            PresetPort("0000:5f:00.0"),
            PresetPort("0000:70:00.0"),
            PresetPort("0000:97:00.0"),
            PresetPort("0000:b9:00.0"),
            PresetPort("0000:dc:00.0"),
            PresetPort("0000:ed:00.0"),
        ),
    ),
)
