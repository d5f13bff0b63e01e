# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rail_probe between two guests, with faults of the leaf switch."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from tests.integration import probing
from tests.integration.conftest import LAB, ROOT, Node

pytestmark = pytest.mark.lab

NETDEVS = {"gpu01": "enp1s0", "gpu02": "enp2s0"}
SETUP = """
for n in 1 2; do
  ip link set enp${n}s0 up mtu 4200
  ip address replace 172.30.$n.%d/24 dev enp${n}s0
  [ -e /sys/class/infiniband/probe$n ] || rdma link add probe$n type rxe netdev enp${n}s0
done
for wait in $(seq 300); do
  grep -q 1 /sys/class/net/enp1s0/carrier && grep -q 1 /sys/class/net/enp2s0/carrier && break
  sleep 1
done
"""
CLEAN = """
for wait in $(seq 60); do
  pgrep ib_write_bw >/dev/null || break
  sleep 1
done
pgrep -c ib_write_bw
pkill ib_write_bw
for n in 1 2; do
  rdma link delete probe$n
  ip address flush dev enp${n}s0
  ip link set enp${n}s0 down mtu 1500
done
true
"""


@pytest.fixture(scope="module", autouse=True)
def rails(node: t.Callable[[str], Node]) -> t.Iterator[None]:
    for number in (1, 2):
        node("node-%d" % number).run(SETUP % number)
    restore(node)
    yield
    cable("repair")
    for number in (1, 2):
        assert node("node-%d" % number).run(CLEAN).strip() == "0", "a server was left running"


def cable(*words: str) -> None:
    subprocess.run(["lab/lab", "cable", "--name", LAB, *words], cwd=ROOT, check=True, capture_output=True)


def restore(node: t.Callable[[str], Node]) -> None:
    """Repair all cables, and wait until full frames cross both rails: a link takes time to come back."""
    cable("repair")
    full = "ping -q -c 1 -W 2 -M do -s %d 172.30.%%d.1 >/dev/null" % (4200 - 28)
    both = " && ".join(full % number for number in (1, 2))
    node("node-2").until(both)


def ends(meet: str | None = None) -> dict[str, dict[str, t.Any]]:
    """Return both nodes in the form of :func:`.probe_targets.probe_node`. ``meet``: the address of node-1."""
    nodes: dict[str, dict[str, t.Any]] = {}
    for number in (1, 2):
        ports = [
            {"rail": rail, "netdev": netdev, "pci": None, "mtu": 4200, "gateway": None, "gpus": []}
            for rail, netdev in NETDEVS.items()
        ]
        for place, port in enumerate(ports, 1):
            address = {"address": "172.30.%d.%d/24" % (place, number), "address6": None}
            port.update(address, rdma={"name": "probe%d" % place, "type": "rxe"})
        name = "node-%d" % number
        nodes[name] = {"name": name, "ports": ports, "meet": meet if number == 1 else None, "management": None}
    return nodes


def prove(
    node: t.Callable[[str], Node], nodes: dict[str, dict[str, t.Any]] | None = None, **options: t.Any
) -> dict[str, dict[str, t.Any]]:
    """node-2 probes both rails of node-1; the results by rail."""
    given = {"iterations": 50, "lifetime": 180, "timeout": 10, **options}
    starts = probing.schedules(nodes or ends(), [["node-1", "node-2"]], **given)
    for name, spec in starts.items():
        assert probing.call(node(name), spec)["port"] in probing.LISTEN
    found = {name: probing.call(node(name), probing.collection(name)) for name in starts}
    assert [row["refused"] for row in found.values()] == ["", ""]
    return {row["rail"]: row for row in found["node-2"]["results"]}


def test_sound_rails_are_green_with_their_bandwidth(node: t.Callable[[str], Node]) -> None:
    for result in prove(node).values():
        assert result["ok"], result
        assert result["reach"]["received"] == result["reach"]["sent"] == 3
        # on a busy guest the tool rounds the rate to 0.00
        assert result["transfer"]["gbits"] is not None
        # the GID of the address itself, not a folklore index
        assert result["transfer"]["gid_index"] is not None


