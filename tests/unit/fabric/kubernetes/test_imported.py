# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests found in the wild, read and written again: what upstream refused or cut before, it takes now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components

from . import schema, webhooks
from .documents import REGISTRY
from .plans import planned

ROOT = Path(__file__).resolve().parents[4]
NODES = Options("ai", {"ai-[1:2]": {"address": "10.1.16.[1:2]"}}, mtu=4200)
RECORDED = sorted((ROOT / "tests/recordings/manifests").glob("*.*"))
FOUND = [path for path in RECORDED if path.name not in ("README.md", "values.yaml")]


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_imported_fabrics_render_to_valid_objects(path: Path) -> None:
    outcome = run([(path.name, path.read_bytes())], NODES)
    # what no manifest holds is decided as proposed
    text = re.sub(r"  # DECIDE: subnet, such as (\S+);.*\n  (\w+): {}", r"  \2: {subnet: \1}", outcome.text)
    objects = list(object_components.objects(planned(text), REGISTRY))
    assert objects
    assert webhooks.problems(objects) == []
    assert [(each["kind"], problem) for each in objects for problem in schema.problems(each)] == []
