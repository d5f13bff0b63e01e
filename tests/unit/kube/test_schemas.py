# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one definition has and another would drop."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.crd_writes import missing_fields

TEXT = {"type": "string"}


def one(spec: t.Any, name: str = "v1", served: bool = True) -> dict[str, t.Any]:
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"spec": {"versions": [{"name": name, "served": served, "schema": {"openAPIV3Schema": schema}}]}}


def of(**fields: t.Any) -> dict[str, t.Any]:
    return {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("made", "found", "message"),
    [
        (one(of(a=TEXT)), one(of(a=TEXT)), []),
        (one(of(a=TEXT, b=TEXT)), one(of(a=TEXT)), []),
        (one(of(a=TEXT)), one(of(a=TEXT, b=TEXT)), ["v1.spec.b"]),
        (one(of(a=of(x=TEXT))), one(of(a=of(x=TEXT, y=TEXT))), ["v1.spec.a.y"]),
        (one(of(a={"type": "array", "items": of()})), one(of(a={"items": of(x=TEXT)})), ["v1.spec.a[].x"]),
        # what takes any field drops none
        (one({"x-kubernetes-preserve-unknown-fields": True}), one(of(a=TEXT)), []),
        (one({"additionalProperties": TEXT}), one(of(a=TEXT)), []),
        (one({"additionalProperties": True}), one(of(a=TEXT)), []),
        # a version that is not served can be removed
        (one(of(), "v2"), one(of()), ["v1"]),
        (one(of(), "v2"), one(of(), served=False), []),
    ],
)
def test_fields_that_a_schema_drops_are_found(made: t.Any, found: t.Any, message: list[str]) -> None:
    assert missing_fields(made, found) == message


def test_fields_of_all_objects_are_not_fields_of_one() -> None:
    found = one(of())
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(kind=TEXT, metadata=of())
    assert missing_fields(one(of()), found) == []
    assert missing_fields(one(of()), {"spec": {"versions": [{"name": "v1", "served": True}]}}) == []
