# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests import the collection from this checkout, by its full name, through ``collections/``; and lab and tests."""

from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path
from typing import Any, Generator

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "collections"), str(ROOT)]

from hypothesis import configuration, settings  # noqa: E402

from tests import skips  # noqa: E402
from tests.results import Results  # noqa: E402

# The same examples each time, so that a change is judged by what it changes; `make soak` draws new ones, and many more.
# No example fails because of the time it took.
configuration.set_hypothesis_home_dir(ROOT / ".cache" / "hypothesis")
settings.register_profile("railyard", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("soak", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "railyard"))

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

    xdist's own groups follow from names of tests that pytest 9.2 no longer lets it change.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid.partition("::")[0])

    return ByScope(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if scope(item.nodeid.partition("::")[0]) == "cluster":
            item.add_marker("cluster")


def pytest_configure(config: pytest.Config) -> None:
    """Write the outcome of this run for ``tools/parts``, once: not in each of the processes that share the work."""
    place = os.environ.get("RAILYARD_RESULTS")
    if place and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(Path(place)))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _refuse_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    file = report.nodeid.partition("::")[0]
    if report.outcome == "skipped" and not hasattr(report, "wasxfail") and not skips.accepted(file, _reason(report)):
        report.longrepr = skips.refusal(file, _reason(report))
        report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_unlisted_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_unlisted_skip(report)
    return report
