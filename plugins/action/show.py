# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.plugin_utils import _output
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Prints lines of text unchanged; documented in ``plugins/modules/show.py``."""

    SPEC: t.Mapping[str, t.Any] = {"text": {"type": "raw", "required": True}}

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        text = options["text"]
        lines = [line for part in (text if isinstance(text, list) else [text]) for line in str(part).splitlines()]
        _output.show(lines)
        return {"changed": False, "lines": lines}
