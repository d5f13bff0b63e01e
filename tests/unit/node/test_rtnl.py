# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rtnetlink: rows from messages laid out as the kernel's headers say, and requests as pyroute2 wants them."""

from __future__ import annotations

import errno
import socket
import struct
import sys
import threading
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.node import netlink, rtnl_rows
from ansible_collections.railyard.fabric.plugins.module_utils.node.netlink import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils.node.rtnl import Rtnl

ETHERNET = bytes.fromhex("525400010500")


def pairs(*numbers: int) -> bytes:
    return struct.pack("=%dI" % len(numbers), *numbers)


def vf_info(vf: int, mac: str = "02aabbccdd01", **attributes: bytes) -> bytes:
    """An IFLA_VF_INFO as rtnl_fill_vfinfo() of Linux 6.1 lays it out."""
    body = netlink.attribute(rtnl_rows.IFLA_VF_MAC, pairs(vf) + bytes.fromhex(mac).ljust(32, b"\0"))
    body += netlink.attribute(12, struct.pack("=I", vf))  # IFLA_VF_VLAN_LIST and others are passed over
    body += netlink.attribute(rtnl_rows.IFLA_VF_VLAN, pairs(vf, 100, 3))
    body += netlink.attribute(rtnl_rows.IFLA_VF_RATE, pairs(vf, 50, 200))
    body += netlink.attribute(rtnl_rows.IFLA_VF_SPOOFCHK, attributes.get("spoofchk", pairs(vf, 1)))
    body += netlink.attribute(rtnl_rows.IFLA_VF_LINK_STATE, pairs(vf, 2))
    body += netlink.attribute(rtnl_rows.IFLA_VF_TRUST, attributes.get("trust", pairs(vf, 0)))
    if "guid" in attributes:
        body += netlink.attribute(rtnl_rows.IFLA_VF_IB_NODE_GUID, attributes["guid"])
    return netlink.attribute(rtnl_rows.IFLA_VF_INFO | 0x8000, body)


def link_message(
    name: str = "enp5s0", vfs: bytes | None = None, address: bytes = ETHERNET, rest: bytes = b"", kind: int = 1
) -> bytes:
    payload = rtnl_rows.IFINFO.pack(0, kind, 6, 0x11043, 0) + netlink.string(rtnl_rows.IFLA_IFNAME, name)
    payload += netlink.u32(rtnl_rows.IFLA_MTU, 4200) + netlink.u8(rtnl_rows.IFLA_OPERSTATE, 6)
    payload += netlink.u8(rtnl_rows.IFLA_CARRIER, 1) + netlink.attribute(rtnl_rows.IFLA_ADDRESS, address)
    payload += netlink.u32(rtnl_rows.IFLA_MIN_MTU, 68) + netlink.u32(rtnl_rows.IFLA_MAX_MTU, 0)
    if vfs is not None:
        payload += netlink.attribute(rtnl_rows.IFLA_VFINFO_LIST | 0x8000, vfs)
    return payload + rest


