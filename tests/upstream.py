# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of other projects that tests need: schemas, charts and manifests of Kubernetes objects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def folder(kind: str) -> Path | None:
    """The folder of ``schemas`` or ``charts``: RAILYARD_SCHEMAS or RAILYARD_CHARTS, else ../shared, else vendor."""
    named = os.environ.get("RAILYARD_" + kind.upper())
    if named:
        return Path(named)
    places = [ROOT.parent / "shared" / kind, ROOT / "vendor" / kind]
    return next((place for place in places if place.is_dir()), None)


def schemas() -> Path:
    """The folder of upstream's schemas; the test is skipped if it is missing."""
    found = folder("schemas")
    if found is None:
        pytest.skip("upstream's schemas are not here: RAILYARD_SCHEMAS names a folder that has them")
    return found


def chart(name: str) -> Path:
    """An archive or manifest of upstream's; the test is skipped where it is missing."""
    path = (folder("charts") or ROOT / "vendor" / "charts") / name
    if not path.is_file():
        pytest.skip("upstream's %s is not here: `make vendor` or RAILYARD_CHARTS provides it" % name)
    return path
