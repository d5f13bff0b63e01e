# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""DGX systems of NVIDIA."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import (
    Document,
    Preset,
    PresetOtherPort,
    PresetPort,
)

PRESETS = (
    Preset(
        ("dgx-h100", "dgx-h200"),
        "NVIDIA DGX H100 and DGX H200",
        Document(
            "NVIDIA DGX H100/H200 System User Guide",
            "Introduction, Network Ports (table 5) and Network Modules (table 6)",
            "https://docs.nvidia.com/dgx/dgxh100-user-guide/",
            "undated web page",
            "2026-11-29",
        ),
        ports=(
            PresetPort("0000:18:00.0", (0,), "mlx5_0", "enp24s0np0", "ibp24s0", "OSFP4P2"),
            PresetPort("0000:40:00.0", (1,), "mlx5_3", "enp64s0np0", "ibp64s0", "OSFP3P2"),
            PresetPort("0000:4f:00.0", (2,), "mlx5_4", "enp79s0np0", "ibp79s0", "OSFP3P1"),
            PresetPort("0000:5e:00.0", (3,), "mlx5_5", "enp94s0np0", "ibp94s0", "OSFP4P1"),
            PresetPort("0000:9a:00.0", (4,), "mlx5_6", "enp154s0np0", "ibp154s0", "OSFP1P2"),
            PresetPort("0000:c0:00.0", (5,), "mlx5_9", "enp192s0np0", "ibp192s0", "OSFP2P2"),
            PresetPort("0000:ce:00.0", (6,), "mlx5_10", "enp206s0np0", "ibp206s0", "OSFP2P1"),
            PresetPort("0000:dc:00.0", (7,), "mlx5_11", "enp220s0np0", "ibp220s0", "OSFP1P1"),
        ),
        # The guide numbers the GPUs, and does not name their PCI addresses.
        gpus=dict.fromkeys(range(8)),
        other_ports=(
            PresetOtherPort("slot1p1", "0000:aa:00.0"),
            PresetOtherPort("slot1p2", "0000:aa:00.1"),
            PresetOtherPort("slot2p1", "0000:29:00.0"),
            PresetOtherPort("slot2p2", "0000:29:00.1"),
            PresetOtherPort("slot3p1", "0000:82:00.0"),
            PresetOtherPort("slot3p2", "0000:82:00.1"),
            PresetOtherPort("onboard", "0000:0b:00.0"),
        ),
    ),
)
