# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tar files whose members are made in memory."""

from __future__ import annotations

import io
import tarfile


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file with this content."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
