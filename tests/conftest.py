# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests import the collection from this checkout, by its full name, through ``collections/``; and lab and tests."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

# What a file of tests has to itself, in the mark that all its tests have
_ALONE = re.compile(r"^pytestmark = .*lab_node\(.([\w-]+).\)|^from tests\.integration\.cluster import", re.MULTILINE)


@functools.lru_cache(maxsize=None)
def scope(file: str) -> str:
    """The tests that must not run beside this file's: those of the same node or of the cluster, else its own alone."""
    found = _ALONE.search((ROOT / file).read_text())
    return file if not found else found[1] or "cluster"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several processes share the work, give all of a scope to one of them, in order.

    xdist's own groups are told by names of tests that pytest 9.2 no longer lets it change.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid.partition("::")[0])

    return ByScope(config, log)
