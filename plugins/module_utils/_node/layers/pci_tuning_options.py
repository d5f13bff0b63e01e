# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module pci_tuning."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_config import SIZES

SIZE = {"type": "int", "choices": list(SIZES)}
EXPECT = {
    "pcie_gen": {"type": "int"},
    "pcie_lanes": {"type": "int"},
    "gpu_distance": {"type": "str"},
    "speed": {"type": "raw"},
    "width": {"type": "raw"},
}
PORTS = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "gpus": {"type": "list", "elements": "int", "default": []},
    "max_read_request": SIZE,
    "expect": {"type": "dict", "options": EXPECT},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORTS},
    "gpus": {"type": "dict", "default": {}},
    "acs": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
    "max_read_request": SIZE,
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, boot_program.builder("pci_tuning"))
