# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Transport profiles of RoCE: what the makers of NICs and switches set as a whole. Data only, with its sources.

A profile determines PFC, ECN and trimming. Priorities and DSCPs come from the NIC's maker, or from the convention.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import QosDefaults
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_families

# The class of RoCE and of CNPs on NVIDIA's switches, and on NICs whose maker is unknown or publishes none.
PRIORITY, DSCP, CNP_PRIORITY, CNP_DSCP = 3, 26, 6, 48
CONVENTION = QosDefaults(
    *(PRIORITY, DSCP, CNP_PRIORITY, CNP_DSCP),
    "NVIDIA Cumulus Linux 5.14, RDMA over Converged Ethernet, nv show interface qos roce status (read 2026-11-29)",
)

# Families of NICs whose maker gives the control messages of collectives the class of CNPs (NCCL_IB_FIFO_TC).
# ionic: AMD system acceptance, Network Configuration for Performance Optimization, Recommended PFC Parameters: DSCP 46
# and priority 6 for CNPs and for the purpose xccl-cts (read 2026-11-29).
CONTROL_WITH_CNPS = ("ionic",)

LOSSLESS, LOSSY, MULTIPATH = "roce-lossless", "roce-lossy", "multipath"


@dataclass(frozen=True)
class QosProfile:
    """A transport profile.

    ``pfc``: whether RoCE's priority is paused. ``trimming``: whether switches cut the payload of a packet that they
    would drop, and forward its header. All profiles have ECN and trust the DSCP. ``sources``: documents with their
    dates.
    """

    name: str
    pfc: bool
    trimming: bool
    sources: tuple[str, ...]


_CUMULUS = (
    "NVIDIA Cumulus Linux 5.14, RDMA over Converged Ethernet, table Default RoCE Configuration: the modes have the same"
    " classes and ECN, and only lossless has PFC (read 2026-11-29)"
)

PROFILES: t.Mapping[str, QosProfile] = {
    profile.name: profile
    for profile in (
        QosProfile(
            LOSSLESS,
            pfc=True,
            trimming=False,
            sources=(
                _CUMULUS,
                "NVIDIA Network Operator 26.10, NIC Configuration Operator, Configuration Details, roceOptimized: PFC"
                " on priority 3, trust dscp, CNPs with DSCP 48 and priority 6 (2026-11-22; 26.7 has DSCP 4)",
            ),
        ),
        QosProfile(
            LOSSY,
            pfc=False,
            trimming=False,
            sources=(
                _CUMULUS,
                "NVIDIA doRoCE.sh 0.98, option --lossy_buf: PFC off, one buffer for all traffic (2023-07-25)",
            ),
        ),
        QosProfile(
            MULTIPATH,
            pfc=False,
            trimming=True,
            sources=(
                "OCP Multipath Reliable Connection 1.0: PFC off, ECN, trimming (2026-05-05; read in a second source)",
                "NVIDIA Cumulus Linux 5.15, Packet Trimming, RoCE mode lossy-multi-tc (read 2026-11-29)",
            ),
        ),
    )
}


def defaults_of(nic: str | None) -> tuple[int, int, int, int]:
    """Return priority and DSCP of RoCE, then of CNPs, for a family of NICs; the convention if its maker has none."""
    return (nic_families.qos_defaults(nic) or CONVENTION)[:4]


def without_pfc(qos: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether QoS settings of the plan have a profile without PFC."""
    profile = PROFILES.get((qos or {}).get("profile", ""))
    return profile is not None and not profile.pfc
