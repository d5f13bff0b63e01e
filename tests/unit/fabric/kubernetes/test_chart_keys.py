# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans write only keys that upstream's charts have: Helm ignores any other without a message.

``chart_keys.yml`` lists the keys that plans write. It is compared with all plans, and with upstream's charts if they
are downloaded, so that a misspelt key, and a key that a release removed, is found.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software.chart_values import (
    Chart,
    merged,
)

from . import software_files
from .documents import REGISTRY, combinations, document
from .test_charts import CHARTS, OPTIONS

RECORD = Path(__file__).with_name("chart_keys.yml")
#: in place of the keys that users choose
ANY = "*"


def leaves(values: t.Mapping[str, t.Any], known: t.Collection[str], path: str = "") -> t.Iterator[str]:
    """Yield the keys of values that are not mappings, with dots; ``ANY`` in place of keys that users choose."""
    for key, value in values.items():
        place = path + str(key)
        if place + "." + ANY in known:
            yield place + "." + ANY
        elif isinstance(value, dict) and value:
            yield from leaves(value, known, place + ".")
        else:
            yield place


def test_the_keys_that_plans_write_are_listed() -> None:
    record = yaml.safe_load(RECORD.read_text(encoding="utf-8"))
    written: dict[str, set[str]] = {}
    for combination in combinations():
        for options in OPTIONS:
            for name, values in object_components.values(document(*combination), {**REGISTRY, **options}).items():
                written.setdefault(name, set()).update(leaves(values, record.get(name, {}).get("keys", ())))
    assert {name: sorted(keys) for name, keys in written.items()} == {
        name: each["keys"] for name, each in record.items()
    }
    versions = {pin.chart: pin.version for pin in CHARTS}
    assert {name: each["version"] for name, each in record.items()} == versions, "compare the keys with the new chart"


def whole(chart: Chart) -> dict[str, t.Any]:
    """Return the values of a chart with the values of its subcharts."""
    values = dict(chart.values)
    for name, part in chart.parts.items():
        values[name] = merged(whole(part), values.get(name) or {})
    return values


@pytest.mark.parametrize("name", [pin.chart for pin in CHARTS])
def test_the_listed_keys_are_those_of_upstreams_chart(name: str) -> None:
    pin = next(each for each in CHARTS if each.chart == name)
    values = whole(software_files.upstreams_chart(pin.files[""][0].name))
    for key in yaml.safe_load(RECORD.read_text(encoding="utf-8"))[name]["keys"]:
        known: t.Any = values
        for part in key.split("."):
            if part != ANY:
                assert isinstance(known, dict) and part in known, key
                known = known[part]
        assert key.endswith(ANY) or not isinstance(known, dict) or not known, "%s is a mapping" % key
