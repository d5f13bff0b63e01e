# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Codes of the layers above single nodes: cabling, reachability, RDMA, Kubernetes, pods, NCCL."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import (
    HOSTS,
    KUBERNETES,
    Code,
)


def _manual(code: str, name: str, layer: str, title: str, cause: str, remedy: str, **fields: t.Any) -> Code:
    """Return a code that no playbook fixes and that drift does not report. ``fields``: others of :class:`Code`."""
    return Code(code, name, layer, title, cause, remedy, playbook=None, drift=False, **fields)


_BASELINE = (
    "check the link, counters, PCIe and firmware of the port; after a change that you accept, run with "
    "-e verify_baselines=renew"
)

TRAFFIC_CODES = (
    _manual(
        *("RV006", "check-not-run", "node", "a check could not run, in any layer"),
        cause="the node or a program on it did not report what the check needs",
        remedy="see the reason",
        after=(),
    ),
    _manual(
        *("RV701", "wrong-leaf", "cabling", "the port is connected to another leaf than planned"),
        cause="its cable is plugged into another leaf",
        remedy="plug it into the planned leaf, or correct the plan",
    ),
    _manual(
        *("RV702", "cables-swapped", "cabling", "the cables of two rails are swapped"),
        cause="each is plugged into the leaf of the other, at the node or at the leaves",
        remedy="swap the two cables",
    ),
    _manual(
        *("RV703", "leaf-differs-from-neighbours", "cabling", "ports of one rail and unit are on different leaves"),
        cause="a cable is plugged into another leaf than those of its neighbours",
        remedy="plug it into the leaf of the other ports of its rail",
    ),
    _manual(
        *("RV704", "wrong-leaf-port", "cabling", "the port is connected to another port of its leaf than planned"),
        cause="its cable is plugged into the wrong port of the right leaf",
        remedy="plug it as planned, or correct the plan",
        after=(),
    ),
    _manual(
        *("RV705", "bond-member-on-other-leaf", "cabling", "a member of the bond is connected to another leaf"),
        cause="its cable is plugged into another leaf than those of its neighbours",
        remedy="plug it into the leaf of the other bonds of its rail",
        after=(),
        degraded=True,
    ),
    _manual(
        *(
            "RV706",
            "leaf-announces-other-address",
            "cabling",
            "the leaf announces another address than planned by LLDP",
        ),
        cause="the cable is plugged into another port of the leaf, or the leaf was configured from another plan",
        remedy="compare the address and the description of the leaf port with the plan",
        after=(),
    ),
    _manual(
        *("RV426", "planes-crosswise", "cabling", "planes of a rail are connected to the leaves of each other"),
        cause="the cables of the planes are swapped, at the node or at the leaves",
        remedy="swap the cables of these planes",
        after=(),
        degraded=True,
    ),
    _manual(
        *("RV427", "plane-on-other-leaf", "cabling", "a plane is connected to another leaf"),
        cause="its cable is plugged into another leaf than planned, or than the cables of its neighbours",
        remedy="plug it into the planned leaf, or correct the plan",
        after=(),
        degraded=True,
    ),
    _manual(
        *("RV801", "no-reply", "reach", "no reply to echo requests"),
        cause="the two ports are not in the same network: VLAN, leaf port, or a cable in another leaf",
        remedy="check to which leaf ports the two are connected, and their VLANs",
    ),
    _manual(
        *("RV802", "path-mtu-too-small", "reach", "packets of the planned MTU do not pass"),
        cause="a leaf port on the path has a smaller MTU",
        remedy="raise the MTU of the leaf's ports",
    ),
    _manual(
        *("RV803", "packet-loss", "reach", "packets are lost"),
        cause="a bad cable or transceiver",
        remedy="check the error counters of both ports and of the leaf",
    ),
    _manual(
        *(
            "RV804",
            "cross-rail-blocked",
            "reach",
            "a rail does not reach another although the plan routes between them",
        ),
        cause="the leaves do not route between the rails",
        remedy="check the routes and filters of the leaves (routing.cross_rail)",
        after=(),
    ),
    _manual(
        *("RV805", "cross-rail-open", "reach", "a rail reaches another although the plan separates them"),
        cause="the leaves route between the rails, or a node forwards packets",
        remedy="check the routes and filters of the leaves, and ip_forward on the nodes",
        after=(),
    ),
    _manual(
        *("RV806", "no-reply-ipv6", "reach", "no reply to echo requests over IPv6"),
        cause="the leaf filters IPv6 or neighbour discovery, or an address is a duplicate (ip -6 addr)",
        remedy="check both addresses and the filters of the leaf",
        after=(),
    ),
    _manual(
        *("RV807", "rail-not-reached", "reach", "no node was reached over the rail"),
        cause="no packet was sent over it",
        remedy="see the reason",
        after=(),
    ),
    _manual(
        *("RV808", "arp-answer-from-other-port", "reach", "another port of the node answers for the address"),
        cause="ARP flux: on one network for several rails, a port answers for the addresses of the others",
        remedy="check arp_ignore, arp_filter and proxy_arp of the node's ports (sysctl), and its bridges",
    ),
    _manual(
        *("RV811", "path-between-leaves-fails", "reach", "packets between two leaves are lost"),
        cause="a link between the leaves or spines is bad, or one of them has a wrong route",
        remedy="check counters and routes of the links between the two leaves",
        after=(),
    ),
    _manual(
        *("RV812", "leaf-fails", "reach", "packets over a leaf are lost"),
        cause="the leaf is bad or wrongly configured, or its links to other leaves are",
        remedy="check the leaf: its counters, VLANs, MTU, and links to other leaves",
    ),
    _manual(
        *("RV813", "rail-fails", "reach", "packets over all leaves of a rail or plane are lost"),
        cause="all leaves of the rail or plane have the same wrong configuration, or their spines are down",
        remedy="check what the leaves of the rail share: configuration, spines, power",
    ),
    _manual(
        *("RV841", "slower-than-baseline", "rdma", "RDMA is slower than when the port was first proven"),
        cause="a changed setting, firmware or path, a hot NIC or transceiver, or a busy node",
        remedy=_BASELINE,
    ),
    _manual(
        *("RV842", "later-than-baseline", "rdma", "the latency is far above that when the port was first proven"),
        cause="a longer path through the network, power saving, or load",
        remedy=_BASELINE,
    ),
    _manual(
        *("RV843", "baselines-unreadable", "rdma", "the file of the baselines cannot be used"),
        cause="it was edited or damaged, or another fabric has the same verify_report_dir",
        remedy="restore the file, or replace it with new measurements: run with -e verify_baselines=renew",
    ),
    _manual(
        *("RV851", "rdma-server-failed", "rdma", "the RDMA server does not start"),
        cause="its RDMA device cannot be used",
        remedy="check the message",
    ),
    _manual(
        *("RV852", "rdma-transfer-failed", "rdma", "the RDMA transfer fails"),
        cause="UDP port 4791 is filtered, the GIDs are of different types, or a device is broken",
        remedy="check the message and the firewalls of both nodes",
    ),
    _manual(
        *("RV853", "rdma-slower-than-link", "rdma", "RDMA is slower than the link allows"),
        cause="congestion or pause frames (QoS), a PCIe bottleneck (ACS, MaxReadReq), or a busy node",
        remedy="check the counters, QoS of both nodes and of the leaf, and PCIe",
    ),
    _manual(
        *("RV854", "latency-outlier", "rdma", "the latency is far above that of other pairs"),
        cause="a longer path through the network, power saving, or load",
        remedy="check the counters and the cabling",
    ),
    _manual(
        *("RV855", "bandwidth-outlier", "rdma", "RDMA is far slower than between other pairs"),
        cause="congestion, or a busy node",
        remedy="check the counters and run again",
    ),
    _manual(
        *("RV856", "concurrent-run", "rdma", "another run measured at the same time"),
        cause="a scheduled job and a person, or two jobs, use the same nodes",
        remedy="run again after the other run has ended, to measure bandwidth and latency",
    ),
    _manual(
        *("RV861", "error-counters-increased", "rdma", "error counters increased during the run"),
        cause="a bad cable or transceiver, or a queue that overflows",
        remedy="check the counters of the port and of the leaf",
    ),
    _manual(
        *(
            "RV865",
            "pause-frames-without-pfc",
            "rdma",
            "a port sent or received pause frames, and its profile has no PFC",
        ),
        cause="one end of the cable has PFC or global pause enabled",
        remedy="switch it off on the leaf port; drift.yml reports PFC of the node",
    ),
    _manual(
        *("RV866", "latency-tail", "rdma", "the slowest messages between two ports are far slower than between others"),
        cause="a congested or lossy link on the path, or an interrupted processor",
        remedy="check the counters of both ports and of the leaf ports between them",
    ),
    _manual(
        *("RV867", "latency-straggler", "rdma", "the slowest messages of a port are slow with all partners"),
        cause="power saving or interrupts of the node, its PCIe, or its cable",
        remedy="compare BIOS settings, the CPU governor and PCIe of the node with those of other nodes",
    ),
    _manual(
        *("RV820", "many-to-one-unknown", "rdma", "a many-to-one test has no complete result"),
        cause="a node or a counter could not be read",
        remedy="see the reason",
        after=(),
    ),
    _manual(
        *("RV821", "ecn-ineffective", "rdma", "congestion control by ECN does not work"),
        cause="a leaf does not mark packets of the class of RoCE, or a NIC does not answer marks",
        remedy="compare ECN of the leaf ports and of both nodes with the plan",
        after=(),
        degraded=True,
    ),
    _manual(
        *("RV822", "lossless-drops", "rdma", "packets were lost, and the plan pauses the class of RoCE (PFC)"),
        cause="PFC is off at one end of a cable, a leaf has too small buffers, or a cable is bad",
        remedy="compare PFC and buffers of the leaf ports and of both nodes with the plan",
        after=(),
        degraded=True,
    ),
    _manual(
        *("RV823", "unfair-share", "rdma", "a client gets less than half of its share of a congested port"),
        cause="its congestion control differs, or its path has less bandwidth",
        remedy="compare QoS of the node with that of the other clients, and check its path",
        after=(),
    ),
    _manual(
        *("RV824", "many-to-one-slow", "rdma", "several clients together are far slower than the port of their server"),
        cause="lost packets or pause frames under congestion (QoS)",
        remedy="check the counters, and QoS of both nodes and of the leaf",
        after=(),
        degraded=True,
    ),
    _manual(
        *("RV825", "soak-transfer-failed", "rdma", "a transfer failed while the rounds were repeated"),
        cause="a cable, transceiver or device that fails from time to time, or a process that ended",
        remedy="check the kernel log of both nodes and the log of the leaf at this time",
    ),
    _manual(
        *("RV826", "soak-link-lost", "rdma", "a link was lost while the rounds were repeated"),
        cause="a bad cable or transceiver, or the leaf port was set down",
        remedy="check the kernel log of the node and the log of the leaf at this time",
    ),
    _manual(
        *("RV827", "soak-slow", "rdma", "a transfer was slow while the rounds were repeated"),
        cause="congestion by other traffic, a hot NIC or transceiver, or a busy node",
        remedy="check the counters and the temperature of the NIC",
    ),
    _manual(
        *("RV828", "soak-incomplete", "rdma", "a node did not repeat its rounds"),
        cause="the time of the soak is shorter than one pass, or verify_budget was over",
        remedy="use a longer time (verify_soak)",
        after=(),
    ),
    _manual(
        *("RV870", "rail-not-proven", "rdma", "no traffic proved the rail"),
        cause="no traffic was sent over it",
        remedy="see the reason",
        after=(),
    ),
    _manual(
        *("RV881", "path-between-leaves-slow", "rdma", "RDMA between two leaves fails or is slow"),
        cause="a link between the leaves or spines is slow or congested, or carries more paths than planned",
        remedy="check speed, counters and load balancing of the links between the two leaves",
        after=(),
    ),
    _manual(
        *("RV882", "leaf-slow", "rdma", "RDMA over a leaf fails or is slow"),
        cause="QoS or links of the leaf differ from those of other leaves, or it filters UDP port 4791",
        remedy="check the leaf: its counters, QoS, filters, and links to other leaves",
    ),
    _manual(
        *("RV883", "rail-slow", "rdma", "RDMA over all leaves of a rail or plane fails or is slow"),
        cause="a plane has slower links than planned, or its leaves have the same wrong configuration",
        remedy="check what the leaves of the rail share: speed of links, QoS, filters",
    ),
    Code(
        *("RV900", "cluster-unreachable", "kubernetes", "the cluster does not answer"),
        cause="its API server is down, or the kubeconfig is for another cluster",
        remedy="check the message",
        playbook=None,
    ),
    Code(
        *("RV901", "cluster-node-not-ready", "kubernetes", "a node of the cluster is not ready for pods"),
        cause="its device plugin does not detect the port",
        remedy="check the reason",
        playbook=None,
    ),
    Code(
        *("RV902", "object-mismatch", "kubernetes", "an object is not as planned"),
        cause="it was edited or deleted, or the plan is newer than the cluster",
        remedy="apply it again",
        playbook=KUBERNETES,
    ),
    Code(
        *("RV903", "object-not-reconciled", "kubernetes", "an object was not reconciled by its controller"),
        cause="its controller does not run",
        remedy="check the reason",
        playbook=None,
    ),
    Code(
        *("RV904", "object-left-plan", "kubernetes", "an object exists that is no longer in the plan"),
        cause="the plan changed",
        remedy="prune it",
        playbook=KUBERNETES,
    ),
    Code(
        *("RV905", "pool-disabled", "kubernetes", "a pool is disabled"),
        cause="spec.disable was set in the cluster; the plan does not set it",
        remedy="enable the pool",
        playbook=None,
    ),
    Code(
        *("RV906", "pool-addresses-excluded", "kubernetes", "a pool excludes addresses that the plan gives to pods"),
        cause="spec.excludeIPs was set in the cluster; the plan does not set it",
        remedy="remove them from spec.excludeIPs, or exclude them in fabric.yml",
        playbook=None,
    ),
    Code(
        *("RV907", "object-refused", "kubernetes", "an object cannot be applied"),
        cause="the plan changed, or another user or program owns a field or name that it needs",
        remedy="see the message",
        playbook=None,
    ),
    _manual(
        *("RV910", "test-pod-not-running", "pods", "a test pod does not run"),
        cause="see the message",
        remedy="run 'kubectl describe pod', fix the reason, and run again",
    ),
    _manual(
        *("RV911", "test-pod-missing", "pods", "the node has no test pod"),
        cause="the node has a taint, or the labels of the fabric are missing, so that the DaemonSet starts no pod",
        remedy="run 'kubectl describe node', and check the events of the DaemonSet",
    ),
    _manual(
        *("RV912", "pod-unreadable", "pods", "a pod cannot be inspected"),
        cause="the API server and the container runtime of the node report different pods",
        remedy="delete the pod, and run again",
    ),
    _manual(
        *("RV913", "test-workload-unreadable", "pods", "the test workload cannot be read"),
        cause="the API server does not answer, or the user may not get DaemonSets or list pods",
        remedy="check the message",
    ),
    _manual(
        *("RV920", "pod-interface-missing", "pods", "an interface of the pod is missing or down"),
        cause="the pod is older than the network, or its annotation does not request it",
        remedy="delete the pod: a new one is attached again",
    ),
    _manual(
        *("RV921", "pod-mtu-mismatch", "pods", "the MTU in the pod is not as planned"),
        cause="the pod is older than the MTU of the network",
        remedy="delete the pod: a new one is attached again",
    ),
    _manual(
        *("RV922", "pod-address-out-of-range", "pods", "the address of the pod is not in the planned range"),
        cause="the pod is older than the pool, or another pool provided the address",
        remedy="delete the pod, and check which pools its network names",
    ),
    _manual(
        *("RV923", "pod-address-duplicate", "pods", "two pods have the same address"),
        cause="two pools contain it, or the address records of the node were lost",
        remedy="delete one of the pods, and check the pools of the rail",
    ),
    _manual(
        *("RV924", "pod-route-missing", "pods", "a rule or route of the pod is missing"),
        cause="the plugin that creates it did not run, or the pod is older than the plan",
        remedy="delete the pod: a new one is attached again",
    ),
    _manual(
        *("RV925", "pod-rdma-device-missing", "pods", "the pod has no RDMA device of its own"),
        cause="the CNI plugin rdma did not move it, or the node had another RDMA mode when the pod started",
        remedy="delete the pod: a new one is attached again",
    ),
    _manual(
        *("RV926", "pod-gid-missing", "pods", "the address of the pod has no GID"),
        cause="the GID table of the RDMA device is stale",
        remedy="delete the pod, or set the link of the port down and up",
    ),
    _manual(
        *("RV927", "pod-slot-missing", "pods", "the agent has not recorded a slot for the pod"),
        cause="the container runtime did not run the agent's hook (CDI is off), or the agent's record was removed",
        remedy="run the role agent, and delete the pod: a new one is attached again",
    ),
    _manual(
        *("RV930", "pod-no-reply", "pods", "no reply to echo requests between pods"),
        cause="the leaf port accepts only the MAC address of the node (port security)",
        remedy="check the MAC address table and the limit of the leaf port",
    ),
    _manual(
        *("RV931", "pod-path-mtu-too-small", "pods", "packets of the planned MTU do not pass between pods"),
        cause="an interface on the path has a smaller MTU",
        remedy="check the MTU of the interfaces of both pods and of the interfaces below them",
    ),
    _manual(
        *("RV932", "pod-rdma-failed", "pods", "RDMA between pods fails"),
        cause="the RDMA device of one of the pods cannot be used, or UDP port 4791 is filtered",
        remedy="check the message",
    ),
    Code(
        *("RV862", "gid-index-missing", "nccl", "NCCL before 2.21 has no GID index"),
        cause="the addresses of the ports had no GID when the file was written",
        remedy="write it again",
        playbook=HOSTS,
    ),
    _manual(
        *("RV863", "nccl-device-missing", "nccl", "NCCL_IB_HCA names a device or port that does not exist"),
        cause="the device was renamed, or made again with another name, such as a VF",
        remedy="correct the setting; if the agent or a playbook wrote it, run hosts.yml, and delete the pod",
    ),
    _manual(
        *("RV864", "nccl-rail-mismatch", "nccl", "NCCL_IB_HCA has another rail or plane than the plan"),
        cause="the setting was changed, or the names of RDMA devices were swapped",
        remedy="remove the setting, or correct it",
    ),
    Code(
        *("RV950", "nccl-file-mismatch", "nccl", "the NCCL file on the node is not as planned"),
        cause="it was edited or deleted by hand",
        remedy="write it again",
        playbook=HOSTS,
    ),
    _manual(
        *("RV951", "pod-nccl-settings-mismatch", "nccl", "the NCCL settings in the pod are not as planned"),
        cause="the ConfigMap was not applied, or the pod is older than it: its file in a pod is not updated",
        remedy="apply the objects (%s), and delete the pod" % KUBERNETES,
    ),
    Code(
        *("RV952", "gid-index-mismatch", "nccl", "a fixed GID index selects another GID"),
        cause="GID tables change with addresses and differ between pods",
        remedy="remove the setting: NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_FAMILY select the GID",
        playbook=None,
    ),
)
