# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What pods on this node have of rails, seen from the node: nothing runs in a container, and no image needs a tool.

A pod's processes are those whose cgroup names its uid, as the kubelet names cgroups for systemd and for cgroupfs
(``kubepods-burstable-pod1234_5678.slice``, ``kubepods/burstable/pod1234-5678``), of version 1 and 2. Their network
namespace is entered by a child process. Of a container's environment and of its ``/etc/nccl.conf`` only the settings
of NCCL and UCX are kept: others may be secret.
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
# A file of settings is a page; whatever else a container has there is not read to its end.
MOST_BYTES = 65536
_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?=[./\s]|$)")
_NO_PROCESS = "no process of it runs here"
_HOST_NETWORK = "it has the node's own network (hostNetwork)"
Row = t.Dict[str, t.Any]


class Process(t.NamedTuple):
    """One process of a pod. ``started`` in clock ticks after boot; ``cgroup`` is its container's."""

    started: int
    pid: int
    cgroup: str
    namespace: str | None


def look(options: t.Mapping[str, t.Any], system: System) -> Row:
    """From a module's options."""
    holders = list(SlotState(system).holders().values())
    rows = of(system, options["pods"]) if options["pods"] else []
    mode = _mode(system)
    recorded = any(holder.interfaces for holder in holders)
    devices = _devices(Info(system)) if rows and recorded and mode == "shared" else []
    for row in rows:
        row["slots"] = [dict(each) for holder in holders if holder.pod_uid == row["uid"] for each in holder.interfaces]
        own = {each["rdma"] for each in row["slots"]}
        row["rdma"] += [each for each in devices if each["device"] in own]
    return {
        "rdma_mode": mode,
        "pods": rows,
        "held": {holder.device: holder.pod for holder in holders},
        "files": {path: settings(system.read_file(path)) for path in options["files"]},
    }


def of(system: System, uids: t.Sequence[str]) -> list[Row]:
    """A row a pod, in the order given; see the module's documentation of ``pods``."""
    held = processes(system, uids)
    first = system.link_name("/proc/1/ns/net")
    rows: list[Row] = []
    namespaces: dict[str, Namespace] = {}
    for uid in uids:
        mine = held[uid]
        space = _network(mine, first)
        row: Row = {"uid": uid, "processes": len(mine), "namespace": None, "why": ""}
        rows.append(dict(row, settings=_settings(system, mine)))
        if space is None:
            rows[-1]["why"] = _HOST_NETWORK if mine else _NO_PROCESS
            continue
        rows[-1]["namespace"] = space.identity
        namespaces.setdefault(space.identity, space).processes.update(space.processes)
    shared = _mode(system) == "shared"
    found = namespace_holders.visit(system, list(namespaces.values()), lambda _home: _inside(system, shared), True)
    gids = _gids(system) if shared and namespaces else []
    return [_row(row, found.get(row["namespace"]) if row["namespace"] else {}, gids) for row in rows]


def namespace(system: System, uid: str) -> Namespace:
    """The pod's network namespace.

    :raises RailyardError: where it has none here.
    """
    mine = processes(system, [uid])[uid]
    found = _network(mine, system.link_name("/proc/1/ns/net"))
    if found is None:
        raise RailyardError(_HOST_NETWORK if mine else _NO_PROCESS, "pod %s" % uid, "see that it runs on this node")
    return found


def _network(mine: t.Sequence[Process], first: str | None) -> Namespace | None:
    """The network namespace of a pod's processes; None where none of them has one but the node's own, ``first``."""
    # some runtimes keep a watchman of their own in a pod's cgroup, who is in no pod's network
    inside = [each for each in mine if each.namespace and each.namespace != first]
    if not inside:
        return None
    # the first of a pod's processes is the one that holds its namespace; a later one may have gone elsewhere
    found = Namespace(str(min(inside).namespace))
    found.processes.update((each.pid, "") for each in inside if each.namespace == found.identity)
    return found


