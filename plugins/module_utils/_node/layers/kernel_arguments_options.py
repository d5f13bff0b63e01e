# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module kernel_arguments."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.kernel_arguments import KernelArguments
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Layer

SPEC: dict[str, t.Any] = {
    "arguments": {"type": "list", "elements": "str", "default": []},
    "iommu": {"type": "str", "choices": ["leave", "passthrough"], "default": "leave"},
    "allow_change": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, KernelArguments)
