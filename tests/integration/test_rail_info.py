# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rail_info on a guest, against what the node's own tools say. VFs and a soft link on rails 1 and 2 of node-1."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify
from tests.integration.conftest import Failed, Node

pytestmark = pytest.mark.lab_node("node-1")

RAIL, NETDEV = "0000:01:00.0", "enp1s0"
SOFT = "enp2s0"


@pytest.fixture
def first(node: t.Callable[[str], Node]) -> Node:
    return node("node-1")


def test_nics_equal_the_output_of_ip_and_ethtool(first: Node) -> None:
    rows = {row["netdev"]: row for row in first.module("rail_info", subset=["nics"])["nics"]}
    links = {row["ifname"]: row for row in first.json("ip -j -d link show")}
    for name, row in rows.items():
        there = links[name]
        assert (row["mac"], row["mtu"]) == (there["address"], there["mtu"])
        assert row["max_mtu"] == there["max_mtu"]
        assert row["altnames"] == there.get("altnames", [])
        assert row["up"] == ("UP" in there["flags"])
        reported = dict(re.findall(r"^([a-z-]+): (.*)$", first.run("ethtool -i %s" % name), re.M))
        assert row["pci"] in reported["bus-info"] or row["driver"] == "virtio-pci"
        assert (row["firmware"] or "") == reported.get("firmware-version", "").replace("N/A", "").strip()
    assert rows[NETDEV]["pci"] == RAIL and rows[NETDEV]["driver"] == "igb" and rows[NETDEV]["max_vfs"] == 7
    assert rows[NETDEV]["management_path"] is None
    assert [row["management_path"] for row in rows.values() if row["management_path"]] == [
        "enp0s30 carries this connection"
    ]


def test_ports_are_found_by_the_facts_of_the_node(first: Node) -> None:
    nics = first.module("rail_info", subset=["nics"])["nics"]
    rows = {row["netdev"]: row for row in nics}
    listed = first.run("grep -H . /sys/bus/pci/slots/*/address 2>/dev/null || true").split()
    slots = {address: path.split("/")[5] for path, address in (line.split(":", 1) for line in listed)}
    for row in rows.values():
        ways = [part.rpartition(".")[0] for part in reversed(row["pci_path"])]
        assert row["slot"] == next((slots[way] for way in ways if way in slots), None)
    rail = rows[NETDEV]
    # igb of QEMU has no vital product data
    assert (rail["permanent_mac"], rail["serial"], rail["part_number"]) == (rail["mac"], None, None)
    matches = [{"mac": rail["mac"].upper()}] + ([{"slot": rows[SOFT]["slot"], "port": 1}] if rows[SOFT]["slot"] else [])
    ports = [
        {"rail": "gpu0%d" % number, "pci": None, "netdev": None, "match": match}
        for number, match in enumerate(matches, 1)
    ]
    found = identify({"name": "node-1", "ports": ports}, nics)["ports"]
    assert [(port["pci"], port["netdev"]) for port in found] == [(RAIL, NETDEV), ("0000:02:00.0", SOFT)][: len(ports)]


def test_the_system_and_nothing_is_changed(first: Node) -> None:
    look = "cut -d' ' -f1 /proc/modules | sort; ip -br link show %s; ip -br link show %s" % (NETDEV, SOFT)
    before = first.run(look)
    found = first.module("rail_info", subset=["all"])
    assert first.run(look) == before
    assert not found["changed"]
    assert found["system"]["boot_id"] == first.boot_id()
    assert found["system"]["kernel"] == first.run("uname -r").strip()
    assert found["management_path"]["connection"] == "enp0s30" and found["management_path"]["default_route"] == [
        "enp0s30"
    ]
    assert found["tools"]["perftest"] == "/usr/bin/ib_write_bw" and "pyroute2" in found["tools"]
    assert "mlxconfig" not in found["tools"]


