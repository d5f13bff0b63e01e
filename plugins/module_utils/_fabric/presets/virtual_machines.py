# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines with GPUs, from the topology files that their operators publish for NCCL.

These files show the GPUs near each NIC, and do not number the GPUs: the presets omit the numbers.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import (
    Document,
    Preset,
    PresetPort,
)


def _azure(file: str) -> Document:
    return Document(
        "Azure HPC images",
        file,
        "https://github.com/Azure/azhpc-images",
        "commit 8e9d055fb9e1f7385da734969793861c447958a1 (2026-07-29)",
        "2026-11-29",
    )


_AZURE_PORTS = tuple([PresetPort("%04x:00:00.0" % domain) for domain in range(0x101, 0x109)])

PRESETS = (
    Preset(
        ("azure-nd-h100-v5",),
        "Azure ND H100 v5 (NDv5)",
        _azure("topology/ndv5-topo.xml"),
        ports=_AZURE_PORTS,
        link_layer="infiniband",
    ),
    Preset(
        ("azure-nd-a100-v4",),
        "Azure ND A100 v4 (NDv4)",
        _azure("topology/ndv4-topo.xml"),
        # In the order of PCI addresses: the file orders them by processor.
        ports=_AZURE_PORTS,
        link_layer="infiniband",
    ),
    Preset(
        ("digitalocean-h100x8",),
        "DigitalOcean GPU Droplet with eight NVIDIA H100",
        Document(
            "DigitalOcean: Configure Multi-Node GPU Droplets",
            "topo.xml",
            "https://docs.digitalocean.com/products/droplets/how-to/gpu/configure-multi-node/topo.xml",
            "undated",
            "2026-11-29",
        ),
        ports=tuple([PresetPort("0000:%02x:02.0" % (at + 1), rdma="mlx5_%d" % at) for at in range(8)]),
        link_layer="ethernet",
    ),
)
