# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY7xx: QoS: marking, separation and rate control of RoCE traffic must agree."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    Rule,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    INFINIBAND,
    Fabric,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import (
    CABLE_LEN,
    EIGHT,
    LEAST_SPEED,
    Buffers,
    Ets,
    Qos,
    least_size,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import LOSSLESS, LOSSY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import qos_defaults

_FABRIC = "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: sriov, vfs: {%s}}\n"

_PORTS = "    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n"

_INFINIBAND = "fabric: {name: ai, provider: spiderpool, mtu: 4092, attachment: ib-sriov, vfs: {count: 4}}\n"

_LOSSLESS = 2

INFINIBAND_QOS = rule(
    "RY701 qos-on-infiniband: QoS of Ethernet on InfiniBand", _INFINIBAND + "qos: {dscp: 26}", _INFINIBAND
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    if report.has(("fabric", "attachment")) or report.has(("fabric", "link_layer")):
        return  # without the link layer, it is unknown which settings are valid
    # Place of a section -> the section, and the rails that have it; rails of a generator have one section.
    sections: dict[Path, tuple[Qos, list[Rail]]] = {fabric.qos.path: (fabric.qos, [])} if fabric.qos else {}
    for rail in fabric.rails:
        qos = fabric.qos if rail.qos is None else rail.qos
        if isinstance(qos, Qos):
            sections.setdefault(qos.path, (qos, []))[1].append(rail)
    for qos, rails in sections.values():
        layers = {fabric.link_layer_on(rail) for rail in rails} or {fabric.link_layer}
        if layers == {INFINIBAND}:
            message = (
                "only Ethernet has DSCP, PFC and ECN; InfiniBand is lossless, and separates traffic by service levels"
            )
            report.add(INFINIBAND_QOS, qos.path, message, "remove qos, and set service levels in the subnet manager")
            continue
        _section(fabric, variants, qos, [rail for rail in rails if fabric.link_layer_on(rail) != INFINIBAND], report)
    if sections:
        _soft(variants, report)
    _classes(fabric, report)


def _section(fabric: Fabric, variants: Variants, qos: Qos, rails: t.Sequence[Rail], report: Report) -> None:
    """Check the QoS of these rails."""
    contradicting = _profile(qos, report)
    _priorities(qos, variants, report)
    if not contradicting:
        _pfc(qos, report)
    if qos.trust == "pcp":
        _tags(fabric, variants, qos, rails, report)
    if qos.ets and _read(qos, report, "ets", "pfc", "priority", "cnp_priority", "dscp", "cnp_dscp"):
        _ets(qos, qos.ets, report)
    if qos.buffers and not contradicting and _read(qos, report, "buffers", "pfc", "priority", "dscp"):
        _buffers(fabric, variants, qos, qos.buffers, rails, report)


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


def _profile(qos: Qos, report: Report) -> bool:
    """Report settings of PFC that contradict the transport profile. Return whether any does."""
    if qos.profile is None or not _read(qos, report, "profile", "pfc", "buffers"):
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
    elif buffers and (buffers.cable_len is not None or any(buffers.prio_buffer)):
        key = "prio_buffer" if buffers.cable_len is None else "cable_len"
        message = "the profile %s has no PFC, and %s reserves memory for paused traffic" % (name, key)
        report.add(BUFFERS_IN_LOSSY, buffers.path + (key,), message, "remove it, or write profile: %s" % LOSSLESS)
    else:
        return False
    return True


CLASSES = rule(
    "RY719 traffic-classes-of-rails: Compute rails with different traffic classes",
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}\n"
    "  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253, qos: {dscp: 34}}\n" + "qos: {dscp: 26}",
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}\n"
    "  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253, qos: {pfc: []}}\n" + "qos: {dscp: 26}",
    WARNING,
    why="NCCL_IB_TC sets one value for all NICs of a job. NCCL does not use storage rails, which can have another.",
)


