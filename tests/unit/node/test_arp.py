# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
import struct
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from tests.functional.node.rail_hosts import advertisement, arp_frame, detection, discovery_frame

OURS, THEIRS = "52:54:00:4c:01:03", "3a:8a:5e:f6:ca:fb"
ADDRESS, IPV6 = "172.16.13.201", "fd00:13::c9"
LINK = arp.LinkAddresses(bytes.fromhex(OURS.replace(":", "")))
# IP over InfiniBand: queue pair and GID of a port, and the group of all hosts of partition 0x8001 (RFC 4391, 4)
QUEUE_PAIR, OTHER = (number + "fe800000000000000002c903000e8acd" for number in ("80000208", "80000209"))
INFINIBAND = arp.LinkAddresses(bytes.fromhex(QUEUE_PAIR), bytes.fromhex("00ffffffff12401b8001000000000000ffffffff"))


def reply(mac: str, address: str = ADDRESS) -> bytes:
    return arp_frame(arp.REPLY, mac, address, "0.0.0.0", OURS)


def test_a_reply_and_an_announcement_claim_an_address() -> None:
    assert arp.claim(LINK, reply(THEIRS)) == (ADDRESS, THEIRS, False)
    # with the own MAC too: a clone of this node has it
    assert arp.claim(LINK, reply(OURS)) == (ADDRESS, OURS, False)
    announcement = changed(reply(THEIRS), (20, b"\0\1"), (38, socket.inet_aton(ADDRESS)))
    assert arp.claim(LINK, announcement) == (ADDRESS, THEIRS, False)


def test_a_probe_of_another_host_claims_an_address_and_an_own_probe_does_not() -> None:
    """Source: RFC 5227, 2.1.1."""
    own = arp.arp_probe(LINK, ADDRESS)
    their = bytes.fromhex(THEIRS.replace(":", ""))
    assert arp.claim(LINK, changed(own[:42], (6, their), (22, their))) == (ADDRESS, THEIRS, True)
    # a NIC returned it: as it was sent, or padded to 60 bytes
    assert (arp.claim(LINK, own), arp.claim(LINK, own.ljust(60, b"\0"))) == (None, None)
    # the agent of a clone of this node has another nonce
    assert arp.claim(LINK, changed(own, (50, bytes(6)))) == (ADDRESS, OURS, True)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (12, b"\x08\x00"),
        (14, b"\0\x20"),
        (16, b"\x86\xdd"),
        (18, b"\x14"),
        (19, b"\x10"),
        (20, b"\0\3"),
        (28, bytes(4)),
    ],
    ids=["ethertype", "hardware type", "protocol", "hardware size", "protocol size", "operation", "no sender"],
)
def test_a_malformed_arp_packet_claims_nothing(offset: int, value: bytes) -> None:
    assert arp.claim(LINK, changed(reply(THEIRS), (offset, value))) is None


def changed(frame: bytes, *changes: tuple[int, bytes]) -> bytes:
    for offset, value in changes:
        frame = frame[:offset] + value + frame[offset + len(value) :]
    return frame


def test_a_frame_that_ends_early_claims_nothing() -> None:
    for frame in (reply(THEIRS), advertisement(THEIRS, IPV6), arp.solicitation(LINK, IPV6)):
        assert {arp.claim(LINK, frame[:end]) for end in range(len(frame) - 1)} == {None}


def test_a_host_that_has_an_ipv6_address_claims_it() -> None:
    assert arp.claim(LINK, advertisement(THEIRS, IPV6)) == (IPV6, THEIRS, False)
    assert arp.claim(LINK, advertisement(OURS, IPV6)) == (IPV6, OURS, False)
    # without the option, the source of the frame; a solicited advertisement to one host
    assert arp.claim(LINK, advertisement(THEIRS, IPV6, options=b"")) == (IPV6, THEIRS, False)
    to = socket.inet_pton(socket.AF_INET6, "fe80::1")
    assert arp.claim(LINK, advertisement(THEIRS, IPV6, flags=0x60, to=to))


