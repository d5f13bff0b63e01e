# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The label of a Kubernetes node with failed rails."""

from __future__ import annotations

import typing as t

BAD = "health.railyard.fabric/bad-rails"
# The maximum length of a label's value.
LONGEST = 63
MORE = "more"


def value_of(rails: t.Sequence[str]) -> str | None:
    """Return the rails as the label's value: as many as fit, then ``more``; None without rails."""
    if not rails:
        return None
    value = ".".join(rails)
    kept = list(rails)
    while len(value) > LONGEST:
        kept.pop()
        value = ".".join([*kept, MORE])
    return value


def has_bad(labels: t.Mapping[str, str], rail: str | None) -> bool:
    """Return whether the labels of a node name this rail as failed, or for None any rail."""
    rails = labels.get(BAD, "").split(".")
    return rails != [""] and (rail is None or rail in rails or MORE in rails)
