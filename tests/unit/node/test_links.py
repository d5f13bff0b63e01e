# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and their VFs, from messages laid out as the kernel's headers say."""

from __future__ import annotations

import errno
import socket
import struct
import sys
import threading
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, link_messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

ETHERNET = bytes.fromhex("525400010500")


def pairs(*numbers: int) -> bytes:
    return struct.pack("=%dI" % len(numbers), *numbers)


def vf_info(vf: int, mac: str = "02aabbccdd01", **attributes: bytes) -> bytes:
    """An IFLA_VF_INFO as rtnl_fill_vfinfo() of Linux 6.1 lays it out."""
    body = codec.attribute(link_messages.IFLA_VF_MAC, pairs(vf) + bytes.fromhex(mac).ljust(32, b"\0"))
    body += codec.attribute(12, struct.pack("=I", vf))  # IFLA_VF_VLAN_LIST and others are passed over
    body += codec.attribute(link_messages.IFLA_VF_VLAN, pairs(vf, 100, 3))
    body += codec.attribute(link_messages.IFLA_VF_RATE, pairs(vf, 50, 200))
    body += codec.attribute(link_messages.IFLA_VF_SPOOFCHK, attributes.get("spoofchk", pairs(vf, 1)))
    body += codec.attribute(link_messages.IFLA_VF_LINK_STATE, pairs(vf, 2))
    body += codec.attribute(link_messages.IFLA_VF_TRUST, attributes.get("trust", pairs(vf, 0)))
    if "guid" in attributes:
        body += codec.attribute(link_messages.IFLA_VF_IB_NODE_GUID, attributes["guid"])
    return codec.attribute(link_messages.IFLA_VF_INFO | 0x8000, body)


def link_message(
    name: str = "enp5s0", vfs: bytes | None = None, address: bytes = ETHERNET, rest: bytes = b"", kind: int = 1
) -> bytes:
    payload = link_messages.LINK_HEADER.pack(0, kind, 6, 0x11043, 0) + codec.string(link_messages.IFLA_IFNAME, name)
    payload += codec.u32(link_messages.IFLA_MTU, 4200) + codec.u8(link_messages.IFLA_OPERSTATE, 6)
    payload += codec.u8(link_messages.IFLA_CARRIER, 1) + codec.attribute(link_messages.IFLA_ADDRESS, address)
    payload += codec.u32(link_messages.IFLA_MIN_MTU, 68) + codec.u32(link_messages.IFLA_MAX_MTU, 0)
    if vfs is not None:
        payload += codec.attribute(link_messages.IFLA_VFINFO_LIST | 0x8000, vfs)
    return payload + rest


def test_a_link_and_its_vfs() -> None:
    alternatives = codec.string(link_messages.IFLA_ALT_IFNAME, "rail5") + codec.string(
        link_messages.IFLA_ALT_IFNAME, "a-name-longer-than-15"
    )
    link = link_messages.decode_link(
        link_message(
            vfs=vf_info(1) + vf_info(0, "02aabbccdd00"),
            rest=codec.attribute(link_messages.IFLA_PROP_LIST, alternatives)
            + codec.attribute(link_messages.IFLA_PERM_ADDRESS, ETHERNET[:-1] + b"\x09")
            + codec.string(link_messages.IFLA_PARENT_DEV_NAME, "0000:05:00.0"),
        )
    )
    assert link._replace(vfs=()) == link_messages.Link(
        ifindex=6,
        name="enp5s0",
        up=True,
        mtu=4200,
        min_mtu=68,
        max_mtu=0,
        address=ETHERNET,
        altnames=("rail5", "a-name-longer-than-15"),
        type=1,
        carrier=True,
        operstate="UP",
        kind=None,
        parent="0000:05:00.0",
        permanent=ETHERNET[:-1] + b"\x09",
        flags=0x1000,
    )
    assert [vf["index"] for vf in link.vfs] == [0, 1]
    assert link.vfs[0]["mac"] == "02:aa:bb:cc:dd:00"
    assert link.vfs[1] == {
        "index": 1,
        "mac": "02:aa:bb:cc:dd:01",
        "vlan": 100,
        "qos": 3,
        "spoofchk": True,
        "trust": False,
        "link_state": "disable",
        "min_tx_rate": 50,
        "max_tx_rate": 200,
        "node_guid": None,
        "port_guid": None,
    }