def _classes(fabric: Fabric, report: Report) -> None:
    """Report a compute rail whose packets NCCL would mark with the traffic class of another, or of other NICs on it."""
    nics = sorted({profile.nic or "" for profile in fabric.profiles.values()})
    first: tuple[str, Qos] | None = None
    for rail in fabric.compute_rails:
        for nic in nics if len(nics) > 1 else ("",):
            qos = fabric.qos_on(rail, nic)
            if qos is None or report.within(qos.path):
                continue
            name = "%s on NICs of %s" % (rail.name, nic) if nic else rail.name
            first = first or (name, qos)
            if (qos.dscp, qos.ecn) != (first[1].dscp, first[1].ecn):
                message = "%s has DSCP %d%s, and %s has DSCP %d%s" % (
                    *(name, qos.dscp, "" if qos.ecn else " without ECN"),
                    *(first[0], first[1].dscp, "" if first[1].ecn else " without ECN"),
                )
                place = qos.path if rail.qos is not None else first[1].path
                report.add(CLASSES, place, message, "give all compute rails one dscp and one ecn")


SOFT_RDMA = rule(
    "RY718 qos-on-soft-rdma: QoS on a soft RDMA device",
    "profiles:\n  hgx:\n    soft_rdma: rxe\n" + _PORTS + "qos: {dscp: 26}",
    "profiles:\n  hgx:\n" + _PORTS + "qos: {dscp: 26}",
    WARNING,
)


def _soft(variants: Variants, report: Report) -> None:
    """Report profiles with soft RDMA, which has no QoS."""
    for variant in variants:
        soft = variant.profile.soft_rdma
        if soft:
            message = "no NIC marks or slows down traffic of %s: nodes of %s have no QoS" % (
                soft,
                variant.name,
            )
            remedy = "remove qos, or suppress this finding if other nodes have RDMA NICs"
            report.add(SOFT_RDMA, variant.profile.path + ("soft_rdma",), message, remedy)


def _read(qos: Qos, report: Report, *keys: str) -> bool:
    """Return whether these keys, and values derived from them, could be read."""
    return not any(report.within(qos.path + (key,)) for key in keys)


ONE_DSCP = rule(
    "RY702 cnp-dscp-conflict: Same DSCP for RoCE and CNPs",
    "qos: {dscp: 26, cnp_dscp: 26}",
    "qos: {dscp: 26, cnp_dscp: 48}",
)


def _priorities(qos: Qos, variants: Variants, report: Report) -> None:
    """Report DSCP values and priorities with which RoCE and CNPs are not separated."""
    if not _read(qos, report, "priority", "dscp", "cnp_priority", "cnp_dscp"):
        return
    shared = qos.dscp == qos.cnp_dscp
    if shared:
        message = "RoCE and CNPs both have DSCP %d, so switches and NICs cannot separate them" % qos.cnp_dscp
        place = qos.where("cnp_dscp", "cnp_priority", "dscp", "priority")
        report.add(ONE_DSCP, place, message, "use another DSCP for CNPs, such as cnp_dscp: %d" % (_free(qos) << 3))
    elif qos.cnp_priority == qos.priority:
        _pausable(qos, qos.where("cnp_priority", "cnp_dscp", "priority", "dscp"), "RoCE's", report)
    elif qos.cnp_priority in qos.pfc:
        _pausable(qos, qos.where("cnp_priority", "cnp_dscp", "pfc"), "lossless", report)
    if qos.trust == "dscp":
        for kind in ("",) if shared else ("", "cnp_"):
            _mapped(qos, variants, kind, report)


CNP_LOSSLESS = rule(
    "RY704 cnp-on-lossless-priority: CNPs on a lossless priority",
    "qos: {dscp: 26, cnp_dscp: 24}",
    "qos: {dscp: 26, cnp_dscp: 48}",
    why="A sender that gets a notification slows down. On a paused priority it waits until the congestion is over.",
    suppressible=True,
)


def _pausable(qos: Qos, path: Path, whose: str, report: Report) -> None:
    """Report CNPs in a priority that PFC pauses. ``whose``: RoCE's or lossless, for the message."""
    message = "CNPs have priority %d, which is %s, so a pause also delays the CNPs that would end it"
    if not qos.pfc:
        message = "CNPs have priority %d, which is %s, so they wait behind the packets that they would slow down"
    remedy = "set cnp_priority: %d and cnp_dscp: %d" % (_free(qos), _free(qos) << 3)
    report.add(CNP_LOSSLESS, path, message % (qos.cnp_priority, whose), remedy)


