# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reported state of a node, from fake and recorded sysfs trees."""

from __future__ import annotations

import json
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import node_info
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.node_info import Info
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.ethtool import DriverInfo
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND, Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import lldp
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.test_vpd import card
from tests.unit.node.trees import Tree

NO_IP: dict[str, t.Any] = {"addresses": [], "routes": [], "rules": []}
RECORDINGS = Path(__file__).parents[2] / "recordings" / "sysfs"
# NICs of a DGX H100, and the GPU that shares each one's switch.
DGX_H100 = ("18:1b", "40:43", "4f:52", "5e:61", "9a:9d", "c0:c3", "ce:d1", "dc:df")


def link(name: str, index: int = 1, altnames: t.Sequence[str] = (), **values: t.Any) -> Link:
    mac = bytes((2, 0, 0, 0, 0, 1))
    known = Link(index, name, True, 1500, 68, 9216, mac, tuple(altnames), carrier=True, operstate="UP")
    return known._replace(**values)


def node(tree: Tree, links: t.Sequence[Link] = (), **parts: t.Any) -> Info:
    parts.setdefault("drivers", lambda names: {})
    parts.setdefault("permanent", lambda names: {})
    parts.setdefault("management_of", lambda system: ManagementPath({}, {}))
    runner = parts.pop("runner", lambda argv, timeout: CommandResult(127, "", ""))
    return Info(tree.system(runner), lambda: list(links), lambda system: None, **parts)


@pytest.mark.parametrize("name", ["dell-b200", "dgx-a100", "h100-switch-a-pair"])
def test_proximities_of_recorded_servers_equal_nvidia_smi(tmp_path: Path, name: str) -> None:
    recorded = json.loads((RECORDINGS / (name + ".json")).read_text())
    tree = Tree(tmp_path)
    for row in recorded["functions"]:
        tree.function(row["path"], row["class"], row["vendor"], row["device"], row["numa"])
    gpus = node(tree).look(["gpus"])["gpus"]
    assert {row["pci"]: row["nics"] for row in gpus} == recorded["proximity"]
    assert [row["index"] for row in gpus] == list(range(len(gpus)))
    assert [row["pci"] for row in gpus] == sorted(recorded["proximity"])


