# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slots that the kubelet gets by a DRA driver: the node file, the objects, and whether a cluster is ready."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD
from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import value_at
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    cluster_ready,
    object_components,
    object_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.replacement_table import RULES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.rail_agent import (
    version_warnings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import slice_devices
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import Row, specs, writes
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState

from .test_slots import Data, document, findings, plan_of, worked

DRA = {"all_rails": 2, "per_rail": 1, "kubelet_plugin": "dra"}
OPTIONS = {"metrics": False}


def dra(**slots: t.Any) -> Data:
    return worked(slots={**DRA, **slots}, pods_per_node=None)


def objects(file: Data, **options: t.Any) -> dict[tuple[str, str], Data]:
    made = object_components.objects(document(file), {**OPTIONS, **options})
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def test_the_node_file_names_the_driver_and_its_kubeconfig() -> None:
    file = dra(kubeconfig="/etc/railyard/kubeconfig")
    plan = document(file)
    spec = parse_spec(plan["nodes"][0]["agent"])
    assert (spec.kubelet_plugin, spec.kubeconfig) == ("dra", "/etc/railyard/kubeconfig")
    assert [rail.leaf for rail in spec.rails] == [port["leaf"]["name"] for port in plan["nodes"][0]["ports"]]
    assert document(yaml.safe_load(write(plan_of(file).fabric))) == plan
    assert parse_spec(document(worked())["nodes"][0]["agent"]).kubelet_plugin == "device-plugin"


def test_nodes_of_a_group_may_have_the_driver_first() -> None:
    file = worked(slots={"all_rails": 2, "per_rail": 1}, pods_per_node=None)
    file["groups"] = {"moved": {"slots": {"kubelet_plugin": "dra"}}}
    file["nodes"] = {"node-1": {"profile": "guest", "groups": ["moved"]}, "node-2": {"profile": "guest"}}
    plan = document(file)
    assert [node["agent"]["kubelet_plugin"] for node in plan["nodes"]] == ["dra", "device-plugin"]
    slots = [[rail["slots"] for rail in node["agent"]["rails"]] for node in plan["nodes"]]
    assert [len(each) for rails in slots for each in rails] == [3] * 16
    # the workload must start on both: by limits, which both serve
    made = objects(file, images={"test": "registry.example/test:1"})
    ((_key, workload),) = [each for each in made.items() if each[0][0] == "DaemonSet"]
    assert workload["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {
        "railyard.fabric/rails": "1"
    }
    assert ("DeviceClass", "rails.railyard.fabric") in made


@pytest.mark.parametrize(
    ("fabric", "own", "expected"),
    [
        ({"kubelet_plugin": "dra", "kubeconfig": "/k"}, {"kubelet_plugin": "device-plugin", "kubeconfig": None}, "dp"),
        ({"kubelet_plugin": "dra"}, {"kubelet_plugin": None}, "dp"),
        ({"kubelet_plugin": "dra", "kubeconfig": "/k"}, {"kubeconfig": None}, "dra"),
    ],
)
@pytest.mark.parametrize("section", ["groups", "profiles"])
def test_null_removes_what_the_fabric_sets(section: str, fabric: Data, own: Data, expected: str) -> None:
    file = worked(slots={"all_rails": 2, "per_rail": 1, **fabric}, pods_per_node=None)
    file["nodes"] = {"node-1": {"profile": "guest"}, "node-2": {"profile": "guest"}}
    if section == "groups":
        file["groups"] = {"changed": {"slots": own}}
        file["nodes"]["node-1"]["groups"] = ["changed"]
    else:
        file["profiles"] = {**file["profiles"], "changed": {**file["profiles"]["guest"], "slots": own}}
        file["nodes"]["node-1"]["profile"] = "changed"
    assert findings(file) == []
    plan = document(file)
    changed, other = (parse_spec(node["agent"]) for node in plan["nodes"])
    assert (changed.kubelet_plugin, changed.kubeconfig) == ("dra" if expected == "dra" else "device-plugin", None)
    assert (other.kubelet_plugin, other.kubeconfig) == ("dra", fabric.get("kubeconfig"))
    # the file that discover and import write
    assert document(yaml.safe_load(write(plan_of(file).fabric))) == plan


def test_null_removes_the_number_of_slots() -> None:
    file = worked(slots={"all_rails": 2, "per_rail": 1}, pods_per_node=2)
    file["groups"] = {"changed": {"slots": {"all_rails": None, "per_rail": None}}}
    file["nodes"] = {"node-1": {"profile": "guest", "groups": ["changed"]}, "node-2": {"profile": "guest"}}
    slots = [len(node["agent"]["rails"][0]["slots"]) for node in document(file)["nodes"]]
    assert slots == [2, 3]


def test_device_plugins_need_no_objects() -> None:
    assert objects(worked()) == {}


def test_a_class_for_each_resource_and_templates() -> None:
    made = objects(dra(), workload_namespace="training")
    rails = ["gpu%02d" % number for number in range(1, 9)]
    assert [name for kind, name in made if kind == "DeviceClass"] == [
        "%s.railyard.fabric" % each for each in ["rails", *rails]
    ]
    assert made["DeviceClass", "gpu02.railyard.fabric"]["spec"] == {
        "selectors": [
            {
                "cel": {
                    "expression": 'device.driver == "railyard.fabric" && '
                    'device.attributes["railyard.fabric"].resource == "gpu02"'
                }
            }
        ],
        "extendedResourceName": "railyard.fabric/gpu02",
    }
    without = objects(dra(), extended_resources=False)["DeviceClass", "gpu02.railyard.fabric"]["spec"]
    assert set(without) == {"selectors"}
    assert "extended_resources to false" in version_warnings(made.values(), (1, 35))[0]
    assert version_warnings(made.values(), (1, 36)) == version_warnings([{"spec": without}], (1, 35)) == []
    templates = {name: each for (kind, name), each in made.items() if kind == "ResourceClaimTemplate"}
    assert list(templates) == ["lab-agent-rails", "lab-agent-each-rail", "lab-agent-each-rail-any-slot"]
    assert {each["metadata"]["namespace"] for each in templates.values()} == {"training"}
    each_rail = templates["lab-agent-each-rail"]["spec"]["spec"]["devices"]
    assert [request["name"] for request in each_rail["requests"]] == rails
    assert each_rail["requests"][0]["exactly"] == {
        "deviceClassName": "gpu01.railyard.fabric",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert each_rail["constraints"] == [{"matchAttribute": "railyard.fabric/slot", "requests": rails}]
    # Kueue refuses claims with constraints or settings
    for name in ("lab-agent-rails", "lab-agent-each-rail-any-slot"):
        assert set(templates[name]["spec"]["spec"]["devices"]) == {"requests"}
    assert len(templates["lab-agent-rails"]["spec"]["spec"]["devices"]["requests"]) == 1
    files = object_files.render(document(dra()), OPTIONS)
    assert "agent/deviceclass-gpu01.yaml" in files and "agent/resourceclaimtemplate.yaml" in files


def test_a_template_with_another_rail_is_replaced() -> None:
    """Its spec is immutable in Kubernetes."""
    before = objects(dra())["ResourceClaimTemplate", "lab-agent-each-rail"]
    after = copy.deepcopy(before)
    del after["spec"]["spec"]["devices"]["requests"][-1]
    (path,) = RULES[before["apiVersion"], before["kind"]].immutable
    assert value_at(before, path) != value_at(after, path) and value_at(before, path)["requests"]


@pytest.mark.parametrize(
    ("slots", "template"),
    [({}, "lab-agent-rails"), ({"all_rails": 0}, "lab-agent-each-rail")],
)
def test_the_workload_has_a_claim(slots: Data, template: str) -> None:
    made = objects(dra(**slots), images={"test": "registry.example/test:1"})
    ((_key, workload),) = [each for each in made.items() if each[0][0] == "DaemonSet"]
    pod = workload["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "rails", "resourceClaimTemplateName": template}]
    assert pod["containers"][0]["resources"] == {"claims": [{"name": "rails"}]}
    assert ("ResourceClaimTemplate", template) in made


def published(plan: Data, down: t.Collection[str] = ()) -> dict[cluster_ready.Name, Row]:
    """The ResourceSlices that the agents of a plan's nodes publish."""
    found = {}
    for node in plan["nodes"]:
        spec = parse_spec(node["agent"])
        states = {
            device.id: DeviceState(device.id, not set(down) & set(device.slots), ())
            for devices in spec.resources().values()
            for device in devices
        }
        own = slice_devices(System("/nonexistent"), spec, states)
        for each in writes(specs(spec.resource_prefix, spec.node, own), [], None).created:
            found["ResourceSlice", "", each["metadata"]["name"]] = each
    return found


def test_a_cluster_is_ready_when_its_slices_have_every_device() -> None:
    plan = document(dra())
    made = list(object_components.objects(plan, OPTIONS))
    goal = cluster_ready.Goal(plan, OPTIONS, made)
    assert goal.beside() == {("resource.k8s.io/v1", "ResourceSlice")}
    nodes: dict[str, Data] = {
        name: {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        for name in ("node-1", "node-2")
    }
    own = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in made}
    other = {"spec": {"driver": "gpu.example.com", "nodeName": "node-1", "pool": {"generation": 9}, "devices": [{}]}}
    live = {**own, **published(plan), ("ResourceSlice", "", "gpu"): other}
    assert goal.missing(nodes, live) == [] and goal.reached(nodes, live) == goal.resources == 18
    # a rail that is down, and a node without its driver
    live.update(published(plan, ["gpu02"]))
    for name in [name for name in live if name[0] == "ResourceSlice" and name[2].startswith("node-2")]:
        del live[name]
    found = goal.missing(nodes, live)
    assert [(each.subject, each.what) for each in found] == [
        ("node-1", "reports 0 of 2 railyard.fabric/rails (all rails)"),
        ("node-1", "reports 0 of 1 railyard.fabric/gpu02 (rail gpu02)"),
        ("node-2", "reports none of its 9 rails' resources"),
    ]
    assert "railyard-agent" in found[2].reason


@pytest.mark.parametrize(("label", "missing"), [("gpu02", []), ("gpu01.more", []), ("gpu01", ["gpu02"])])
def test_a_cluster_is_ready_although_verify_has_cordoned_rails(label: str, missing: list[str]) -> None:
    plan = document(dra())
    goal = cluster_ready.Goal(plan, OPTIONS, [])
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    labels = {"node-1": {BAD: label}}
    nodes: dict[str, Data] = {
        name: {"metadata": {"name": name, "labels": labels.get(name, {})}, "status": status}
        for name in ("node-1", "node-2")
    }
    live = published(plan)
    cordoned = published(plan, ["gpu02"])
    live.update({name: each for name, each in cordoned.items() if name[2].startswith("node-1")})
    assert [each.rail for each in goal.missing(nodes, live)] == missing
    assert goal.reached(nodes, live) == goal.resources - len(missing)


def test_findings() -> None:
    assert findings(dra(kubeconfig="relative")) == [("RY841", "fabric.slots.kubeconfig")]
    assert findings(dra(kubelet_plugin="device-plugin", kubeconfig="/x")) == [("RY841", "fabric.slots.kubeconfig")]
    assert [code for code, _place in findings(dra(kubelet_plugin="drax"))] == ["RY114"]
    outcome = lint(yaml.safe_dump(dra(kubelet_plugin="drax"), sort_keys=False).encode())
    assert "dra" in outcome.findings[0].text()
