# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets and live nodes: verify names the differences of a server, and discovery names the preset of a server."""

from __future__ import annotations

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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset_differences import differences
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND
from tests.unit.fabric import live_nodes, verify_nodes
from tests.unit.node import test_info as device_nodes
from tests.unit.node.trees import INFINIBAND, NETWORK, Tree

Row = t.Dict[str, t.Any]
NODE = "ai-3"
# The codes of presets. A test here causes each of them.
CODES = {"RV440", "RV441", "RV442", "RV443", "RV444"}
HEAD = """\
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: %s, provider: agent, mtu: %d%s}
rails: {count: %d, name: "gpu{n:02}", subnet: "172.{n+15}.0.0/24", hosts: .201-.253, pods: .1-.200, gateway: .254}
units: {su1: {nodes: 32, leaf: "leaf-{n}", leaf_port: "swp{i}"}}
profiles:
"""


def plan(name: str, overrides: str = "") -> Plan:
    """Four nodes with a preset. hosts.yml sets the names of RDMA devices."""
    preset = PRESETS[name]
    layer = preset.link_layer or "ethernet"
    kind = {"ethernet": ("host-device", 4200, ""), "infiniband": ("ib-sriov", 2044, ", vfs: {count: 4}")}[layer]
    rails = range(1, len(preset.ports) + 1)
    ports = ", ".join("gpu%02d: {netdev: rail%02d, rdma: mlx5_gpu%02d}" % (rail, rail, rail) for rail in rails)
    profile = "  server: {preset: %s, ports: {%s}%s}\n" % (name, ports, overrides)
    return verify_nodes.plan(4, HEAD % (*kind, len(preset.ports)) + profile)


def world(name: str, overrides: str = "") -> verify_nodes.World:
    made = verify_nodes.World(plan(name, overrides))
    for info in made.infos.values():
        info["system"]["product"] = (PRESETS[name].product or "Server").replace("-", " ")
    return made


def found(made: verify_nodes.World) -> list[tuple[str, str | None, str | None]]:
    """The failures and warnings of presets and of ports: code, node, what was found."""
    verdict = made.document(layers=["driver"])
    rows = [*verdict["failures"], *verdict["warnings"]]
    return [(row["code"], row["node"], row["found"]) for row in rows if row["code"] < "RV5"]


def moved(made: verify_nodes.World, part: str, old: str, new: str | None) -> None:
    """Put a NIC or GPU of a node at another place, or remove it (None)."""
    rows = made.infos[NODE][part]
    (row,) = [row for row in rows if row["pci"] == old]
    if new:
        row["pci"] = new
    else:
        rows.remove(row)


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_server_as_in_its_preset_has_no_failure(name: str) -> None:
    assert found(world(name)) == []


def test_verify_names_a_gpu_at_another_place() -> None:
    made = world("oci-bm.gpu.h100.8")
    moved(made, "gpus", "0000:5b:00.0", "0000:5c:00.0")
    assert found(made) == [("RV441", NODE, "GPU 3 at 0000:5c:00.0, preset 0000:5b:00.0")]
    (failure,) = made.document(layers=["driver"])["failures"]
    assert failure["what"] == "differs from preset oci-bm.gpu.h100.8"


def test_a_missing_gpu_is_not_another_model() -> None:
    made = world("oci-bm.gpu.h100.8")
    moved(made, "gpus", "0000:5b:00.0", None)
    assert found(made) == [("RV209", NODE, "no such PCI function")] * 2  # two ports serve it


def test_verify_names_a_nic_at_another_place_and_the_rail_fails() -> None:
    made = world("dgx-h100")
    moved(made, "nics", "0000:40:00.0", "0000:41:00.0")
    assert found(made) == [
        ("RV440", NODE, "gpu02 (OSFP3P2): no NIC at 0000:40:00.0; NIC at 0000:41:00.0"),
        ("RV201", NODE, "no PCI function 0000:40:00.0"),
    ]


def test_a_missing_nic_is_reported_for_its_rail_only() -> None:
    made = world("dgx-h100")
    moved(made, "nics", "0000:40:00.0", None)
    assert found(made) == [("RV201", NODE, "no PCI function 0000:40:00.0")]


def test_both_functions_of_a_nic_with_planes_are_compared() -> None:
    """Each is the function of a plane, and the rail of both is the same."""
    preset = PRESETS["oci-bm.gpu.gb300.4"]
    functions = {port.pci: "15b3" for port in preset.ports if not port.pci.startswith("0002:03")}
    rails = ["gpu01", "gpu01", "gpu02", "gpu02", "gpu03", "gpu03", "gpu04", "gpu04"]
    assert differences(preset, rails, functions, []).ports == [
        "gpu02: no NIC at 0002:03:00.0",
        "gpu02: no NIC at 0002:03:00.1",
    ]


