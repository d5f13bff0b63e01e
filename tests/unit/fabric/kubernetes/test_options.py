# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options beside the plan, and errors about wrong values."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options

from . import plans


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"injection_groups": 4}, "kubernetes.injection_groups: 4 .*a list of whole numbers"),
        ({"rdma_hca_max": "many"}, "kubernetes.rdma_hca_max: 'many' .*a whole number"),
        ({"rdma_hca_max": True}, "kubernetes.rdma_hca_max: True .*a whole number"),
        # as YAML reads 0x7fff without quotes
        ({"pkey": 0x7FFF}, "kubernetes.pkey: 32767 .*text, in quotes"),
        ({"metrics": "perhaps"}, "kubernetes.metrics: 'perhaps' .*true or false"),
        ({"dpdk": True}, "kubernetes.dpdk: True .*a mapping"),
        ({"dpdk": {"rail": ["gpu01"]}}, r"kubernetes.dpdk.rail: is not a key \(did you mean rails\?\)"),
        ({"dpdk": {"rails": "gpu01"}}, "kubernetes.dpdk.rails: 'gpu01' .*a list of rails"),
        ({"dpdk": {"rails": ["gpu01"], "driver": "vfio"}}, "kubernetes.dpdk.driver: 'vfio' .*vfio-pci or netdevice"),
        ({"images": ["x"]}, "kubernetes.images: .*a mapping"),
        ({"monitoring_labels": {"team": 7}}, "kubernetes.monitoring_labels.team: 7 .*text, in quotes"),
        ({"registry": "https://registry.example"}, "kubernetes.registry: .*is a URL.*write only host"),
        ({"workload_namespace": 7}, "kubernetes.workload_namespace: 7 .*text, in quotes"),
        ({"test_pods": True}, "kubernetes.test_pods: .*images.test"),
    ],
)
def test_a_value_of_a_wrong_type_is_one_error_with_its_place(given: dict[str, t.Any], message: str) -> None:
    with pytest.raises(RailyardError, match=message):
        Options.of(given)


def test_numbers_and_booleans_from_templates_are_accepted_as_text() -> None:
    given = {"metrics": "False", "injection": "no", "gdrcopy": "yes", "rdma_hca_max": "63", "injection_groups": ["2"]}
    options = Options.of({**given, "dpdk": {"rails": ["gpu01"], "vfs": "2"}})
    assert (options.metrics, options.injection, options.gdrcopy) == (False, False, True)
    assert (options.rdma_hca_max, options.injection_groups, options.dpdk["vfs"]) == (63, (2,), 2)


def test_null_is_the_same_as_an_absent_key() -> None:
    assert Options.of({"registry": None, "workload_namespace": None, "metrics": None, "dpdk": None}) == Options()


@pytest.mark.parametrize("operator", ["bundled", "upstream"])
def test_an_sriov_operator_beside_the_agent_is_refused(operator: str) -> None:
    """The rail agent gives VFs to pods: its plan has no names of policies."""
    document = plans.planned(plans.fabric_file("agent", "sriov", "prefix", (4,)))
    given = {"sriov_operator": operator}
    for derived in (object_components.objects, object_components.values, object_components.software):
        with pytest.raises(RailyardError, match="kubernetes.sriov_operator: .*Remedy: remove kubernetes_options.sriov"):
            list(derived(document, given))
