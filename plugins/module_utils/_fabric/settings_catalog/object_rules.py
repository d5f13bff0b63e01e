# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY80x: the names of Kubernetes objects."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import rule


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

OBJECT = rule(
    "RY805 object-name: Invalid name of a pool, policy, namespace or resource prefix",
    _names('pool: "{fabric}_{rail}"'),
    _names('pool: "{fabric}-{rail}"'),
)

INTERFACE = rule(
    "RY806 pod-interface-name: Invalid or reserved name of a pod's interface",
    _names('interface: "accelerator-net{n}"'),
    _names('interface: "rdma{n}"'),
)

SAME_NAME = rule(
    "RY807 duplicate-object-name: Two objects with the same name",
    _names('network: "{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
)

POOL_OF_ALL = rule(
    "RY814 pool-name-scope: Pool name that does not match the address mode",
    _OWN_PREFIXES + _names('pool: "{fabric}-{rail}"'),
    _OWN_PREFIXES + _names('pool: "{fabric}-{rail}-{node}"'),
)
