# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which hosts answer for an IPv4 address on a link, by ARP probes (RFC 5227), which no receiver caches."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready

ETH_P_ARP = 0x0806
BROADCAST = b"\xff" * 6
REQUEST, REPLY = 1, 2
FORM = "!HHBBH6s4s6s4s"
# An answer may be lost, and the first one may wait for a switch to learn.
TRIES = 2

# Asked: netdev -> addresses. Answered: (netdev, address) -> hardware addresses.
Asked = t.Mapping[str, t.Iterable[str]]
Answers = t.Dict[t.Tuple[str, str], t.List[str]]


def probe_frame(mac: bytes, address: str) -> bytes:
    """A request for the address whose sender has none, so that no table takes it up."""
    body = struct.pack(FORM, 1, 0x0800, 6, 4, REQUEST, mac, bytes(4), bytes(6), socket.inet_aton(address))
    return BROADCAST + mac + struct.pack("!H", ETH_P_ARP) + body


def answer(frame: bytes) -> tuple[str, str] | None:
    """(address, hardware address) of a reply."""
    if len(frame) < 42 or frame[12:14] != b"\x08\x06":
        return None
    _hardware, _protocol, _six, _four, kind, mac, address, _target, _sought = struct.unpack_from(FORM, frame, 14)
    if kind != REPLY:
        return None
    return socket.inet_ntoa(address), ":".join("%02x" % byte for byte in mac)


def ask(asked: Asked, seconds: float, ours: t.Container[str] = ()) -> Answers:
    """Probe on all netdevs in parallel. Returns only what was answered.

    :param ours: hardware addresses whose answers do not count: a NIC with VFs may hand a node its own question back.
    :param seconds: how long to wait for answers to each of two rounds of questions; less where all have answered.
    :raises RailyardError: without the right to raw sockets.
    """
    wanted = {netdev: set(addresses) for netdev, addresses in asked.items()}
    found: Answers = {}
    poller = select.poll()
    with contextlib.ExitStack() as stack:
        mouths: dict[int, tuple[str, socket.socket]] = {}
        for netdev in wanted:
            try:
                mouth = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP))
            except OSError as error:
                remedy = "run the task with become"
                raise RailyardError("no raw socket: %s" % error.strerror, netdev, remedy) from None
            stack.callback(mouth.close)
            mouth.setblocking(False)
            with contextlib.suppress(OSError):  # a link that is down, or gone, has no one to answer
                mouth.bind((netdev, ETH_P_ARP))
                mouths[mouth.fileno()] = (netdev, mouth)
                poller.register(mouth.fileno(), select.POLLIN)
        for _try in range(TRIES):
            for netdev, mouth in mouths.values():
                for address in sorted(wanted[netdev]):
                    if (netdev, address) not in found:
                        with contextlib.suppress(OSError):
                            mouth.send(probe_frame(mouth.getsockname()[4], address))
            for fd in ready(poller, seconds, lambda: _open(wanted, mouths, found)):
                _hear(*mouths[fd], wanted, ours, found)
    return found


def _open(wanted: t.Mapping[str, set[str]], mouths: t.Mapping[int, tuple[str, socket.socket]], found: Answers) -> bool:
    return any((netdev, address) not in found for netdev, _mouth in mouths.values() for address in wanted[netdev])


def _hear(
    netdev: str, mouth: socket.socket, wanted: t.Mapping[str, set[str]], ours: t.Container[str], found: Answers
) -> None:
    with contextlib.suppress(OSError):
        reply = answer(mouth.recv(2048))
        if reply and reply[0] in wanted[netdev] and reply[1] not in ours:
            macs = found.setdefault((netdev, reply[0]), [])
            if reply[1] not in macs:
                macs.append(reply[1])
