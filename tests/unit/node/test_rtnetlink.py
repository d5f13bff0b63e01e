# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages as a kernel gave them (6.18, recorded with a veth pair), and ours decoded again."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
import typing as t

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rtnetlink

RULES = {
    "local": "02000000ff000001000000000800 0f00ff00000008000e00ffffffff0500150002000000",
    "fwmark": "02000000070000010000000008000f000700000008000e00ffffffff050015000000000008000600f4010000"
    "08000a000100000008001000ffffffff",
    "not from": "02002000fc0000010200000008000f002c01000008000e00ffffffff05001500000000000700110076300000"
    "08000600f60100000800020001020304",
    "blackhole": "020018000000000600000000 08000f0000000000 08000e00ffffffff 0500150000000000 0700030076310000"
    " 08000600f5010000 0800020001020300",
}
ADDRESS = ipaddress.ip_interface("172.16.11.201/24")


class Kernel:
    """Answers each request with the datagrams given, and keeps what it was asked."""

    def __init__(self, *answers: list[bytes] | int) -> None:
        self.asked: list[tuple[int, int, bytes]] = []
        self._answers = list(answers)
        self._ready: list[bytes] = []

    def settimeout(self, seconds: float) -> None:
        pass

    def send(self, data: bytes) -> int:
        _length, kind, flags, sequence, _port = codec.HEADER.unpack_from(data)
        self.asked.append((kind, flags, data[codec.HEADER.size :]))
        answer = self._answers.pop(0) if self._answers else 0
        if isinstance(answer, int):
            self._ready.append(codec.encode(codec.NLMSG_ERROR, 0, sequence, struct.pack("=i", -answer) + data[:16]))
        else:
            parts = [codec.encode(kind - 2, codec.NLM_F_MULTI, sequence, payload) for payload in answer]
            parts.append(codec.encode(codec.NLMSG_DONE, codec.NLM_F_MULTI, sequence, struct.pack("=i", 0)))
            self._ready.extend(parts)
        return len(data)

    def recv_into(self, buffer: bytearray, size: int, flags: int) -> int:
        return len(self._ready[0])

    def recv(self, size: int) -> bytes:
        return self._ready.pop(0)


def rtnl(*answers: list[bytes] | int) -> tuple[rtnetlink.Rtnetlink, Kernel]:
    kernel = Kernel(*answers)
    sock = codec.NetlinkSocket(0, "rtnetlink", t.cast("socket.socket", kernel))
    return rtnetlink.Rtnetlink(sock), kernel


def rule(name: str) -> rtnetlink.Rule:
    decoded = rtnetlink.decode_rule(bytes.fromhex(RULES[name].replace(" ", "")))
    assert decoded
    return decoded


def test_recorded_rules_are_decoded() -> None:
    assert (rule("local").priority, rule("local").table, rule("local").plain) == (0, 255, True)
    assert (rule("fwmark").priority, rule("fwmark").table, rule("fwmark").plain) == (500, 7, False)
    assert (rule("blackhole").priority, rule("blackhole").plain) == (501, False)
    inverted = rule("not from")
    assert (inverted.priority, inverted.table, inverted.oif, inverted.plain) == (502, 300, "v0", False)
    assert (inverted.selector, inverted.action) == ("from 1.2.3.4 oif v0 other selectors", "lookup 300")


@pytest.mark.parametrize("table", [101, 255, 256, 100000])
@pytest.mark.parametrize(
    ("address", "oif"), [("172.16.11.201/24", ""), ("fd00:11::c9/64", ""), ("10.0.0.1/31", "gpu01")]
)
def test_a_rule_survives_a_round_trip(table: int, address: str, oif: str) -> None:
    interface = ipaddress.ip_interface(address)
    ours = rtnetlink.Rule(interface.version, 10001, ipaddress.ip_network(interface.ip), oif, table, True)
    decoded = rtnetlink.decode_rule(rtnetlink.encode_rule(ours))
    assert decoded and decoded._replace(raw=b"") == ours


def test_a_route_survives_a_round_trip() -> None:
    for network, gateway in (("0.0.0.0/0", "172.16.11.254"), ("::/0", "fd00::1"), ("10.1.0.0/16", None)):
        destination = ipaddress.ip_network(network)
        via = ipaddress.ip_address(gateway) if gateway else None
        ours = rtnetlink.Route(1001, destination, 4, via, None, 0, rtnetlink.PROTOCOL_STATIC, 0)
        assert rtnetlink.decode_route(rtnetlink.encode_route(ours)) == ours


def test_routes_of_the_local_table_are_skipped_early() -> None:
    route = rtnetlink.Route(255, ADDRESS.network, 4, None, ADDRESS.ip, 0, 2, 254)
    assert rtnetlink.decode_route(rtnetlink.encode_route(route)) is None


