# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Floors that operators and makers publish for ib_write_bw, for comparison only: no verdict depends on them."""

from __future__ import annotations

import typing as t


class PublishedFloor(t.NamedTuple):
    """A published floor.

    :param link: Gb/s of the link.
    :param gbits: the floor in Gb/s; the least if the source gives a range.
    :param memory: ``GPU`` or ``host``; empty if the source does not say it.
    :param presets: the presets for which the floor was published.
    """

    platform: str
    link: int | None
    gbits: int
    memory: str
    source: str
    read: str
    presets: tuple[str, ...] = ()


_AZURE = "azurehpc-health-checks v0.4.5"
PUBLISHED = (
    PublishedFloor("Azure ND H100 v5", 400, 380, "GPU", _AZURE, "2026-11", ("azure-nd-h100-v5",)),
    PublishedFloor("Azure ND H200 v5", 400, 360, "", _AZURE, "2026-11"),
    PublishedFloor("Azure ND MI300X v5", 400, 390, "host", _AZURE, "2026-11"),
    PublishedFloor("Azure ND A100 v4", 200, 180, "", _AZURE, "2026-11", ("azure-nd-a100-v4",)),
    PublishedFloor("AMD Instinct, two nodes, 8 MiB", None, 280, "", "AMD CVS, sample inputs", "2026-11"),
    PublishedFloor("any", None, 100, "GPU", "NVIDIA k8s-launch-kit, validation.md", "2026-11"),
)


def note(preset: str | None) -> str | None:
    """Return the floor that was published for the servers of a preset, as a sentence; None without one."""
    row = next((each for each in PUBLISHED if preset in each.presets), None)
    if row is None:
        return None
    memory = " with %s memory" % row.memory if row.memory else ""
    return "%s requires %d Gb/s of %s%s" % (row.source, row.gbits, row.platform, memory)
