# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module gpudirect."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpudirect_modules import GpuDirect

SPEC: dict[str, t.Any] = {
    "path": {"type": "str", "choices": ["auto", "dmabuf", "peermem", "none"], "default": "auto"},
    "gdrcopy": {"type": "bool"},
    "cuda_dmabuf": {"type": "bool"},
    "flavour": {"type": "str", "choices": ["open", "proprietary"]},
    "unload": {"type": "bool", "default": False},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, GpuDirect)
