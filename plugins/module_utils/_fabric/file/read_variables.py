# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of the Ansible groups and variables of nodes and groups."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules, name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import plain

# Variables that Ansible sets itself.
_MAGIC = frozenset(
    ("inventory_hostname", "inventory_hostname_short", "group_names", "groups", "hostvars", "omit", "vars")
)


GROUP_NAME = rule(
    "RY212 group-name: Invalid group name",
    """
nodes:
  ai-1: {profile: hgx, groups: [rack-7]}
""",
    """
nodes:
  ai-1: {profile: hgx, groups: [rack_7]}
""",
)


def group_name(group: str, path: Path, report: Report) -> None:
    """Report a name that is invalid for a group in the inventory."""
    if not name_syntax.IDENTIFIER.match(group) or group in ("all", "ungrouped") or group.startswith("railyard_"):
        message = "%s is not a valid name of a group" % shown(group)
        remedy = "use letters, digits and underscores; all, ungrouped and railyard_... are reserved"
        report.add(GROUP_NAME, path, message, remedy)


def read_groups_of(section: Section, report: Report) -> tuple[str, ...]:
    groups = section.texts("groups")
    for group in groups:
        group_name(group, section.path + ("groups",), report)
    return tuple(groups)


VARIABLE_NAME = rule(
    "RY213 variable-name: Invalid variable name",
    """
nodes:
  ai-1: {profile: hgx, vars: {railyard_node: mine}}
""",
    """
nodes:
  ai-1: {profile: hgx, vars: {bmc: 10.1.17.1}}
""",
)


def read_variables(section: Section, report: Report) -> dict[str, t.Any]:
    """Return the variables of nodes or of a group. Invalid names and values are reported and omitted."""
    own = section.section("vars")
    variables: dict[str, t.Any] = {}
    if own is None:
        return variables
    for name in own.mapping.entries:
        path = section.path + ("vars", name)
        if name == "ansible_host" and section.has("address"):
            message = "ansible_host is set by address"
            report.add(VARIABLE_NAME, path, message, "keep one of the two")
            continue
        reserved = name in _MAGIC or name.startswith("railyard_")
        if reserved or not name_syntax.IDENTIFIER.match(name):
            message = "%s is %s" % (shown(name), "reserved" if reserved else "not a valid name of a variable")
            remedy = "use another name, of letters, digits and underscores"
            report.add(VARIABLE_NAME, path, message, remedy)
            continue
        try:
            variables[name] = plain(own.mapping.entries[name][1])
        except ValueError as error:
            report.add(file_rules.KIND, path, str(error), "put it in quotes")
    return variables
