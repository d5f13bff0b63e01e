# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Driver information, permanent addresses, pause and statistics of netdevs, by the ioctl of ethtool: SIOCETHTOOL."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import typing as t

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
ETHTOOL_GPAUSEPARAM, ETHTOOL_SPAUSEPARAM = 0x12, 0x13
ETHTOOL_GSTRINGS, ETHTOOL_GSTATS = 0x1B, 0x1D
ETHTOOL_GPERMADDR = 0x20
ETH_SS_STATS = 1
# struct ethtool_drvinfo: command, driver, version, firmware version, bus, expansion ROM version; then counts
DRVINFO = struct.Struct("=I32s32s32s32s32s32x")
# the position of n_stats, the number of statistics, in struct ethtool_drvinfo
STATS_COUNT = struct.Struct("=176x4xI")
# Room for statistics that a driver adds between the calls, such as for new channels: the kernel writes all of them.
STATS_SPARE = 4096
# struct ethtool_perm_addr: command, length, address
PERM_ADDR = struct.Struct("=II32s")
PAUSE = struct.Struct("=IIII")  # struct ethtool_pauseparam: command, autonegotiation, receive, send


class DriverInfo(t.NamedTuple):
    """Driver name, driver version and firmware version; None if the driver does not report it."""

    driver: str | None
    version: str | None
    firmware: str | None


def driver_infos(netdevs: t.Iterable[str]) -> dict[str, DriverInfo]:
    """Return the driver information by netdev, without netdevs that are removed or report none."""
    request_data = DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b"")
    return {name: decode(answer) for name, answer in _ioctl(netdevs, request_data)}


def permanent_addresses(netdevs: t.Iterable[str]) -> dict[str, bytes]:
    """Return the permanent hardware addresses by netdev, without netdevs that report none."""
    found: dict[str, bytes] = {}
    for name, answer in _ioctl(netdevs, PERM_ADDR.pack(ETHTOOL_GPERMADDR, 32, b"")):
        _command, length, address = PERM_ADDR.unpack(answer)
        if any(address[:length]):
            found[name] = address[:length]
    return found


class Pause(t.NamedTuple):
    """Global pause (802.3x): whether it is negotiated, accepted (``rx``) and sent (``tx``)."""

    autoneg: bool
    rx: bool
    tx: bool


def pauses(netdevs: t.Iterable[str]) -> dict[str, Pause]:
    """Return the pause settings by netdev, without netdevs whose driver has none."""
    request_data = PAUSE.pack(ETHTOOL_GPAUSEPARAM, 0, 0, 0)
    return {name: Pause(*map(bool, PAUSE.unpack(answer)[1:])) for name, answer in _ioctl(netdevs, request_data)}


def set_pause(netdev: str, pause: Pause) -> None:
    """Set global pause. Raises the kernel's OSError."""
    data = array.array("B", PAUSE.pack(ETHTOOL_SPAUSEPARAM, *pause))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), SIOCETHTOOL, struct.pack("16sP8x", netdev.encode(), data.buffer_info()[0]))


def statistics(netdevs: t.Iterable[str], wanted: t.Callable[[str], bool]) -> dict[str, dict[str, int]]:
    """Return the driver's statistics whose names are ``wanted`` by netdev, without netdevs that have none of them."""
    found: dict[str, dict[str, int]] = {}
    request_data = DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b"")
    for netdev, info in _ioctl(netdevs, request_data):
        (count,) = STATS_COUNT.unpack_from(info)
        if not count:
            continue
        names = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count) + bytes(32 * (count + STATS_SPARE))
        values = struct.pack("=II", ETHTOOL_GSTATS, count) + bytes(8 * (count + STATS_SPARE))
        for (_name, strings), (_same, numbers) in zip(_ioctl([netdev], names), _ioctl([netdev], values)):
            rows = statistics_rows(strings, numbers)
            chosen = {name: value for name, value in rows.items() if wanted(name)}
            if chosen:
                found[netdev] = chosen
    return found


def statistics_rows(strings: bytes, numbers: bytes) -> dict[str, int]:
    """Return the statistics in answers to ETHTOOL_GSTRINGS and ETHTOOL_GSTATS; empty if their numbers differ."""
    _command, _set, names_count = struct.unpack_from("=III", strings)
    _command, values_count = struct.unpack_from("=II", numbers)
    if names_count != values_count:
        return {}
    names = (strings[12 + 32 * index : 44 + 32 * index].partition(b"\0")[0] for index in range(names_count))
    values = struct.unpack_from("=%dQ" % values_count, numbers, 8)
    return {name.decode("utf-8", "replace").strip(): value for name, value in zip(names, values)}


def _ioctl(netdevs: t.Iterable[str], request_data: bytes) -> t.Iterator[tuple[str, bytes]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in netdevs:
            data = array.array("B", request_data)
            request = struct.pack("16sP8x", name.encode(), data.buffer_info()[0])
            try:
                fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)
            except OSError:
                continue
            yield name, data.tobytes()


def decode(data: bytes) -> DriverInfo:
    _command, driver, version, firmware, _bus, _rom = DRVINFO.unpack(data)
    return DriverInfo(*(_text(value) for value in (driver, version, firmware)))


def _text(value: bytes) -> str | None:
    text = value.partition(b"\0")[0].decode("utf-8", "replace").strip()
    return None if text in ("", "N/A") else text
