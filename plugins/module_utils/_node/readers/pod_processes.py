# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of pods on the node, and the network namespaces of the pods.

The cgroup of a pod's process has the pod's uid, in the kubelet's form for systemd or cgroupfs
(``kubepods-burstable-pod1234_5678.slice``, ``kubepods/burstable/pod1234-5678``), of version 1 and 2.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace

_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?=[./\s]|$)")


class Process(t.NamedTuple):
    """A process of a pod. ``started``: clock ticks after boot. ``cgroup``: of its container."""

    started: int
    pid: int
    cgroup: str
    namespace: str | None


def namespace(system: System, uid: str) -> Namespace:
    """Return the pod's network namespace.

    :raises RailyardError: if the pod does not run on this node, or uses the node's network.
    """
    processes = by_pod(system, [uid])[uid]
    inside = network(processes, system.link_name("/proc/1/ns/net"))
    if inside is None:
        remedy = "check with kubectl get pod -o wide that it runs on this node"
        raise RailyardError(why_without(processes), "pod %s" % uid, remedy)
    return inside


def network(processes: t.Sequence[Process], node_namespace: str | None) -> Namespace | None:
    """Return the network namespace of a pod's processes; None if they are all in the node's."""
    # some runtimes have a monitor process in a pod's cgroup, which is in the node's network namespace
    inside = [process for process in processes if process.namespace and process.namespace != node_namespace]
    if not inside:
        return None
    # the earliest process holds the pod's namespace; a later process may have entered another one
    found = Namespace(str(min(inside).namespace))
    found.processes.update((process.pid, "") for process in inside if process.namespace == found.identity)
    return found


def why_without(processes: t.Sequence[Process]) -> str:
    """Return why a pod with these processes has no network namespace of its own."""
    return "it has the node's own network (hostNetwork)" if processes else "no process of it runs here"


def by_pod(system: System, uids: t.Iterable[str]) -> dict[str, list[Process]]:
    """Return uid of each pod -> its processes, the earliest first. ``/proc`` is read once for all pods."""
    found: dict[str, list[Process]] = {uid: [] for uid in uids}
    for entry in system.listdir("/proc"):
        cgroup = system.read_file("/proc/%s/cgroup" % entry) if entry.isdigit() else None
        uid = uid_in(cgroup or "")
        if uid not in found or cgroup is None:
            continue
        started = network_namespaces.started(system, int(entry))
        if started is not None:
            namespace_name = system.link_name("/proc/%s/ns/net" % entry)
            found[uid].append(Process(int(started), int(entry), cgroup, namespace_name))
    return {uid: sorted(group) for uid, group in found.items()}


def uid_in(cgroup: str) -> str | None:
    """Return the pod's uid in the text of ``/proc/PID/cgroup``: in nested clusters the innermost; None without one."""
    uids = _UID.findall(cgroup)
    return uids[-1].replace("_", "-") if uids else None
