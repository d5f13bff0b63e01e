# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `--diff` shows of a run's writes."""

from __future__ import annotations

import types
import typing as t

from ansible_collections.railyard.fabric.plugins.action.kube_objects import ActionModule
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import Difference
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import Write

POOLS = Resource("/apis/example/v1", "pools", False)


def write(number: int, *fields: Difference, there: bool = False, wanted: bool = True) -> Write:
    name = "p%04d" % number
    whole: dict[str, t.Any] = {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {"n": number}, "status": {}}
    return Write(
        Key("example/v1", "Pool", "", name), POOLS, whole if wanted else None, whole if there else None, list(fields)
    )


def shown(writes: list[Write], diff: bool = True) -> dict[str, t.Any]:
    action = ActionModule.__new__(ActionModule)
    action._task = types.SimpleNamespace(diff=diff)
    return action._diff([], writes)


def test_new_and_deleted_objects_are_shown_whole_and_others_by_field() -> None:
    changed = write(3, Difference("spec.n", 1, 3), there=True)
    found = shown([write(1), write(2, there=True, wanted=False), changed])
    assert found["before"] == {
        "Pool p0001": {},
        "Pool p0002": {"spec": {"n": 2}, "labels": {"a": "b"}},
        "Pool p0003": {"spec.n": 1},
    }
    assert found["after"] == {
        "Pool p0001": {"spec": {"n": 1}, "labels": {"a": "b"}},
        "Pool p0002": {},
        "Pool p0003": {"spec.n": 3},
    }
    assert shown([changed], diff=False) == {}


def test_of_thousands_the_first_are_shown_and_the_others_counted() -> None:
    changed = [write(number, Difference("spec.n", 0, number), there=True) for number in range(5000, 5003)]
    found = shown([write(number) for number in range(1000)] + changed)
    whole = [key for key in found["before"] if key < "Pool p5"]
    assert len(whole) == 256 and "Pool p0255" in whole and all("Pool p%d" % n in found["after"] for n in (5000, 5002))
    assert [key for key in found["after"] if key not in found["before"]] == [
        "and 744 more objects that are created or deleted (playbooks/render.yml writes all that are planned)"
    ]
