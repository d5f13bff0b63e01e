# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which pod holds which device, in ``/var/lib/railyard/agent/slots.json``.

A holder is recorded before anything is made for it (phase ``attaching``), so that an agent that was killed at any
moment finds what it must undo. A damaged file is an error: an empty record would give slots to two pods.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FILE = "/var/lib/railyard/agent/slots.json"
ATTACHING, ATTACHED = "attaching", "attached"


class Holder(t.NamedTuple):
    """The pod that holds a device.

    ``nsid``: the number by which the node's network namespace knows the pod's. ``pid``: a process of the container, for
    people. ``since``: seconds since 1970. ``interfaces``: rows of ``rail``, ``slot``, ``interface``, ``address``,
    ``address6``, ``mac``, ``rdma``, and, for an interface that was moved from the node, ``host``: the ``name``, ``mtu``
    and ``up`` that it had there, and its ``pci``.
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
        """The alias of the holder's interface on a rail in the kernel, which marks it as made for this sandbox."""
        return "railyard %s %s %s" % (self.device, self.sandbox_id, rail)

    @property
    def aliases(self) -> list[str]:
        return [self.alias(each["rail"]) for each in self.interfaces]

    @property
    def addresses(self) -> set[str]:
        """The addresses of all interfaces, without prefix lengths."""
        keys = ("address", "address6")
        return {each[key].partition("/")[0] for each in self.interfaces for key in keys if each.get(key)}

    def as_dict(self) -> Row:
        return dict(self._asdict(), interfaces=list(self.interfaces))


class SlotState:
    """The holders by device id. Each change is on the disk when a method returns; safe for several threads.

    :raises .RailyardError: if the file is damaged.
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
        """Record a holder, or what changed about it. Raises :class:`.RailyardError` if it cannot be written."""
        self._file.put(holder)

    def release(self, device: str) -> None:
        """Forget the holder of a device, if it has one. Raises :class:`.RailyardError` if it cannot be written."""
        self._file.remove(device)
