# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find which hosts claim an IP address on a link: by ARP probes (RFC 5227), and for IPv6 by the neighbour solicitations
of duplicate address detection (RFC 4862). Receivers do not cache the sender of either.

A claim is a well-formed packet whose sender has the address, or probes for it too. Own frames are recognized by what
was sent, never by their MAC: a clone of a node has the MAC addresses of the node, and NICs with VFs return frames.

Frames are those of Ethernet or of IP over InfiniBand (RFC 4391), whose hardware addresses have 20 bytes. The kernel
puts the hardware address of the receiver before an InfiniBand frame (``ipoib_pseudo_header``, Linux 4.9 and later).
"""

from __future__ import annotations

import array
import collections
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.answers import ready
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    ARPHRD_INFINIBAND,
    hardware_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

ETH_P_ALL, ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0003, 0x0800, 0x0806, 0x86DD
ARPHRD_ETHER = 1
BROADCAST = b"\xff" * 6
REQUEST, REPLY = 1, 2
ARP_HEAD = "!HHBBH"
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
HOP_LIMIT = 255
# Flag of an advertisement that answers a solicitation with a source address.
SOLICITED = 0x40
# Options of neighbour discovery: hardware addresses, padded before an InfiniBand address, and the nonce of RFC 7527.
SOURCE_ADDRESS, TARGET_ADDRESS, NONCE_OPTION, INFINIBAND_PAD = 1, 2, 14, 2
# Identifies the probes of this process. ARP has no field for a nonce, so the padding of the frame has TAG and NONCE.
TAG, NONCE = b"railyard", os.urandom(6)
# A packet may be lost, and the first one may be delayed while a switch learns the address.
TRIES = 2
# Sources: the kernel's if_packet.h, filter.h, bpf_common.h and asm-generic/socket.h.
PACKET_HOST, PACKET_BROADCAST, PACKET_MULTICAST, PACKET_OUTGOING = 0, 1, 2, 4
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST, SO_ATTACH_FILTER = 263, 1, 0, 26
SIOCGIFINDEX = 0x8933
LOAD_WORD, LOAD_HALF, LOAD_BYTE, JUMP, JUMP_EQUAL, AND, RETURN = 0x20, 0x28, 0x30, 0x05, 0x15, 0x54, 0x06
VLAN_TAG, VLAN_TAG_PRESENT, VLAN_ID = 0xFFFFF000 + 44, 0xFFFFF000 + 48, 0xFFF
# The longest frame that is read, in bytes. Packets about addresses are shorter.
FRAME = 2048
# Seconds in which a frame that the netdev has sent may come back, and how many such frames are remembered.
REFLECTION, REMEMBERED = 1.0, 64
# Frames that are read from a socket at once.
_READ = 4

# Asked: netdev -> IP addresses. Answers: (netdev, IP address) -> hardware addresses.
Asked = t.Mapping[str, t.Iterable[str]]
Answers = t.Dict[t.Tuple[str, str], t.List[str]]
Instruction = t.Tuple[int, int, int, int]


class LinkAddresses(t.NamedTuple):
    """The hardware addresses of a netdev: 6 bytes for Ethernet, 20 bytes for InfiniBand."""

    address: bytes
    broadcast: bytes = BROADCAST

    @property
    def infiniband(self) -> bool:
        return len(self.address) > len(BROADCAST)

    @property
    def type_offset(self) -> int:
        """The offset of the ethertype in a received frame, in bytes."""
        return 20 if self.infiniband else 12

    @property
    def packet_offset(self) -> int:
        """The offset of the packet in a received frame, in bytes."""
        return 24 if self.infiniband else 14

    @property
    def arp_head(self) -> tuple[int, int, int, int]:
        """Hardware type, protocol type and sizes of addresses in the ARP packets of this link, for IPv4."""
        return ARPHRD_INFINIBAND if self.infiniband else ARPHRD_ETHER, ETH_P_IP, len(self.address), 4

    @property
    def arp_size(self) -> int:
        """The size of an ARP packet in bytes, without padding."""
        return 16 + 2 * len(self.address)

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
        kind = frame[self.type_offset : self.type_offset + 2]
        return int.from_bytes(kind, "big"), frame[self.packet_offset :]


class Claim(t.NamedTuple):
    """The claim of a packet's sender that it has an address. ``probe``: it does not have it yet, and probes for it.

    ``mac``: the hardware address of the sender; ``unknown`` if an InfiniBand frame does not contain it.
    """

    address: str
    mac: str
    probe: bool = False


# -- frames ------------------------------------------------------------------------------------------------------------


def arp_probe(link: LinkAddresses, address: str, source: str = "0.0.0.0") -> bytes:
    """Return an ARP request for the address. With the sender address 0.0.0.0, no host caches it."""
    size = len(link.address)
    head = struct.pack(ARP_HEAD, *link.arp_head, REQUEST)
    packet = head + link.address + socket.inet_aton(source) + bytes(size) + socket.inet_aton(address)
    return link.frame(link.broadcast, ETH_P_ARP, packet + TAG + NONCE)


def solicitation(link: LinkAddresses, address: str) -> bytes:
    """Return a neighbour solicitation from the unspecified address, so that the answer goes to all hosts."""
    target = socket.inet_pton(socket.AF_INET6, address)
    group = solicited_group(target)
    body = struct.pack("!BBHI16sBB6s", SOLICITATION, 0, 0, 0, target, NONCE_OPTION, 1, NONCE)
    body = body[:2] + struct.pack("!H", ~icmp_sum(bytes(16), group, body) & 0xFFFF) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), ICMPV6, HOP_LIMIT) + bytes(16) + group
    return link.frame(link.multicast(group), ETH_P_IPV6, head + body)


def solicited_group(target: bytes) -> bytes:
    """Return the solicited-node multicast address of an IPv6 address (RFC 4291, 2.7.1)."""
    return socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + target[13:]


def icmp_sum(source: bytes, destination: bytes, body: bytes) -> int:
    """Return the sum of an ICMPv6 message and its pseudo-header (RFC 4443, 2.3). It is 0xFFFF in a received message."""
    data = source + destination + struct.pack("!I3xB", len(body), ICMPV6) + body + bytes(len(body) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xFFFF) + (total >> 16)
    return (total + (total >> 16)) & 0xFFFF


def claim(link: LinkAddresses, frame: bytes) -> Claim | None:
    """Return the claim of a received frame; None if it is malformed, a probe of this process, or another packet."""
    ethertype, packet = link.packet(frame)
    if ethertype == ETH_P_ARP:
        return _arp_claim(link, packet)
    return _neighbour_claim(link, frame, packet) if ethertype == ETH_P_IPV6 else None


def _arp_claim(link: LinkAddresses, packet: bytes) -> Claim | None:
    """Source: RFC 5227, 2.1.1 and 2.4."""
    if len(packet) < link.arp_size:
        return None
    operation = int.from_bytes(packet[6:8], "big")
    if packet[:6] != struct.pack("!HHBB", *link.arp_head) or operation not in (REQUEST, REPLY):
        return None
    at = 8 + len(link.address)
    sender, address, target = packet[8:at], packet[at : at + 4], packet[link.arp_size - 4 : link.arp_size]
    if any(address):
        return Claim(socket.inet_ntoa(address), hardware_address(sender))
    own = packet[link.arp_size :].startswith(TAG + NONCE)
    return None if operation == REPLY or own else Claim(socket.inet_ntoa(target), hardware_address(sender), True)


def _neighbour_claim(link: LinkAddresses, frame: bytes, packet: bytes) -> Claim | None:
    """Source: RFC 4861, 7.1; RFC 4862, 5.4; RFC 7527, 4.2."""
    if len(packet) < 64:
        return None
    word, length, header, hop_limit = struct.unpack_from("!IHBB", packet)
    if (word >> 28, header, hop_limit) != (6, ICMPV6, HOP_LIMIT) or not 24 <= length <= len(packet) - 40:
        return None
    source, destination, body = packet[8:24], packet[24:40], packet[40 : 40 + length]
    options = _options(body[24:])
    if body[1] or options is None or icmp_sum(source, destination, body) != 0xFFFF:
        return None
    target = body[8:24]
    address = socket.inet_ntop(socket.AF_INET6, target)
    sender = b"" if link.infiniband else frame[6:12]
    if body[0] == ADVERTISEMENT and not (destination[0] == 0xFF and body[4] & SOLICITED):
        start = INFINIBAND_PAD if link.infiniband else 0
        option = options.get(TARGET_ADDRESS, b"")[start : start + len(link.address)]
        return Claim(address, hardware_address(option or sender) or "unknown")
    probe = body[0] == SOLICITATION and not any(source) and destination == solicited_group(target)
    if probe and SOURCE_ADDRESS not in options and options.get(NONCE_OPTION) != NONCE:
        return Claim(address, hardware_address(sender) or "unknown", True)
    return None


def _options(data: bytes) -> dict[int, bytes] | None:
    """Return the options of neighbour discovery by type; None if one is malformed."""
    options: dict[int, bytes] = {}
    while data:
        size = 8 * data[1] if len(data) > 1 else 0
        if not 0 < size <= len(data):
            return None
        options.setdefault(data[0], data[2:size])
        data = data[size:]
    return options


def packet_filter(link: LinkAddresses, addresses: t.Iterable[str]) -> bytes:
    """Return a program of classic BPF that accepts untagged packets that may be claims of the addresses.

    The kernel thus drops other traffic before this process wakes.
    """
    accept, drop = (RETURN, 0, 0, FRAME), (RETURN, 0, 0, 0)
    start, size = link.packet_offset, len(link.address)
    addresses = sorted(set(addresses))
    same4: list[Instruction] = []
    same6: list[Instruction] = []
    for address in addresses:
        if ":" not in address:
            same4 += [(JUMP_EQUAL, 0, 1, int.from_bytes(socket.inet_aton(address), "big")), accept]
            continue
        # compare the target word by word; a difference jumps to the next address
        for at, word in enumerate(struct.unpack("!4I", socket.inet_pton(socket.AF_INET6, address))):
            same6 += [(LOAD_WORD, 0, 0, start + 48 + 4 * at), (JUMP_EQUAL, 0, 7 - 2 * at, word)]
        same6.append(accept)
    of_arp = [
        *((LOAD_WORD, 0, 0, start + 8 + size), *same4, (JUMP_EQUAL, 1, 0, 0), drop),
        *((LOAD_WORD, 0, 0, start + 12 + 2 * size), *same4, drop),
    ]
    of_ipv6 = [
        *((LOAD_BYTE, 0, 0, start + 6), (JUMP_EQUAL, 1, 0, ICMPV6), drop),
        *((LOAD_BYTE, 0, 0, start + 40), (JUMP_EQUAL, 2, 0, SOLICITATION), (JUMP_EQUAL, 1, 0, ADVERTISEMENT), drop),
        *(*same6, drop),
    ]
    program: list[Instruction] = [
        *((LOAD_WORD, 0, 0, VLAN_TAG_PRESENT), (JUMP_EQUAL, 4, 0, 0)),
        *((LOAD_WORD, 0, 0, VLAN_TAG), (AND, 0, 0, VLAN_ID), (JUMP_EQUAL, 1, 0, 0), drop),
        *((LOAD_HALF, 0, 0, link.type_offset), (JUMP_EQUAL, 1, 0, ETH_P_ARP), (JUMP, 0, 0, len(of_arp)), *of_arp),
        *((JUMP_EQUAL, 1, 0, ETH_P_IPV6), drop, *of_ipv6),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


# -- sockets -----------------------------------------------------------------------------------------------------------


class Listener:
    """A socket that receives claims of some addresses on one netdev, in the network namespace in which it was opened.

    ``name``: the netdev of its claims, which is another one if frames for ``name`` arrive at the netdev below it.

    :param addresses: IP addresses; IPv6 addresses in their shortest form.
    :raises RailyardError: if raw sockets are not permitted.
    :raises OSError: if the netdev was removed.
    """

    def __init__(self, netdev: str, addresses: t.Iterable[str], name: str = "") -> None:
        self.netdev, self.name = netdev, name or netdev
        self.addresses = sorted(set(addresses))
        self._sent: collections.deque[tuple[float, bytes]] = collections.deque(maxlen=REMEMBERED)
        try:
            self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        except OSError as error:
            raise RailyardError("no raw socket: %s" % error.strerror, netdev, "run the task with become") from None
        try:
            self._sock.setblocking(False)
            # without a protocol, nothing is received before the filter is set; changing one would take milliseconds
            self._sock.bind((netdev, 0))
            self.link = _link(self._sock, netdev)
            program = array.array("B", packet_filter(self.link, self.addresses))
            address, size = program.buffer_info()
            self._sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", size // 8, address))
            # all protocols, as only then are sent frames reported
            self._sock.bind((netdev, ETH_P_ALL))
            self._join_groups(self._index())
        except BaseException:
            self._sock.close()
            raise

    def _index(self) -> int:
        # socket.if_nametoindex reports every error as a netdev that does not exist
        request = struct.pack("16si", self.netdev.encode(), 0)
        return int(struct.unpack("16xi", fcntl.ioctl(self._sock, SIOCGIFINDEX, request))[0])

    def _join_groups(self, index: int) -> None:
        """Let the NIC receive the solicitations of other hosts. Without an address, the kernel has not joined them."""
        for address in self.addresses:
            if ":" in address:
                group = self.link.multicast(solicited_group(socket.inet_pton(socket.AF_INET6, address)))
                membership = struct.pack("iHH", index, PACKET_MR_MULTICAST, len(group)) + group.ljust(8, b"\0")
                self._sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def probe(self, address: str) -> None:
        """Send a probe. Nothing if the netdev is down or was removed."""
        self.send((solicitation if ":" in address else arp_probe)(self.link, address))

    def send(self, frame: bytes) -> None:
        """Send a frame. Nothing if the netdev is down or was removed."""
        # the kernel does not report it as outgoing to the socket that sends it
        self._sent.append((time.monotonic(), self._content(frame)))
        with contextlib.suppress(OSError):
            self._sock.send(frame)

    def claims(self, most: int = _READ) -> list[Claim]:
        """Return the claims of other hosts that have arrived. Does not wait.

        :param most: how many frames are read.
        """
        found = []
        for _frame in range(most):
            try:
                frame, (_netdev, _protocol, direction, *_hardware) = self._sock.recvfrom(FRAME)
            except OSError:
                break
            if direction == PACKET_OUTGOING:
                self._sent.append((time.monotonic(), self._content(frame)))
            elif direction in (PACKET_HOST, PACKET_BROADCAST, PACKET_MULTICAST):
                heard = claim(self.link, frame)
                if heard and heard.address in self.addresses and not self._reflected(frame):
                    found.append(heard)
        return found

    def _reflected(self, frame: bytes) -> bool:
        """Whether the netdev has just sent this packet, and a NIC or switch has returned it, maybe with other padding.

        A probe of a clone of this node has another nonce.
        """
        content, earliest = self._content(frame), time.monotonic() - REFLECTION
        return any(sent.startswith(content) for moment, sent in self._sent if moment >= earliest)

    def _content(self, frame: bytes) -> bytes:
        """Return the packet of a frame without padding, but with the nonce of a probe."""
        ethertype, packet = self.link.packet(frame)
        size = self.link.arp_size if ethertype == ETH_P_ARP else 40 + int.from_bytes(packet[4:6], "big")
        nonce = packet[size : size + len(TAG + NONCE)]
        return packet[:size] + (nonce if nonce.startswith(TAG) else b"")


class Probes:
    """Probes for addresses on several netdevs, and the claims of other hosts. Close it after use.

    ``found``: the hosts that have an address. ``probing``: the hosts that probe for it too. A netdev that is down or
    was removed has no claims.

    :param asked: IP addresses by netdev; IPv6 addresses in their shortest form.
    :raises RailyardError: if raw sockets are not permitted.
    """

    def __init__(self, asked: Asked) -> None:
        self.found: Answers = {}
        self.probing: Answers = {}
        self.listeners: dict[int, Listener] = {}
        self._poller = select.poll()
        try:
            for netdev, addresses in asked.items():
                if addresses:
                    self.listen_on(netdev, addresses)
        except BaseException:
            self.close()
            raise

    def listen_on(self, netdev: str, addresses: t.Iterable[str], name: str = "") -> None:
        """Listen on a netdev of the caller's network namespace. See :class:`Listener`.

        :raises RailyardError: if the kernel refuses it, because addresses would not be checked.
        """
        try:
            listener = Listener(netdev, addresses, name)
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ENXIO, errno.ENETDOWN):
                return
            remedy = "run ip -d link show %s, and journalctl -k" % netdev
            raise RailyardError("claims of addresses cannot be received: %s" % error, netdev, remedy) from None
        self.listeners[listener.fileno()] = listener
        self._poller.register(listener.fileno(), select.POLLIN)

    def send(self, answered: t.Container[tuple[str, str]] = ()) -> None:
        """Probe for all addresses, without those of ``answered``."""
        for listener in self.listeners.values():
            for address in listener.addresses:
                if listener.name == listener.netdev and (listener.name, address) not in answered:
                    listener.probe(address)

    def listen(self, seconds: float, enough: t.Callable[[], object]) -> None:
        """Collect claims for a time; shorter if they are ``enough``."""
        for descriptor in ready(self._poller, seconds, lambda: not enough()):
            listener = self.listeners[descriptor]
            for heard in listener.claims():
                hosts = (self.probing if heard.probe else self.found).setdefault((listener.name, heard.address), [])
                if heard.mac not in hosts:
                    hosts.append(heard.mac)

    def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()
        self.listeners.clear()


def ask(asked: Asked, seconds: float, ours: t.Container[str] = (), own: Answers | None = None) -> Answers:
    """Probe on all netdevs in parallel. Return the addresses that other hosts have.

    :param asked: IP addresses by netdev; IPv6 addresses in their shortest form.
    :param ours: hardware addresses of this node. Their claims are ignored, because a node answers its own probe if it
        has the address and a NIC with VFs returns the probe, maybe at another port.
    :param own: the claims of ``ours`` are added to it.
    :param seconds: how long to wait for answers in each of the two rounds; shorter if all addresses were answered.
    :raises RailyardError: if raw sockets are not permitted.
    """
    with contextlib.closing(Probes(asked)) as probes:

        def others() -> Answers:
            found = {key: [mac for mac in macs if mac not in ours] for key, macs in probes.found.items()}
            return {key: macs for key, macs in found.items() if macs}

        wanted = {(each.name, address) for each in probes.listeners.values() for address in each.addresses}
        for _try in range(TRIES):
            probes.send(others())
            probes.listen(seconds, lambda: wanted <= set(others()))
        if own is not None:
            own.update({key: [mac for mac in macs if mac in ours] for key, macs in probes.found.items()})
        return others()


def all_answers(asked: t.Sequence[tuple[str, str, str]], seconds: float) -> Answers:
    """Return all hardware addresses that answer ARP requests of a host that has an address, in order of arrival.

    A probe without a sender address shows less: ``arp_filter`` of the asked host holds for requests with a sender only.

    :param asked: netdev, own IPv4 address on it, and the address to ask for.
    :param seconds: how long to listen.
    :raises RailyardError: if raw sockets are not permitted.
    """
    addresses: dict[str, list[str]] = {}
    for netdev, _source, address in asked:
        addresses.setdefault(netdev, []).append(address)
    with contextlib.closing(Probes(addresses)) as probes:
        by_netdev = {each.name: each for each in probes.listeners.values()}
        for _try in range(TRIES):
            for netdev, source, address in asked:
                if netdev in by_netdev:
                    by_netdev[netdev].send(arp_probe(by_netdev[netdev].link, address, source))
            probes.listen(seconds / TRIES, lambda: False)
        return probes.found


def _link(sock: socket.socket, netdev: str) -> LinkAddresses:
    """Return the hardware addresses of a bound socket's netdev. Raises OSError if the netdev was removed."""
    _device, _kind, _packet, hardware, address = sock.getsockname()
    if hardware != ARPHRD_INFINIBAND:
        return LinkAddresses(address)
    # getsockname has only 8 bytes of an address
    with Rtnetlink() as kernel:
        link = kernel.link(netdev)
    if link is None:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    return LinkAddresses(link.address, link.broadcast)