def hgx(tree: Tree) -> None:
    for number, pair in enumerate(DGX_H100):
        nic, gpu = pair.split(":")
        root = "pci0000:%02x" % (int(nic, 16) - 3)
        top = "%s/0000:%02x:01.0/0000:%02x:00.0" % (root, int(nic, 16) - 3, int(nic, 16) - 2)
        down = "0000:%02x" % (int(nic, 16) - 1)
        tree.function("%s/%s:00.0/0000:%s:00.0" % (top, down, nic), "0x020700", numa=number // 4)
        tree.function("%s/%s:01.0/0000:%s:00.0" % (top, down, gpu), "0x030200", "10de", "2330", number // 4)


def test_eight_gpus_with_a_switch_each(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    hgx(tree)
    found = node(tree).look(["nics", "gpus"])
    assert [(row["pci"], row["gpus"], row["gpu_proximity"]) for row in found["nics"]] == [
        ("0000:%s:00.0" % pair[:2], [number], "PIX") for number, pair in enumerate(DGX_H100)
    ]
    near = found["gpus"][0]["nics"]
    assert [near[nic] for nic in sorted(near)] == ["PIX", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]


def test_several_gpus_are_equally_near(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/0000:01:00.0")
    for number in (2, 3):
        tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number), "0x030200", "10de")
    (nic,) = node(tree).look(["nics"])["nics"]
    assert (nic["gpus"], nic["gpu_proximity"]) == ([0, 1], "PHB")


def test_one_socket_without_gpus(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/0000:01:00.0")
    found = node(tree).look(node_info.SUBSETS)
    assert found["gpus"] == [] and found["rdma"] == [] and found["gids"] == [] and found["vfs"] == []
    assert (found["nics"][0]["gpus"], found["nics"][0]["gpu_proximity"]) == ([], None)


def test_gpus_of_amd_have_the_numbers_of_amdkfd(tmp_path: Path) -> None:
    """A processor has no SIMDs, and a partitioned GPU has several nodes."""
    tree = Tree(tmp_path)
    for bus in ("0d", "26", "5d"):
        tree.function("pci0000:00/0000:00:01.0/0000:%s:00.0" % bus, "0x120000", "1002", "75a3")
    assert [row["pci"][5:7] for row in node(tree).look(["gpus"])["gpus"]] == ["0d", "26", "5d"]
    nodes = [(0, 0, 0), (1, 304, 0x26), (2, 152, 0x0D), (3, 152, 0x0D), (10, 304, 0x5D)]
    for number, simds, bus in nodes:
        text = "cpu_cores_count 0\nsimd_count %d\nlocation_id %d\ndomain 0\n" % (simds, bus << 8)
        tree.write("/sys/class/kfd/kfd/topology/nodes/%d/properties" % number, text)
    found = node(tree).look(["gpus"])["gpus"]
    assert [(row["index"], row["pci"], row["maker"]) for row in found] == [
        (0, "0000:26:00.0", "amd"),
        (1, "0000:0d:00.0", "amd"),
        (2, "0000:5d:00.0", "amd"),
    ]
    # a GPU that amdkfd denies has no number: it follows the others
    denied = tree.root / "sys/class/kfd/kfd/topology/nodes/1/properties"
    denied.unlink()
    denied.mkdir()
    assert [row["pci"][5:7] for row in node(tree).look(["gpus"])["gpus"]] == ["0d", "5d", "26"]
    # the driver of other GPUs does not number those of AMD
    tree.function("pci0000:00/0000:00:01.0/0000:0f:00.0", "0x030200", "10de", "2330")
    assert [row["pci"][5:7] for row in node(tree).look(["gpus"])["gpus"]] == ["0d", "0f", "26", "5d"]


@pytest.mark.parametrize(
    ("kind", "vendor", "is_gpu"),
    [
        ("0x030200", "10de", True),
        ("0x030000", "10de", True),
        ("0x038000", "1002", True),
        ("0x120000", "1002", True),
        ("0x120000", "1da3", True),
        ("0x038000", "8086", True),
        ("0x030000", "8086", False),
        ("0x030000", "1a03", False),
        ("0x068000", "10de", False),
        ("0x120000", "1d0f", False),
    ],
)
def test_gpus_are_distinguished_from_other_functions(tmp_path: Path, kind: str, vendor: str, is_gpu: bool) -> None:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/0000:01:00.0", kind, vendor)
    assert bool(node(tree).look(["gpus"])["gpus"]) is is_gpu


def test_a_card_with_two_ports(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (0, 1):
        pci = tree.function(
            "pci0000:00/0000:00:01.0/0000:0b:00.%d" % number,
            numa=0,
            sriov_numvfs="0",
            sriov_totalvfs="16",
            current_link_speed="8.0 GT/s PCIe",
        )
        tree.driver(pci, "mlx5_core")
        tree.netdev(pci, "ens1f%dnp%d" % (number, number), speed="100000" if number else "-1")
        tree.rdma(pci, "mlx5_%d" % number, "Ethernet")
    links = [
        link("ens1f0np0", carrier=False, operstate="DOWN", altnames=["enp11s0f0np0"]),
        link("ens1f1np1", mtu=4200),
    ]
    firmware = {"ens1f1np1": DriverInfo("mlx5_core", "6.1.0", "16.35.2000 (MT_0000000008)")}
    management = ManagementPath({}, {"0000:0b:00.1": "ens1f1np1 carries the default route"})
    found = node(tree, links, drivers=lambda names: firmware, management_of=lambda system: management).look(["nics"])
    first, second = found["nics"]
    assert (first["netdev"], first["altnames"], first["speed"], first["operstate"], first["carrier"]) == (
        *("ens1f0np0", ["enp11s0f0np0"], None, "down", False),
    )
    assert (second["mtu"], second["max_mtu"], second["speed"], second["firmware"]) == (
        *(4200, 9216, 100000, "16.35.2000 (MT_0000000008)"),
    )
    assert second["rdma"] == ["mlx5_1"] and second["max_vfs"] == 16 and second["pcie"]["speed"] == 8.0
    assert first["management_path"] == second["management_path"] == "ens1f1np1 carries the default route"


def test_one_function_with_two_netdevs_and_one_with_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    both = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0", device="1003")
    tree.netdev(both, "ens1")
    tree.netdev(both, "ens1d1")
    lost = tree.function("pci0000:00/0000:00:02.0/0000:0c:00.0")
    found = node(tree, [link("ens1"), link("ens1d1")]).look(["nics"])["nics"]
    assert [(row["pci"], row["netdev"]) for row in found] == [(both, "ens1"), (both, "ens1d1"), (lost, None)]
    assert found[2]["mac"] is None and found[2]["operstate"] is None and found[2]["holders"] == []


def test_representors_are_not_ports(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    function = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    for name, label in (("ens1f0np0", "p0"), ("eth0", "pf0vf0"), ("eth1", "c1pf0sf88")):
        tree.netdev(function, name, phys_port_name=label)
    found = node(tree, [link("ens1f0np0"), link("eth0"), link("eth1")]).look(["nics"])["nics"]
    assert [row["netdev"] for row in found] == ["ens1f0np0"]


def test_an_rdma_device_in_another_namespace_is_reported_as_held(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    functions = [tree.function("pci0000:00/0000:00:01.0/0000:0b:00.%d" % number) for number in (0, 1)]
    # sysfs keeps the directory of a device that was moved; a function without a device has none
    (tree.root / ("sys/bus/pci/devices/%s/infiniband" % functions[0])).mkdir()
    held, other = node(tree, []).look(["nics"])["nics"]
    assert held["rdma_holders"] == ["its RDMA device is in another network namespace, which cannot be entered"]
    assert other["rdma_holders"] == []


def test_a_netdev_that_a_pod_has_is_reported_as_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path)
    function = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    (tree.root / ("sys/bus/pci/devices/%s/net" % function)).mkdir()
    (row,) = node(tree, []).look(["nics"])["nics"]
    assert row["netdev"] is None
    assert row["holders"] == ["its netdev is in another network namespace, which cannot be entered"]
    assert row["mac"] is None
    moved = {function: vf_holders.Moved("a pod has it", "ens1", "02:00:00:00:00:0b")}
    monkeypatch.setattr(vf_holders, "moved", lambda _system, functions: {each: moved[each] for each in functions})
    (row,) = node(tree, []).look(["nics"])["nics"]
    # by which a plan may know the port
    assert (row["holders"], row["permanent_mac"]) == (["a pod has it"], "02:00:00:00:00:0b")


def test_a_card_is_identified_by_serial_number_or_slot(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (0, 1):
        # a card with a switch of its own: its slot is the switch's
        pci = tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0/0000:0c:00.0/0000:0d:00.%d" % number)
        tree.netdev(pci, "ens4f%d" % number)
    (tmp_path / "sys/bus/pci/devices/0000:0d:00.0/vpd").write_bytes(card())
    other = tree.function("pci0000:00/0000:00:02.0/0000:0e:00.0")
    tree.netdev(other, "eth1")
    tree.write("/sys/bus/pci/slots/4/address", "0000:0b:00")
    tree.write("/sys/bus/pci/slots/7/address", "0000:41:00")
    links = [link("ens4f0", permanent=bytes((2, 0, 0, 0, 0, 7))), link("ens4f1"), link("eth1")]
    found = node(tree, links, permanent=lambda names: {"eth1": bytes((2, 0, 0, 0, 0, 9))}).look(["nics"])["nics"]
    keys = ("netdev", "slot", "serial", "part_number", "permanent_mac")
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("ens4f0", "4", "MT2321X01234", "MCX75310AAS-NEAT", "02:00:00:00:00:07"),
        ("ens4f1", "4", "MT2321X01234", "MCX75310AAS-NEAT", None),
        ("eth1", None, None, None, "02:00:00:00:00:09"),
    ]


def test_a_netdev_with_another_bus_between(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    pci = tree.function("pci0000:00/0000:00:03.0", vendor="1af4", device="1041")
    place = tree.real(pci) + "/virtio0/net/eth0"
    tree.write(place + "/type", "1")
    tree.link(place + "/device", tree.real(pci) + "/virtio0")
    tree.link("/sys/class/net/eth0", place)
    (row,) = node(tree, [link("eth0")]).look(["nics"])["nics"]
    assert (row["pci"], row["netdev"], row["mac"]) == (pci, "eth0", "02:00:00:00:00:01")


def test_netdevs_and_pci_addresses_filter_the_ports(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (1, 2, 3):
        tree.netdev(tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number)), "ens%d" % number)
    table = node(tree, [link("ens%d" % number) for number in (1, 2, 3)])
    found = table.look(["nics"], ["ens1"], ["0000:03:00.0"])["nics"]
    assert [row["netdev"] for row in found] == ["ens1", "ens3"]
    with pytest.raises(RailyardError, match="there is no netdev ens9"):
        table.look(["nics"], ["ens9"])
    with pytest.raises(RailyardError, match="there is no PCI function 0000:09:00.0"):
        table.look(["nics"], None, ["0000:09:00.0"])


def test_the_system_is_read_from_procfs_and_os_release(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n# ID=no')
    tree.write("/proc/sys/kernel/osrelease", "6.1.0-44-amd64")
    tree.write("/sys/class/dmi/id/product_name", "PowerEdge XE9680")
    tree.write("/proc/sys/kernel/random/boot_id", "0d3dd8dc")
    tree.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    tree.write("/etc/railyard/boot.d/10-sriov_vfs.json", "{}")
    tree.write("/run/systemd/system/x", "")
    asked: list[t.Sequence[str]] = []

    def systemctl(argv: t.Sequence[str], timeout: float) -> CommandResult:
        asked.append(argv)
        return CommandResult(3, "failed\n", "")

    management = ManagementPath({"eth0": "carries this connection"}, {"0000:00:02.0": "eth0 carries this connection"})
    found = node(tree, runner=systemctl, management_of=lambda system: management).look(["system"])
    system = found["system"]
    assert (system["distribution"], system["distribution_version"]) == ("debian", "12")
    assert (system["kernel"], system["boot_id"], system["lockdown"]) == ("6.1.0-44-amd64", "0d3dd8dc", "integrity")
    assert system["boot_service"] == "failed" and system["rdma_mode"] is None
    assert system["product"] == "PowerEdge XE9680"
    assert asked == [["systemctl", "is-active", "railyard-boot.service"]]
    assert (
        found["management_path"]["netdevs"] == management.netdevs
        and found["management_path"]["functions"] == management.functions
    )
    assert "pyroute2" in found["tools"] and all(found["tools"].values())
    assert set(found) == {"system", "management_path", "tools"}


def test_no_persistent_settings_are_reported_as_none(tmp_path: Path) -> None:
    system = node(Tree(tmp_path)).look(["system"])["system"]
    assert (system["boot_service"], system["product"]) == (None, None)


def test_driver_information_is_decoded() -> None:
    def fixed(text: str) -> bytes:
        return text.encode().ljust(32, b"\0")

    data = struct.pack("=I", 3) + b"".join(
        map(fixed, ("mlx5_core", "6.1.0", "16.35.2000 (MT_0000000008)", "0000:0b:00.0", ""))
    )
    assert ethtool.decode(data + bytes(32)) == DriverInfo("mlx5_core", "6.1.0", "16.35.2000 (MT_0000000008)")
    data = struct.pack("=I", 3) + b"".join(map(fixed, ("igb", "6.1.0", "N/A", "", "")))
    assert ethtool.decode(data + bytes(32)).firmware is None


def test_named_ports_are_reported_and_the_connection_port_is_not(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for number in (1, 2):
        tree.netdev(tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number)), "ens%d" % number)
        tree.write("/proc/sys/net/ipv4/conf/ens%d/rp_filter" % number, "0")
        tree.write("/sys/class/net/ens%d/statistics/rx_errors" % number, str(number))
    tree.write("/proc/sys/net/ipv4/conf/all/rp_filter", "1")
    links = [link("ens1", 4), link("ens2", 5, carrier=False)]
    look = node(
        tree, links, management_of=lambda system: ManagementPath({"ens1": "carries this"}, {"0000:01:00.0": "it"})
    ).look
    found = look(["sysctls", "counters", "lldp"])
    assert found["sysctls"]["ens2"]["rp_filter"] == 1
    assert found["counters"]["netdevs"] == {"ens1": {"rx_errors": 1}, "ens2": {"rx_errors": 2}}
    assert found["lldp"] == []


def test_neighbours_are_read_on_ethernet_and_duplicates_on_all_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path)
    for number in (1, 2):
        tree.netdev(tree.function("pci0000:00/0000:00:0%d.0/0000:0%d:00.0" % (number, number)), "port%d" % number)
    asked: list[t.Any] = []
    monkeypatch.setattr(lldp, "look", lambda system, netdevs, seconds: asked.append(dict(netdevs)) or [])
    monkeypatch.setattr(Info, "ip", lambda self, nics: asked.append([row["netdev"] for row in nics]) or NO_IP)
    links = [link("port1", 4), link("port2", 5, type=ARPHRD_INFINIBAND, address=bytes(20))]
    node(tree, links).look(["lldp", "duplicates"])
    assert asked == [["port1", "port2"], {"port1": 4}]
