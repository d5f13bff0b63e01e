# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Names of the variables of the collection's playbooks and roles."""

from __future__ import annotations

import glob
import os
import re

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

_TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
_NAME = re.compile(r"\b[a-z][a-z0-9]*_[a-z0-9_]+\b|\bstrict\b")
_MAX_BYTES = 1024 * 1024


def known() -> set[str]:
    """Return the options of all roles and the variables of playbooks; empty if the roles are not installed."""
    found: set[str] = set()
    for path in glob.glob(os.path.join(_TOP, "roles", "*", "meta", "argument_specs.yml")):
        specs = yaml_load(_fabric_files.read(path, most=_MAX_BYTES))["argument_specs"]
        for spec in specs.values():
            found.update(spec.get("options", {}))
    for path in glob.glob(os.path.join(_TOP, "playbooks", "**", "*.yml"), recursive=True):
        found.update(_NAME.findall(_fabric_files.read(path, most=_MAX_BYTES).decode("utf-8", "replace")))
    return found
