# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Find which hosts answer for an IP address on a link: by ARP probes (RFC 5227), and for IPv6 by the neighbour
solicitations of duplicate address detection (RFC 4862). Receivers do not cache the sender of either.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready

ETH_P_ARP, ETH_P_IPV6 = 0x0806, 0x86DD
BROADCAST = b"\xff" * 6
REQUEST, REPLY = 1, 2
FORM = "!HHBBH6s4s6s4s"
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
HOP_LIMIT = 255
# A packet may be lost, and the first one may be delayed while a switch learns the address.
TRIES = 2

# Asked: netdev -> IP addresses. Answers: (netdev, IP address) -> hardware addresses.
Asked = t.Mapping[str, t.Iterable[str]]
Answers = t.Dict[t.Tuple[str, str], t.List[str]]


def probe_frame(mac: bytes, address: str) -> bytes:
    """Return an ARP request for the address. Its sender address is 0.0.0.0, so that no host caches it."""
    body = struct.pack(FORM, 1, 0x0800, 6, 4, REQUEST, mac, bytes(4), bytes(6), socket.inet_aton(address))
    return BROADCAST + mac + struct.pack("!H", ETH_P_ARP) + body


def solicitation(mac: bytes, address: str) -> bytes:
    """Return a neighbour solicitation from the unspecified address, so that the answer goes to all hosts."""
    target = socket.inet_pton(socket.AF_INET6, address)
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + target[13:]
    body = struct.pack("!BBHI16s", SOLICITATION, 0, 0, 0, target)
    pseudo = bytes(16) + group + struct.pack("!I3xB", len(body), ICMPV6)
    total = sum(struct.unpack("!%dH" % ((len(pseudo) + len(body)) // 2), pseudo + body))
    total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, HOP_LIMIT) + bytes(16) + group
    return b"\x33\x33" + group[12:] + mac + struct.pack("!H", ETH_P_IPV6) + head + body


def answer(frame: bytes) -> tuple[str, str] | None:
    """Return (address, hardware address) of an ARP reply or a neighbour advertisement; None for other frames."""
    kind = frame[12:14]
    if len(frame) >= 42 and kind == b"\x08\x06":
        _hardware, _protocol, _six, _four, code, mac, address, _target, _target_address = struct.unpack_from(
            FORM, frame, 14
        )
        return (socket.inet_ntoa(address), _hardware_address(mac)) if code == REPLY else None
    if len(frame) >= 78 and kind == b"\x86\xdd" and (frame[20], frame[54]) == (ICMPV6, ADVERTISEMENT):
        return socket.inet_ntop(socket.AF_INET6, frame[62:78]), _hardware_address(frame[6:12])
    return None


def _hardware_address(mac: bytes) -> str:
    return ":".join("%02x" % byte for byte in mac)


def ask(asked: Asked, seconds: float, ours: t.Container[str] = ()) -> Answers:
    """Probe on all netdevs in parallel. Return the addresses that were answered.

    :param asked: IP addresses by netdev; IPv6 addresses in their shortest form.
    :param ours: hardware addresses whose answers are ignored: a NIC with VFs may return a node its own probe.
    :param seconds: how long to wait for answers in each of the two rounds; shorter if all addresses were answered.
    :raises RailyardError: if raw sockets are not permitted.
    """
    wanted = {netdev: set(addresses) for netdev, addresses in asked.items()}
    kinds = sorted({(netdev, _ethertype(address)) for netdev, addresses in wanted.items() for address in addresses})
    found: Answers = {}
    poller = select.poll()
    with contextlib.ExitStack() as stack:
        sockets: dict[int, tuple[str, socket.socket]] = {}
        for netdev, kind in kinds:
            try:
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
            except OSError as error:
                remedy = "run the task with become"
                raise RailyardError("no raw socket: %s" % error.strerror, netdev, remedy) from None
            stack.callback(sock.close)
            sock.setblocking(False)
            with contextlib.suppress(OSError):  # no host answers on a link that is down or removed
                sock.bind((netdev, kind))
                sockets[sock.fileno()] = (netdev, sock)
                poller.register(sock.fileno(), select.POLLIN)
        for _try in range(TRIES):
            for netdev, sock in sockets.values():
                for address in sorted(wanted[netdev]):
                    with contextlib.suppress(OSError):
                        _device, kind, _packet, _hardware, mac = sock.getsockname()
                        if (netdev, address) not in found and kind == _ethertype(address):
                            sock.send((solicitation if ":" in address else probe_frame)(mac, address))
            for fd in ready(poller, seconds, lambda: _unanswered(wanted, sockets, found)):
                _hear(*sockets[fd], wanted, ours, found)
    return found


def _ethertype(address: str) -> int:
    return ETH_P_IPV6 if ":" in address else ETH_P_ARP


def _unanswered(
    wanted: t.Mapping[str, set[str]], sockets: t.Mapping[int, tuple[str, socket.socket]], found: Answers
) -> bool:
    return any((netdev, address) not in found for netdev, _mouth in sockets.values() for address in wanted[netdev])


def _hear(
    netdev: str, sock: socket.socket, wanted: t.Mapping[str, set[str]], ours: t.Container[str], found: Answers
) -> None:
    with contextlib.suppress(OSError):
        reply = answer(sock.recv(2048))
        if reply and reply[0] in wanted[netdev] and reply[1] not in ours:
            macs = found.setdefault((netdev, reply[0]), [])
            if reply[1] not in macs:
                macs.append(reply[1])
