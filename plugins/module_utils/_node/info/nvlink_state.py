# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVLink domain of each GPU, as the GPU driver reports it.

Only NVML has this state, and ``nvidia-smi -q`` prints it in the section Fabric of each GPU. ``State`` is that of the
registration of the GPU, ``Status`` is valid when it is completed (NVML API reference, ``nvmlGpuFabricInfo_v3_t``).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Seconds; without persistence mode, the driver initializes all GPUs first.
TIMEOUT = 120.0
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]+):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_KEYS = {"State": "state", "Status": "status", "CliqueId": "clique", "ClusterUUID": "cluster"}
Row = t.Dict[str, t.Any]


def look(system: System) -> Row:
    """Return ``gpus``, and ``error``: why the state cannot be read, or None."""
    program = system.which("nvidia-smi")
    if not program:
        return {"gpus": [], "error": "nvidia-smi is not installed"}
    done = system.run([program, "-q"], TIMEOUT)
    if done.rc:
        lines = (done.err or done.out).strip().splitlines() or ["exit status %d" % done.rc]
        return {"gpus": [], "error": "nvidia-smi -q: %s" % lines[0]}
    return {"gpus": parse(done.out), "error": None}


def parse(text: str) -> list[Row]:
    """Return a row for each GPU with a section Fabric: ``pci``, ``state``, ``status``, ``clique``, ``cluster``.

    Values are texts as printed; None for ``N/A`` and missing ones.
    """
    found: list[Row] = []
    pci: str | None = None
    row: Row | None = None
    indent = 0
    for line in text.splitlines():
        gpu = _GPU.match(line)
        if gpu:
            # Linux prints at least four digits of the domain, nvidia-smi eight
            pci, row = "%04x:%s" % (int(gpu.group(1), 16), gpu.group(2).lower()), None
            continue
        depth = len(line) - len(line.lstrip())
        key, colon, value = (part.strip() for part in line.partition(":"))
        if key == "Fabric" and not colon and pci:
            row = {"pci": pci, **dict.fromkeys(_KEYS.values())}
            found.append(row)
            indent = depth
        elif row is not None and key:
            if depth <= indent:
                row = None
            elif key in _KEYS and colon and row[_KEYS[key]] is None and value != "N/A":
                row[_KEYS[key]] = value
    return found
