# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of errors and congestion of rail ports, with the pause frames that drivers report by DCB."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import DcbSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters

RECEIVED, SENT = "rx_pfc_pause", "tx_pfc_pause"


def look(system: System, netdevs: t.Iterable[str], devices: t.Iterable[str], sock: DcbSocket | None = None) -> t.Any:
    """Return the counters of ``counters.look``, and for netdevs with PFC the pause frames of all priorities.

    :param sock: replaced in tests.
    """
    found = counters.look(system, netdevs, devices)
    sock = sock or DcbSocket()
    for netdev, row in found["netdevs"].items():
        try:
            dcb = sock.read(netdev)
        except NetlinkError:
            continue  # the netdev has left this network namespace
        if dcb and dcb.pfc:
            row[SENT], row[RECEIVED] = dcb.pfc.frames
    return found
