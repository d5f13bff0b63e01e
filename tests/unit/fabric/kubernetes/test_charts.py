# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values against charts: planned values fit them, and values that do nothing or have the wrong type are found."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import chart_values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software.chart_values import Chart
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import (
    PINS,
    File,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives

from . import software_files
from .documents import REGISTRY, combinations, document

CHARTS = [pin for pin in PINS.values() if pin.chart]
OPTIONS: list[dict[str, t.Any]] = [
    {},
    {"sriov_operator": "upstream"},
    {"driver": "container", "gpudirect": "peermem", "grafana_labels": {"a": "b"}, "injection": False},
]


@pytest.fixture
def spiderpool(tmp_path: Path) -> Chart:
    path = software_files.spiderpool(tmp_path)
    return _archives.chart(_archives.Archive(str(path), path.read_bytes()))


def keys(found: t.Sequence[chart_values.Mismatch]) -> list[tuple[str, bool]]:
    return [(each.key, each.fatal) for each in found]


def tree(path: str, value: t.Any) -> dict[str, t.Any]:
    head, _dot, rest = path.partition(".")
    return {head: tree(rest, value) if rest else value}


@pytest.mark.parametrize("pin", CHARTS, ids=lambda pin: str(pin.chart))
def test_planned_values_of_upstreams_charts_have_its_keys(pin: t.Any) -> None:
    chart = software_files.upstreams_chart(pin.files[""][0].name)
    for combination, options in itertools.product(combinations(), OPTIONS):
        plan, given = document(*combination), {**REGISTRY, **options}
        values = object_components.values(plan, given).get(pin.chart)
        if values is None:
            continue
        whole = chart_values.merged(chart_values.mirrored(chart, "registry.example"), values)
        assert chart_values.mismatches(chart, whole, View(plan), Options.of(given)) == []
        sent = chart_values.restarting(chart, whole)
        assert chart_values.mismatches(chart, sent, View(plan), Options.of(given)) == []
        assert chart_values.restarting(chart, sent) == sent and sent.get("rdma") == whole.get("rdma")


@pytest.mark.parametrize("pin", CHARTS, ids=lambda pin: str(pin.chart))
def test_upstreams_own_values_fit_and_no_image_stays_elsewhere(pin: t.Any) -> None:
    chart = software_files.upstreams_chart(pin.files[""][0].name)
    dead = chart_values.DEAD.get(chart.name, {})
    assert [key for key, _fatal in keys(chart_values.mismatches(chart, chart.values)) if key not in dead] == []
    assert chart.definitions

    def hosts(values: t.Any, over: t.Any, place: str = "") -> t.Iterator[str]:
        for key, value in values.items():
            other = over.get(key) if isinstance(over, dict) else None
            if isinstance(value, dict):
                yield from hosts(value, other or {}, "%s.%s" % (place, key))
            elif key in ("registry", "repository") and "." in str(value).split("/")[0]:
                yield from ["%s.%s" % (place, key)] if not str(other).startswith("registry.example") else []

    assert list(hosts(chart.values, chart_values.mirrored(chart, "registry.example/"))) == []


PINNED = [file for pin in PINS.values() for files in pin.files.values() for file in files if file.sha256]


@pytest.mark.parametrize("file", PINNED, ids=[file.name for file in PINNED])
def test_a_pinned_file_has_its_checksum(file: File) -> None:
    assert software_files.digest(software_files.upstream(file.name)) == file.sha256


@pytest.mark.parametrize("provider, attachment, mode", [each for each in combinations() if each[0] == "spiderpool"])
def test_the_small_chart_takes_the_planned_values(spiderpool: Chart, provider: str, attachment: str, mode: str) -> None:
    plan = document(provider, attachment, mode)
    values = object_components.values(plan)["spiderpool"]
    assert chart_values.mismatches(spiderpool, values, View(plan), Options()) == []


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("ipam", True, "a mapping there"),
        ("rdma.rdmaSharedDevicePlugin.deviceConfig.configList", {}, "a list there"),
        ("coordinator.detectGateway", True, "ipam.enableGatewayDetection"),
        ("coordinator.detectIPConflict", False, "ipam.enableIPConflictDetection"),
        ("global.tuneSysctlConfig", False, "spiderpoolAgent.tuneSysctlConfig"),
        ("ipam.spidersubnet", {"enable": False}, "ipam.spiderSubnet"),
    ],
)
def test_keys_that_do_nothing_are_found(spiderpool: Chart, path: str, value: t.Any, message: str) -> None:
    found = chart_values.mismatches(spiderpool, tree(path, value))
    assert [(path, True)] == keys(found)
    error = str(found[0].error("spiderpool"))
    assert message in error and error.startswith("spiderpool: values.%s: " % path) and "Remedy: " in error


