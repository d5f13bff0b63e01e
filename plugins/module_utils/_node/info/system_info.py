# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part ``system`` of rail_info: kernel, distribution, RDMA mode, management path and tools."""

from __future__ import annotations

import os
import re
import sys
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_paths
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import installed_tools
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

Row = t.Dict[str, t.Any]


def look(
    system: System,
    management: ManagementPath,
    sock: NetlinkSocket | None,
    table: t.Callable[[], Rtnetlink] | None = None,
) -> Row:
    """Return ``system``, ``management_path`` and ``tools``.

    :param sock: a socket to the RDMA subsystem; None if it is not loaded.
    :param table: opens the kernel's tables, for tests.
    """
    release = _os_release(system.read_file("/etc/os-release") or system.read_file("/usr/lib/os-release") or "")
    lockdown = re.search(r"\[(\w+)\]", system.read("/sys/kernel/security/lockdown") or "")
    return {
        "system": {
            "kernel": system.read("/proc/sys/kernel/osrelease"),
            "architecture": os.uname().machine,
            "distribution": release.get("ID"),
            "distribution_version": release.get("VERSION_ID"),
            "python": "%d.%d.%d" % sys.version_info[:3],
            "boot_id": system.read("/proc/sys/kernel/random/boot_id"),
            "rdma_mode": (rdma_netlink.netns_mode(sock) or "shared") if sock else None,
            "lockdown": lockdown.group(1) if lockdown and lockdown.group(1) != "none" else None,
            "boot_service": _boot_service(system),
            "product": system.read("/sys/class/dmi/id/product_name") or None,
        },
        "management_path": {
            "connection": management.connection,
            "default_route": management.default_routes,
            "netdevs": management.netdevs,
            "functions": management.functions,
            "addresses": management_path.addresses(system, management, table),
        },
        "tools": installed_tools.look(system),
    }


def _boot_service(system: System) -> str | None:
    """Return systemd's state, such as ``active`` or ``failed``; None without persistent options."""
    if not system.listdir(boot_paths.BOOT_DIR) or not system.exists("/run/systemd/system"):
        return None
    # is-active prints the state; its exit status is 0 only for active
    return system.run(["systemctl", "is-active", "railyard-boot.service"]).out.strip() or None


def _os_release(text: str) -> dict[str, str]:
    """Parse the format of os-release(5)."""
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in lines if equals}
