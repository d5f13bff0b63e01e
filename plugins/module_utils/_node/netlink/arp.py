# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Find which hosts answer for an IP address on a link: by ARP probes (RFC 5227), and for IPv6 by the neighbour
solicitations of duplicate address detection (RFC 4862). Receivers do not cache the sender of either.

Frames are those of Ethernet or of IP over InfiniBand (RFC 4391), whose hardware addresses have 20 bytes. The kernel
puts the hardware address of the receiver before an InfiniBand frame (``ipoib_pseudo_header``, Linux 4.9 and later).
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    ARPHRD_INFINIBAND,
    hardware_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

ETH_P_ARP, ETH_P_IPV6 = 0x0806, 0x86DD
ARPHRD_ETHER = 1
BROADCAST = b"\xff" * 6
REQUEST, REPLY = 1, 2
ARP_HEAD = "!HHBBH"
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
HOP_LIMIT = 255
# Option of an advertisement with the hardware address of its sender, and the padding before an InfiniBand address.
TARGET_ADDRESS, INFINIBAND_PAD = 2, 2
# A packet may be lost, and the first one may be delayed while a switch learns the address.
TRIES = 2

# Asked: netdev -> IP addresses. Answers: (netdev, IP address) -> hardware addresses.
Asked = t.Mapping[str, t.Iterable[str]]
Answers = t.Dict[t.Tuple[str, str], t.List[str]]


class LinkAddresses(t.NamedTuple):
    """The hardware addresses of a netdev: 6 bytes for Ethernet, 20 bytes for InfiniBand."""

    address: bytes
    broadcast: bytes = BROADCAST

    @property
    def infiniband(self) -> bool:
        return len(self.address) > len(BROADCAST)

    def frame(self, receiver: bytes, ethertype: int, packet: bytes) -> bytes:
        if self.infiniband:
            return receiver + struct.pack("!HH", ethertype, 0) + packet
        return receiver + self.address + struct.pack("!H", ethertype) + packet

    def multicast(self, group: bytes) -> bytes:
        """Return the hardware address of an IPv6 group (RFC 2464; RFC 4391, which has partition and scope)."""
        if self.infiniband:
            scope = 0x10 | self.broadcast[5] & 0x0F
            return b"\x00\xff\xff\xff\xff" + bytes((scope,)) + b"\x60\x1b" + self.broadcast[8:10] + group[6:]
        return b"\x33\x33" + group[12:]

    def packet(self, frame: bytes) -> tuple[int, bytes]:
        """Return the ethertype of a received frame, and its packet."""
        start = 24 if self.infiniband else 14
        kind = frame[20:22] if self.infiniband else frame[12:14]
        return int.from_bytes(kind, "big"), frame[start:]


def arp_probe(link: LinkAddresses, address: str) -> bytes:
    """Return an ARP request for the address. Its sender address is 0.0.0.0, so that no host caches it."""
    size = len(link.address)
    hardware = ARPHRD_INFINIBAND if link.infiniband else ARPHRD_ETHER
    head = struct.pack(ARP_HEAD, hardware, 0x0800, size, 4, REQUEST)
    packet = head + link.address + bytes(4) + bytes(size) + socket.inet_aton(address)
    return link.frame(link.broadcast, ETH_P_ARP, packet)


def solicitation(link: LinkAddresses, address: str) -> bytes:
    """Return a neighbour solicitation from the unspecified address, so that the answer goes to all hosts."""
    target = socket.inet_pton(socket.AF_INET6, address)
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + target[13:]
    body = struct.pack("!BBHI16s", SOLICITATION, 0, 0, 0, target)
    pseudo = bytes(16) + group + struct.pack("!I3xB", len(body), ICMPV6)
    total = sum(struct.unpack("!%dH" % ((len(pseudo) + len(body)) // 2), pseudo + body))
    total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, HOP_LIMIT) + bytes(16) + group
    return link.frame(link.multicast(group), ETH_P_IPV6, head + body)


def answer(link: LinkAddresses, frame: bytes) -> tuple[str, str] | None:
    """Return (address, hardware address) of an ARP reply or a neighbour advertisement; None for other frames."""
    ethertype, packet = link.packet(frame)
    size = len(link.address)
    if ethertype == ETH_P_ARP and len(packet) >= 16 + 2 * size:
        operation, sender = struct.unpack_from("!H", packet, 6)[0], packet[8 : 8 + size]
        address = socket.inet_ntoa(packet[8 + size : 12 + size])
        return (address, hardware_address(sender)) if operation == REPLY else None
    if ethertype == ETH_P_IPV6 and len(packet) >= 64 and (packet[6], packet[40]) == (ICMPV6, ADVERTISEMENT):
        start = 66 + (INFINIBAND_PAD if link.infiniband else 0)
        sender = packet[start : start + size] if packet[64:65] == bytes((TARGET_ADDRESS,)) else frame[6:12]
        return socket.inet_ntop(socket.AF_INET6, packet[48:64]), hardware_address(sender)
    return None


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
        sockets: dict[int, _Socket] = {}
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
                sockets[sock.fileno()] = _Socket(netdev, sock, kind, _link(sock, netdev))
                poller.register(sock.fileno(), select.POLLIN)
        for _try in range(TRIES):
            for each in sockets.values():
                for address in sorted(wanted[each.netdev]):
                    if (each.netdev, address) not in found and each.ethertype == _ethertype(address):
                        with contextlib.suppress(OSError):
                            each.sock.send((solicitation if ":" in address else arp_probe)(each.link, address))
            for fd in ready(poller, seconds, lambda: _unanswered(wanted, sockets, found)):
                _hear(sockets[fd], wanted, ours, found)
    return found


class _Socket(t.NamedTuple):
    netdev: str
    sock: socket.socket
    ethertype: int
    link: LinkAddresses


def _link(sock: socket.socket, netdev: str) -> LinkAddresses:
    """Return the hardware addresses of a bound socket's netdev. Raises OSError if the netdev was removed."""
    _device, _kind, _packet, hardware, address = sock.getsockname()
    if hardware != ARPHRD_INFINIBAND:
        return LinkAddresses(address)
    # getsockname has only 8 bytes of an address
    with Rtnetlink() as kernel:
        link = kernel.link(netdev)
    if link is None:
        raise OSError("%s was removed" % netdev)
    return LinkAddresses(link.address, link.broadcast)


def _ethertype(address: str) -> int:
    return ETH_P_IPV6 if ":" in address else ETH_P_ARP


def _unanswered(wanted: t.Mapping[str, set[str]], sockets: t.Mapping[int, _Socket], found: Answers) -> bool:
    netdevs = {each.netdev for each in sockets.values()}
    return any((netdev, address) not in found for netdev in netdevs for address in wanted[netdev])


def _hear(each: _Socket, wanted: t.Mapping[str, set[str]], ours: t.Container[str], found: Answers) -> None:
    with contextlib.suppress(OSError):
        reply = answer(each.link, each.sock.recv(2048))
        if reply and reply[0] in wanted[each.netdev] and reply[1] not in ours:
            macs = found.setdefault((each.netdev, reply[0]), [])
            if reply[1] not in macs:
                macs.append(reply[1])
