# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink domains in verify: nodes of one domain, of two, and GPUs that are not registered."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import nvlink_state
from tests.unit.fabric.verify_nodes import SERVERS, Row, World, only_failure

RECORDINGS = Path(__file__).parents[2] / "recordings" / "nvlink"
CODES = {"RV445", "RV446", "RV447", "RV449"}
CLUSTERS = {"r1": "9c6f5af3-53bf-49b5-a436-b66766c413c3", "r2": "2f3f9c11-7f1d-4f0e-9a53-0c8d7a1f4c02"}


def reported(name: str = "completed", cluster: str | None = None, clique: str | None = None) -> Row:
    """What rail_info reports, from a recording with another cluster UUID or clique."""
    gpus = nvlink_state.parse((RECORDINGS / (name + ".txt")).read_text())
    for row in gpus:
        row.update({key: value for key, value in (("cluster", cluster), ("clique", clique)) if value})
    return {"error": None, "gpus": gpus}


@pytest.fixture
def world() -> World:
    nodes = "nodes:\n  ai-[1:4]: {profile: server, unit: su1, nvlink_domain: r1}\n"
    nodes += "  ai-[5:8]: {profile: server, unit: su1, nvlink_domain: r2}\n"
    outcome = lint((SERVERS + nodes).encode())
    assert outcome.plan, outcome.findings
    made = World(outcome.plan)
    for name, node in made.plans.items():
        made.infos[name]["nvlink"] = reported(cluster=CLUSTERS[node["nvlink_domain"]])
    return made


def test_domains_as_planned_are_good(world: World) -> None:
    assert world.document()["ok"], world.document()["failures"]


@pytest.mark.parametrize(
    ("state", "code", "found"),
    [
        (reported("in-progress"), "RV445", "state In Progress"),
        (reported("insufficient-resources"), "RV445", "status Insufficient Resources"),
        (reported(cluster=CLUSTERS["r2"]), "RV446", CLUSTERS["r2"]),
        (reported(cluster=CLUSTERS["r1"], clique="7"), "RV446", "clique 7"),
        ({"error": "nvidia-smi is not installed", "gpus": []}, "RV449", "not installed"),
        ({"error": None, "gpus": []}, "RV449", "no GPU"),
    ],
    ids=["in progress", "no partition", "other rack", "other partition", "no program", "no section"],
)
def test_a_node_that_differs_is_one_failure(world: World, state: Row, code: str, found: str) -> None:
    world.infos["ai-2"]["nvlink"] = state
    failure = only_failure(world.document(), code, "ai-2", None)
    assert found in failure["found"]


def test_a_node_whose_driver_lists_fewer_gpus_is_a_failure(world: World) -> None:
    planned = len(t.cast(Row, world.plans["ai-2"])["gpus"])
    del world.infos["ai-2"]["nvlink"]["gpus"][planned - 1 :]
    failure = only_failure(world.document(), "RV449", "ai-2", None)
    assert (failure["expected"], failure["found"]) == ("%d GPUs" % planned, "%d GPUs" % (planned - 1))


def test_gpus_of_one_node_in_two_domains_are_a_failure(world: World) -> None:
    world.infos["ai-2"]["nvlink"]["gpus"][3]["clique"] = "7"
    only_failure(world.document(), "RV446", "ai-2", None)


def test_two_planned_domains_in_one_rack_are_a_failure(world: World) -> None:
    for name in ("ai-5", "ai-6", "ai-7", "ai-8"):
        world.infos[name]["nvlink"] = reported(cluster=CLUSTERS["r1"])
    failure = only_failure(world.document(), "RV447", "ai-5", None)
    assert "ai-1 of r1" in failure["found"]


def test_two_partitions_of_one_rack_can_be_two_domains(world: World) -> None:
    for name in ("ai-5", "ai-6", "ai-7", "ai-8"):
        world.infos[name]["nvlink"] = reported(cluster=CLUSTERS["r1"], clique="7")
    assert world.document()["ok"]


def test_a_driver_in_a_container_is_not_read(world: World) -> None:
    for name, node in world.plans.items():
        t.cast(Row, node)["gpudirect"] = {"gpu_driver": "container", "path": "none"}
        world.infos[name]["nvlink"] = {"error": "nvidia-smi is not installed", "gpus": []}
    assert not [each for each in world.document()["failures"] if each["code"] in CODES]
