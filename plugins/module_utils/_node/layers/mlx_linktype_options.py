# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module mlx_linktype."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import Firmware

PORT: dict[str, t.Any] = {
    "pci": {"type": "str", "required": True},
    "link_type": {"type": "str", "choices": ["eth", "ib"]},
    "link_types": {"type": "dict"},
    "sriov_en": {"type": "bool"},
    "num_of_vfs": {"type": "int"},
    "parameters": {"type": "dict"},
    "version": {"type": "str"},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT},
    "tool": {"type": "str", "default": "auto"},
    "reset": {"type": "str", "choices": ["never", "allowed"], "default": "never"},
    "never_reset": {"type": "list", "elements": "str", "default": []},
    "timeout": {"type": "float", "default": 120.0},
    "state": {"type": "str", "choices": ["present", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, Firmware.from_options, required_if=[("state", "present", ["ports"])])
