# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The firmware of NICs, for each vendor."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware import FIRMWARE
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    FirmwareParameters,
    VendorFirmware,
)

FIRMWARES: tuple[VendorFirmware, ...] = (FIRMWARE,)


def parameters_of(name: str) -> FirmwareParameters | None:
    """Return the parameters of the firmware that has this name or alias; None if no vendor's has it."""
    return next((each.parameters for each in FIRMWARES if each.parameters.knows(name)), None)
