# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module rail_limits."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import THRESHOLDS, RailLimits

PORT = {"pci": {"type": "str"}, "netdev": {"type": "str"}}
PAGES = {"size_kb": {"type": "int", "required": True}, "count": {"type": "int", "required": True}}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
    "memlock": {"type": "str", "choices": ["leave", "unlimited"], "default": "leave"},
    "services": {"type": "list", "elements": "str"},
    "hugepages": {"type": "list", "elements": "dict", "options": PAGES},
    "neighbours": {"type": "dict", "options": {key: {"type": "int"} for key in THRESHOLDS}},
    "network_manager": {"type": "str", "choices": ["leave", "unmanaged"], "default": "leave"},
    "cloud_init": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, RailLimits)
