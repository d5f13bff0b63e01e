# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU Operator's settings and the nodes' way from GPU memory to the NIC."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu.gpu_settings import (
    Wanted,
    disagreements,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu.gpu_spec import values
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View

from .documents import document

DMABUF = Wanted("dmabuf", "ofed", "container", True)
PEERMEM = Wanted("peermem", "ofed", "container", True)


def chart(**given: t.Any) -> dict[str, t.Any]:
    """``driver_rdma_enabled=True`` as the chart nests it."""
    tree: dict[str, t.Any] = {}
    for key, value in given.items():
        place = tree
        *parts, last = key.split("_")
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


GOOD = chart(gdrcopy_enabled=True, driver_kernelModuleType="open")
GOOD_PEERMEM = chart(gdrcopy_enabled=True, driver_rdma_enabled=True, driver_rdma_useHostMofed=True)


def keys(given: t.Mapping[str, t.Any], wanted: Wanted) -> list[tuple[str, bool]]:
    return [(each.key, each.fatal) for each in disagreements(given, wanted)]


def test_equal_values_agree() -> None:
    assert disagreements(GOOD, DMABUF) == []
    assert disagreements(GOOD_PEERMEM, PEERMEM) == []
    container = chart(gdrcopy_enabled=True, driver_rdma_enabled=True)
    assert disagreements(container, PEERMEM._replace(nic_driver="container")) == []
    # the driver of the hosts, and the role gpudirect with it
    assert disagreements(chart(driver_enabled=False), PEERMEM._replace(gpu_driver="host")) == []


@pytest.mark.parametrize("gpudirect", ["dmabuf", "peermem"])
@pytest.mark.parametrize("driver", ["host", "container"])
@pytest.mark.parametrize("gdrcopy", [True, False])
def test_our_own_values_agree(gpudirect: str, driver: str, gdrcopy: bool) -> None:
    options = Options(gpudirect=gpudirect, driver=driver, gdrcopy=gdrcopy)
    wanted = Wanted(gpudirect, "ofed" if driver == "host" else "container", "container", gdrcopy, ("hopper",))
    assert disagreements(values(View(document()), options), wanted) == []


@pytest.mark.parametrize(
    "given, wanted, expected",
    [
        ({}, PEERMEM._replace(gdrcopy=False), [("driver.rdma.enabled", True)]),
        (chart(driver_rdma_enabled=True), DMABUF._replace(nic_driver="inbox", gdrcopy=False),
         [("driver.rdma.enabled", True)]),
        (chart(driver_rdma_enabled=True, driver_rdma_useHostMofed=True), DMABUF._replace(gdrcopy=False),
         [("driver.rdma.enabled", False)]),
        (chart(driver_rdma_enabled=True), PEERMEM._replace(gdrcopy=False), [("driver.rdma.useHostMofed", True)]),
        (chart(driver_rdma_enabled=True, driver_rdma_useHostMofed=True),
         PEERMEM._replace(nic_driver="container", gdrcopy=False), [("driver.rdma.useHostMofed", True)]),
        (chart(driver_enabled=False, driver_rdma_enabled=True, gdrcopy_enabled=True),
         DMABUF._replace(gpu_driver="host"),
         [("driver.rdma.enabled", False), ("gdrcopy.enabled", False)]),
        (chart(driver_enabled=False), DMABUF, [("driver.enabled", True)]),
        (GOOD, DMABUF._replace(gpu_driver="host"), [("driver.enabled", False)]),
        ({}, DMABUF, [("gdrcopy.enabled", True)]),
        (GOOD, DMABUF._replace(gdrcopy=False), [("gdrcopy.enabled", False)]),
        (chart(driver_kernelModuleType="proprietary", gdrcopy_enabled=True), DMABUF,
         [("driver.kernelModuleType", True)]),
        (chart(driver_useOpenKernelModules=False, gdrcopy_enabled=True), DMABUF, [("driver.kernelModuleType", True)]),
        (chart(driver_useOpenKernelModules=True, gdrcopy_enabled=True), DMABUF, []),
        (GOOD, DMABUF._replace(generations=("hopper", "volta")), [("driver.kernelModuleType", True)]),
        (chart(gdrcopy_enabled=True), DMABUF._replace(generations=("volta",)), [("driver.kernelModuleType", True)]),
        (dict(GOOD_PEERMEM, driver={**GOOD_PEERMEM["driver"], "kernelModuleType": "proprietary"}),
         PEERMEM._replace(generations=("blackwell",)), [("driver.kernelModuleType", True)]),
        (dict(GOOD, gds={"enabled": True}), DMABUF, []),
        (dict(GOOD_PEERMEM, gds={"enabled": True}), PEERMEM._replace(generations=("pascal",)), [("gds.enabled", True)]),
        # a value that is not a mapping is ignored
        ({"driver": None, "gdrcopy": True}, DMABUF._replace(gdrcopy=False), []),
    ],
)  # fmt: skip
def test_different_values_are_reported(
    given: dict[str, t.Any], wanted: Wanted, expected: list[tuple[str, bool]]
) -> None:
    assert keys(given, wanted) == expected


def test_over_every_combination_nothing_is_reported_twice_or_contradicts_itself() -> None:
    bools = (True, False)
    kinds = ("auto", "open", "proprietary")
    specs = [
        Wanted(*each)
        for each in itertools.product(
            ("dmabuf", "peermem", "none"),
            ("inbox", "ofed", "container"),
            ("host", "container"),
            bools,
            ((), ("volta",), ("hopper",), ("blackwell",), ("volta", "hopper")),
        )
    ]
    for driver, rdma, mofed, kind, copy, gds in itertools.product(bools, bools, bools, kinds, bools, bools):
        given = chart(
            driver_enabled=driver,
            driver_rdma_enabled=rdma,
            driver_rdma_useHostMofed=mofed,
            driver_kernelModuleType=kind,
            gdrcopy_enabled=copy,
            gds_enabled=gds,
        )
        for wanted in specs:
            found = disagreements(given, wanted)
            names = [each.key for each in found]
            assert len(set(names)) == len(names), (given, wanted, found)
            assert all(each.message and each.remedy for each in found)
            remedies = {each.key: each.remedy for each in found}
            # following one remedy to the letter is not what another forbids
            if "driver.rdma.enabled" in remedies:
                assert "driver.rdma.useHostMofed" not in remedies
            if wanted.path == "dmabuf" and not {"volta"}.intersection(wanted.generations):
                assert "peermem" not in remedies.get("driver.kernelModuleType", "") or kind == "proprietary"
