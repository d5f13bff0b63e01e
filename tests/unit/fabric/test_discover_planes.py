# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Discovery of NICs with several planes and of several NICs per GPU.

Devices of ``tests/recordings/planes`` become trees, ``rail_info`` reads them, and discovery proposes rails. Other
layouts are rows in the format of ``rail_info``.
"""

from __future__ import annotations

import copy
import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import NodeInfo
from tests.unit.fabric.test_discover_layouts import (
    Row,
    bond,
    codes,
    device,
    discovered,
    info,
    nic,
    nodes,
    of,
    proposed,
)
from tests.unit.node.plane_devices import Machine, recorded

CX7, CX8, CX9 = "1021", "1023", "1025"
DUAL_PORT = "NVIDIA ConnectX-7 VPI adapter card, 200Gb/s, dual-port QSFP112, PCIe 5.0 x16"
HARDWARE = {"count": 4, "balancing": "hardware"}


def machine(root: Path, name: str) -> Row:
    found = Machine(root, recorded(name)).look()
    return dict(found, ip={"addresses": [], "routes": [], "rules": []}, system={"rdma_mode": "shared"})


def of_planes(outcome: t.Any) -> set[str]:
    """The codes of findings about balancing, NICs and planes."""
    return {code for code in codes(outcome) if code in ("DS103", "DS202", "DS313", "DS314", "DS315", "DS316")}


def card(
    bus: str, count: int, model: str = CX8, devices: str = "own", **values: t.Any
) -> tuple[list[Row], list[Row], list[str]]:
    """The functions of a NIC, the ports of its RDMA devices, and its netdevs.

    :param devices: ``own``: a device per function; ``ports``: one with a port per function; ``bond``: one with a port.
    """
    netdevs = ["e%s_%d" % (bus, at) for at in range(count)]
    functions = ["0000:%s:00.%d" % (bus, at) for at in range(count)]
    first = {"own": "mlx5_%d" % int(bus, 16), "ports": "roce_%s" % bus, "bond": "mlx5_bond_%d" % int(bus, 16)}[devices]
    names = ["%s%d" % (first, at) if devices == "own" else first for at in range(count)]
    nics = [
        {**nic(pci, name, [names[at]] if devices == "own" or not at else ()), "device": model, **values}
        for at, (pci, name) in enumerate(zip(functions, netdevs))
    ]
    if devices == "own":
        rdma = [device(name, pci, netdev) for name, pci, netdev in zip(names, functions, netdevs)]
    elif devices == "ports":
        rdma = [device(first, functions[0], netdev, 3 * at + 3) for at, netdev in enumerate(netdevs)]
    else:
        rdma = [device(first, functions[0], netdevs[0])]
    return nics, rdma, netdevs


Cards = t.Sequence[t.Tuple[t.List[Row], t.List[Row], t.List[str]]]


def server(*gpus: Cards) -> Row:
    """A node with these cards beside each GPU."""
    cards = [each for of_gpu in gpus for each in of_gpu]
    near = [[row["pci"] for nics, _rdma, _names in of_gpu for row in nics] for of_gpu in gpus]
    return info([row for each in cards for row in each[0]], [row for each in cards for row in each[1]], (), near)


def addresses(netdevs: t.Sequence[str]) -> t.Callable[[int], dict[str, str]]:
    """Each netdev has a network of its own."""
    return lambda number: {name: "172.16.%d.%d/24" % (at + 1, number) for at, name in enumerate(netdevs)}


# -- recorded devices --------------------------------------------------------------------------------------------------


def test_a_device_with_twelve_ports_is_a_nic_with_four_planes(tmp_path: Path) -> None:
    template = machine(tmp_path, "connectx8-12-ports")
    outcome, file = discovered(nodes(template, addresses(["eth_r0_p0", "eth_r1_p0"])))
    assert {name: rail["planes"] for name, rail in file["rails"].items()} == {"r0": HARDWARE, "r1": HARDWARE}
    ports = file["profiles"]["server"]["ports"]
    assert ports["r0"] == {
        **{"netdev": "eth_r0_p0", "pci": "0000:03:00.0", "planes": [3, 6, 9, 12], "rdma": "roce_r0", "gpu": 0}
    }
    assert file["profiles"]["server"]["speed"] == 200 and "other_ports" not in file["profiles"]["server"]
    assert of_planes(outcome) == set()


def test_functions_with_one_device_are_the_planes_of_their_nic(tmp_path: Path) -> None:
    """ConnectX-9 in a tray with two NICs of four planes per GPU."""
    template = machine(tmp_path, "connectx9-bond")
    outcome, file = discovered(nodes(template, addresses(["enp3s0f0np0", "enp6s0f0np0"])))
    (rail,) = file["rails"].values()
    assert rail["planes"] == HARDWARE and len(rail["nics"]) == 2
    ports = file["profiles"]["server"]["ports"]
    assert list(ports) == ["gpu01n1", "gpu01n2"]
    assert ports["gpu01n2"]["rdma"] == "mlx5_bond_1"
    assert ports["gpu01n2"]["planes"] == [
        {"netdev": "enp6s0f%dnp%d" % (at, at), "pci": "0000:06:00.%d" % at} for at in range(4)
    ]
    assert of_planes(outcome) == {"DS315"}


def test_eight_functions_of_a_card_are_eight_planes(tmp_path: Path) -> None:
    template = machine(tmp_path, "connectx8-8-functions")
    outcome, file = discovered(nodes(template, addresses(["ens1f%d" % at for at in range(8)])))
    assert list(file["rails"]) == ["gpu01"] and len(file["rails"]["gpu01"]["planes"]) == 8
    assert list(file["profiles"]["server"]["ports"]) == ["gpu01p%d" % plane for plane in range(1, 9)]
    assert of_planes(outcome) == set()


def test_dma_functions_are_not_ports(tmp_path: Path) -> None:
    template = machine(tmp_path, "data-direct")
    _outcome, file = discovered(nodes(template, addresses(["enp3s0f0np0", "enP2p3s0f0np0"])))
    profile = file["profiles"]["server"]
    # The DMA functions pair the first GPU with the second NIC.
    assert [port["pci"] for port in profile["ports"].values()] == ["0002:03:00.0", "0000:03:00.0"]
    assert "other_ports" not in profile and "planes" not in profile["ports"]["gpu01"]


def test_a_sub_device_is_not_a_port(tmp_path: Path) -> None:
    """The fabric has the planes of InfiniBand XDR: the rail has one port, and the NIC has its device."""
    outcome, file = proposed([NodeInfo("ai-1", None, machine(tmp_path, "xdr-smi"))])
    assert list(file["profiles"]["server"]["ports"]) == ["gpu01"] and of_planes(outcome) == set()
    assert "smi1" not in outcome.text


# -- hardware balancing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("devices", ["ports", "bond"])
def test_one_device_and_one_address_are_hardware_balancing(count: int, devices: str) -> None:
    cards = [card(bus, count, devices=devices) for bus in ("18", "29")]
    outcome, file = discovered(nodes(server(cards[:1], cards[1:]), addresses([each[2][0] for each in cards])))
    assert {name: rail["planes"] for name, rail in file["rails"].items()} == {
        name: {"count": count, "balancing": "hardware"} for name in ("gpu01", "gpu02")
    }
    port = file["profiles"]["server"]["ports"]["gpu02"]
    assert [plane["pci"] for plane in port["planes"]] == ["0000:29:00.%d" % at for at in range(count)]
    assert [plane.get("rdma_port") for plane in port["planes"]] == [
        3 * at + 3 if devices == "ports" else None for at in range(count)
    ]
    assert of_planes(outcome) == set()


def test_another_plane_may_have_the_address() -> None:
    cards = [card(bus, 4, devices="ports") for bus in ("18", "29")]
    outcome, file = discovered(nodes(server(cards[:1], cards[1:]), addresses([each[2][2] for each in cards])))
    ports = file["profiles"]["server"]["ports"]
    found = {rail: (port["netdev"], port["pci"]) for rail, port in ports.items()}
    assert found == {"gpu01": ("e18_2", "0000:18:00.2"), "gpu02": ("e29_2", "0000:29:00.2")}
    assert of_planes(outcome) == set()


@pytest.mark.parametrize("count", [4, 8])
def test_a_bond_of_all_functions_of_a_nic_has_its_planes(count: int) -> None:
    """The members of the bond are the planes, and a finding requests a check by the user."""
    nics, rdma, names = card("18", count, CX9, "bond")
    for row in nics:
        row["master"] = "bond0"
    template = info(nics, rdma, [bond("bond0", names, ["mlx5_bond_24"])], [[row["pci"] for row in nics]])
    outcome, file = discovered(nodes(template, addresses(["bond0"])))
    assert file["rails"]["gpu01"]["planes"] == {"count": count, "balancing": "hardware"}
    port = file["profiles"]["server"]["ports"]["gpu01"]
    assert len(port["bond"]["members"]) == count and "planes" not in port
    (message,) = of(outcome, "DS314")
    assert message.startswith("bond0 has %d functions of a NIC that can balance over planes" % count)


def test_a_bond_of_two_functions_is_a_question() -> None:
    nics, rdma, names = card("18", 2, CX8, "bond")
    for row in nics:
        row["master"] = "bond0"
    template = info(nics, rdma, [bond("bond0", names, ["mlx5_bond_24"])], [[row["pci"] for row in nics]])
    outcome, file = discovered(nodes(template, addresses(["bond0"])))
    assert "planes" not in file["rails"]["gpu01"]
    assert of(outcome, "DS314") == ["bond0 has two functions of a NIC that can balance over planes"]
    for row in nics:
        row["device"] = CX7
    template = info(nics, rdma, [bond("bond0", names, ["mlx5_bond_24"])], [[row["pci"] for row in nics]])
    assert "DS314" not in codes(discovered(nodes(template, addresses(["bond0"])))[0])


# -- software balancing and cards with two ports -----------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("devices", ["own", "ports"])
def test_an_address_for_each_plane_is_software_balancing(count: int, devices: str) -> None:
    cards = [card(bus, count, devices=devices) for bus in ("18", "29")]
    names = [name for each in cards for name in each[2]]
    outcome, file = discovered(nodes(server(cards[:1], cards[1:]), addresses(names)))
    assert {name: len(rail["planes"]) for name, rail in file["rails"].items()} == {"gpu01": count, "gpu02": count}
    ports = file["profiles"]["server"]["ports"]
    assert list(ports) == ["gpu%02dp%d" % (rail, plane) for rail in (1, 2) for plane in range(1, count + 1)]
    assert [port["netdev"] for port in ports.values()] == names
    assert of_planes(outcome) == set()


@pytest.mark.parametrize("product", [DUAL_PORT, "ConnectX-8 C8240, 2-port OSFP", "Dual Port 200GbE"])
def test_the_ports_of_a_card_with_two_ports_are_not_planes(product: str) -> None:
    """k8s-launch-kit decides by the same name: https://github.com/NVIDIA/k8s-launch-kit/pull/99."""
    cards = [card(bus, 2, product_name=product) for bus in ("18", "29")]
    names = [name for each in cards for name in each[2]]
    outcome, _file = proposed(nodes(server(cards[:1], cards[1:]), addresses(names)))
    assert "planes" not in outcome.text and "DS202" in codes(outcome)
    cards = [card(bus, 2, devices="ports", product_name=product) for bus in ("18", "29")]
    outcome, _file = proposed(nodes(server(cards[:1], cards[1:]), addresses([each[2][0] for each in cards])))
    assert "hardware" not in outcome.text


