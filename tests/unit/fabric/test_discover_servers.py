# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real server types: recorded distances become device trees, ``rail_info`` reads them, and discovery proposes rails."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import (
    NodeInfo,
    Outcome,
    run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node import plane_devices
from tests.unit.node import test_info as nodes
from tests.unit.node.trees import INFINIBAND, NETWORK, Tree

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "topo"
ALL = sorted(path.stem for path in RECORDINGS.glob("*.json"))
Row = t.Dict[str, t.Any]


def recorded(name: str) -> Row:
    return t.cast(Row, json.loads((RECORDINGS / (name + ".json")).read_text(encoding="utf-8")))


class Server:
    """A device tree with the recorded distances between GPUs and NICs.

    A switch holds what is PIX; a switch of switches what is PXB; a root bus what is PHB; a NUMA node what is NODE.
    """

    def __init__(self, tree: Tree, infos: Row, infiniband: bool = False, speeds: t.Sequence[int] = ()) -> None:
        self.tree, self.infos, self.infiniband = tree, infos, infiniband
        self.rows = {int(gpu): text.split() for gpu, text in infos["rows"].items()}
        self.links: list[t.Any] = []
        self.names: dict[int, str] = {}
        buses: dict[str, int] = {}
        for gpu in self.rows:
            tree.function(self._gpu(gpu, buses), "0x030200", "10de", "2330", self._gpu_numa(gpu))
        for card in infos["cards"]:
            for at, number in enumerate(card):
                self._nic(number, card[0], at, buses, speeds)
        place = tree.function("pci0000:fe/0000:fe:00.0", vendor="8086", device="1563")
        tree.netdev(place, "eno1", speed="10000")
        self.links.append(nodes.link("eno1", 99))

    def _close(self, nic: int) -> tuple[str, int]:
        """The nearest class of a NIC, and the first GPU that is so near."""
        order = ("PIX", "PXB", "PHB", "NODE", "SYS")
        best = min((self.rows[gpu][nic] for gpu in self.rows), key=order.index)
        return best, next(gpu for gpu in self.rows if self.rows[gpu][nic] == best)

    def _gpu_numa(self, gpu: int) -> int:
        """GPUs that have a NIC in common nearer than SYS are on one processor."""
        for nic in range(len(self.infos["nics"])):
            if self.rows[gpu][nic] != "SYS":
                return next(each for each in self.rows if self.rows[each][nic] != "SYS")
        return gpu

    def _root(self, gpu: int) -> int:
        """GPUs with a NIC in common nearer than NODE are below one root bus."""
        for nic, how in enumerate(self.rows[gpu]):
            if how in ("PIX", "PXB", "PHB"):
                return next(each for each in self.rows if self.rows[each][nic] in ("PIX", "PXB", "PHB"))
        return gpu

    def _top(self, gpu: int) -> str:
        bus = 0x10 + 0x10 * self._root(gpu)
        return "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0" % (bus, bus, bus + 1)

    def _gpu(self, gpu: int, buses: dict[str, int]) -> str:
        root = 0x10 + 0x10 * self._root(gpu)
        if "PXB" in self.rows[gpu]:
            return "%s/0000:%02x:%02x.0/0000:%02x:00.0/0000:%02x:00.0/0000:%02x:00.0" % (
                *(self._top(gpu), root + 2, gpu, root + 3 + 3 * (gpu % 2), root + 4 + 3 * (gpu % 2)),
                root + 5 + 3 * (gpu % 2),
            )
        if "PIX" in self.rows[gpu]:
            return "%s/0000:%02x:00.0/0000:%02x:00.0" % (self._top(gpu), root + 2, root + 3)
        return "pci0000:%02x/0000:%02x:02.0/0000:%02x:00.0" % (root, root, root + 8)

    def _nic(self, number: int, first: int, at: int, buses: dict[str, int], speeds: t.Sequence[int]) -> None:
        how, gpu = self._close(first)
        root = 0x10 + 0x10 * self._root(gpu)
        numa = self._gpu_numa(gpu)
        if how == "PIX":
            path = "%s/0000:%02x:01.0/0000:%02x:00.%d" % (self._top(gpu), root + 2, root + 6, at)
        elif how == "PXB":
            path = "%s/0000:%02x:1%d.0/0000:%02x:00.%d" % (
                self._top(gpu),
                root + 2,
                first % 8,
                root + 0xA + first % 2,
                at,
            )
        elif how == "PHB":
            path = "pci0000:%02x/0000:%02x:03.0/0000:%02x:00.%d" % (root, root, root + 9, at)
        else:
            bus = 0xA0 + 2 * first
            path = "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.%d" % (bus, bus, bus + 1, at)
            numa = numa if how == "NODE" else -1
        kind = INFINIBAND if self.infiniband and self.infos["nics"][number] == self.infos["nics"][0] else NETWORK
        pci = self.tree.function(path, kind, device=self.infos["nics"][number], numa=numa)
        name = "nic%d" % number
        self.tree.netdev(pci, name, speed=str((speeds[number] if speeds else 400) * 1000))
        self.tree.rdma(pci, "mlx5_%d" % number)
        layer = ARPHRD_INFINIBAND if kind == INFINIBAND else 1
        self.links.append(nodes.link(name, number + 1, type=layer, mtu=9000))
        self.names[number] = pci

    def look(self) -> Row:
        management = ManagementPath(
            {"eno1": "carries this connection"}, {"0000:fe:00.0": "eno1 carries this connection"}
        )
        found: Row = nodes.node(self.tree, self.links, management_of=lambda system: management).look(
            ["nics", "gpus", "vfs"]
        )
        return found


