# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics of the rail agent, of the interfaces of pods, and of the RDMA devices of rails and pods.

Metrics of RDMA devices have the names and labels of Spiderpool's agent, so that its dashboards show them. Source:
https://github.com/spidernet-io/spiderpool/blob/main/docs/usage/rdma-metrics.md.
"""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import stacked_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import AgentSpec, RailSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import port_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import device_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.device_counters import (
    DeviceCounters,
    Statistic,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

# Columns of /proc/net/dev after the name, see proc(5).
NETDEV = {
    "receive_bytes": 0,
    "receive_packets": 1,
    "receive_errors": 2,
    "receive_dropped": 3,
    "transmit_bytes": 8,
    "transmit_packets": 9,
    "transmit_errors": 10,
    "transmit_dropped": 11,
}


def add_agent(out: Exposition, status: t.Mapping[str, t.Any]) -> None:

    def gauge(name: str, help_text: str, value: int, **labels: t.Any) -> None:
        out.add("railyard_agent_" + name, "gauge", help_text, value, {key: str(text) for key, text in labels.items()})

    def counter(name: str, help_text: str, value: float, **labels: str) -> None:
        out.add("railyard_agent_" + name, "counter", help_text, value, labels)

    labels = {key: status[key] for key in ("version", "fabric", "node", "attachment")}
    gauge("info", "The agent of this node.", 1, **labels)
    for row in status["rails"]:
        labels = {"rail": row["rail"], "port": row["port"]}
        gauge("rail_healthy", "Whether a rail can serve new pods.", int(row["healthy"]), **labels)
        gauge("rail_cordoned", "Whether a rail is cordoned.", int(row["cordoned"]), **labels)
        if "members" in row:
            gauge(
                "rail_members",
                "Planned members of the bond, or planes of the NIC, of a rail.",
                row["members"],
                **labels,
            )
            gauge(
                "rail_members_active",
                "Members of the bond, or planes, that can carry traffic.",
                row["active_members"],
                **labels,
            )
            degraded = int(bool(row["degraded"]))
            gauge("rail_degraded", "Whether a member of the bond, or a plane, carries no traffic.", degraded, **labels)
        conflicts = sum(conflict["rail"] == row["rail"] for conflict in status["conflicts"])
        gauge("address_conflicts", "Addresses of pods that other hosts have too.", conflicts, rail=row["rail"])
    for row in status["resources"]:
        resource = row["resource"]
        gauge("registered", "Whether kubelet has the resource.", int(row["registered"]), resource=resource)
        gauge("devices", "Devices of a resource.", row["devices"], resource=resource)
        gauge("devices_held", "Devices that pods hold.", row["held"], resource=resource)
    gauge("devices_unattached", "Allocated devices that running containers do not have.", status["unattached"])
    attaches = status["attaches"]
    counter("attaches_total", "Attaches of devices to pods, failed ones too.", attaches["count"])
    counter("attach_seconds_total", "Seconds that attaches took.", attaches["seconds"])
    for reason, count in sorted(attaches["failed"].items()):
        counter("attach_failures_total", "Attaches that failed, by reason.", count, reason=reason)


def add_pods(out: Exposition, system: System, holders: t.Iterable[Holder]) -> None:
    for holder in holders:
        counters = netdev_counters(system, holder)
        for row in holder.interfaces:
            labels = {
                "namespace": holder.pod_namespace,
                "pod": holder.pod_name,
                "rail": str(row["rail"]),
                "interface": str(row["interface"]),
                "device": holder.device,
            }
            for name, value in counters.get(str(row["interface"]), {}).items():
                metric = "railyard_pod_network_%s_total" % name
                out.add(metric, "counter", "Traffic of a pod's interface on a rail.", value, labels)


def netdev_counters(system: System, holder: Holder) -> dict[str, dict[str, int]]:
    """Return interface -> counters in the network namespace of the holder; empty if its container has ended."""
    found = {}
    with _namespace(system, holder) as namespace:
        text = None if namespace is None else system.read("/proc/%d/net/dev" % holder.pid)
    for line in (text or "").splitlines():
        name, colon, rest = line.partition(":")
        columns = rest.split()
        if colon and len(columns) >= 12 and columns[0].isdigit():
            found[name.strip()] = {key: int(columns[at]) for key, at in NETDEV.items()}
    return found


@contextlib.contextmanager
def _namespace(system: System, holder: Holder) -> t.Iterator[int | None]:
    """Yield a file descriptor of the holder's network namespace; None if its container has ended."""
    with contextlib.ExitStack() as stack:
        fd = None
        with contextlib.suppress(OSError, RailyardError):
            kernel = stack.enter_context(Rtnetlink())
            opened = stack.enter_context(open(system.path("/proc/%d/ns/net" % holder.pid), "rb")).fileno()
            # the process ID may have been reused
            fd = opened if kernel.namespace_number(opened) == holder.nsid else None
        yield fd


