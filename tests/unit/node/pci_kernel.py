# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PCI bus on a fake tree whose functions have the configuration spaces of real ones, and take writes as they do."""

from __future__ import annotations

import errno
import os
import re
import struct
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.trees import INFINIBAND, NETWORK, Tree

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "config"
GPU, BRIDGE = "0x030200", "0x060400"
ROW = re.compile(r"^([0-9a-f]+): ((?:[0-9a-f]{2} ?){16})$", re.MULTILINE)


def recorded(name: str) -> bytearray:
    """The configuration space that a recording of ``lspci -vvvxxxx`` shows; rows that it leaves out are zeroes."""
    data = bytearray(4096)
    for place, row in ROW.findall((RECORDINGS / (name + ".txt")).read_text()):
        data[int(place, 16) : int(place, 16) + 16] = bytes.fromhex(row)
    return data


class PciKernel(System):
    """What the module sees and does. ``written`` are all writes; ``stuck`` functions take none of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), self.answer)
        self.tree = Tree(root)
        self.written: list[tuple[str, int, bytes]] = []
        self.operations: list[str] = []
        self.kill_at: int | None = None
        self.stuck: set[str] = set()
        self.locked = False
        self.programs: dict[str, CommandResult] = {}

    # -- the bus

    def function(self, path: str, recording: str, kind: str, **more: str) -> str:
        pci = self.tree.function(path, kind, **more)
        (self.place(pci) / "config").write_bytes(recorded(recording))
        return pci

    def bridge(self, path: str, on: bool = True, **more: str) -> str:
        return self.function(path, "root-port-acs-on" if on else "root-port-acs-off", BRIDGE, vendor="8086", **more)

    def nic(self, path: str, netdev: str = "", infiniband: bool = False, **more: str) -> str:
        pci = self.function(path, "connectx3-pro", INFINIBAND if infiniband else NETWORK, **more)
        if netdev:
            self.tree.netdev(pci, netdev)
        return pci

    def gpu(self, path: str, **more: str) -> str:
        return self.tree.function(path, GPU, vendor="10de", device="2330", **more)

    def place(self, pci: str) -> Path:
        return Path(self.root) / "sys/bus/pci/devices" / pci

    def word(self, pci: str, place: int) -> int:
        return int(struct.unpack_from("<H", (self.place(pci) / "config").read_bytes(), place)[0])

    def poke(self, pci: str, place: int, value: int) -> None:
        """As the firmware or another program does."""
        data = bytearray((self.place(pci) / "config").read_bytes())
        struct.pack_into("<H", data, place, value)
        (self.place(pci) / "config").write_bytes(data)

    # -- what System does

    def which(self, program: str) -> str | None:
        return "/usr/bin/" + program if program in self.programs else None

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        return self.programs[os.path.basename(argv[0])]

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        pci = path.split("/")[-2]
        self.did("%s %#x %s" % (pci, offset, data.hex()))
        if self.locked:
            raise OSError(errno.EPERM, "Operation not permitted")
        self.written.append((pci, offset, data))
        if pci not in self.stuck:
            super().write_at(path, offset, data)

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        self.did("write " + path)
        super().write_file(path, data, mode)

    def remove_file(self, path: str) -> None:
        self.did("remove " + path)
        super().remove_file(path)

    def did(self, what: str) -> None:
        if self.kill_at is not None and len(self.operations) >= self.kill_at:
            raise Killed(what)
        self.operations.append(what)
