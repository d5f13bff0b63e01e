# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with RoCE NICs: a fake tree, a fake of DCB, and the files of mlx5's driver and of configfs."""

from __future__ import annotations

import errno
import os
import shutil
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import DcbSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.ethtool import Pause
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.cm_defaults import RDMA_CM, CmDefaults
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.port_qos import Tools
from tests.unit.node.dcb_kernel import DcbKernel, Nic
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.trees import Tree


class QosKernel(System):
    """Two ConnectX PFs, ``rail1`` and ``rail2``, with NVIDIA's driver by default, and ``mgmt0``.

    ``kill_at``: the run ends before the write of this number, from 0.
    """

    def __init__(self, root: Path, vendor: bool = True) -> None:
        super().__init__(str(root), self._program)
        self.tree = Tree(root)
        self.dcb = DcbKernel(mgmt0=Nic())
        self.pause: dict[str, Pause] = {}
        self.defaults: dict[str, dict[str, str]] = {}
        self.vendor = vendor
        self.kill_at = -1
        self.writes: list[str] = []
        self.modules = {"rdma_cm"}
        self.loaded: list[str] = []
        for number in (1, 2):
            self.nic(number)
        function = self.tree.function("pci0000:00/0000:1e:00.0")
        self.tree.netdev(function, "mgmt0")
        route = "mgmt0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000"
        self.tree.write("/proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n" + route)
        (root / RDMA_CM.lstrip("/")).mkdir(parents=True)

    def nic(self, number: int) -> None:
        netdev, device = "rail%d" % number, "mlx5_gpu%02d" % number
        function = self.tree.function("pci0000:00/0000:00:%02x.0/0000:%02x:00.0" % (number, number))
        self.tree.driver(function, "mlx5_core")
        self.tree.netdev(function, netdev)
        self.dcb.netdevs[netdev] = Nic()
        self.pause[netdev] = Pause(False, True, True)
        self.device(function, device)
        if self.vendor:
            for point in ("roce_np", "roce_rp"):
                for priority in range(8):
                    self.tree.write("/sys/class/net/%s/ecn/%s/enable/%d" % (netdev, point, priority), "0")
            self.tree.write("/sys/class/net/%s/ecn/roce_np/cnp_dscp" % netdev, "46")
            self.tree.write("/sys/class/net/%s/ecn/roce_np/cnp_802p_prio" % netdev, "5")
        else:
            for name in ("np_cnp_dscp", "np_cnp_prio"):
                self.tree.write("/sys/kernel/debug/mlx5/%s/cc_params/%s" % (function, name), "0")

    def device(self, function: str, device: str) -> None:
        self.tree.rdma(function, device, "Ethernet")
        if self.vendor:
            self.tree.write("/sys/class/infiniband/%s/tc/1/traffic_class" % device, "")
        self.defaults[device] = {"default_roce_tos": "0", "default_roce_mode": "IB/RoCE v1"}

    def with_vf(self) -> str:
        function = self.tree.vf("0000:01:00.0", 0, "pci0000:00/0000:00:01.0/0000:01:00.2")
        self.device(function, "mlx5_vf0")
        self.tree.netdev(function, "vf0")
        self.dcb.netdevs["vf0"] = None
        return function

    def nics(self) -> list[Nic]:
        return [nic for name, nic in sorted(self.dcb.netdevs.items()) if name.startswith("rail") and nic]

    def tools(self) -> Tools:
        sock = DcbSocket(t.cast(NetlinkSocket, self.dcb))
        return Tools(sock, CmDefaults(self, self._make, self._remove), self._pauses, self._set_pause)

    # -- what the kernel does --------------------------------------------------------------------------------------

    def _counts(self, what: str) -> None:
        if len(self.writes) == self.kill_at:
            raise Killed
        self.writes.append(what)

    def write_attribute(self, path: str, text: str) -> None:
        self._counts(path)
        if not os.path.exists(self.path(path)):
            raise OSError(errno.ENOENT, "no such file")
        name = path.rpartition("/")[2]
        if name == "traffic_class":
            text = "Global tclass=%d" % int(text)
        elif name == "default_roce_mode" and text not in ("RoCE v2", "IB/RoCE v1"):
            raise OSError(errno.EINVAL, "invalid")
        elif name == "dscp2prio":
            # one pair is written, and the whole table is read
            dscp, priority = text.split()
            rows = [line.split() for line in (self.read(path) or "").splitlines()]
            text = "\n".join(" ".join([row[0], priority if row[0] == dscp else row[1]]) for row in rows)
        if path.startswith(RDMA_CM):
            self.defaults[path.split("/")[5]][name] = text
        Path(self.path(path)).write_text(text + "\n")

    def _make(self, path: str) -> None:
        device = os.path.basename(path)
        if device not in self.defaults:
            raise OSError(errno.ENODEV, "no such device")
        os.mkdir(path)
        place = Path(path) / "ports/1"
        place.mkdir(parents=True)
        for name, text in self.defaults[device].items():
            (place / name).write_text(text + "\n")

    def _remove(self, path: str) -> None:
        shutil.rmtree(path)

    def _pauses(self, netdevs: t.Iterable[str]) -> dict[str, Pause]:
        return {name: self.pause[name] for name in netdevs if name in self.pause}

    def _set_pause(self, netdev: str, pause: Pause) -> None:
        self._counts("pause " + netdev)
        self.pause[netdev] = pause

    def _program(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        module = argv[-1]
        if os.path.basename(argv[0]) != "modprobe" or module not in self.modules:
            return CommandResult(1, "", "%s: not found" % module)
        if "--dry-run" not in argv:
            self.loaded.append(module)
            (Path(self.root) / RDMA_CM.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return CommandResult(0, "", "")
