# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ends of tunnels in the kernel's messages, as pyroute2 encodes them: few kernels have all kinds of tunnels."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest
from pyroute2.netlink.generic.wireguard import wgmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, decode_link
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import tunnels
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.tunnels import End

LOCAL, REMOTE = "10.0.0.2", "10.0.0.1"
LOCAL_6, REMOTE_6 = "fd00::2", "fd00::1"


def link(kind: str, *attributes: tuple[str, t.Any]) -> Link:
    message = ifinfmsg()
    message["index"] = 7
    information = {"attrs": [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", {"attrs": list(attributes)})]}
    message["attrs"] = [("IFLA_IFNAME", "t0"), ("IFLA_MASTER", 9), ("IFLA_LINKINFO", information)]
    message.encode()
    return decode_link(bytes(message.data[16:]))


def end(remote: str | None, local: str | None = None, interface: int = 0, mark: int = 0) -> End:
    addresses = [ipaddress.ip_address(each) if each else None for each in (remote, local)]
    return End(addresses[0], addresses[1], interface, mark)


@pytest.mark.parametrize(
    ("kind", "attributes", "ends"),
    [
        (
            "gre",
            (("IFLA_GRE_LINK", 3), ("IFLA_GRE_LOCAL", LOCAL), ("IFLA_GRE_REMOTE", REMOTE), ("IFLA_GRE_FWMARK", 4)),
            [end(REMOTE, LOCAL, 3, 4)],
        ),
        ("ip6gre", (("IFLA_IP6GRE_LOCAL", LOCAL_6), ("IFLA_IP6GRE_REMOTE", REMOTE_6)), [end(REMOTE_6, LOCAL_6)]),
        ("ipip", (("IFLA_IPIP_LOCAL", LOCAL), ("IFLA_IPIP_REMOTE", REMOTE)), [end(REMOTE, LOCAL)]),
        ("sit", (("IFLA_SIT_LINK", 3), ("IFLA_SIT_REMOTE", REMOTE)), [end(REMOTE, None, 3)]),
        ("ip6tnl", (("IFLA_IP6TNL_LOCAL", LOCAL_6), ("IFLA_IP6TNL_REMOTE", REMOTE_6)), [end(REMOTE_6, LOCAL_6)]),
        ("vti", (("IFLA_VTI_LOCAL", LOCAL), ("IFLA_VTI_REMOTE", REMOTE)), [end(REMOTE, LOCAL)]),
        ("geneve", (("IFLA_GENEVE_REMOTE", REMOTE),), [end(REMOTE)]),
        ("vxlan", (("IFLA_VXLAN_LINK", 3), ("IFLA_VXLAN_GROUP", REMOTE)), [end(REMOTE, None, 3)]),
        ("vxlan", (("IFLA_VXLAN_LOCAL6", LOCAL_6), ("IFLA_VXLAN_GROUP6", REMOTE_6)), [end(REMOTE_6, LOCAL_6)]),
        # its remote ends are in the forwarding table
        ("vxlan", (("IFLA_VXLAN_LOCAL", LOCAL),), [end(None, LOCAL)]),
        # a remote end of each packet's own
        ("gre", (("IFLA_GRE_LOCAL", "0.0.0.0"), ("IFLA_GRE_REMOTE", "0.0.0.0")), [end(None)]),
        ("vlan", (("IFLA_VLAN_ID", 5),), []),
    ],
)
def test_the_ends_of_a_tunnel(kind: str, attributes: t.Any, ends: list[End]) -> None:
    found = link(kind, *attributes)
    assert (found.kind, found.master) == (kind, 9)
    assert tunnels.ends(found) == ends


class Generic(codec.NetlinkSocket):
    """The generic netlink families of a kernel with WireGuard, or of one without it."""

    def __init__(self, *devices: bytes) -> None:
        self.devices = list(devices)

    def request(self, kind: int, payload: bytes = b"", flags: int = 0) -> list[bytes]:
        assert (kind, payload[0], payload[4:]) == (16, 3, codec.string(2, "wireguard"))
        if not self.devices:
            raise codec.NetlinkError(2)
        return [bytes(4) + codec.attribute(1, b"\x21\x00")]

    def dump(self, kind: int, payload: bytes = b"") -> list[bytes]:
        assert (kind, payload[:2], payload[4:]) == (0x21, b"\x00\x01", codec.u32(1, 7))
        return self.devices


def test_the_endpoints_of_wireguards_peers() -> None:
    message = wgmsg()
    message["cmd"], message["version"] = 0, 1
    peers = [
        {"attrs": [("WGPEER_A_ENDPOINT", {"family": family, "addr": addr, "port": 51820, "__pad": ()})]}
        for family, addr in ((2, REMOTE), (10, REMOTE_6))
    ]
    message["attrs"] = [("WGDEVICE_A_IFINDEX", 7), ("WGDEVICE_A_FWMARK", 51820), ("WGDEVICE_A_PEERS", peers)]
    message.encode()
    found = tunnels.wireguard_ends(7, Generic(bytes(message.data[16:])))
    assert found == [end(REMOTE, mark=51820), end(REMOTE_6, mark=51820)]
    assert tunnels.wireguard_ends(7, Generic()) == []