@pytest.mark.parametrize(
    "entries, place, message",
    [
        ([], "", "is empty"),
        ([{"resourceName": "a"}], "[0].selectors", "selects no device"),
        ([{"selectors": {"ifNames": ["a"]}}, {"selectors": {"vendors": "15b3"}}], "[1].selectors.vendors", "a list"),
        ([{"selectors": {"ifName": ["a"]}}], "[0].selectors.ifName", "did you mean ifNames"),
    ],
)
def test_lists_that_end_the_device_plugin_are_found(
    spiderpool: Chart, entries: list[t.Any], place: str, message: str
) -> None:
    plugin = {"install": True, "deviceConfig": {"configList": entries}}
    (found,) = chart_values.mismatches(spiderpool, {"rdma": {"rdmaSharedDevicePlugin": plugin}})
    assert found.fatal and found.key == "rdma.rdmaSharedDevicePlugin.deviceConfig.configList" + place
    assert message in str(found.error("spiderpool"))


def test_valid_but_dangerous_values_are_warnings(spiderpool: Chart) -> None:
    drain = {"sriov": {"install": True}}
    assert keys(chart_values.mismatches(spiderpool, drain)) == [("sriov.operatorConfig.disableDrain", False)]
    alone = {"spiderpoolController": {"podResourceInject": {"enabled": True}}}
    assert keys(chart_values.mismatches(spiderpool, alone)) == [("spiderpoolController.replicas", False)]


def test_gpu_settings_are_compared_with_the_options() -> None:
    plan = View(document("network-operator"))
    values = {"driver": {"enabled": True, "rdma": {"enabled": False}}, "gdrcopy": {"enabled": True}}
    chart = Chart("gpu-operator", "1", values={**values, "nfd": {"enabled": True}})
    found = chart_values.mismatches(chart, {}, plan, Options(gpudirect="peermem"))
    assert keys(found) == [("driver.rdma.enabled", True), ("nfd.enabled", False)]
    old = {"driver": {"useOpenKernelModules": True}}
    assert ("driver.useOpenKernelModules", True) in keys(chart_values.mismatches(chart, old, plan, Options()))


def test_the_plugin_restarts_with_a_list_of_the_users_too(spiderpool: Chart) -> None:
    values = object_components.values(document())["spiderpool"]
    made = chart_values.restarting(spiderpool, values)
    assert made["rdma"] == values["rdma"] and chart_values.restarting(spiderpool, made) == made
    other = copy.deepcopy(values)
    other["rdma"]["rdmaSharedDevicePlugin"]["deviceConfig"]["configList"][0]["rdmaHcaMax"] = 7
    restarting = chart_values.restarting(spiderpool, other)
    plugin = restarting["rdma"]["rdmaSharedDevicePlugin"]
    assert plugin["podAnnotations"] != values["rdma"]["rdmaSharedDevicePlugin"]["podAnnotations"]
    assert chart_values.restarting(spiderpool, restarting) == restarting