def _free(qos: Qos) -> int:
    """Return a priority for CNPs: the highest below network control that is neither RoCE's nor lossless."""
    return max(set(EIGHT[1:7]).difference(qos.pfc, (qos.priority,)), default=7)


DEFAULT_MAP = rule(
    "RY705 priority-not-from-dscp: Priority that differs from the devices' default for the DSCP",
    "qos: {dscp: 26, priority: 5}",
    "qos: {dscp: 40, priority: 5}",
    WARNING,
    why="Switches, and NICs after a reset, use DSCP divided by 8 as the priority until they get another table. If the"
    " convention of a vendor differs, such as CNPs with DSCP 48 on priority 7, configure that table on every switch and"
    " NIC, and suppress this finding under lint.",
)


def _mapped(qos: Qos, variants: Variants, kind: str, report: Report) -> None:
    """Report a DSCP that devices map to another priority by default. ``kind``: the prefix of the keys."""
    dscp, priority = (qos.cnp_dscp, qos.cnp_priority) if kind else (qos.dscp, qos.priority)
    recommended = (qos_defaults(variant.profile.nic) for variant in variants)
    if dscp >> 3 == priority or (dscp, priority) in [each and each.mark(kind) for each in recommended]:
        return
    message = "devices map DSCP %d to priority %d by default, not to %d" % (dscp, dscp >> 3, priority)
    remedy = "set %spriority: %d, or give every switch the same table and suppress this finding" % (kind, dscp >> 3)
    report.add(DEFAULT_MAP, qos.where(kind + "priority", kind + "dscp"), message, remedy)


PFC_MISSES = rule(
    "RY703 pfc-without-roce: PFC without the priority of RoCE",
    "qos: {priority: 5, pfc: [3]}",
    "qos: {priority: 5, pfc: [5]}",
    suppressible=True,
)

UNCONTROLLED = rule(
    "RY708 no-congestion-control: RoCE without PFC and ECN",
    "qos: {pfc: [], ecn: false}",
    "qos: {pfc: [], ecn: true}",
    WARNING,
)

LOSSLESS_MANY = rule(
    "RY709 many-lossless-priorities: More lossless priorities than switches commonly have buffers for",
    "qos: {pfc: [2, 3, 4]}",
    "qos: {pfc: [3, 4]}",
    WARNING,
    why="Each lossless priority needs its own headroom in every port of every switch.",
)

LOSSLESS_DEFAULT = rule(
    "RY710 lossless-default-priority: Lossless priority of all unmarked traffic",
    "qos: {pfc: [0, 3]}",
    "qos: {pfc: [3]}",
    WARNING,
)


def _pfc(qos: Qos, report: Report) -> None:
    """Report lossless priorities that do not protect RoCE, or affect other traffic."""
    path = qos.where("pfc", "priority", "dscp")
    if not _read(qos, report, "pfc", "priority", "dscp"):
        return
    if qos.pfc and qos.priority not in qos.pfc:
        message = "%s does not contain %d, the priority of RoCE" % (list(qos.pfc), qos.priority)
        report.add(PFC_MISSES, path, message, "write pfc: [%d], or pfc: [] for a network without PFC" % qos.priority)
    if not qos.pfc and not qos.ecn:
        message = "without PFC and ECN, congestion drops packets, and RoCE stalls on each"
        remedy = "set ecn: true" if qos.profile else "set ecn: true, or pfc: [%d]" % qos.priority
        report.add(UNCONTROLLED, qos.where("ecn") if qos.lossy else path, message, remedy)
    if len(qos.pfc) > _LOSSLESS:
        message = "%d lossless priorities, where switches commonly have buffers for %d" % (len(qos.pfc), _LOSSLESS)
        report.add(LOSSLESS_MANY, path, message, "keep the priority of RoCE and at most one more")
    if 0 in qos.pfc:
        message = "all unmarked traffic has priority 0, and a pause would delay it too"
        report.add(LOSSLESS_DEFAULT, path, message, "give RoCE a priority of its own, such as 3 with DSCP 26")


PCP_UNTAGGED = rule(
    "RY706 untagged-vlan-trust: VLAN priority trusted without a VLAN tag",
    _FABRIC % "count: 4" + "qos: {trust: pcp}",
    _FABRIC % "count: 4, vlan: 100, qos: 3" + "qos: {trust: pcp}",
    WARNING,
)

