# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan's partitions as pods get them, and what ib-kubernetes must find."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import HostRange

from . import plans, schema, webhooks
from .documents import REGISTRY


def planned(provider: str, keys: str = "", attachment: str = "ib-sriov", **fabric: t.Any) -> dict[str, t.Any]:
    whole = plans.fabric_file(provider, attachment, "prefix", (4,))
    whole["fabric"].update(fabric)
    if keys:
        whole["fabric"]["infiniband"] = {"pkeys": keys.split()}
    return plans.planned(whole)


def networks(plan: dict[str, t.Any], **options: t.Any) -> list[dict[str, t.Any]]:
    """The networks, each taken by upstream's schemas and webhooks."""
    things = list(object_components.objects(plan, dict(REGISTRY, **options)))
    assert [problem for each in things for problem in schema.problems(each)] == []
    assert webhooks.problems(things) == []
    kinds = ("SpiderMultusConfig", "SriovIBNetwork", "NetworkAttachmentDefinition")
    return [each for each in things if each["kind"] in kinds]


@pytest.mark.parametrize(
    ("keys", "options", "expected"),
    [
        ("", {}, None),
        ("0x8001", {}, "0x0001"),
        ("0x1234", {"ufm_secret": "ufm"}, "0x1234"),
        ("0x8001 0x8002", {}, None),
        ("0x8001 0x8002", {"pkey": "0x2", "ufm_secret": "ufm"}, "0x0002"),
        ("0x8001", {"pkey": "0x7fff"}, "0x7fff"),
        ("", {"pkey": "0x0005"}, "0x0005"),
    ],
)
def test_spiderpools_networks_carry_the_plans_key(keys: str, options: dict[str, t.Any], expected: str | None) -> None:
    found = networks(planned("spiderpool", keys), **options)
    assert len(found) >= 2 and {each["spec"]["ibsriov"].get("pkey") for each in found} == {expected}


def tenants(provider: str, first: list[str], second: list[str]) -> dict[str, t.Any]:
    """Three nodes, the last of another tenant."""
    whole = plans.fabric_file(provider, "ib-sriov", "prefix", (4,))
    whole["groups"] = {"a": {"infiniband": {"pkeys": first}}, "b": {"infiniband": {"pkeys": second}}}
    names = list(HostRange(next(iter(whole["nodes"]))))
    entry = {key: value for key, value in next(iter(whole["nodes"].values())).items() if key != "index"}
    whole["nodes"] = {
        name: dict(entry, index=at, groups=["b" if at == len(names) else "a"]) for at, name in enumerate(names, 1)
    }
    return plans.planned(whole)


@pytest.mark.parametrize(
    ("first", "second", "options", "expected"),
    [
        (["0x8001"], ["0x8002"], {}, None),
        (["0x8001"], [], {}, None),
        (["0x8001"], ["0x8001"], {}, "0x0001"),
        (["0x8001"], ["0x8002"], {"pkey": "0x2", "ufm_secret": "ufm"}, "0x0002"),
    ],
)
def test_a_network_carries_a_key_that_all_nodes_have(
    first: list[str], second: list[str], options: dict[str, t.Any], expected: str | None
) -> None:
    found = networks(tenants("spiderpool", first, second), **options)
    assert len(found) >= 2 and {each["spec"]["ibsriov"].get("pkey") for each in found} == {expected}


def test_ib_kubernetes_does_not_put_pods_into_another_tenants_partition() -> None:
    with pytest.raises(RailyardError, match="not all nodes have 0x0001"):
        networks(tenants("spiderpool", ["0x8001"], []), ufm_secret="ufm")


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator"])
@pytest.mark.parametrize(
    ("keys", "options", "place", "words"),
    [
        ("0x8001", {"pkey": "0x0002"}, "kubernetes.pkey", "0x0002 is not one of the plan's partitions (0x0001)"),
        ("0x8001 0x8002", {}, "fabric.infiniband.pkeys", "the plan has 2 (0x0001, 0x0002)"),
    ],
)
def test_a_key_that_is_not_planned_or_one_of_several_is_reported(
    provider: str, keys: str, options: dict[str, t.Any], place: str, words: str
) -> None:
    with pytest.raises(RailyardError) as caught:
        networks(planned(provider, keys), ufm_secret="ufm", **options)
    assert caught.value.place == place and words in str(caught.value)


def test_the_operators_networks_isolate_and_carry_the_key() -> None:
    found = networks(planned("network-operator", "0x8001"), ufm_secret="ufm")
    assert [each["metadata"]["name"] for each in found] == ["gpu01-ib-sriov", "gpu02-ib-sriov"]
    first = found[0]
    assert first["kind"] == "NetworkAttachmentDefinition" and first["metadata"]["namespace"] == "default"
    assert first["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/gpu01_ib_sriov"}
    conf = json.loads(first["spec"]["config"])
    assert conf["name"] == "gpu01-ib-sriov"
    assert [each["type"] for each in conf["plugins"]] == ["ib-sriov", "tuning", "sbr"]
    assert conf["plugins"][0] == {
        "type": "ib-sriov",
        "link_state": "enable",
        "rdmaIsolation": True,
        "ibKubernetesEnabled": True,
        "capabilities": {"infinibandGUID": True},
        "pkey": "0x0001",
        "ipam": {"type": "nv-ipam", "poolName": "ai-gpu01", "poolType": "cidrpool"},
    }


def test_the_operators_own_kind_serves_what_it_has_fields_for() -> None:
    """In the rdma mode shared every pod sees all devices, so that nothing is to be moved."""
    shared = networks(planned("network-operator", "0x8001", rdma_mode="shared"))
    assert [each["kind"] for each in shared] == ["SriovIBNetwork"] * 2
    exclusive = networks(planned("network-operator", "0x8001"))
    plugin = json.loads(exclusive[0]["spec"]["config"])["plugins"][0]
    assert plugin["rdmaIsolation"] is True and "pkey" not in plugin and "ibKubernetesEnabled" not in plugin


def test_an_error_reports_that_pods_on_ipoib_have_the_ports_own_key() -> None:
    for provider in ("spiderpool", "network-operator"):
        whole = plans.fabric_file(provider, "ipoib", "prefix", (4,))
        assert lint(json.dumps(whole).encode()).findings == []
        whole["fabric"]["infiniband"] = {"pkeys": ["0x8001"]}
        found = lint(json.dumps(whole).encode()).findings
        assert [(each.code, each.place) for each in found] == [("RY544", "fabric.infiniband.pkeys")]
        masters = [
            each["spec"].get("master") or each["spec"]["ipoib"]["master"]
            for each in object_components.objects(plans.planned(whole), REGISTRY)
            if each["kind"] in ("SpiderMultusConfig", "IPoIBNetwork")
        ]
        assert set(masters) == {"ibp11s0", "ibp12s0"}


def test_ib_kubernetes_secret_is_asked_for_where_the_operator_runs_it() -> None:
    plan = planned("network-operator", "0x8001")
    assert object_components.secrets(plan) == []
    (secret,) = object_components.secrets(plan, {"ufm_secret": "ufm"})
    assert secret == ("nvidia-network-operator", "ufm", ("UFM_USERNAME", "UFM_PASSWORD", "UFM_ADDRESS"))
    assert object_components.secrets(planned("spiderpool", "0x8001"), {"ufm_secret": "ufm"}) == []