def test_other_ports_are_warnings() -> None:
    made = world("dgx-h100")
    moved(made, "nics", "0000:82:00.0", None)
    made.infos[NODE]["nics"].append(dict(made.nic(NODE, "gpu01"), pci="0000:aa:00.2", netdev="x1"))
    assert found(made) == [
        ("RV442", NODE, "slot3p1: no NIC at 0000:82:00.0"),
        ("RV443", NODE, "NIC at 0000:aa:00.2"),
    ]
    assert made.document(layers=["driver"])["failures"] == []


def test_verify_names_another_product() -> None:
    made = world("dell-xe9680-h200-bf3")
    made.infos[NODE]["system"]["product"] = "PowerEdge XE9680L"
    assert found(made) == [("RV444", NODE, "PowerEdge-XE9680L")]
    made.infos[NODE]["system"]["product"] = None
    assert found(made) == []


def test_what_the_file_overrides_is_not_compared() -> None:
    overrides = ', other_ports: {vcn0: {pci: "0000:1e:00.0"}, vcn1: null}'
    numbers = dict(PRESETS["oci-bm.gpu.h100.8"].gpus)
    numbers[3] = "0000:5c:00.0"
    overrides += ", gpus: {%s}" % ", ".join('%d: "%s"' % item for item in numbers.items())
    made = world("oci-bm.gpu.h100.8", overrides)
    assert found(made) == []
    moved(made, "nics", "0000:1e:00.0", "0000:1f:00.0")
    moved(made, "gpus", "0000:5c:00.0", "0000:5b:00.0")
    assert [code for code, _node, _found in found(made)] == ["RV209", "RV209"]


# -- discovery ---------------------------------------------------------------------------------------------------------


def discovered(infos: t.Sequence[NodeInfo]) -> tuple[Outcome, Row]:
    outcome = run(infos, Options(name="ai"))
    made = lint(outcome.text.encode("utf-8")).plan
    assert made, (outcome.text, [each.text() for each in outcome.lint])
    return outcome, made.document()


def presets_of(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in outcome.findings if each.code in ("DS320", "DS321", "DS322")]


@pytest.mark.parametrize("name", ["dgx-h100", "dell-xe9680-h200-bf3", "oci-bm.gpu.mi300x.8", "oci-bm.gpu.h100.8"])
def test_discovery_writes_the_preset_of_a_server(name: str) -> None:
    preset = PRESETS[name]
    outcome, document = discovered(live_nodes.nodes_of(plan(name)))
    ((code, message),) = presets_of(outcome)
    assert code == "DS320" and preset.document.title in message
    assert "preset: %s" % preset.names[0] in outcome.text
    functions = [port.pci for port in preset.ports]
    assert [port["pci"] for port in document["nodes"][0]["ports"]] == functions
    assert not any('"%s"' % pci in outcome.text for pci in functions)
    others = {other["pci"] for other in document["nodes"][0]["other_ports"]}
    assert others == {other.pci for other in preset.other_ports or ()} | {live_nodes.MANAGEMENT}


