# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file of the baselines beside the verdicts."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors import site_baselines
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import baseline_comparison
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import Verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files


def compare(verdict: Verdict, directory: str, mode: str, hosts: t.Container[str], began: str) -> dict[str, bytes]:
    """Compare a verdict with the baselines, and return the file to write, by its name; empty if it stays.

    :param mode: the value of ``verify_baselines``.
    :param hosts: the names of all hosts of the inventory.
    :param began: when the run began, in UTC (ISO 8601).
    """
    run = verdict.run
    if mode == site_baselines.OFF or run.kind != VERIFY:
        return {}
    path = os.path.join(directory, site_baselines.FILE)
    content, error = None, ""
    if os.path.lexists(path):
        try:
            content = _fabric_files.read(path, most=site_baselines.MOST_BYTES + 1)
        except RailyardError as why:
            error = why.message
    # only names: the variables of thousands of hosts take long
    site = baseline_comparison.Site(mode, content, error, hosts, began)
    new = baseline_comparison.baselines(run, verdict.pairs, site)
    return {} if new is None else {site_baselines.FILE: site_baselines.text(new, run.fabric["name"])}
