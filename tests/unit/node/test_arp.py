# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp

OURS, THEIRS = "52:54:00:4c:01:03", "3a:8a:5e:f6:ca:fb"
ADDRESS = "172.16.13.201"
LINK = arp.LinkAddresses(bytes.fromhex(OURS.replace(":", "")))
# IP over InfiniBand: queue pair and GID of a port, and the group of all hosts of partition 0x8001 (RFC 4391, 4)
QUEUE_PAIR, OTHER = (number + "fe800000000000000002c903000e8acd" for number in ("80000208", "80000209"))
INFINIBAND = arp.LinkAddresses(bytes.fromhex(QUEUE_PAIR), bytes.fromhex("00ffffffff12401b8001000000000000ffffffff"))


def reply(mac: str, address: str = ADDRESS) -> bytes:
    """As recorded on a guest whose NIC has VFs: its own kernel answers its own question, which the NIC handed back."""
    source, asker = (bytes.fromhex(each.replace(":", "")) for each in (mac, OURS))
    body = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 2, source, socket.inet_aton(address), asker, bytes(4))
    return asker + source + b"\x08\x06" + body


def heard(*frames: bytes, ours: t.Container[str] = ()) -> arp.Answers:
    """What is made of frames that came in on one netdev."""
    found: arp.Answers = {}
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ends[0] as mouth, ends[1] as wire:
        for frame in frames:
            wire.send(frame)
            each = arp._Socket("enp3s0", mouth, arp.ETH_P_ARP, LINK)
            arp._hear(each, {"enp3s0": {ADDRESS}}, ours, found)
    return found


def test_our_own_answer_does_not_count() -> None:
    assert heard(reply(OURS), ours={OURS}) == {}
    assert heard(reply(OURS), reply(THEIRS), reply(THEIRS), ours={OURS}) == {("enp3s0", ADDRESS): [THEIRS]}


def test_two_owners_are_reported_and_other_addresses_ignored() -> None:
    assert heard(reply(OURS), reply(THEIRS)) == {("enp3s0", ADDRESS): [OURS, THEIRS]}
    assert heard(reply(THEIRS, "172.16.13.9")) == {}


def test_packets_that_are_not_replies_are_ignored() -> None:
    question = arp.arp_probe(LINK, ADDRESS)
    assert heard(question, b"", reply(THEIRS)[:41], b"\0" * 60) == {}


def advertisement(mac: str, address: str) -> bytes:
    """A neighbour advertisement to all nodes, as a host answers duplicate address detection."""
    source = bytes.fromhex(mac.replace(":", ""))
    target = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("!BBHI16sBB6s", 136, 0, 0, 0x20000000, target, 2, 1, source)
    head = struct.pack("!IHBB16s16s", 6 << 28, len(body), 58, 255, target, socket.inet_pton(socket.AF_INET6, "ff02::1"))
    return b"\x33\x33\x00\x00\x00\x01" + source + b"\x86\xdd" + head + body


def test_a_host_that_has_an_ipv6_address_is_heard() -> None:
    assert arp.answer(LINK, advertisement(THEIRS, "fd00:13::c9")) == ("fd00:13::c9", THEIRS)
    assert arp.answer(LINK, advertisement(THEIRS, "fd00:13::c9")[:77]) is None
    assert arp.answer(LINK, arp.solicitation(LINK, "fd00:13::c9")) is None


def test_an_ipv6_address_is_asked_for_as_duplicate_address_detection_does() -> None:
    """Source: RFC 4861, 4.3 and 7.2.2; RFC 2464, 7; RFC 4862, 5.4.2."""
    frame = arp.solicitation(LINK, "fd00:13::1:2fc9")
    assert frame[:6].hex(":") == "33:33:ff:01:2f:c9"
    assert frame[6:14].hex() == OURS.replace(":", "") + "86dd"
    assert frame[14:22].hex() == "60000000" + "0018" + "3a" + "ff"
    assert socket.inet_ntop(socket.AF_INET6, frame[22:38]) == "::"
    assert socket.inet_ntop(socket.AF_INET6, frame[38:54]) == "ff02::1:ff01:2fc9"
    assert frame[54] == 135 and frame[62:] == socket.inet_pton(socket.AF_INET6, "fd00:13::1:2fc9")
    # the checksum: with the pseudo-header, all words add up to ones
    words = struct.unpack("!32H", frame[22:54] + struct.pack("!II", 24, 58) + frame[54:])
    total = sum(words)
    assert (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)


def test_a_probe_over_infiniband_has_hardware_addresses_of_20_bytes() -> None:
    """Sources: RFC 4391, 9.1 and 9.2; the pseudo header of the kernel's ``drivers/infiniband/ulp/ipoib/ipoib.h``."""
    frame = arp.arp_probe(INFINIBAND, ADDRESS)
    assert frame[:20] == INFINIBAND.broadcast and frame[20:24].hex() == "08060000"
    assert frame[24:32].hex() == "0020" + "0800" + "14" + "04" + "0001"
    assert frame[32:52].hex() == QUEUE_PAIR and frame[52:76] == bytes(24)
    assert socket.inet_ntoa(frame[76:]) == ADDRESS
    reply = bytes(20) + bytes.fromhex("08060000" + "0020080014040002" + OTHER) + socket.inet_aton(ADDRESS)
    reply += bytes.fromhex(QUEUE_PAIR) + bytes(4)
    assert arp.answer(INFINIBAND, reply) == (ADDRESS, bytes.fromhex(OTHER).hex(":"))
    assert arp.answer(INFINIBAND, reply[:79]) is None and arp.answer(INFINIBAND, frame) is None


def test_a_solicitation_over_infiniband_goes_to_the_group_of_the_partition() -> None:
    """Sources: RFC 4391, 4 and 9.3; ``ipv6_ib_mc_map`` of the kernel's ``include/net/if_inet6.h``."""
    frame = arp.solicitation(INFINIBAND, "fd00:13::1:2fc9")
    assert frame[:20].hex() == "00ffffffff12601b8001" + "00000000000001ff012fc9"[2:]
    assert frame[20:24].hex() == "86dd0000" and frame[24:28].hex() == "60000000"
    target = socket.inet_pton(socket.AF_INET6, "fd00:13::c9")
    option = bytes.fromhex("0203" + "0000" + OTHER)
    body = struct.pack("!BBHI16s", 136, 0, 0, 0x20000000, target) + option
    head = struct.pack("!IHBB16s16s", 6 << 28, len(body), 58, 255, target, socket.inet_pton(socket.AF_INET6, "ff02::1"))
    advertised = bytes(20) + bytes.fromhex("86dd0000") + head + body
    assert arp.answer(INFINIBAND, advertised) == ("fd00:13::c9", bytes.fromhex(OTHER).hex(":"))
