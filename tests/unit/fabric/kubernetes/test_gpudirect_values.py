# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's way from GPU memory to the NIC, in the values of the GPU Operator and the Network Operator."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_settings, gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View

from . import plans
from .documents import REGISTRY

DOCA = {"kind": "doca", "version": "2.9.3", "source": "file:/srv/doca", "unsigned": True}


def planned(
    *kinds: tuple[dict[str, t.Any] | None, dict[str, t.Any] | None], provider: str = "network-operator"
) -> dict[str, t.Any]:
    """A plan with a node for each pair of GPUDirect and NIC driver."""
    whole = plans.fabric_file(provider, "macvlan", "prefix", (4,))
    model = whole["profiles"].pop("hgx")
    whole["nodes"] = {}
    for number, (gpudirect, driver) in enumerate(kinds, 1):
        given = {key: value for key, value in (("gpudirect", gpudirect), ("driver", driver)) if value is not None}
        whole["profiles"]["p%d" % number] = dict(model, **given)
        whole["nodes"]["n-%d" % number] = {"profile": "p%d" % number}
    return plans.planned(whole)


def summary(plan: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    """The values that belong to GPU memory, by the chart's keys."""
    values = object_components.values(plan, dict(REGISTRY, **options))["gpu-operator"]
    return {
        "enabled": values["driver"].get("enabled"),
        "rdma": values["driver"]["rdma"]["enabled"],
        "mofed": values["driver"]["rdma"]["useHostMofed"],
        "kind": values["driver"]["kernelModuleType"],
        "gdrcopy": values["gdrcopy"]["enabled"],
    }


def is_(enabled: bool | None, rdma: bool, mofed: bool, kind: str, gdrcopy: bool) -> dict[str, t.Any]:
    return {"enabled": enabled, "rdma": rdma, "mofed": mofed, "kind": kind, "gdrcopy": gdrcopy}


OPERATOR = {"gpu_driver": "container"}


@pytest.mark.parametrize(
    ("kinds", "options", "expected"),
    [
        # nothing is set: as the options, or DMA-BUF
        ([(None, None)], {}, is_(None, False, False, "open", True)),
        ([(None, None)], {"gpudirect": "peermem", "gdrcopy": False}, is_(None, True, True, "auto", False)),
        # hosts with a GPU driver of their own load the modules themselves
        ([({"path": "dmabuf"}, None)], {}, is_(False, False, False, "open", False)),
        ([({"path": "peermem", "gdrcopy": True}, DOCA)], {}, is_(False, False, False, "auto", False)),
        # the operator brings the GPU driver
        ([(dict(OPERATOR, path="dmabuf", gdrcopy=True), None)], {}, is_(True, False, False, "open", True)),
        ([(dict(OPERATOR, path="peermem", gdrcopy=False), DOCA)], {}, is_(True, True, True, "auto", False)),
        (
            [(dict(OPERATOR, path="peermem", flavour="proprietary"), {"kind": "container"})],
            {},
            is_(True, True, False, "proprietary", True),
        ),
        ([(dict(OPERATOR, path="auto"), None)], {"gpudirect": "peermem"}, is_(True, True, True, "auto", True)),
        ([(dict(OPERATOR, path="none", gdrcopy=False), None)], {}, is_(True, False, False, "auto", False)),
        # the more demanding where nodes differ, and those with a driver of their own do not count
        (
            [(dict(OPERATOR, path="dmabuf", gdrcopy=False), DOCA), (dict(OPERATOR, path="peermem"), DOCA)],
            {},
            is_(True, True, True, "auto", False),
        ),
        (
            [({"path": "peermem"}, DOCA), (dict(OPERATOR, path="dmabuf"), None)],
            {},
            is_(True, False, False, "open", True),
        ),
    ],
)
def test_values_are_derived_from_the_plan(
    kinds: list[tuple[dict[str, t.Any] | None, dict[str, t.Any] | None]],
    options: dict[str, t.Any],
    expected: dict[str, t.Any],
) -> None:
    assert summary(planned(*kinds), **options) == expected


def test_derived_values_always_agree_with_the_plan() -> None:
    paths = ("auto", "dmabuf", "peermem", "none")
    drivers = (None, {"kind": "inbox"}, DOCA, {"kind": "container"})
    for path, gpu_driver, copy, flavour, driver in itertools.product(
        paths, ("host", "container"), (None, True, False), (None, "open", "proprietary"), drivers
    ):
        if (path, flavour) == ("dmabuf", "proprietary"):
            continue  # an error of the plan's own
        given = {"path": path, "gpu_driver": gpu_driver, "gdrcopy": copy, "flavour": flavour}
        plan = planned(({key: value for key, value in given.items() if value is not None}, driver))
        view, options = View(plan), Options()
        spec = gpu_spec.wanted(view, options)
        if spec.path == "peermem" and spec.nic_driver == "inbox":
            continue  # lint warns of it (RY974)
        found = gpu_settings.disagreements(object_components.values(plan, REGISTRY)["gpu-operator"], spec)
        assert found == [], (given, driver, found)


@pytest.mark.parametrize(
    ("gpudirect", "driver", "options", "place", "words"),
    [
        (
            {"path": "dmabuf"},
            None,
            {"gpudirect": "peermem"},
            "kubernetes.gpudirect",
            "is peermem, and the plan's nodes",
        ),
        (
            {"gdrcopy": False},
            None,
            {"gdrcopy": True},
            "kubernetes.gdrcopy",
            "is true, and the plan's nodes have gpudirect",
        ),
        (
            None,
            DOCA,
            {"driver": "container"},
            "kubernetes.driver",
            "is container, and the plan's nodes have driver: doca",
        ),
        (None, {"kind": "container"}, {"driver": "host"}, "kubernetes.driver", "is host"),
    ],
)
def test_options_that_contradict_the_plan_are_reported(
    gpudirect: dict[str, t.Any] | None,
    driver: dict[str, t.Any] | None,
    options: dict[str, t.Any],
    place: str,
    words: str,
) -> None:
    with pytest.raises(RailyardError) as caught:
        summary(planned((gpudirect, driver)), **options)
    assert caught.value.place == place and words in str(caught.value)


def test_the_network_operator_brings_the_planned_driver() -> None:
    def policy(plan: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
        things = object_components.objects(plan, dict(REGISTRY, **options))
        (spec,) = (each["spec"] for each in things if each["kind"] == "NicClusterPolicy")
        return t.cast("dict[str, t.Any]", spec)

    assert "ofedDriver" in policy(planned((None, {"kind": "container"})))
    assert "ofedDriver" in policy(planned((None, None)), driver="container")
    assert "ofedDriver" not in policy(planned((None, DOCA))) and "ofedDriver" not in policy(planned((None, None)))
