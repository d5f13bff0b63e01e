# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Interfaces, RDMA devices and settings of pods, read from the node without running a program in a container.

The cgroup of a pod's process has the pod's uid, in the kubelet's form for systemd or cgroupfs
(``kubepods-burstable-pod1234_5678.slice``, ``kubepods/burstable/pod1234-5678``), of version 1 and 2. A child process
enters the pod's network namespace. Of a container's environment and ``/etc/nccl.conf``, only settings of NCCL and UCX
are returned, as others may be secret.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.node_info import Info
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ip_state, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import namespace_holders

LOOPBACK = "lo"
NCCL_FILE = "/etc/nccl.conf"
SETTINGS = ("NCCL_", "UCX_")
# Bytes that are read of a container's file of settings.
FILE_BYTES_MAX = 65536
_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?=[./\s]|$)")
_NO_PROCESS = "no process of it runs here"
_HOST_NETWORK = "it has the node's own network (hostNetwork)"
Row = t.Dict[str, t.Any]


class Process(t.NamedTuple):
    """A process of a pod. ``started``: clock ticks after boot. ``cgroup``: of its container."""

    started: int
    pid: int
    cgroup: str
    namespace: str | None


def look(options: t.Mapping[str, t.Any], system: System) -> Row:
    """Return the result of module rail_pods. ``options``: of the module."""
    holders = list(SlotState(system).holders().values())
    rows = of(system, options["pods"]) if options["pods"] else []
    mode = _mode(system)
    recorded = any(holder.interfaces for holder in holders)
    devices = _devices(Info(system)) if rows and recorded and mode == "shared" else []
    for row in rows:
        row["slots"] = [dict(slot) for holder in holders if holder.pod_uid == row["uid"] for slot in holder.interfaces]
        own = {slot["rdma"] for slot in row["slots"]}
        row["rdma"] += [device for device in devices if device["device"] in own]
    return {
        "rdma_mode": mode,
        "pods": rows,
        "held": {holder.device: holder.pod for holder in holders},
        "files": {path: settings(system.read_file(path)) for path in options["files"]},
    }


def of(system: System, uids: t.Sequence[str]) -> list[Row]:
    """Return a row per pod, in the order of ``uids``; see ``pods`` in the documentation of module rail_pods."""
    by_pod = processes(system, uids)
    node_namespace = system.link_name("/proc/1/ns/net")
    rows: list[Row] = []
    namespaces: dict[str, Namespace] = {}
    for uid in uids:
        pod_processes = by_pod[uid]
        network = _network(pod_processes, node_namespace)
        row: Row = {"uid": uid, "processes": len(pod_processes), "namespace": None, "why": ""}
        rows.append(dict(row, settings=_settings(system, pod_processes)))
        if network is None:
            rows[-1]["why"] = _HOST_NETWORK if pod_processes else _NO_PROCESS
            continue
        rows[-1]["namespace"] = network.identity
        namespaces.setdefault(network.identity, network).processes.update(network.processes)
    shared = _mode(system) == "shared"
    contents = namespace_holders.visit(
        system, list(namespaces.values()), lambda _home: _read_namespace(system, shared), True
    )
    gids = _gids(system) if shared and namespaces else []
    return [_row(row, contents.get(row["namespace"]) if row["namespace"] else {}, gids) for row in rows]


def namespace(system: System, uid: str) -> Namespace:
    """Return the pod's network namespace.

    :raises RailyardError: if the pod does not run on this node, or uses the node's network.
    """
    pod_processes = processes(system, [uid])[uid]
    network = _network(pod_processes, system.link_name("/proc/1/ns/net"))
    if network is None:
        message = _HOST_NETWORK if pod_processes else _NO_PROCESS
        raise RailyardError(message, "pod %s" % uid, "check with kubectl get pod -o wide that it runs on this node")
    return network


def _network(pod_processes: t.Sequence[Process], node_namespace: str | None) -> Namespace | None:
    """Return the network namespace of a pod's processes; None if they are all in the node's."""
    # some runtimes have a monitor process in a pod's cgroup, which is in the node's network namespace
    inside = [process for process in pod_processes if process.namespace and process.namespace != node_namespace]
    if not inside:
        return None
    # the earliest process holds the pod's namespace; a later process may have entered another one
    network = Namespace(str(min(inside).namespace))
    network.processes.update((process.pid, "") for process in inside if process.namespace == network.identity)
    return network


