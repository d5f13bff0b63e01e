# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the NIC driver: kinds of drivers, and what each requires."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import (
    INSTALLED,
    KINDS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "kind": {"type": "str", "choices": list(KINDS)},
    "version": {"type": "str"},
    "source": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    "unsigned": {"type": "bool", "default": False},
    "packages": {"type": "list", "elements": "str", "default": []},
    "allow_unlisted": {"type": "bool", "default": False},
    "restart": {"type": "str", "choices": ["never", "allowed"], "default": "never"},
    "state": {"type": "str", "choices": ["present", "gathered"], "default": "present"},
}
REQUIRED_IF = (
    ("state", "present", ["kind"]),
    *(("kind", kind, ["version", "source"]) for kind in INSTALLED),
)
