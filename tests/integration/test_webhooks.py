# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spiderpool's webhooks on a real API server: what they answer, and that the plan's objects are taken unchanged."""

from __future__ import annotations

import os
import threading
import typing as t

import pytest
from kubernetes.client.exceptions import ApiException

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import compare_objects
from tests.integration.cluster import Cluster, Object
from tests.integration.webhooks import StartController
from tests.random_fabric import FabricFile
from tests.standins import spiderpool
from tests.standins.admission import Controller
from tests.standins.spiderpool import Settings
from tests.unit.kube.test_spiderpool_webhooks import network, pool, reserved


def refusal(cluster: Cluster, wanted: Object, **more: t.Any) -> str:
    with pytest.raises(ApiException) as caught:
        cluster.apply(wanted, **more)
    return str(caught.value.body)


def test_objects_are_changed_and_refused_as_by_spiderpool(cluster: Cluster, spiderpool_controller: Controller) -> None:
    found = cluster.apply(pool())
    assert found["metadata"]["finalizers"] == ["spiderpool.spidernet.io"]
    assert found["metadata"]["labels"] == {"ipam.spidernet.io/ippool-cidr": "172.16.11.0-24".replace(".", "-")}
    assert 'admission webhook \\"spiderippool.spiderpool.spidernet.io\\" denied the request' in refusal(
        cluster, pool("other")
    )
    assert "is not changeable" in refusal(cluster, pool(subnet="172.16.12.0/24", ips=[]))
    merged = cluster.apply(reserved("172.16.11.5-172.16.11.9", "172.16.11.1-172.16.11.4"))
    assert merged["spec"]["ips"] == ["172.16.11.1-172.16.11.9"]
    assert "must be no more than 63" in refusal(cluster, network(group="g" * 64))
    assert cluster.apply(network())["metadata"]["labels"] == {"cni.spidernet.io/rdma-resource-inject": "ai"}
    ways = {(way, kind) for way, kind, _operation, _name, _dry in spiderpool_controller.requests}
    assert ways == {(way, kind) for way in ("mutate", "validate") for kind in spiderpool.KINDS}


def test_a_dry_run_is_checked_by_webhooks_too(cluster: Cluster, start_spiderpool: StartController) -> None:
    controller = start_spiderpool(Settings(ipv6=False))
    six = reserved("fd00::1", version=6)
    assert "IPv6 is disabled" in refusal(cluster, six, dry_run=True)
    assert {dry for _way, _kind, _operation, _name, dry in controller.requests} == {True}
    assert cluster.get(six) is None


def test_a_pool_is_deleted_when_no_pod_has_an_address(cluster: Cluster, spiderpool_controller: Controller) -> None:
    wanted = pool()
    cluster.apply(wanted)
    cluster.kubectl("delete", "spiderippool/ai-gpu01", "--timeout=180s")
    assert cluster.get(wanted) is None


def test_a_list_that_is_too_long_gets_no_answer(cluster: Cluster, spiderpool_controller: Controller) -> None:
    large = reserved("fd00:2::-fd00:2::ffff:ffff", "fd00:3::-fd00:3::ffff:ffff", version=6)
    assert "failed calling webhook" in refusal(cluster, large)


def test_latency_grows_with_those_that_ask_at_once(cluster: Cluster, start_spiderpool: StartController) -> None:
    asked: list[int] = []
    gate = threading.Barrier(2, timeout=180)

    def latency(in_flight: int) -> float:
        asked.append(in_flight)
        gate.wait()
        return 0.0

    controller = start_spiderpool()
    controller.latency = latency
    threads = [
        threading.Thread(target=cluster.apply, args=(pool(name, subnet=net, ips=[]),))
        for name, net in (("one", "10.1.0.0/24"), ("two", "10.2.0.0/24"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asked) == [1, 2] and controller.most == 2


def accepted() -> t.Iterator[t.Any]:
    """The first random files for Spiderpool that lint takes: as many as ``RAILYARD_RANDOM_CLUSTERS`` (4)."""
    number = int(os.environ.get("RAILYARD_RANDOM_FIRST", "0"))
    count = int(os.environ.get("RAILYARD_RANDOM_CLUSTERS", "4"))
    while count:
        file = FabricFile(number)
        plan = lint(file.text.encode("utf-8")).plan if file.provider == "spiderpool" else None
        if plan and not file.options.get("dpdk"):
            yield pytest.param(plan, file.options, id=str(number))
            count -= 1
        number += 1


@pytest.mark.parametrize(("plan", "options"), list(accepted()))
def test_random_plans_are_accepted(
    cluster: Cluster, namespace: str, spiderpool_controller: Controller, plan: Plan, options: Object
) -> None:
    document = plan.document()
    spiderpool_controller.settings = Settings.of(object_components.values(document, options)["spiderpool"])
    kinds = {item["spec"]["names"]["kind"] for item in cluster.crds().values()}
    things = [each for each in object_components.objects(document, options) if each["kind"] in kinds]
    for wanted in things:
        if "namespace" in wanted["metadata"]:
            wanted["metadata"]["namespace"] = namespace
        found = cluster.apply(wanted)
        assert compare_objects.differences(wanted, found, "railyard") == [], wanted["metadata"]["name"]
