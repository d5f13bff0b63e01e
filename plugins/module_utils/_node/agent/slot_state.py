# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The record of the pods that hold devices, in ``/var/lib/railyard/agent/slots.json``.

A holder is recorded (phase ``attaching``) before its interfaces are made, so that the next agent can undo the attach of
an agent that was killed. A damaged file is an error: an empty record would give slots to two pods.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FILE = "/var/lib/railyard/agent/slots.json"
ATTACHING, ATTACHED = "attaching", "attached"


class Holder(t.NamedTuple):
    """The pod that holds a device.

    ``nsid``: the ID of the pod's network namespace in the node's. ``pid``: a process of the container. ``since``:
    seconds since 1970. ``interfaces``: rows of ``rail``, ``slot``, ``interface``, ``address``, ``address6``, ``mac``,
    ``rdma``, and, for an interface that was moved from the node, ``host``: the ``name``, ``mtu`` and ``up`` that it had
    there, and its ``pci``.
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

    def as_dict(self) -> Row:
        """Return the holder's row in the record."""
        return dict(self._asdict(), interfaces=list(self.interfaces))


class SlotState:
    """The record of holders. Each change is on the disk when a method returns. Safe for several threads.

    Its methods raise :class:`.RailyardError` if the file is damaged.
    """

    def __init__(self, system: System) -> None:
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
        return self._file.all()

    def take(self, holder: Holder) -> None:
        """Record a holder, or replace its row. Raises :class:`.RailyardError` if the file cannot be written."""
        self._file.put(holder)

    def release(self, device: str) -> None:
        """Remove the holder of a device, if any. Raises :class:`.RailyardError` if the file cannot be written."""
        self._file.remove(device)
