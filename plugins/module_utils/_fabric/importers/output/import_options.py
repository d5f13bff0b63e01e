# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a user adds to the manifests of an import."""

from __future__ import annotations

import typing as t


class Options(t.NamedTuple):
    """Facts that are not in manifests. ``nodes``: names or ranges, each with its keys as in a fabric file.

    ``provider``: the one of the fabric file, if it is not the manifests' own.
    """

    name: str | None = None
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None
    profile: str = "server"
    mtu: int | None = None
    provider: str | None = None
