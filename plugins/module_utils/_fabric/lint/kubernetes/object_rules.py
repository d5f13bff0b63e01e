# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY80x: the names of Kubernetes objects."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import NONE, SUBNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, Rule, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.common_networks import (
    common_networks,
    pool_owners,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.object_names import SHAPES, Naming
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants


def _names(more: str) -> str:
    return "names: {%s}\n" % more


_OWN_PREFIXES = (
    "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)

RESOURCE = rule(
    "RY803 resource-name: Invalid resource name",
    _names('resource: "{rail}-rdma"'),
    _names('resource: "{rail}_rdma"'),
    why="A hyphen or a dot in one name stops k8s-rdma-shared-dev-plugin for all resources of a node, and the SR-IOV"
    " operator up to 1.6 rejects it.",
)

NETWORK = rule(
    "RY804 network-name: Invalid network name",
    _names('network: "{rail}.{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
    why="Pods name their networks in k8s.v1.cni.cncf.io/networks, whose parser accepts only lower-case letters,"
    " digits and hyphens.",
)

INTERFACE = rule(
    "RY806 pod-interface-name: Invalid or reserved name of a pod's interface",
    _names('interface: "accelerator-net{n}"'),
    _names('interface: "rdma{n}"'),
)

_RULES: dict[str, Rule] = {"resource": RESOURCE, "network": NETWORK, "interface": INTERFACE}

POOL_OF_ALL = rule(
    "RY814 pool-name-scope: Pool name that does not match the address mode",
    _OWN_PREFIXES + _names('pool: "{fabric}-{rail}"'),
    _OWN_PREFIXES + _names('pool: "{fabric}-{rail}-{node}"'),
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    if not facts_of(fabric.provider).kubernetes:
        return
    if not fabric.name or report.within(("rails",)) or report.has(("fabric", "name")):
        return
    naming = Naming(fabric.name, fabric.provider, fabric.names)
    networks = facts_of(fabric.provider).networks
    for kind in ("resource_prefix", "namespace"):
        _valid(fabric, kind, naming.common(kind), report)
    owners: dict[tuple[str, str], tuple[t.Any, ...]] = {}
    of_several = pool_owners(common_networks(fabric.rails))
    served = {id(variant): variants.rails_of(variant) for variant in variants}
    for rail in fabric.rails:
        pool_per_node = rail.mode not in (None, NONE, SUBNET) and facts_of(fabric.provider).pool_per_node
        for variant in variants:
            attachment = variant.attachment_on(rail)
            if rail.name not in served[id(variant)] or not attachment or not rail.for_pods:
                continue
            values = naming.values(rail, attachment, variant.name)
            owner_of_network = (rail.name, attachment)
            kinds: list[tuple[str, tuple[t.Any, ...]]] = [("interface", (rail.name,))]
            if networks:
                kinds += [("resource", owner_of_network), ("network", owner_of_network)]
            if networks and variant.has_vfs_on(rail):
                kinds.append(("policy", owner_of_network + (variant.name,)))
            for kind, owner in kinds:
                _check_name(fabric, naming, kind, values, owner, owners, report)
            if rail.mode in (None, NONE) or not networks:
                continue
            for kind in naming.pools(rail.schemes):
                if kind == "pool6" and report.has(fabric.names_path + ("pool",)):
                    continue  # pool6 is derived from the pool's name, which is reported
                if pool_per_node:
                    _pools(fabric, naming, kind, rail, variants.nodes_of(variant), values, owners, report)
                elif naming.own_pools(kind, rail.mode) and kind in fabric.names:
                    message = "nodes share the pool of %s, and by this name each would have one" % rail.name
                    report.add(POOL_OF_ALL, fabric.names_path + (kind,), message, "remove {node} and {i} from the name")
                else:
                    owner_of_pool = of_several.get((rail.name, kind), rail)
                    more = dict(naming.values(owner_of_pool, attachment, variant.name), node="", i=0)
                    _check_name(fabric, naming, kind, more, (owner_of_pool.name,), owners, report, rail.mode)
    _colliding_pools(fabric, variants, naming, report)


SAME_NAME = rule(
    "RY807 duplicate-object-name: Two objects with the same name",
    _names('network: "{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
)


def _check_name(
    fabric: Fabric,
    naming: Naming,
    kind: str,
    values: t.Mapping[str, t.Any],
    owner: tuple[t.Any, ...],
    owners: dict[tuple[str, str], tuple[t.Any, ...]],
    report: Report,
    mode: str | None = None,
) -> bool:
    """Check one name. Return whether it is valid and no other owner has it."""
    name = naming.name(kind, values, mode)
    if not _valid(fabric, kind, name, report):
        return False
    first = owners.setdefault((kind.rstrip("6"), name), owner)
    if first == owner:
        return True
    # A name may differ between profiles of one owner, but two owners must not share a name.
    message = "%s would be the %s of %s and of %s" % (name, kind, _shown(first), _shown(owner))
    remedy = "use {rail} and {attachment} in the name" if kind != "interface" else "use {k} in the name"
    if kind == "policy":
        remedy = "use {rail} and {profile} in the name"
    report.add(SAME_NAME, fabric.names_path + (kind,), message, remedy)
    return False


def _shown(owner: t.Sequence[t.Any]) -> str:
    return " ".join(str(each) for each in owner)


def _pools(
    fabric: Fabric,
    naming: Naming,
    kind: str,
    rail: Rail,
    nodes: t.Sequence[Node],
    values: t.Mapping[str, t.Any],
    owners: dict[tuple[str, str], tuple[t.Any, ...]],
    report: Report,
) -> None:
    """Check the names of the nodes' pools on a rail by the node with the longest name: names of nodes differ, and so do
    the pools'."""
    if not naming.own_pools(kind, rail.mode):
        message = "in the mode %s each node has its own pool on %s" % (rail.mode, rail.name)
        report.add(POOL_OF_ALL, fabric.names_path + (kind,), message, "use {node} in the name")
        return
    longest = max(nodes, key=lambda node: len(node.name), default=None)
    if longest is None:
        return
    more = dict(values, node=longest.name, i=longest.index or 0)
    if not _valid(fabric, kind, naming.name(kind, more, rail.mode), report):
        return
    name = naming.name(kind, dict(values, node="*", i=-1), rail.mode)
    first = owners.setdefault(("pool", name), (rail.name, kind))
    if first != (rail.name, kind):
        message = "the pools of %s and of %s would have the same name" % (first[0], rail.name)
        report.add(SAME_NAME, fabric.names_path + (kind,), message, "use {rail} in the name")


def _colliding_pools(fabric: Fabric, variants: Variants, naming: Naming, report: Report) -> None:
    """Report pools of two nodes on different rails that would have the same name."""
    unread = any(report.has(fabric.names_path + (kind,)) for kind in ("pool", "pool6"))
    if unread or not facts_of(fabric.provider).pool_per_node:
        return
    # text before and after the node's name -> the pools with such names
    found: dict[tuple[str, str], list[tuple[str, str, Rail, dict[str, t.Any], Variant]]] = {}
    for rail in fabric.rails:
        for variant in variants if rail.mode not in (None, NONE, SUBNET) and rail.for_pods else ():
            values = naming.values(rail, variant.attachment_on(rail) or "", variant.name)
            for kind in naming.pools(rail.schemes) if rail.name in variants.rails_of(variant) else ():
                # an index cannot be distinguished from other digits
                counted = "i" in naming.template(kind, rail.mode).fields
                name = "*" if counted else naming.name(kind, dict(values, node="*", i=0), rail.mode)
                edges = name.partition("*")[0], name.rpartition("*")[2]
                found.setdefault(edges, []).append((kind, rail.mode or "", rail, values, variant))
    edges_of = list(found)
    meeting = {
        edges
        for at, edges in enumerate(edges_of)
        for other in edges_of[:at] + edges_of[at + 1 :]
        if _may_be_equal(edges, other)
    }
    meeting.update(edges for edges, pools in found.items() if len({pool[2].name for pool in pools}) > 1)
    owners: dict[str, tuple[str, ...]] = {}
    for kind, mode, rail, values, variant in (pool for edges in edges_of if edges in meeting for pool in found[edges]):
        for node in variants.nodes_of(variant):
            owner = (rail.name, node.name, kind)
            name = naming.name(kind, dict(values, node=node.name, i=node.index or 0), mode)
            first = owners.setdefault(name, owner)
            if first != owner:
                message = "%s would be the name of the pools of %s and of %s" % (
                    name,
                    _shown(first[:2]),
                    _shown(owner[:2]),
                )
                report.add(SAME_NAME, fabric.names_path + (kind,), message, "put a dot between {rail} and {node}")
                return


def _may_be_equal(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether one text can begin and end with both pairs of edges."""
    same_head = one[0].startswith(other[0]) or other[0].startswith(one[0])
    return same_head and (one[1].endswith(other[1]) or other[1].endswith(one[1]))


OBJECT = rule(
    "RY805 object-name: Invalid name of a pool, policy, namespace or resource prefix",
    _names('pool: "{fabric}_{rail}"'),
    _names('pool: "{fabric}-{rail}"'),
)


def _valid(fabric: Fabric, kind: str, name: str, report: Report) -> bool:
    """Report a name that Kubernetes does not accept. Return whether it is valid."""
    pattern, description = SHAPES[kind]
    if pattern.match(name):
        return True
    subject = kind.rstrip("6").replace("_", " ")
    message = "invalid %s name %s (%d characters)" % (subject, name, len(name))
    report.add(_RULES.get(kind, OBJECT), fabric.names_path + (kind,), message, "use %s" % description)
    return False
