# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the lab import it from the repository's root, and keep its state under a directory of their own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT))


@pytest.fixture
def run() -> Iterator[Path]:
    """A directory short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ry-", dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The base directory of the labs, empty."""
    base = tmp_path / "labs"
    monkeypatch.setenv("RAILYARD_LAB_DIR", str(base))
    return base
