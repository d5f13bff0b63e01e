# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import (
    group_turns,
    perftest_servers,
    probe_channel,
    probe_runs,
    probe_unit,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import (
    perftest as programs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import rail_probe as probe
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.echo_requests import (
    checksum,
    echo_request,
    payload_size,
    reach,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.perftest_servers import Servers
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from tests.playbook import ROOT
from tests.unit.node.trees import Tree
from tests.waiting import wait_for

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a raw socket needs root")

RECORDINGS = Path(__file__).parent.parent.parent / "recordings/perftest"
TABLE = (RECORDINGS / "ib_write_bw-6.06.txt").read_text()


def target(**other: t.Any) -> dict[str, t.Any]:
    base = {"rail": "gpu01", "peer": "node-2", "netdev": "lo", "device": "rxe0", "source": "127.0.0.1"}
    base.update({"address": "127.0.0.2", "mtu": 4200})
    return dict(base, **other)


def server_of(*rows: dict[str, t.Any]) -> t.Callable[[t.Sequence[str]], list[dict[str, t.Any]]]:
    """What a partner answers: a server for each target with a port, as its prober starts them."""
    known = {row["rail"]: {"error": "", "remedy": "", "gpu": False, **row} for row in rows}
    return lambda rails: [known[rail] for rail in rails if rail in known]


def probed(asked: dict[str, t.Any], system: System) -> list[dict[str, t.Any]]:
    """Probe targets whose partner has the servers that they name."""
    keys = ("rail", "port", "latency_port", "meet", "error", "remedy")
    rows = [{key: each[key] for key in keys if key in each} for each in asked["targets"]]
    return probe.probe(asked, system, server_of(*rows))


def options(**other: t.Any) -> dict[str, t.Any]:
    return dict(
        {"count": 2, "timeout": 1.0, "size": 4096, "iterations": 5, "lifetime": 5, "ports": [], "targets": []}, **other
    )


def rdma_device(
    root: Path, name: str, gids: dict[int, tuple[str, str]], link_layer: str = "Ethernet", number: int = 1
) -> None:
    port = root / "sys/class/infiniband" / name / ("ports/%d" % number)
    (port / "gids").mkdir(parents=True)
    (port / "gid_attrs/types").mkdir(parents=True)
    (port / "link_layer").write_text(link_layer + "\n")
    for index, (gid, kind) in gids.items():
        (port / "gids" / str(index)).write_text(gid + "\n")
        (port / "gid_attrs/types" / str(index)).write_text(kind + "\n")


LINK_LOCAL = "fe80:0000:0000:0000:5054:00ff:fe00:0101"
MAPPED = "0000:0000:0000:0000:0000:ffff:ac10:0bc9"  # 172.16.11.201


def test_a_packet_is_exactly_as_large_as_the_mtu() -> None:
    packet = echo_request(1, 1, payload_size(4200))
    assert len(packet) + 20 == 4200
    assert checksum(packet) == 0
    assert checksum(b"\x45\x00\x01") != 0


@needs_root
def test_full_packets_are_answered_and_too_large_ones_reported() -> None:
    good, large = reach([target(), target(mtu=66000)], 2, 1.0)
    assert (good["sent"], good["received"], good["error"]) == (2, 2, "")
    assert good["rtt_ms"] > 0
    assert (large["received"], large["error"]) == (0, "Message too long")


@needs_root
def test_a_missing_local_address_is_reported_and_other_rails_are_probed() -> None:
    away, here = reach([target(source="192.0.2.1"), target()], 1, 0.3)
    assert (away["sent"], away["received"]) == (1, 0)
    assert away["error"] == "no socket from 192.0.2.1 on lo: Cannot assign requested address"
    assert (here["received"], here["error"]) == (1, "")


def test_the_gid_is_the_roce_v2_entry_of_the_address(tmp_path: Path) -> None:
    rdma_device(tmp_path, "rxe0", {0: (LINK_LOCAL, "RoCE v2"), 10: (MAPPED, "RoCE v2"), 9: (MAPPED, "IB/RoCE v1")})
    system = System(str(tmp_path))
    assert programs.gid_place(system, "rxe0", "172.16.11.201") == (1, 10)
    assert programs.gid_place(system, "rxe0", "172.16.11.202") is None
    assert programs.gid_place(system, "rxe0", "fe80::5054:ff:fe00:101") == (1, 0)
    assert programs.device_with_address(system, "172.16.11.201") == "rxe0"
    assert programs.device_with_address(system, "172.16.11.9") is None


def test_bandwidth_is_read_from_table_or_json_only() -> None:
    assert probe.bandwidth(TABLE) == 0.032069
    assert probe.bandwidth((RECORDINGS / "ib_write_bw-6.06.json").read_text()) == 0.017983
    assert probe.bandwidth('{"results": {"MsgSize": 65536, "BW_average": 96.5,},}') == 96.5
    # a busy node's rate may be rounded to nothing, and the transfer still went well
    zero = " 65536      5                0.00               0.00               0.000000\n"
    assert probe.bandwidth(zero) == probe.bandwidth('{"results": {"BW_average": 0.00,},}') == 0.0
    assert probe.bandwidth('{"results": {}}') is None
    assert probe.bandwidth("{ not json") is None
    assert probe.bandwidth("Couldn't connect to 172.16.11.201:18515\n") is None
    assert probe.bandwidth(None) is None


class Perftest:
    """What a run of ib_write_bw was asked, with an answer that the test chooses."""

    def __init__(self, result: CommandResult, help_text: str = "") -> None:
        self.result, self.help_text, self.asked = result, help_text, [""]

    def __call__(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        if "--help" in argv:
            return CommandResult(0, self.help_text, "")
        self.asked = list(argv)
        for argument in argv:
            if argument.startswith("--out_json_file="):
                Path(argument.partition("=")[2]).write_text('{"results": {"BW_average": 12.25}}')
        return self.result


def test_each_plane_is_tested_through_its_own_port_of_a_shared_device(tmp_path: Path) -> None:
    rdma_device(tmp_path, "mlx5_0", {0: (LINK_LOCAL, "RoCE v2")})
    rdma_device(tmp_path, "mlx5_0", {3: (MAPPED, "RoCE v2")}, number=3)
    system = System(str(tmp_path))

    def arguments(number: int | None = None, device: str | None = "mlx5_0") -> list[str]:
        port = {"rail": "gpu01", "device": device, "rdma_port": number}
        return programs.device_arguments(system, port, "172.16.11.201")[:6]

    expected = ["-d", "mlx5_0", "-i", "3", "-x", "3"]
    assert arguments(3) == arguments() == arguments(device=None) == expected
    with pytest.raises(RailyardError, match="port 1 of mlx5_0 has no RoCE v2 GID for .*; its port 3 has it"):
        arguments(1)
    with pytest.raises(RailyardError, match="mlx5_0 has no port 2; its ports are: 1, 3"):
        arguments(2)


@pytest.mark.parametrize(
    ("device", "netdev"), [("mlx5_0", "ens1.100"), ("mlx5_bond_0", "bond0"), ("mlx5_1", "bond1.7")]
)
def test_the_gid_of_a_vlan_or_bond_is_in_the_table_of_the_device_below(
    tmp_path: Path, device: str, netdev: str
) -> None:
    rdma_device(tmp_path, "mlx5_9", {0: (LINK_LOCAL, "RoCE v2")})
    rdma_device(tmp_path, device, {1: (LINK_LOCAL, "RoCE v2"), 4: (MAPPED, "IB/RoCE v1"), 5: (MAPPED, "RoCE v2")})
    for planned in (device, None):
        port = {"rail": "stor1", "device": planned, "netdev": netdev, "pci": None}
        found = programs.device_arguments(System(str(tmp_path)), port, "172.16.11.201")
        assert found[:4] == ["-d", device, "-x", "5"]


@pytest.fixture
def perftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., tuple[Perftest, System]]:
    def make(result: CommandResult, help_text: str = "") -> tuple[Perftest, System]:
        monkeypatch.setattr(System, "which", lambda _self, program: "/usr/bin/" + program)
        rdma_device(tmp_path, "rxe0", {1: (MAPPED, "RoCE v2")})
        runner = Perftest(result, help_text)
        return runner, System(str(tmp_path), runner)

    return make


def test_a_transfer_uses_the_rails_device_and_gid(perftest: t.Callable[..., tuple[Perftest, System]]) -> None:
    runner, system = perftest(CommandResult(0, TABLE, ""))
    result = probe.transfer(target(source="172.16.11.201", address="172.16.11.202", port=40000), options(), system)
    assert (result["gbits"], result["gid_index"], result["error"]) == (0.032069, 1, "")
    assert runner.asked[:7] == ["/usr/bin/ib_write_bw", "-d", "rxe0", "-x", "1", "-u", "17"]
    assert runner.asked[-1] == "172.16.11.202"


def test_the_transfers_of_a_group_last_for_a_time_in_the_planned_traffic_class(
    perftest: t.Callable[..., tuple[Perftest, System]],
) -> None:
    asked = group_turns.group_options(options(group_seconds=6, latency=True))
    given = target(source="172.16.11.201", address="172.16.11.202", port=40000, tclass=106)
    runner, system = perftest(CommandResult(0, TABLE, ""), "      --tclass=<value>  Set the Traffic Class in GRH\n")
    assert probe.transfer(given, asked, system)["error"] == ""
    assert {"-D", "6", "--tclass=106"} <= set(runner.asked) and "-n" not in runner.asked
    # an older program does not have the option
    older = Perftest(CommandResult(0, TABLE, ""), "")
    assert probe.transfer(given, asked, System(str(system.root), older))["error"] == ""
    assert "-D" in older.asked and "--tclass=106" not in older.asked


def test_the_tail_of_latencies_is_read_if_its_columns_are_separate() -> None:
    table = (RECORDINGS / "ib_write_lat-connectx7.txt").read_text()
    assert (probe.latency(table), probe.latency_tail(table)) == (1.47, {"p99_us": 1.57, "max_us": 1.93})
    # the deviation and the percentile have no space between them
    assert probe.latency_tail((RECORDINGS / "ib_send_lat-rxe.txt").read_text()) == {}
    assert probe.latency_tail("") == {}


def test_counters_of_a_group_are_increases_and_those_of_congestion_are_kept_without_one(tmp_path: Path) -> None:
    system, watched = System(str(tmp_path)), {"gpu01": {"netdevs": ["ens1"], "devices": ["mlx5_0"]}}
    place = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/hw_counters"
    place.mkdir(parents=True)

    def look(**values: int) -> dict[str, int]:
        for name, value in values.items():
            (place / name).write_text("%d\n" % value)
        return group_turns.read(system, {"watched": watched}, "gpu01")

    before = look(np_cnp_sent=7, packet_seq_err=5, out_of_sequence=9, rx_write_requests=1)
    after = look(np_cnp_sent=7, packet_seq_err=9, out_of_sequence=9, rx_write_requests=9)
    assert group_turns.increases(before, after) == {"np_cnp_sent": 0, "packet_seq_err": 4}
    # a rail that is not watched has no counters
    assert group_turns.read(system, {"watched": watched}, "gpu02") == group_turns.read(system, {}, "gpu01") == {}


def test_a_rate_that_is_rounded_to_zero_is_a_result(perftest: t.Callable[..., tuple[Perftest, System]]) -> None:
    _runner, system = perftest(CommandResult(0, TABLE.replace("0.032069", "0.00"), ""))
    result = probe.transfer(target(source="172.16.11.201", address="172.16.11.202", port=40000), options(), system)
    assert (result["gbits"], result["error"]) == (0.0, "")


def test_json_output_is_used_if_the_tool_has_it(perftest: t.Callable[..., tuple[Perftest, System]]) -> None:
    _runner, system = perftest(CommandResult(0, "", ""), "      --out_json   Creates a report in a json file\n")
    # the report is written and read at the path that the tool was given, outside the test's root
    result = probe.transfer(target(source="172.16.11.201", port=1), options(), System("/", _runner))
    assert result["gbits"] is None  # no such device on this machine: an error, not a number
    system.path = lambda path: path if path.startswith("/tmp") else str(system.root) + path  # type: ignore[method-assign]
    assert probe.transfer(target(source="172.16.11.201", port=1), options(), system)["gbits"] == 12.25


def test_transfer_without_calibrated_clock_is_unmeasured_without_error(
    perftest: t.Callable[..., tuple[Perftest, System]],
) -> None:
    """As seen on a busy node of the lab with perftest 6.06."""
    message = "Correlation coefficient r^2: 0.877423 < 0.9\n"
    given = target(source="172.16.11.201", address="172.16.11.202", port=40000, latency_port=40001)
    _runner, system = perftest(CommandResult(0, TABLE.replace("0.032069", "inf"), message))
    result = probe.transfer(given, options(), system)
    assert (result["gbits"], result["latency_us"], result["error"]) == (None, None, "")
    assert "processor clock" in result["unmeasured"]
    # the same message of a transfer that failed
    failed = probe.transfer(given, options(), System(str(system.root), Perftest(CommandResult(1, "", message), "")))
    assert failed["error"] and not failed["unmeasured"]


def test_the_error_contains_the_message_of_perftest(perftest: t.Callable[..., tuple[Perftest, System]]) -> None:
    _runner, system = perftest(CommandResult(1, "", "----\nCouldn't connect to 172.16.11.202:40000\n"))
    result = probe.transfer(target(source="172.16.11.201", port=40000), options(), system)
    assert result["gbits"] is None
    assert result["error"] == "ib_write_bw ended with 1: Couldn't connect to 172.16.11.202:40000"
    assert "ib_write_bw -d rxe0 -x 1" in result["remedy"]


def test_a_missing_device_or_gid_is_named(perftest: t.Callable[..., tuple[Perftest, System]]) -> None:
    _runner, system = perftest(CommandResult(0, TABLE, ""))
    gone = probe.transfer(target(device="mlx5_9", source="172.16.11.201"), options(), system)
    assert gone["error"] == "there is no RDMA device mlx5_9"
    bare = probe.transfer(target(source="172.16.11.7"), options(), system)
    assert bare["error"] == "rxe0 has no RoCE v2 GID for 172.16.11.7"


@needs_root
def test_rdma_is_not_probed_on_an_unreachable_rail(
    perftest: t.Callable[..., tuple[Perftest, System]],
) -> None:
    runner, system = perftest(CommandResult(0, TABLE, ""))
    asked = options(targets=[target(address="192.0.2.77"), target(error="it has no link", remedy="fix it")])
    dark, unserved = probed(asked, system)
    assert not dark["ok"]
    assert dark["error"].startswith("0 of 2 packets of 4200 bytes came back")
    assert dark["transfer"] is None
    assert runner.asked == [""]
    assert (unserved["ok"], unserved["error"]) == (False, "the other side has no server: it has no link")


def test_only_the_recorded_process_is_ended(tmp_path: Path) -> None:
    system = System()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    own, other = (subprocess.Popen(command, start_new_session=True) for _ in range(2))
    places = [tmp_path / name for name in ("own", "other")]
    try:
        for place, pid, ticks in (
            (places[0], own.pid, network_namespaces.started(system, own.pid)),
            # an earlier process of the same number
            (places[1], other.pid, "1"),
        ):
            place.mkdir()
            row = {"run": "a", "began": 0.0, "pid": pid, "ticks": ticks}
            (place / "process.json").write_text(json.dumps(row))
            recorded = probe_runs.prober(system, str(place))
            assert recorded
            recorded.end(system)
        assert own.wait(timeout=120) < 0
        assert other.poll() is None
        assert os.listdir(tmp_path) == []
    finally:
        own.kill()
        other.kill()
        own.wait()
        other.wait()


def test_a_listening_port_is_reported() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert sock.getsockname()[1] not in perftest_servers.listening(System())
        sock.listen()
        assert sock.getsockname()[1] in perftest_servers.listening(System())


SIX = {"source6": "::1", "address6": "::1"}


@needs_root
def test_full_packets_over_ipv6_are_answered_without_fragmentation() -> None:
    six = target(source="::1", address="::1")
    good, large, dark = reach([six, dict(six, mtu=66000), target(source="::1", address="2001:db8::9")], 2, 1.0)
    assert (good["sent"], good["received"], good["error"]) == (2, 2, "")
    assert (large["received"], large["error"]) == (0, "Message too long")
    assert dark["received"] == 0


@needs_root
def test_ipv6_is_reported_beside_ipv4_and_alone_makes_a_rail_red(
    perftest: t.Callable[..., tuple[Perftest, System]],
) -> None:
    _runner, system = perftest(CommandResult(0, TABLE, ""))
    given = target(port=1, source="127.0.0.1", device="rxe0")
    specs = [dict(given, **SIX), dict(given, peer="b", source6="::1", address6="2001:db8::9"), dict(given, peer="c")]
    both, dark, unasked = probed(options(targets=specs), system)
    assert (both["reach6"]["received"], unasked["reach6"]) == (2, None)
    assert dark["reach"]["received"] == 2 and dark["reach6"]["received"] == 0 and not dark["ok"]
    # the transfer's own error comes first: here is no GID for the address
    assert "GID" in both["error"] and "GID" in dark["error"]


CUDA = "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA\n      --use_cuda_dmabuf Use CUDA DMA-BUF\n"


@pytest.mark.parametrize(
    ("help_text", "peermem", "asked"),
    [
        ("", False, []),
        (CUDA, False, ["--use_cuda_bus_id=0000:1b:00.0", "--use_cuda_dmabuf"]),
        (CUDA, True, ["--use_cuda_bus_id=0000:1b:00.0"]),
        (CUDA.splitlines()[0], False, ["--use_cuda_bus_id=0000:1b:00.0"]),
    ],
)
def test_gpu_memory_is_used_if_the_program_supports_it(
    perftest: t.Callable[..., tuple[Perftest, System]], tmp_path: Path, help_text: str, peermem: bool, asked: list[str]
) -> None:
    runner, system = perftest(CommandResult(0, TABLE, ""), help_text)
    if peermem:
        (tmp_path / "sys/module/nvidia_peermem").mkdir(parents=True)
    spec = target(source="172.16.11.201", address="172.16.11.202", port=40000)
    result = probe.transfer(dict(spec, gpu="0000:1b:00.0"), options(), system)
    assert (result["gpu"], result["error"]) == (bool(asked), "")
    assert [each for each in runner.asked if "cuda" in each] == asked
    # not requested
    assert probe.transfer(spec, options(), system)["gpu"] is False and not any("cuda" in each for each in runner.asked)


WHOLE = [(0x0D00, 0), (0x2600, 0)]
ROCM = "      --use_rocm=<rocm device id> Use ROCm\n      --use_rocm_dmabuf Use ROCm DMA-BUF\n"


@pytest.mark.parametrize(
    ("help_text", "nodes", "peer_memory", "asked"),
    [
        # a program for GPUs of NVIDIA does not read memory of AMD's
        (CUDA, WHOLE, False, []),
        (ROCM, WHOLE, False, ["--use_rocm=1", "--use_rocm_dmabuf"]),
        (CUDA + ROCM, WHOLE, True, ["--use_rocm=1"]),
        (ROCM.splitlines()[0], WHOLE, False, ["--use_rocm=1"]),
        # of the two partitions of each GPU, the first has the number of the GPU
        (ROCM, [(0x0D00, 0), (0x0D00, 1), (0x2600, 0), (0x2600, 1)], True, ["--use_rocm=2"]),
        # ROCm has no GPU without amdkfd
        (ROCM, [], False, []),
    ],
)
@pytest.mark.parametrize("shift", [28, 0])
def test_memory_of_amds_gpus_is_used_by_the_number_of_the_gpu(
    perftest: t.Callable[..., tuple[Perftest, System]],
    tmp_path: Path,
    help_text: str,
    nodes: list[tuple[int, int]],
    peer_memory: bool,
    asked: list[str],
    shift: int,
) -> None:
    """``nodes``: location and partition of each node of amdkfd. ``shift``: of the partition, in the location."""
    runner, system = perftest(CommandResult(0, TABLE, ""), help_text)
    tree = Tree(tmp_path)
    for bus in ("0d", "26"):
        tree.function("pci0000:00/0000:00:01.0/0000:%s:00.0" % bus, "0x120000", "1002", "75a3")
    for number, (location, partition) in enumerate(nodes, 1):
        text = "simd_count 304\nlocation_id %d\ndomain 0\n" % (location | partition << shift)
        tree.write("/sys/class/kfd/kfd/topology/nodes/%d/properties" % number, text)
    if peer_memory:
        tree.write("/sys/kernel/memory_peers/amdkfd/version", "1.0")
    spec = target(source="172.16.11.201", address="172.16.11.202", port=40000)
    result = probe.transfer(dict(spec, gpu="0000:26:00.0"), options(), system)
    assert (result["gpu"], result["error"]) == (bool(asked), "")
    assert [each for each in runner.asked if "cuda" in each or "rocm" in each] == asked


# -- rails without addresses -------------------------------------------------------------------------------------------

MET = "10.2.1.1"
# What perftest 24.01 lists of itself, as far as it is asked for.
NEWER = "      --bind_source_ip Source IP\n      --ipv6-addr (SYMMETRIC)\n"


def bare_target(**other: t.Any) -> dict[str, t.Any]:
    spec: dict[str, t.Any] = {"rail": "gpu01", "peer": "node-1", "device": None, "pci": "0000:18:00.0", "mtu": 4092}
    return dict(spec, port=40000, meet=MET, error="", remedy="", **other)


@pytest.fixture
def infiniband(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., tuple[Perftest, System]]:
    def make(result: CommandResult, help_text: str = "") -> tuple[Perftest, System]:
        monkeypatch.setattr(System, "which", lambda _self, program: "/usr/bin/" + program)
        rdma_device(tmp_path, "mlx5_0", {0: (LINK_LOCAL, "IB/RoCE v1")}, "InfiniBand")
        (tmp_path / "sys/bus/pci/devices/0000:18:00.0/infiniband/mlx5_0").mkdir(parents=True)
        runner = Perftest(result, help_text)
        return runner, System(str(tmp_path), runner)

    return make


def test_infiniband_transfers_use_lids_and_meet_over_the_management_network(
    infiniband: t.Callable[..., tuple[Perftest, System]],
) -> None:
    runner, system = infiniband(CommandResult(0, TABLE, ""), NEWER)
    (result,) = probed(options(targets=[bare_target()]), system)
    assert (result["ok"], result["reach"], result["reach6"], result["found"]) == (True, None, None, None)
    assert result["transfer"]["gbits"] == 0.032069 and result["transfer"]["gid_index"] is None
    # the device found by its PCI function, no GID, and the management address at the end alone
    assert runner.asked[:3] == ["/usr/bin/ib_write_bw", "-d", "mlx5_0"]
    assert "-x" not in runner.asked and "-i" not in runner.asked and "--bind_source_ip" not in runner.asked
    assert runner.asked[-1] == MET and runner.asked[runner.asked.index("-p") + 1] == "40000"


def test_ipoib_names_the_port_of_a_device(infiniband: t.Callable[..., tuple[Perftest, System]], tmp_path: Path) -> None:
    runner, system = infiniband(CommandResult(0, TABLE, ""))
    second = tmp_path / "sys/class/infiniband/mlx5_0/ports/2"
    second.mkdir()
    (second / "link_layer").write_text("InfiniBand\n")
    (tmp_path / "sys/class/net/ib1").mkdir(parents=True)
    (tmp_path / "sys/class/net/ib1/dev_port").write_text("1\n")
    probed(options(targets=[bare_target(netdev="ib1")]), system)
    assert runner.asked[1:5] == ["-d", "mlx5_0", "-i", "2"]


def test_the_device_of_an_address_over_infiniband_is_that_of_the_port(
    infiniband: t.Callable[..., tuple[Perftest, System]], tmp_path: Path
) -> None:
    runner, system = infiniband(CommandResult(0, TABLE, ""))
    spec = target(device=None, netdev="ibs1", source="172.16.11.201", address="172.16.11.202", port=40000)
    place = tmp_path / "sys/class/net/ibs1/device/infiniband/mlx5_0"
    place.mkdir(parents=True)
    result = probe.transfer(spec, options(), system)
    assert result["error"] == "" and runner.asked[:3] == ["/usr/bin/ib_write_bw", "-d", "mlx5_0"]
    assert "-x" not in runner.asked and runner.asked[-1] == "172.16.11.202"


def test_a_management_address_of_ipv6_needs_a_perftest_that_knows_it(
    infiniband: t.Callable[..., tuple[Perftest, System]],
) -> None:
    runner, system = infiniband(CommandResult(0, TABLE, ""))
    (old,) = probed(options(targets=[dict(bare_target(), meet="2001:db8::1")]), system)
    assert "supports only IPv4" in old["error"] and "23.10" in old["remedy"] and runner.asked == [""]
    runner.help_text = NEWER
    (new,) = probed(options(targets=[dict(bare_target(), meet="2001:db8::1")]), System(system.root, runner.__call__))
    assert new["ok"] and "--ipv6-addr" in runner.asked and runner.asked[-1] == "2001:db8::1"


@pytest.mark.parametrize(
    "done",
    [
        CommandResult(1, "", "Couldn't connect to 10.2.1.1:40000\n Unable to open file descriptor\n"),
        CommandResult(124, "", "ib_write_bw: no answer within 5 s"),
    ],
)
def test_an_unreachable_server_does_not_fail_the_rail_and_is_tried_once(
    infiniband: t.Callable[..., tuple[Perftest, System]], done: CommandResult
) -> None:
    runner, system = infiniband(done)
    calls: list[list[str]] = []
    asked = runner.__call__

    def counted(argv: t.Sequence[str], timeout: float) -> CommandResult:
        calls.append(list(argv))
        return asked(argv, timeout)

    found = probed(options(targets=[bare_target(), dict(bare_target(), rail="gpu02")]), System(system.root, counted))
    assert [each["ok"] for each in found] == [False, False]
    assert "node-1 could not be met at 10.2.1.1, TCP port 40000" in found[0]["error"]
    assert found[1]["error"] == found[0]["error"] and "firewalls" in found[0]["remedy"]
    # the second rail does not wait for the same once more, and the program's options are read once
    assert ["--help" in argv for argv in calls] == [True, False]


def test_an_rdma_failure_after_the_rendezvous_is_a_rail_failure(
    infiniband: t.Callable[..., tuple[Perftest, System]],
) -> None:
    message = "Completion with error at client\nFailed status 12: wr_id 0 syndrom 0x81\n"
    runner, system = infiniband(CommandResult(1, "", message))
    first, second = probed(options(targets=[bare_target(), dict(bare_target(), rail="gpu02")]), system)
    assert first["error"] == second["error"] == "ib_write_bw ended with 1: Completion with error at client"
    assert runner.asked[-1] == MET


def test_missing_programs_and_devices_are_named(
    infiniband: t.Callable[..., tuple[Perftest, System]], tmp_path: Path
) -> None:
    _runner, system = infiniband(CommandResult(0, TABLE, ""))
    (gone,) = probed(options(targets=[dict(bare_target(), pci="0000:99:00.0")]), system)
    assert gone["error"] == "there is no RDMA device of the port"
    rdma_device(tmp_path, "rxe0", {1: (MAPPED, "RoCE v2")})
    (ethernet,) = probed(options(targets=[dict(bare_target(), device="rxe0")]), system)
    assert "GIDs are made from addresses" in ethernet["error"]
    unserved = dict(bare_target(), port=None, meet=None, error="it has no link", remedy="fix it")
    (result,) = probed(options(targets=[unserved]), system)
    assert result["error"] == "the other side has no server: it has no link"


SIMULATED = """#!{python}
import socket, sys
if "--help" in sys.argv:
    print(open({help!r}).read())
    raise SystemExit
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
at = sys.argv[sys.argv.index("--bind_source_ip") + 1] if "--bind_source_ip" in sys.argv else "0.0.0.0"
with socket.create_server((at, int(sys.argv[sys.argv.index("-p") + 1]))) as server:
    client = server.accept()[0]
client.recv(1)
"""


class Node(System):
    """The machine itself, except its RDMA devices and the files of runs."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        self.started: list[Servers] = []

    def path(self, path: str) -> str:
        own = ("/sys/class/infiniband", "/sys/bus/pci/devices", probe_runs.RUNS_DIR)
        return str(self.place / path.lstrip("/")) if path.startswith(own) else path

    def which(self, program: str) -> str | None:
        return str(self.place / program)

    def serve(self, *ports: dict[str, t.Any], run: str = "a run", until: float = 3600, **other: t.Any) -> list[t.Any]:
        """Start servers as the prober of a run does."""
        self.started.append(Servers(options(run=run, **other), self, time.monotonic() + until))
        return self.started[-1].start(ports)


@pytest.fixture
def server(tmp_path: Path) -> t.Iterator[Node]:
    """A node with InfiniBand, and a fake perftest that listens where it is configured to."""
    for program in (programs.PROGRAM, programs.LATENCY):
        text = SIMULATED.format(python=sys.executable, help=str(tmp_path / "help"), log=str(tmp_path / "log"))
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
    (tmp_path / "help").write_text(NEWER)
    rdma_device(tmp_path, "mlx5_0", {}, "InfiniBand")
    rdma_device(tmp_path, "rxe0", {1: (MAPPED, "RoCE v2")})
    (tmp_path / "sys/bus/pci/devices/0000:18:00.0/infiniband/mlx5_0").mkdir(parents=True)
    node = Node(tmp_path)
    yield node
    for each in node.started:
        each.stop()


PORT = {"rail": "gpu01", "device": None, "address": None, "pci": "0000:18:00.0", "netdev": "ibrail01", "gpu": None}
ROCE = dict(PORT, device="rxe0", address="172.16.11.201", pci=None, netdev=None)


def test_a_server_listens_only_at_the_management_address_and_reports_it(server: Node, tmp_path: Path) -> None:
    (result,) = server.serve({**PORT, "meet": "127.0.0.9"}, latency=True)
    assert (result["meet"], result["error"]) == ("127.0.0.9", "")
    started = (tmp_path / "log").read_text().splitlines()
    assert len(started) == 2
    for line, port in zip(sorted(started), sorted((result["port"], result["latency_port"]))):
        assert "-d mlx5_0 -u 17 --bind_source_ip 127.0.0.9" in line and "-x" not in line
        with socket.create_connection(("127.0.0.9", port), timeout=60), pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def test_an_older_server_gets_only_known_options(server: Node, tmp_path: Path) -> None:
    (tmp_path / "help").write_text("  -d, --ib-dev=<dev>\n")
    (result,) = server.serve({**PORT, "meet": "127.0.0.9"})
    assert result["port"] and "--bind_source_ip" not in (tmp_path / "log").read_text()


def test_an_infiniband_server_is_found_by_address_without_a_name(server: Node, tmp_path: Path) -> None:
    (result,) = server.serve({**PORT, "address": "127.0.0.1"})
    assert result["error"] == "" and result["meet"] is None
    assert (tmp_path / "log").read_text().startswith("-d mlx5_0 ")


def test_ports_with_addresses_are_the_default_rendezvous(server: Node, tmp_path: Path) -> None:
    (result,) = server.serve(ROCE)
    assert (result["meet"], "--bind_source_ip" in (tmp_path / "log").read_text()) == (None, False)
    (result,) = server.serve({**ROCE, "meet": "127.0.0.9"})
    assert result["meet"] == "127.0.0.9"
    # the traffic keeps to the rail's GID
    assert "-d rxe0 -x 1 -u 17 --bind_source_ip 127.0.0.9" in (tmp_path / "log").read_text()


def free_ports(count: int) -> int:
    """The first of so many free TCP ports in a row. The kernel and labs choose higher ones."""
    for first in range(10000 + os.getpid() * 16 % 11000, 22000, count):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for number in range(first, first + count):
                held.enter_context(socket.create_server(("", number)))
            return first
    raise AssertionError("too few TCP ports are free")


def test_a_server_that_ends_at_once_is_reported(server: Node, tmp_path: Path) -> None:
    (tmp_path / programs.PROGRAM).write_text("#!/bin/sh\nexit 1\n")
    (result,) = server.serve({**PORT, "address": "127.0.0.1"})
    assert (result["port"], result["error"]) == (None, "ib_write_bw did not start to listen")


def test_servers_listen_on_the_ports_that_a_firewall_allows(server: Node) -> None:
    first = free_ports(9)
    with socket.create_server(("127.0.0.1", first)):
        spec = "%d-%d" % (first, first + 8)
        served = server.serve(ROCE, dict(ROCE, rail="gpu02"), latency=True, tcp_ports=spec)
        held = [each[key] for each in served for key in ("port", "latency_port")]
        assert len(set(held)) == 4 and all(first < each <= first + 8 for each in held)
        with pytest.raises(RailyardError, match="0 of the TCP ports %d-%d are free, and 1 are needed" % (first, first)):
            server.serve(ROCE, tcp_ports="%d-%d" % (first, first))
    for wrong in ("18515", "20-30", "18530-18515", "18515-70000", "a-b"):
        with pytest.raises(RailyardError, match="is not a range of TCP ports"):
            server.serve(ROCE, tcp_ports=wrong)
    assert len(set(perftest_servers.free_ports(None, 16))) == 16


def test_a_server_waits_longer_than_hanging_earlier_transfers_and_not_past_the_deadline(server: Node) -> None:
    def lifetimes() -> set[int]:
        running = [each for servers in server.started for each in servers._running.values()]
        words = [Path("/proc/%d/cmdline" % each.pid).read_bytes().split(b"\0") for each in running]
        assert {each[0] for each in words} == {b"timeout"}
        return {int(each[1]) for each in words}

    server.serve(ROCE, dict(ROCE, rail="gpu02"), latency=True, lifetime=5)
    assert lifetimes() == {4 * 5 + int(perftest_servers.SLACK)}
    server.started.pop().stop()
    server.serve(ROCE, until=7.9)
    assert max(lifetimes()) <= 7


def test_a_node_without_another_address_is_reported(server: Node) -> None:
    (result,) = server.serve(PORT)
    assert result["port"] is None and "proof_meet" in result["remedy"]
    assert "does not have an IP address" in result["error"]


# -- several runs at the same time -------------------------------------------------------------------------------------

ONE, TWO = "anna@bastion (48213)", "job 12 of AWX, by a schedule (10001)"


def waits(port: int) -> bool:
    return port in perftest_servers.listening(System())


def note(node: Node, run: str, pid: int, *files: str) -> Path:
    """Let a process be the prober of a run. Its directory."""
    place = Path(node.path(probe_runs.directory(run, "ai-1")))
    place.mkdir(parents=True)
    row = {"run": run, "began": 1795514525.0, "pid": pid, "ticks": network_namespaces.started(System(), pid)}
    (place / "process.json").write_text(json.dumps(row))
    for name in files:
        (place / name).write_text("")
    return place


def test_a_run_does_not_end_the_servers_of_another_run(server: Node) -> None:
    (first,), (second,) = server.serve(ROCE, run=ONE), server.serve(ROCE, run=TWO)
    assert first["port"] != second["port"] and waits(first["port"]) and waits(second["port"])
    server.started[1].stop()
    assert not waits(second["port"]) and waits(first["port"])


def test_servers_of_two_runs_never_get_the_same_port(server: Node) -> None:
    first = free_ports(8)
    spec = "%d-%d" % (first, first + 7)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(server.serve, ROCE, run="run %d" % number, tcp_ports=spec) for number in range(4)]
        ports = [each.result()[0]["port"] for each in found]
    assert len(set(ports)) == 4 and all(waits(port) for port in ports)


def test_too_few_free_ports_name_the_runs_that_use_them(server: Node) -> None:
    first = free_ports(1)
    spec = "%d-%d" % (first, first)
    server.serve(ROCE, run=ONE, tcp_ports=spec)
    note(server, ONE, os.getpid())
    with pytest.raises(RailyardError) as refused:
        server.serve(ROCE, run=TWO, tcp_ports=spec)
    assert "other runs are on this node: %s" % ONE in refused.value.message
    assert "mode=stop" in refused.value.remedy


def test_a_run_that_tests_is_reported_to_others_and_one_that_waits_or_was_killed_is_not(server: Node) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        place = note(server, ONE, process.pid)
        assert probe_runs.testing(server, TWO) == {} and probe_runs.names(server, TWO) == ONE
        (place / probe_runs.TESTS).write_text("")
        assert probe_runs.testing(server, TWO) == {ONE: 1795514525.0} and probe_runs.testing(server, ONE) == {}
        assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", probe_runs.moment(1795514525.0))
    finally:
        process.kill()
        process.wait()
    assert probe_runs.testing(server, TWO) == {} and probe_runs.names(server, TWO) == ""


HOLDS = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_a_run_killed_while_starting_servers_blocks_no_other(server: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_runs, "PATIENCE", 0.3)
    lock = server.path(probe_runs.RUNS_DIR + "/lock")
    Path(lock).parent.mkdir(parents=True)
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, lock], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with pytest.raises(RailyardError, match="another run holds the lock of this node, and did not release it"):
            server.serve(ROCE)
    finally:
        holder.kill()
        holder.wait()
    assert server.serve(ROCE)[0]["port"]


def test_a_truncated_record_is_ignored(server: Node) -> None:
    place = note(server, ONE, os.getpid(), probe_runs.TESTS)
    (place / "process.json").write_text('{"run": "b"')
    assert probe_runs.testing(server, TWO) == {}


# -- the program -------------------------------------------------------------------------------------------------------


def test_a_partner_that_only_sends_keepalives_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_channel, "ALIVE_SECONDS", 0.1)
    client, server = (
        probe_channel.Channel(sock, role, 60)
        for sock, role in zip(socket.socketpair(), (probe_channel.CLIENT, probe_channel.SERVER))
    )
    with server.alive(), pytest.raises(probe_channel.PartnerLost, match="did not answer within 1 s"):
        group_turns.answer(client, 1.0)
    client.close()
    server.close()


def test_a_prober_that_ends_while_it_starts_is_reported_at_once(server: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    place = probe_runs.directory(ONE, "ai-1")

    def launched(*_arguments: t.Any) -> None:
        row = {"run": ONE, "began": 0.0, "pid": ended.pid, "ticks": network_namespaces.started(System(), ended.pid)}
        server.write_file(place + "/process.json", json.dumps(row))
        ended.wait()

    monkeypatch.setattr(probe_unit, "_launch", launched)
    with pytest.raises(RailyardError, match="it ended while it was started"):
        probe_unit.start({"run": ONE, "name": "ai-1", "deadline": 60}, server)
    assert probe_runs.places(server) == []


STOPPED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {0!r})
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import prober_process
place = Path({1!r})
(place / "spec.json").write_text('{{"deadline": 600, "turns": [], "pod": {{"uid": "a"}}}}')
def pod(*arguments):
    try:
        (place / "runs").write_text("")
        time.sleep(600)
    finally:
        time.sleep(0.5)
        (place / "ended").write_text("")
prober_process._pod = pod
prober_process.main(str(place))
"""


def test_the_process_of_a_pod_ends_before_a_prober_that_is_stopped(tmp_path: Path) -> None:
    """Only the process of the pod can end its servers, which have process groups of their own."""
    program = STOPPED.format(str(ROOT / "collections"), str(tmp_path))
    running = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_for((tmp_path / "runs").exists, "the process of the pod does not run")
        running.terminate()
        running.wait()
        assert (tmp_path / "ended").exists()
    finally:
        running.kill()
        running.wait()
