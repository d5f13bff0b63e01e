# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""DCB's messages: by hand, against this kernel, and against iproute2's dcb, on the same simulated kernel."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import port_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import (
    codec,
    dcb_netlink,
    ethtool,
    rdma_netlink,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import App, Buffer, DcbSocket
from tests.unit.node.dcb_kernel import DcbKernel, Nic, Server
from tests.unit.node.trees import Tree

RECORDINGS = Path(__file__).parents[2] / "recordings"


def of(kernel: DcbKernel) -> DcbSocket:
    return DcbSocket(t.cast(codec.NetlinkSocket, kernel))


def test_structures_have_the_kernels_sizes() -> None:
    # sizeof() of struct dcbmsg, ieee_ets, ieee_pfc, dcbnl_buffer and dcb_app, as gcc has them
    sizes = [
        each.size
        for each in (dcb_netlink.MESSAGE, dcb_netlink.ETS, dcb_netlink.PFC, dcb_netlink.BUFFER, dcb_netlink.APP)
    ]
    assert sizes == [4, 59, 136, 44, 4]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_numbers_are_those_of_the_kernels_header(tmp_path: Path) -> None:
    if not os.path.exists("/usr/include/linux/dcbnl.h"):
        pytest.skip("no kernel headers here")
    names = {
        "DCB_CMD_IEEE_SET": dcb_netlink.CMD_IEEE_SET,
        "DCB_CMD_IEEE_GET": dcb_netlink.CMD_IEEE_GET,
        "DCB_CMD_SDCBX": dcb_netlink.CMD_SDCBX,
        "DCB_CMD_IEEE_DEL": dcb_netlink.CMD_IEEE_DEL,
        "DCB_ATTR_IFNAME": dcb_netlink.ATTR_IFNAME,
        "DCB_ATTR_IEEE": dcb_netlink.ATTR_IEEE,
        "DCB_ATTR_DCBX": dcb_netlink.ATTR_DCBX,
        "DCB_ATTR_IEEE_ETS": dcb_netlink.IEEE_ETS,
        "DCB_ATTR_IEEE_PFC": dcb_netlink.IEEE_PFC,
        "DCB_ATTR_IEEE_APP_TABLE": dcb_netlink.IEEE_APP_TABLE,
        "DCB_ATTR_DCB_BUFFER": dcb_netlink.IEEE_BUFFER,
        "DCB_ATTR_IEEE_APP": dcb_netlink.IEEE_APP,
        "IEEE_8021QAZ_APP_SEL_DSCP": dcb_netlink.SELECTOR_DSCP,
        "RTM_GETDCB": dcb_netlink.RTM_GETDCB,
        "RTM_SETDCB": dcb_netlink.RTM_SETDCB,
        "DCB_CAP_DCBX_HOST": dcb_netlink.DCBX_HOST,
        "DCB_CAP_DCBX_LLD_MANAGED": dcb_netlink.DCBX_LLD_MANAGED,
        "sizeof(struct dcbmsg)": dcb_netlink.MESSAGE.size,
        "sizeof(struct ieee_ets)": dcb_netlink.ETS.size,
        "sizeof(struct ieee_pfc)": dcb_netlink.PFC.size,
        "sizeof(struct dcbnl_buffer)": dcb_netlink.BUFFER.size,
        "sizeof(struct dcb_app)": dcb_netlink.APP.size,
        "ETHTOOL_GPAUSEPARAM": ethtool.ETHTOOL_GPAUSEPARAM,
        "ETHTOOL_SPAUSEPARAM": ethtool.ETHTOOL_SPAUSEPARAM,
        "ETHTOOL_GSTRINGS": ethtool.ETHTOOL_GSTRINGS,
        "ETHTOOL_GSTATS": ethtool.ETHTOOL_GSTATS,
        "ETH_SS_STATS": ethtool.ETH_SS_STATS,
        "sizeof(struct ethtool_drvinfo)": ethtool.DRVINFO.size,
        "__builtin_offsetof(struct ethtool_drvinfo, n_stats)": ethtool.STATS_COUNT.size - 4,
        "RDMA_NLDEV_CMD_STAT_GET": rdma_netlink.CMD_STAT_GET,
        "RDMA_NLDEV_ATTR_STAT_HWCOUNTERS": rdma_netlink.ATTR_STAT_HWCOUNTERS,
        "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME": rdma_netlink.ATTR_STAT_HWCOUNTER_ENTRY_NAME,
        "RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE": rdma_netlink.ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
        "sizeof(struct ethtool_pauseparam)": ethtool.PAUSE.size,
        "__builtin_offsetof(struct ethtool_pauseparam, tx_pause)": 12,
        "__builtin_offsetof(struct ieee_pfc, delay)": 4,
        "__builtin_offsetof(struct ieee_pfc, requests)": 8,
    }
    checks = "".join('_Static_assert(%s == %d, "%s");\n' % (name, value, name) for name, value in names.items())
    source = tmp_path / "numbers.c"
    headers = ("linux/rtnetlink.h", "linux/dcbnl.h", "linux/ethtool.h", "rdma/rdma_netlink.h")
    source.write_text("".join("#include <%s>\n" % header for header in headers) + checks)
    subprocess.run(["gcc", "-fsyntax-only", str(source)], check=True)


