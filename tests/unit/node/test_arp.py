# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp

OURS, THEIRS = "52:54:00:4c:01:03", "3a:8a:5e:f6:ca:fb"
ADDRESS = "172.16.13.201"


def reply(mac: str, address: str = ADDRESS) -> bytes:
    """As recorded on a guest whose NIC has VFs: its own kernel answers its own question, which the NIC handed back."""
    source, asker = (bytes.fromhex(each.replace(":", "")) for each in (mac, OURS))
    body = struct.pack(arp.FORM, 1, 0x0800, 6, 4, arp.REPLY, source, socket.inet_aton(address), asker, bytes(4))
    return asker + source + b"\x08\x06" + body


def heard(*frames: bytes, ours: t.Container[str] = ()) -> arp.Answers:
    """What is made of frames that came in on one netdev."""
    found: arp.Answers = {}
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ends[0] as mouth, ends[1] as wire:
        for frame in frames:
            wire.send(frame)
            arp._hear("enp3s0", mouth, {"enp3s0": {ADDRESS}}, ours, found)
    return found


def test_our_own_answer_does_not_count() -> None:
    assert heard(reply(OURS), ours={OURS}) == {}
    assert heard(reply(OURS), reply(THEIRS), reply(THEIRS), ours={OURS}) == {("enp3s0", ADDRESS): [THEIRS]}


def test_two_owners_are_reported_and_other_addresses_ignored() -> None:
    assert heard(reply(OURS), reply(THEIRS)) == {("enp3s0", ADDRESS): [OURS, THEIRS]}
    assert heard(reply(THEIRS, "172.16.13.9")) == {}


def test_packets_that_are_not_replies_are_ignored() -> None:
    question = arp.probe_frame(bytes(6), ADDRESS)
    assert heard(question, b"", reply(THEIRS)[:41], b"\0" * 60) == {}


def advertisement(mac: str, address: str) -> bytes:
    """A neighbour advertisement to all nodes, as a host answers duplicate address detection."""
    source = bytes.fromhex(mac.replace(":", ""))
    target = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("!BBHI16sBB6s", 136, 0, 0, 0x20000000, target, 2, 1, source)
    head = struct.pack("!IHBB16s16s", 6 << 28, len(body), 58, 255, target, socket.inet_pton(socket.AF_INET6, "ff02::1"))
    return b"\x33\x33\x00\x00\x00\x01" + source + b"\x86\xdd" + head + body


def test_a_host_that_has_an_ipv6_address_is_heard() -> None:
    assert arp.answer(advertisement(THEIRS, "fd00:13::c9")) == ("fd00:13::c9", THEIRS)
    assert arp.answer(advertisement(THEIRS, "fd00:13::c9")[:77]) is None
    assert arp.answer(arp.solicitation(bytes(6), "fd00:13::c9")) is None


def test_an_ipv6_address_is_asked_for_as_duplicate_address_detection_does() -> None:
    """Source: RFC 4861, 4.3 and 7.2.2; RFC 2464, 7; RFC 4862, 5.4.2."""
    frame = arp.solicitation(bytes.fromhex(OURS.replace(":", "")), "fd00:13::1:2fc9")
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