def test_duplicate_address_detection_of_another_host_claims_an_address_and_the_own_does_not() -> None:
    """Source: RFC 4862, 5.4.3; RFC 7527, 4.2."""
    assert arp.claim(LINK, arp.solicitation(LINK, IPV6)) is None
    assert arp.claim(LINK, detection(OURS, IPV6)) == (IPV6, OURS, True)
    assert arp.claim(LINK, detection(THEIRS, IPV6, options=b"\x0e\x01" + bytes(6))) == (IPV6, THEIRS, True)
    # to resolve the address, which has a source, is not detection
    assert arp.claim(LINK, detection(THEIRS, IPV6, source=socket.inet_pton(socket.AF_INET6, "fe80::1"))) is None


@pytest.mark.parametrize(
    "values",
    [{"hops": 254}, {"code": 1}, {"checksum": 0x1234}, {"flags": 0x40}, {"options": b"\2\0" + bytes(6)}, {"type": 134}],
    ids=lambda values: next(iter(values)),
)
def test_a_malformed_advertisement_claims_nothing(values: dict[str, t.Any]) -> None:
    """Source: RFC 4861, 7.1.2."""
    assert arp.claim(LINK, advertisement(THEIRS, IPV6, **values)) is None


def test_a_malformed_detection_claims_nothing() -> None:
    """Source: RFC 4861, 7.1.1."""
    everyone = socket.inet_pton(socket.AF_INET6, "ff02::1")
    for values in ({"hops": 1}, {"to": everyone}, {"options": b"\1\1" + bytes(6)}, {"options": b"\x0e"}):
        assert arp.claim(LINK, detection(THEIRS, IPV6, **values)) is None


def test_an_ipv6_address_is_asked_for_as_duplicate_address_detection_does() -> None:
    """Source: RFC 4861, 4.3 and 7.2.2; RFC 2464, 7; RFC 4862, 5.4.2."""
    frame = arp.solicitation(LINK, "fd00:13::1:2fc9")
    assert frame[:6].hex(":") == "33:33:ff:01:2f:c9"
    assert frame[6:14].hex() == OURS.replace(":", "") + "86dd"
    assert frame[14:22].hex() == "60000000" + "0020" + "3a" + "ff"
    assert socket.inet_ntop(socket.AF_INET6, frame[22:38]) == "::"
    assert socket.inet_ntop(socket.AF_INET6, frame[38:54]) == "ff02::1:ff01:2fc9"
    assert frame[54] == 135 and frame[62:78] == socket.inet_pton(socket.AF_INET6, "fd00:13::1:2fc9")
    # the nonce (RFC 7527, 4.1)
    assert frame[78:] == b"\x0e\x01" + arp.NONCE
    # the checksum: with the pseudo-header, all words add up to ones
    words = struct.unpack("!36H", frame[22:54] + struct.pack("!II", 32, 58) + frame[54:])
    total = sum(words)
    assert (total & 0xFFFF) + (total >> 16) in (0xFFFF, 0x1FFFE)


def test_a_probe_over_infiniband_has_hardware_addresses_of_20_bytes() -> None:
    """Sources: RFC 4391, 9.1 and 9.2; the pseudo header of the kernel's ``drivers/infiniband/ulp/ipoib/ipoib.h``."""
    frame = arp.arp_probe(INFINIBAND, ADDRESS)
    assert frame[:20] == INFINIBAND.broadcast and frame[20:24].hex() == "08060000"
    assert frame[24:32].hex() == "0020" + "0800" + "14" + "04" + "0001"
    assert frame[32:52].hex() == QUEUE_PAIR and frame[52:76] == bytes(24)
    assert socket.inet_ntoa(frame[76:80]) == ADDRESS
    assert arp.claim(INFINIBAND, frame) is None
    their = changed(frame[:80], (32, bytes.fromhex(OTHER)))
    assert arp.claim(INFINIBAND, their) == (ADDRESS, bytes.fromhex(OTHER).hex(":"), True)
    assert arp.claim(INFINIBAND, changed(frame, (88, bytes(6)))) == (ADDRESS, bytes.fromhex(QUEUE_PAIR).hex(":"), True)
    reply = bytes(20) + bytes.fromhex("08060000" + "0020080014040002" + OTHER) + socket.inet_aton(ADDRESS)
    reply += bytes.fromhex(QUEUE_PAIR) + bytes(4)
    assert arp.claim(INFINIBAND, reply) == (ADDRESS, bytes.fromhex(OTHER).hex(":"), False)
    assert arp.claim(INFINIBAND, reply[:79]) is None


