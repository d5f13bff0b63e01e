# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY7xx: QoS: marking, separation and rate control of RoCE traffic must agree."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_FABRIC = "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: sriov, vfs: {%s}}\n"

_PORTS = "    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n"

_INFINIBAND = "fabric: {name: ai, provider: spiderpool, mtu: 4092, attachment: ib-sriov, vfs: {count: 4}}\n"

INFINIBAND_QOS = rule(
    "RY701 qos-on-infiniband: QoS of Ethernet on InfiniBand", _INFINIBAND + "qos: {dscp: 26}", _INFINIBAND
)

ONE_DSCP = rule(
    "RY702 cnp-dscp-conflict: Same DSCP for RoCE and CNPs",
    "qos: {dscp: 26, cnp_dscp: 26}",
    "qos: {dscp: 26, cnp_dscp: 48}",
)

PFC_MISSES = rule(
    "RY703 pfc-without-roce: PFC without the priority of RoCE",
    "qos: {priority: 5, pfc: [3]}",
    "qos: {priority: 5, pfc: [5]}",
    suppressible=True,
)

CNP_LOSSLESS = rule(
    "RY704 cnp-on-lossless-priority: CNPs on a lossless priority",
    "qos: {dscp: 26, cnp_dscp: 24}",
    "qos: {dscp: 26, cnp_dscp: 48}",
    why="A sender that gets a notification slows down. On a paused priority it waits until the congestion is over.",
    suppressible=True,
)

DEFAULT_MAP = rule(
    "RY705 priority-not-from-dscp: Priority that differs from the devices' default for the DSCP",
    "qos: {dscp: 26, priority: 5}",
    "qos: {dscp: 40, priority: 5}",
    WARNING,
    why="Switches, and NICs after a reset, use DSCP divided by 8 as the priority until they get another table. If the"
    " convention of a vendor differs, such as CNPs with DSCP 48 on priority 7, configure that table on every switch and"
    " NIC, and suppress this finding under lint.",
)

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

SOFT_RDMA = rule(
    "RY718 qos-on-soft-rdma: QoS on a soft RDMA device",
    "profiles:\n  hgx:\n    soft_rdma: rxe\n" + _PORTS + "qos: {dscp: 26}",
    "profiles:\n  hgx:\n" + _PORTS + "qos: {dscp: 26}",
    WARNING,
)