@pytest.mark.parametrize("layer", ["ethernet", "infiniband"])
def test_a_device_tree_of_a_dgx_h100_is_the_preset_and_nothing_else(tmp_path: Path, layer: str) -> None:
    """The guide has the names, one PCIe switch connects each GPU with its NIC, and rail_info reads the tree."""
    preset, tree, links = PRESETS["dgx-h100"], Tree(tmp_path), []
    kind, arphrd = (NETWORK, 1) if layer == "ethernet" else (INFINIBAND, ARPHRD_INFINIBAND)
    for at, port in enumerate(preset.ports):
        bus = int(port.pci[5:7], 16)
        switch = "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0" % (bus - 3, bus - 3, bus - 2)
        tree.function("%s/0000:%02x:00.0/%s" % (switch, bus - 1, port.pci), kind, device="1021", numa=at // 4)
        tree.function("%s/0000:%02x:01.0/0000:%02x:00.0" % (switch, bus - 1, bus + 3), "0x030200", "10de", numa=at // 4)
        tree.netdev(port.pci, port.netdev(layer) or "", speed="400000")
        tree.rdma(port.pci, port.rdma or "")
        links.append(device_nodes.link(port.netdev(layer) or "", at + 1, type=arphrd))
    for at, other in enumerate(preset.other_ports or (), 20):
        bus = int(other.pci[5:7], 16)
        pci = tree.function("pci0000:%02x/0000:%02x:01.0/%s" % (bus - 1, bus - 1, other.pci), vendor="8086")
        tree.netdev(pci, "other%d" % at, speed="10000")
        links.append(device_nodes.link("other%d" % at, at))
    info = device_nodes.node(tree, links).look(["nics", "gpus", "vfs"])
    outcome = run([NodeInfo("ai-%d" % number, None, info) for number in (1, 2)], Options(name="ai"))
    assert presets_of(outcome)[0][0] == "DS320"
    profile = yaml.safe_load(outcome.text)["profiles"]["server"]
    assert list(profile) == ["preset", "speed", "gpus", "gpu_distance"]
    assert (profile["preset"], profile["gpu_distance"], profile["gpus"]["7"]) == ("dgx-h100", "PIX", "0000:df:00.0")


def test_discovery_names_the_differences_and_overrides_the_preset() -> None:
    infos = live_nodes.nodes_of(plan("oci-bm.gpu.h200.8"))
    for info in infos:
        rename = {"0000:41:00.0": "0000:42:00.0", "0000:5b:00.0": "0000:5c:00.0"}
        for part in ("nics", "rdma", "gpus"):
            for row in info.result[part]:
                row["pci"] = rename.get(row["pci"], row["pci"])
        for row in info.result["gpus"]:
            row["nics"] = {rename.get(pci, pci): near for pci, near in row["nics"].items()}
    outcome, document = discovered(infos)
    ports, gpus = presets_of(outcome)
    assert {ports[0], gpus[0]} == {"DS321"}
    assert ports[1].endswith(": gpu03: no NIC at 0000:41:00.0; NIC at 0000:42:00.0")
    assert gpus[1].endswith(": GPU 3 at 0000:5c:00.0, preset 0000:5b:00.0")
    assert "preset: oci-bm.gpu.h200.8" in outcome.text and 'pci: "0000:42:00.0"' in outcome.text
    assert document["nodes"][0]["ports"][2]["pci"] == "0000:42:00.0"
    assert document["nodes"][0]["gpus"]["3"] == "0000:5c:00.0"


def test_a_preset_of_another_link_layer_is_not_proposed() -> None:
    """The ports of a shape with Ethernet, on nodes with InfiniBand."""
    infos = live_nodes.nodes_of(plan("oci-bm.gpu.mi300x.8"))
    for info in infos:
        for row in (*info.result["nics"], *info.result["rdma"]):
            row["link_layer"] = "infiniband"
        for nic in info.result["nics"]:
            nic["mtu"] = 2044
    outcome = run(infos, Options(name="ai"))
    assert presets_of(outcome) == [] and "preset:" not in outcome.text


def test_equal_ports_are_not_enough() -> None:
    """The rail ports of a GB200 with the GPUs and other ports of another server."""
    infos = live_nodes.nodes_of(plan("oci-bm.gpu.gb200.4"))
    rename = {"0006:09:00.0": "0005:09:00.0", "0016:0b:00.0": "0015:0b:00.0"}
    rename.update((pci, pci.replace(":01:", ":07:")) for pci in PRESETS["oci-bm.gpu.gb200.4"].gpus.values() if pci)
    for info in infos:
        for row in (*info.result["nics"], *info.result["gpus"]):
            row["pci"] = rename.get(row["pci"], row["pci"])
    outcome = run(infos, Options(name="ai"))
    assert presets_of(outcome) == []


def test_the_order_of_rails_decides() -> None:
    """Names of netdevs put the ports on other rails than the preset."""
    infos = live_nodes.nodes_of(plan("dgx-h100"))
    swapped = {"rail01": "rail02", "rail02": "rail01", "rail03": "rail04", "rail04": "rail03", "rail05": "rail06"}
    swapped["rail06"] = "rail05"
    for info in infos:
        for row in (*info.result["nics"], *info.result["rdma"]):
            row["netdev"] = swapped.get(row["netdev"], row["netdev"])
        for nic in info.result["nics"]:
            nic["rdma"] = [device.replace("mlx5_gpu", "mlx5_") for device in nic["rdma"]]
        for device in info.result["rdma"]:
            device["device"] = device["device"].replace("mlx5_gpu", "mlx5_")
        info.result["ip"] = {"addresses": [], "routes": [], "rules": []}
    outcome = run(infos, Options(name="ai"))
    ((code, message),) = presets_of(outcome)
    assert (code, "to other rails" in message) == ("DS322", True)
    assert "    preset:" not in outcome.text


def test_half_of_the_ports_are_not_a_preset() -> None:
    infos = live_nodes.nodes_of(plan("dgx-h100"))
    for info in infos:
        for part in ("nics", "rdma"):
            for row in info.result[part]:
                row["pci"] = (
                    row["pci"].replace("0000:9", "0000:8").replace("0000:c", "0000:8").replace("0000:d", "0000:7")
                )
        for row in info.result["gpus"]:
            row["nics"] = {
                pci.replace("0000:9", "0000:8").replace("0000:c", "0000:8").replace("0000:d", "0000:7"): near
                for pci, near in row["nics"].items()
            }
    outcome, _document = discovered(infos)
    assert presets_of(outcome) == [] and "preset:" not in outcome.text
