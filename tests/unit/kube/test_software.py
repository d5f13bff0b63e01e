# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When software may be installed or removed, and what is written for it, against a server that is a function."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import software_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.software_objects import (
    Ownership,
    SoftwareObjects,
)
from tests.unit.fabric.kubernetes import plans
from tests.unit.kube.test_server import Answer, Far, quick  # noqa: F401

URL = "https://far:6443"
OURS = {"managed-by": "railyard", "fabric": "ai"}
POOL = ("example/v1", "Pool")


def view(provider: str = "spiderpool") -> t.Any:
    return object_components.viewed(plans.planned(plans.fabric_file(provider, "macvlan", "subnet", (4,))))


def test_removal_is_refused_while_objects_need_the_software() -> None:
    with pytest.raises(Refused, match="spiderpool of %s: it still serves 1 Claim, 2 Pool.*teardown" % URL):
        software_rules.unused("spiderpool", {"Pool": 2, "Claim": 1}, {}, view(), URL)
    assert software_rules.unused("spiderpool", {}, {}, view(), URL) == []
    (warning,) = software_rules.unused("spiderpool", {}, {"Pool": 3}, view(), URL)
    assert warning.startswith("spiderpool still serves 3 Pool of fabric ai; outside check mode")


def test_only_the_pods_first_network_needs_consent() -> None:
    with pytest.raises(Refused, match="consent: removing the network of all pods needs consent.*consent with calico"):
        software_rules.check_consent("calico", "flannel")
    software_rules.check_consent("calico", "calico")
    software_rules.check_consent("multus", "")


def test_an_operator_of_one_fabric_is_refused_for_a_second_and_others_warn() -> None:
    with pytest.raises(Refused, match="it serves fabric bi and ci already, and supports the NicClusterPolicy of one"):
        software_rules.other_fabrics("network-operator", {"ci", "bi"}, view(), URL)
    (warning,) = software_rules.other_fabrics("spiderpool", {"bi"}, view(), URL)
    assert "serves fabric bi too, and gets the values of ai" in warning
    assert software_rules.other_fabrics("network-operator", (), view(), URL) == []


def test_a_release_is_in_the_given_namespace_or_in_that_of_the_plan() -> None:
    spiderpool, options = view(), Options.of({"operator_namespace": "rails"})
    assert software_rules.namespace("spiderpool", "mine", spiderpool, options) == "mine"
    assert software_rules.namespace("spiderpool", "", spiderpool, options) == "rails"
    # another operator is not moved by the option of the provider
    assert software_rules.namespace("gpu-operator", "", spiderpool, options) == "gpu-operator"


def test_kinds_of_an_operator_are_awaited_only_if_the_plan_has_objects_of_them() -> None:
    policy = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy"}
    pool = {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": "IPPool"}
    assert software_rules.started_by("network-operator", [policy, pool]) == ([policy], pool["apiVersion"])
    assert software_rules.started_by("network-operator", [policy]) == ([policy], "")
    assert software_rules.started_by("spiderpool", [policy, pool]) == ([], "")


def software(
    answer: t.Callable[[str, str, dict[str, str]], Answer], check: bool = False
) -> tuple[Far, SoftwareObjects]:
    far = Far(answer)
    own = Ownership({"software": "x"}, ("software", "x"), "railyard", False, "cluster_force")
    return far, SoftwareObjects(far.server(), own, 5, check, far.reported.append)


def served(method: str, path: str, query: dict[str, str]) -> Answer:
    if path == "/apis/example/v1":
        return 200, {"resources": [{"name": "pools", "kind": "Pool", "namespaced": False}]}
    if path == "/apis/example/v1/pools":
        rows = [{"name": "a", "labels": OURS}, {"name": "b", "labels": dict(OURS, fabric="bi")}]
        return 200, {"items": [{"metadata": each} for each in rows], "metadata": {}}
    return 404, {}


@pytest.mark.parametrize(("check", "existing", "deleted"), [(False, {"Pool": 2}, {}), (True, {"Pool": 1}, {"Pool": 1})])
def test_check_mode_counts_objects_of_this_fabric_as_deleted(
    check: bool, existing: dict[str, int], deleted: dict[str, int]
) -> None:
    _far, objects = software(served, check)
    assert objects.count([POOL], "managed-by=railyard", OURS) == (existing, deleted)
    assert objects.label_values([POOL], "managed-by=railyard", "fabric") == {"ai", "bi"}


def test_a_namespace_under_deletion_is_awaited_and_then_created() -> None:
    left = [{"metadata": {"name": "rails", "deletionTimestamp": "now"}}] * 2

    def answer(method: str, path: str, query: dict[str, str]) -> Answer:
        if path == "/api/v1/namespaces/rails" and method == "GET":
            return (200, left.pop()) if left else (404, {})
        if path == "/api/v1":
            return 200, {"resources": [{"name": "namespaces", "kind": "Namespace", "namespaced": False}]}
        if path == "/version":
            return 200, {"major": "1", "minor": "31"}
        if method == "PATCH":
            assert query["force"] == "false"
            return 409, {"details": {"causes": [_OWNED]}, "message": "conflict"}
        return 200, {"items": [], "metadata": {}}

    far, objects = software(answer)
    with pytest.raises(RailyardError, match="owned by helm. Remedy: .*-e cluster_force=true"):
        objects.create_namespace("rails", {"a": "b"})
    assert left == [] and far.reported == ["waiting for namespace rails, which is being deleted"] * 2


_OWNED = {
    "reason": "FieldManagerConflict",
    "field": ".metadata.labels.a",
    "message": 'conflict with "helm" using v1',
}


def test_a_namespace_that_stays_under_deletion_is_an_error_with_its_reason() -> None:
    condition = {"status": "True", "message": "finalizers remain"}
    found = {"metadata": {"name": "rails", "deletionTimestamp": "now"}, "status": {"conditions": [condition]}}
    _far, objects = software(lambda *_asked: (200, found))
    with pytest.raises(RailyardError, match="the namespace rails is being deleted since 5 s: finalizers remain"):
        objects.create_namespace("rails", {})