def test_the_controller_restarts_with_its_certificate_and_only_then(spiderpool: Chart) -> None:
    """The chart makes another certificate whenever Helm renders it: for another release of it, or other values."""
    values = object_components.values(document())["spiderpool"]

    def note(chart: Chart, given: t.Mapping[str, t.Any]) -> str | None:
        controller = chart_values.restarting(chart, given)["spiderpoolController"]
        return t.cast("str | None", controller.get("podAnnotations", {}).get(chart_values.RELEASE))

    first = note(spiderpool, values)
    assert first and note(spiderpool, copy.deepcopy(values)) == first
    assert note(spiderpool, chart_values.restarting(spiderpool, values)) == first
    more = chart_values.merged(values, {"ipam": {"enableIPv6": not values["ipam"]["enableIPv6"]}})
    assert len({first, note(spiderpool, more), note(dataclasses.replace(spiderpool, version="9"), values)}) == 3
    for method in ("certmanager", "provided"):
        assert (
            note(spiderpool, chart_values.merged(values, {"spiderpoolController": {"tls": {"method": method}}})) is None
        )
    mine = {"spiderpoolController": {"podAnnotations": {"mine": "1"}}}
    kept = chart_values.restarting(spiderpool, chart_values.merged(values, mine))["spiderpoolController"][
        "podAnnotations"
    ]
    assert set(kept) == {"mine", chart_values.RELEASE}


def test_only_image_paths_change_with_the_registry() -> None:
    chart = Chart(
        "c",
        "1",
        values={
            "image": {"registry": "a.example", "repository": "x/y", "tag": "1"},
            "driver": {"repository": "b.example/nvidia", "image": "driver"},
            "images": {"one": "c.example:5000/p/one:1", "two": "d.example/two"},
            "resource": "nvidia.com/gpu",
            "url": "https://a.example/x",
            "own": {"repository": "short/name"},
        },
        parts={"part": Chart("part", "1", values={"image": {"repository": "e.example/nfd/nfd"}})},
    )
    assert chart_values.mirrored(chart, "registry.example/m") == {
        "image": {"registry": "registry.example/m"},
        "driver": {"repository": "registry.example/m/nvidia"},
        "images": {"one": "registry.example/m/p/one:1", "two": "registry.example/m/two"},
        "part": {"image": {"repository": "registry.example/m/nfd/nfd"}},
    }
    assert chart_values.relocated("busybox:1", "registry.example") == "registry.example/busybox:1"
    assert chart_values.relocated("library/busybox:1", "registry.example") == "registry.example/library/busybox:1"
    assert chart_values.relocated("localhost/a/b@sha256:1", "r.example") == "r.example/a/b@sha256:1"


def test_definitions_of_omitted_parts_are_omitted() -> None:
    def one(name: str) -> dict[str, t.Any]:
        return {"metadata": {"name": name}}

    chart = Chart(
        "c",
        "1",
        values={"nfd": {"enabled": True}, "b": {"enabled": False}},
        parts={
            "nfd": Chart("nfd", "1", definitions=[one("n"), one("a")]),
            "b": Chart("b", "1", definitions=[one("b")]),
        },
        conditions={"nfd": "nfd.enabled", "b": "b.enabled"},
        definitions=[one("a")],
    )
    assert [each["metadata"]["name"] for each in chart_values.definitions(chart, {})] == ["a", "n"]
    other = chart_values.definitions(chart, {"nfd": {"enabled": False}, "b": {"enabled": True}})
    assert [each["metadata"]["name"] for each in other] == ["a", "b"]


@pytest.mark.parametrize(
    "wants, server, older",
    [(">= 1.24.0-0", (1, 20), "1.24"), (">=1.20", (1, 20), ""), (">= 1.21.0-0", (1, 30), ""), ("", (1, 20), "")],
)
def test_the_server_that_a_chart_asks_for(wants: str, server: tuple[int, int], older: str) -> None:
    assert Chart("c", "1", wants).too_old(server) == older
