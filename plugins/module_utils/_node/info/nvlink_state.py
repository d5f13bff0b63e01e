# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVLink domain of each GPU, as the GPU driver reports it.

Only NVML has this state, and ``nvidia-smi -q`` prints it in the section Fabric of each GPU. ``State`` describes the
registration of the GPU, and ``Status`` is valid when the registration has completed (NVML API reference,
``nvmlGpuFabricInfo_v3_t``).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Seconds; without persistence mode, the driver initializes all GPUs first.
TIMEOUT = 120.0
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]+):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_ATTACHED = re.compile(r"^Attached GPUs\s*: (\d+)\s*$", re.MULTILINE)
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
    try:
        return {"gpus": parse(done.out), "error": None}
    except ValueError as error:
        return {"gpus": [], "error": "nvidia-smi -q: %s" % error}


def parse(text: str) -> list[Row]:
    """Return a row for each GPU: ``pci``, ``state``, ``status``, ``clique``, ``cluster``; none if no GPU has a section
    Fabric.

    Values are texts as printed; None for ``N/A`` and missing ones.

    :raises ValueError: if the number of GPUs differs from the first lines. The output contains names of processes,
        which a pod can choose; one with line breaks could look like a GPU.
    """
    found: list[Row] = []
    sections = 0
    row: Row | None = None
    indent = -1
    for line in text.split("\n"):
        gpu = _GPU.match(line)
        if gpu:
            # Linux prints at least four digits of the domain, nvidia-smi eight
            row = {"pci": "%04x:%s" % (int(gpu.group(1), 16), gpu.group(2).lower()), **dict.fromkeys(_KEYS.values())}
            found.append(row)
            indent = -1
            continue
        depth = len(line) - len(line.lstrip())
        key, colon, value = (part.strip() for part in line.partition(":"))
        if key == "Fabric" and not colon and row:
            sections += 1
            indent = depth
        elif row and key and indent >= 0:
            if depth <= indent:
                indent = -1
            elif key in _KEYS and colon and row[_KEYS[key]] is None and value != "N/A":
                row[_KEYS[key]] = value
    attached = _ATTACHED.search(text)
    count = int(attached.group(1)) if attached else 0
    if not len(found) == len({each["pci"] for each in found}) == count or sections > count:
        raise ValueError("%d GPUs with %d sections Fabric, and %d attached" % (len(found), sections, count))
    return found if sections else []
