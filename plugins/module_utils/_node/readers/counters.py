# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of errors and congestion of netdevs and RDMA ports. Traffic counters are left out.

Sources: the kernel's ``Documentation/ABI/testing/sysfs-class-net-statistics`` and
``Documentation/ABI/stable/sysfs-class-infiniband``; other counters have the names that their driver defines.
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
# Counters of congestion: slow traffic without a cable fault, and throttled senders.
CONGESTION = re.compile(r"cnp|ecn|pause|xmit_wait|rnr|adp_retrans|slow_restart")
TROUBLE = re.compile(
    r"err|discard|drop|retr|timeout|nak|nack|cnp|ecn|seq|out_of|downed|overrun|pause|xmit_wait|rnr|duplicate|recover"
)

Row = t.Dict[str, t.Any]


def names(ports: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the names of RDMA devices for :func:`look`; for a device of several ports, those of its ports.

    :param ports: rows with ``device`` and ``port``.
    """
    numbers: dict[str, list[int]] = {}
    for row in ports:
        numbers.setdefault(row["device"], []).append(row["port"])
    return [
        "%s:%d" % (device, number) if len(of_device) > 1 else device
        for device, of_device in numbers.items()
        for number in of_device
    ]


def look(system: System, netdevs: t.Iterable[str], devices: t.Iterable[str]) -> Row:
    """Return ``netdevs`` and ``devices``: name -> counters. Those of a device are the sums over its ports.

    :param devices: RDMA devices, or ports of them as ``DEVICE:NUMBER``.
    """
    return {
        "netdevs": {name: _files(system, "/sys/class/net/%s/statistics" % name, NETDEV) for name in netdevs},
        "devices": {name: _device(system, name) for name in devices},
    }


def _device(system: System, name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    device, _colon, number = name.partition(":")
    ports = "/sys/class/infiniband/%s/ports" % device
    for port in [number] if number else system.listdir(ports):
        for directory in ("counters", "hw_counters"):
            path = "%s/%s/%s" % (ports, port, directory)
            names = [each for each in system.listdir(path) if TROUBLE.search(each.lower()) and each != "lifespan"]
            for counter, value in _files(system, path, names).items():
                found[counter] = found.get(counter, 0) + value
    return found


def _files(system: System, path: str, names: t.Iterable[str]) -> dict[str, int]:
    values = {name: system.read_int("%s/%s" % (path, name)) for name in names}
    return {name: value for name, value in values.items() if value is not None}