def discovered(server: Server, count: int = 2) -> tuple[Outcome, list[tuple[str, str, t.Any]]]:
    """The outcome, and each rail with its port's name and GPUs."""
    result = server.look()
    outcome = run(
        [NodeInfo("ai-%d" % number, None, result) for number in range(1, count + 1)], Options(name="ai", mtu=9000)
    )
    ports = yaml.safe_load(outcome.text)["profiles"]["server"]["ports"]
    return outcome, [(rail, port["netdev"], port.get("gpu")) for rail, port in ports.items()]


def findings(outcome: Outcome) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in outcome.findings:
        found.setdefault(finding.code, []).append(finding.message)
    return {code: found[code] for code in found if code[:3] == "DS2"}


def others(outcome: Outcome) -> dict[str, str]:
    listed = yaml.safe_load(outcome.text)["profiles"]["server"]["other_ports"]
    return {name: port["role"] for name, port in listed.items()}


@pytest.mark.parametrize("name", ALL)
def test_the_trees_have_the_recorded_distances(tmp_path: Path, name: str) -> None:
    infos = recorded(name)
    server = Server(Tree(tmp_path), infos)
    gpus = server.look()["gpus"]
    order = sorted(server.rows, key=lambda gpu: server._gpu(gpu, {}).rpartition("/")[2])
    assert [[row["nics"][server.names[nic]] for nic in range(len(infos["nics"]))] for row in gpus] == [
        server.rows[gpu] for gpu in order
    ]
    assert order == sorted(order)


def test_eight_gpus_each_with_a_switch(tmp_path: Path) -> None:
    """HGX H100: one NIC for each GPU, and one beside a processor that is for something else."""
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("hgx-h100")))
    wanted = [0, 1, 2, 4, 5, 6, 7, 8]
    assert rails == [("gpu%02d" % (at + 1), "nic%d" % nic, at) for at, nic in enumerate(wanted)]
    assert findings(outcome) == {} and others(outcome) == {"nic3": "storage", "eno1": "management"}
    assert "gpu_distance: PIX" in outcome.text and "speed: 400" in outcome.text


def test_eight_gpus_on_infiniband(tmp_path: Path) -> None:
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("hgx-h100"), infiniband=True))
    assert len(rails) == 8 and "attachment: host-device" in outcome.text and "link_layer: infiniband" in outcome.text
    assert lint(outcome.text.encode()).plan, outcome.lint


