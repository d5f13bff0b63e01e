# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every provider, attachment and address mode that can work, against upstream's schemas and webhooks and the plan."""

from __future__ import annotations

import copy
import ipaddress
import itertools
import json
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes import base, components

from . import schema, webhooks
from .documents import ATTACHMENTS, combinations, document

EVERYTHING = {
    "pkey": "0x7fff",
    "ufm_secret": "ufm",
    "driver": "container",
    "images": {"test": "registry.example/tools/rdma:1.2"},
    "node_feature_rule": False,
}
FAMILIES = ((4,), (6,), (4, 6))
CASES = [
    pytest.param(*case, families, id="-".join((*case, "".join(map(str, families)))))
    for case, families in itertools.product(combinations(), FAMILIES)
]


def made(
    provider: str, attachment: str, mode: str, families: t.Sequence[int], options: t.Mapping[str, t.Any] = EVERYTHING
) -> list[dict[str, t.Any]]:
    plan = document(provider, attachment, mode, nodes=3, families=families)
    return list(components.objects(plan, options))


@pytest.mark.parametrize(("provider", "attachment", "mode", "families"), CASES)
def test_objects_are_what_upstream_takes(provider: str, attachment: str, mode: str, families: tuple[int, ...]) -> None:
    schema.needed()
    things = made(provider, attachment, mode, families)
    found = ["%s %s" % (each["metadata"]["name"], problem) for each in things for problem in schema.problems(each)]
    assert found == []
    if provider == "spiderpool":
        # Spiderpool brings the SR-IOV operator's kinds in a shape of its own.
        assert [problem for each in things for problem in schema.problems(each, "bundled")] == []


@pytest.mark.parametrize(("provider", "attachment", "mode", "families"), CASES)
def test_objects_are_what_webhooks_take(provider: str, attachment: str, mode: str, families: tuple[int, ...]) -> None:
    assert webhooks.problems(made(provider, attachment, mode, families)) == []


@pytest.mark.parametrize(("provider", "attachment", "mode", "families"), CASES)
def test_objects_are_ours_by_label_and_are_the_same_each_time(
    provider: str, attachment: str, mode: str, families: tuple[int, ...]
) -> None:
    plan = document(provider, attachment, mode, nodes=3, families=families)
    before = copy.deepcopy(plan)
    things = list(components.objects(plan, EVERYTHING))
    assert plan == before
    for thing in things:
        labels = thing["metadata"]["labels"]
        assert labels[base.MANAGED_BY] == labels[base.PART_OF] == "railyard"
        assert labels[base.FABRIC] == "ai"
    assert json.dumps(things) == json.dumps(list(components.objects(before, EVERYTHING)))


@pytest.mark.parametrize(
    ("provider", "attachment"), [(each, one) for each, all_ in ATTACHMENTS.items() for one in all_]
)
def test_a_node_more_changes_only_what_is_its_own_or_names_it(provider: str, attachment: str) -> None:
    mode = "prefix"

    def keyed(nodes: int) -> dict[tuple[str, str], t.Any]:
        plan = document(provider, attachment, mode, nodes=nodes)
        return {(each["kind"], each["metadata"]["name"]): each for each in components.objects(plan)}

    small, large = keyed(3), keyed(4)
    changed = {key for key in small if small[key] != large[key]}
    assert {kind for kind, _name in changed} <= {"CIDRPool"}
    new = set(large) - set(small)
    assert all("0004" in name for _kind, name in new)
    assert len(new) == (2 if provider == "spiderpool" else 0)


@pytest.mark.parametrize(("provider", "attachment", "mode", "families"), CASES)
def test_pods_addresses_are_the_plans(provider: str, attachment: str, mode: str, families: tuple[int, ...]) -> None:
    """Whatever the provider's way of saying it, the addresses its objects give are the plan's, each to its node."""
    plan = document(provider, attachment, mode, nodes=3, families=families)
    wanted = {}
    for node in plan["nodes"]:
        for port in node["ports"]:
            for six in ("", "6"):
                if (port["pods"] or {}).get("first" + six):
                    own = "" if mode == "subnet" else node["name"]
                    key = (port["rail"], own, six)
                    wanted[key] = webhooks.addresses(
                        ["%s-%s" % (port["pods"]["first" + six], port["pods"]["last" + six])]
                    )
    given = {
        "spiderpool": _spiderpool_gives,
        "network-operator": _nv_ipam_gives,
        "cni": _cni_gives,
    }[provider](plan)
    assert given == wanted


