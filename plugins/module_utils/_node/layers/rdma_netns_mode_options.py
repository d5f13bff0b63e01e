# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module rdma_netns_mode."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import RdmaMode
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode_removal import RdmaModeBack


def build(options: t.Mapping[str, t.Any], system: System) -> RdmaMode:
    return (
        RdmaModeBack(system, options["switch"])
        if options["state"] == "absent"
        else RdmaMode.from_options(options, system)
    )


SPEC: dict[str, t.Any] = {
    "mode": {"type": "str", "choices": ["shared", "exclusive"]},
    "persist": {"type": "bool", "default": True},
    "switch": {"type": "str", "choices": ["try", "require", "never"], "default": "try"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, build, required_if=[("state", "present", ["mode"])])