@pytest.mark.parametrize("product", [None, "NVIDIA ConnectX-8 C8180, 1-port OSFP224", "BlueField-3 SuperNIC"])
def test_functions_of_other_cards_are_planes(product: str | None) -> None:
    cards = [card(bus, 2, product_name=product) for bus in ("18", "29")]
    names = [name for each in cards for name in each[2]]
    _outcome, file = discovered(nodes(server(cards[:1], cards[1:]), addresses(names)))
    assert {name: len(rail["planes"]) for name, rail in file["rails"].items()} == {"gpu01": 2, "gpu02": 2}


def test_two_ports_of_an_older_card_are_two_rails() -> None:
    """A ConnectX-3 has one RDMA device with two ports. It does not balance, with any addresses."""
    nics, rdma, names = card("18", 2, "1007", "ports")
    template = info(nics, rdma, (), [[nics[0]["pci"]], [nics[1]["pci"]]])
    for known in (names, names[:1], []):
        outcome, file = proposed(nodes(template, addresses(known)))
        assert list(file["profiles"]["server"]["ports"]) == ["gpu01", "gpu02"] and "hardware" not in outcome.text


# -- what nodes do not show --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "known", "planes"),
    [
        # a device with a port for each plane serves both
        ("ports", 0, {"count": 4, "balancing": "hardware"}),
        # each function has a device, and none or one an address
        ("own", 0, 4),
        ("own", 1, 4),
    ],
)
def test_balancing_that_nodes_do_not_show_is_a_question(devices: str, known: int, planes: t.Any) -> None:
    cards = [card(bus, 4, devices=devices) for bus in ("18", "29")]
    infos = nodes(server(cards[:1], cards[1:]), addresses([name for each in cards for name in each[2][:known]]))
    outcome, file = proposed(infos)
    assert of_planes(outcome) == {"DS313"}
    own = file["rails"]["gpu01"]["planes"]
    assert own == planes if isinstance(own, dict) else len(own) == planes
    (finding,) = [each for each in outcome.findings if each.code == "DS313"]
    assert finding.severity == "error" and finding.place == ("rails",)
    assert "gpu01" in finding.message and "planes" in finding.remedy
    assert "DECIDE undecided-balancing (DS313)" in outcome.text


