# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Congestion control (ECN): the priorities that it covers, and the marks of notification packets (CNPs).

mlx5 has two interfaces: ``/sys/class/net/NETDEV/ecn`` of NVIDIA's driver with all settings, and
``/sys/kernel/debug/mlx5/FUNCTION/cc_params`` of the kernel's own driver (``drivers/infiniband/hw/mlx5/cong.c``) with
only the marks of CNPs. With the latter, the priorities are set in the firmware (ROCE_CC_PRIO_MASK_P1).
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

POINTS = {"np": "roce_np", "rp": "roce_rp"}
DEBUG = "/sys/kernel/debug/mlx5"


class Knob(t.NamedTuple):
    """One attribute: its name for users, and its file."""

    name: str
    path: str


def interface(system: System, netdev: str, pci: str | None) -> str | None:
    """``driver``: NVIDIA's driver; ``debugfs``: the kernel's driver, marks of CNPs only; None: neither."""
    if system.exists("/sys/class/net/%s/ecn/roce_np" % netdev):
        return "driver"
    if pci:
        # a kernel in lockdown denies debugfs to root too
        with contextlib.suppress(RailyardError):
            if system.read_int("%s/%s/cc_params/np_cnp_dscp" % (DEBUG, pci)) is not None:
                return "debugfs"
    return None


def observe(system: System, netdev: str, pci: str | None) -> dict[str, t.Any] | None:
    """The state in the shape of the option ``ecn``; None without an interface. Values that cannot be read are None."""
    kind = interface(system, netdev, pci)
    if kind is None:
        return None
    found: dict[str, t.Any] = {"interface": kind, "np": None, "rp": None}
    if kind == "driver":
        for key, point in POINTS.items():
            place = "/sys/class/net/%s/ecn/%s/enable" % (netdev, point)
            found[key] = [number for number in range(8) if system.read_int("%s/%d" % (place, number))]
    for key in ("cnp_dscp", "cnp_priority"):
        found[key] = system.read_int(_cnp(kind, key, netdev, pci).path)
    return found


def wanted(kind: str, ecn: t.Mapping[str, t.Any], netdev: str, pci: str | None) -> list[tuple[Knob, int]]:
    """The desired value of each attribute that the interface has, in the order in which they are set."""
    found = [(_cnp(kind, key, netdev, pci), int(ecn[key])) for key in ("cnp_dscp", "cnp_priority")]
    if kind == "driver":
        for key, point in POINTS.items():
            for priority in ecn[key]:
                name = "ecn/%s/enable/%d" % (point, priority)
                found.append((Knob(name, "/sys/class/net/%s/%s" % (netdev, name)), int(ecn["enable"])))
    return found


def _cnp(kind: str, key: str, netdev: str, pci: str | None) -> Knob:
    if kind == "driver":
        name = "ecn/roce_np/" + {"cnp_dscp": "cnp_dscp", "cnp_priority": "cnp_802p_prio"}[key]
        return Knob(name, "/sys/class/net/%s/%s" % (netdev, name))
    name = "cc_params/" + {"cnp_dscp": "np_cnp_dscp", "cnp_priority": "np_cnp_prio"}[key]
    return Knob(name, "%s/%s/%s" % (DEBUG, pci, name))
