# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An AWX for one test."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.functional.awx.site import Site


@pytest.fixture
def site(tmp_path: Path) -> t.Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def made(site: Site) -> Site:
    """An AWX that has all of the sample."""
    site.sync()
    return site
