# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's and UCX's settings on hosts and in pods, and the objects that hold them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.nccl_hca import HcaPort
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    VARIANT,
    Node,
    Object,
    View,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import nccl_settings

COMPONENT = "nccl"
FILE = "nccl.conf"


def host(view: View, node: Node) -> dict[str, str]:
    """Return NCCL's settings on the host, where the RDMA devices of all rail ports are visible."""
    return host_settings(view.fabric, node)


def host_settings(fabric: t.Mapping[str, t.Any], node: Node) -> dict[str, str]:
    """Return NCCL's settings on the host. ``fabric``: ``railyard_fabric``; ``node``: ``railyard_node``."""
    return nccl_settings.nccl(fabric, node, nccl_settings.planned_devices(node))


def host_ucx(fabric: t.Mapping[str, t.Any], node: Node) -> dict[str, str]:
    """Return UCX's settings on the host."""
    return nccl_settings.ucx(fabric, node, nccl_settings.planned_devices(node))


def pod(view: View, options: Options, node: Node) -> dict[str, str]:
    """Return NCCL's settings in a pod with all rails of the node.

    In shared mode, a pod sees all RDMA devices of the node, including those for storage, so the rails' devices are
    named. In exclusive mode it sees only its own, under names that depend on the order of their creation. The agent
    sets the environment itself, and names the devices of the pod's slots.
    """
    settings = nccl_settings.nccl(view.fabric, node, _named(view, node))
    if not facts_of(view.provider).slots:
        settings["NCCL_SOCKET_IFNAME"] = "=" + options.pod_interface
    return settings


def ucx(view: View, node: Node) -> dict[str, str]:
    """Return UCX's settings in such a pod. If no device is named, UCX uses all that it sees."""
    return nccl_settings.ucx(view.fabric, node, _named(view, node))


def _named(view: View, node: Node) -> list[HcaPort]:
    shared = node["rdma_mode"] == "shared" and not facts_of(view.provider).slots
    return nccl_settings.planned_devices(node) if shared else []


def text(settings: t.Mapping[str, str]) -> str:
    """Return the contents of ``/etc/nccl.conf``, one setting per line."""
    return "".join("%s=%s\n" % setting for setting in sorted(settings.items()))


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield a ConfigMap per variant in the namespace of the workloads.

    It contains /etc/nccl.conf, and settings of UCX and Open MPI as environment variables. The agent needs no such
    object: it sets the environment of each pod.
    """
    if facts_of(view.provider).slots or not options.nccl:
        return
    for variant, node in samples(view).items():
        labels = view.labels(COMPONENT, **{VARIANT: variant})
        data = dict(ucx(view, node), **nccl_settings.open_mpi(node), **{FILE: text(pod(view, options, node))})
        yield made("v1", "ConfigMap", name(view, variant), labels, namespace=options.workload_namespace, data=data)


def name(view: View, variant: str) -> str:
    return "%s-nccl-%s" % (view.name, variant)


def samples(view: View) -> dict[str, Node]:
    """Return variant -> the first of its nodes with the most rails, so that no rail is left out."""
    found: dict[str, Node] = {}
    for node in view.nodes:
        variant = view.variant(node)
        known = found.get(variant)
        if known is None or len(node["ports"]) > len(known["ports"]):
            found[variant] = node
    return found
