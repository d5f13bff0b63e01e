# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify on nodes with NICs of other vendors than NVIDIA: their counters, with the names of their drivers."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests.unit.fabric.verify_nodes import World

ROOT = Path(__file__).resolve().parents[3]


def world_of(name: str) -> World:
    plan = lint((ROOT / "inventories" / name / "fabric.yml").read_bytes()).plan
    assert plan
    return World(plan)


def increased(world: World, counter: str) -> list[dict[str, t.Any]]:
    """Return the warnings after a counter of one RDMA device increased."""
    name, node = next(iter(world.plans.items()))
    device = node["ports"][2]["rdma"]["name"]
    world.infos[name]["counters"]["devices"][device] = {counter: 4, "rx_pkts": 10}
    world.after[name]["devices"][device] = {counter: 9, "rx_pkts": 900}
    document = world.document()
    assert document["failures"] == []
    rows: list[dict[str, t.Any]] = [row for row in document["warnings"] if row["code"] == "RV861"]
    return rows


@pytest.mark.parametrize("name", ["mi355x-pollara", "thor2"])
def test_the_worked_inventories_are_green(name: str) -> None:
    document = world_of(name).document()
    assert document["failures"] == [] and document["warnings"] == []


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("thor2", "max_retry_exceeded"),
        ("thor2", "to_retransmits"),
        ("thor2", "seq_err_naks_rcvd"),
        ("thor2", "oos_drop_count"),
        ("thor2", "rx_roce_discards"),
        ("thor2", "rx_out_of_buffer"),
        ("mi355x-pollara", "req_tx_retry_excd_err"),
        ("mi355x-pollara", "resp_rx_outouf_seq"),
        ("mi355x-pollara", "resp_rx_outof_buf"),
        ("mi355x-pollara", "tx_rdma_ack_timeout"),
        ("mi355x-pollara", "req_rx_pkt_seq_err"),
    ],
)
def test_error_counters_of_the_vendor_are_reported(name: str, counter: str) -> None:
    (warning,) = increased(world_of(name), counter)
    assert (warning["rail"], warning["found"]) == ("gpu03", "%s +5" % counter)


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("thor2", "active_qps"),
        ("thor2", "rnr_naks_rcvd"),
        ("mi355x-pollara", "rx_rdma_cnp_pkts"),
        ("mi355x-pollara", "tx_rdma_ucast_pkts"),
    ],
)
def test_counters_of_traffic_and_congestion_are_not_errors(name: str, counter: str) -> None:
    assert increased(world_of(name), counter) == []
