# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cordoned rails of a node: ``/etc/railyard/cordons.json``. The rail agent does not give their slots to new pods.

Administrators, the module rail_cordon and the health service write it. The programs change only their own cordons.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# In the directory of the agent's node file, whose changes the agent notices at once.
CORDONS = "/etc/railyard/cordons.json"


class Cordon(t.NamedTuple):
    """A rail that gets no new pods. ``by``: the program that may remove the cordon; empty for an administrator's."""

    rail: str
    reason: str
    by: str = ""


def cordons(system: System) -> RecordFile[Cordon]:
    """Return the cordons by rail. They stay across reboots. Raises :class:`.RailyardError` if the file is damaged."""
    return RecordFile(
        system,
        CORDONS,
        "cordons",
        lambda row: Cordon(**row),
        lambda cordon: dict(cordon._asdict()),
        lambda cordon: cordon.rail,
        ("the cordoned rails are unknown", "remove the file, and cordon the rails again"),
    )


def observed_cordons(system: System) -> dict[str, dict[str, str]]:
    """Return rail -> its ``reason`` and ``by``. Raises :class:`.RailyardError` if the file is damaged."""
    return {rail: {"reason": row.reason, "by": row.by} for rail, row in cordons(system).all().items()}


def put_own(file: RecordFile[Cordon], cordon: Cordon) -> None:
    """Write a cordon, unless one of another program or an administrator exists, which may be newer than what was read.

    :raises RailyardError: if the file cannot be written.
    """
    file.update(cordon.rail, lambda observed: observed if observed and observed.by != cordon.by else cordon)


def remove_own(file: RecordFile[Cordon], rail: str, by: str) -> None:
    """Remove the cordon of a rail, if ``by`` wrote it. Raises :class:`.RailyardError`."""
    file.update(rail, lambda observed: observed if observed and observed.by != by else None)
