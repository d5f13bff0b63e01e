# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY80x: the names of Kubernetes objects."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import rule


def _names(more: str) -> str:
    return "names: {%s}\n" % more


_OWN = (
    "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)

RESOURCE = rule(
    "RY803",
    "A resource's name is not safe for every device plugin",
    _names('resource: "{rail}-rdma"'),
    _names('resource: "{rail}_rdma"'),
    why="A hyphen or a dot in one name ends k8s-rdma-shared-dev-plugin for all resources of a node, and the SR-IOV"
    " operator up to 1.6 refuses it.",
)

NETWORK = rule(
    "RY804",
    "A network's name is not safe in a pod's annotation",
    _names('network: "{rail}.{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
    why="Pods name their networks in k8s.v1.cni.cncf.io/networks, whose parser takes lower-case letters, digits and"
    " hyphens alone.",
)

OBJECT = rule(
    "RY805",
    "The name of a pool, policy, namespace or resource prefix is none that Kubernetes takes",
    _names('pool: "{fabric}_{rail}"'),
    _names('pool: "{fabric}-{rail}"'),
)

INTERFACE = rule(
    "RY806",
    "A pod's interface has a name that the kernel does not take, or that is taken",
    _names('interface: "accelerator-net{n}"'),
    _names('interface: "rdma{n}"'),
)

SAME_NAME = rule(
    "RY807",
    "Two objects would have one name",
    _names('network: "{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
)

POOL_OF_ALL = rule(
    "RY814",
    "A pool that each node needs for itself has a name for all of them, or the other way round",
    _OWN + _names('pool: "{fabric}-{rail}"'),
    _OWN + _names('pool: "{fabric}-{rail}-{node}"'),
)
