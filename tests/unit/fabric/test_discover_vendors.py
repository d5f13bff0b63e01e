# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers with NICs and GPUs beside NVIDIA's: ``rail_info`` reads their device trees, and discovery proposes rails."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import NodeInfo, run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node import test_info as nodes
from tests.unit.node.trees import Tree

ROOT = Path(__file__).resolve().parents[3]
RECORDED = json.loads((ROOT / "tests/recordings/sysfs/oci-mi355x.json").read_text(encoding="utf-8"))
LINK = re.compile(r"link (\w+)/1 state ACTIVE physical_state LINK_UP netdev (\w+)")


class Card(t.NamedTuple):
    """A NIC, and the GPU below the same switch. ``vendor``: the vendor ID and device ID of the NIC."""

    pci: str
    netdev: str
    rdma: str
    gpu: str
    vendor: tuple[str, str]
    driver: str


def tree_of(tmp_path: Path, cards: t.Sequence[Card], gpu: tuple[str, str]) -> dict[str, t.Any]:
    """Return what rail_info reads of a server with these cards, each with its GPU below a switch, and a port for
    management."""
    tree = Tree(tmp_path)
    links = []
    for number, card in enumerate(cards):
        numa = number * 2 // len(cards)
        root = "pci0000:%02x/0000:%02x:01.1/0000:%02x:00.0" % (3 * number, 3 * number, 3 * number + 1)
        pci = tree.function(
            "%s/0000:%02x:00.0/%s" % (root, 3 * number + 2, card.pci), "0x020000", *card.vendor, numa=numa
        )
        tree.driver(pci, card.driver)
        tree.netdev(pci, card.netdev, speed="400000")
        tree.rdma(pci, card.rdma, "Ethernet")
        links.append(nodes.link(card.netdev, number + 1, mtu=9000))
        tree.function("%s/0000:%02x:01.0/%s" % (root, 3 * number + 2, card.gpu), "0x120000", *gpu, numa=numa)
    place = tree.function("pci0000:fe/0000:fe:00.0", vendor="15b3", device="101d")
    tree.driver(place, "mlx5_core")
    tree.netdev(place, "ens9np0", speed="100000")
    links.append(nodes.link("ens9np0", 99))
    management = ManagementPath({"ens9np0": "carries this connection"}, {place: "ens9np0 carries this connection"})
    found: dict[str, t.Any] = nodes.node(tree, links, management_of=lambda system: management).look(
        ["nics", "gpus", "vfs"]
    )
    return found


def proposed(info: dict[str, t.Any], count: int = 2) -> dict[str, t.Any]:
    names = ["ai-%d" % number for number in range(1, count + 1)]
    outcome = run([NodeInfo(name, None, info) for name in names], Options(name="ai", mtu=9000))
    # nodes without addresses leave the networks open; the profile must be valid
    left = {finding.code for finding in lint(outcome.text.encode()).findings if finding.severity == "error"}
    assert left <= {"RY111"}, outcome.lint
    profile: dict[str, t.Any] = yaml.safe_load(outcome.text)["profiles"]["server"]
    return profile


def worked(name: str) -> dict[str, t.Any]:
    """Return the only profile of a worked inventory."""
    text = (ROOT / "inventories" / name / "fabric.yml").read_text(encoding="utf-8")
    (profile,) = yaml.safe_load(text)["profiles"].values()
    return t.cast("dict[str, t.Any]", profile)


def places(profile: dict[str, t.Any]) -> dict[str, tuple[str, str, int]]:
    return {rail: (port["pci"], port["netdev"], port["gpu"]) for rail, port in profile["ports"].items()}


def recorded_cards() -> list[Card]:
    """The NICs of ``rdma link``, whose netdevs name the bus, each with the GPU five buses after it."""
    found = []
    for device, netdev in (t.cast("re.Match[str]", LINK.match(line)).groups() for line in RECORDED["rdma_link"]):
        if device.startswith("ionic"):
            bus = int(netdev[3:-2])
            gpu = "0000:%02x:00.0" % (bus + 5)
            assert gpu in RECORDED["gpus"]
            found.append(Card("0000:%02x:00.0" % bus, netdev, device, gpu, ("1dd8", "1002"), "ionic"))
    return found


def test_a_recorded_server_gives_the_worked_inventory(tmp_path: Path) -> None:
    cards = recorded_cards()
    assert len(cards) == 8
    info = tree_of(tmp_path, cards, ("1002", "75a3"))
    assert [row["pci"] for row in info["gpus"]] == RECORDED["gpus"]
    assert {row["maker"] for row in info["gpus"]} == {"amd"}
    profile, wanted = proposed(info), worked("mi355x-pollara")
    assert places(profile) == places(wanted)
    for key in ("nic", "gpu_vendor", "speed"):
        assert profile[key] == wanted[key], key
    assert {int(number): pci for number, pci in profile["gpus"].items()} == wanted["gpus"]
    assert profile["gpu_distance"] == "PIX"


def test_thor2_gives_the_worked_inventory(tmp_path: Path) -> None:
    """The PCI addresses come from the inventory, which has examples."""
    wanted = worked("thor2")
    cards = [
        Card(
            port["pci"],
            port["netdev"],
            "bnxt_re%d" % at,
            "0000:%s:00.1" % port["pci"][5:7],
            ("14e4", "1760"),
            "bnxt_en",
        )
        for at, port in enumerate(wanted["ports"].values())
    ]
    profile = proposed(tree_of(tmp_path, cards, ("1002", "74a1")))
    assert places(profile) == places(wanted)
    assert (profile["nic"], profile["gpu_vendor"], profile["speed"]) == ("bnxt_re", "amd", 400)


@pytest.mark.parametrize(
    ("vendor", "driver", "gpu", "nic", "gpu_vendor"),
    [
        (("8086", "1592"), "ice", ("1002", "75a3"), "irdma", "amd"),
        # the default maker needs no key
        (("15b3", "1021"), "mlx5_core", ("10de", "2330"), None, None),
        # a driver that no family has
        (("14e4", "1657"), "tg3", ("10de", "2330"), None, None),
    ],
)
def test_only_other_families_and_makers_are_named(
    tmp_path: Path,
    vendor: tuple[str, str],
    driver: str,
    gpu: tuple[str, str],
    nic: str | None,
    gpu_vendor: str | None,
) -> None:
    cards = [
        Card("0000:%02x:00.0" % bus, "enp%ds0" % bus, "roce%d" % bus, "0000:%02x:00.0" % (bus + 5), vendor, driver)
        for bus in (8, 33)
    ]
    profile = proposed(tree_of(tmp_path, cards, gpu))
    assert (profile.get("nic"), profile.get("gpu_vendor")) == (nic, gpu_vendor)


def test_a_server_with_nics_of_two_families_names_none(tmp_path: Path) -> None:
    cards = [
        Card("0000:08:00.0", "enp8s0", "ionic_0", "0000:0d:00.0", ("1dd8", "1002"), "ionic"),
        Card("0000:21:00.0", "enp33s0", "bnxt_re0", "0000:26:00.0", ("14e4", "1760"), "bnxt_en"),
    ]
    profile = proposed(tree_of(tmp_path, cards, ("1002", "75a3")))
    assert "nic" not in profile and len(profile["ports"]) == 2
