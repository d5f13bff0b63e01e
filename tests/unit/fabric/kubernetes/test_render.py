# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as text and as files."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    object_files,
)
from tests import work, yaml_text

from .documents import REGISTRY, combinations, document

SCALARS = st.one_of(
    st.text(max_size=30),
    st.from_regex(r"\A[A-Za-z0-9_.:/=@ ~!&*?|<>%#,'\"\[\]{}-]{0,20}\Z"),
    st.integers(),
    st.booleans(),
    st.none(),
    st.ip_addresses().map(str),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=10), VALUES, max_size=5))
@example({"a": "y", "n": "No", "b": "1e3", "c": "0x1f", "d": "2026-01-01", "e": "12:30:45", "f": ".inf", "g": "_1"})
@example(
    {"a": "first\nsecond\n", "b": "\n", "c": " x\ny", "d": "x\n\n", "e": "x \ny", "f": "\u2028\nx", "g": "\U0001f600"}
)
@example({"a": [[], {}, [1, ["x"]], {"b": {}, "c": []}], "": None, "d": {"e": [{"f": [{"g": 1}]}]}})
@example(
    {"a": "1.2.3.4-5.6.7.8", "b": "1.2.3.4/24", "c": "1.2.3", "d": "1_000.5", "e": "x: y", "f": "x #y", "g": "a =b"}
)
def test_rendered_objects_are_read_back(thing: dict[str, t.Any]) -> None:
    assert yaml_text.load(object_files.as_yaml(thing)) == thing


def test_yaml_has_the_style_of_hand_written_files() -> None:
    thing = {
        "kind": "A",
        "spec": {"ips": ["10.0.0.1-10.0.0.9"], "on": "yes", "n": 1, "list": [{"a": 1, "b": []}], "t": "x\ny\n"},
    }
    assert object_files.as_yaml(thing) == (
        'kind: A\nspec:\n  ips:\n  - 10.0.0.1-10.0.0.9\n  "on": "yes"\n  "n": 1\n'
        "  list:\n  - a: 1\n    b: []\n  t: |\n    x\n    y\n"
    )


def test_a_value_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(TypeError):
        object_files.as_yaml({"a": 1.5})


@pytest.mark.parametrize(("provider", "attachment", "mode"), combinations())
def test_files_hold_every_object_once(provider: str, attachment: str, mode: str) -> None:
    plan = document(provider, attachment, mode, nodes=3)
    options = {"images": {"test": "registry.example/rdma:1"}, **REGISTRY}
    files = object_files.render(plan, options)
    assert files == object_files.render(json.loads(json.dumps(plan)), options)
    assert list(files) == sorted(files)
    read = []
    for path, text in files.items():
        if path.endswith(".yaml") and not path.startswith("values/") and not path.endswith(object_files.KUSTOMIZATION):
            read.extend(yaml_text.load_all(text))
    wanted = list(object_components.objects(plan, options))
    assert sorted(map(json.dumps, read)) == sorted(map(json.dumps, wanted))
    _kustomizations_reach(files)
    on_nodes = {
        "nodes/%s%s" % (node, path) for node, own in object_components.node_files(plan, options) for path in own
    }
    assert set(object_files.render(plan, options, nodes=True)) - set(files) == on_nodes


def _kustomizations_reach(files: t.Mapping[str, str]) -> None:
    reached = {object_files.KUSTOMIZATION}
    for folder in yaml_text.load(files[object_files.KUSTOMIZATION])["resources"]:
        inner = "%s/%s" % (folder, object_files.KUSTOMIZATION)
        reached |= {inner} | {"%s/%s" % (folder, name) for name in yaml_text.load(files[inner])["resources"]}
    left = {path for path in files if path not in reached and not path.startswith("values/")}
    # Test pods are started by people.
    assert left == {path for path in files if path.startswith("workload/")}


@pytest.mark.scale
def test_pools_of_a_large_fabric_are_rendered_with_little_work() -> None:
    """4,096 nodes of 8 rails with a pool each."""
    plan = document("spiderpool", "sriov", "prefix", nodes=4096, rails=8)
    with work.at_most(25_000_000):
        pools = sum(text.count("kind: SpiderIPPool\n") for text in object_files.render(plan).values())
    assert pools == 32768
