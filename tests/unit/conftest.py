# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The management path of a node that is a directory, from the files below its ``/proc`` instead of the kernel."""

from __future__ import annotations

import ipaddress
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rtnetlink as rt
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import (
    InterfaceRoute,
    RouteLookup,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

RTF_UP, RTF_REJECT, RTF_ADDRCONF = 0x1, 0x200, 0x40000


class TreeKernel(RouteLookup):
    """The tables in ``/proc/net/route``, ``ipv6_route`` and ``if_inet6``. No route leads to the peer of a session."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system
        names = {"lo", *system.listdir("/sys/class/net"), *(name for name, *_rest in self._routes())}
        names |= {line.split()[5] for line in self._lines("if_inet6")}
        self._index = {name: number for number, name in enumerate(sorted(names), 1)}

    def _lines(self, name: str) -> list[str]:
        return (self._system.read("/proc/net/" + name) or "").splitlines()

    def _routes(self) -> t.Iterator[tuple[str, str, int]]:
        """Interface, destination and protocol of each default route."""
        for line in self._lines("route")[1:]:
            words = line.split()
            if words[1:2] == ["00000000"] and words[7] == "00000000" and not int(words[3], 16) & RTF_REJECT:
                yield words[0], "0.0.0.0/0", 0
        for line in self._lines("ipv6_route"):
            words = line.split()
            flags = int(words[8], 16)
            if words[:2] == ["0" * 32, "00"] and flags & RTF_UP and not flags & RTF_REJECT:
                yield words[9], "::/0", rt.PROTOCOL_RA if flags & RTF_ADDRCONF else 0

    def links(self, vfs: bool = False, namespace: int | None = None) -> list[rt.Link]:
        return [rt.Link(index, name, True, 1500, 0, 0, b"", ()) for name, index in self._index.items()]

    def addresses(self) -> list[rt.Address]:
        found = [(self._index["lo"], "127.0.0.1")]
        for line in self._lines("if_inet6"):
            words = line.split()
            found.append((self._index[words[5]], str(ipaddress.IPv6Address(bytes.fromhex(words[0])))))
        return [rt.Address(index, ipaddress.ip_interface(text), 0, 0) for index, text in found]

    def rules(self, version: int) -> list[rt.Rule]:
        return [rt.Rule(version, 32766, None, "", rt.TABLE_MAIN, True)]

    def wide_routes(self, version: int) -> list[InterfaceRoute]:
        rows = [(name, ipaddress.ip_network(to), protocol) for name, to, protocol in self._routes()]
        return [
            InterfaceRoute(rt.TABLE_MAIN, to, frozenset((self._index[name],)), protocol)
            for name, to, protocol in rows
            if to.version == version
        ]

    def interfaces_to(self, *_peer: t.Any, **_way: t.Any) -> set[int]:
        return set()


@pytest.fixture(autouse=True)
def tree_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use these tables for each node that is a directory. Its management path is known, also without a route."""
    observe = ManagementPath.observe

    def observed(system: System, kernel: RouteLookup | None = None) -> ManagementPath:
        if system.root == "/" or kernel:
            return observe(system, kernel)
        path = observe(system, TreeKernel(system))
        path.known = True
        return path

    monkeypatch.setattr(ManagementPath, "observe", observed)
