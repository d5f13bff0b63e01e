# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The options of the module nccl_files."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.settings_files import SettingsFiles

FILE: dict[str, t.Any] = {"path": {"type": "path", "required": True}, "settings": {"type": "dict"}}

SPEC: dict[str, t.Any] = {
    "files": {"type": "list", "elements": "dict", "required": True, "options": FILE},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}

LAYER = Layer(SPEC, SettingsFiles)
