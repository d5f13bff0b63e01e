# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs is read off ``managedFields``, in the shapes in which servers write it."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import (
    differences,
    shape,
    unkept,
)

Object = t.Dict[str, t.Any]

WANTED: Object = {
    "apiVersion": "example/v1",
    "kind": "Thing",
    "metadata": {"name": "x", "namespace": "n", "labels": {"a": "1"}},
    "spec": {
        "mtu": 4200,
        "ips": ["10.0.0.1-10.0.0.9"],
        "selector": {"rail": "gpu01"},
        "containers": [{"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2"}],
        "finalizers": ["f1", "f2"],
        "empty": {},
    },
}
FIELDS: Object = {
    "f:metadata": {"f:labels": {"f:a": {}}},
    "f:spec": {
        "f:mtu": {},
        "f:ips": {},  # atomic
        "f:selector": {"f:rail": {}},
        "f:containers": {
            'k:{"name":"one"}': {".": {}, "f:name": {}, "f:image": {}},
            'k:{"name":"two"}': {".": {}, "f:name": {}, "f:image": {}},
        },
        "f:finalizers": {'v:"f1"': {}, 'v:"f2"': {}},
    },
}


def live(change: t.Callable[[Object], None] = lambda found: None, fields: Object = FIELDS) -> Object:
    found = copy.deepcopy(WANTED)
    found["metadata"].update(uid="u", resourceVersion="7")
    found["metadata"]["managedFields"] = [
        {
            "manager": "railyard",
            "operation": "Update",
            "apiVersion": "example/v1",
            "fieldsV1": {"f:spec": {"f:old": {}}},
        },
        {
            "manager": "other",
            "operation": "Apply",
            "apiVersion": "example/v1",
            "fieldsV1": {"f:spec": {"f:theirs": {}}},
        },
        {"manager": "railyard", "operation": "Apply", "apiVersion": "example/v1", "fieldsV1": copy.deepcopy(fields)},
    ]
    # defaults, and fields of others
    found["spec"]["theirs"] = 1
    found["spec"]["containers"][0]["pullPolicy"] = "Always"
    change(found)
    return found


def paths(found: Object, wanted: Object = WANTED) -> list[tuple[str, t.Any, t.Any]]:
    return [tuple(each) for each in differences(wanted, found, "railyard")]


def test_equal_objects_have_no_differences() -> None:
    assert paths(live()) == []


def _set(path: str, value: t.Any) -> t.Callable[[Object], None]:
    def act(found: Object) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            found = found[int(parent)] if parent.isdigit() else found[parent]
        found[last] = value

    return act


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("spec.mtu", 1500, ("spec.mtu", 1500, 4200)),
        ("spec.mtu", "4200", ("spec.mtu", "4200", 4200)),
        ("spec.ips", [], ("spec.ips", [], ["10.0.0.1-10.0.0.9"])),
        ("spec.selector.rail", "gpu02", ("spec.selector.rail", "gpu02", "gpu01")),
        ("spec.selector", "text", ("spec.selector", "text", {"rail": "gpu01"})),
        ("spec.containers.1.image", "i:9", ("spec.containers[1].image", "i:9", "i:2")),
        ("spec.finalizers", ["f2"], ("spec.finalizers[0]", None, "f1")),
        ("metadata.labels", {}, ("metadata.labels.a", None, "1")),
    ],
)
def test_another_value_differs(path: str, value: t.Any, wanted: tuple[str, t.Any, t.Any]) -> None:
    assert paths(live(_set(path, value))) == [wanted]


def test_the_order_of_a_list_with_keys_does_not_matter() -> None:
    assert paths(live(lambda found: found["spec"]["containers"].reverse())) == []


def test_a_field_that_is_right_but_not_ours_is_to_be_owned() -> None:
    fields = copy.deepcopy(FIELDS)
    del fields["f:spec"]["f:mtu"]
    assert paths(live(fields=fields)) == [("spec.mtu", 4200, 4200)]
    assert [path for path, _before, _after in paths(live(fields={}))] == ["spec"]