def test_a_solicitation_over_infiniband_goes_to_the_group_of_the_partition() -> None:
    """Sources: RFC 4391, 4 and 9.3; ``ipv6_ib_mc_map`` of the kernel's ``include/net/if_inet6.h``."""
    frame = arp.solicitation(INFINIBAND, "fd00:13::1:2fc9")
    assert frame[:20].hex() == "00ffffffff12601b8001" + "00000000000001ff012fc9"[2:]
    assert frame[20:24].hex() == "86dd0000" and frame[24:28].hex() == "60000000"
    target = socket.inet_pton(socket.AF_INET6, IPV6)
    everyone = socket.inet_pton(socket.AF_INET6, "ff02::1")
    for option, mac in (("0203" + "0000" + OTHER, bytes.fromhex(OTHER).hex(":")), ("", "unknown")):
        sent = discovery_frame(THEIRS, target=target, source=target, to=everyone, options=bytes.fromhex(option))
        advertised = bytes(20) + bytes.fromhex("86dd0000") + sent[14:]
        assert arp.claim(INFINIBAND, advertised) == (IPV6, mac, False)


def accepted(link: arp.LinkAddresses, frame: bytes, *addresses: str) -> bool:
    """Whether the program of the kernel's filter accepts a frame. Packets in namespaces test the rest of it."""
    program = list(struct.iter_unpack("=HBBI", arp.packet_filter(link, addresses)))
    at = register = 0
    while True:
        operation, if_true, if_false, value = program[at]
        at += 1
        size = {arp.LOAD_WORD: 4, arp.LOAD_HALF: 2, arp.LOAD_BYTE: 1}.get(operation)
        if operation == arp.RETURN:
            return bool(value)
        if size:
            # without a VLAN tag
            inside = value < arp.VLAN_TAG
            if inside and value + size > len(frame):
                return False
            register = int.from_bytes(frame[value : value + size], "big") if inside else 0
        elif operation == arp.JUMP:
            at += value
        elif operation == arp.JUMP_EQUAL:
            at += if_true if register == value else if_false


def test_the_filter_accepts_claims_of_its_addresses_alone() -> None:
    asked = (ADDRESS, "172.16.13.7", IPV6, "fd00:13::ca")
    their = arp.arp_probe(LINK, ADDRESS)
    claims = [
        reply(THEIRS),
        their,
        advertisement(THEIRS, asked[2]),
        advertisement(THEIRS, asked[3]),
        detection(THEIRS, IPV6),
    ]
    assert [accepted(LINK, frame, *asked) for frame in claims] == [True] * 5
    others = [
        reply(THEIRS, "172.16.13.9"),
        arp.arp_probe(LINK, "172.16.13.9"),
        # a host that resolves the address
        changed(arp.arp_probe(LINK, ADDRESS), (28, socket.inet_aton("172.16.13.9"))),
        advertisement(THEIRS, "fd00:13::c8"),
        advertisement(THEIRS, "fd01:13::c9"),
        advertisement(THEIRS, asked[2], type=134),
        changed(advertisement(THEIRS, asked[2]), (20, b"\6")),
        changed(reply(THEIRS), (12, b"\x08\0")),
        reply(THEIRS)[:30],
    ]
    assert [accepted(LINK, frame, *asked) for frame in others] == [False] * len(others)
    frames = arp.arp_probe(INFINIBAND, ADDRESS), arp.solicitation(INFINIBAND, asked[2])
    assert [accepted(INFINIBAND, frame, *asked) for frame in frames] == [True, True]
    assert [accepted(INFINIBAND, frame, "172.16.13.9", "fd00:13::c8") for frame in frames] == [False, False]
