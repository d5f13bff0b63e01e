# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot change in place: the claims of pools, and what is in use of them by their status."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import overlapping
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.replacement_table import RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_kinds import KINDS

POOL = RULES["spiderpool.spidernet.io/v2beta1", "SpiderIPPool"]


def pool(subnet: str, *ips: str, allocated: t.Any = None, **spec: t.Any) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {"spec": {"subnet": subnet, "ips": list(ips), **spec}}
    if allocated is not None:
        found["status"] = {"allocatedIPs": allocated}
    return found


def meet(one: dict[str, t.Any], other: dict[str, t.Any]) -> list[tuple[str, str]]:
    pairs = overlapping([(1, each) for each in POOL.claims(one)], [(2, each) for each in POOL.claims(other)])
    return [(mine.text, theirs.text) for mine, _one, theirs, _other in pairs]


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (pool("10.0.0.0/24", "10.0.0.1-10.0.0.9"), pool("10.0.0.0/24", "10.0.0.10-10.0.0.20"), None),
        (
            pool("10.0.0.0/24", "10.0.0.1-10.0.0.9"),
            pool("10.0.0.0/24", "10.0.0.9"),
            ("10.0.0.1-10.0.0.9", "10.0.0.9"),
        ),
        (pool("10.0.0.0/24"), pool("10.0.0.0/25"), ("10.0.0.0/24", "10.0.0.0/25")),
        (pool("10.0.0.0/24"), pool("10.0.1.0/24"), None),
        (pool("fd00::/64", "fd00::1-fd00::f"), pool("fd00::/64", "fd00::f"), ("fd00::1-fd00::f", "fd00::f")),
        (pool("0.0.0.10/31"), pool("::a/127"), None),
        # what a pool excludes is not its own
        (
            pool("10.0.0.0/24", "10.0.0.1-10.0.0.9", excludeIPs=["10.0.0.3-10.0.0.5", "10.0.0.8"]),
            pool("10.0.0.0/24", "10.0.0.3-10.0.0.5", "10.0.0.8"),
            None,
        ),
        (
            pool("10.0.0.0/24", "10.0.0.1-10.0.0.9", excludeIPs=["10.0.0.3-10.0.0.5"]),
            pool("10.0.0.0/24", "10.0.0.6"),
            ("10.0.0.6-10.0.0.9", "10.0.0.6"),
        ),
    ],
)
def test_pools_overlap_in_subnets_and_in_addresses(
    one: dict[str, t.Any], other: dict[str, t.Any], text: tuple[str, str] | None
) -> None:
    assert meet(one, other) == ([text] if text else [])
    assert meet(other, one) == ([text[::-1]] if text else [])


def test_objects_other_than_pools_claim_nothing() -> None:
    for strange in ({}, {"spec": None}, pool("somewhere", "10.0.0.1"), pool("10.0.0.0/24", "first-last")):
        assert [claim for claim in POOL.claims(strange) if not claim.shared] == []


def test_pods_in_the_status_of_a_pool_are_users() -> None:
    held = {"10.0.0.7": {"pod": "team/a", "podUid": "1"}, "10.0.0.8": None, "nonsense": {"pod": "x"}}
    found = POOL.uses(pool("10.0.0.0/24", allocated=json.dumps(held)))
    assert [(use.text, use.user) for use in found] == [
        ("10.0.0.7", "team/a"),
        ("10.0.0.8", "a pod that its status does not name"),
    ]
    for nothing in (None, "", "{}", "null", "[]", "not JSON", 7):
        assert POOL.uses(pool("10.0.0.0/24", allocated=nothing)) == []


def test_rules_are_of_kinds_that_plans_have() -> None:
    assert set(RULES) <= set(KINDS)
    allocations = [{"nodeName": "n-2"}, {"nodeName": "n-1"}]
    for kind in ("IPPool", "CIDRPool"):
        rule = RULES["nv-ipam.nvidia.com/v1alpha1", kind]
        assert rule.assigned({"status": {"allocations": allocations}}) == ["n-1", "n-2"]
        assert rule.assigned({}) == [] and all(path.startswith("spec.") for path in rule.resets)