Given = t.Dict[t.Tuple[str, str, str], t.Set[t.Any]]


def _spiderpool_gives(plan: t.Mapping[str, t.Any]) -> Given:
    given: Given = {}
    for each in components.objects(plan):
        if each["kind"] == "SpiderIPPool":
            spec = each["spec"]
            node = spec.get("nodeName", [""])[0]
            key = (each["metadata"]["labels"][base.RAIL], node, "6" if spec["ipVersion"] == 6 else "")
            assert key not in given
            given[key] = webhooks.addresses(spec["ips"])
    return given


def _nv_ipam_gives(plan: t.Mapping[str, t.Any]) -> Given:
    """As nv-ipam's agent counts: a node's prefix or the subnet, less network, broadcast, gateway and exclusions."""

    given: Given = {}
    for each in components.objects(plan):
        rail, spec = each["metadata"]["labels"].get(base.RAIL, ""), each.get("spec", {})
        if each["kind"] == "CIDRPool":
            for allocation in spec["staticAllocations"]:
                net = ipaddress.ip_network(allocation["prefix"])
                left = set(net) if net.max_prefixlen - net.prefixlen <= 1 else set(net) - {net[0], net[-1]}
                for index in spec.get("perNodeExclusions", []):
                    left -= {net[at] for at in range(index["startIndex"], index["endIndex"] + 1)}
                if "gateway" in allocation:
                    assert ipaddress.ip_address(allocation["gateway"]) == net[spec["gatewayIndex"]]
                    left.discard(ipaddress.ip_address(allocation["gateway"]))
                given[rail, allocation["nodeName"], "6" if net.version == 6 else ""] = left
        elif each["kind"] == "IPPool":
            net = ipaddress.ip_network(spec["subnet"])
            first = net[1]
            excluded = [ipaddress.ip_address(one["startIP"]) for one in spec["exclusions"]]
            last = min(excluded) - 1
            given[rail, "", "6" if net.version == 6 else ""] = webhooks.addresses(["%s-%s" % (first, last)])
    return given


def _cni_gives(plan: t.Mapping[str, t.Any]) -> Given:
    given: Given = {}
    for node, files in components.node_files(plan):
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
                given[rail, node, "6" if ":" in each else ""] = webhooks.addresses([each])
    return given


def test_attachments_that_a_provider_has_not_are_refused() -> None:
    with pytest.raises(RailyardError, match="cni cannot attach by ipoib"):
        list(components.objects(document("cni", "ipoib")))
    with pytest.raises(RailyardError, match="spiderpool cannot attach by host-device"):
        list(components.objects(document("spiderpool", "host-device")))


def test_a_range_for_all_nodes_needs_a_manager() -> None:
    plan = document("cni", "macvlan", "subnet")
    with pytest.raises(RailyardError, match="nothing but a cluster-wide manager") as caught:
        list(components.node_files(plan))
    assert caught.value.place == "rails.gpu01"


def test_options_are_checked() -> None:
    for options, words in (
        ({"regstry": "x"}, "did you mean registry"),
        ({"driver": "none"}, "host, container"),
        ({"images": {"mults": "x/y:1"}}, "did you mean multus"),
        ({"images": {"multus": "multus"}}, "REPOSITORY/IMAGE"),
        ({"pkey": "0x8000"}, "no partition key"),
        ({"pkey": "1000"}, "no partition key"),
        ({"rdma_hca_max": 0}, "1 or more"),
    ):
        with pytest.raises(RailyardError) as caught:
            list(components.objects(document(), options))
        assert words in str(caught.value)


def test_a_registry_takes_the_place_of_all_registries() -> None:
    options = {"registry": "mirror.example:5000/rdma", "images": {"multus": "quay.io:443/cni/multus@sha256:ab"}}
    policy = next(each for each in components.objects(document("network-operator"), options) if each["spec"])
    secondary = policy["spec"]["secondaryNetwork"]
    assert secondary["multus"] == {
        "image": "multus",
        "repository": "mirror.example:5000/rdma/cni",
        "version": "sha256:ab",
    }
    assert secondary["cniPlugins"]["repository"] == "mirror.example:5000/rdma/nvidia/mellanox"
    assert components.values(document(), options)["spiderpool"]["global"] == {
        "imageRegistryOverride": "mirror.example:5000/rdma"
    }
