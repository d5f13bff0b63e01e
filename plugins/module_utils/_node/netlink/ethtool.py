# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What ``ethtool -i``, ``-P`` and ``-a`` show and ``-A`` sets, by the same questions to the kernel: SIOCETHTOOL."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import typing as t

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
ETHTOOL_GPAUSEPARAM, ETHTOOL_SPAUSEPARAM = 0x12, 0x13
ETHTOOL_GPERMADDR = 0x20
# struct ethtool_drvinfo: command, driver, version, firmware version, bus, expansion ROM version; then counts
DRVINFO = struct.Struct("=I32s32s32s32s32s32x")
# struct ethtool_perm_addr: command, length, address
PERM_ADDR = struct.Struct("=II32s")
PAUSE = struct.Struct("=IIII")  # struct ethtool_pauseparam: command, autonegotiation, receive, send


class DriverInfo(t.NamedTuple):
    """Each None where the driver says nothing."""

    driver: str | None
    version: str | None
    firmware: str | None


def driver_infos(netdevs: t.Iterable[str]) -> dict[str, DriverInfo]:
    """By netdev; those that vanished or do not answer are left out."""
    question = DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b"")
    return {name: decode(answer) for name, answer in _ask(netdevs, question)}


def permanent_addresses(netdevs: t.Iterable[str]) -> dict[str, bytes]:
    """The hardware addresses that the NICs were made with, by netdev; those that do not tell are left out."""
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
