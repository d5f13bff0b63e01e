# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of NCCL and UCX, from ``railyard_fabric`` and ``railyard_node``.

Only compute rails determine them. They never include a GID index: indexes differ between pods and change at run time.
Address family and RoCE version select the same GID and do not change.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    compute_ports,
    link_layer_of,
    qos_of,
    rdma_ports,
)

# Name of an RDMA device, and the number of its port; None: any port of the device.
RdmaPort = t.Tuple[str, t.Optional[int]]
# Variable of NCCL -> variable of UCX.
_UCX = {"NCCL_IB_TC": "UCX_IB_TRAFFIC_CLASS", "NCCL_IB_SL": "UCX_IB_SL"}
Variables = t.Mapping[str, t.Any]


def planned_devices(node: Variables) -> list[RdmaPort]:
    """Return the planned ports of RDMA devices on compute rails."""
    return rdma_ports(compute_ports(node["ports"]))


def nccl(fabric: Variables, node: Variables, devices: t.Sequence[RdmaPort]) -> dict[str, str]:
    """Return the environment variables of NCCL.

    :param devices: the ports of RDMA devices to use; empty: NCCL selects them.
    """
    settings = {}
    if devices:
        # "=" selects exactly these names; without it, mlx5_1 would select mlx5_10 as well. A name without a number
        # selects all active ports of the device.
        settings["NCCL_IB_HCA"] = "=" + ",".join("%s:%d" % (name, port) if port else name for name, port in devices)
    ports = _roce_ports(fabric, node)
    if ports:
        settings["NCCL_IB_ROCE_VERSION_NUM"] = "2"
        pods = [port.get("pods") or {} for port in ports]
        families = {version for pool in pods for version, first in ((4, "first"), (6, "first6")) if pool.get(first)}
        if not families:
            families = {6 if ":" in port["address"] else 4 for port in ports if port.get("address")}
        if families:
            settings["NCCL_IB_ADDR_FAMILY"] = "AF_INET" if 4 in families else "AF_INET6"
    settings.update(_service(fabric, ports))
    if not fabric["routing"]["cross_rail"]:
        # NICs of other rails are unreachable: traffic between rails goes over NVLink to the GPU of the right rail.
        settings.update(NCCL_CROSS_NIC="0", NCCL_PXN_DISABLE="0")
    return settings


def ucx(fabric: Variables, node: Variables, devices: t.Sequence[RdmaPort]) -> dict[str, str]:
    """Return the environment variables of UCX.

    Without ``devices``, UCX uses all that it finds. The same applies if a number is None: the setting needs numbers.
    """
    settings = {}
    numbered = ["%s:%d" % (name, port) for name, port in devices if port]
    if numbered and len(numbered) == len(devices):
        settings["UCX_NET_DEVICES"] = ",".join(numbered)
    service = _service(fabric, _roce_ports(fabric, node))
    settings.update((_UCX[key], value) for key, value in service.items() if key in _UCX)
    return settings


def _roce_ports(fabric: Variables, node: Variables) -> list[Variables]:
    return [port for port in compute_ports(node["ports"]) if link_layer_of(fabric, port) == ETHERNET]


def _service(fabric: Variables, ports: t.Iterable[Variables]) -> dict[str, str]:
    """Return NCCL's variables of the QoS plan; empty on InfiniBand, where the subnet manager sets the service level.

    :param ports: ports with RoCE; a job has one traffic class, so lint reports ports with different ones.
    """
    qos = next(filter(None, (qos_of(fabric, port) for port in ports)), None)
    return dict(qos["nccl"]) if qos else {}
