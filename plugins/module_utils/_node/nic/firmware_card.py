# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A card: its functions, ports and model, its desired parameters, and the holders of its VFs."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_firmware
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    Parameter,
    VendorFirmware,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import ParameterSpec


class Card:
    """One device of the tool: the functions of one slot, and the desired parameters."""

    def __init__(self, device: str, functions: t.Sequence[str], model: str | None, vendor: VendorFirmware) -> None:
        self.device = device
        self.functions = list(functions)
        self.vendor = vendor
        self.ports = 2 if model in vendor.two_ports else len(functions)
        self.has_processors = model in vendor.with_processors
        self.specs: dict[str, ParameterSpec] = {}
        #: the desired version of the firmware, and the place of the option
        self.version: tuple[str, str] | None = None

    def conflict(self, what: str, one: t.Any, place: str, other: t.Any, other_place: str) -> RailyardError:
        message = "%s is %s here and %s in %s, but both ports are on the card %s"
        remedy = "use one value for the card; give link types of single ports by 'link_types'"
        return RailyardError(message % (what, one, other, other_place, self.device), place, remedy)

    def names(self) -> list[str]:
        names, known, mode = list(self.specs), self.vendor.parameters, self.vendor.mode_parameter
        if not names:
            names = [*("%s%d" % (known.link_type, n + 1) for n in range(self.ports)), *known.options]
        elif set(names).intersection(known.guarded) and known.guard not in names:
            names.append(known.guard)
        return names + ([mode] if self.has_processors and mode not in names else [])


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
    return current is not None and later is not None and not vendor_firmware.same(current, later)
