# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""NCCL's and UCX's settings from the plan.

There is no GID index among them, ever: an index is a place in a table that differs between pods and changes at run
time. Family and
RoCE version say the same for good.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    VARIANT,
    Node,
    Object,
    View,
    made,
)

COMPONENT = "nccl"
FILE = "nccl.conf"
# UCX's words for NCCL's.
_UCX = {"NCCL_IB_TC": "UCX_IB_TRAFFIC_CLASS", "NCCL_IB_SL": "UCX_IB_SL"}


def host(view: View, node: Node) -> dict[str, str]:
    """NCCL's settings on the host itself, where every rail port's own RDMA device is seen."""
    return host_settings(view.fabric, node)


def host_settings(fabric: t.Mapping[str, t.Any], node: Node) -> dict[str, str]:
    """The same from the two variables that a host has, ``railyard_fabric`` and ``railyard_node``."""
    return _settings(fabric, node, _devices(node))


def host_ucx(fabric: t.Mapping[str, t.Any], node: Node) -> dict[str, str]:
    """UCX's settings on the host itself."""
    return _ucx_settings(fabric, _devices(node))


def pod(view: View, options: Options, node: Node) -> dict[str, str]:
    """NCCL's settings in a pod with all of the node's rails.

    In shared mode a pod sees all of the node's devices, the storage's too, so the rails' are named. In
    exclusive mode
    it sees its own and nothing else, under names that the kernel gives as it finds them.
    """
    names = _devices(node) if node["rdma_mode"] == "shared" else []
    return dict(_settings(view.fabric, node, names), NCCL_SOCKET_IFNAME="=" + options.pod_interface)


def ucx(view: View, node: Node) -> dict[str, str]:
    """UCX's settings in the same sense; with no device named, UCX takes all that it sees."""
    return _ucx_settings(view.fabric, _devices(node) if node["rdma_mode"] == "shared" else [])


def _ucx_settings(fabric: t.Mapping[str, t.Any], names: t.Sequence[str]) -> dict[str, str]:
    settings = {}
    if names:
        settings["UCX_NET_DEVICES"] = ",".join("%s:1" % name for name in names)
    settings.update((_UCX[key], value) for key, value in _service(fabric).items() if key in _UCX)
    return settings


def text(settings: t.Mapping[str, str]) -> str:
    """``/etc/nccl.conf``: a setting a line."""
    return "".join("%s=%s\n" % setting for setting in sorted(settings.items()))


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """A ConfigMap a variant in the namespace of the workloads, to be mounted at /etc/nccl.conf; UCX's settings as
    environment.
    """
    for variant, node in samples(view).items():
        labels = view.labels(COMPONENT, **{VARIANT: variant})
        data = dict(ucx(view, node), **{FILE: text(pod(view, options, node))})
        yield made("v1", "ConfigMap", name(view, variant), labels, namespace=options.workload_namespace, data=data)


def name(view: View, variant: str) -> str:
    return "%s-nccl-%s" % (view.name, variant)


def samples(view: View) -> dict[str, Node]:
    """A node of each variant: the first with the most rails, so that no rail is left out."""
    found: dict[str, Node] = {}
    for node in view.nodes:
        variant = view.variant(node)
        known = found.get(variant)
        if known is None or len(node["ports"]) > len(known["ports"]):
            found[variant] = node
    return found


def _devices(node: Node) -> list[str]:
    return [port["rdma"]["name"] for port in node["ports"] if port["rdma"]["name"]]


def _settings(fabric: t.Mapping[str, t.Any], node: Node, names: t.Sequence[str]) -> dict[str, str]:
    settings = {}
    if names:
        # "=" asks for exactly these names; without it, mlx5_1 would take mlx5_10 as well.
        settings["NCCL_IB_HCA"] = "=" + ",".join("%s:1" % each for each in names)
    if fabric["link_layer"] == "ethernet":
        settings["NCCL_IB_ROCE_VERSION_NUM"] = "2"
        pods = [port.get("pods") or {} for port in node["ports"]]
        families = {version for each in pods for version, first in ((4, "first"), (6, "first6")) if each.get(first)}
        if not families:
            families = {6 if ":" in port["address"] else 4 for port in node["ports"] if port.get("address")}
        if families:
            settings["NCCL_IB_ADDR_FAMILY"] = "AF_INET" if 4 in families else "AF_INET6"
    settings.update(_service(fabric))
    if not fabric["routing"]["cross_rail"]:
        # Another rail's NIC cannot be reached: traffic between rails goes over NVLink to the GPU of the right one.
        settings.update(NCCL_CROSS_NIC="0", NCCL_PXN_DISABLE="0")
    return settings


def _service(fabric: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The class of service on Ethernet, as the plan's QoS has it; InfiniBand's level is the subnet manager's."""
    qos = fabric["qos"]
    return dict(qos["nccl"]) if qos and fabric["link_layer"] == "ethernet" else {}
