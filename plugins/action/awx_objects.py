# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.data import read
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.awx.objects import objects
from ansible_collections.railyard.fabric.plugins.plugin_utils import fabric_files, foreign
from ansible_collections.railyard.fabric.plugins.plugin_utils.door import Door


class ActionModule(Door):
    """Says what AWX is to hold; documented in ``plugins/modules/awx_objects.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "file": {"type": "path", "required": True},
        # the names of the fields alone, so there is nothing to hide
        "secrets": {"type": "dict", "default": {}, "no_log": False},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        raw = fabric_files.read(options["file"], "name the data file with -e awx_file=PATH (docs/awx.md)")
        made = objects(read(raw, fabric_files.shown_path(options["file"]), options["secrets"]))
        missing = foreign.missing("awx.awx")
        if missing:
            raise missing
        return {"changed": False, "objects": made}
