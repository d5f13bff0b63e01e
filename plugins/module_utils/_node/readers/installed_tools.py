# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installed programs that modules use or report."""

from __future__ import annotations

import importlib.util
import os

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# fmt: off
TOOLS = (
    "mstconfig", "mstfwreset", "mlxconfig", "mlxfwreset", "rdma", "devlink", "dcb", "mlnx_qos", "ethtool",
    "lspci", "ibv_devinfo", "nvidia-smi", "networkctl", "netplan", "nmcli", "update-initramfs", "dracut",
)
# fmt: on


def look(system: System) -> dict[str, str]:
    """Return the installed programs of :data:`TOOLS`, perftest and the library pyroute2: name -> path."""
    found = {name: system.which(name) for name in TOOLS}
    found["perftest"] = system.which("ib_write_bw")
    spec = importlib.util.find_spec("pyroute2")
    found["pyroute2"] = os.path.dirname(spec.origin) if spec and spec.origin else None
    return {name: path for name, path in found.items() if path}