PCP_VFS = rule(
    "RY707 vf-priority-mismatch: VF priority that differs from that of RoCE",
    _FABRIC % "count: 4, vlan: 100, qos: 5" + "qos: {trust: pcp}",
    _FABRIC % "count: 4, vlan: 100, qos: 3" + "qos: {trust: pcp}",
    suppressible=True,
)


def _tags(fabric: Fabric, variants: Variants, qos: Qos, rails: t.Sequence[Rail], report: Report) -> None:
    """With ``trust: pcp``, check that VFs are in a VLAN whose tag has RoCE's priority."""
    untagged: dict[str, None] = {}
    for variant in variants.with_unused():
        for rail in rails:
            if rail.name not in variant.ports:
                continue
            vfs = variant.vfs_on(fabric, rail) if variant.has_vfs_on(rail) else {}
            vlan = vfs.get("vlan")
            if vlan is None or vlan.value == 0:
                untagged[rail.name] = None
            elif vlan.value and _read(qos, report, "priority", "dscp") and not report.within(vlan.path[:-1]):
                tag = vfs.get("qos")
                priority = tag.value if tag else 0
                if priority not in (None, qos.priority):
                    message = "the tags of VLAN %d have priority %d, but RoCE has %d"
                    place = (tag or vlan).path
                    remedy = "set vfs.qos: %d" % qos.priority
                    report.add(PCP_VFS, place, message % (vlan.value, priority, qos.priority), remedy)
    if untagged:
        message = "trust: pcp reads the priority from the VLAN tag, and no VLAN is set on %s" % ", ".join(untagged)
        report.add(PCP_UNTAGGED, qos.path + ("trust",), message, "set trust: dscp, or vfs.vlan and vfs.qos")


ETS_SUM = rule(
    "RY711 ets-shares: Traffic class shares that do not add up to 100 percent",
    "qos: {ets: {tc_bw: {0: 50, 3: 60}}}",
    "qos: {ets: {tc_bw: {0: 40, 3: 60}}}",
)

ETS_CLASS = rule(
    "RY712 ets-class-share: Traffic class that is neither strict nor has a share, or both",
    "qos: {ets: {prio_tc: {3: 3, 4: 4, 6: 6}, tc_bw: {0: 40, 3: 60}}}",
    "qos: {ets: {prio_tc: {3: 3, 4: 4, 6: 6}, tc_bw: {0: 30, 3: 60, 4: 10}}}",
)

CNP_NOT_STRICT = rule(
    "RY713 cnp-not-strict: CNPs in a traffic class that is not strict",
    "qos: {ets: {strict: [], tc_bw: {0: 40, 3: 55, 6: 5}}}",
    "qos: {ets: {strict: [6], tc_bw: {0: 40, 3: 60}}}",
    WARNING,
)

CLASS_SHARED = rule(
    "RY714 shared-lossless-class: Traffic class shared by a lossless and another priority",
    "qos: {ets: {prio_tc: {2: 3, 3: 3, 6: 6}}}",
    "qos: {ets: {prio_tc: {2: 2, 3: 3, 6: 6}}}",
    WARNING,
)


def _ets(qos: Qos, ets: Ets, report: Report) -> None:
    """Report traffic classes without bandwidth, shares that are not 100 %, and CNPs in a class that is not strict."""
    used = sorted(set(ets.prio_tc))
    total = sum(ets.tc_bw.values())
    wrong = False
    for each in sorted(set(used).union(ets.strict)):
        if each in ets.tc_bw and each in ets.strict:
            message = "class %d has a share, but is strict" % each
            report.add(ETS_CLASS, ets.path + ("strict",), message, "remove it from strict or from tc_bw")
            wrong = True
        elif each not in ets.tc_bw and each not in ets.strict:
            message = "class %d of priority %d has no share and is not strict" % (each, ets.prio_tc.index(each))
            report.add(ETS_CLASS, ets.path + ("tc_bw",), message, "give it a share in tc_bw, or add it to strict")
            wrong = True
    if ets.tc_bw and total != 100 and not wrong:
        parts = " + ".join(str(share) for share in ets.tc_bw.values())
        report.add(
            ETS_SUM,
            ets.path + ("tc_bw",),
            "%s is %d, not 100" % (parts, total),
            "change the shares so that they add up to 100",
        )
    cnp = ets.prio_tc[qos.cnp_priority]
    if cnp not in ets.strict and not wrong and qos.cnp_priority != qos.priority:
        message = "class %d of CNPs is not strict, so senders are notified late of congestion" % cnp
        report.add(CNP_NOT_STRICT, ets.path + ("strict",), message, "add it to strict, and remove it from tc_bw")
    _shared_by_lossless(qos, ets.prio_tc, "class", CLASS_SHARED, ets.path + ("prio_tc",), report)


