# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Ansible's groups and variables, as nodes and groups of the file have them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog import file_rules, name_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import plain

# Ansible's own, which a variable of that name would break.
_MAGIC = frozenset(
    ("inventory_hostname", "inventory_hostname_short", "group_names", "groups", "hostvars", "omit", "vars")
)


def group_name(group: str, path: Path, report: Report) -> None:
    if not name_syntax.IDENTIFIER.match(group) or group in ("all", "ungrouped") or group.startswith("railyard_"):
        message = "%s is not a name for a group here" % shown(group)
        remedy = "use letters, digits and underscores; all, ungrouped and railyard_... are taken"
        report.add(name_rules.GROUP_NAME, path, message, remedy)


def read_groups_of(section: Section, report: Report) -> tuple[str, ...]:
    """The groups of nodes."""
    groups = section.texts("groups")
    for group in groups:
        group_name(group, section.path + ("groups",), report)
    return tuple(groups)


def read_variables(section: Section, report: Report) -> dict[str, t.Any]:
    own = section.section("vars")
    found: dict[str, t.Any] = {}
    if own is None:
        return found
    for name in own.mapping.entries:
        path = section.path + ("vars", name)
        taken = name in _MAGIC or name.startswith("railyard_") or (name == "ansible_host" and section.has("address"))
        if taken or not name_syntax.IDENTIFIER.match(name):
            why = "is set by address" if name == "ansible_host" else "is taken" if taken else "is not a variable name"
            remedy = (
                "keep one of the two" if name == "ansible_host" else "use another name of letters, digits, underscores"
            )
            report.add(name_rules.VARIABLE_NAME, path, "%s %s" % (shown(name), why), remedy)
            continue
        try:
            found[name] = plain(own.mapping.entries[name][1])
        except ValueError as error:
            report.add(file_rules.KIND, path, str(error), "put it in quotes")
    return found
