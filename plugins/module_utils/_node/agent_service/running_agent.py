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
    seconds = _SECONDS if system.exists(hook.SOCKET) else 0
    try:
        return _state(hook.ask({"do": "status"}, system.path(hook.SOCKET), seconds))
    except OSError as error:
        text = "the rail agent does not answer: %s. Remedy: run systemctl status railyard-agent" % error
    except (ValueError, KeyError, TypeError):
        text = "the rail agent answers without its state. Remedy: run hosts.yml --tags agent, which updates the agent"
    return {"error": "%s: %s" % (hook.SOCKET, text)}


def _state(answer: t.Any) -> Row:
    """Return the state from the agent's status document, with the types that its readers expect."""
    return {
        "error": None,
        "version": str(answer["version"]),
        "rails": [
            {
                "rail": str(row["rail"]),
                "healthy": bool(row["healthy"]),
                "cordoned": bool(row["cordoned"]),
                "reason": str(row["reason"] or ""),
                "degraded": str(row.get("degraded") or ""),
            }
            for row in answer["rails"]
        ],
        "resources": [
            {"resource": str(row["resource"]), "devices": int(row["devices"]), "held": int(row["held"])}
            for row in answer["resources"]
        ],
        "problems": [str(text) for text in answer["problems"]]
        + [str(row["error"]) for row in answer["attaches"]["errors"]],
    }