def test_settings_reported_by_a_driver_are_read() -> None:
    nic = Nic()
    nic.pfc, nic.delay, nic.apps = 0b1000, 100, [(5, 3, 26), (1, 4, 35093), (5, 6, 48)]
    held = of(DcbKernel(eth0=nic)).read("eth0")
    assert held is not None and held.ets and held.pfc and held.buffer
    assert (held.ets.classes, held.ets.prio_tc, held.ets.tc_bw) == (8, (1, 0, 2, 3, 4, 5, 6, 7), (100,) * 8)
    assert (held.pfc.enabled, held.pfc.delay) == ((0, 0, 0, 1, 0, 0, 0, 0), 100)
    assert (held.buffer.prio_buffer, held.buffer.total) == ((0,) * 8, 524160)
    assert held.dscp2prio() == {26: 3, 48: 6}
    assert (held.trust, held.dcbx) == (None, 0x0D)
    nic.apptrust = [5, 24]
    held = of(DcbKernel(eth0=nic)).read("eth0")
    assert held is not None and held.trust == (5, 24)


def test_a_driver_with_some_of_the_settings() -> None:
    nic = Nic()
    nic.has, nic.dcbx = {"pfc"}, None
    held = of(DcbKernel(eth0=nic)).read("eth0")
    assert held is not None and held.pfc is not None
    assert (held.ets, held.buffer, held.apps, held.dcbx) == (None, None, (), None)
    assert of(DcbKernel(eth0=None)).read("eth0") is None


def test_pause_frames_of_a_netdev_are_counters(tmp_path: Path) -> None:
    """The kernel's header has the frames that were sent (requests) before those that were received (indications)."""
    tree = Tree(tmp_path)
    for netdev in ("eth0", "eth1", "vf0", "left0"):
        tree.write("/sys/class/net/%s/statistics/rx_errors" % netdev, "1")
    kernel = DcbKernel(eth0=Nic(), eth1=Nic(), vf0=None)
    for netdev in ("eth0", "eth1"):
        nic = kernel.netdevs[netdev]
        assert nic is not None
        nic.has -= {"pfc"} if netdev == "eth1" else set()
    found = port_counters.look(tree.system(), ["eth0", "eth1", "vf0", "left0"], [], of(kernel))["netdevs"]
    sent, received = sum(range(100, 108)), sum(range(108, 116))
    assert found["eth0"] == {"rx_errors": 1, "rx_pfc_pause": received, "tx_pfc_pause": sent}
    assert found["eth1"] == found["vf0"] == found["left0"] == {"rx_errors": 1}


def test_a_drivers_error_is_in_the_answer() -> None:
    kernel = DcbKernel(eth0=Nic())
    with pytest.raises(NetlinkError) as caught:
        of(kernel).set_app("eth0", App(1, 3, 35093))
    assert caught.value.errno == errno.EOPNOTSUPP
    with pytest.raises(NetlinkError) as caught:
        of(kernel).set_buffer("eth0", Buffer((0,) * 8, (9999999,) + (0,) * 7, 0))
    assert caught.value.errno == errno.EINVAL
    of(kernel).delete_app("eth0", App(5, 3, 26))  # one that is not there is gone already
    with pytest.raises(NetlinkError, match="keeps its DCBX mode"):
        of(kernel).set_dcbx("eth0", 0x0A)


