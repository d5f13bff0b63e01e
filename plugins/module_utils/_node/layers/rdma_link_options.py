# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module rdma_link."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer

PORT: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["hardware", "rxe", "siw"], "default": "hardware"},
    "netdev": {"type": "str"},
    "pci": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT},
    "wait_active": {"type": "float", "default": 0},
    "force": {"type": "bool", "default": False},
    "persist": {"type": "bool", "default": True},
    "complete": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, boot_program.builder("rdma_link"), required_if=[("state", "present", ["ports"])])
