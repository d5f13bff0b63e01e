# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NICs of NVIDIA: ConnectX and BlueField, with the drivers mlx5 and mlx4."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia import congestion_control
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.vf_files import Mlx5VfFiles
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import (
    CongestionControl,
    NicVendor,
    Node,
    Setting,
)

# Names of mlx5's statistics: RDMA traffic per NIC, and flow control and discards per priority.
_TRAFFIC = re.compile(r"[rt]x_vport_rdma_(unicast|multicast)_(bytes|packets)")
_BY_PRIORITY = re.compile(r"([rt]x)_prio([0-7])_(pause|discards)")
_TRAFFIC_CLASS = re.compile(r"(?:global )?tclass=(\d+)|(\d+)", re.IGNORECASE)


class Nvidia(NicVendor):
    rdma_module = "mlx5_ib"
    enable_sriov = "enable SR-IOV in the NIC's firmware (mlx_linktype, sriov_en) and in the BIOS, then reboot"
    raise_vf_limit = "raise the firmware's limit (mlx_linktype, num_of_vfs)"
    # mlx5_lag_check_prereq() and mlx5_lag_is_roce_lag() of the kernel's mlx5_core
    has_roce_lag = True
    no_congestion_control = (
        "ECN (neither ecn of NVIDIA's driver nor cc_params of mlx5 in debugfs)",
        "install NVIDIA's driver, or set qos.ecn to null and set ECN in the firmware",
    )
    acs_devices = {"2100": "a ConnectX's DMA Direct function"}
    # ConnectX-8 and 9: README of nic-configuration-operator, pull request 471 (2026-09-02)
    plane_devices = frozenset({"1023", "1025"})
    vf_files = Mlx5VfFiles()

    def congestion_control(self, node: Node, netdev: str, pci: str) -> CongestionControl | None:
        return congestion_control.find(node, netdev, pci)

    def trust_files(self, netdev: str) -> tuple[str, str] | None:
        # older drivers have the trust in sysfs, not in the application table
        place = "/sys/class/net/%s/qos" % netdev
        return place + "/trust", place + "/dscp2prio"

    def traffic_class(self, node: Node, device: str, port: int) -> Setting | None:
        path = "/sys/class/infiniband/%s/tc/%d/traffic_class" % (device, port)
        text = node.read(path)
        if text is None:
            return None
        # empty until it is set for the first time: packets have class 0
        found = _TRAFFIC_CLASS.match(text)
        return Setting("traffic_class", path, int(found.group(1) or found.group(2)) if found else 0)

    def statistic(self, name: str) -> tuple[str, str | None] | None:
        match = _BY_PRIORITY.fullmatch(name)
        if match:
            return "%s_%s" % (match[1], match[3]), match[2]
        return (name, None) if _TRAFFIC.fullmatch(name) else None


NVIDIA = Nvidia()
