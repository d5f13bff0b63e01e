# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY7xx: QoS, that what is marked, kept apart and slowed down is the same traffic everywhere."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_FABRIC = "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: sriov, vfs: {%s}}\n"

_PORTS = "    ports:\n      gpu01: {netdev: nic1}\n      gpu02: {netdev: nic2}\n"

_INFINIBAND = "fabric: {name: ai, provider: spiderpool, mtu: 4092, attachment: ib-sriov, vfs: {count: 4}}\n"

INFINIBAND_QOS = rule(
    "RY701",
    "QoS is of Ethernet, and the link layer is InfiniBand",
    _INFINIBAND + "qos: {dscp: 26}",
    _INFINIBAND,
)

ONE_DSCP = rule(
    "RY702",
    "RoCE and its congestion notifications have one DSCP",
    "qos: {dscp: 26, cnp_dscp: 26}",
    "qos: {dscp: 26, cnp_dscp: 48}",
)

PFC_MISSES = rule(
    "RY703",
    "PFC leaves out the priority of RoCE",
    "qos: {priority: 5, pfc: [3]}",
    "qos: {priority: 5, pfc: [5]}",
    lowers=True,
)

CNP_LOSSLESS = rule(
    "RY704",
    "Congestion notifications travel on RoCE's or on another lossless priority",
    "qos: {dscp: 26, cnp_dscp: 24}",
    "qos: {dscp: 26, cnp_dscp: 48}",
    why="A notification tells a sender to slow down. On a paused priority it waits until the congestion is over.",
    lowers=True,
)

DEFAULT_MAP = rule(
    "RY705",
    "A priority is not the one that devices make of the DSCP by themselves",
    "qos: {dscp: 26, priority: 5}",
    "qos: {dscp: 40, priority: 5}",
    WARNING,
    why="NICs after a reset, and switches, take DSCP divided by 8 for the priority until they are given another table."
    " Where a vendor's convention differs, such as CNPs of DSCP 48 on priority 7, give that table to every switch and"
    " NIC, and suppress this finding under lint.",
)

PCP_UNTAGGED = rule(
    "RY706",
    "The VLAN priority is trusted, and packets carry no VLAN tag",
    _FABRIC % "count: 4" + "qos: {trust: pcp}",
    _FABRIC % "count: 4, vlan: 100, qos: 3" + "qos: {trust: pcp}",
    WARNING,
)

PCP_VFS = rule(
    "RY707",
    "The VLAN priority is trusted, and the VFs' is not RoCE's",
    _FABRIC % "count: 4, vlan: 100, qos: 5" + "qos: {trust: pcp}",
    _FABRIC % "count: 4, vlan: 100, qos: 3" + "qos: {trust: pcp}",
    lowers=True,
)

UNCONTROLLED = rule(
    "RY708",
    "RoCE has neither PFC nor ECN",
    "qos: {pfc: [], ecn: false}",
    "qos: {pfc: [], ecn: true}",
    WARNING,
)

LOSSLESS_MANY = rule(
    "RY709",
    "More lossless priorities than buffers commonly have room for",
    "qos: {pfc: [2, 3, 4]}",
    "qos: {pfc: [3, 4]}",
    WARNING,
    why="Each lossless priority needs headroom of its own in every port of every switch.",
)

LOSSLESS_DEFAULT = rule(
    "RY710",
    "The priority of all unmarked traffic is lossless",
    "qos: {pfc: [0, 3]}",
    "qos: {pfc: [3]}",
    WARNING,
)

ETS_SUM = rule(
    "RY711",
    "The shares of the traffic classes are not 100 percent together",
    "qos: {ets: {tc_bw: {0: 50, 3: 60}}}",
    "qos: {ets: {tc_bw: {0: 40, 3: 60}}}",
)

ETS_CLASS = rule(
    "RY712",
    "A traffic class in use has no share and is not strict, or is both",
    "qos: {ets: {prio_tc: {3: 3, 4: 4, 6: 6}, tc_bw: {0: 40, 3: 60}}}",
    "qos: {ets: {prio_tc: {3: 3, 4: 4, 6: 6}, tc_bw: {0: 30, 3: 60, 4: 10}}}",
)

CNP_NOT_STRICT = rule(
    "RY713",
    "Congestion notifications wait behind other traffic",
    "qos: {ets: {strict: [], tc_bw: {0: 40, 3: 55, 6: 5}}}",
    "qos: {ets: {strict: [6], tc_bw: {0: 40, 3: 60}}}",
    WARNING,
)

CLASS_SHARED = rule(
    "RY714",
    "A lossless and another priority share a traffic class",
    "qos: {ets: {prio_tc: {2: 3, 3: 3, 6: 6}}}",
    "qos: {ets: {prio_tc: {2: 2, 3: 3, 6: 6}}}",
    WARNING,
)

BUFFER_SHARED = rule(
    "RY715",
    "A lossless and another priority share a receive buffer",
    "qos: {buffers: {prio_buffer: {2: 1, 3: 1}}}",
    "qos: {buffers: {prio_buffer: {2: 2, 3: 1}}}",
    WARNING,
)

BUFFER_NONE = rule(
    "RY716",
    "A receive buffer in use has no size",
    "qos: {buffers: {prio_buffer: {3: 1}, buffer_size: {1: 150000}}}",
    "qos: {buffers: {prio_buffer: {3: 1}, buffer_size: {0: 60000, 1: 150000}}}",
)

BUFFER_SMALL = rule(
    "RY717",
    "A lossless buffer is too small for what comes in after a pause is asked for",
    "qos: {buffers: {cable_len: 300, buffer_size: {0: 60000, 1: 50000}}}",
    "qos: {buffers: {cable_len: 300, buffer_size: {0: 60000, 1: 80000}}}",
    WARNING,
)

SOFT_RDMA = rule(
    "RY718",
    "QoS is planned, and the RDMA device is a soft one",
    "profiles:\n  hgx:\n    soft_rdma: rxe\n" + _PORTS + "qos: {dscp: 26}",
    "profiles:\n  hgx:\n" + _PORTS + "qos: {dscp: 26}",
    WARNING,
)
