# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Congestion control (ECN) of bnxt_re: its switch, and the marks of notification packets (CNPs).

The kernel's own driver has a file for each parameter in ``/sys/kernel/debug/bnxt_re/FUNCTION/cc_config``
(``drivers/infiniband/hw/bnxt_re/debugfs.c``). The ``alt_`` parameters apply to CNPs. A write that the firmware
rejects returns no error, so the value must be read again. Broadcom's own driver has a directory in configfs instead,
which this module does not use.
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import (
    CongestionControl,
    Node,
    Row,
    Setting,
)

DEBUGFS = "debugfs"
ENABLE = "cc_config/enable_cc"
CNP = {"cnp_dscp": "cc_config/alt_vlan_dscp", "cnp_priority": "cc_config/alt_vlan_pcp"}


def find(node: Node, pci: str) -> CongestionControl | None:
    place = "/sys/kernel/debug/bnxt_re/%s" % pci
    # a kernel in lockdown denies debugfs to root too
    with contextlib.suppress(RailyardError):
        if node.read_int("%s/%s" % (place, ENABLE)) is not None:
            return BnxtCongestion(node, place)
    return None


class BnxtCongestion(CongestionControl):
    """The parameters of one function. ``place``: its directory in debugfs."""

    def __init__(self, node: Node, place: str) -> None:
        self._node = node
        self._place = place

    def observe(self) -> Row:
        # the function has one switch of congestion control for all priorities
        found: Row = {"interface": DEBUGFS, "np": None, "rp": None}
        for key, name in CNP.items():
            found[key] = self._node.read_int("%s/%s" % (self._place, name))
        return found

    def settings(self, ecn: t.Mapping[str, t.Any]) -> list[Setting]:
        values = [(name, int(ecn[key])) for key, name in CNP.items()] + [(ENABLE, int(ecn["enable"]))]
        return [Setting(name, "%s/%s" % (self._place, name), value) for name, value in values]