@pytest.mark.parametrize(
    ("path", "difference"),
    [
        ("spec.mtu", ("spec.mtu", 4200, None)),
        ("spec.selector", ("spec.selector", {"rail": "gpu01"}, None)),
        ("metadata.labels", ("metadata.labels", {"a": "1"}, None)),
    ],
)
def test_an_unplanned_field_of_ours_is_removed(path: str, difference: tuple[str, t.Any, t.Any]) -> None:
    wanted = copy.deepcopy(WANTED)
    parent, _dot, last = path.partition(".")
    del wanted[parent][last]
    assert paths(live(), wanted) == [difference]


def test_items_of_lists_are_added_and_removed() -> None:
    wanted = copy.deepcopy(WANTED)
    wanted["spec"]["containers"] = [{"name": "three", "image": "i:3"}, WANTED["spec"]["containers"][1]]
    wanted["spec"]["finalizers"] = ["f2"]
    assert paths(live(), wanted) == [
        ("spec.containers[0]", None, {"name": "three", "image": "i:3"}),
        ("spec.containers", {"name": "one", "image": "i:1", "pullPolicy": "Always"}, None),
        ("spec.finalizers", "f1", None),
    ]


def test_a_key_that_the_server_fills_in_is_found_again() -> None:
    wanted = {"spec": {"ports": [{"port": 80, "name": "http"}]}}
    fields = {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}}}
    found: Object = {
        "apiVersion": "v1",
        "metadata": {},
        "spec": {"ports": [{"port": 80, "name": "http", "protocol": "TCP"}]},
    }
    found["metadata"]["managedFields"] = [{"manager": "railyard", "operation": "Apply", "fieldsV1": fields}]
    assert paths(found, wanted) == []
    found["spec"]["ports"][0]["name"] = "other"
    assert paths(found, wanted) == [("spec.ports[0].name", "other", "http")]


def test_an_empty_mapping_has_no_owner_and_is_still_desired() -> None:
    assert paths(live(lambda found: found["spec"].pop("empty"))) == [("spec.empty", None, {})]


def test_the_entry_of_the_version_in_use_counts() -> None:
    found = live()
    old = {
        "manager": "railyard",
        "operation": "Apply",
        "apiVersion": "example/v1alpha1",
        "fieldsV1": {"f:spec": {"f:gone": {}}},
    }
    found["metadata"]["managedFields"].insert(0, old)
    assert paths(found) == []


def test_fields_dropped_by_the_server_are_found() -> None:
    got = live()
    got["spec"]["containers"][1].pop("image")
    got["spec"]["ips"] = ["a", "b"]
    got["spec"]["mtu"] = 1500
    assert [(each.path, each.before) for each in unkept(WANTED, got)] == [
        ("spec.mtu", 1500),
        ("spec.ips", ["a", "b"]),
        ("spec.containers[1].image", None),
    ]


def test_objects_of_one_shape_differ_in_values_alone() -> None:
    other = copy.deepcopy(WANTED)
    other["spec"].update(mtu=9000, ips=["1", "2", "3"])
    assert shape(other) == shape(WANTED)
    other["spec"]["containers"][0]["extra"] = 1
    assert shape(other) != shape(WANTED)


def test_a_text_of_a_playbook_is_a_text_and_a_boolean_is_not_a_number() -> None:
    class Tagged(str):
        """As ansible-core gives texts of variables: with where they come from."""

    wanted = {"metadata": {"name": "x", "namespace": Tagged("n")}, "spec": {"text": Tagged("a"), "on": True}}
    assert list(unkept(wanted, {"metadata": {"name": "x", "namespace": "n"}, "spec": {"text": "a", "on": True}})) == []
    got = {"metadata": {"name": "x", "namespace": "n"}, "spec": {"text": "a", "on": 1}}
    assert [each.path for each in unkept(wanted, got)] == ["spec.on"]
