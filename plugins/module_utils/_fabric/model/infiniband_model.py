# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""IPoIB, partitions and the subnet manager of a fabric whose link layer is InfiniBand."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NETDEV_MAX

DATAGRAM = "datagram"
CONNECTED = "connected"
# The ports have RDMA devices and no IPoIB interface.
NO_IPOIB = "none"
MODES = (DATAGRAM, CONNECTED, NO_IPOIB)
REPORTED = "reported"
REQUIRED = "required"
# The bit of full membership. Of the other 15 bits, 0 is invalid and 0x7fff the default partition.
FULL = 0x8000
DEFAULT = 0x7FFF
# The kernel appends ``.8001`` to the name of the port for a child interface.
PARENT_MAX = NETDEV_MAX - len(".8001")


@dataclass(frozen=True)
class Infiniband:
    """The section ``infiniband``. ``pkeys``: keys of full members, each with a child interface on every port."""

    path: Path
    ipoib_mode: str | None = None
    pkeys: tuple[int, ...] = ()
    subnet_manager: str | None = None


@dataclass(frozen=True)
class Partitions:
    """The partition keys for nodes of a profile or group, which override those of the fabric."""

    path: Path
    pkeys: tuple[int, ...]

    def file_value(self) -> dict[str, t.Any]:
        return {"pkeys": ["0x%04x" % key for key in self.pkeys]}


def pkey(text: str) -> int | None:
    """Return a partition key as full member, from ``0x8001``, ``0x1`` or ``1``; None for another text."""
    if not re.match(r"(0x[0-9a-fA-F]{1,4}|[1-9][0-9]{0,4})\Z", text):
        return None
    number = int(text, 16) if text.startswith("0x") else int(text)
    return number | FULL if 0 < number & DEFAULT < DEFAULT and number < 2 * FULL else None


def child_netdev(netdev: str, key: int) -> str:
    """Return the name that the kernel gives to the child interface of a partition."""
    return "%s.%04x" % (netdev, key)


def host_variable(infiniband: Infiniband | None) -> dict[str, t.Any] | None:
    if infiniband is None:
        return None
    return {
        "ipoib_mode": infiniband.ipoib_mode,
        "pkeys": ["0x%04x" % key for key in infiniband.pkeys],
        "subnet_manager": infiniband.subnet_manager or REPORTED,
    }


def file_value(infiniband: Infiniband | None) -> dict[str, t.Any] | None:
    if infiniband is None:
        return None
    values = {key: getattr(infiniband, key) for key in ("ipoib_mode", "subnet_manager")}
    values["pkeys"] = ["0x%04x" % key for key in infiniband.pkeys] or None
    return {key: value for key, value in values.items() if value is not None}