def processes(system: System, uids: t.Iterable[str]) -> dict[str, list[Process]]:
    """The processes of each pod, the earliest first. ``/proc`` is gone through once for all."""
    found: dict[str, list[Process]] = {uid: [] for uid in uids}
    for entry in system.listdir("/proc"):
        cgroup = system.read_file("/proc/%s/cgroup" % entry) if entry.isdigit() else None
        uid = uid_in(cgroup or "")
        if uid not in found or cgroup is None:
            continue
        began = network_namespaces.started(system, int(entry))
        if began is not None:
            space = system.link_name("/proc/%s/ns/net" % entry)
            found[uid].append(Process(int(began), int(entry), cgroup, space))
    return {uid: sorted(each) for uid, each in found.items()}


def uid_in(cgroup: str) -> str | None:
    """Which pod a process is of, by its ``/proc/PID/cgroup``: the innermost one of nested clusters."""
    named = _UID.findall(cgroup)
    return named[-1].replace("_", "-") if named else None


def _mode(system: System) -> str | None:
    sock = rdma_netlink.connect(system)
    if sock is None:
        return None
    try:
        return rdma_netlink.netns_mode(sock) or "shared"
    finally:
        sock.close()


def _row(row: Row, found: Row | None, gids: t.Sequence[Row]) -> Row:
    """What was found in its namespace; ``gids`` are those of devices that all namespaces share."""
    parts: Row = {key: [] for key in ("links", "addresses", "routes", "rules", "rdma", "gids")}
    if found is None:
        found = {"why": "its network namespace cannot be entered"}
    made = dict(parts, **dict(row, **found))
    own = {str(each["address"]).partition("/")[0] for each in made["addresses"]}
    made["gids"] = made["gids"] + [each for each in gids if each["address"] in own]
    return made


def _inside(system: System, shared: bool) -> Row:
    """What the namespace that we are in holds."""
    try:
        with Rtnetlink() as table:
            links = [each for each in table.links() if each.name != LOOPBACK]
            found: Row = ip_state.look(table, {each.ifindex: each.name for each in links})
        found["links"] = [
            {
                "netdev": each.name,
                "kind": each.kind,
                "up": each.up,
                "mtu": each.mtu,
                "pci": each.parent or (None if each.kind else namespace_holders.bus_info(each.name)),
            }
            for each in links
        ]
        if not shared:
            info = Info(system)
            found["rdma"] = _devices(info)
            found["gids"] = info.gids()
        return found
    except (NetlinkError, RailyardError, OSError) as error:
        return {"why": "what is in its network namespace cannot be read: %s" % error}


def _devices(info: Info) -> list[Row]:
    keys = ("device", "port", "link_layer", "state", "netdev", "pci")
    return [{key: each[key] for key in keys} for each in info.rdma()]


def _gids(system: System) -> list[Row]:
    try:
        return Info(system).gids()
    except (NetlinkError, RailyardError, OSError):
        return []  # rail_info reports why


# -- settings ----------------------------------------------------------------------------------------------------------


def settings(text: str | None) -> dict[str, str] | None:
    """The settings of NCCL and UCX in a file, a line each; None where there is no file.

    Of two values NCCL takes the first, and of a line what is before and after its first ``=``.
    """
    if text is None:
        return None
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().startswith(SETTINGS):
            found.setdefault(key.strip(), value.strip())
    return found


def _settings(system: System, mine: t.Sequence[Process]) -> Row:
    """What the first process of each container was started with, and finds in its file."""
    environment: dict[str, str] = {}
    file: dict[str, str] | None = None
    seen: set[str] = set()
    for each in mine:
        if each.cgroup in seen:
            continue
        seen.add(each.cgroup)
        with contextlib.suppress(RailyardError, OSError):
            held = system.read_bytes("/proc/%d/environ" % each.pid) or b""
            values = settings(held.decode("utf-8", "replace").replace("\n", " ").replace("\0", "\n"))
            for key, value in (values or {}).items():
                environment.setdefault(key, value)
        if file is None:
            file = settings(_in_container(system, each.pid))
    return {"environment": environment, "file": file}


def _in_container(system: System, pid: int) -> str | None:
    """The container's own ``/etc/nccl.conf``. It may be anything: no link is followed, and nothing waited for."""
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
        return os.read(fd, MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