def test_a_truncated_answer_has_no_structures() -> None:
    part = codec.attribute(dcb_netlink.IEEE_ETS, bytes(10)) + codec.attribute(dcb_netlink.IEEE_PFC, bytes(4))
    held = dcb_netlink.decode(dcb_netlink.MESSAGE.pack(0, 21) + codec.attribute(dcb_netlink.ATTR_IEEE, part))
    assert (held.ets, held.pfc, held.buffer) == (None, None, None)


def test_the_loopback_has_no_dcb() -> None:
    try:
        sock = DcbSocket()
        assert sock.read("lo") is None
        with pytest.raises(NetlinkError) as caught:
            sock.read("nothing0")
    except NetlinkError as error:
        pytest.skip("this kernel does not support DCB: %s" % error)
    assert caught.value.errno == errno.ENODEV
    sock.close()


def test_this_kernels_loopback_has_no_pause() -> None:
    assert ethtool.pauses(["lo", "nothing0"]) == {}
    with pytest.raises(OSError):
        ethtool.set_pause("lo", ethtool.Pause(False, False, False))


class Listener(DcbKernel):
    """Remembers the latest message as it was."""

    latest: tuple[int, str] = (0, "")

    def handle(self, kind: int, payload: bytes) -> tuple[bytes, int]:
        self.latest = (kind, payload.hex())
        return super().handle(kind, payload)


@pytest.mark.skipif(sys.byteorder != "little", reason="the recording is little endian")
def test_our_messages_are_those_of_dcb() -> None:
    nic = Nic()
    kernel = Listener(eth0=nic)
    sock = of(kernel)
    strict, ets = 0, 2

    def with_ets() -> None:
        held = sock.read("eth0")
        assert held is not None and held.ets
        tsa = (ets, strict, strict, ets, strict, strict, strict, strict)
        sock.set_ets("eth0", held.ets.with_values((0, 0, 0, 3, 0, 0, 6, 0), (40, 0, 0, 60, 0, 0, 0, 0), tsa))

    def with_pfc() -> None:
        held = sock.read("eth0")
        assert held is not None and held.pfc
        sock.set_pfc("eth0", held.pfc.with_values((0, 0, 0, 1, 0, 0, 0, 0), 100))

    ours: list[t.Callable[[], t.Any]] = [
        lambda: sock.read("eth0"),
        lambda: sock.set_buffer("eth0", Buffer((0, 0, 0, 1, 0, 0, 0, 0), (72000, 144000, 0, 0, 0, 0, 0, 0), 524160)),
        with_pfc,
        with_ets,
        lambda: sock.set_app("eth0", App(dcb_netlink.SELECTOR_DSCP, 3, 26)),
        lambda: sock.delete_app("eth0", App(dcb_netlink.SELECTOR_DSCP, 3, 26)),
        lambda: sock.set_dcbx("eth0", dcb_netlink.DCBX_HOST | dcb_netlink.DCBX_IEEE),
    ]
    recorded = json.loads((RECORDINGS / "dcb/iproute2-6.1.json").read_text())
    for row, act in zip(recorded, ours):
        act()
        assert kernel.latest == (row["type"], row["payload"]), row["command"]
    assert len(recorded) == len(ours)


# -- the same simulated kernel, seen by iproute2 -----------------------------------------------------------------------


