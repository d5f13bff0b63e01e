# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of NCCL and UCX, from ``railyard_fabric`` and ``railyard_node``.

Only compute rails determine them. They never include a GID index: indexes differ between pods and change at run time.
Address family and RoCE version select the same GID and do not change.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import nccl_hca
from ansible_collections.railyard.fabric.plugins.module_utils._common.nccl_hca import HcaPort
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ETHERNET,
    has_vfs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    compute_ports,
    hca_ports,
    link_layer_of,
    plane_index,
    qos_of,
    rail_index,
    rdma_numbers,
)

GID_INDEX = "NCCL_IB_GID_INDEX"
# The first version that selects the GID by address family and RoCE version. Older ones use the GID with the index of
# GID_INDEX, 0 by default, which belongs to RoCE v1. Source: NCCL, docs/userguide/source/env.rst of 2.30.7, and
# src/transport/net_ib.cc at the tags v2.20.5-1 and v2.21.5-1, read on 2026-11-29.
GID_VERSION = (2, 21)
# Variable of NCCL -> variable of UCX.
_UCX = {"NCCL_IB_TC": "UCX_IB_TRAFFIC_CLASS", "NCCL_IB_SL": "UCX_IB_SL"}
Variables = t.Mapping[str, t.Any]
RailNumbers = t.Dict[t.Tuple[int, str], t.Dict[str, t.Optional[int]]]


def rail_numbers(fabric: Fabric, variants: Variants) -> RailNumbers:
    """Return (``id`` of a variant, rail) -> the numbers of rail and plane for NCCL, from 0.

    They depend on the rails of the fabric, not on the ports of a node: NCCL on different nodes must agree on them. All
    NICs and planes of a rail have its number. The planes of hardware balancing are one device, which has no number.
    """
    numbers = {base: number for number, base in enumerate(dict.fromkeys(rail.base for rail in fabric.compute_rails))}
    return {
        (id(variant), rail.name): {
            "rail": numbers[rail.base],
            "plane": rail.plane - 1 if rail.planes > 1 else None,
        }
        for variant in variants
        if (host_model.nccl_version(variant.host) or (0,)) >= nccl_hca.RAIL_VERSION
        for rail in fabric.compute_rails
    }


def planned_devices(node: Variables) -> list[HcaPort]:
    """Return the planned ports of RDMA devices on compute rails."""
    return hca_ports(compute_ports(node["ports"]))


def of_slots(node: Variables, port: Variables) -> dict[str, t.Any]:
    """Return the key ``nccl`` of a rail in the agent's spec: the entries of NCCL_IB_HCA for the RDMA device of a slot.

    It is missing if the name of the device and ``rdma_port`` are enough. ``ports``: the numbers of the ports of the
    device; empty for every port. A VF has one port.
    """
    own = rdma_numbers(port)
    if "nccl" not in port and len(own) == 1:
        return {}
    numbers, rail, plane = [1], rail_index(port), plane_index(port)
    if not has_vfs(attachment_of(node, port)):
        name = port["rdma"]["name"]
        same = [each for each in node["ports"] if each["rdma"]["name"] == name and {*own} & {*rdma_numbers(each)}]
        found = hca_ports(same)
        numbers = [each.port for each in found if each.port and (own == [None] or each.port in own)]
        rail, plane = (found[0].rail, found[0].plane) if found else (rail, plane)
    return {"nccl": {"ports": numbers, "rail": rail, "plane": plane}}


def nccl(fabric: Variables, node: Variables, devices: t.Sequence[HcaPort]) -> dict[str, str]:
    """Return the environment variables of NCCL.

    :param devices: the ports of RDMA devices to use; empty: NCCL selects them.
    """
    settings = nccl_hca.settings(devices)
    ports = _roce_ports(fabric, node)
    if ports and not needs_gid_index(node):
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


def planned_version(node: Variables) -> str | None:
    """Return the oldest NCCL of the jobs, as in the fabric file; None without."""
    version: str | None = (node.get("nccl") or {}).get("version")
    return version


def needs_gid_index(node: Variables) -> bool:
    """Return whether the NCCL of the jobs is too old to select a GID, according to the plan."""
    version = host_model.version_numbers(planned_version(node) or "")
    return version is not None and version < GID_VERSION


def gid_addresses(fabric: Variables, node: Variables) -> list[str]:
    """Return the addresses of the ports whose GIDs NCCL must use by their index; empty if it selects GIDs itself."""
    if not needs_gid_index(node):
        return []
    stated = [port["address"] or port["address6"] for port in _roce_ports(fabric, node)]
    return [bare(address) for address in stated if address]


def ucx(fabric: Variables, node: Variables, devices: t.Sequence[HcaPort]) -> dict[str, str]:
    """Return the environment variables of UCX.

    Without ``devices``, UCX uses all that it finds. The same applies if a number is None: the setting needs numbers.
    """
    settings = nccl_hca.ucx_settings(devices)
    service = _service(fabric, _roce_ports(fabric, node))
    settings.update((_UCX[key], value) for key, value in service.items() if key in _UCX)
    return settings


def open_mpi(node: Variables) -> dict[str, str]:
    """Return the environment variables of Open MPI, if the plan has the version of NCCL of the jobs.

    Open MPI uses RDMA by UCX, with the devices in UCX's variables. It prefers UCX only for devices of the driver
    mlx5, unless this variable names others. Source: Open MPI, opal/mca/common/ucx/common_ucx.c
    (opal_common_ucx_support_level), and docs/tuning-apps/networking/ib-and-roce.rst of 5.0.8, read on 2026-11-29.
    """
    return {"OMPI_MCA_pml_ucx_devices": "any"} if planned_version(node) else {}


def _roce_ports(fabric: Variables, node: Variables) -> list[Variables]:
    return [port for port in compute_ports(node["ports"]) if link_layer_of(fabric, port) == ETHERNET]


def _service(fabric: Variables, ports: t.Iterable[Variables]) -> dict[str, str]:
    """Return NCCL's variables of the QoS plan; empty on InfiniBand, where the subnet manager sets the service level.

    :param ports: ports with RoCE; a job has one traffic class, so lint reports ports with different ones.
    """
    qos = next(filter(None, (qos_of(fabric, port) for port in ports)), None)
    return dict(qos["nccl"]) if qos else {}