@pytest.mark.parametrize(
    ("address", "broadcast"), [("172.16.11.201/24", "172.16.11.255"), ("10.0.0.0/31", None), ("fd00::1/64", None)]
)
def test_an_address_survives_a_round_trip(address: str, broadcast: str | None) -> None:
    interface = ipaddress.ip_interface(address)
    payload = rtnetlink.encode_address(7, interface)
    decoded = rtnetlink.decode_address(payload)
    assert decoded == rtnetlink.Address(7, interface, 0, 0)
    held = codec.table(payload[rtnetlink.ADDRESS_HEADER.size :]).get(rtnetlink.IFA_BROADCAST)
    assert held == (ipaddress.ip_address(broadcast).packed if broadcast else None)


def test_a_change_that_is_already_made_is_not_an_error() -> None:
    writer, _kernel = rtnl(errno.EEXIST, errno.EADDRNOTAVAIL, errno.ESRCH, errno.ENOENT)
    route = rtnetlink.Route(101, ADDRESS.network, 4, None, ADDRESS.ip, 0, 4, rtnetlink.SCOPE_LINK)
    writer.add_address(4, ADDRESS)
    writer.delete_address(4, ADDRESS)
    writer.delete_route(route)
    writer.delete_rule(rule("local"))


def test_other_refusals_are_errors() -> None:
    writer, _kernel = rtnl(errno.EPERM)
    with pytest.raises(codec.NetlinkError, match="EPERM"):
        writer.add_address(4, ADDRESS)


def test_a_rule_is_removed_in_the_form_of_the_kernel() -> None:
    writer, kernel = rtnl()
    writer.delete_rule(rule("fwmark"))
    assert kernel.asked[0][0] == rtnetlink.RTM_DELRULE
    assert kernel.asked[0][2].hex() == RULES["fwmark"]


def test_link_changes_set_only_the_given_attributes() -> None:
    writer, kernel = rtnl()
    writer.set_link(4, mtu=4200)
    writer.set_link(4, up=True)
    writer.set_link(4, up=False, name="gpu01")
    headers = [rtnetlink.LINK_HEADER.unpack_from(payload)[2:] for _kind, _flags, payload in kernel.asked]
    assert headers == [(4, 0, 0), (4, 1, 1), (4, 0, 1)]


def test_hardware_addresses_of_one_interface() -> None:
    def entry(index: int, mac: bytes) -> bytes:
        header = rtnetlink.NEIGHBOUR_HEADER.pack(rtnetlink.AF_BRIDGE, index, 0x80, 2, 0)
        return header + codec.attribute(rtnetlink.NDA_LLADDR, mac)

    reader, _kernel = rtnl([entry(4, b"\x02abcde"), entry(5, b"\x02fghij")])
    assert reader.hardware_addresses(4) == [b"\x02abcde"]


def attributes(payload: bytes) -> dict[str, t.Any]:
    """The attributes of a link message, read by another implementation of the protocol."""
    message = ifinfmsg(codec.encode(rtnetlink.RTM_NEWLINK, 0, 1, payload))
    message.decode()
    found = dict(message["attrs"], index=message["index"])
    if "IFLA_LINKINFO" in found:
        info = dict(found.pop("IFLA_LINKINFO")["attrs"])
        found.update(kind=info["IFLA_INFO_KIND"], **dict(info["IFLA_INFO_DATA"]["attrs"]))
    return found


@pytest.mark.parametrize(
    ("kind", "mode"), [("macvlan", {"IFLA_MACVLAN_MODE": "bridge"}), ("ipvlan", {"IFLA_IPVLAN_MODE": 0})]
)
def test_a_link_is_added_on_a_port_in_another_namespace(kind: str, mode: dict[str, t.Any]) -> None:
    writer, kernel = rtnl()
    writer.new_link(kind, "ry-net1", 4, 9, 4200, b"\2\0\0\0\1\1")
    request, flags, payload = kernel.asked[0]
    assert (request, flags & 0x600) == (rtnetlink.RTM_NEWLINK, rtnetlink.NLM_F_CREATE | rtnetlink.NLM_F_EXCL)
    assert attributes(payload) == {
        "index": 0,
        "IFLA_LINK": 4,
        "IFLA_IFNAME": "ry-net1",
        "IFLA_MTU": 4200,
        "IFLA_ADDRESS": "02:00:00:00:01:01",
        "IFLA_NET_NS_FD": 9,
        "kind": kind,
        **mode,
    }


def test_a_namespace_that_has_a_number_keeps_it() -> None:
    answer = struct.pack("=B3x", 0) + codec.u32(rtnetlink.NETNSA_NSID, 3)
    writer, kernel = rtnl(errno.EEXIST, [answer])
    assert writer.number_namespace(9) == 3
    assert [each[0] for each in kernel.asked] == [rtnetlink.RTM_NEWNSID, rtnetlink.RTM_GETNSID]
    unknown = struct.pack("=B3x", 0) + codec.attribute(rtnetlink.NETNSA_NSID, b"\xff" * 4)
    assert rtnl([unknown])[0].namespace_number(9) is None