def processes(system: System, uids: t.Iterable[str]) -> dict[str, list[Process]]:
    """Return uid of each pod -> its processes, the earliest first. ``/proc`` is read once for all pods."""
    by_pod: dict[str, list[Process]] = {uid: [] for uid in uids}
    for entry in system.listdir("/proc"):
        cgroup = system.read_file("/proc/%s/cgroup" % entry) if entry.isdigit() else None
        uid = uid_in(cgroup or "")
        if uid not in by_pod or cgroup is None:
            continue
        started = network_namespaces.started(system, int(entry))
        if started is not None:
            network = system.link_name("/proc/%s/ns/net" % entry)
            by_pod[uid].append(Process(int(started), int(entry), cgroup, network))
    return {uid: sorted(group) for uid, group in by_pod.items()}


def uid_in(cgroup: str) -> str | None:
    """Return the pod's uid in the text of ``/proc/PID/cgroup``: in nested clusters the innermost; None without one."""
    uids = _UID.findall(cgroup)
    return uids[-1].replace("_", "-") if uids else None


def _mode(system: System) -> str | None:
    sock = rdma_netlink.connect(system)
    if sock is None:
        return None
    try:
        return rdma_netlink.netns_mode(sock) or "shared"
    finally:
        sock.close()


def _row(row: Row, content: Row | None, gids: t.Sequence[Row]) -> Row:
    """Return the complete row of a pod.

    :param content: of its network namespace; None if it could not be entered.
    :param gids: of the devices that all namespaces share; those of the pod's addresses are added.
    """
    parts: Row = {key: [] for key in ("links", "addresses", "routes", "rules", "rdma", "gids")}
    if content is None:
        content = {"why": "its network namespace cannot be entered"}
    complete = dict(parts, **dict(row, **content))
    own = {str(address["address"]).partition("/")[0] for address in complete["addresses"]}
    complete["gids"] = complete["gids"] + [gid for gid in gids if gid["address"] in own]
    return complete


def _read_namespace(system: System, shared: bool) -> Row:
    """Return the content of the current network namespace; ``why`` if it cannot be read.

    :param shared: RDMA mode shared, in which the namespace does not have RDMA devices of its own.
    """
    try:
        with Rtnetlink() as table:
            links = [link for link in table.links() if link.name != LOOPBACK]
            content: Row = ip_state.look(table, {link.ifindex: link.name for link in links})
        content["links"] = [
            {
                "netdev": link.name,
                "kind": link.kind,
                "up": link.up,
                "mtu": link.mtu,
                "pci": link.parent or (None if link.kind else namespace_holders.bus_info(link.name)),
            }
            for link in links
        ]
        if not shared:
            info = Info(system)
            content["rdma"] = _devices(info)
            content["gids"] = info.gids()
        return content
    except (NetlinkError, RailyardError, OSError) as error:
        return {"why": "its network namespace cannot be read: %s" % error}


def _devices(info: Info) -> list[Row]:
    keys = ("device", "port", "link_layer", "state", "netdev", "pci")
    return [{key: row[key] for key in keys} for row in info.rdma()]


def _gids(system: System) -> list[Row]:
    try:
        return Info(system).gids()
    except (NetlinkError, RailyardError, OSError):
        return []  # rail_info reports why


# -- settings ----------------------------------------------------------------------------------------------------------


def settings(text: str | None) -> dict[str, str] | None:
    """Return the settings of NCCL and UCX in lines ``KEY=VALUE``; None without a text.

    As in NCCL, the first value of a key counts, and a line is split at its first ``=``.
    """
    if text is None:
        return None
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().startswith(SETTINGS):
            values.setdefault(key.strip(), value.strip())
    return values


def _settings(system: System, pod_processes: t.Sequence[Process]) -> Row:
    """Return the settings in the environment and in the file of the first process of each container."""
    environment: dict[str, str] = {}
    file: dict[str, str] | None = None
    cgroups: set[str] = set()
    for process in pod_processes:
        if process.cgroup in cgroups:
            continue
        cgroups.add(process.cgroup)
        with contextlib.suppress(RailyardError, OSError):
            variables = system.read_bytes("/proc/%d/environ" % process.pid) or b""
            values = settings(variables.decode("utf-8", "replace").replace("\n", " ").replace("\0", "\n"))
            for key, value in (values or {}).items():
                environment.setdefault(key, value)
        if file is None:
            file = settings(_read_nccl_file(system, process.pid))
    return {"environment": environment, "file": file}


def _read_nccl_file(system: System, pid: int) -> str | None:
    """Return the container's ``/etc/nccl.conf``; None if it is not a regular file.

    The container controls this path, so links are not followed, and the open does not block.
    """
    try:
        fd = os.open(
            system.path("/proc/%d/root%s" % (pid, NCCL_FILE)),
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.read(fd, FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
