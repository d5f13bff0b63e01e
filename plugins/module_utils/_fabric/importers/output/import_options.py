# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Options of an import."""

from __future__ import annotations

import typing as t


class Options(t.NamedTuple):
    """Facts that are not in manifests. ``nodes``: names or ranges, with their keys as in a fabric file.

    ``provider``: provider of the fabric file, if it differs from the provider of the manifests.
    """

    name: str | None = None
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None
    profile: str = "server"
    mtu: int | None = None
    provider: str | None = None
