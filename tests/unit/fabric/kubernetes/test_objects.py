# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every provider, attachment and address mode that can work, against upstream's schemas and webhooks and the plan."""

from __future__ import annotations

import copy
import functools
import ipaddress
import itertools
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import plan_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import IMAGES

from . import plans, schema, webhooks
from .documents import ATTACHMENTS, REGISTRY, combinations, document

EVERYTHING = {
    "pkey": "0x7fff",
    "ufm_secret": "ufm",
    "driver": "container",
    "images": {"test": "registry.example/tools/rdma:1.2"},
    "registry": "registry.example",
    "node_feature_rule": False,
}
FAMILIES = ((4,), (6,), (4, 6))
ROOT = Path(__file__).resolve().parents[4]
Case = t.Callable[[], t.Dict[str, t.Any]]


def cases() -> t.Iterator[t.Any]:
    """Documents made by hand, the plan's own of the same, and those of the worked inventories."""
    for (provider, attachment, mode), families in itertools.product(combinations(), FAMILIES):
        name = "-".join((provider, attachment, mode, "".join(map(str, families))))
        hand = functools.partial(document, provider, attachment, mode, 3, families=families)
        yield pytest.param(hand, id="hand-" + name)
        file = functools.partial(plans.fabric_file, provider, attachment, mode, families)
        yield pytest.param(functools.partial(_planned, file), id="plan-" + name)
    for path in sorted(ROOT.glob("inventories/*/fabric.yml")):
        yield pytest.param(functools.partial(_planned, path.read_bytes), id="inventory-" + path.parent.name)


def _planned(file: t.Callable[[], t.Any]) -> dict[str, t.Any]:
    return plans.planned(file())


CASES = list(cases())


@pytest.mark.parametrize("case", CASES)
def test_objects_are_valid_by_the_upstream_schemas(case: Case) -> None:
    plan = case()
    things = list(object_components.objects(plan, EVERYTHING))
    found = ["%s %s" % (each["metadata"]["name"], problem) for each in things for problem in schema.problems(each)]
    assert found == []
    if plan["fabric"]["provider"] == "spiderpool":
        # Spiderpool brings the SR-IOV operator's kinds in a shape of its own.
        assert [problem for each in things for problem in schema.problems(each, "bundled")] == []


@pytest.mark.parametrize("case", CASES)
def test_objects_are_accepted_by_webhooks(case: Case) -> None:
    assert webhooks.problems(list(object_components.objects(case(), EVERYTHING))) == []


@pytest.mark.parametrize("case", CASES)
def test_objects_are_ours_by_label_and_are_the_same_each_time(case: Case) -> None:
    plan = case()
    before = copy.deepcopy(plan)
    things = list(object_components.objects(plan, EVERYTHING))
    assert plan == before
    for thing in things:
        labels = thing["metadata"]["labels"]
        assert labels[plan_view.MANAGED_BY] == labels[plan_view.PART_OF] == "railyard"
        assert labels[plan_view.FABRIC] == plan["fabric"]["name"]
        assert "[]" not in json.dumps(thing) and "null" not in json.dumps(thing), "the server drops these"
    assert json.dumps(things) == json.dumps(list(object_components.objects(before, EVERYTHING)))


@pytest.mark.parametrize(
    ("provider", "attachment"), [(each, one) for each, all_ in ATTACHMENTS.items() for one in all_]
)
def test_a_further_node_changes_only_its_own_objects_and_lists_of_nodes(provider: str, attachment: str) -> None:
    mode = "prefix"

    def keyed(nodes: int) -> dict[tuple[str, str], t.Any]:
        plan = document(provider, attachment, mode, nodes=nodes)
        return {(each["kind"], each["metadata"]["name"]): each for each in object_components.objects(plan, REGISTRY)}

    small, large = keyed(3), keyed(4)
    changed = {key for key in small if small[key] != large[key]}
    assert {kind for kind, _name in changed} <= {"CIDRPool"}
    new = set(large) - set(small)
    assert all("0004" in name for _kind, name in new)
    assert len(new) == (2 if provider == "spiderpool" else 0)


@pytest.mark.parametrize("case", CASES)
def test_addresses_of_pods_are_those_of_the_plan(case: Case) -> None:
    """Whatever the provider's way of saying it, the addresses its objects give are the plan's, each to its node."""
    plan = case()
    modes = {rail["name"]: rail["mode"] for rail in plan["rails"]}
    wanted: Given = {}
    # what the agent gives is the plan's host variables, and no object
    for node in plan["nodes"] if plan["fabric"]["provider"] != "agent" else ():
        for port in node["ports"]:
            for six in ("", "6"):
                if (port["pods"] or {}).get("first" + six):
                    key = (port["rail"], "" if modes[port["rail"]] == "subnet" else node["name"], six)
                    wanted[key] = webhooks.spans(["%s-%s" % (port["pods"]["first" + six], port["pods"]["last" + six])])
    given = {
        "none": lambda _plan: {},
        "agent": lambda _plan: {},
        "spiderpool": _spiderpool_gives,
        "network-operator": _nv_ipam_gives,
        "cni": _cni_gives,
    }[plan["fabric"]["provider"]](plan)
    assert given == wanted


Given = t.Dict[t.Tuple[str, str, str], t.List[webhooks.Span]]


def _spiderpool_gives(plan: t.Mapping[str, t.Any]) -> Given:
    given: Given = {}
    for each in object_components.objects(plan, REGISTRY):
        if each["kind"] == "SpiderIPPool":
            spec = each["spec"]
            node = spec.get("nodeName", [""])[0]
            key = (each["metadata"]["labels"][plan_view.RAIL], node, "6" if spec["ipVersion"] == 6 else "")
            assert key not in given
            given[key] = webhooks.spans(spec["ips"])
    return given


