# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""IPoIB, partitions and the subnet manager of a fabric whose link layer is InfiniBand."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path

DATAGRAM = "datagram"
CONNECTED = "connected"
MODES = (DATAGRAM, CONNECTED)
REPORTED = "reported"
REQUIRED = "required"
# Set in the key of a full member; of the other 15 bits 0 means no key and 0x7fff the default partition.
FULL = 0x8000
DEFAULT = 0x7FFF
# What the kernel appends to a port's name for a child interface.
_CHILD = 5
NETDEV_MAX = 15 - _CHILD


@dataclass(frozen=True)
class Infiniband:
    """``pkeys``: partition keys of full members, each of which gets a child interface on every port."""

    path: Path
    ipoib_mode: str | None = None
    pkeys: tuple[int, ...] = ()
    subnet_manager: str | None = None


@dataclass(frozen=True)
class Partitions:
    """The partition keys of a profile's or a group's nodes, in place of the fabric's."""

    path: Path
    pkeys: tuple[int, ...]

    def written(self) -> dict[str, t.Any]:
        return {"pkeys": ["0x%04x" % key for key in self.pkeys]}


def pkey(text: str) -> int | None:
    """A partition key, with the bit of full membership, from ``0x8001``, ``0x1`` or ``1``; None for anything else."""
    if not re.match(r"(0x[0-9a-fA-F]{1,4}|[1-9][0-9]{0,4})\Z", text):
        return None
    number = int(text, 16) if text.startswith("0x") else int(text)
    return number | FULL if 0 < number & DEFAULT < DEFAULT and number < 2 * FULL else None


def child(netdev: str, key: int) -> str:
    """The name of the child interface, as the kernel makes it."""
    return "%s.%04x" % (netdev, key)


def derived(infiniband: Infiniband | None) -> dict[str, t.Any] | None:
    """The settings of the fabric, as a host variable."""
    if infiniband is None:
        return None
    return {
        "ipoib_mode": infiniband.ipoib_mode,
        "pkeys": ["0x%04x" % key for key in infiniband.pkeys],
        "subnet_manager": infiniband.subnet_manager or REPORTED,
    }


def written(infiniband: Infiniband | None) -> dict[str, t.Any] | None:
    """The section as the file has it."""
    if infiniband is None:
        return None
    found = {key: getattr(infiniband, key) for key in ("ipoib_mode", "subnet_manager")}
    found["pkeys"] = ["0x%04x" % key for key in infiniband.pkeys] or None
    return {key: value for key, value in found.items() if value is not None}
