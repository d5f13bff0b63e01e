# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node file of the rail agent, what follows from it for a pod, and the OCI state of a container."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_spec,
    attach_request,
    host_links,
    pod_desired,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from tests.unit.node.agent_files import document, rail, slot
from tests.unit.node.trees import Tree


def spec(*rails: dict[str, t.Any], **values: t.Any) -> agent_spec.AgentSpec:
    return agent_spec.parse_spec(document(*(rails or (rail(1), rail(2))), **values))


def test_a_device_is_a_slot_of_one_rail_or_of_all() -> None:
    held = spec()
    assert {name: [each.id for each in devices] for name, devices in held.resources().items()} == {
        "rails": ["rails-0", "rails-1"],
        "gpu01": ["gpu01-2"],
        "gpu02": ["gpu02-2"],
    }
    device = held.device("rails-1")
    assert device and {name: str(each.address) for name, each in device.slots.items()} == {
        "gpu01": "172.16.11.2/24",
        "gpu02": "172.16.12.2/24",
    }
    assert held.device("gpu02-2") and not held.device("gpu02-3") and not held.device("gpu02-0")
    single = held.device("gpu02-2")
    assert single and single.slots == {"gpu02": held.rail("gpu02").slots[2]}


def test_a_resource_without_slots_is_not_offered() -> None:
    assert list(spec(rail(1, slots=[slot(1, 0, "gpu01")])).resources()) == ["gpu01"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format is 2, and this agent reads format 1"),
        ({"attachment": "host"}, "attachment is 'host', not one of macvlan, ipvlan, ipoib, sriov, ib-sriov"),
        ({"rails": [rail(1), rail(1)]}, "rail gpu01 occurs several times"),
        ({"rails": [rail(1), rail(2, interface="net1")]}, "interface net1 occurs several times"),
        ({"rails": [rail(1, slots=[slot(1, 0, "rails"), slot(1, 0, "gpu01")])]}, "172.16.11.1, fd00:11::1 occurs"),
        ({"rails": [rail(1, slots=[slot(1, 0, "rails", address="172.16.11.1/40")])]}, "a value is missing or wrong"),
        ({"rails": [{"rail": "gpu01"}]}, "a value is missing or wrong: KeyError('number')"),
        ({"rails": 3}, "a value is missing or wrong"),
    ],
)
def test_a_wrong_node_file_is_refused(change: dict[str, t.Any], message: str) -> None:
    with pytest.raises(RailyardError) as caught:
        agent_spec.parse_spec(dict(document(rail(1)), **change))
    assert message in caught.value.message
    assert (caught.value.place, caught.value.remedy) == (agent_spec.FILE, agent_spec.REMEDY)


def test_metrics_are_on_unless_the_node_file_turns_them_off() -> None:
    assert [spec().metrics, spec(metrics=None).metrics] == ["127.0.0.1:9465", None]
    assert (spec().gateway_check, spec(gateway_check=True).gateway_check) == (False, True)


