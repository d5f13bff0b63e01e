# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""GID tables: the address at each index of a device's port. Indices change.

Source of the files: the kernel's ``Documentation/ABI/stable/sysfs-class-infiniband``.
"""

from __future__ import annotations

import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

MAPPED = bytes(10) + b"\xff\xff"
Row = t.Dict[str, t.Any]


def row(device: str, port: int, index: int, gid: bytes, kind: str, netdev: str | None) -> Row:
    """Return one entry. ``address``: the IP address of the GID; None for a GID of InfiniBand."""
    address = socket.inet_ntop(socket.AF_INET, gid[12:]) if gid[:12] == MAPPED else None
    if address is None and kind != "IB":
        address = socket.inet_ntop(socket.AF_INET6, gid)
    return {
        "device": device,
        "port": port,
        "index": index,
        "gid": ":".join(gid.hex()[start : start + 4] for start in range(0, 32, 4)),
        "type": kind,
        "netdev": netdev,
        "address": address,
    }


def ethernet(system: System, device: str) -> bool:
    """Return whether a port of the device is on Ethernet. Devices of InfiniBand do not have GIDs of IP addresses."""
    ports_directory = "/sys/class/infiniband/%s/ports" % device
    return any(_is_ethernet(system, ports_directory, port) for port in system.listdir(ports_directory))


def from_sysfs(system: System, device: str, gap: int | None = None) -> t.Iterator[Row]:
    """Yield the used entries of all ports of a device. A table may have 1,024 entries with a file each.

    :param gap: stop reading a table after this many consecutive empty entries. The kernel assigns a new GID the lowest
        free index.
    """
    ports_directory = "/sys/class/infiniband/%s/ports" % device
    for port in sorted((name for name in system.listdir(ports_directory) if name.isdigit()), key=int):
        on_ethernet = _is_ethernet(system, ports_directory, port)
        names = [name for name in system.listdir("%s/%s/gids" % (ports_directory, port)) if name.isdigit()]
        empty = 0
        for name in sorted(names, key=int):
            if empty == gap:
                break
            gid = _bytes(system.read("%s/%s/gids/%s" % (ports_directory, port, name)))
            if gid is None or not any(gid):
                empty += 1
                continue
            empty = 0
            kind = system.read("%s/%s/gid_attrs/types/%s" % (ports_directory, port, name))
            # sysfs has the same name for both; the link layer distinguishes them
            if kind is None or kind.startswith("IB"):
                kind = "RoCE v1" if on_ethernet else "IB"
            netdev = system.read("%s/%s/gid_attrs/ndevs/%s" % (ports_directory, port, name))
            yield row(device, int(port), int(name), gid, kind, netdev or None)


def holds(system: System, device: str, addresses: t.Iterable[str], gap: int | None = None) -> bool:
    """Return whether the device has GIDs of all addresses. Reads only as far as needed; see :func:`from_sysfs`."""
    missing = set(addresses)
    for each in from_sysfs(system, device, gap) if missing else ():
        missing.discard(each["address"])
        if not missing:
            break
    return not missing


def _is_ethernet(system: System, ports_directory: str, port: str) -> bool:
    return system.read("%s/%s/link_layer" % (ports_directory, port)) == "Ethernet"


def _bytes(text: str | None) -> bytes | None:
    try:
        gid = bytes.fromhex((text or "").replace(":", ""))
    except ValueError:
        return None
    return gid if len(gid) == 16 else None