def _nv_ipam_gives(plan: t.Mapping[str, t.Any]) -> Given:
    """As nv-ipam's agent counts: a node's prefix or the subnet, less network, broadcast, gateway and exclusions."""

    given: Given = {}
    for each in object_components.objects(plan, REGISTRY):
        rail, spec = each["metadata"]["labels"].get(plan_view.RAIL, ""), each.get("spec", {})
        if each["kind"] == "CIDRPool":
            for allocation in spec["staticAllocations"]:
                net = ipaddress.ip_network(allocation["prefix"])
                edge = 0 if net.max_prefixlen - net.prefixlen <= 1 else 1
                # IPv6 has no broadcast address.
                last = net[-1 - edge] if net.version == 4 else net[-1]
                left = webhooks.spans(["%s-%s" % (net[edge], last)])
                indexes = spec.get("perNodeExclusions", [])
                taken = ["%s-%s" % (net[one["startIndex"]], net[one["endIndex"]]) for one in indexes]
                if "gateway" in allocation:
                    assert ipaddress.ip_address(allocation["gateway"]) == net[spec["gatewayIndex"]]
                    taken.append(allocation["gateway"])
                given[rail, allocation["nodeName"], "6" if net.version == 6 else ""] = webhooks.without(
                    left, webhooks.spans(taken)
                )
        elif each["kind"] == "IPPool":
            net = ipaddress.ip_network(spec["subnet"])
            first = net[1]
            excluded = [ipaddress.ip_address(one["startIP"]) for one in spec["exclusions"]]
            last = min(excluded) - 1
            given[rail, "", "6" if net.version == 6 else ""] = webhooks.spans(["%s-%s" % (first, last)])
    return given


def _cni_gives(plan: t.Mapping[str, t.Any]) -> Given:
    given: Given = {}
    for node, files in object_components.node_files(plan, REGISTRY):
        for path, text in files.items():
            if not path.endswith(".conflist"):
                continue
            conf = json.loads(text)
            manager = conf["plugins"][0]["ipam"]
            ranges = (
                ["%s-%s" % (each[0]["rangeStart"], each[0]["rangeEnd"]) for each in manager["ranges"]]
                if manager["type"] == "host-local"
                else [each["address"].partition("/")[0] for each in manager["addresses"]]
            )
            rail = conf["name"].partition("-")[0]
            for each in ranges:
                given[rail, node, "6" if ":" in each else ""] = webhooks.spans([each])
    return given


def test_unsupported_attachments_of_a_provider_are_refused() -> None:
    with pytest.raises(RailyardError, match="cni does not support ipoib"):
        list(object_components.objects(document("cni", "ipoib")))
    with pytest.raises(RailyardError, match="spiderpool does not support host-device"):
        list(object_components.objects(document("spiderpool", "host-device")))


def test_a_range_for_all_nodes_needs_a_manager() -> None:
    plan = document("cni", "macvlan", "subnet")
    with pytest.raises(RailyardError, match="plain plugins do not know") as caught:
        list(object_components.node_files(plan))
    assert caught.value.place == "rails.gpu01"


def test_options_are_checked() -> None:
    for options, words in (
        ({"regstry": "x"}, "did you mean registry"),
        ({"driver": "none"}, "host, container"),
        ({"images": {"mults": "x/y:1"}}, "did you mean multus"),
        ({"images": {"multus": "multus"}}, "REPOSITORY/IMAGE"),
        ({"pkey": "0x8000"}, "not a partition key"),
        ({"pkey": "1000"}, "not a partition key"),
        ({"rdma_hca_max": 0}, "1 or more"),
    ):
        with pytest.raises(RailyardError) as caught:
            list(object_components.objects(document(), options))
        assert words in str(caught.value)


def test_all_images_come_from_the_registry_of_the_user() -> None:
    options = {"registry": "mirror.example:5000/rdma", "images": {"multus": "other.example:443/cni/multus@sha256:ab"}}
    policy = next(each for each in object_components.objects(document("network-operator"), options) if each["spec"])
    secondary = policy["spec"]["secondaryNetwork"]
    assert secondary["multus"] == {
        "image": "multus",
        "repository": "other.example:443/cni",
        "version": "sha256:ab",
    }
    assert secondary["cniPlugins"]["repository"] == "mirror.example:5000/rdma/nvidia/mellanox"
    assert object_components.values(document(), options)["spiderpool"]["global"] == {
        "imageRegistryOverride": "mirror.example:5000/rdma"
    }


@pytest.mark.parametrize("provider, attachment, mode", combinations())
def test_without_a_registry_no_object_names_one(provider: str, attachment: str, mode: str) -> None:
    """Where a chart has a default it decides; where an object must name an image, the image is not guessed."""
    plan = document(provider, attachment, mode)
    if provider == "spiderpool":
        assert "imageRegistryOverride" not in json.dumps(object_components.values(plan))
        assert '"image"' not in json.dumps(list(object_components.objects(plan)))
        return
    with pytest.raises(RailyardError) as caught:
        list(object_components.objects(plan))
    assert caught.value.place == "kubernetes.registry"
    assert "no registry is set for the image" in str(caught.value) and "kubernetes_options.images." in str(caught.value)
    named = {name: "own.example/x/%s:1" % name for name in IMAGES}
    assert "own.example/x" in json.dumps(list(object_components.objects(plan, {"images": named})))
