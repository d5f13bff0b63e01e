# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What ``ethtool -i``, ``-P``, ``-a`` and ``-S`` show and ``-A`` sets, by the same ioctl: SIOCETHTOOL."""

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
# where struct ethtool_drvinfo has n_stats, the number of statistics
STATS_COUNT = struct.Struct("=176x4xI")
# The kernel fills as many statistics as the driver has at that moment. A driver that gets more channels has more.
STATS_SPARE = 4096
# struct ethtool_perm_addr: command, length, address
PERM_ADDR = struct.Struct("=II32s")
PAUSE = struct.Struct("=IIII")  # struct ethtool_pauseparam: command, autonegotiation, receive, send


class DriverInfo(t.NamedTuple):
    """Each None if the driver does not report it."""

    driver: str | None
    version: str | None
    firmware: str | None


def driver_infos(netdevs: t.Iterable[str]) -> dict[str, DriverInfo]:
    """By netdev; those that vanished or do not answer are left out."""
    question = DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b"")
    return {name: decode(answer) for name, answer in _ask(netdevs, question)}


def permanent_addresses(netdevs: t.Iterable[str]) -> dict[str, bytes]:
    """The hardware addresses that the NICs were made with, by netdev, without NICs that do not report theirs."""
    found: dict[str, bytes] = {}
    for name, answer in _ask(netdevs, PERM_ADDR.pack(ETHTOOL_GPERMADDR, 32, b"")):
        _command, length, address = PERM_ADDR.unpack(answer)
        if any(address[:length]):
            found[name] = address[:length]
    return found


class Pause(t.NamedTuple):
    """Global pause (802.3x): whether it is negotiated, obeyed and sent."""

    autoneg: bool
    rx: bool
    tx: bool


def pauses(netdevs: t.Iterable[str]) -> dict[str, Pause]:
    """By netdev; those whose driver has none are left out."""
    question = PAUSE.pack(ETHTOOL_GPAUSEPARAM, 0, 0, 0)
    return {name: Pause(*map(bool, PAUSE.unpack(answer)[1:])) for name, answer in _ask(netdevs, question)}


def set_pause(netdev: str, pause: Pause) -> None:
    """Raises OSError as the kernel gives it."""
    data = array.array("B", PAUSE.pack(ETHTOOL_SPAUSEPARAM, *pause))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), SIOCETHTOOL, struct.pack("16sP8x", netdev.encode(), data.buffer_info()[0]))


def statistics(netdevs: t.Iterable[str], wanted: t.Callable[[str], bool]) -> dict[str, dict[str, int]]:
    """Netdev -> the driver's statistics whose names are ``wanted``. Netdevs that have none of them are left out."""
    found: dict[str, dict[str, int]] = {}
    question = DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b"")
    for netdev, info in _ask(netdevs, question):
        (count,) = STATS_COUNT.unpack_from(info)
        if not count:
            continue
        names = struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count) + bytes(32 * (count + STATS_SPARE))
        values = struct.pack("=II", ETHTOOL_GSTATS, count) + bytes(8 * (count + STATS_SPARE))
        for (_name, strings), (_same, numbers) in zip(_ask([netdev], names), _ask([netdev], values)):
            rows = statistics_rows(strings, numbers)
            chosen = {name: value for name, value in rows.items() if wanted(name)}
            if chosen:
                found[netdev] = chosen
    return found


def statistics_rows(strings: bytes, numbers: bytes) -> dict[str, int]:
    """The answers of ETHTOOL_GSTRINGS and ETHTOOL_GSTATS; empty if they do not have the same number of statistics."""
    _command, _set, named = struct.unpack_from("=III", strings)
    _command, counted = struct.unpack_from("=II", numbers)
    if named != counted:
        return {}
    names = (strings[12 + 32 * at : 44 + 32 * at].partition(b"\0")[0] for at in range(named))
    values = struct.unpack_from("=%dQ" % counted, numbers, 8)
    return {name.decode("utf-8", "replace").strip(): value for name, value in zip(names, values)}


def _ask(netdevs: t.Iterable[str], question: bytes) -> t.Iterator[tuple[str, bytes]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in netdevs:
            data = array.array("B", question)
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