def test_a_link_and_its_vfs() -> None:
    alternatives = netlink.string(rtnl_rows.IFLA_ALT_IFNAME, "rail5") + netlink.string(
        rtnl_rows.IFLA_ALT_IFNAME, "a-name-longer-than-15"
    )
    row = rtnl_rows.link_row(
        link_message(
            vfs=vf_info(1) + vf_info(0, "02aabbccdd00"),
            rest=netlink.attribute(rtnl_rows.IFLA_PROP_LIST, alternatives)
            + netlink.u32(rtnl_rows.IFLA_NUM_VF, 2)
            + netlink.string(rtnl_rows.IFLA_PARENT_DEV_NAME, "0000:05:00.0"),
        ),
        True,
    )
    vfs = row.pop("vfs")
    assert row == {
        "index": 6,
        "name": "enp5s0",
        "altnames": ["rail5", "a-name-longer-than-15"],
        "type": 1,
        "address": "52:54:00:01:05:00",
        "mtu": 4200,
        "min_mtu": 68,
        "max_mtu": None,
        "up": True,
        "carrier": True,
        "operstate": "UP",
        "master": None,
        "link": None,
        "link_netnsid": None,
        "kind": None,
        "parent": "0000:05:00.0",
        "phys_port_name": None,
        "num_vf": 2,
    }
    assert [vf["index"] for vf in vfs] == [0, 1]
    assert vfs[0]["mac"] == "02:aa:bb:cc:dd:00"
    assert vfs[1] == {
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


def test_what_the_driver_does_not_say_is_none() -> None:
    unsaid = pairs(0, rtnl_rows.UNSAID)
    (vf,) = rtnl_rows.vf_rows(vf_info(0, spoofchk=unsaid, trust=unsaid), 6)
    assert (vf["spoofchk"], vf["trust"]) == (None, None)


def test_vfs_of_an_infiniband_pf_have_guids_and_no_mac() -> None:
    guid = struct.pack("=IIQ", 0, 0, 0x0011223344556677)
    (vf,) = rtnl_rows.link_row(link_message(vfs=vf_info(0, guid=guid), address=bytes(20), kind=32), True)["vfs"]
    assert (vf["mac"], vf["node_guid"], vf["port_guid"]) == (None, "00:11:22:33:44:55:66:77", None)


def test_addresses() -> None:
    four = rtnl_rows.IFADDR.pack(socket.AF_INET, 24, 0x80, 0, 6)
    four += netlink.attribute(1, bytes([10, 0, 0, 9])) + netlink.attribute(2, bytes([172, 16, 11, 201]))
    four += netlink.string(3, "enp5s0") + netlink.u32(8, 0x280)
    assert rtnl_rows.address_row(four) == {
        "index": 6,
        "family": 4,
        "address": "172.16.11.201/24",
        "scope": "global",
        "label": "enp5s0",
        "flags": 0x280,
        "protocol": None,
    }
    six = rtnl_rows.IFADDR.pack(socket.AF_INET6, 64, 0x80, 253, 6) + netlink.attribute(
        1, socket.inet_pton(socket.AF_INET6, "fe80::1")
    )
    row = rtnl_rows.address_row(six)
    assert (row["family"], row["address"], row["scope"], row["flags"]) == (6, "fe80::1/64", "link", 0x80)


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
            _length, kind, flags, sequence, _port = netlink.HEADER.unpack_from(data)
            self.requests.append((kind, flags, data[16:]))
            answers = self.answer(kind, data[16:])
            if isinstance(answers, int):
                self.theirs.send(netlink.encode(netlink.NLMSG_ERROR, 0, sequence, struct.pack("=i", -answers) + data))
                continue
            multi = netlink.NLM_F_MULTI if flags & netlink.NLM_F_DUMP else 0
            for payload in answers:
                self.theirs.send(netlink.encode(kind - 2, multi, sequence, payload))
            end = netlink.NLMSG_DONE if multi else netlink.NLMSG_ERROR
            self.theirs.send(netlink.encode(end, multi, sequence, struct.pack("=i", 0) + data[:16]))


def test_links_are_asked_for_with_or_without_vfs() -> None:
    kernel = Kernel(lambda _kind, _payload: [link_message("b"), link_message("a", vfs=vf_info(0))])
    with Rtnl(kernel.ours) as table:
        assert [row["name"] for row in table.links()] == ["b", "a"]
        assert table.links(vfs=True)[1]["vfs"][0]["index"] == 0
    masks = [netlink.table(payload[16:])[rtnl_rows.IFLA_EXT_MASK] for _kind, _flags, payload in kernel.requests]
    assert [netlink.number(mask) for mask in masks] == [8, 9]


def test_one_link_by_name_or_index() -> None:
    kernel = Kernel(
        lambda _kind, payload: [link_message()] if b"enp5s0" in payload or payload[4] == 6 else errno.ENODEV
    )
    with Rtnl(kernel.ours) as table:
        assert (table.link("enp5s0") or {})["index"] == 6
        assert (table.link(6) or {})["name"] == "enp5s0"
        assert table.link("other") is None


def test_other_refusals_are_errors() -> None:
    with Rtnl(Kernel(lambda _kind, _payload: errno.EMSGSIZE).ours) as table, pytest.raises(NetlinkError) as caught:
        table.link("enp5s0", vfs=True)
    assert caught.value.errno == errno.EMSGSIZE


class Recorder:
    """Stands for pyroute2's IPRoute."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, str, dict[str, t.Any]]] = []
        self.error = error

    def __getattr__(self, name: str) -> t.Callable[..., None]:
        def call(command: str, **options: t.Any) -> None:
            self.calls.append((name, command, options))
            if self.error:
                raise self.error

        return call

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({"mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:01"}),
        ({"trust": True, "spoofchk": False}, {"trust": 1, "spoofchk": 0}),
        ({"link_state": "disable"}, {"link_state": 2}),
        ({"vlan": 100, "qos": 3}, {"vlan": {"vlan": 100, "qos": 3}}),
        ({"max_tx_rate": 200}, {"rate": {"min_tx_rate": 0, "max_tx_rate": 200}}),
        ({"node_guid": "00:11:22:33:44:55:66:77"}, {"ib_node_guid": "00:11:22:33:44:55:66:77"}),
    ],
)
def test_vf_attributes_in_the_librarys_spelling(given: dict[str, t.Any], spec: dict[str, t.Any]) -> None:
    ip = Recorder()
    Rtnl(ip=ip).set_vf(6, 1, **given)
    assert ip.calls == [("link", "set", {"index": 6, "vf": dict(spec, vf=1)})]


def test_a_link_is_set_up() -> None:
    ip = Recorder()
    Rtnl(ip=ip).set_up(6)
    assert ip.calls == [("link", "set", {"index": 6, "state": "up"})]


def test_the_librarys_error_becomes_ours() -> None:
    from pyroute2.netlink.exceptions import NetlinkError as Theirs

    with pytest.raises(NetlinkError) as caught:
        Rtnl(ip=Recorder(Theirs(errno.EOPNOTSUPP, "Operation not supported"))).set_vf(6, 0, trust=True)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert str(caught.value) == "rtnetlink link set: Operation not supported (%s)." % errno.errorcode[errno.EOPNOTSUPP]


def test_a_bug_is_not_taken_for_the_kernels_word() -> None:
    with pytest.raises(KeyError):
        Rtnl(ip=Recorder(KeyError("vf"))).set_vf(6, 0, trust=True)


def test_a_missing_library_is_told_with_the_packages_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(RailyardError, match="pyroute2: .*cannot be imported") as caught:
        Rtnl().set_up(1)
    assert "python3-pyroute2" in caught.value.remedy


def test_reading_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with Rtnl() as table:
        assert "lo" in [row["name"] for row in table.links(vfs=True)]
        assert (table.link("lo") or {})["name"] == "lo"
        assert all(row["address"] for row in table.addresses())
