# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module rail_ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import RailPorts

ROUTE = {
    "to": {"type": "str", "required": True},
    "via": {"type": "str"},
    "table": {"type": "int"},
}
PORT = {
    "rail": {"type": "str", "required": True},
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "mtu": {"type": "int"},
    "address": {"type": "str"},
    "gateway": {"type": "str"},
    "address6": {"type": "str"},
    "gateway6": {"type": "str"},
    "table": {"type": "int"},
    "rule_priority": {"type": "int"},
    "routes": {"type": "list", "elements": "dict", "options": ROUTE, "default": []},
    "sysctl": {"type": "dict", "default": {}},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT, "default": []},
    "backend": {
        "type": "str",
        "choices": ["auto", "networkd", "netplan", "networkmanager", "none"],
        "default": "auto",
    },
    "persist": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, RailPorts.from_options)
