# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The floor of a transfer: what limits it, and that it is below what healthy systems measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.published_floors import (
    PUBLISHED,
    PublishedFloor,
    note,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import (
    End,
    Transfer,
    header_share,
    packet_data,
    pcie_gbits,
    rail_floor,
)

GEN5, GEN4, GEN3 = (32.0, 16), (16.0, 16), (8.0, 16)


def ends(**second: object) -> list[End]:
    first = End("ai-1", 400.0, pcie=GEN5)
    return [first, first._replace(node="ai-2", **second)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "by", "text"),
    [
        ({}, "link", "link of ai-1, 400 Gb/s"),
        ({"link": 200.0}, "link", "link of ai-2, 200 Gb/s"),
        ({"link": 300.0, "planes": (3, 4)}, "planes", "3 of 4 planes of ai-2, 300 Gb/s"),
        ({"planes": (4, 4)}, "link", "link of ai-1, 400 Gb/s"),
        ({"pcie": GEN4}, "pcie", "PCIe of ai-2, 16 GT/s x16"),
        ({"pcie": (32.0, 8)}, "pcie", "PCIe of ai-2, 32 GT/s x8"),
        ({"link": None, "pcie": None}, "link", "link of ai-1, 400 Gb/s"),
    ],
)
def test_the_slower_part_of_the_slower_end_limits_the_floor(second: dict[str, object], by: str, text: str) -> None:
    floor = rail_floor(ends(**second), Transfer())
    assert floor and (floor.by, floor.text) == (by, text)


def test_one_queue_pair_limits_small_messages() -> None:
    floor = rail_floor(ends(), Transfer(size=4096))
    assert floor and floor.by == "messages" and floor.gbits < 66 and "4,096 bytes" in floor.text


@pytest.mark.parametrize("row", [each for each in PUBLISHED if each.source.startswith("azure")])
def test_the_floor_is_not_above_the_floors_of_an_operator(row: PublishedFloor) -> None:
    assert row.link
    pcie = GEN4 if row.link == 200 else GEN5
    floor = rail_floor([End("ai-1", row.link, pcie=pcie)] * 2, Transfer(infiniband=True))
    assert floor and 0.85 * row.link < floor.gbits < row.gbits


def test_published_floors_are_in_the_documentation_and_belong_to_presets() -> None:
    page = (Path(__file__).parents[3] / "docs/verify.md").read_text(encoding="utf-8")
    for row in PUBLISHED:
        link = "" if row.link is None else "%d Gb/s" % row.link
        assert "| %s | %s | %d Gb/s | %s | %s, %s |" % (*row[:1], link, *row[2:6]) in page
        assert set(row.presets) <= set(PRESETS)
    assert (
        note("azure-nd-h100-v5")
        == "azurehpc-health-checks v0.4.5 requires 380 Gb/s of Azure ND H100 v5 with GPU memory"
    )
    assert note("dgx-h100") is None and note(None) is None


def test_packets_have_the_headers_of_the_standards() -> None:
    large = Transfer(size=4096 * 256)
    assert header_share(large) == pytest.approx(4096 / (4096 + 82), abs=1e-4)
    assert header_share(large._replace(packet=1024)) == pytest.approx(1024 / (1024 + 82), abs=1e-4)
    assert header_share(large._replace(ipv6=True, vlan=True)) == pytest.approx(4096 / (4096 + 106), abs=1e-4)
    assert header_share(large._replace(infiniband=True)) == pytest.approx(4096 / (4096 + 26), abs=1e-4)


@pytest.mark.parametrize(
    ("mtu", "data"), [(9000, 4096), (4200, 4096), (4191, 2048), (1500, 1024), (300, 256), (90, 256)]
)
def test_a_packet_has_the_largest_size_that_fits_the_mtu(mtu: int, data: int) -> None:
    assert packet_data(mtu) == data


def test_pcie_carries_what_was_measured() -> None:
    # "around 52 Gb/s" of writes with 8 lanes of generation 3 in the source of the model
    assert pcie_gbits(8.0, 8) == pytest.approx(52.9, abs=0.2)
    # of generation 5 and 6, 16 lanes suffice for 400 and 800 Gb/s
    assert pcie_gbits(32.0, 16) > 400 and pcie_gbits(64.0, 16) > 800
    assert pcie_gbits(5.0, 8) < 5.0 * 8 * 0.8


def test_a_share_replaces_the_model() -> None:
    floor = rail_floor(ends(), Transfer(size=64, iterations=1), 0.5)
    assert floor and floor.gbits == 200.0


def test_without_link_and_pcie_no_floor_is_known() -> None:
    assert rail_floor([End("ai-1", None), End("ai-2", None)], Transfer()) is None
    assert rail_floor([], Transfer(), 0.8) is None


@given(
    st.sampled_from([10.0, 25.0, 100.0, 200.0, 400.0, 800.0]),
    st.sampled_from([2.5, 5.0, 8.0, 16.0, 32.0, 64.0]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(1, 1 << 24),
    st.integers(1, 5000),
    st.sampled_from([256, 512, 1024, 2048, 4096]),
    st.booleans(),
)
def test_a_floor_is_below_what_is_possible(
    link: float, speed: float, lanes: int, size: int, iterations: int, packet: int, infiniband: bool
) -> None:
    transfer = Transfer(size, iterations, packet, infiniband)
    floor = rail_floor([End("ai-1", link, pcie=(speed, lanes))] * 2, transfer)
    assert floor and 0 < floor.gbits < min(link, speed * lanes)
    # longer transfers and larger packets never lower it
    longer = rail_floor([End("ai-1", link, pcie=(speed, lanes))] * 2, transfer._replace(iterations=iterations * 2))
    assert longer and longer.gbits >= floor.gbits
