# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels by which policies and workloads select the fabric's nodes.

Nodes belong to the cluster: their labels are patched, nodes are never applied as objects, and nothing of them is
pruned.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    NVLINK_DOMAIN,
    PROFILE,
    RACK,
    SITE,
    UNIT,
    VARIANT,
    Node,
    Object,
    View,
    label_value,
    made,
)

# The levels of the topology that schedulers get, the widest first. The nodes of a unit share all of their leaves, so
# the unit is the level of leaves.
LEVELS = (SITE, UNIT, NVLINK_DOMAIN)
# Label -> key of the plan's nodes.
_KEYS = {SITE: "site", UNIT: "unit", NVLINK_DOMAIN: "nvlink_domain", RACK: "rack"}

API = "nfd.k8s-sigs.io/v1alpha1"
COMPONENT = "nodes"


def of_nodes(view: View, options: Options) -> dict[str, dict[str, str]]:
    """Return node -> its labels. The site is only a label for schedulers."""
    places = (UNIT, NVLINK_DOMAIN, RACK, *((SITE,) if options.schedulers else ()))
    return {node["name"]: dict(_selectors(view, node), **_places(node, places)) for node in view.nodes}


def level_labels(node: Node) -> dict[str, str]:
    """Return the labels of the levels that a node has, the widest level first."""
    return _places(node, LEVELS)


def _selectors(view: View, node: Node) -> dict[str, str]:
    return {FABRIC: view.name, PROFILE: node["profile"], VARIANT: view.variant(node)}


def _places(node: Node, labels: t.Iterable[str]) -> dict[str, str]:
    values = {label: label_value(str(node.get(_KEYS[label]) or "")) for label in labels}
    return {label: value for label, value in values.items() if value}


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield the labels as rules of Node Feature Discovery, for clusters in which playbooks must not write to nodes: a
    rule per variant and, for schedulers, an object with a rule per unit, site and NVLink domain."""
    if not options.node_feature_rule:
        return
    alike: dict[str, list[Node]] = {}
    for node in view.nodes:
        alike.setdefault(view.variant(node), []).append(node)
    for variant, nodes in alike.items():
        rule = _rule("nodes of %s" % variant, _selectors(view, nodes[0]), nodes)
        yield made(API, "NodeFeatureRule", "%s-%s" % (view.name, variant), view.labels(COMPONENT), {"rules": [rule]})
    levels: dict[tuple[str, str], list[Node]] = {}
    for node in view.nodes if options.schedulers else ():
        for label in level_labels(node).items():
            levels.setdefault(label, []).append(node)
    if levels:
        rules = [_rule("%s %s" % label, dict([label]), nodes) for label, nodes in levels.items()]
        yield made(API, "NodeFeatureRule", "%s.topology" % view.name, view.labels(COMPONENT), {"rules": rules})


def _rule(name: str, labels: dict[str, str], nodes: t.Iterable[Node]) -> Object:
    """Return a rule that gives labels to nodes."""
    names = {"op": "In", "value": [node["name"] for node in nodes]}
    return {
        "name": name,
        "labels": labels,
        "matchFeatures": [{"feature": "system.name", "matchExpressions": {"nodename": names}}],
    }