def test_users_in_another_namespace_are_found() -> None:
    rest = codec.u32(link_messages.IFLA_LINK, 7) + codec.u32(link_messages.IFLA_LINK_NETNSID, 2)
    rest += codec.attribute(link_messages.IFLA_LINKINFO | 0x8000, codec.string(link_messages.IFLA_INFO_KIND, "macvlan"))
    link = link_messages.decode_link(link_message("net1", rest=rest))
    assert (link.kind, link.below, link.below_namespace, link.parent) == ("macvlan", 7, 2, None)


def test_the_value_is_null_if_the_driver_does_not_report_it() -> None:
    unsaid = pairs(0, link_messages.UNSAID)
    (vf,) = link_messages.vf_rows(vf_info(0, spoofchk=unsaid, trust=unsaid), 6)
    assert (vf["spoofchk"], vf["trust"]) == (None, None)


def test_vfs_of_an_infiniband_pf_have_guids_and_no_mac() -> None:
    guid = struct.pack("=IIQ", 0, 0, 0x0011223344556677)
    (vf,) = link_messages.decode_link(link_message(vfs=vf_info(0, guid=guid), address=bytes(20), kind=32)).vfs
    assert (vf["mac"], vf["node_guid"], vf["port_guid"]) == (None, "00:11:22:33:44:55:66:77", None)


class Kernel(threading.Thread):
    """The other end of a socket: answers each request by ``answer(type, payload)``, payloads or an errno."""

    def __init__(self, answer: t.Callable[[int, bytes], list[bytes] | int]) -> None:
        super().__init__(daemon=True)
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.answer = answer
        self.requests: list[tuple[int, int, bytes]] = []
        self.start()

    def run(self) -> None:
        while True:
            data = self.theirs.recv(65536)
            if not data:
                return
            _length, kind, flags, sequence, _port = codec.HEADER.unpack_from(data)
            self.requests.append((kind, flags, data[16:]))
            answers = self.answer(kind, data[16:])
            if isinstance(answers, int):
                self.theirs.send(codec.encode(codec.NLMSG_ERROR, 0, sequence, struct.pack("=i", -answers) + data))
                continue
            multi = codec.NLM_F_MULTI if flags & codec.NLM_F_DUMP else 0
            for payload in answers:
                self.theirs.send(codec.encode(kind - 2, multi, sequence, payload))
            end = codec.NLMSG_DONE if multi else codec.NLMSG_ERROR
            self.theirs.send(codec.encode(end, multi, sequence, struct.pack("=i", 0) + data[:16]))


def rtnl(kernel: Kernel) -> Rtnetlink:
    return Rtnetlink(NetlinkSocket(0, "rtnetlink", kernel.ours))


def test_a_child_of_an_infiniband_port_gets_the_partition_key_of_the_port() -> None:
    """Without IFLA_IPOIB_PKEY: ``ipoib_new_child_link`` of the kernel's drivers/infiniband/ulp/ipoib."""
    info = codec.table(codec.table(link_messages.encode_kind("ipoib"))[link_messages.IFLA_LINKINFO])
    assert codec.text(info[link_messages.IFLA_INFO_KIND]) == "ipoib"
    assert codec.table(info[link_messages.IFLA_INFO_DATA]) == {}


def test_links_are_asked_for_with_or_without_vfs() -> None:
    kernel = Kernel(lambda _kind, _payload: [link_message("b"), link_message("a", vfs=vf_info(0))])
    with rtnl(kernel) as table:
        assert [link.name for link in table.links()] == ["b", "a"]
        assert table.links(vfs=True)[1].vfs[0]["index"] == 0
    masks = [codec.table(payload[16:])[link_messages.IFLA_EXT_MASK] for _kind, _flags, payload in kernel.requests]
    assert [codec.number(mask) for mask in masks] == [8, 9]


def test_one_link_by_name_or_index() -> None:
    kernel = Kernel(
        lambda _kind, payload: [link_message()] if b"enp5s0" in payload or payload[4] == 6 else errno.ENODEV
    )
    with rtnl(kernel) as table:
        by_name, by_index = table.link("enp5s0"), table.link(6)
        assert by_name and by_name.ifindex == 6
        assert by_index and by_index.name == "enp5s0"
        assert table.link("other") is None


def test_other_refusals_are_errors() -> None:
    with rtnl(Kernel(lambda _kind, _payload: errno.EMSGSIZE)) as table, pytest.raises(NetlinkError) as caught:
        table.link("enp5s0", vfs=True)
    assert caught.value.errno == errno.EMSGSIZE


def test_reading_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with Rtnetlink() as table:
        assert "lo" in [link.name for link in table.links(vfs=True)]
        loopback = table.link("lo")
        assert loopback and loopback.name == "lo"
        assert all(address.interface for address in table.addresses())
