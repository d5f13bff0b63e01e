# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names at their longest, and names of two objects at once: an API server takes them all, and none occurs twice."""

from __future__ import annotations

import collections
import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View, label_value

from . import plans
from .documents import REGISTRY, Document

OPTIONS = {**REGISTRY, "images": {"test": "registry.example/tools/rdma:1.2"}}
PLANS = [("cni", "macvlan", "block"), ("spiderpool", "sriov", "subnet"), ("network-operator", "macvlan", "subnet")]
# As the API server has them.
VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?\Z")
NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")


def label_values(thing: t.Any) -> t.Iterator[str]:
    if isinstance(thing, dict):
        for key, value in thing.items():
            if key in ("labels", "matchLabels", "nodeSelector") and isinstance(value, dict):
                yield from (each for each in value.values() if isinstance(each, str))
            yield from label_values(value)
    elif isinstance(thing, list):
        for each in thing:
            yield from label_values(each)


def longest(provider: str, attachment: str, mode: str) -> Document:
    whole = plans.fabric_file(provider, attachment, mode, (4,))
    fabric, profile, group = "f" * 40, "p" * 40, "g" * 40
    whole["fabric"]["name"] = fabric
    if attachment == "sriov":
        whole["names"] = {"policy": "{rail}-{profile}"}
    whole["profiles"] = {profile: whole["profiles"]["hgx"]}
    other: Document = {
        "cni": {"attachment": "ipvlan"},
        "spiderpool": {"vfs": {"count": 2}},
        "network-operator": {"attachment": "host-device"},
    }[provider]
    whole["groups"] = {group: other}
    if provider == "network-operator":
        whole["fabric"]["pods_per_node"] = 1
    whole["nodes"] = {
        "n-1": {"profile": profile, "rack": "Row 1/2, left"},
        "n-2": {"profile": profile, "groups": [group], "rack": "r" * 80},
    }
    return plans.planned(whole)


@pytest.mark.parametrize(("provider", "attachment", "mode"), PLANS)
def test_the_longest_names_are_accepted(provider: str, attachment: str, mode: str) -> None:
    document = longest(provider, attachment, mode)
    made = list(object_components.objects(document, OPTIONS))
    assert any("g" * 10 in each["metadata"]["name"] for each in made)
    assert [each["metadata"]["name"] for each in made if not NAME.match(each["metadata"]["name"])] == []
    assert [value for value in label_values(made) if not VALUE.match(value)] == []
    labels = object_components.node_labels(document)
    assert [value for own in labels.values() for value in own.values() if not VALUE.match(value)] == []
    assert labels["n-1"]["railyard.fabric/rack"] == "Row-1-2-left"
    assert labels["n-1"]["railyard.fabric/variant"] != labels["n-2"]["railyard.fabric/variant"]
    # pods are found by what their DaemonSets give them
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in made if each["kind"] == "DaemonSet"]
    asked = test_workload.selector(test_workload.names(View(document)))
    assert any(own["app.kubernetes.io/instance"] in asked for own in pods)


def test_shortened_names_stay_distinct() -> None:
    assert label_value("gpu01") == "gpu01"
    one, other = label_value("x" * 70), label_value("x" * 71)
    assert one != other and len(one) == len(other) == 63


def test_a_profile_with_a_group_and_a_profile_of_that_name_are_two_variants() -> None:
    whole = plans.fabric_file("spiderpool", "sriov", "subnet", (4,))
    ports = whole["profiles"]["hgx"]["ports"]
    whole["profiles"]["hgx-few"] = {"ports": {rail: dict(port, netdev="other" + rail) for rail, port in ports.items()}}
    whole["groups"] = {"few": {"vfs": {"count": 2}}}
    whole["nodes"] = {
        "n-1": {"profile": "hgx"},
        "n-2": {"profile": "hgx", "groups": ["few"]},
        "n-3": {"profile": "hgx-few"},
    }
    document = plans.planned(whole)
    variants = {name: own["railyard.fabric/variant"] for name, own in object_components.node_labels(document).items()}
    assert variants == {"n-1": "hgx", "n-2": "hgx-few-2", "n-3": "hgx-few"}
    policies = [each for each in object_components.objects(document) if each["kind"] == "SriovNetworkNodePolicy"]
    count = collections.Counter(each["metadata"]["name"] for each in policies)
    assert len(policies) == 6 and set(count.values()) == {1}
    assert {each["spec"]["numVfs"] for each in policies} == {2, 4}


def without(missing: t.Mapping[str, t.Sequence[str]], nodes: int = 4) -> Document:
    """A fabric whose node ``n-NUMBER`` has no port on these rails."""
    whole = plans.fabric_file("spiderpool", "macvlan", "subnet", (4,))
    whole["nodes"] = {
        name: {"profile": "hgx", **({"ports": dict.fromkeys(missing[name])} if name in missing else {})}
        for name in ("n-%d" % number for number in range(1, nodes + 1))
    }
    return plans.planned(whole)


def test_a_node_without_a_port_changes_no_resource_of_pods() -> None:
    def offered(document: Document) -> list[tuple[str, t.Any]]:
        made = object_components.objects(document, {"injection_groups": [1]})
        return [
            (each["metadata"]["name"], each["metadata"].get("annotations"))
            for each in made
            if each["kind"] == "SpiderMultusConfig"
        ]

    assert offered(without({"n-2": ["gpu02"]})) == offered(without({}))


@pytest.mark.parametrize(
    ("missing", "sets"),
    [
        ({"n-2": ["gpu02"]}, {"ai-rails": ["n-1", "n-3", "n-4"], "ai-rails-hgx-2": ["n-2"]}),
        # most of them: the others are then chosen by name
        ({"n-1": ["gpu02"], "n-2": ["gpu02"], "n-3": ["gpu02"]}, None),
        # no node has all rails: neither set is a part of the other
        (
            {"n-1": ["gpu01"], "n-2": ["gpu02"], "n-3": ["gpu02"], "n-4": ["gpu02"]},
            {"ai-rails-hgx": ["n-1"], "ai-rails-hgx-2": ["n-2", "n-3", "n-4"]},
        ),
    ],
)
def test_each_node_has_the_test_pod_of_its_own_rails(
    missing: t.Mapping[str, t.Sequence[str]], sets: dict[str, list[str]] | None
) -> None:
    document = without(missing)
    made = list(object_components.objects(document, OPTIONS))
    daemons = {each["metadata"]["name"]: each for each in made if each["kind"] == "DaemonSet"}
    wanted = test_workload.names(View(document))
    assert list(wanted) == list(daemons) and (sets is None or wanted == sets)
    labels = object_components.node_labels(document)
    for name, daemon in daemons.items():
        spec = daemon["spec"]["template"]["spec"]
        affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [node for node, own in labels.items() if selects(affinity, node, own)] == wanted[name]
        resources = set(spec["containers"][0]["resources"]["requests"])
        for node in wanted[name]:
            assert resources == set(object_components.allocatable(document)[node])


def selects(affinity: Document, node: str, labels: t.Mapping[str, str]) -> bool:
    """As the scheduler has it: one of the terms, with all that is in it."""

    def fits(requirement: Document, value: str | None) -> bool:
        return (value in requirement["values"]) == (requirement["operator"] == "In")

    for term in affinity["nodeSelectorTerms"]:
        fields = term.get("matchFields", [])
        assert all(each["key"] == "metadata.name" and len(each["values"]) == 1 for each in fields)
        if all(fits(each, node) for each in fields) and all(
            fits(each, labels.get(each["key"])) for each in term["matchExpressions"]
        ):
            return True
    return False
