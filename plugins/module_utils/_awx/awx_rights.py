# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Convert rights in ``access`` of the data file to roles of AWX objects."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_data import Access
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_templates import APPROVED, GUARDED

# kind of object -> right -> role in AWX
ROLES: t.Mapping[str, t.Mapping[str, str]] = {
    "job_templates": {"read": "read_role", "launch": "execute_role", "admin": "admin_role"},
    "workflow_job_templates": {
        "read": "read_role",
        "launch": "execute_role",
        "approve": "approval_role",
        "admin": "admin_role",
    },
    "inventories": {"read": "read_role", "launch": "read_role", "use": "use_role", "admin": "admin_role"},
    "projects": {"read": "read_role", "launch": "read_role", "use": "use_role", "admin": "admin_role"},
    "credentials": {"use": "use_role", "admin": "admin_role"},
}


def of(kind: str, access: Access, template: str = "", own: Access = None) -> t.Mapping[str, frozenset[str]] | None:
    """Return all roles of an object with their teams; None if no access is set.

    :param template: the key of the job template, if it is one.
    :param own: the template's own access, which replaces ``access``. Teams that approve read what they approve.
    """
    granted = access if own is None else own
    if granted is None:
        return None
    found: dict[str, set[str]] = {role: set() for role in ROLES[kind].values()}
    for team, rights in granted.items():
        for right in rights:
            role = ROLES[kind].get(right)
            if role and not (own is None and right == "launch" and template in GUARDED):
                found[role].add(team)
    if template in APPROVED:
        found["read_role"] |= {team for team, rights in (access or {}).items() if "approve" in rights}
    return {role: frozenset(teams) for role, teams in found.items()}
