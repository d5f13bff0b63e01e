# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""NCCL's and UCX's settings from ``railyard_fabric`` and ``railyard_node``.

There is no GID index among them, ever: an index is a place in a table that differs between pods and changes at run
time. Family and RoCE version say the same for good.
"""

from __future__ import annotations

import typing as t

# UCX's words for NCCL's.
_UCX = {"NCCL_IB_TC": "UCX_IB_TRAFFIC_CLASS", "NCCL_IB_SL": "UCX_IB_SL"}
Variables = t.Mapping[str, t.Any]


def nccl(fabric: Variables, node: Variables, names: t.Sequence[str]) -> dict[str, str]:
    """NCCL's settings, with the RDMA devices of these names where there are any."""
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


def ucx(fabric: Variables, names: t.Sequence[str]) -> dict[str, str]:
    """UCX's settings; with no device named, UCX takes all that it sees."""
    settings = {}
    if names:
        settings["UCX_NET_DEVICES"] = ",".join("%s:1" % name for name in names)
    settings.update((_UCX[key], value) for key, value in _service(fabric).items() if key in _UCX)
    return settings


def _service(fabric: Variables) -> dict[str, str]:
    """The class of service on Ethernet, as the plan's QoS has it; InfiniBand's level is the subnet manager's."""
    qos = fabric["qos"]
    return dict(qos["nccl"]) if qos and fabric["link_layer"] == "ethernet" else {}
