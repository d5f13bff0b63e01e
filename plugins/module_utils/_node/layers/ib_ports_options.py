# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module ib_ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot_service import boot_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer

PORT: dict[str, t.Any] = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "mode": {"type": "str", "choices": ["datagram", "connected"]},
    # numbers of partitions, not secrets
    "pkeys": {"type": "list", "elements": "str", "default": [], "no_log": False},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT},
    "subnet_manager": {"type": "str", "choices": ["reported", "required", "ignored"], "default": "reported"},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, boot_program.builder("ib_ports"), required_if=[("state", "present", ["ports"])])
