# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Many pods of eight rails that come and go on two nodes, several at once: ``lab/lab up --cluster`` first.

``RAILYARD_CHURN`` is the number of pods (30).
"""

from __future__ import annotations

import os

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    GetNode,
    apply,
    kube,
    manifest,
    prepared,
    slot_addresses,
    wait_until_whole,
    whole,
)
from tests.integration.lab_pods import NAMES, Kube, check_interfaces

pytestmark = pytest.mark.lab

PODS = int(os.environ.get("RAILYARD_CHURN", "30"))
AT_ONCE = 3


def test_pods_leave_both_nodes_as_they_were(kube: Kube, prepared: None, node: GetNode) -> None:
    nodes = list(NAMES.values())
    before = {name: whole(node(name)) for name in nodes}
    last: list[str] = []
    for first in range(0, PODS, AT_ONCE * len(nodes)):
        batch = {
            "churn-%d" % number: nodes[number % len(nodes)]
            for number in range(first, min(first + AT_ONCE * len(nodes), PODS))
        }
        # the slots of the batch before are given again while its pods end
        if last:
            kube("delete", "pod", *last, "--wait=false")
        apply(kube, *(manifest(pod, name, ALL_RAILS) for pod, name in batch.items()))
        kube.wait(batch)
        found = [address for pod in batch for address in check_interfaces(kube, pod)]
        assert len(set(found)) == len(found)
        expected = {address for name in nodes for slot in slot_addresses(name, "rails") for address in slot}
        assert set(found) <= expected
        last = list(batch)
    kube("delete", "pod", *last, "--wait")
    for name in nodes:
        wait_until_whole(node(name), before[name])
