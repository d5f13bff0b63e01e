# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the netdevs and RDMA devices of other network namespaces of the node.

Sysfs does not show devices of another namespace, so each namespace is entered with setns(2) and read over rtnetlink,
with ethtool's ETHTOOL_GDRVINFO (kernels before 5.14 do not report a link's parent over rtnetlink) and, in exclusive
RDMA mode, over NETLINK_RDMA.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, namespace_entry, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Row, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
# struct ethtool_drvinfo: command; driver, version, firmware version and bus_info of 32 bytes each; other fields
DRVINFO_SIZE = 196
BUS_INFO = slice(4 + 3 * 32, 4 + 4 * 32)


class Elsewhere(t.NamedTuple):
    """The devices of another namespace.

    ``netdevs``: rows of ``name``, ``alias``, ``mac``, ``kind``, ``pci`` (address of its device; None for virtual ones)
    and ``below`` (index of the link in *this* namespace that it uses, or None). ``uverbs``: names of the verbs files of
    RDMA devices.
    """

    netdevs: list[Row]
    uverbs: list[str]


def look(system: System, namespaces: t.Sequence[Namespace]) -> dict[str, Elsewhere]:
    """Return the devices of each namespace by its identity, without namespaces that cannot be entered."""
    found = namespace_entry.visit(system, namespaces, lambda original: (_netdevs(original), _uverbs(system)))
    return {identity: Elsewhere(*each) for identity, each in found.items()}


def _netdevs(original: int) -> list[Row]:
    with Rtnetlink() as table:
        links = table.links()
    original_number = _nsid(original)
    return [
        {
            "name": link.name,
            "alias": link.alias,
            "mac": hardware_address(link.permanent or link.address) or None,
            "kind": link.kind,
            "pci": link.parent or (None if link.kind else bus_info(link.name)),
            "below": link.below if original_number is not None and link.below_namespace == original_number else None,
        }
        for link in links
    ]


def _nsid(fd: int) -> int | None:
    """Return the number that the namespace of a file descriptor has in this one; None if it has none."""
    try:
        with Rtnetlink() as table:
            return table.namespace_number(fd)
    except NetlinkError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT):
            raise
    return None


def bus_info(netdev: str) -> str | None:
    """Return the PCI address that a netdev's driver reports; None if it reports none."""
    data = array.array("B", struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRVINFO_SIZE, b"\0"))
    request = struct.pack("16sP16x", netdev.encode()[:15], data.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)
        except OSError:
            return None
    return codec.text(data.tobytes()[BUS_INFO]) or None


def _uverbs(system: System) -> list[str]:
    names = []
    with contextlib.suppress(RailyardError):
        sock = rdma_netlink.connect(system)
        if sock:
            for device in rdma_netlink.devices(sock):
                character = rdma_netlink.chardev(sock, device["index"])
                if character:
                    names.append(str(character["name"]))
            sock.close()
    return names