def test_vfs_and_who_holds_them(first: Node) -> None:
    place = "/sys/bus/pci/devices/%s" % RAIL
    first.run("echo 2 > %s/sriov_numvfs" % place)
    try:
        first.run("ip link set %s vf 1 mac 02:00:00:00:01:01 vlan 7" % NETDEV)
        first.run("ip netns add ry-info")
        first.until("ip link set $(ls %s/virtfn1/net) netns ry-info" % place)
        free, held = first.module("rail_info", subset=["vfs"], netdevs=[NETDEV])["vfs"]
        assert (free["pf"], free["pf_netdev"], free["index"], free["driver"]) == (RAIL, NETDEV, 0, "igbvf")
        assert free["netdev"] and free["holders"] == []
        assert held["netdev"] is None and "ry-info" in held["holders"][0]
        assert (held["attributes"]["mac"], held["attributes"]["vlan"]) == ("02:00:00:00:01:01", 7)
        assert first.module("rail_info", subset=["vfs"], pci=["0000:02:00.0"])["vfs"] == []
    finally:
        first.run("ip netns del ry-info; sleep 0.5; echo 0 > %s/sriov_numvfs" % place, check=False)


def test_rdma_and_gids_of_a_soft_link(first: Node) -> None:
    had = first.run("cat /sys/class/net/%s/mtu; cat /sys/class/net/%s/flags" % (SOFT, SOFT)).split()
    first.run("ip link set %s up mtu 4200; ip addr add 192.0.2.9/32 dev %s" % (SOFT, SOFT))
    first.run("modprobe rdma_rxe; rdma link add ryinfo0 type rxe netdev %s" % SOFT)
    try:
        found = first.module("rail_info", subset=["rdma", "gids"], netdevs=[SOFT])
        (row,) = found["rdma"]
        assert (row["device"], row["type"], row["netdev"], row["pci"]) == ("ryinfo0", "rxe", SOFT, "0000:02:00.0")
        reported = first.run("ibv_devinfo -d ryinfo0")
        assert row["active_mtu"] == int(re.findall(r"active_mtu:\s+(\d+)", reported)[0])
        assert "PORT_%s" % row["state"] in reported
        assert row["node_guid"] == re.findall(r"node_guid:\s+(\S+)", reported)[0]
        assert row["link_layer"] == "ethernet" and row["rate"] > 0
        shell = "cd /sys/class/infiniband/ryinfo0/ports/1/gids; grep -v 0000:0000:0000:0000:0000:0000:0000:0000 *"
        there = dict(line.split(":", 1) for line in first.run(shell).split())
        assert {str(gid["index"]): gid["gid"] for gid in found["gids"]} == there
        (mine,) = [gid for gid in found["gids"] if gid["address"] == "192.0.2.9"]
        assert (mine["type"], mine["netdev"], mine["device"]) == ("RoCE v2", SOFT, "ryinfo0")
        # the slow way to the same table
        first.run("mv /usr/lib/x86_64-linux-gnu/libibverbs.so.1 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.away")
        try:
            again = first.module("rail_info", subset=["rdma", "gids"], netdevs=[SOFT])
        finally:
            first.run("mv /usr/lib/x86_64-linux-gnu/libibverbs.so.1.away /usr/lib/x86_64-linux-gnu/libibverbs.so.1")
        assert again["gids"] == found["gids"]
        assert again["rdma"][0]["active_mtu"] is None
        # and that it was not taken before: without those files the answer is the same
        first.run("mount -t tmpfs none /sys/class/infiniband/ryinfo0/ports/1/gids")
        try:
            assert first.module("rail_info", subset=["gids"], netdevs=[SOFT])["gids"] == found["gids"]
        finally:
            first.run("umount /sys/class/infiniband/ryinfo0/ports/1/gids")
    finally:
        down = "" if int(had[1], 16) & 1 else "ip link set %s down;" % SOFT
        first.run(
            "rdma link delete ryinfo0; ip addr del 192.0.2.9/32 dev %s; ip link set %s mtu %s; %s true"
            % (SOFT, SOFT, had[0], down)
        )


def test_a_netdev_that_is_not_there(first: Node) -> None:
    with pytest.raises(Failed) as caught:
        first.module("rail_info", netdevs=["enp99s0"])
    text = "see 'ip link'; it may have another name, or be in another network namespace"
    assert str(caught.value) == "netdevs: there is no netdev enp99s0. Remedy: %s." % text
