# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of RDMA devices and netdevs, and the agent's metrics of them."""

from __future__ import annotations

import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_metrics
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import device_counters
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.device_counters import (
    DeviceCounters,
    Statistic,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, ethtool, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from tests.unit.node.agent_files import document, rail, slot


class Kernel:
    """The RDMA subsystem with one answer."""

    def __init__(self, answer: bytes | NetlinkError) -> None:
        self._answer = answer

    def request(self, kind: int, payload: bytes) -> list[bytes]:
        assert kind == rdma_netlink.message_type(rdma_netlink.CMD_STAT_GET)
        if isinstance(self._answer, NetlinkError):
            raise self._answer
        return [self._answer]


def entry(name: str, value: int) -> bytes:
    inner = codec.string(82, name) + codec.attribute(83, struct.pack("=Q", value))
    return codec.attribute(81, inner)


def test_hardware_counters_are_read_by_name() -> None:
    answer = codec.u32(rdma_netlink.ATTR_DEV_INDEX, 3) + codec.attribute(
        80, entry("out_of_sequence", 7) + entry("np_cnp_sent", 2**40)
    )
    kernel = t.cast(codec.NetlinkSocket, Kernel(answer))
    assert rdma_netlink.hardware_counters(kernel, 3, 1) == {"out_of_sequence": 7, "np_cnp_sent": 2**40}


def test_a_kernel_without_hardware_counters_has_none() -> None:
    kernel = t.cast(codec.NetlinkSocket, Kernel(NetlinkError(22, "Invalid argument", "RDMA subsystem")))
    assert rdma_netlink.hardware_counters(kernel, 3, 1) == {}


def strings(*names: str) -> bytes:
    head = struct.pack("=III", ethtool.ETHTOOL_GSTRINGS, ethtool.ETH_SS_STATS, len(names))
    return head + b"".join(name.encode().ljust(32, b"\0") for name in names)


def test_statistics_are_paired_with_their_names() -> None:
    numbers = struct.pack("=II2Q", ethtool.ETHTOOL_GSTATS, 2, 5, 2**63)
    assert ethtool.statistics_rows(strings("rx_packets", "tx_prio3_pause"), numbers) == {
        "rx_packets": 5,
        "tx_prio3_pause": 2**63,
    }


def test_statistics_that_changed_between_the_two_answers_are_not_used() -> None:
    assert ethtool.statistics_rows(strings("a", "b"), struct.pack("=II3Q", ethtool.ETHTOOL_GSTATS, 3, 1, 2, 3)) == {}


def test_statistics_of_flow_control_have_a_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    def statistics(netdevs: t.Iterable[str], wanted: t.Callable[[str], bool]) -> dict[str, dict[str, int]]:
        of_mlx5 = {"rx_vport_rdma_unicast_bytes": 9, "rx_prio3_pause": 4, "rx_prio3_bytes": 1, "tx_pause_ctrl_phy": 1}
        return {netdev: {name: value for name, value in of_mlx5.items() if wanted(name)} for netdev in netdevs}

    monkeypatch.setattr(ethtool, "statistics", statistics)
    assert device_counters.netdev_statistics(["rail1"]) == {
        "rail1": [Statistic("rx_vport_rdma_unicast_bytes", None, 9), Statistic("rx_pause", "3", 4)]
    }


def test_counters_of_ports_and_pods_have_names_of_spiderpool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def rdma_ports(_system: System, files: bool = False) -> list[DeviceCounters]:
        rows = (("mlx5_1", "rail1", 1), ("mlx5_9", None, 2), ("mlx5_0", "storage", 3))
        return [DeviceCounters(name, netdev, "guid", "image", {"np_cnp_sent": n}) for name, netdev, n in rows]

    monkeypatch.setattr(device_counters, "rdma_ports", rdma_ports)
    monkeypatch.setattr(
        device_counters, "netdev_statistics", lambda _netdevs: {"rail1": [Statistic("rx_pause", "3", 4)]}
    )
    row = {"rail": "gpu01", "interface": "net1", "rdma": "mlx5_9"}
    holder = Holder("gpu01-0", "uid", "worker", "jobs", "main", "sandbox", 1, 1, "attached", 0.0, (row,))
    out = Exposition()
    spec = parse_spec(document(rail(1, slots=[slot(1, 0, "gpu01")])))
    agent_metrics.add_rdma(out, System(str(tmp_path)), spec, [holder])
    samples = [line for line in out.text().splitlines() if not line.startswith("#")]
    port = 'node_name="node-1",ifname="%s",node_guid="guid",sys_image_guid="image",rail="gpu01"'
    assert samples == [
        'rdma_np_cnp_sent_total{%s,net_dev_name="rail1",is_root="true"} 1' % (port % "mlx5_1"),
        'rdma_np_cnp_sent_total{%s,net_dev_name="net1",is_root="false",pod_namespace="jobs",pod_name="worker"} 2'
        % (port % "mlx5_9"),
        'rdma_rx_pause_total{node_name="node-1",rail="gpu01",net_dev_name="rail1",is_root="true",priority="3"} 4',
    ]
