# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A card: its functions, ports and model, its desired parameters, and the holders of its VFs."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import firmware_tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import ParameterSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_tool import Parameter

# Cards whose one function has two ports (ConnectX-3, ConnectX-3 Pro).
TWO_PORTS_A_FUNCTION = ("1003", "1007")

# BlueField 1 to 4, by their PCI device. A reset from the host restarts the Arm cores too, and may change NIC mode to
# DPU mode: https://github.com/Mellanox/nic-configuration-operator/pull/86.
BLUEFIELD = ("a2d2", "a2d6", "a2dc", "a2df")

OFFLOAD_ENGINE = "INTERNAL_CPU_OFFLOAD_ENGINE"


class Card:
    """One device of the tool: the functions of one slot, and the desired parameters."""

    def __init__(self, device: str, functions: t.Sequence[str], ports: int, bluefield: bool = False) -> None:
        self.device = device
        self.functions = list(functions)
        self.ports = ports
        self.bluefield = bluefield
        self.specs: dict[str, ParameterSpec] = {}
        #: the desired version of the firmware, and the place of the option
        self.version: tuple[str, str] | None = None

    def conflict(self, what: str, one: t.Any, place: str, other: t.Any, other_place: str) -> RailyardError:
        message = "%s is %s here and %s in %s, but both ports are on the card %s"
        remedy = "use one value for the card; give link types of single ports by 'link_types'"
        return RailyardError(message % (what, one, other, other_place, self.device), place, remedy)

    def names(self) -> list[str]:
        names = list(self.specs)
        if not names:
            names = [*("LINK_TYPE_P%d" % (n + 1) for n in range(self.ports)), "SRIOV_EN", "NUM_OF_VFS"]
        elif set(names).intersection(firmware_parameters.GUARDED) and firmware_parameters.ADVANCED not in names:
            names.append(firmware_parameters.ADVANCED)
        return names + ([OFFLOAD_ENGINE] if self.bluefield and OFFLOAD_ENGINE not in names else [])


def vf_holders_of(system: System, functions: t.Sequence[str]) -> dict[str, list[str]]:
    # imported only for a refusal
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
    from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

    with Rtnetlink() as table:
        return vf_holders.of(system, functions, table)


def functions_elsewhere(system: System, functions: t.Sequence[str]) -> dict[str, str]:
    """Functions whose interface is in another network namespace -> its holder."""
    from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

    return {function: moved.why for function, moved in vf_holders.moved(system, functions).items()}


def is_staged(observed: Parameter) -> bool:
    current, later = observed["current"], observed["next"]
    return current is not None and later is not None and not firmware_tool.same(current, later)