def test_pairs_of_gpus_with_pairs_of_nics(tmp_path: Path) -> None:
    """DGX A100: two NICs below the switch of two GPUs, each as near to both; storage ports are on no such switch."""
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("dgx-a100")))
    wanted = [0, 1, 2, 3, 6, 7, 4, 5]
    assert rails == [("gpu%02d" % (at + 1), "nic%d" % nic, at) for at, nic in enumerate(wanted)]
    assert findings(outcome) == {
        "DS203": [
            "nic%d and nic%d are equally near to GPUs %d, %d" % (nic, nic + 1, gpu, gpu + 1)
            for gpu, nic in ((0, 0), (2, 2), (4, 6), (6, 4))
        ]
    }
    assert {others(outcome)["nic%d" % nic] for nic in (8, 9, 10, 11)} == {"storage"}


def test_four_gpus_with_two_cards_of_two_ports(tmp_path: Path) -> None:
    """Each processor has two GPUs and a card of two ports: four rails, and a finding: the ports are alike."""
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("four-gpu")))
    assert rails == [("gpu%02d" % (at + 1), "nic%d" % at, at) for at in range(4)]
    assert findings(outcome) == {
        "DS203": [
            "nic0 and nic1 are equally near to GPUs 0, 1",
            "nic2 and nic3 are equally near to GPUs 2, 3",
        ]
    }
    assert "gpu_distance: NODE" in outcome.text


def test_cards_of_two_ports_beside_each_gpu_are_planes(tmp_path: Path) -> None:
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("dual-port")))
    assert rails == [
        ("gpu%02dp%d" % (gpu + 1, plane + 1), "nic%d" % (2 * gpu + plane), gpu) for gpu in range(8) for plane in (0, 1)
    ]
    assert findings(outcome) == {}
    assert others(outcome) == {"nic16": "storage", "nic17": "storage", "eno1": "management"}


def test_ports_that_cannot_be_divided_evenly_among_gpus(tmp_path: Path) -> None:
    """Three GPUs and a card of two ports: a finding reports why no rail is certain."""
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("three-gpu")))
    assert [netdev for _rail, netdev, _gpu in rails] == ["nic0", "nic1"]
    assert findings(outcome)["DS202"] == ["nic0 and nic1 cannot be divided evenly among GPUs 0, 1, 2"]
    assert "# DECIDE gpu-nic-count-mismatch (DS202)" in outcome.text


def test_grace_reports_no_distance(tmp_path: Path) -> None:
    """GB200: each GPU has a PCI domain of its own, and every NIC is SYS: only the model shows the rails' ports."""
    outcome, rails = discovered(Server(Tree(tmp_path), recorded("gb200")))
    assert rails == [("gpu%02d" % (at + 1), "nic%d" % at, at) for at in range(4)]
    reported = findings(outcome)
    assert (
        reported["DS204"] == ["all NICs have the same distance to all GPUs (SYS)"]
        and "# DECIDE no-gpu-affinity (DS204)" in outcome.text
    )
    assert reported["DS206"] == ["nic4 and nic5 are not on the rails by model, for GPUs 0, 1, 2, 3"]
    assert others(outcome) == {"nic4": "storage", "nic5": "storage", "eno1": "management"}


def test_speed_decides_if_models_are_equal(tmp_path: Path) -> None:
    infos = dict(recorded("gb200"), nics=["1021"] * 6)
    outcome, rails = discovered(Server(Tree(tmp_path), infos, speeds=[400, 400, 100, 100, 400, 400]))
    assert [netdev for _rail, netdev, _gpu in rails] == ["nic0", "nic1", "nic4", "nic5"]
    assert "DS206" in findings(outcome)
    alike, rails = discovered(Server(Tree(tmp_path / "alike"), infos))
    assert len(rails) == 6 and findings(alike)["DS202"] == [
        "nic0, nic1, nic2, nic3, nic4 and nic5 are equally near to GPUs 0, 1, 2, 3"
    ]


