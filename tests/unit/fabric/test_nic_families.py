# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Families of NICs: their facts, and the key ``nic`` of profiles."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import nic_family
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_families
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_answers_every_layer(name: str) -> None:
    family = FAMILIES[name]
    assert family.name == name and family.sources
    assert tuple(family.layers) == nic_family.LAYERS
    for support in family.layers.values():
        assert support.level in nic_family.LEVELS and support.note
        # what is unknown was not tested
        assert support.level != nic_family.UNKNOWN or support.tested == nic_family.UNTESTED


def test_families_differ_in_pci_vendor_and_driver() -> None:
    keys = [(family.pci_vendor, driver) for family in FAMILIES.values() for driver in family.drivers or ("",)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("nic", "marks"),
    [
        # Juniper's design for AMD GPUs with Thor 2: RoCE DSCP 26 on priority 3, CNPs DSCP 48 on priority 7
        ("bnxt_re", (3, 26, 7, 48)),
        ("mlx5", (3, 26, 6, 48)),
        ("ionic", (3, 24, 6, 46)),
    ],
)
def test_marks_that_a_vendor_recommends(nic: str, marks: tuple[int, ...]) -> None:
    defaults = nic_families.qos_defaults(nic)
    assert defaults and defaults[:4] == marks and defaults.source


@pytest.mark.parametrize("nic", ["irdma", "habanalabs", None])
def test_marks_without_a_source_are_unknown(nic: str | None) -> None:
    assert nic_families.qos_defaults(nic) is None
