# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology for schedulers: labels of nodes, Kueue's Topology and ResourceFlavor, Volcano's HyperNodes."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    object_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text
from tests.upstream import ROOT

from . import schema
from .documents import REGISTRY, Document, document

BOTH: t.Mapping[str, t.Any] = {**REGISTRY, "schedulers": ["kueue", "volcano"]}
L = "railyard.fabric/"


class Place(t.NamedTuple):
    """Where a node is; a domain is an NVLink domain."""

    unit: str | None = None
    domain: str | None = None
    site: str | None = None
    profile: str = "hgx"


def plan(*places: Place) -> Document:
    """A plan with a node for each place."""
    made = document("cni", "macvlan", "block", nodes=len(places))
    for node, place in zip(made["nodes"], places):
        node.update(unit=place.unit, site=place.site, profile=place.profile)
        if place.domain:
            node["nvlink_domain"] = place.domain
    return made


def of_kind(made: Document, kind: str, options: t.Mapping[str, t.Any] = BOTH) -> dict[str, t.Any]:
    """Return name -> spec of the objects of a kind, which the published schema accepts."""
    found = [each for each in object_components.objects(made, options) if each["kind"] == kind]
    assert [problem for each in found for problem in schema.problems(each)] == []
    assert len({each["metadata"]["name"] for each in found}) == len(found)
    return {each["metadata"]["name"]: each["spec"] for each in found}


def levels(made: Document) -> dict[str, list[str]]:
    return {
        name: [level["nodeLabel"].replace(L, "") for level in spec["levels"]]
        for name, spec in of_kind(made, "Topology").items()
    }


UNITS = (Place("su1"), Place("su1"), Place("su2"))
DOMAINS = (Place("su1", "r1"), Place("su1", "r2"), Place("su2", "r3"))


def test_without_the_option_nothing_changes() -> None:
    made = plan(*UNITS)
    assert {each["kind"] for each in object_components.objects(made, REGISTRY)}.isdisjoint(
        {"Topology", "ResourceFlavor", "HyperNode"}
    )
    assert {key for own in object_components.node_labels(plan(Place("su1", None, "ams"))).values() for key in own} == {
        L + key for key in ("fabric", "profile", "variant", "unit")
    }


def test_nodes_get_the_labels_of_all_levels() -> None:
    labels = object_components.node_labels(plan(Place("su1", "r1", "Row 1"), Place("su1")), BOTH)
    first, second = labels.values()
    assert (first[L + "site"], first[L + "unit"], first[L + "nvlink-domain"]) == ("Row-1", "su1", "r1")
    assert {L + "site", L + "nvlink-domain"}.isdisjoint(second)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (UNITS, ["unit", "kubernetes.io/hostname"]),
        (DOMAINS, ["unit", "nvlink-domain", "kubernetes.io/hostname"]),
        ((Place("su1", "r1", "ams"), Place("su2", "r2", "fra")), ["site", "unit", "nvlink-domain"]),
        # a level that a node of the profile does not have would exclude the node
        ((Place("su1", "r1"), Place("su1")), ["unit", "kubernetes.io/hostname"]),
        ((Place(), Place()), ["kubernetes.io/hostname"]),
    ],
)
def test_kueue_gets_the_levels_that_all_nodes_of_a_profile_have(places: tuple[Place, ...], expected: list[str]) -> None:
    (found,) = levels(plan(*places)).values()
    assert found[: len(expected)] == expected
    assert found[-1] == "kubernetes.io/hostname"


def test_each_profile_has_a_flavor_with_its_own_levels() -> None:
    made = plan(Place("su1", "r1", profile="gb300"), Place("su1"), Place("su2"))
    assert levels(made) == {
        "ai-gb300": ["unit", "nvlink-domain", "kubernetes.io/hostname"],
        "ai-hgx": ["unit", "kubernetes.io/hostname"],
    }
    flavors = of_kind(made, "ResourceFlavor")
    assert {name: spec["topologyName"] for name, spec in flavors.items()} == {name: name for name in flavors}
    labels = object_components.node_labels(made, BOTH)
    for profile, nodes in (("gb300", 1), ("hgx", 2)):
        wanted = flavors["ai-" + profile]["nodeLabels"].items()
        assert sum(wanted <= own.items() for own in labels.values()) == nodes


def members(made: Document) -> dict[str, set[str]]:
    """HyperNode -> its nodes, resolved as Volcano resolves selectors with the planned labels."""
    labels, nodes = object_components.node_labels(made, BOTH), {}
    hyper = of_kind(made, "HyperNode")
    for name, spec in sorted(hyper.items(), key=lambda each: each[1]["tier"]):
        found: set[str] = set()
        for member in spec["members"]:
            selector = member["selector"]
            if member["type"] == "HyperNode":
                assert hyper[selector["exactMatch"]["name"]]["tier"] < spec["tier"]
                found |= nodes[selector["exactMatch"]["name"]]
            elif "exactMatch" in selector:
                found.add(selector["exactMatch"]["name"])
            else:
                wanted = selector["labelMatch"]["matchLabels"].items()
                found |= {node for node, own in labels.items() if wanted <= own.items()}
        nodes[name] = found
    return nodes


