# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of forks that validate.yml recommends."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.action.fabric_findings import forks_advice, recommended_forks


@pytest.mark.parametrize(
    ("nodes", "processors", "forks"), [(0, 2, 1), (2, 2, 2), (64, 2, 64), (512, 2, 64), (512, 1, 32), (4096, 16, 512)]
)
def test_forks_follow_from_nodes_and_processors(nodes: int, processors: int, forks: int) -> None:
    assert recommended_forks(nodes, processors) == forks
    assert forks_advice(forks, nodes, processors) == ""


def test_fewer_forks_than_recommended_have_a_remedy() -> None:
    lines = forks_advice(50, 512, 2).splitlines()
    assert "512 nodes and 2 processors: 64" in lines[0] and "forks = 64" in lines[1]
    assert max(map(len, lines)) <= 120
