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


def test_our_own_answer_is_none() -> None:
    assert heard(reply(OURS), ours={OURS}) == {}
    assert heard(reply(OURS), reply(THEIRS), reply(THEIRS), ours={OURS}) == {("enp3s0", ADDRESS): [THEIRS]}


def test_two_others_are_both_reported_and_other_addresses_are_nobodys_business() -> None:
    assert heard(reply(OURS), reply(THEIRS)) == {("enp3s0", ADDRESS): [OURS, THEIRS]}
    assert heard(reply(THEIRS, "172.16.13.9")) == {}


def test_what_is_not_a_reply_is_passed_over() -> None:
    question = arp.probe_frame(bytes(6), ADDRESS)
    assert heard(question, b"", reply(THEIRS)[:41], b"\0" * 60) == {}
