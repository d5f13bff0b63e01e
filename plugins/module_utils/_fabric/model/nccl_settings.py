# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of NCCL and UCX, from ``railyard_fabric`` and ``railyard_node``.

They never include a GID index: indexes differ between pods and change at run time. Address family and RoCE version
select the same GID and do not change.
"""

from __future__ import annotations

import typing as t

# Name of an RDMA device, and the number of its port; None: any port of the device.
RdmaPort = t.Tuple[str, t.Optional[int]]
# Variable of NCCL -> that of UCX.
_UCX = {"NCCL_IB_TC": "UCX_IB_TRAFFIC_CLASS", "NCCL_IB_SL": "UCX_IB_SL"}
Variables = t.Mapping[str, t.Any]


def nccl(fabric: Variables, node: Variables, ports: t.Sequence[RdmaPort]) -> dict[str, str]:
    """Return the environment variables of NCCL.

    :param ports: the ports of RDMA devices to use; empty: NCCL selects them.
    """
    settings = {}
    if ports:
        # "=" selects exactly these names; without it, mlx5_1 would select mlx5_10 as well. A name without a number
        # selects all active ports of the device.
        settings["NCCL_IB_HCA"] = "=" + ",".join("%s:%d" % (name, port) if port else name for name, port in ports)
    if fabric["link_layer"] == "ethernet":
        settings["NCCL_IB_ROCE_VERSION_NUM"] = "2"
        pods = [port.get("pods") or {} for port in node["ports"]]
        families = {version for pool in pods for version, first in ((4, "first"), (6, "first6")) if pool.get(first)}
        if not families:
            families = {6 if ":" in port["address"] else 4 for port in node["ports"] if port.get("address")}
        if families:
            settings["NCCL_IB_ADDR_FAMILY"] = "AF_INET" if 4 in families else "AF_INET6"
    settings.update(_service(fabric))
    if not fabric["routing"]["cross_rail"]:
        # NICs of other rails are unreachable: traffic between rails goes over NVLink to the GPU of the right rail.
        settings.update(NCCL_CROSS_NIC="0", NCCL_PXN_DISABLE="0")
    return settings


def ucx(fabric: Variables, ports: t.Sequence[RdmaPort]) -> dict[str, str]:
    """Return the environment variables of UCX.

    Without ``ports``, UCX uses all that it finds. So it does if a number is None, because its setting needs numbers.
    """
    settings = {}
    numbered = ["%s:%d" % (name, port) for name, port in ports if port]
    if numbered and len(numbered) == len(ports):
        settings["UCX_NET_DEVICES"] = ",".join(numbered)
    settings.update((_UCX[key], value) for key, value in _service(fabric).items() if key in _UCX)
    return settings


def _service(fabric: Variables) -> dict[str, str]:
    """Return NCCL's variables of the QoS plan; empty on InfiniBand, where the subnet manager sets the service level."""
    qos = fabric["qos"]
    return dict(qos["nccl"]) if qos and fabric["link_layer"] == "ethernet" else {}
