# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices with several ports, sub-devices and DMA functions, as ``rail_info`` reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning_spec import PciSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions, vpd
from tests.unit.node.plane_devices import Machine, recorded

DATA = {3: "eth_r0_p0", 6: "eth_r0_p1", 9: "eth_r0_p2", 12: "eth_r0_p3"}


def test_a_device_with_twelve_ports_has_data_on_four(tmp_path: Path) -> None:
    rows = [
        row for row in Machine(tmp_path, recorded("connectx8-12-ports")).look()["rdma"] if row["device"] == "roce_r0"
    ]
    assert [row["port"] for row in rows] == list(range(1, 13))
    carrying = {row["port"]: row["netdev"] for row in rows if row["state"] == "ACTIVE"}
    assert carrying == DATA
    for row in rows:
        up = row["port"] in DATA
        assert (row["state"], row["physical_state"]) == (("ACTIVE", "LINK_UP") if up else ("DOWN", "DISABLED"))
        assert (row["rate"], row["netdev"]) == ((200.0, DATA[row["port"]]) if up else (None, None))
        assert (row["pci"], row["link_layer"]) == ("0000:03:00.0", "ethernet")
        assert "parent" not in row


def test_gids_name_the_netdev_of_a_port_if_netlink_reports_none(tmp_path: Path) -> None:
    recording = recorded("connectx8-12-ports")
    recording["rdma"][0]["silent"] = True
    rows = Machine(tmp_path, recording).look("rdma")["rdma"]
    assert {row["port"]: row["netdev"] for row in rows if row["device"] == "roce_r0" and row["netdev"]} == DATA


@pytest.mark.parametrize("name", ["mlx5_0", "mlx5_gpu01", "zz_gpu01"])
def test_a_sub_device_for_management_datagrams_is_not_a_nic(tmp_path: Path, name: str) -> None:
    """With any name of the NIC's device, the sub-device does not replace it."""
    recording = recorded("xdr-smi")
    recording["rdma"][0]["device"] = recording["rdma"][1]["parent"] = name
    machine = Machine(tmp_path, recording)
    found = machine.look()
    assert {row["pci"]: row["rdma"] for row in found["nics"]} == {"0000:03:00.0": [], "0000:0b:00.0": [name]}
    planes = [row for row in found["rdma"] if row.get("parent")]
    assert [(row["device"], row["port"], row["parent"], row["state"]) for row in planes] == [
        ("smi1", port, name, "ACTIVE") for port in (1, 2, 3, 4)
    ]
    assert pci_functions.rdma_devices(machine.tree.system(), "0000:0b:00.0") == [name]


def test_devices_of_a_function_without_verbs_are_all_its_own(tmp_path: Path) -> None:
    """ib_uverbs is not loaded."""
    recording = recorded("xdr-smi")
    for row in recording["rdma"]:
        row["parent"] = "a module is missing"
    machine = Machine(tmp_path, recording)
    assert pci_functions.rdma_devices(machine.tree.system(), "0000:0b:00.0") == ["mlx5_0", "smi1"]


def test_a_dma_function_is_reported_with_its_nic_and_gpu(tmp_path: Path) -> None:
    found = Machine(tmp_path, recorded("data-direct")).look()
    assert [row["pci"] for row in found["nics"]] == ["0000:03:00.0", "0002:03:00.0"]
    keys = ("pci", "kind", "nics", "gpus", "gpu_proximity")
    assert [tuple(row[key] for key in keys) for row in found["dma_functions"]] == [
        ("0008:03:00.0", "data-direct", ["0002:03:00.0"], [0], "PIX"),
        ("0009:03:00.0", "data-direct", ["0000:03:00.0"], [1], "PIX"),
    ]
    assert [row["pci"] for row in found["gpus"]] == ["0008:06:00.0", "0009:06:00.0"]


