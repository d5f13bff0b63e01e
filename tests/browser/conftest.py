# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One headless Chromium for all tests, driven by Playwright; and the pages that they look at.

Screenshots of every page are left in ``tests/output/browser`` for users who want to see them.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import typing as t
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import Browser, sync_playwright

from ansible_collections.railyard.fabric.plugins.action import fabric_report
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files
from tests.browser.samples import Sample

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "tests" / "output" / "browser"
Pages = t.Callable[[str], Path]
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> t.Iterator[Browser]:
    """Chromium, of the distribution, or at the path in ``RAILYARD_CHROMIUM``."""
    found = os.environ.get("RAILYARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        message = "there is no Chromium: run tools/chromium, or set RAILYARD_CHROMIUM to its path"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found)
        yield running
        running.close()


def report(directory: Path) -> Path:
    """The page of a directory of documents, made as the playbook makes it."""
    action = object.__new__(fabric_report.ActionModule)
    options = {"report_dir": str(directory), "file": None, "history": 30}
    with mock.patch.object(_fabric_files, "_inventory_sources", list):
        assert "warnings" not in action.work(options, False)
    return directory / "report.html"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Pages by what they are of: 2, 64 and 1,024 nodes; nothing wrong; and more kinds of failures than fit."""

    @functools.lru_cache(maxsize=None)
    def made(name: str) -> Path:
        directory = tmp_path_factory.mktemp(name)
        if name == "crowd":
            return report(_crowd(Sample(2).write(directory)))
        if name == "ok":
            return report(Sample(2, faults=False).write(directory))
        return report(Sample(int(name)).write(directory, 6 if int(name) <= 64 else 0))

    return made


def _crowd(directory: Path) -> Path:
    """Twelve kinds of failures."""
    verify = json.loads((directory / "verify.json").read_text())
    verify["failures"] = [
        dict(verify["failures"][0], code="RV0%02d" % at, rails=[rail], rail=rail, node=verify["nodes"][at > 27])
        for at, rail in enumerate([*verify["rails"], *verify["rails"][:4]], 20)
    ]
    for failure in verify["failures"]:
        verify["matrix"][failure["node"]][failure["rail"]] = "failed"
    (directory / "verify.json").write_text(json.dumps(verify))
    return directory
