# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a port's active MTU and the GID table of RDMA devices through libibverbs.

Netlink and sysfs do not report the active MTU, and sysfs has the GID table only as thousands of files. Uses
``ibv_query_port(3)``, and the function that ``ibv_query_gid_table(3)`` calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import typing as t

LIBRARY = "libibverbs.so.1"
# enum ibv_mtu
MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
# enum ibv_gid_type_sysfs and ibv_gid_type
GID_TYPES = {0: "IB", 1: "RoCE v1", 2: "RoCE v2"}


class GidEntry(ctypes.Structure):
    """``struct ibv_gid_entry``."""

    _fields_ = [
        ("gid", ctypes.c_ubyte * 16),
        ("gid_index", ctypes.c_uint32),
        ("port_num", ctypes.c_uint32),
        ("gid_type", ctypes.c_uint32),
        ("ndev_ifindex", ctypes.c_uint32),
    ]


# The size of the answer is passed to the kernel in 16 bits (struct ib_uverbs_attr). A larger size is truncated
# silently, and then refused.
MOST_GIDS = 0xFFFF // ctypes.sizeof(GidEntry)


class PortAttributes(ctypes.Structure):
    """The first fields of ``struct ibv_port_attr``, and space for the others."""

    _fields_ = [
        ("state", ctypes.c_int),
        ("max_mtu", ctypes.c_int),
        ("active_mtu", ctypes.c_int),
        ("rest", ctypes.c_ubyte * 116),
    ]


class Gid(t.NamedTuple):
    """One used entry of a GID table, at index ``place``. ``kind``: of :data:`GID_TYPES`. ``netdev``: an index or 0."""

    port: int
    place: int
    gid: bytes
    kind: str
    netdev: int


class DeviceReport(t.NamedTuple):
    """Values of one device: (max, active) MTU in bytes by port, and its GIDs; None before rdma-core 32."""

    mtus: dict[int, tuple[int | None, int | None]]
    gids: list[Gid] | None


def ask(ports: t.Mapping[str, int]) -> dict[str, DeviceReport]:
    """Return the values of the named devices, without devices that cannot be opened. Empty without libibverbs.

    :param ports: device name -> number of ports.
    """
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        return {}
    library.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    library.ibv_get_device_list.argtypes = [ctypes.POINTER(ctypes.c_int)]
    library.ibv_free_device_list.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    library.ibv_get_device_name.restype = ctypes.c_char_p
    library.ibv_get_device_name.argtypes = [ctypes.c_void_p]
    library.ibv_open_device.restype = ctypes.c_void_p
    library.ibv_open_device.argtypes = [ctypes.c_void_p]
    library.ibv_close_device.argtypes = [ctypes.c_void_p]
    library.ibv_query_port.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.POINTER(PortAttributes)]
    found: dict[str, DeviceReport] = {}
    count = ctypes.c_int()
    devices = library.ibv_get_device_list(ctypes.byref(count))
    if not devices:
        return found
    try:
        for number in range(count.value):
            name = library.ibv_get_device_name(devices[number]).decode()
            context = library.ibv_open_device(devices[number]) if name in ports else None
            if context:
                try:
                    found[name] = DeviceReport(_mtus(library, context, ports[name]), _gids(library, context))
                finally:
                    library.ibv_close_device(context)
    finally:
        library.ibv_free_device_list(devices)
    return found


def _mtus(library: t.Any, context: int, ports: int) -> dict[int, tuple[int | None, int | None]]:
    found = {}
    for port in range(1, ports + 1):
        attributes = PortAttributes()
        if not library.ibv_query_port(context, port, ctypes.byref(attributes)):
            found[port] = (MTUS.get(attributes.max_mtu), MTUS.get(attributes.active_mtu))
    return found


def _gids(library: t.Any, context: int) -> list[Gid] | None:
    query = None
    with contextlib.suppress(AttributeError):  # rdma-core before 32
        query = library._ibv_query_gid_table
    if query is None:
        return None
    query.restype = ctypes.c_ssize_t
    query.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(GidEntry),
        ctypes.c_size_t,
        ctypes.c_uint32,
        ctypes.c_size_t,
    ]
    entries = (GidEntry * MOST_GIDS)()
    entry_count = query(context, entries, MOST_GIDS, 0, ctypes.sizeof(GidEntry))
    if entry_count < 0:
        return None
    return [
        Gid(each.port_num, each.gid_index, bytes(each.gid), GID_TYPES.get(each.gid_type, "IB"), each.ndev_ifindex)
        for each in entries[:entry_count]
    ]
