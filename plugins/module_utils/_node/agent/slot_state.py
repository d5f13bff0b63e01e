# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of the pods that hold devices, in ``/var/lib/railyard/agent/slots.json``.

A holder is recorded (phase ``attaching``) before its interfaces are made, so that the next agent can undo the attach of
an agent that was killed. A damaged file is an error: an empty record would give slots to two pods.

Each row has the ID of the boot that it is from. Nothing of another boot is alive, so its rows hold nothing.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import Pod
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FILE = "/var/lib/railyard/agent/slots.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Keys of the rows of interfaces by which the agent finds them in the kernel.
OWN_KEYS = ("ifindex", "identity", "rdma_index")
ATTACHING, ATTACHED = "attaching", "attached"


class Holder(t.NamedTuple):
    """The pod that holds a device.

    ``nsid``: the ID of the pod's network namespace in the node's. ``pid``: a process of the container. ``since``:
    seconds since 1970. ``interfaces``: rows of :meth:`.pod_links.Job.row`, one per rail. ``boot_id``: of the boot that
    the row is from. ``inode``, ``cookie``: of the namespace, whose ``nsid`` and ``inode`` the kernel gives to another
    one later; the cookie is None before Linux 5.14. ``plan``: of :func:`.pod_desired.plan_of`, the part of the node
    file that the pod keeps until it ends. These are None in rows of an earlier release, see :meth:`.PodAttach.recover`.
    """

    device: str
    pod_uid: str
    pod_name: str
    pod_namespace: str
    container: str
    sandbox_id: str
    pid: int
    nsid: int
    phase: str
    since: float
    interfaces: tuple[Row, ...] = ()
    boot_id: str | None = None
    inode: int | None = None
    cookie: int | None = None
    plan: Row | None = None

    @property
    def pod(self) -> str:
        return "%s/%s" % (self.pod_namespace, self.pod_name)

    def alias(self, rail: str) -> str:
        """Return the alias that marks the holder's interface on a rail in the kernel."""
        return "railyard %s %s %s" % (self.device, self.sandbox_id, rail)

    @property
    def aliases(self) -> list[str]:
        return [self.alias(row["rail"]) for row in self.interfaces]

    @property
    def addresses(self) -> set[str]:
        """The addresses of all interfaces, without prefix lengths."""
        keys = ("address", "address6")
        return {row[key].partition("/")[0] for row in self.interfaces for key in keys if row.get(key)}

    def row_of(self, interface: str) -> Row | None:
        """Return the row of an interface of the pod; None if the holder does not have it."""
        return next((row for row in self.interfaces if row["interface"] == interface), None)

    def as_dict(self) -> Row:
        """Return the holder's row in the record."""
        return dict(self._asdict(), interfaces=list(self.interfaces))

    def shown(self) -> Row:
        """Return the row of ``status``: without the values by which only the agent finds the interfaces."""
        interfaces = [{key: row[key] for key in row if key not in OWN_KEYS} for row in self.interfaces]
        return {**{key: value for key, value in self._asdict().items() if key != "plan"}, "interfaces": interfaces}


class Namespace(t.NamedTuple):
    """A pod's network namespace: see :class:`Holder`."""

    nsid: int
    inode: int
    cookie: int | None

    def is_of(self, holder: Holder, pod: Pod) -> bool:
        """Return whether a holder has the pod's sandbox, and this namespace. Earlier releases recorded less."""
        same = holder.inode is None or (holder.inode, holder.cookie) == (self.inode, self.cookie)
        return same and (holder.sandbox_id, holder.nsid) == (pod.sandbox_id, self.nsid)


class SlotState:
    """The record of holders. Each change is on the disk when a method returns. Safe for several threads.

    Its methods raise :class:`.RailyardError` if the file is damaged.
    """

    def __init__(self, system: System) -> None:
        self.boot_id = system.read(BOOT_ID)
        self._file: RecordFile[Holder] = RecordFile(
            system,
            FILE,
            "holders",
            lambda row: Holder(**dict(row, interfaces=tuple(row["interfaces"]))),
            Holder.as_dict,
            lambda holder: holder.device,
            (
                "the agent does not know which pods hold slots",
                "drain the node, remove the file, and restart railyard-agent",
            ),
        )

    def holders(self) -> dict[str, Holder]:
        """Return the holders of this boot by device, and those of an earlier release, whose boot is unknown."""
        return {key: each for key, each in self._file.all().items() if not self._is_over(each)}

    def release_earlier_boots(self) -> None:
        """Remove the rows of other boots. Raises :class:`.RailyardError` if the file cannot be written."""
        for device, holder in self._file.all().items():
            if self._is_over(holder):
                self._file.remove(device)

    def _is_over(self, holder: Holder) -> bool:
        return None not in (holder.boot_id, self.boot_id) and holder.boot_id != self.boot_id

    def take(self, holder: Holder) -> None:
        """Record a holder, or replace its row. Raises :class:`.RailyardError` if the file cannot be written."""
        self._file.put(holder)

    def release(self, device: str) -> None:
        """Remove the holder of a device, if any. Raises :class:`.RailyardError` if the file cannot be written."""
        self._file.remove(device)
