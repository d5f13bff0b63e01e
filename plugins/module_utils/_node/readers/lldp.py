# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""LLDP neighbours (IEEE 802.1AB) of ports, from LLDP daemons or by listening on the ports.

Listening sends nothing. A switch sends every 30 seconds by default, so listening takes at least as long if there is
no neighbour.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

ETH_P_LLDP = 0x88CC
# Nearest bridge, nearest non-TPMR bridge, nearest customer bridge: switches send to one of them.
GROUPS = tuple(bytes.fromhex("0180c20000" + last) for last in ("0e", "03", "00"))
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_MULTICAST = 0
HEADER = 14
# systemd-networkd stores received frames, each preceded by its size (eight bytes, little-endian).
NETWORKD = "/run/systemd/netif/lldp/%d"
CHASSIS, PORT, TIME_TO_LIVE, PORT_DESCRIPTION, SYSTEM_NAME = 1, 2, 3, 4, 5
MAC_SUBTYPES = {CHASSIS: 4, PORT: 3}
ADDRESS_SUBTYPES = {CHASSIS: 5, PORT: 4}

Row = t.Dict[str, t.Any]


def parse(frame: bytes) -> Row | None:
    """Return ``chassis``, ``port``, ``port_description`` and ``system`` of a frame; None if it is not valid LLDP."""
    found: Row = {"chassis": None, "port": None, "port_description": None, "system": None}
    keys = {CHASSIS: "chassis", PORT: "port", PORT_DESCRIPTION: "port_description", SYSTEM_NAME: "system"}
    for kind, value in _values(frame):
        if kind in keys:
            found[keys[kind]] = _identity(kind, value) if kind in MAC_SUBTYPES else _text(value)
    return found if found["chassis"] and found["port"] else None


def seconds(frame: bytes) -> int:
    """Return for how many seconds a frame is valid. 0: the neighbour is about to leave the link."""
    values = [value for kind, value in _values(frame) if kind == TIME_TO_LIVE and len(value) >= 2]
    return int.from_bytes(values[0][:2], "big") if values else 0


def _values(frame: bytes) -> t.Iterator[tuple[int, bytes]]:
    """Yield type and value of each part of a frame; nothing for frames of other protocols."""
    offset = HEADER
    if frame[12:14] == b"\x81\x00":
        offset += 4
    if len(frame) < offset or frame[offset - 2 : offset] != struct.pack("!H", ETH_P_LLDP):
        return
    while offset + 2 <= len(frame):
        header = struct.unpack_from("!H", frame, offset)[0]
        kind, size = header >> 9, header & 0x1FF
        value = frame[offset + 2 : offset + 2 + size]
        if kind == 0 or len(value) < size:
            return
        yield kind, value
        offset += 2 + size


def _identity(kind: int, value: bytes) -> str | None:
    if len(value) < 2:
        return None
    if value[0] == MAC_SUBTYPES[kind] and len(value) == 7:
        return ":".join("%02x" % byte for byte in value[1:])
    if value[0] == ADDRESS_SUBTYPES[kind] and len(value) == 6 and value[1] == 1:
        return socket.inet_ntoa(value[2:])
    return _text(value[1:])


def _text(value: bytes) -> str | None:
    return "".join(char for char in value.decode("utf-8", "replace").strip("\0 ") if char.isprintable()) or None


def noted(system: System, netdevs: t.Mapping[str, int]) -> list[Row]:
    """Return the neighbours that lldpd or systemd-networkd knows. ``netdevs``: name -> index of the interface."""
    found = _of_lldpd(system, set(netdevs))
    for name, index in netdevs.items():
        if name not in {row["netdev"] for row in found}:
            for frame in _frames(system.read_bytes(NETWORKD % index) or b""):
                row = parse(frame)
                found += [dict(row, netdev=name, source="systemd-networkd")] if row else []
    return found


def _frames(data: bytes) -> t.Iterator[bytes]:
    offset = 0
    while offset + 8 <= len(data):
        size = struct.unpack_from("<Q", data, offset)[0]
        yield data[offset + 8 : offset + 8 + size]
        offset += 8 + size


def _of_lldpd(system: System, netdevs: t.Container[str]) -> list[Row]:
    program = system.which("lldpctl")
    if not program:
        return []
    result = system.run([program, "-f", "json0"], 20)
    try:
        neighbours = json.loads(result.out)["lldp"][0].get("interface") or [] if result.rc == 0 else []
        rows = [_from_lldpd(each) for each in neighbours]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return []
    return [row for row in rows if row["netdev"] in netdevs and row["chassis"] and row["port"]]


def _from_lldpd(neighbour: t.Mapping[str, t.Any]) -> Row:
    chassis, port = (neighbour.get(key) or [{}] for key in ("chassis", "port"))
    return {
        "chassis": _value(chassis[0], "id"),
        "port": _value(port[0], "id"),
        "port_description": _value(port[0], "descr"),
        "system": _value(chassis[0], "name"),
        "netdev": neighbour["name"],
        "source": "lldpd",
    }


def _value(data: t.Mapping[str, t.Any], key: str) -> str | None:
    values = data.get(key) or [{}]
    return values[0].get("value") or None


def open_listener(netdev: str, index: int) -> socket.socket:
    """Return a socket that receives the LLDP frames of an interface, and does not wait. Raises OSError."""
    # without a protocol until it is bound, so that it does not receive frames of other interfaces
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    try:
        listener.setblocking(False)
        listener.bind((netdev, ETH_P_LLDP))
        for group in GROUPS:
            request = struct.pack("iHH8s", index, PACKET_MR_MULTICAST, len(group), group)
            listener.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    except OSError:
        listener.close()
        raise
    return listener


def listen(netdevs: t.Mapping[str, int], seconds: float) -> list[Row]:
    """Listen on all netdevs in parallel, until each has received a frame or ``seconds`` have passed."""
    sockets: dict[int, tuple[str, socket.socket]] = {}
    found: dict[str, list[Row]] = {}
    unusable: set[str] = set()
    poller = select.poll()
    try:
        for name, index in netdevs.items():
            try:
                listener = open_listener(name, index)
            except OSError:  # removed, or not Ethernet
                unusable.add(name)
                continue
            sockets[listener.fileno()] = (name, listener)
            poller.register(listener.fileno(), select.POLLIN)
        for fd in ready(poller, seconds, lambda: len(found) + len(unusable) < len(netdevs)):
            name, listener = sockets[fd]
            row = parse(receive(listener) or b"")
            if row and row not in found.get(name, []):
                found.setdefault(name, []).append(row)
    finally:
        for _name, listener in sockets.values():
            listener.close()
    return [dict(row, netdev=name, source="heard") for name in netdevs for row in found.get(name, [])]


def receive(listener: socket.socket) -> bytes | None:
    """Return the next frame, empty if this node sent it; None if no frame waits."""
    try:
        frame, sender = listener.recvfrom(65535)
    except OSError:  # no frame, or the link went down
        return None
    # ignore frames that a daemon of this node sends
    return b"" if sender[2] == socket.PACKET_OUTGOING else frame


def look(system: System, netdevs: t.Mapping[str, int], seconds: float) -> list[Row]:
    """Return one row per neighbour: those that daemons know; for other ports those that send within ``seconds``."""
    found = noted(system, netdevs)
    known = {row["netdev"] for row in found}
    silent = {name: index for name, index in netdevs.items() if name not in known}
    return found + (listen(silent, seconds) if silent and seconds > 0 else [])