def test_the_dma_function_gives_the_distance_of_a_gpu(tmp_path: Path) -> None:
    machine = Machine(tmp_path, recorded("data-direct"))
    found = machine.look()
    by_gpu = {row["pci"]: row["nics"] for row in found["gpus"]}
    # as rdma_topo pairs them: the NIC itself uses another host bridge
    assert by_gpu["0009:06:00.0"]["0000:03:00.0"] == by_gpu["0008:06:00.0"]["0002:03:00.0"] == "PIX"
    assert "PIX" not in (by_gpu["0009:06:00.0"]["0002:03:00.0"], by_gpu["0008:06:00.0"]["0000:03:00.0"])
    assert {row["pci"]: (row["gpus"], row["gpu_proximity"]) for row in found["nics"]} == {
        "0000:03:00.0": ([1], "PIX"),
        "0002:03:00.0": ([0], "PIX"),
    }
    system = machine.tree.system()
    spec = PciSpec({}, system)
    assert spec.distance("0000:03:00.0", "0009:06:00.0") == "PIX"
    assert spec.distance("0000:03:00.0", "0008:06:00.0") != "PIX"


def test_bridges_between_a_gpu_and_a_dma_function_belong_to_its_nic(tmp_path: Path) -> None:
    """ACS of these bridges decides whether the NIC reaches the GPU."""
    machine = Machine(tmp_path, recorded("data-direct"))
    # a GPU below another port of the switch of the DMA function
    switch = machine.tree.real("0009:03:00.0").rpartition("/")[0].replace("/sys/devices/", "", 1)
    gpu = machine.tree.function(switch + "/0009:02:01.0/0009:07:00.0", "0x030200", "10de", "2901")
    spec = PciSpec({}, machine.tree.system())
    assert spec.bridges("0000:03:00.0", gpu) == ["0009:02:01.0"]
    assert spec.bridges("0002:03:00.0", gpu) == []


def test_each_vital_product_data_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards answer slowly, so the number of reads does not depend on the number of GPUs."""
    read, reads = vpd.read, []
    monkeypatch.setattr(vpd, "read", lambda system, path: reads.append(path) or read(system, path))
    spec = PciSpec({"state": "gathered"}, Machine(tmp_path, recorded("data-direct")).tree.system())
    assert [[gpu for _number, gpu in port.gpus] for port in spec.ports[-2:]] == [["0009:06:00.0"], ["0008:06:00.0"]]
    assert len(reads) == len(set(reads)) == 4


def test_without_its_dma_function_a_nic_is_far_from_the_gpu(tmp_path: Path) -> None:
    recording = recorded("data-direct")
    for row in recording["functions"]:
        row.pop("uuid")
    assert all("PIX" not in row["nics"].values() for row in Machine(tmp_path, recording).look()["gpus"])


def test_a_dma_function_of_the_network_class_is_not_a_nic(tmp_path: Path) -> None:
    recording = recorded("data-direct")
    for row in recording["functions"]:
        row["class"] = "0x020000"
    found = Machine(tmp_path, recording).look()
    assert [row["pci"] for row in found["nics"]] == ["0000:03:00.0", "0002:03:00.0"]
    assert len(found["dma_functions"]) == 2


@pytest.mark.parametrize("uuid", [None, "5c0f1d00a1b2c3d4e5f60718293a4bff"])
def test_a_dma_function_whose_nic_is_unknown_has_none(tmp_path: Path, uuid: str | None) -> None:
    """Its Vital Product Data cannot be read, or has the UUID of another NIC."""
    recording = recorded("data-direct")
    recording["functions"][2]["uuid"] = uuid
    machine = Machine(tmp_path, recording)
    by_pci = {row["pci"]: row["nics"] for row in machine.look()["dma_functions"]}
    assert by_pci == {"0008:03:00.0": ["0002:03:00.0"], "0009:03:00.0": []}
    selected = machine.info().look(["nics"], functions=["0002:03:00.0"])
    assert [row["pci"] for row in selected["dma_functions"]] == ["0008:03:00.0"]


def test_ordinary_nodes_have_no_dma_functions(tmp_path: Path) -> None:
    assert Machine(tmp_path, recorded("connectx8-12-ports")).look()["dma_functions"] == []
