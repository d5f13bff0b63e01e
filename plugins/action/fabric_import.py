# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output import import_run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import run
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

# Endings of files in a directory that may contain manifests or configure interfaces. A file that is given itself may
# have any name.
_SUFFIXES = (".yml", ".yaml", ".json", ".md", ".markdown", ".txt", ".rst", ".adoc", ".sh")
_INTERFACES = (".network", ".netdev", ".nmconnection")
# The directory of patches, after the name of the fabric file's directory.
_PATCHES = "exclude-slots"
_COMMA = re.compile(r",(?![^\[]*\])\s*|\s+")


class ActionModule(ControllerAction):
    """Creates a fabric file from manifests; documented in ``plugins/modules/fabric_import.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "paths": {"type": "list", "elements": "path", "required": True},
        **_fabric_files.NEW_FABRIC,
        "nodes": {"type": "raw"},
        "name": {"type": "str"},
        "profile": {"type": "str", "default": "server"},
        "mtu": {"type": "int"},
        "provider": {"type": "str", "choices": ["agent"]},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        files = [(path, _fabric_files.read(path)) for path in _files(options["paths"])]
        given = Options(
            options["name"], _nodes(options["nodes"]), options["profile"], options["mtu"], options["provider"]
        )
        outcome = run(files, given)
        result: dict[str, t.Any] = {
            "changed": False,
            "text": outcome.text,
            "findings": [found.as_dict() for found in outcome.findings],
            "counts": import_run.counts(outcome.findings),
            "table": import_run.as_table(outcome.findings, _output.width()),
            "lint": [finding.text(options["dest"] or "fabric.yml") for finding in outcome.lint],
            "summary": import_run.summary(outcome),
            "patches": [],
        }
        if not outcome.text:
            errors = [found.text() for found in outcome.findings if found.finding.severity == "error"]
            return dict(result, failed=True, msg="\n".join(errors))
        if options["dest"]:
            refused = "a different fabric file exists already, and it may contain what manifests do not"
            consent = None if options["force"] else "-e import_force=true"
            result.update(_fabric_files.write_fabric(options["dest"], outcome.text, check, refused, consent))
        self._write_patches(outcome, options["dest"], result, check)
        return result

    @staticmethod
    def _write_patches(outcome: import_run.Outcome, dest: str | None, result: dict[str, t.Any], check: bool) -> None:
        """Write the patches of pools, and add them to the result."""
        folder = _patch_folder(dest or "")
        if dest and outcome.patches:
            files = {patch.name: patch.text.encode("utf-8") for patch in outcome.patches}
            written = _fabric_files.write(folder, files, check, "fabric_file", "patches of pools")
            result["changed"] = result["changed"] or any(file["changed"] for file in written)
        for patch in outcome.patches:
            path = _fabric_files.shown_path(os.path.join(folder, patch.name))
            result["patches"].append({"path": path, "text": patch.text, "command": patch.command(path)})


def _patch_folder(dest: str) -> str:
    """Return the directory of the patches: not the one of the inventory, of which Ansible reads every file."""
    around = os.path.normpath(os.path.dirname(dest))
    unnamed = os.path.basename(around) in ("", ".", "..")
    return os.path.normpath(os.path.join(around, _PATCHES)) if unnamed else "%s-%s" % (around, _PATCHES)


def _files(paths: t.Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        inside = sorted(_inside(path)) if os.path.isdir(path) else [path]
        if not inside:
            raise RailyardError("the directory contains no manifest, page or script", path, "give the paths of files")
        found.extend(inside)
    if not found:
        raise RailyardError("no file is given", "paths", "give the manifests, such as -e import_from=manifests/")
    return list(dict.fromkeys(_fabric_files.shown_path(path) for path in found))


def _inside(directory: str) -> t.Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            known = name.lower().endswith((*_SUFFIXES, *_INTERFACES)) or name.startswith("ifcfg-")
            if known and not name.startswith("."):
                yield os.path.join(folder, name)


def _nodes(value: t.Any) -> dict[str, dict[str, t.Any]] | None:
    """Return the nodes from a text of names, a list of names, or a mapping as in a fabric file."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = [name for name in _COMMA.split(value.strip()) if name]
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return {name: {} for name in value}
    if isinstance(value, dict) and all(own is None or isinstance(own, dict) for own in value.values()):
        return {str(name): dict(own or {}) for name, own in value.items()}
    remedy = "write names or ranges, such as ai-[01:16], or a mapping as in a fabric file"
    raise RailyardError("the nodes are neither names nor a mapping", "nodes", remedy)