@pytest.mark.long
def test_a_cut_cable_is_red_and_the_other_rail_stays_green(node: t.Callable[[str], Node]) -> None:
    cable("cut", "node-1:1")
    try:
        results = prove(node, count=1)
    finally:
        restore(node)
    assert (results["gpu01"]["ok"], results["gpu02"]["ok"]) == (False, True), results
    assert results["gpu01"]["error"].startswith("0 of 1 packets of 4200 bytes came back")


def test_a_leaf_that_drops_large_frames_is_red_though_small_packets_pass(node: t.Callable[[str], Node]) -> None:
    cable("mtu", "node-1:2", "1500")
    try:
        node("node-2").run("ping -c 1 -w 60 172.30.2.1")
        results = prove(node, count=1)
    finally:
        restore(node)
    assert (results["gpu01"]["ok"], results["gpu02"]["ok"]) == (True, False), results
    assert "MTU" in results["gpu02"]["remedy"]


@pytest.mark.long
def test_a_port_whose_own_mtu_is_small_is_reported(node: t.Callable[[str], Node]) -> None:
    node("node-2").run("ip link set enp1s0 mtu 1500")
    try:
        result = prove(node, count=1)["gpu01"]
    finally:
        node("node-2").run("ip link set enp1s0 mtu 4200")
        restore(node)
    assert "Message too long" in result["error"]
    assert result["remedy"] == "raise the MTU of enp1s0 to 4200"


def received(node: t.Callable[[str], Node]) -> dict[str, int]:
    """Bytes that each rail port of node-1 has received."""
    paths = " ".join("/sys/class/net/%s/statistics/rx_bytes" % netdev for netdev in NETDEVS.values())
    return dict(zip(NETDEVS, map(int, node("node-1").run("cat " + paths).split())))


def test_the_ends_meet_outside_the_rail_and_the_data_uses_the_rail(node: t.Callable[[str], Node]) -> None:
    """As on rails without addresses; the second rail is for the management network, which guests do not share."""
    beside, iterations, size = "172.30.2.1", 50, 65536
    nodes = ends(beside)
    for each in nodes.values():
        del each["ports"][1:]
    before = received(node)
    result = prove(node, nodes, iterations=iterations, size=size)["gpu01"]
    after = received(node)
    assert result["ok"], result
    assert result["transfer"]["gbits"] is not None and result["transfer"]["gid_index"] is not None
    rose = {rail: after[rail] - before[rail] for rail in NETDEVS}
    # all of the data on one, a few messages of TCP on the other
    assert rose["gpu01"] >= iterations * size
    assert 0 < rose["gpu02"] < size, rose


def test_a_prober_is_a_unit_of_systemd_that_ends_at_its_deadline(node: t.Callable[[str], Node]) -> None:
    """As after the control node was killed: nothing is collected, and the partner is not started."""
    spec = probing.schedules(ends(), [["node-1", "node-2"]], deadline=3600)["node-1"]
    one = node("node-1")
    probing.call(one, spec)
    units = "systemctl list-units --all --no-legend --plain 'railyard-probe-*'"
    gone = '[ -z "$(%s)" ] && [ -z "$(ls /run/railyard/probe)" ]' % units
    (unit,) = (line.split()[0] for line in one.run(units).splitlines())
    assert one.run("systemctl show -P RuntimeMaxUSec %s" % unit).strip() == "1h 30s"
    assert unit == "railyard-probe-%s.scope" % one.run("ls /run/railyard/probe").strip()
    # a killed prober leaves its files, which the next start removes
    one.run("systemctl kill --signal=KILL %s" % unit)
    one.until('[ -z "$(%s)" ]' % units)
    probing.call(one, {**spec, "run": "another"})
    assert len(one.run("ls /run/railyard/probe").split()) == 1
    probing.call(one, {"mode": "stop"})
    one.until(gone)
    probing.call(one, {**spec, "deadline": 5})
    one.until(gone)


def test_an_unreachable_server_is_reported_as_unreachable(node: t.Callable[[str], Node]) -> None:
    nodes = ends("172.30.2.9")
    starts = probing.schedules(nodes, [["node-1", "node-2"]], lifetime=180, timeout=10, silence=5)
    probing.call(node("node-2"), starts["node-2"])
    for result in probing.call(node("node-2"), probing.collection("node-2"))["results"]:
        assert not result["ok"] and result["reach"]["received"] == 3
        assert "node-1 could not be met at 172.30.2.9, TCP port" in result["error"], result
