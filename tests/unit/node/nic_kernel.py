# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel with SR-IOV NICs on a fake tree: it makes, binds and takes away VFs as drivers/pci/iov.c does."""

from __future__ import annotations

import errno
import os
import shutil
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Address
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov import unmanaged_vfs
from tests.unit.node.trees import INFINIBAND, NETWORK, Tree


class Killed(BaseException):
    """The run ends here, as by SIGKILL: nothing of ours is run any more."""


class NicKernel(System):
    """What the module sees and does. ``operations`` counts what changes the node; one of them may be the last."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.tree = Tree(root)
        self.links: dict[str, Row] = {}
        self.settings: dict[str, list[Row]] = {}
        self.other_addresses: list[Address] = []
        self.unknown: set[str] = {"link_state"}
        self.too_long = False
        self.busy = 0
        self.operations: list[str] = []
        self.kill_at: int | None = None
        self.bound_with: list[tuple[str, str | None]] = []
        self.vf_driver: str | None = "igbvf"
        self.network_manager = False
        #: the rules that udev has read
        self.udev_rules = ""

    def nic(self, bus: int, netdev: str | None, total: int = 7, layer: str = "ethernet", driver: str = "igb") -> str:
        """A PF at ``0000:BB:00.0``."""
        path = "pci0000:00/0000:00:%02x.0/0000:%02x:00.0" % (bus, bus)
        attributes: dict[str, t.Any] = {
            "sriov_totalvfs": str(total),
            "sriov_numvfs": "0",
            "sriov_drivers_autoprobe": "1",
        }
        kind = NETWORK if layer == "ethernet" else INFINIBAND
        vendor = "15b3" if driver.startswith("mlx") or layer == "infiniband" else "8086"
        pci = self.tree.function(path, kind, vendor, **(attributes if total else {}))
        self.tree.driver(pci, driver)
        self.settings[pci] = []
        if netdev:
            self.tree.netdev(pci, netdev, carrier="1")
            self.links[netdev] = {
                "index": bus,
                "name": netdev,
                "pci": pci,
                "type": 1 if layer == "ethernet" else 32,
                "up": True,
                "carrier": True,
            }
        return pci

    # -- what System does

    def write_attribute(self, path: str, text: str) -> None:
        name = path.rpartition("/")[2]
        self.did("%s %s" % (path.split("/")[-2] if name.startswith("sriov_") else name, text))
        if name == "sriov_numvfs":
            self.resize(path.split("/")[-2], int(text))
        elif path == "/sys/bus/pci/drivers_probe":
            self.probe(text)
        elif name == "unbind":
            self.release(text)
        elif "/sriov/" in path:
            Path(self.path(path)).write_text(text)
        else:
            super().write_attribute(path, text)

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        self.did("write " + path)
        super().write_file(path, data, mode)

    def remove_file(self, path: str) -> None:
        self.did("remove " + path)
        super().remove_file(path)

    def run(self, argv: t.Sequence[str], timeout: float = 300.0) -> CommandResult:
        if argv[0] not in ("udevadm", "nmcli"):
            return super().run(argv, timeout)
        self.did(" ".join(argv))
        if argv[:2] == ["udevadm", "control"]:
            texts = [self.read_file(path) for path in (unmanaged_vfs.FILE, unmanaged_vfs.LIVE_FILE)]
            self.udev_rules = "".join(text or "" for text in texts)
        elif argv[:2] == ["nmcli", "device"]:
            self.links[argv[3]]["up"] = False
        return CommandResult(0, "", "")

    def did(self, what: str) -> None:
        if self.kill_at is not None and len(self.operations) >= self.kill_at:
            raise Killed(what)
        self.operations.append(what)

    # -- what the kernel does

    def place(self, pci: str) -> Path:
        return Path(self.root) / "sys/bus/pci/devices" / pci

    def vf_addresses(self, pf: str) -> list[str]:
        return ["%s.%d" % (pf[:-2].replace(":00", ":10"), 2 * n) for n in range(len(self.settings[pf]))]

    def resize(self, pf: str, count: int) -> None:
        now = len(self.settings[pf])
        if now and count and now != count:
            raise OSError(errno.EBUSY, "busy")
        if count > int((self.place(pf) / "sriov_totalvfs").read_text()):
            raise OSError(errno.ERANGE, "range")
        if not count:
            for number, vf in enumerate(self.vf_addresses(pf)):
                self.release(vf)
                shutil.rmtree(self.place(vf).resolve())
                self.place(vf).unlink()
                (self.place(pf) / ("virtfn%d" % number)).unlink()
        infiniband = (self.place(pf) / "class").read_text().strip() == INFINIBAND
        self.settings[pf] = [
            {name: None for name in ("mac", "node_guid", "port_guid")}
            if infiniband
            else dict(
                {"mac": "00:00:00:00:00:00", "vlan": 0, "qos": 0, "spoofchk": True, "trust": False},
                min_tx_rate=0,
                max_tx_rate=0,
                link_state="auto",
                node_guid=None,
                port_guid=None,
            )
            for _number in range(count)
        ]
        for number, vf in enumerate(self.vf_addresses(pf)):
            self.tree.vf(pf, number, "pci0000:00/0000:00:%s.0/%s" % (pf[5:7], vf))
            if infiniband:
                for entry, text in (("node", "00:" * 7 + "00"), ("port", "00:" * 7 + "00"), ("policy", "Down")):
                    self.tree.write("%s/sriov/%d/%s" % (self.tree.real(pf), number, entry), text)
            self.probe(vf)
        (self.place(pf) / "sriov_numvfs").write_text(str(count))

    def probe(self, vf: str) -> None:
        pf = os.path.basename(os.readlink(self.place(vf) / "physfn"))
        if self.read_int("/sys/bus/pci/devices/%s/sriov_drivers_autoprobe" % pf) == 0 or not self.vf_driver:
            return
        if (self.place(vf) / "driver").exists():
            return
        number = self.vf_addresses(pf).index(vf)
        mac = self.settings[pf][number]["mac"] or "00:00:00:00:00:00"
        address = mac if mac.strip("0:") else "ba:dd:00:00:00:%02x" % len(self.bound_with)
        self.tree.driver(vf, self.vf_driver)
        unbind = Path(self.root) / "sys/bus/pci/drivers" / self.vf_driver / "unbind"
        unbind.write_text("")
        self.bound_with.append((vf, address))
        if any(link["pci"] == pf for link in self.links.values()):
            name = "%sv%d" % (next(link["name"] for link in self.links.values() if link["pci"] == pf), number)
            self.tree.netdev(vf, name, address=address)
            link = {"index": 100 + len(self.bound_with), "name": name, "pci": vf, "type": 1, "carrier": True}
            self.links[name] = dict(link, up=self.network_manager and not self.is_unmanaged(pf))

    def release(self, vf: str) -> None:
        driver = self.place(vf) / "driver"
        if driver.is_symlink():
            driver.unlink()
        for name in self.listdir("/sys/bus/pci/devices/%s/net" % vf):
            (Path(self.root) / "sys/class/net" / name).unlink()
            self.links.pop(name, None)
        shutil.rmtree(self.place(vf).resolve() / "net", ignore_errors=True)

    # -- what NetworkManager does

    def start_network_manager(self) -> None:
        self.network_manager = True
        self.tree.write(unmanaged_vfs.INSTALLED + "/NetworkManager.conf", "")
        self.tree.write(unmanaged_vfs.RUNNING, "")

    def is_unmanaged(self, pf: str) -> bool:
        return "\n" + unmanaged_vfs.RULE % pf in self.udev_rules

    # -- what Rtnetlink does

    def link(self, which: str, vfs: bool = False) -> Link | None:
        row = self.links.get(which)
        if not row:
            return None
        if vfs and self.too_long:
            raise NetlinkError(errno.EMSGSIZE)
        shown = []
        for number, setting in enumerate(self.settings[row["pci"]] if vfs else []):
            unknown = {name: None for name in ("trust", "spoofchk") if name in self.unknown}
            shown.append(dict({"index": number, "link_state": "auto"}, **dict(setting, **unknown)))
        given = {key: value for key, value in row.items() if key not in ("index", "pci")}
        given.update(ifindex=row["index"], mtu=1500, min_mtu=68, max_mtu=9216, address=b"", altnames=())
        return Link(vfs=tuple(shown), **given)

    def all_links(self, vfs: bool = False) -> list[Link]:
        return []

    def addresses(self) -> list[Address]:
        return self.other_addresses

    def set_link(self, index: int, up: bool) -> None:
        self.did("up %d" % index)
        next(link for link in self.links.values() if link["index"] == index)["up"] = up

    def set_vf(self, index: int, vf: int, **attributes: t.Any) -> None:
        pf = next(link["pci"] for link in self.links.values() if link["index"] == index)
        if self.unknown.intersection(attributes):
            raise NetlinkError(errno.EOPNOTSUPP)
        if vf >= len(self.settings[pf]):
            raise NetlinkError(errno.EINVAL)
        if self.busy:
            self.busy -= 1
            raise NetlinkError(errno.EAGAIN)
        self.did("vf %d %s" % (vf, sorted(attributes)))
        self.settings[pf][vf].update(attributes)


class NicTable:
    """The kernel's rtnetlink side, as :class:`Rtnetlink` gives it."""

    def __init__(self, kernel: NicKernel) -> None:
        self.link = kernel.link
        self.links = kernel.all_links
        self.addresses = kernel.addresses
        self.set_link = kernel.set_link
        self.set_vf = kernel.set_vf
