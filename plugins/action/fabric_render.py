# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import (
    slurm_check,
    slurm_environment,
    slurm_files,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _planned, _rendered
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction


class ActionModule(ControllerAction):
    """Renders a plan's Kubernetes objects as files; documented in ``plugins/modules/fabric_render.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "file": {"type": "path"},
        "render_dir": {"type": "path", "required": True},
        "kubernetes": {"type": "dict", "default": {}},
        "nodes": {"type": "bool", "default": False},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        document = _planned.document(options["file"])
        files = render(document, options["kubernetes"], options["nodes"])
        if not facts_of(document["fabric"]["provider"]).kubernetes:
            files.update(slurm_files.files(document))
            files.update(slurm_environment.files(document))
            files.update(slurm_check.files(document))
        directory = os.path.abspath(options["render_dir"])
        done = _rendered.write(directory, {path: text.encode("utf-8") for path, text in files.items()}, check)
        changed = sum(len(done[kind]) for kind in ("written", "removed"))
        return {
            "changed": bool(changed),
            "summary": "%s: %d files, %d written, %d removed"
            % (_fabric_files.shown_path(directory), len(files), len(done["written"]), len(done["removed"])),
            **done,
        }