def test_a_missing_or_truncated_node_file_is_refused(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with pytest.raises(RailyardError, match="the node file of the rail agent does not exist"):
        agent_spec.read_spec(tree.system())
    text = json.dumps(document(rail(1)))
    tree.write(agent_spec.FILE, text[:-9])
    with pytest.raises(RailyardError, match="is not JSON"):
        agent_spec.read_spec(tree.system())
    tree.write(agent_spec.FILE, text)
    assert agent_spec.read_spec(tree.system()) == spec(rail(1))


def routes(held: agent_spec.AgentSpec, number: int = 0) -> list[tuple[str, str, int]]:
    each = held.rails[0]
    found = pod_desired.routes(each, each.slots[number], 4)
    return [(str(route.destination), str(route), route.table) for route in found]


def test_a_pod_has_the_routes_of_the_families_that_it_has_addresses_of() -> None:
    to = [
        {"to": "172.16.0.0/16", "via": "172.16.11.254", "table": None},
        {"to": "0.0.0.0/0", "via": "172.16.11.254", "table": 101},
        {"to": "fd00::/16", "via": "fd00:11::fe", "table": 300},
    ]
    assert routes(spec(rail(1, routes=to))) == [
        ("172.16.11.0/24", "link", 101),
        ("0.0.0.0/0", "via 172.16.11.254", 101),
        ("fd00:11::/64", "link", 101),
        ("::/0", "via fd00:11::fe", 101),
        ("172.16.0.0/16", "via 172.16.11.254", 254),
        ("fd00::/16", "via fd00:11::fe", 300),
    ]
    only4 = rail(1, routes=to, slots=[slot(1, 0, "rails", address6=None)])
    assert [each[0] for each in routes(spec(only4))] == ["172.16.11.0/24", "0.0.0.0/0", "172.16.0.0/16"]
    assert pod_desired.rules(spec(only4).rails[0], spec(only4).rails[0].slots[0])[0].selector == "from 172.16.11.1"
    without = spec(rail(1, routes=to, table=None, rule_priority=None, gateway=None, gateway6=None))
    assert [each[2] for each in routes(without)] == [254, 101, 300]
    assert pod_desired.rules(without.rails[0], without.rails[0].slots[0]) == []


def test_a_rail_without_ipv6_ignores_router_advertisements() -> None:
    held = spec(rail(1, sysctl={}), rail(2, sysctl={}, slots=[slot(2, 0, "rails", address6=None)]))
    assert [pod_desired.sysctls(each, each.slots[0]) for each in held.rails] == [
        [
            ("/proc/sys/net/ipv6/conf/net1/disable_ipv6", "0", True),
            ("/proc/sys/net/ipv6/conf/net1/accept_ra", "0", True),
        ],
        [("/proc/sys/net/ipv6/conf/net2/accept_ra", "0", False)],
    ]


def test_names_fit_the_kernel() -> None:
    # random, so that a pod cannot have an interface of this name
    assert host_links.temporary() != host_links.temporary()
    assert len(host_links.temporary()) == 15
    assert pod_desired.soft_device(spec(rail(1, rdma_type="rxe")).rails[0], "4f1b" * 16) == "rxe_4f1b4f1b-net1"


CONTAINERD = {
    "io.kubernetes.cri.sandbox-id": "4f1b",
    "io.kubernetes.cri.sandbox-uid": "uid",
    "io.kubernetes.cri.sandbox-name": "train-0",
    "io.kubernetes.cri.sandbox-namespace": "ai",
    "io.kubernetes.cri.container-name": "main",
}
CRIO = {
    "io.kubernetes.cri-o.SandboxID": "4f1b",
    "io.kubernetes.pod.uid": "uid",
    "io.kubernetes.pod.name": "train-0",
    "io.kubernetes.pod.namespace": "ai",
    "io.kubernetes.container.name": "main",
}


@pytest.mark.parametrize("annotations", [CONTAINERD, CRIO])
def test_both_runtimes_name_the_pod(annotations: dict[str, str]) -> None:
    pod = attach_request.read_pod({"pid": 4711, "annotations": annotations}, "device rails-0")
    assert pod == (4711, "uid", "train-0", "ai", "main", "4f1b")
    assert str(pod) == "ai/train-0"


BUNDLES = {
    "containerd": "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/4f1b",
    "CRI-O": "/run/containers/storage/overlay-containers/4f1b/userdata",
}


@pytest.mark.parametrize("runtime", BUNDLES)
@pytest.mark.parametrize("left_out", ["", "uid", "name", "namespace"])
def test_the_author_of_a_pod_cannot_name_another_pod(runtime: str, left_out: str) -> None:
    """CRI-O passes the annotations of pods to its hooks, and containerd if it is configured to."""
    own, others = (CONTAINERD, CRIO) if runtime == "containerd" else (CRIO, CONTAINERD)
    forged = {key: "f0" for key in others}
    runtimes = {key: value for key, value in own.items() if not left_out or not key.endswith(left_out)}
    state = {"pid": 4711, "bundle": BUNDLES[runtime], "annotations": {**forged, **runtimes}}
    assert "f0" not in attach_request.read_pod(state, "device rails-0")
    # only an OCI runtime that breaks its specification does not name the bundle
    for bundle in (None, "", "/somewhere", 7):
        with pytest.raises(AttachError, match="sandboxes of containerd and CRI-O") as caught:
            attach_request.read_pod(dict(state, bundle=bundle), "device rails-0")
        assert caught.value.reason == "state"
    # the runtime's own sandbox is missing
    with pytest.raises(AttachError, match="it does not name the pod's sandbox"):
        attach_request.read_pod(dict(state, annotations=forged), "device rails-0")


@pytest.mark.parametrize("sandbox", ["", "a b", "a\nb", "../x", "a" * 65, None, ["x"]])
def test_a_sandbox_that_is_not_an_id_is_refused(sandbox: t.Any) -> None:
    annotations = dict(CONTAINERD, **{"io.kubernetes.cri.sandbox-id": sandbox})
    with pytest.raises(AttachError, match="it does not name the pod's sandbox"):
        attach_request.read_pod({"pid": 9, "annotations": annotations}, "device rails-0")


def test_every_reason_has_a_sentence_and_a_remedy() -> None:
    words = {
        "claim",
        "detail",
        "pid",
        "pod",
        "port",
        "interface",
        "address",
        "macs",
        "gateway",
        "rdma",
        "addresses",
        "missing",
        "files",
    }
    for reason in attach_request.TEXTS:
        text = str(AttachError(reason, "slot 0 of rail gpu01", **{word: "X" for word in words}))
        assert text.startswith("slot 0 of rail gpu01: ") and ". Remedy: " in text and "{" not in text
