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
    PROFILE,
    RACK,
    UNIT,
    VARIANT,
    Node,
    Object,
    View,
    label_value,
    made,
)

API = "nfd.k8s-sigs.io/v1alpha1"
COMPONENT = "nodes"


def of_nodes(view: View) -> dict[str, dict[str, str]]:
    """Return node -> its labels."""
    return {node["name"]: _of_node(view, node) for node in view.nodes}


def _of_node(view: View, node: Node) -> dict[str, str]:
    found = {FABRIC: view.name, PROFILE: node["profile"], VARIANT: view.variant(node)}
    for key, label in (("unit", UNIT), ("rack", RACK)):
        if node.get(key):
            found[label] = label_value(str(node[key]))
    return found


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield the labels as rules of Node Feature Discovery, one per variant, for clusters in which playbooks must not
    write to nodes."""
    if not options.node_feature_rule:
        return
    alike: dict[str, list[Node]] = {}
    for node in view.nodes:
        alike.setdefault(view.variant(node), []).append(node)
    for variant, nodes in alike.items():
        names = [node["name"] for node in nodes]
        rule = {
            "name": "nodes of %s" % variant,
            "labels": {FABRIC: view.name, PROFILE: nodes[0]["profile"], VARIANT: variant},
            "matchFeatures": [
                {"feature": "system.name", "matchExpressions": {"nodename": {"op": "In", "value": names}}}
            ],
        }
        yield made(API, "NodeFeatureRule", "%s-%s" % (view.name, variant), view.labels(COMPONENT), {"rules": [rule]})
