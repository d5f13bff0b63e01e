# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Counters of errors and of congestion, of netdevs and of RDMA devices' ports; those of mere traffic are left out.

Sources: the kernel's ``Documentation/ABI/testing/sysfs-class-net-statistics`` and
``Documentation/ABI/stable/sysfs-class-infiniband``; names of drivers' own counters are the drivers'.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

NETDEV = (
    "rx_crc_errors",
    "rx_dropped",
    "rx_errors",
    "rx_missed_errors",
    "tx_carrier_errors",
    "tx_dropped",
    "tx_errors",
)
# Counters of traffic that is slow although no cable is bad, or of senders that were slowed down.
CONGESTION = re.compile(r"cnp|ecn|pause|xmit_wait|rnr|adp_retrans|slow_restart")
TROUBLE = re.compile(
    r"err|discard|drop|retr|timeout|nak|nack|cnp|ecn|seq|out_of|downed|overrun|pause|xmit_wait|rnr|duplicate|recover"
)

Row = t.Dict[str, t.Any]


def look(system: System, netdevs: t.Iterable[str], devices: t.Iterable[str]) -> Row:
    """``netdevs`` and ``devices``: the name of each -> its counters. A device's are those of all its ports together."""
    return {
        "netdevs": {name: _files(system, "/sys/class/net/%s/statistics" % name, NETDEV) for name in netdevs},
        "devices": {name: _device(system, name) for name in devices},
    }


def _device(system: System, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    ports = "/sys/class/infiniband/%s/ports" % name
    for port in system.listdir(ports):
        for folder in ("counters", "hw_counters"):
            place = "%s/%s/%s" % (ports, port, folder)
            names = [each for each in system.listdir(place) if TROUBLE.search(each.lower()) and each != "lifespan"]
            for counter, value in _files(system, place, names).items():
                found[counter] = found.get(counter, 0) + value
    return found


def _files(system: System, place: str, names: t.Iterable[str]) -> dict[str, int]:
    values = {name: system.read_int("%s/%s" % (place, name)) for name in names}
    return {name: value for name, value in values.items() if value is not None}
