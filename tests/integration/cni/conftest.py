# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures ``guests`` and ``ready``: both guests, prepared once for all tests of this package."""

from __future__ import annotations

import typing as t

import pytest

from tests.cni_runtime import together
from tests.integration.cni.cni_guest import BIN, CLEAN, NAMES, NETS, Guest, planned
from tests.integration.conftest import Node


@pytest.fixture(scope="package")
def guests(node: t.Callable[[str], Node]) -> t.Iterator[list[Guest]]:
    networks = planned()
    found = [Guest(node(name), *networks[name]) for name in NAMES]
    assert together([each.prepare for each in found]) == []
    yield found
    assert together([lambda each=each: _remove(each.node) for each in found]) == []


def _remove(node: Node) -> None:
    node.module("cni_networks", state="absent")
    node.module("rail_ports", state="absent")
    node.run(CLEAN, check=False)
    left = node.run("ls %s %s 2>/dev/null; ls /var/lib/railyard/cni.json 2>&1 || true" % (BIN, NETS))
    assert "railyard" not in left.replace("/var/lib/railyard/cni.json", "") and "No such file" in left, left


@pytest.fixture(scope="package")
def ready(guests: list[Guest]) -> list[Guest]:
    assert together([each.lay for each in guests]) == []
    return guests
