# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import os
import typing as t
from pathlib import Path

import yaml
from ansible.errors import AnsibleError

from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import objects
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_reader import read
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.plugin_utils import _extra_variables, _fabric_files
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_compare import Secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import Server
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_sync import Change, Sync, singular
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_wrong_variables = functools.partial(_extra_variables.errors, root=Path(__file__).resolve().parents[2])
_REMEDY = "name the data file with -e awx_file=PATH (docs/awx.md)"


class ActionModule(ControllerAction):
    """Creates and updates the objects of AWX; documented in ``plugins/modules/awx_objects.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "file": {"type": "path", "required": True},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
        "secrets_file": {"type": "path", "default": "", "no_log": False},
        "update_secrets": {"type": "bool", "default": False, "no_log": False},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        if not options["file"]:
            raise RailyardError("the data file is not set", "awx_file", _REMEDY)
        raw = _fabric_files.read(options["file"], _REMEDY)
        secrets = self._secrets(options)
        fields = {name: list(each) for name, each in secrets.items()}
        data = read(raw, _fabric_files.shown_path(options["file"]), fields, _wrong_variables)
        server = Server()
        known = Secrets(secrets, options["update_secrets"])
        sync = Sync(server, objects(data), known, check)
        try:
            sync.run()
        except RailyardError as error:
            if not sync.written:
                raise
            done = "%d changes are written; another run continues" % sync.written
            raise RailyardError("%s (%s)" % (error.message, done), error.place, error.remedy) from error
        return {
            "changed": bool(sync.changes),
            "changes": [each.line() for each in sync.changes],
            "diff": [_diff(each) for each in sync.changes],
        }

    def _secrets(self, options: t.Mapping[str, t.Any]) -> dict[str, dict[str, str]]:
        given = options["secrets"]
        if options["secrets_file"]:
            given = {**self._from_file(options["secrets_file"]), **given}
        found: dict[str, dict[str, str]] = {}
        for name, fields in given.items():
            place = "awx_secrets.%s" % name
            if not isinstance(fields, dict):
                raise RailyardError("its value is not a mapping", place, "write it as FIELD: SECRET pairs")
            for key, value in fields.items():
                # Encrypted values of Ansible are texts of another type than str.
                if value is None or isinstance(value, (bool, int, float, dict, list)) or not str(value):
                    raise RailyardError("its value is not text", "%s.%s" % (place, key), "write the secret, in quotes")
            found[name] = {str(key): str(value) for key, value in fields.items()}
        return found

    def _from_file(self, path: str) -> dict[str, t.Any]:
        """Return ``awx_secrets`` of a file of variables, which may be encrypted by ansible-vault."""
        full = os.path.abspath(path)
        _fabric_files.read(full, "name a file of variables with -e awx_secrets_file=PATH")
        try:
            loaded = self._loader.load_from_file(full, cache="none", unsafe=True)
        except AnsibleError as error:
            message = " ".join(str(getattr(error, "message", error)).partition("\n")[0].split())
            remedy = "check that it is YAML, and give the vault password (--ask-vault-pass; in AWX, a credential)"
            raise RailyardError("it cannot be read: %s" % message, path, remedy) from None
        secrets = loaded.get("awx_secrets") if isinstance(loaded, dict) else None
        if not isinstance(secrets, dict):
            raise RailyardError("it has no mapping awx_secrets", path, "write awx_secrets: {NAME: {FIELD: SECRET}}")
        return secrets


def _diff(change: Change) -> dict[str, str]:
    name = "%s %s" % (singular(change.kind), change.name)
    return {
        "before_header": name,
        "after_header": name,
        "before": _text(change.before),
        "after": _text(change.after) or ("" if change.before or change.action == "delete" else "%s\n" % change.action),
    }


def _text(values: t.Mapping[str, t.Any]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=True) if values else ""