@pytest.mark.parametrize("model", [CX7, "1017", "a2dc"])
def test_functions_of_nics_without_hardware_balancing_are_not_a_question(model: str) -> None:
    cards = [card(bus, 2, model) for bus in ("18", "29")]
    outcome, _file = proposed(nodes(server(cards[:1], cards[1:]), addresses([])))
    assert of_planes(outcome) == set()


@pytest.mark.parametrize(("model", "asked"), [(CX7, False), (CX8, True), (CX9, True)])
def test_a_nic_with_one_port_may_have_planes_inside(model: str, asked: bool) -> None:
    cards = [card(bus, 1, model) for bus in ("18", "29")]
    outcome, file = discovered(nodes(server(cards[:1], cards[1:]), addresses([each[2][0] for each in cards])))
    assert of_planes(outcome) == ({"DS316"} if asked else set()) and "planes" not in file["rails"]["gpu01"]


# -- several NICs per GPU ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nics", "planes", "devices"),
    [(2, 1, "own"), (2, 2, "own"), (2, 4, "ports"), (2, 8, "bond"), (4, 1, "own")],
)
def test_several_nics_per_gpu_belong_to_one_rail(nics: int, planes: int, devices: str) -> None:
    buses = ["%02x" % (0x18 + 8 * at) for at in range(2 * nics)]
    cards = [card(bus, planes, CX7 if devices == "own" else CX9, devices) for bus in buses]
    names = [name for each in cards for name in (each[2] if devices == "own" else each[2][:1])]
    outcome, file = discovered(nodes(server(cards[:nics], cards[nics:]), addresses(names)))
    entries = [
        "gpu%02dn%d%s" % (rail, number, "p%d" % plane if devices == "own" and planes > 1 else "")
        for rail in (1, 2)
        for number in range(1, nics + 1)
        for plane in range(1, (planes if devices == "own" else 1) + 1)
    ]
    ports = file["profiles"]["server"]["ports"]
    assert list(ports) == entries and [port["netdev"] for port in ports.values()] == names
    assert [port["gpu"] for port in ports.values()] == [0] * (len(entries) // 2) + [1] * (len(entries) // 2)
    rail = file["rails"]["gpu02"]
    assert len(rail["nics"]) == nics
    if devices != "own":
        assert rail["planes"] == {"count": planes, "balancing": "hardware"}
    assert of_planes(outcome) == {"DS315"}
    # a second discovery finds the same names
    again, same = discovered(nodes(server(cards[:nics], cards[nics:]), addresses(names)))
    assert same["rails"] == file["rails"] and again.text == outcome.text


@pytest.mark.parametrize(
    ("second", "kept"),
    [({"device": "101d"}, "model"), ({"speed": 100000}, "speed"), ({"carrier": False}, "carrier")],
)
def test_nics_that_differ_do_not_belong_to_one_rail(second: Row, kept: str) -> None:
    cards = [card(bus, 1, CX7, **(second if at % 2 else {})) for at, bus in enumerate(("18", "29", "3a", "4b"))]
    outcome, file = proposed(nodes(server(cards[:2], cards[2:]), addresses([each[2][0] for each in cards[::2]])))
    assert list(file["profiles"]["server"]["ports"]) == ["gpu01", "gpu02"]
    assert all("by %s" % kept in message for message in of(outcome, "DS206")) and of_planes(outcome) == set()


def test_gpus_with_different_numbers_of_nics_are_a_question() -> None:
    cards = [card(bus, 1, CX7) for bus in ("18", "29", "3a")]
    outcome, _file = proposed(nodes(server(cards[:2], cards[2:]), addresses([each[2][0] for each in cards])))
    assert "DS202" in codes(outcome) and "nics" not in outcome.text


def test_names_of_nics_and_planes_are_kept() -> None:
    """Devices that hosts.yml has named."""
    buses = ("18", "29")
    cards = [card(bus, 2, CX7) for bus in buses]
    template = server(cards)
    for at, row in enumerate(template["nics"][:4]):
        name = "mlx5_gpu07n%dp%d" % (at // 2 + 1, at % 2 + 1)
        template["rdma"][at]["device"], row["rdma"] = name, [name]
    _outcome, file = discovered(nodes(template, addresses([name for each in cards for name in each[2]])))
    assert list(file["rails"]) == ["gpu07"]
    assert list(file["profiles"]["server"]["ports"]) == ["gpu07n1p1", "gpu07n1p2", "gpu07n2p1", "gpu07n2p2"]


# -- order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", ["own", "ports", "bond"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_and_vfs_do_not_change_the_file(devices: str, seed: int) -> None:
    """VFs of plane 1 come before the PF of plane 2, or anywhere else."""
    cards = [card(bus, 4, devices=devices) for bus in ("18", "29")]
    names = [name for each in cards for name in (each[2] if devices == "own" else each[2][:1])]
    infos = nodes(server(cards[:1], cards[1:]), addresses(names))
    _outcome, file = discovered(infos)
    mixed = copy.deepcopy(infos)
    for each in mixed:
        rows = each.result["rdma"]
        for at in range(6):
            rows.insert(0, device("aa_vf%d" % at, "0000:18:01.%d" % at, "avf%d" % at))
        for part in ("nics", "rdma", "gpus"):
            random.Random(seed).shuffle(each.result[part])
    _outcome, again = discovered(mixed)
    assert again == file
