# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Congestion control (ECN) of mlx5: the priorities that it covers, and the marks of notification packets (CNPs).

mlx5 has two interfaces: ``/sys/class/net/NETDEV/ecn`` of NVIDIA's driver with all settings, and
``/sys/kernel/debug/mlx5/FUNCTION/cc_params`` of the kernel's own driver (``drivers/infiniband/hw/mlx5/cong.c``) with
only the marks of CNPs. With the latter, the priorities are set in the firmware (ROCE_CC_PRIO_MASK_P1).
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

DRIVER, DEBUGFS = "driver", "debugfs"
POINTS = {"np": "roce_np", "rp": "roce_rp"}
DEBUG = "/sys/kernel/debug/mlx5"
CNP = {
    DRIVER: {"cnp_dscp": "ecn/roce_np/cnp_dscp", "cnp_priority": "ecn/roce_np/cnp_802p_prio"},
    DEBUGFS: {"cnp_dscp": "cc_params/np_cnp_dscp", "cnp_priority": "cc_params/np_cnp_prio"},
}


def find(node: Node, netdev: str, pci: str) -> CongestionControl | None:
    place = "/sys/class/net/%s" % netdev
    if node.exists(place + "/ecn/roce_np"):
        return Mlx5Congestion(node, netdev, DRIVER, place)
    place = "%s/%s" % (DEBUG, pci)
    # a kernel in lockdown denies debugfs to root too
    with contextlib.suppress(RailyardError):
        if node.read_int(place + "/cc_params/np_cnp_dscp") is not None:
            return Mlx5Congestion(node, netdev, DEBUGFS, place)
    return None


class Mlx5Congestion(CongestionControl):
    """One of the interfaces, below the directory ``place``."""

    def __init__(self, node: Node, netdev: str, interface: str, place: str) -> None:
        self._node = node
        self._netdev = netdev
        self._interface = interface
        self._place = place

    def observe(self) -> Row:
        found: Row = {"interface": self._interface, "np": None, "rp": None}
        if self._interface == DRIVER:
            for key, point in POINTS.items():
                place = "%s/ecn/%s/enable" % (self._place, point)
                found[key] = [number for number in range(8) if self._node.read_int("%s/%d" % (place, number))]
        for key, name in CNP[self._interface].items():
            found[key] = self._node.read_int("%s/%s" % (self._place, name))
        return found

    def settings(self, ecn: t.Mapping[str, t.Any]) -> list[Setting]:
        wanted = [(name, int(ecn[key])) for key, name in CNP[self._interface].items()]
        for key, point in POINTS.items() if self._interface == DRIVER else ():
            wanted += [("ecn/%s/enable/%d" % (point, priority), int(ecn["enable"])) for priority in ecn[key]]
        return [Setting(name, "%s/%s" % (self._place, name), value) for name, value in wanted]

    def warning(self, ecn: t.Mapping[str, t.Any]) -> str | None:
        if self._interface == DRIVER:
            return None
        return (
            "%s: this driver does not report the priorities with ECN: check that ROCE_CC_PRIO_MASK of the firmware "
            "contains priority %s" % (self._netdev, ", ".join(map(str, ecn["np"])))
        )
