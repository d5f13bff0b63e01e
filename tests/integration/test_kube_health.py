# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reports of the health service on a real API server, and the rights of docs/health-rights.yml."""

from __future__ import annotations

import copy
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.node_reports import (
    CONDITION,
    TAINT,
    NodeObject,
    Report,
)
from lab.cluster.api import Api
from tests.integration.cluster import Cluster, Object
from tests.playbook import ROOT

NODE = "node-1"
PATH = "/api/v1/nodes/" + NODE
MERGE = "application/merge-patch+json"
BAD = Report(("False", "RailsFail", "gpu02: fail RV402 rail-link-down"), True)
GOOD = Report(("True", "RailsPass", "8 rails pass"), False)
OTHER = {"key": "example.com/other", "value": "x", "effect": "NoExecute"}


@pytest.fixture
def server(cluster: Cluster) -> t.Iterator[ApiServer]:
    """The client of the service, with the lab's kubeconfig, and a Node with a taint of another program."""
    with Api(cluster.running) as admin:
        admin.request("PATCH", PATH, {"spec": {"taints": [OTHER]}}, MERGE)
    yield ApiServer(System(), str(cluster.kubeconfig))
    with Api(cluster.running) as admin:
        admin.request("PATCH", PATH, {"spec": {"taints": None}}, MERGE)


def conditions(node: Object) -> dict[str, Object]:
    return {row["type"]: row for row in node["status"].get("conditions") or []}


def taints(node: Object) -> list[str]:
    return [row["key"] for row in node["spec"].get("taints") or []]


def test_condition_and_taint_come_and_go(server: ApiServer) -> None:
    reported = NodeObject(server, NODE)
    before = server.request("GET", PATH)
    now = time.time()
    reported.apply(BAD, now)
    node = server.request("GET", PATH)
    assert conditions(node)[CONDITION]["status"] == "False" and taints(node) == [OTHER["key"], TAINT]
    began = conditions(node)[CONDITION]["lastTransitionTime"]
    reported.apply(BAD, now + 300)
    node = server.request("GET", PATH)
    assert conditions(node)[CONDITION]["lastTransitionTime"] == began
    assert conditions(node)[CONDITION]["lastHeartbeatTime"] != began
    reported.apply(GOOD, now + 600)
    node = server.request("GET", PATH)
    assert conditions(node)[CONDITION]["status"] == "True" and taints(node) == [OTHER["key"]]
    reported.apply(BAD, now)
    reported.withdraw(True, True)
    node = server.request("GET", PATH)
    assert conditions(node).keys() == conditions(before).keys() and node["spec"] == before["spec"]


def test_a_change_of_another_program_is_not_lost(cluster: Cluster, server: ApiServer) -> None:
    stale = server.request("GET", PATH)
    with Api(cluster.running) as admin:
        admin.request("PATCH", PATH, {"spec": {"taints": [OTHER, dict(OTHER, key="example.com/new")]}}, MERGE)

    class Late(ApiServer):
        """Answers the first request with the Node before the change."""

        def request(self, method: str, *rest: t.Any, **more: t.Any) -> Object:
            return copy.deepcopy(stale) if method == "GET" else server.request(method, *rest, **more)

    with pytest.raises(ApiError) as caught:
        NodeObject(Late(System()), NODE).apply(Report(None, True), time.time())
    assert caught.value.status == 409
    assert taints(server.request("GET", PATH)) == [OTHER["key"], "example.com/new"]


def test_a_node_that_does_not_exist(server: ApiServer) -> None:
    absent = NodeObject(server, "node-9")
    with pytest.raises(ApiError):
        absent.apply(GOOD, time.time())
    absent.withdraw(True, True)


def test_the_rights_are_those_that_the_reports_need(cluster: Cluster, server: ApiServer) -> None:
    user = "--as=system:serviceaccount:kube-system:railyard-health"
    rights = str(ROOT / "docs" / "health-rights.yml")
    cluster.kubectl("apply", "-f", rights)
    try:
        for words in (("get", "nodes"), ("patch", "nodes"), ("patch", "nodes", "--subresource=status")):
            assert cluster.kubectl("auth", "can-i", *words, user)
        with pytest.raises(AssertionError, match="no"):
            cluster.kubectl("auth", "can-i", "delete", "nodes", user)
    finally:
        cluster.kubectl("delete", "-f", rights)
    assert server.request("GET", PATH)
