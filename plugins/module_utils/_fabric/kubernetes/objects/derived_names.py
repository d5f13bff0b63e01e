# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names that others derive from ours, and their maximum lengths: one table for lint, renderers, tests and
documentation."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    LONGEST_LABEL,
    OF_FUNCTION,
    Object,
    View,
)

SOCKETS = "/var/lib/kubelet/plugins_registry"
# The longest identifier of a container and the longest name of an interface.
_CONTAINER, _INTERFACE = 64, 15


class Derived(t.NamedTuple):
    """``by`` derives ``what`` from ``ours``; it may have at most ``limit`` characters."""

    what: str
    ours: str
    by: str
    limit: int


NAME = Derived("the object's name", "each name", "Kubernetes", 253)
LABEL = Derived("a label's value", "fabric, rail, profile, variant, rack, unit", "Kubernetes", LONGEST_LABEL)
GROUP = Derived(
    "the label cni.spidernet.io/...-resource-inject", "an injection group", "Spiderpool's webhook", LONGEST_LABEL
)
SUBNET = Derived("the label ipam.spidernet.io/ippool-cidr", "a pool's subnet", "Spiderpool's webhook", LONGEST_LABEL)
CACHE = Derived("the file NETWORK-CONTAINER-INTERFACE", "a network, or its copy for a group", "CNI's cache", 255)
RESOURCE = Derived("the resource's name", "a resource, for DPDK with _dpdk", "Kubernetes", 63)
SOCKET = Derived(
    "the socket %s/PREFIX_RESOURCE.sock" % SOCKETS,
    "a prefix and a resource of VFs or whole ports",
    "sriov-network-device-plugin",
    107,
)
TABLE = (NAME, LABEL, GROUP, SUBNET, CACHE, RESOURCE, SOCKET)

# Kinds whose name is that of a NetworkAttachmentDefinition.
_NETWORKS = (
    "SpiderMultusConfig",
    "MacvlanNetwork",
    "HostDeviceNetwork",
    "IPoIBNetwork",
    "SriovNetwork",
    "SriovIBNetwork",
    "NetworkAttachmentDefinition",
)


def of_object(made: Object) -> t.Iterator[tuple[Derived, str]]:
    """Yield the names that others derive from an object's names, each with its text."""
    metadata, kind, spec = made["metadata"], made["kind"], made.get("spec") or {}
    yield NAME, metadata["name"]
    template = (spec.get("template") or {}).get("metadata") or {}
    for labels in (metadata.get("labels"), template.get("labels")):
        for value in (labels or {}).values():
            yield LABEL, value
    if kind in _NETWORKS:
        yield CACHE, "-".join((metadata["name"], "0" * _CONTAINER, "0" * _INTERFACE))
    if kind == "SpiderMultusConfig":
        for key, value in (metadata.get("annotations") or {}).items():
            if key.endswith("-resource-inject"):
                yield GROUP, value
    elif kind == "SpiderIPPool":
        yield SUBNET, spec["subnet"]
    elif kind == "SriovNetworkNodePolicy":
        yield RESOURCE, spec["resourceName"]


def of_view(view: View) -> t.Iterator[tuple[Derived, str]]:
    """Yield the names that others derive from names in other fields of objects, or in none."""
    for network in view.of(*OF_FUNCTION):
        yield SOCKET, "%s/%s_%s.sock" % (SOCKETS, view.prefix, network.resource)


def too_long(found: t.Iterable[tuple[Derived, str]]) -> t.Iterator[tuple[Derived, str]]:
    """Yield the names that are longer than their limit."""
    return ((derived, text) for derived, text in found if len(text) > derived.limit)
