# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interfaces, RDMA devices and settings of pods, read from the node without running a program in a container.

A child process enters the pod's network namespace. Of a container's environment and ``/etc/nccl.conf``, only settings
of NCCL and UCX are returned, as others may be secret.
"""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.node_info import Info
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import (
    ip_state,
    namespace_entry,
    rdma_netlink,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pod_processes
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pod_processes import Process
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import namespace_holders

LOOPBACK = "lo"
NCCL_FILE = "/etc/nccl.conf"
SETTINGS = ("NCCL_", "UCX_")
# Bytes that are read of a container's file of settings.
FILE_BYTES_MAX = 65536
Row = t.Dict[str, t.Any]


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
        "held": {**_prepared(system), **{holder.device: holder.pod for holder in holders}},
        "cordons": cordon_file.observed_cordons(system),
        "files": {path: settings(system.read_file(path)) for path in options["files"]},
    }


def _prepared(system: System) -> dict[str, str]:
    """Return the devices of prepared claims, each with the pod and the claim, which stays if the kubelet forgets it."""
    claims = ClaimState(system).by_device()
    return {device: "%s (claim %s, not attached)" % (claim.pod, claim.name) for device, claim in claims.items()}


def of(system: System, uids: t.Sequence[str]) -> list[Row]:
    """Return a row per pod, in the order of ``uids``; see ``pods`` in the documentation of module rail_pods."""
    by_pod = pod_processes.by_pod(system, uids)
    node_namespace = system.link_name("/proc/1/ns/net")
    rows: list[Row] = []
    namespaces: dict[str, Namespace] = {}
    for uid in uids:
        own = by_pod[uid]
        network = pod_processes.network(own, node_namespace)
        row: Row = {"uid": uid, "processes": len(own), "namespace": None, "why": ""}
        rows.append(dict(row, settings=_settings(system, own)))
        if network is None:
            rows[-1]["why"] = pod_processes.why_without(own)
            continue
        rows[-1]["namespace"] = network.identity
        namespaces.setdefault(network.identity, network).processes.update(network.processes)
    shared = _mode(system) == "shared"
    contents = namespace_entry.visit(
        system, list(namespaces.values()), lambda _home: _read_namespace(system, shared), True
    )
    gids = _gids(system) if shared and namespaces else []
    return [_row(row, contents.get(row["namespace"]) if row["namespace"] else {}, gids) for row in rows]


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


def _settings(system: System, processes: t.Sequence[Process]) -> Row:
    """Return the settings in the environment and in the file of the first process of each container."""
    environment: dict[str, str] = {}
    file: dict[str, str] | None = None
    cgroups: set[str] = set()
    for process in processes:
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