class Tool:
    """iproute2's dcb, with the netlink of the simulated kernel."""

    def __init__(self, place: Path, kernel: DcbKernel) -> None:
        shim = place / "shim.so"
        source = Path(__file__).with_name("netlink_shim.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
        self._env = dict(os.environ, LD_PRELOAD=str(shim), NETLINK_STANDIN=str(place / "netlink"))
        self.server = Server(str(place / "netlink"), kernel)

    def __call__(self, *argv: str) -> t.Any:
        dcb_tool = shutil.which("dcb", path="/usr/sbin:/sbin:/usr/bin") or "dcb"
        done = subprocess.run(
            [dcb_tool, "-j", *argv], env=self._env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


@pytest.fixture
def world(tmp_path: Path) -> t.Iterator[tuple[Tool, DcbKernel, Nic]]:
    if not shutil.which("gcc") or not shutil.which("dcb", path="/usr/sbin:/sbin:/usr/bin"):
        pytest.skip("needs gcc and iproute2's dcb")
    nic = Nic()
    kernel = DcbKernel(eth0=nic)
    tool = Tool(tmp_path, kernel)
    yield tool, kernel, nic
    tool.server.close()


def test_the_program_dcb_shows_the_set_values(world: tuple[Tool, DcbKernel, Nic]) -> None:
    tool, kernel, nic = world
    sock = of(kernel)
    sock.set_buffer("eth0", Buffer((0, 0, 0, 1, 0, 0, 0, 0), (72000, 144000, 0, 0, 0, 0, 0, 0), 0))
    held = sock.read("eth0")
    assert held is not None and held.pfc and held.ets
    sock.set_pfc("eth0", held.pfc.with_values((0, 0, 0, 1, 0, 0, 0, 0), 100))
    sock.set_ets(
        "eth0", held.ets.with_values((0, 0, 0, 3, 0, 0, 6, 0), (40, 0, 0, 60, 0, 0, 0, 0), (2, 0, 0, 2, 0, 0, 0, 0))
    )
    for entry in (App(5, 3, 26), App(5, 6, 48)):
        sock.set_app("eth0", entry)
    pfc = tool("-s", "pfc", "show", "dev", "eth0")
    assert (pfc["pfc_cap"], pfc["delay"]) == (8, 100)
    assert pfc["prio_pfc"] == [False, False, False, True, False, False, False, False]
    assert pfc["requests"] == list(range(100, 108))  # the counters were left as they were read
    ets = tool("ets", "show", "dev", "eth0")
    assert ets["prio_tc"] == [0, 0, 0, 3, 0, 0, 6, 0]
    assert ets["tc_tsa"] == ["ets", "strict", "strict", "ets"] + ["strict"] * 4
    assert (ets["tc_bw"][0], ets["tc_bw"][3]) == (40, 60)
    buffer = tool("buffer", "show", "dev", "eth0")
    assert buffer["prio_buffer"] == [0, 0, 0, 1, 0, 0, 0, 0]
    assert (buffer["buffer_size"][:2], buffer["total_size"]) == ([72000, 144000], 524160)
    assert tool("-N", "app", "show", "dev", "eth0")["dscp_prio"] == [[26, 3], [48, 6]]


def test_values_set_by_the_program_dcb_are_read(world: tuple[Tool, DcbKernel, Nic]) -> None:
    tool, kernel, nic = world
    tool("buffer", "set", "dev", "eth0", "prio-buffer", "all:0", "3:1", "buffer-size", "all:0", "0:72000", "1:144000")
    tool("pfc", "set", "dev", "eth0", "prio-pfc", "all:off", "3:on", "delay", "100")
    words = "prio-tc all:0 3:3 6:6 tc-tsa all:strict 0:ets 3:ets tc-bw all:0 0:40 3:60"
    tool("ets", "set", "dev", "eth0", *words.split())
    tool("app", "add", "dev", "eth0", "dscp-prio", "26:3", "48:6")
    held = of(kernel).read("eth0")
    assert held is not None and held.pfc and held.ets and held.buffer
    assert (held.pfc.enabled, held.pfc.delay) == ((0, 0, 0, 1, 0, 0, 0, 0), 100)
    assert (held.buffer.prio_buffer[3], held.buffer.sizes[:2]) == (1, (72000, 144000))
    assert held.ets.prio_tc == (0, 0, 0, 3, 0, 0, 6, 0)
    assert held.ets.tsa == (2, 0, 0, 2, 0, 0, 0, 0)
    assert held.dscp2prio() == {26: 3, 48: 6}
    tool("app", "del", "dev", "eth0", "dscp-prio", "48:6")
    held = of(kernel).read("eth0")
    assert held is not None and held.dscp2prio() == {26: 3}


def test_dcbx_is_the_hosts(world: tuple[Tool, DcbKernel, Nic]) -> None:
    tool, kernel, nic = world
    nic.dcbx = 0x0C
    assert "host" not in tool("dcbx", "show", "dev", "eth0")
    of(kernel).set_dcbx("eth0", 0x0D)
    assert {"host", "cee", "ieee"} <= set(tool("dcbx", "show", "dev", "eth0"))