def add_rdma(out: Exposition, system: System, spec: AgentSpec, holders: t.Iterable[Holder]) -> None:
    """Add the counters of the rails' ports, and of devices that only a pod uses: a VF, a port or a soft device."""
    metrics = RdmaMetrics(out, spec.node)
    ports: dict[str, str] = {}
    for rail in spec.rails:
        for name in _port_netdevs(system, rail):
            # VLANs of several rails may have one bond below them
            ports[name] = ",".join(filter(None, [ports.get(name), rail.rail]))
    pods = {str(row["rdma"]): (holder, row) for holder in holders for row in holder.interfaces if row.get("rdma")}
    with contextlib.suppress(RailyardError, OSError):
        for device in device_counters.rdma_ports(system, files=True):
            if device.netdev in ports:
                metrics.add_port(ports[device.netdev], device)
            elif device.device in pods:
                metrics.add_pod(*pods[device.device], device)
    with contextlib.suppress(OSError):
        for netdev, statistics in device_counters.netdev_statistics(ports).items():
            metrics.add_statistics({"rail": ports[netdev], "net_dev_name": netdev, "is_root": "true"}, statistics)
    if any(rail.moved for rail in spec.rails):
        for holder in holders:
            with contextlib.suppress(RailyardError, OSError):
                _add_moved(metrics, system, spec, holder)


def _port_netdevs(system: System, rail: RailSpec) -> list[str]:
    """Return the interface of a port, and those below it, which have the RDMA device and the statistics of the NIC."""
    lower = rail.lower
    below = [lower.parent, lower.bond, *stacked_ports.netdevs(system, lower)] if lower else []
    below += [name for plane in rail.planes if plane.pci for name in pci_functions.netdevs(system, plane.pci)]
    return list(dict.fromkeys([port_name(system, rail), *filter(None, below)]))


def _add_moved(metrics: RdmaMetrics, system: System, spec: AgentSpec, holder: Holder) -> None:
    """Add the counters of interfaces and devices that were moved to a pod. They are read in the pod's namespace."""
    rows = {str(row["interface"]): row for row in holder.interfaces}
    devices = {str(row["rdma"]): row for row in holder.interfaces if row.get("rdma")}

    def look() -> tuple[list[DeviceCounters], dict[str, list[Statistic]]]:
        # in RDMA mode shared, add_rdma finds the devices in the node's network namespace
        ports = device_counters.rdma_ports(system) if spec.rdma_mode == "exclusive" else []
        return ports, device_counters.netdev_statistics(rows)

    with _namespace(system, holder) as namespace:
        if namespace is None:
            return
        ports, statistics = in_namespace(namespace, look)
    for device in ports:
        if device.device in devices:
            metrics.add_pod(holder, devices[device.device], device)
    for netdev, values in statistics.items():
        metrics.add_statistics(_pod_labels(holder, rows[netdev]), values)


class RdmaMetrics:
    """Adds metrics ``rdma_NAME_total``. All names have this suffix, as in Spiderpool's agent."""

    def __init__(self, out: Exposition, node: str) -> None:
        self._out = out
        self._node = node

    def add_port(self, rail: str, device: DeviceCounters) -> None:
        self._add_device({"rail": rail, "net_dev_name": str(device.netdev), "is_root": "true"}, device)

    def add_pod(self, holder: Holder, row: Row, device: DeviceCounters) -> None:
        """Add an RDMA device that only the holder's pod uses. ``row``: the holder's interface of the device."""
        self._add_device(_pod_labels(holder, row), device)

    def add_statistics(self, labels: t.Mapping[str, str], statistics: t.Iterable[Statistic]) -> None:
        for statistic in statistics:
            extra = {} if statistic.priority is None else {"priority": statistic.priority}
            self._add(statistic.name, statistic.value, dict(labels, **extra))

    def _add_device(self, labels: t.Mapping[str, str], device: DeviceCounters) -> None:
        ids = {"ifname": device.device, "node_guid": device.node_guid, "sys_image_guid": device.sys_image_guid}
        for name, value in device.counters.items():
            self._add(name, value, dict(ids, **labels))

    def _add(self, name: str, value: int, labels: t.Mapping[str, str]) -> None:
        help_text = "Counter of an RDMA device or its netdev, by the driver's name."
        self._out.add("rdma_%s_total" % name, "counter", help_text, value, dict({"node_name": self._node}, **labels))


def _pod_labels(holder: Holder, row: Row) -> dict[str, str]:
    return {
        "rail": str(row["rail"]),
        "net_dev_name": str(row["interface"]),
        "is_root": "false",
        "pod_namespace": holder.pod_namespace,
        "pod_name": holder.pod_name,
    }
