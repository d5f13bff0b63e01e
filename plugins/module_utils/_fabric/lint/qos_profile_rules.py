# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY72x: transport profiles: settings of PFC must agree with them, and NICs of several makers with each other."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import EIGHT, Qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import (
    LOSSLESS,
    LOSSY,
    defaults_of,
)

_PORTS = "    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n"


def was_read(qos: Qos, report: Report, *keys: str) -> bool:
    """Return whether these keys, and values derived from them, could be read."""
    return not any(report.within(qos.path + (key,)) for key in keys)


PFC_IN_LOSSY = rule(
    "RY720 pfc-in-lossy-profile: Lossless priorities in a profile without PFC",
    "qos: {profile: roce-lossy, pfc: [3]}",
    "qos: {profile: roce-lossless, pfc: [3]}",
    why="A port that sends pause frames stops its neighbour, although the network is built to drop or trim packets.",
)

BUFFERS_IN_LOSSY = rule(
    "RY721 lossless-buffers-in-lossy-profile: Buffers for paused traffic in a profile without PFC",
    "qos: {profile: multipath, buffers: {cable_len: 100}}",
    "qos: {profile: multipath, buffers: {buffer_size: {0: 200000}}}",
    why="The length of the cable determines the headroom after a pause frame, and a buffer of its own protects a paused"
    " priority. Without PFC, both only take memory from the traffic.",
)

NO_PFC_IN_LOSSLESS = rule(
    "RY722 lossless-profile-without-pfc: The profile roce-lossless without lossless priorities",
    "qos: {profile: roce-lossless, pfc: []}",
    "qos: {profile: roce-lossy}",
)


def check_pfc(qos: Qos, report: Report) -> bool:
    """Report settings of PFC that contradict the transport profile. Return whether there are any."""
    if qos.profile is None or not was_read(qos, report, "profile", "pfc", "buffers"):
        return False
    name, buffers = qos.profile.name, qos.buffers
    if not qos.lossy and not qos.pfc:
        message = "the profile %s has PFC, and pfc is empty" % name
        report.add(NO_PFC_IN_LOSSLESS, qos.where("pfc"), message, "remove pfc, or write profile: %s" % LOSSY)
    elif not qos.lossy:
        return False
    elif qos.pfc:
        message = "the profile %s has no PFC, and pfc has %s" % (name, ", ".join(map(str, qos.pfc)))
        report.add(PFC_IN_LOSSY, qos.where("pfc"), message, "remove pfc, or write profile: %s" % LOSSLESS)
    elif buffers and buffers.cable_len is not None:
        message = "the profile %s has no PFC, which cable_len reserves memory for" % name
        remedy = "remove cable_len, or write profile: %s" % LOSSLESS
        report.add(BUFFERS_IN_LOSSY, buffers.path + ("cable_len",), message, remedy)
    elif buffers and any(buffers.prio_buffer):
        apart = next(each for each in EIGHT if buffers.prio_buffer[each])
        message = "the profile %s has no PFC, and priority %d has a buffer of its own" % (name, apart)
        remedy = "remove prio_buffer, so that all priorities share buffer 0, or write profile: %s" % LOSSLESS
        report.add(BUFFERS_IN_LOSSY, buffers.path + ("prio_buffer",), message, remedy)
    else:
        return False
    return True


_MAKERS = (
    "profiles:\n  pollara:\n    nic: ionic\n"
    + _PORTS
    + "  cx7:\n    nic: mlx5\n"
    + _PORTS
    + "nodes:\n  ai-1: {profile: pollara, address: 10.1.16.1}\n  ai-2: {profile: cx7, address: 10.1.16.2}\n"
)
MAKERS = rule(
    "RY723 classes-of-makers: NICs whose makers mark RoCE with different DSCPs",
    _MAKERS + "qos: {profile: roce-lossy}",
    _MAKERS + "qos: {profile: roce-lossy, dscp: 26, cnp_dscp: 48}",
    WARNING,
    why="A profile takes the class of the NIC's maker. Switches must map all of them, and a job has one NCCL_IB_TC.",
)


def check_makers(fabric: Fabric, report: Report) -> None:
    """Report a section whose profile gives NICs of different makers different DSCPs."""
    nics = sorted({profile.nic for profile in fabric.profiles.values() if profile.nic})
    reported: set[Path] = set()
    for rail in fabric.compute_rails if len(nics) > 1 else ():
        marks: dict[tuple[int, int], str] = {}
        for nic in nics:
            qos = fabric.qos_on(rail, nic)
            if qos and qos.path not in reported and not report.within(qos.path):
                marks.setdefault((qos.dscp, qos.cnp_dscp), nic)
        if qos and len(marks) > 1:
            parts = ["DSCP %d, and CNPs %d, on %s" % (*marked, nic) for marked, nic in marks.items()]
            remedy = "set dscp and cnp_dscp in qos, such as dscp: %d and cnp_dscp: %d" % defaults_of(None)[1::2]
            report.add(MAKERS, qos.where("profile"), "RoCE has %s" % "; ".join(parts), remedy)
            reported.add(qos.path)
