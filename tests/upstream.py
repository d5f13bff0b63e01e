# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of other projects that tests need: schemas, charts and manifests of Kubernetes objects.

Schemas are in the project, reduced to what a server validates. Charts, manifests and whole schemas are not.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: the reduced CustomResourceDefinitions, which tools/reduced_schemas.py writes
SCHEMAS = ROOT / "tests" / "schemas"


def folder(kind: str) -> Path | None:
    """The folder of whole ``schemas`` or of ``charts``: RAILYARD_SCHEMAS or RAILYARD_CHARTS, ../shared, or vendor."""
    named = os.environ.get("RAILYARD_" + kind.upper())
    if named:
        return Path(named)
    places = [ROOT.parent / "shared" / kind, ROOT / "vendor" / kind]
    return next((place for place in places if place.is_dir()), None)


def chart(name: str) -> Path:
    """An archive or manifest of upstream's; the test is skipped where it is missing."""
    path = (folder("charts") or ROOT / "vendor" / "charts") / name
    if not path.is_file():
        pytest.skip("upstream's %s is not here: `make vendor` or RAILYARD_CHARTS provides it" % name)
    return path
