# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What ``ethtool -i`` shows, by the same question to the kernel: SIOCETHTOOL, ETHTOOL_GDRVINFO."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import typing as t

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
# struct ethtool_drvinfo: command, driver, version, firmware version, bus, expansion ROM version; then counts
DRVINFO = struct.Struct("=I32s32s32s32s32s32x")


class DriverInfo(t.NamedTuple):
    """Each None where the driver says nothing."""

    driver: str | None
    version: str | None
    firmware: str | None


def driver_infos(netdevs: t.Iterable[str]) -> dict[str, DriverInfo]:
    """By netdev; those that vanished or do not answer are left out."""
    found: dict[str, DriverInfo] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in netdevs:
            data = array.array("B", DRVINFO.pack(ETHTOOL_GDRVINFO, b"", b"", b"", b"", b""))
            request = struct.pack("16sP8x", name.encode(), data.buffer_info()[0])
            try:
                fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)
            except OSError:
                continue
            found[name] = decode(data.tobytes())
    return found


def decode(data: bytes) -> DriverInfo:
    _command, driver, version, firmware, _bus, _rom = DRVINFO.unpack(data)
    return DriverInfo(*(_text(value) for value in (driver, version, firmware)))


def _text(value: bytes) -> str | None:
    text = value.partition(b"\0")[0].decode("utf-8", "replace").strip()
    return None if text in ("", "N/A") else text
