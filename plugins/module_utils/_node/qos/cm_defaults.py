# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection manager's defaults for an RDMA device: type of service and RoCE mode, in configfs.

Source: the kernel's ``Documentation/ABI/testing/configfs-rdma_cm``.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

CONFIG = "/sys/kernel/config"
RDMA_CM = CONFIG + "/rdma_cm"
Row = t.Dict[str, t.Any]


class CmDefaults:
    """The defaults of a node's RDMA devices.

    :param make, remove: create and remove a directory of configfs, for tests: the kernel fills it.
    """

    def __init__(
        self,
        system: System,
        make: t.Callable[[str], None] = os.mkdir,
        remove: t.Callable[[str], None] = os.rmdir,
    ) -> None:
        self._system = system
        self._make = make
        self._remove = remove

    def read(self, device: str, port: int) -> Row:
        """``rdma_cm_tos`` and ``roce_mode``; each None if the kernel does not have it."""
        row: Row = {"rdma_cm_tos": None, "roce_mode": None}
        with contextlib.suppress(OSError), self._opened(device):
            place = "%s/%s/ports/%d" % (RDMA_CM, device, port)
            row["rdma_cm_tos"] = self._system.read_int(place + "/default_roce_tos")
            row["roce_mode"] = self._system.read(place + "/default_roce_mode")
        return row

    def set_default(self, device: str, port: int, name: str, value: str) -> None:
        """``name``: ``default_roce_tos`` or ``default_roce_mode``. Raises the kernel's OSError."""
        with self._opened(device):
            self._system.write_attribute("%s/%s/ports/%d/%s" % (RDMA_CM, device, port, name), value)

    def has_manager(self) -> bool:
        """Whether the connection manager is loaded."""
        return self._system.exists(RDMA_CM)

    @contextlib.contextmanager
    def _opened(self, device: str) -> t.Iterator[None]:
        """Create the device's directory while it is needed: the values stay without it."""
        path = self._system.path("%s/%s" % (RDMA_CM, device))
        made = not os.path.isdir(path)
        if made:
            self._make(path)
        try:
            yield
        finally:
            if made:
                with contextlib.suppress(OSError):
                    self._remove(path)


def ports(system: System, device: str) -> list[int]:
    return sorted(int(name) for name in system.listdir("/sys/class/infiniband/%s/ports" % device) if name.isdigit())
