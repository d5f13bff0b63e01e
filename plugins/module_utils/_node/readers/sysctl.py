# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sysctls of one interface: live under ``/proc/sys/net``, and as lines of sysctl.d(5).

Source: the kernel's ``Documentation/networking/ip-sysctl.rst``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The kernel uses the larger one of the interface's value and that of 'all'. Of arp_filter, which is 0 or 1, it uses 1
# if either is 1.
LARGER_WINS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")


def path(netdev: str, key: str, family: str = "ipv4") -> str:
    return "/proc/sys/net/%s/conf/%s/%s" % (family, netdev, key)


def read(system: System, netdev: str, key: str, family: str = "ipv4") -> str | None:
    """Return the interface's value; None if the kernel does not have the sysctl."""
    return system.read(path(netdev, key, family))


def write(system: System, netdev: str, key: str, value: str, family: str = "ipv4") -> None:
    """Set the interface's value. Raises :class:`RailyardError`."""
    try:
        system.write_attribute(path(netdev, key, family), value)
    except OSError as error:
        raise RailyardError(
            "the kernel does not take %s: %s" % (value, error.strerror),
            path(netdev, key, family),
            "see the kernel's ip-sysctl documentation for the values that it takes",
        ) from None


def effective(system: System, netdev: str, key: str, value: str | None = None) -> int | None:
    """Return the effective value from ``value`` (by default the interface's) and the value of ``all``."""
    own = value if value is not None else read(system, netdev, key)
    if own is None:
        return None
    if key not in LARGER_WINS:
        return int(own)
    return max(int(own), system.read_int(path("all", key)) or 0)


def line(netdev: str, key: str, value: str, family: str = "ipv4") -> str:
    """Return a line of a sysctl.d file."""
    if "." in netdev:
        # a name with a dot requires slashes as separators
        return "net/%s/conf/%s/%s = %s" % (family, netdev, key, value)
    return "net.%s.conf.%s.%s = %s" % (family, netdev, key, value)


def text(head: str, lines: t.Sequence[str]) -> str:
    return "\n".join([head] + list(lines)) + "\n"