BUFFER_SHARED = rule(
    "RY715 shared-lossless-buffer: Receive buffer shared by a lossless and another priority",
    "qos: {buffers: {prio_buffer: {2: 1, 3: 1}}}",
    "qos: {buffers: {prio_buffer: {2: 2, 3: 1}}}",
    WARNING,
)

BUFFER_NONE = rule(
    "RY716 missing-buffer-size: Receive buffer without a size",
    "qos: {buffers: {prio_buffer: {3: 1}, buffer_size: {1: 150000}}}",
    "qos: {buffers: {prio_buffer: {3: 1}, buffer_size: {0: 60000, 1: 150000}}}",
)

BUFFER_SMALL = rule(
    "RY717 lossless-buffer-too-small: Lossless buffer too small for data in flight after a pause",
    "qos: {buffers: {cable_len: 300, buffer_size: {0: 60000, 1: 50000}}}",
    "qos: {buffers: {cable_len: 300, buffer_size: {0: 60000, 1: 80000}}}",
    WARNING,
)


def _buffers(
    fabric: Fabric, variants: Variants, qos: Qos, buffers: Buffers, rails: t.Sequence[Rail], report: Report
) -> None:
    """Report buffers that are missing, too small (in bytes) or shared."""
    _shared_by_lossless(qos, buffers.prio_buffer, "buffer", BUFFER_SHARED, buffers.path + ("prio_buffer",), report)
    if not buffers.buffer_size:
        return
    path = buffers.path + ("buffer_size",)
    lossless = {buffers.prio_buffer[priority] for priority in qos.pfc}
    speed = _speed(variants, {rail.name for rail in rails})
    mtu = max([rail.mtu or 0 for rail in rails] + [fabric.mtu or 0])
    needed = least_size(buffers.cable_len, speed, mtu)
    for each in sorted(set(buffers.prio_buffer)):
        size = buffers.buffer_size.get(each, 0)
        if not size:
            message = "buffer %d of priority %d has no size, and would accept no packet" % (
                each,
                buffers.prio_buffer.index(each),
            )
            report.add(BUFFER_NONE, path, message, "set the size of every buffer in use, in bytes")
        elif each in lossless and size < needed:
            message = "%d bytes are too few: %d Gb/s over %s m with MTU %d need %d" % (
                size,
                max(speed, LEAST_SPEED),
                str(buffers.cable_len or CABLE_LEN),
                mtu,
                needed,
            )
            report.add(BUFFER_SMALL, path + (str(each),), message, "increase it, or correct cable_len")


def _shared_by_lossless(qos: Qos, places: t.Sequence[int], kind: str, broken: Rule, path: Path, report: Report) -> None:
    """Report lossless priorities that share a class or buffer with others. ``places``: priority -> class or buffer."""
    for priority in qos.pfc:
        others = [each for each in EIGHT if each not in qos.pfc and places[each] == places[priority]]
        if others:
            message = "priority %d is lossless and shares %s %d with %s" % (
                priority,
                kind,
                places[priority],
                ", ".join(str(each) for each in others),
            )
            report.add(broken, path, message, "give it its own %s" % kind)


def _speed(variants: Variants, rails: t.Container[str]) -> int:
    """Return the fastest expected link of these rails, in Gb/s; 0 if the file has none."""
    known = variants.with_unused()
    speeds = [variant.profile.expected.get("speed", 0) for variant in known]
    speeds += [port.speed or 0 for variant in known for port in variant.ports.values() if port.rail in rails]
    return max(speeds, default=0)
