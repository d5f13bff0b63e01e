# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the rail agent of a node, from its socket."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, hook
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Seconds for an answer, so that a node whose agent hangs does not delay the run.
_SECONDS = 5.0
Row = t.Dict[str, t.Any]


def look(system: System) -> Row | None:
    """Return part ``agent`` of ``rail_info``; None without an installed agent."""
    if not system.exists(agent_spec.FILE):
        return None
    try:
        answer = hook.ask({"do": "status"}, system.path(hook.SOCKET), _SECONDS if system.exists(hook.SOCKET) else 0)
        if not isinstance(answer, dict):
            raise ValueError("the answer is not a mapping")
        return {
            "error": None,
            "version": str(answer["version"]),
            "rails": [
                {
                    "rail": row["rail"],
                    "healthy": row["healthy"],
                    "cordoned": row["cordoned"],
                    "reason": row["reason"] or "",
                    "degraded": row.get("degraded") or "",
                }
                for row in answer["rails"]
            ],
            "resources": [{key: row[key] for key in ("resource", "devices", "held")} for row in answer["resources"]],
            "problems": [*answer["problems"], *(row["error"] for row in answer["attaches"]["errors"])],
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return {"error": "%s: the rail agent does not answer: %s" % (hook.SOCKET, error)}