def test_a_server_with_more_cards_than_gpus(tmp_path: Path) -> None:
    """Dell B200: two GPUs have two SuperNICs each, two have a DPU of lower speed beside their own, whose one port is
    Open vSwitch's way out; the four InfiniBand functions are the NVLink switches'."""
    infos = json.loads((RECORDINGS.parent / "sysfs" / "dell-b200.json").read_text(encoding="utf-8"))
    tree = Tree(tmp_path)
    links = []
    for number, row in enumerate(infos["functions"], 1):
        pci = tree.function(row["path"], row["class"], row["vendor"], row["device"], row["numa"])
        netdev = infos["netdevs"].get(pci)
        if netdev:
            infiniband = row["class"] == INFINIBAND
            layer = ARPHRD_INFINIBAND if infiniband else 1
            tree.netdev(pci, netdev["name"], type=str(layer), speed=str(netdev["speed"] or -1))
            tree.rdma(pci, netdev["rdma"], "InfiniBand" if infiniband else "Ethernet")
            links.append(nodes.link(netdev["name"], number, type=layer, mtu=9000))
    route = infos["route"]["netdev"]
    tree.write("/proc/net/route", "Iface\tDestination\n%s\t00000000\t0\t0003\t0\t0\t0\t00000000" % route)
    tree.write("/sys/class/net/%s/type" % route, "1")
    for name in infos["route"]["ovs"]:
        tree.link("/sys/class/net/ovs-system/lower_" + name, "/sys/class/net/" + name)
    management = ManagementPath.observe(tree.system())
    assert management.why_card("0000:5f:00.0") == "ens39f1np1 is part of br-ex, which carries the default route"
    result = nodes.node(tree, links, management_of=lambda system: management).look(["nics", "gpus", "vfs"])
    outcome = run([NodeInfo("ai-%d" % number, None, result) for number in (1, 2)], Options(name="ai", mtu=9000))
    ports = yaml.safe_load(outcome.text)["profiles"]["server"]["ports"]
    first = ["18", "3a", "4d", "5d", "9b", "ba", "ca", "db"]
    assert [port["pci"][5:7] for port in ports.values()] == first + ["1a", "cc"]
    assert [port.get("gpu") for port in ports.values()] == list(range(8)) + [None, None]
    assert findings(outcome) == {
        "DS202": [
            "ens40f0np0 and ens42f0np0 are equally near to GPU 0",
            "ens36f0np0 and ens34f0np0 are equally near to GPU 6",
        ],
        "DS206": ["ens33f0np0 and ens33f1np1 are not on the rails by speed, for GPU 5"],
    }
    roles = others(outcome)
    assert roles.pop("ens39f1np1") == roles.pop("ens39f0np0") == "management"
    assert sorted(roles) == ["ens33f0np0", "ens33f1np1", "ibo6", "ibo7", "ibo8", "ibo9"]


@pytest.mark.parametrize("paired", [True, False])
def test_a_gb300_pairs_gpus_and_nics_by_their_data_direct_functions(tmp_path: Path, paired: bool) -> None:
    """Two pairs of NVIDIA's guide: in the order of PCI addresses, which decides otherwise, they are crosswise."""
    recording = plane_devices.recorded("data-direct")
    for row in recording["functions"] if not paired else ():
        row.pop("uuid")
    infos = plane_devices.Machine(tmp_path, recording).look()
    outcome = run([NodeInfo("tray-01", "10.0.0.1", dict(infos, system={"rdma_mode": "shared"}))], Options("ai"))
    assert outcome.text
    profile = next(iter(yaml.safe_load(outcome.text)["profiles"].values()))
    by_pci = {port["pci"]: port["gpu"] for port in profile["ports"].values()}
    if paired:
        assert by_pci == {"0002:03:00.0": 0, "0000:03:00.0": 1}
        assert profile["gpu_distance"] == "PIX" and "DS204" not in findings(outcome)
    else:
        assert by_pci == {"0000:03:00.0": 0, "0002:03:00.0": 1} and "DS203" in findings(outcome)