def test_hyper_nodes_are_a_tree_of_the_levels() -> None:
    made = plan(*DOMAINS)
    a, b, c = object_components.node_labels(made)
    assert members(made) == {
        "ai-nvlink-domain-r1": {a},
        "ai-nvlink-domain-r2": {b},
        "ai-nvlink-domain-r3": {c},
        "ai-unit-su1": {a, b},
        "ai-unit-su2": {c},
    }
    tiers = {spec["tierName"]: spec["tier"] for spec in of_kind(made, "HyperNode").values()}
    assert tiers == {"nvlink-domain": 1, "unit": 2}


def test_hyper_nodes_contain_nodes_beside_nvlink_domains() -> None:
    made = plan(Place("su1", "r1"), Place("su1"), Place("su1"))
    a, b, c = object_components.node_labels(made)
    assert members(made) == {"ai-nvlink-domain-r1": {a}, "ai-unit-su1": {a, b, c}}


def test_a_domain_in_two_units_is_two_hyper_nodes() -> None:
    made = plan(Place("su1", "r1", "Ams_1"), Place("su2", "r1", "Ams_1"))
    a, b = object_components.node_labels(made)
    assert members(made) == {
        "ai-nvlink-domain-ams-1-su1-r1": {a},
        "ai-nvlink-domain-ams-1-su2-r1": {b},
        "ai-unit-su1": {a},
        "ai-unit-su2": {b},
        "ai-site-ams-1": {a, b},
    }


@pytest.mark.parametrize("sites", [("Hall_1", "hall-1"), ("A.b", "a.B"), ("x-.y", "x.y"), ("H1", "h1"), ("a_b", "a-b")])
def test_sites_with_different_labels_have_different_hyper_nodes(sites: tuple[str, str]) -> None:
    made = plan(Place("su1", None, sites[0]), Place("su2", None, sites[1]))
    assert sorted(map(len, members(made).values())) == [1, 1, 1, 1]
    again = plan(Place("su2", None, sites[1]), Place("su1", None, sites[0]))
    assert set(of_kind(again, "HyperNode")) == set(of_kind(made, "HyperNode"))


@pytest.mark.parametrize("site", ["\u65e5\u672c", "&&", "...", "_", " "])
def test_a_site_without_a_character_for_a_label_has_no_level(site: str) -> None:
    made = plan(Place("su1", None, site), Place("su2", None, site))
    assert not [own for own in object_components.node_labels(made, BOTH).values() if L + "site" in own]
    assert set(members(made)) == {"ai-unit-su1", "ai-unit-su2"}
    assert [found[0] for found in levels(made).values()] == ["unit"]


def test_rules_of_node_feature_discovery_give_the_same_labels() -> None:
    made = plan(Place("su1", "r1", "ams"), Place("su2", None, "ams"))
    labels: dict[str, dict[str, str]] = {node: {} for node in object_components.node_labels(made)}
    for each in object_components.objects(made, {**BOTH, "node_feature_rule": True}):
        for rule in each["spec"]["rules"] if each["kind"] == "NodeFeatureRule" else ():
            for node in rule["matchFeatures"][0]["matchExpressions"]["nodename"]["value"]:
                labels[node].update(rule["labels"])
    planned = object_components.node_labels(made, BOTH)
    for own in planned.values():
        own.pop(L + "rack", None)
    assert labels == planned


def test_files_of_a_fabric_without_kubernetes_are_written_on_demand() -> None:
    whole = lint((ROOT / "inventories/slurm/fabric.yml").read_bytes()).plan
    assert whole
    made = whole.document()
    assert list(object_files.render(made)) == ["nccl/h200.conf"]
    files = object_files.render(made, {"schedulers": ["kueue", "volcano"], "node_feature_rule": True})
    assert [path for path in files if path.endswith(".yaml")] == [
        "kustomization.yaml",
        "nodes/kustomization.yaml",
        "nodes/nodefeaturerule.yaml",
        "topology/hypernode.yaml",
        "topology/kustomization.yaml",
        "topology/resourceflavor.yaml",
        "topology/topology.yaml",
    ]
    assert "nccl/h200.conf" in files
    assert yaml_text.load(files["topology/topology.yaml"])["spec"]["levels"][0] == {"nodeLabel": L + "unit"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["kueu"], "'kueu' is not a scheduler that has objects (did you mean kueue?)"),
        (["slurm"], "provider: none"),
        ("kueue", "write a list"),
    ],
)
def test_unknown_schedulers_are_refused(value: t.Any, words: str) -> None:
    with pytest.raises(RailyardError) as caught:
        list(object_components.objects(plan(*UNITS), {"schedulers": value}))
    assert words in "%s %s" % (caught.value.message, caught.value.remedy)
    assert caught.value.place == "kubernetes.schedulers"
