# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firmware of NVIDIA's cards: aliases and names of parameters, and facts about models."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import Node
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    Alias,
    FirmwareParameters,
    FirmwareTool,
    Plain,
    VendorFirmware,
)

_ADVANCED = "ADVANCED_PCI_SETTINGS"
_SWITCH = {True: "1", False: "0"}


class MlxParameters(FirmwareParameters):
    program = "mlxconfig"
    # NAME, NAME[3], NAME[0..7], or NAME_P* for each port of the card
    pattern = re.compile(r"^([A-Z][A-Z0-9_]*)(?:\[(\d+)(?:\.\.(\d+))?\]|(?<=_P)(\*))?$")
    forms = "NAME, NAME[3], NAME[0..7], or NAME_P* for every port"
    aliases = {
        "advanced_pci_settings": Alias(_ADVANCED, _SWITCH),
        "ats": Alias("ATS_ENABLED", _SWITCH),
        "cnp_dscp": Alias("CNP_DSCP_P*", limit=63),
        "cnp_priority": Alias("CNP_802P_PRIO_P*", limit=7),
        "max_acc_out_read": Alias("MAX_ACC_OUT_READ", limit=65535),
        "relaxed_ordering": Alias("PCI_WR_ORDERING", {True: "force_relax", False: "per_mkey"}),
        "roce_cc_priorities": Alias("ROCE_CC_PRIO_MASK_P*", mask=True),
    }
    options = {"SRIOV_EN": "sriov_en", "NUM_OF_VFS": "num_of_vfs"}
    link_type = "LINK_TYPE_P"
    link_types = {"ib": "IB(1)", "eth": "ETH(2)"}
    link_numbers = {1: "ib", 2: "eth", 3: "vpi"}
    vf_override = "PF_NUM_OF_VF_VALID and PF_NUM_OF_VF"
    guard = _ADVANCED
    guarded = ("MAX_ACC_OUT_READ",)


class MlxFirmware(VendorFirmware):
    pci_vendor = "15b3"
    parameters = MlxParameters()
    # ConnectX-3, ConnectX-3 Pro
    two_ports = ("1003", "1007")
    # BlueField 1 to 4. A reset from the host restarts the Arm cores too, and may change NIC mode to DPU mode:
    # https://github.com/Mellanox/nic-configuration-operator/pull/86.
    with_processors = ("a2d2", "a2d6", "a2dc", "a2df")
    mode_parameter = "INTERNAL_CPU_OFFLOAD_ENGINE"
    modes = {0: "dpu", 1: "nic"}
    independent_mode = "dpu"
    processor_name = "BlueField"
    burner = "mstflint or mlxfwmanager"

    def tool(self, node: Node, choice: str) -> FirmwareTool:
        # imported on nodes only
        from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware_tool import Tool

        return Tool(node, choice)

    def sensed_type(self, node: Node, pci: str, port: int) -> Plain:
        """Return the type of a ConnectX-3's port as its driver reports it; None if an option of the driver sets it."""
        if re.search("[12]", node.read("/sys/module/mlx4_core/parameters/port_type_array") or ""):
            return None
        text = node.read("/sys/bus/pci/devices/%s/mlx4_port%d" % (pci, port)) or ""
        # "ib", "eth", or "auto (ib)" of a port that uses the type of its link partner
        return "VPI(3)" if text.startswith("auto") else self.parameters.link_types.get(text)


FIRMWARE = MlxFirmware()
