# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module sriov_vfs."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import VF_ATTRIBUTES
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer

ATTRIBUTES = dict(
    {"index": {"type": "int", "required": True}},
    **{attribute.name: attribute.option() for attribute in VF_ATTRIBUTES},
)
PORTS = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "count": {"type": "int"},
    "attributes": {"type": "list", "elements": "dict", "default": [], "options": ATTRIBUTES},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORTS},
    "allow_recreate": {"type": "bool", "default": False},
    "autoprobe": {"type": "bool"},
    "timeout": {"type": "int", "default": 120},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, boot_program.builder("sriov_vfs"))
