# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module cni_networks."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.node_networks import CniNetworks
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import MANAGEMENT, Layer

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "networks": {"type": "list", "elements": "dict", "default": []},
    "directory": {"type": "path"},
    "plugin_directory": {"type": "path"},
    "source": {"type": "list", "elements": "path", "default": []},
    "checksum": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, CniNetworks)
