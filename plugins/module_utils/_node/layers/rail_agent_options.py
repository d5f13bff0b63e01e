# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module rail_agent."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.installed_agent import RailAgent
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Layer

SPEC: dict[str, t.Any] = {
    "spec": {"type": "dict"},
    "runtime_check": {"type": "bool", "default": True},
    "force": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, RailAgent, [("state", "present", ["spec"])])
