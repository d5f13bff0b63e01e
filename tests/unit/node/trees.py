# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake sysfs trees: PCI functions with their place, drivers, netdevs and RDMA devices, made in a directory."""

from __future__ import annotations

import contextlib
import os
import resource
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System, run_command

NETWORK = "0x020000"
INFINIBAND = "0x020700"


@contextlib.contextmanager
def no_file_left() -> t.Iterator[None]:
    """This process cannot open files or sockets, as with too many of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Tree:
    """A root directory that is filled by and by."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("/proc/net/route", "Iface\tDestination\tGateway\n")
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def system(self, runner: t.Any = run_command) -> System:
        return System(str(self.root), runner)

    def write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")

    def link(self, path: str, target: str) -> None:
        """A symbolic link to a path of the tree, relative as sysfs has them."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        place.symlink_to(os.path.relpath(self.root / target.lstrip("/"), place.parent))

    def function(
        self, path: str, kind: str = NETWORK, vendor: str = "15b3", device: str = "101b", numa: int = -1, **more: str
    ) -> str:
        """A PCI function at ``pci0000:00/0000:00:01.0/0000:01:00.0``; ``more`` are attributes. Its address."""
        place = "/sys/devices/" + path
        pci = path.rpartition("/")[2]
        for name, text in dict(vendor="0x" + vendor, device="0x" + device, numa_node=str(numa), **more).items():
            self.write("%s/%s" % (place, name), text)
        self.write(place + "/class", kind)
        self.link("/sys/bus/pci/devices/" + pci, place)
        return pci

    def driver(self, pci: str, name: str) -> None:
        (self.root / "sys/bus/pci/drivers" / name).mkdir(parents=True, exist_ok=True)
        self.link("/sys/bus/pci/devices/%s/driver" % pci, "/sys/bus/pci/drivers/" + name)

    def netdev(self, pci: str, name: str, **attributes: str) -> None:
        place = "%s/net/%s" % (self.real(pci), name)
        for key, text in dict({"type": "1", "mtu": "1500", "operstate": "up"}, **attributes).items():
            self.write("%s/%s" % (place, key), text)
        self.link(place + "/device", self.real(pci))
        self.link("/sys/class/net/" + name, place)

    def rdma(self, pci: str, name: str, layer: str = "InfiniBand", image: str = "", ports: int = 1) -> None:
        place = "%s/infiniband/%s" % (self.real(pci), name)
        self.write(place + "/sys_image_guid", image or "0000:0000:0000:0000")
        for port in range(1, ports + 1):
            self.write("%s/ports/%d/link_layer" % (place, port), layer)
        self.link(place + "/device", self.real(pci))
        self.link("/sys/class/infiniband/" + name, place)

    def vf(self, pf: str, index: int, path: str) -> str:
        """A VF of ``pf``."""
        pci = self.function(path)
        self.link("/sys/bus/pci/devices/%s/physfn" % pci, self.real(pf))
        self.link("/sys/bus/pci/devices/%s/virtfn%d" % (pf, index), self.real(pci))
        return pci

    def real(self, pci: str) -> str:
        return "/" + os.path.relpath(os.path.realpath(self.root / "sys/bus/pci/devices" / pci), self.root.resolve())
