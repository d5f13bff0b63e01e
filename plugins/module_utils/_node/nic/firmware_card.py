# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A card: its functions, ports and model, and what makes a reset impossible."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import firmware_tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import Wish
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_tool import Parameter

# Cards whose one function has two ports (ConnectX-3, ConnectX-3 Pro).
TWO_PORTS_A_FUNCTION = ("1003", "1007")

# BlueField 1 to 4, by what the host sees of them. A reset from the host restarts the Arm cores too, and may leave in
# DPU mode what was in NIC mode: https://github.com/Mellanox/nic-configuration-operator/pull/86.
BLUEFIELD = ("a2d2", "a2d6", "a2dc", "a2df")

OFFLOAD_ENGINE = "INTERNAL_CPU_OFFLOAD_ENGINE"

MODES = {0: "dpu", 1: "nic"}

ARPHRD_INFINIBAND = 32


class Card:
    """One device that the tool knows: the functions of one slot, with all that is wished of it."""

    def __init__(self, device: str, functions: t.Sequence[str], ports: int, bluefield: bool = False) -> None:
        self.device = device
        self.functions = list(functions)
        self.ports = ports
        self.bluefield = bluefield
        self.wishes: dict[str, Wish] = {}
        #: the wanted version of the firmware itself, and where it is said
        self.version: tuple[str, str] | None = None

    def names(self) -> list[str]:
        names = list(self.wishes)
        if not names:
            names = [*("LINK_TYPE_P%d" % (n + 1) for n in range(self.ports)), "SRIOV_EN", "NUM_OF_VFS"]
        elif set(names).intersection(firmware_parameters.GUARDED) and firmware_parameters.ADVANCED not in names:
            names.append(firmware_parameters.ADVANCED)
        return names + ([OFFLOAD_ENGINE] if self.bluefield and OFFLOAD_ENGINE not in names else [])


def vf_holders_of(system: System, functions: t.Sequence[str]) -> dict[str, list[str]]:
    # only a refusal pays for these imports
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
    from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

    with Rtnetlink() as table:
        return vf_holders.of(system, functions, table)


def functions_elsewhere(system: System, functions: t.Sequence[str]) -> dict[str, str]:
    """Functions whose interface is in another network namespace -> who has it."""
    from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

    return {function: moved.why for function, moved in vf_holders.moved(system, functions).items()}


def version_errors(card: Card, version: t.Any, place: str) -> list[RailyardError]:
    if version is None:
        return []
    held = card.version = card.version or (str(version), place)
    if held[0] == str(version):
        return []
    message = "the firmware shall be %s, but %s says %s, and both are on the card %s"
    return [RailyardError(message % (version, held[1], held[0], card.device), place, "say it once a card")]


def firmware_of_netdevs(netdevs: t.Iterable[str]) -> dict[str, str]:
    # only a card without an RDMA device pays for it
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool

    return {name: told.firmware for name, told in ethtool.driver_infos(netdevs).items() if told.firmware}


def is_staged(held: Parameter) -> bool:
    current, later = held["current"], held["next"]
    return current is not None and later is not None and not firmware_tool.same(current, later)


def link_type_of(value: firmware_tool.Plain) -> str | None:
    number = None if value is None else firmware_tool.number(value)
    return {1: "ib", 2: "eth", 3: "vpi"}.get(number or 0)
