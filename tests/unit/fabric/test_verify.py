# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One harm, one failure: with the right code, node, rail and cause; and nothing where nothing is wrong."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Missing,
    grouped,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, after
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine, verify_output
from tests import work
from tests.unit.fabric.test_narrowing import CODES as NARROWING_CODES
from tests.unit.fabric.test_presets_on_nodes import CODES as PRESET_CODES
from tests.unit.fabric.test_verify_baselines import BASELINE_CODES
from tests.unit.fabric.test_verify_congestion import CONGESTION_CODES
from tests.unit.fabric.test_verify_layouts import CODES as LAYOUT_CODES
from tests.unit.fabric.test_verify_nvlink import CODES as NVLINK_CODES
from tests.unit.fabric.test_verify_planes import CODES as PLANE_CODES
from tests.unit.fabric.test_verify_pods import AGENT_HARMS
from tests.unit.fabric.test_verify_pods import HARMS as POD_HARMS
from tests.unit.fabric.test_verify_soak import SOAK_CODES
from tests.unit.fabric.verify_nodes import ABOUT, SERVERS, Row, World, only_failure, plan

ROOT = Path(__file__).resolve().parents[3]
NODE, RAIL = "ai-2", "gpu03"
Harm = t.Callable[[World], t.Any]


@pytest.fixture
def world() -> World:
    return World(plan())


def found(world: World, kind: str = "verify", **asked: t.Any) -> list[tuple[str, str | None, str | None]]:
    return [(each["code"], each["node"], each["rail"]) for each in world.document(kind, **asked)["failures"]]


def test_a_fabric_as_planned_has_no_findings(world: World) -> None:
    for kind in ("verify", DRIFT):
        verdict = world.document(kind)
        assert (verdict["ok"], verdict["failures"], verdict["warnings"]) == (True, [], [])
        assert {cell for row in verdict["matrix"].values() for cell in row.values()} == {"ok"}
        assert all(layer["failed"] == layer["not_checked"] == 0 for layer in verdict["layers"])
    assert [layer["name"] for layer in world.document()["layers"]] == list(LAYERS)


def _simulated(file: Path) -> t.Any:
    """The plan; None if no world can be made of it, which needs names of ports, addresses and leaves."""
    made = lint(file.read_bytes()).plan
    assert made, file
    ports = [port for node in made.document()["nodes"] for port in node["ports"]]
    named = all(port["rdma"]["name"] is not None and not port["match"] for port in ports)
    return made if named and all(port["address"] and port["leaf"] for port in ports) else None


FILES = sorted((ROOT / "inventories").glob("*/fabric.yml"))
WORKED = {file.parent.name: plan for file, plan in zip(FILES, map(_simulated, FILES)) if plan}


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_as_planned_are_green(name: str) -> None:
    """Whatever attachment, link layer and addressing: what hosts.yml makes is what verify expects."""
    made = WORKED[name]
    world = World(made)
    assert world.document()["failures"] == []


# -- one harm, one failure -------------------------------------------------------------------------------------------


def vfs_gone(world: World) -> None:
    world.nic(NODE, RAIL)["vfs"] = 0
    world.infos[NODE]["vfs"] = [row for row in world.infos[NODE]["vfs"] if row["pf"] != world.nic(NODE, RAIL)["pci"]]
    change = {"subject": "0000:03:00.0", "attribute": "sriov_numvfs", "before": 0, "after": 2}
    world.states[NODE]["sriov_vfs"] = {"changes": [change]}


def vf_trust(world: World) -> None:
    row = next(row for row in world.infos[NODE]["vfs"] if row["pf"] == "0000:03:00.0" and row["index"] == 1)
    row["attributes"]["trust"] = False


def link_down(world: World) -> None:
    """A port that is set down loses its routes and its device, and is not reached."""
    world.nic(NODE, RAIL).update(up=False, carrier=False, speed=None)
    world.device(NODE, RAIL).update(state="DOWN")
    for row in world.of(NODE, RAIL, "routes"):
        world.drop(NODE, "routes", row)
    world.lose(NODE, RAIL, error="Network is unreachable")
    changes = [
        {"subject": "ens3", "attribute": "state", "before": "down", "after": "up"},
        {"subject": "ens3", "attribute": "route default table 103", "before": None, "after": "x", "kind": "route"},
    ]
    world.states[NODE]["rail_ports"] = {"changes": changes}


def cable_out(world: World) -> None:
    world.nic(NODE, RAIL).update(carrier=False, speed=None)
    world.device(NODE, RAIL).update(state="DOWN")
    world.infos[NODE]["lldp"] = [row for row in world.infos[NODE]["lldp"] if row["netdev"] != "ens3"]
    world.lose(NODE, RAIL)


def small_mtu(world: World) -> None:
    world.nic(NODE, RAIL)["mtu"] = 1500
    world.lose(NODE, RAIL, {"small": True, "path_mtu": 1500}, error="Message too long")
    change = {"subject": "ens3", "attribute": "mtu", "before": 1500, "after": 4200}
    world.states[NODE]["rail_ports"] = {"changes": [change]}


def no_device(world: World) -> None:
    world.infos[NODE]["rdma"].remove(world.device(NODE, RAIL))
    for row in [row for row in world.infos[NODE]["gids"] if row["device"] == "mlx5_gpu03"]:
        world.infos[NODE]["gids"].remove(row)
    for transfer in world.transfers(NODE, RAIL):
        transfer.update(gbits=None, error="there is no RDMA device mlx5_gpu03")


def renamed(world: World) -> None:
    for row in [*world.infos[NODE]["rdma"], *world.infos[NODE]["gids"]]:
        row["device"] = "mlx5_2" if row["device"] == "mlx5_gpu03" else row["device"]
    for transfer in world.transfers(NODE, RAIL):
        transfer.update(gbits=None, error="there is no RDMA device mlx5_gpu03")


def address_gone(world: World) -> None:
    (row,) = world.of(NODE, RAIL, "addresses")
    world.drop(NODE, "addresses", row)
    for route in world.of(NODE, RAIL, "routes"):
        world.drop(NODE, "routes", route)
    # rail_info reports a rule by its address
    rules = world.infos[NODE]["ip"]["rules"]
    rules.remove(next(row for row in rules if row["from"] == "172.16.13.202/32"))
    gid = next(row for row in world.infos[NODE]["gids"] if row["device"] == "mlx5_gpu03")
    world.infos[NODE]["gids"].remove(gid)
    world.lose(NODE, RAIL, error="no socket from 172.16.13.202 on ens3: Cannot assign requested address")


def other_prefix(world: World) -> None:
    world.of(NODE, RAIL, "addresses")[0]["address"] = "172.16.13.202/25"


def route_gone(world: World) -> None:
    world.drop(NODE, "routes", world.of(NODE, RAIL, "routes", to="0.0.0.0/0")[0])


def other_gateway(world: World) -> None:
    world.of(NODE, RAIL, "routes", to="0.0.0.0/0")[0]["via"] = "172.16.13.1"


def rule_gone(world: World) -> None:
    rules = world.infos[NODE]["ip"]["rules"]
    rules.remove(next(row for row in rules if row["from"] == "172.16.13.202/32"))
    change = {"subject": "rule 10003", "attribute": "from 172.16.13.202", "before": None, "after": "lookup 103"}
    world.states[NODE]["rail_ports"] = {"changes": [dict(change, kind="rule", port="ens3")]}


def sysctl(key: str, value: int) -> Harm:
    def act(world: World) -> None:
        world.infos[NODE]["sysctls"]["ens3"][key] = value

    return act


def extra_default(world: World) -> None:
    route = {"netdev": "ens3", "to": "0.0.0.0/0", "via": "172.16.13.254", "table": None}
    world.infos[NODE]["ip"]["routes"].append(route)


def leak_table(world: World) -> None:
    world.infos[NODE]["ip"]["routes"].append({"netdev": "ens3", "to": "172.16.99.0/24", "via": None, "table": 101})


def leak_main(world: World) -> None:
    world.infos[NODE]["ip"]["routes"].append({"netdev": "ens3", "to": "172.16.11.0/25", "via": None, "table": None})


def twice(world: World) -> None:
    """ai-2 has ai-1's address too: it reports so itself, and ai-1 gets an answer of ai-2."""
    row = {"netdev": "ens3", "address": "172.16.13.201/24", "secondary": True}
    world.infos[NODE]["ip"]["addresses"].append(row)
    heard = {"netdev": "ens3", "address": "172.16.13.201", "macs": [world.nic(NODE, RAIL)["mac"]]}
    world.infos["ai-1"]["duplicates"].append(heard)


def twice_elsewhere(world: World) -> None:
    heard = {"netdev": "ens3", "address": "172.16.13.202", "macs": ["02:99:00:00:00:01"]}
    world.infos[NODE]["duplicates"].append(heard)
    world.lose(NODE, RAIL, received=2)


def gid_gone(world: World) -> None:
    world.infos[NODE]["gids"] = [row for row in world.infos[NODE]["gids"] if row["device"] != "mlx5_gpu03"]
    for transfer in world.transfers(NODE, RAIL):
        transfer.update(gbits=None, error="mlx5_gpu03 has no RoCE v2 GID for 172.16.13.202")


def v1_gid(world: World) -> None:
    next(row for row in world.infos[NODE]["gids"] if row["device"] == "mlx5_gpu03")["type"] = "RoCE v1"


def hears(world: World, node: str, rail: str, leaf: str, port: str) -> None:
    row = next(row for row in world.infos[node]["lldp"] if row["netdev"] == world.port(node, rail)["netdev"])
    row.update(system=leaf, chassis="00:1b:54:c2:01:%s" % leaf[-2:].replace("-", "0"), port=port)


def swapped(world: World) -> None:
    hears(world, NODE, RAIL, "leaf-4", "swp2")
    hears(world, NODE, "gpu04", "leaf-3", "swp2")
    for rail, other in ((RAIL, "gpu04"), ("gpu04", RAIL)):
        world.lose(NODE, rail, {"answers": [other]})


def swapped_unheard(world: World) -> None:
    for info in world.infos.values():
        info["lldp"] = []
    for rail, other in ((RAIL, "gpu04"), ("gpu04", RAIL)):
        world.lose(NODE, rail, {"answers": [other]})


def other_leaf(world: World) -> None:
    hears(world, NODE, RAIL, "spine-9", "swp7")
    world.lose(NODE, RAIL)


def other_port(world: World) -> None:
    hears(world, NODE, RAIL, "leaf-3", "swp9")


def slow(world: World) -> None:
    world.nic(NODE, RAIL)["speed"] = 100000
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 96.0


def narrow(world: World) -> None:
    world.nic(NODE, RAIL)["pcie"]["width"] = 4
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 96.0


def congested(world: World) -> None:
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 200.0


def no_perftest(world: World) -> None:
    """Neither as a server nor as a client is there anything to be had of it."""
    world.refused[NODE] = "perftest: ib_write_bw is not installed"
    world.probes[NODE] = []
    for rows in world.probes.values():
        for row in rows:
            if row["peer"] == NODE:
                row.update(ok=False, transfer=None, error="the other side has no server: it was not started")


def fails_rdma(world: World) -> None:
    for transfer in world.transfers(NODE, RAIL):
        transfer.update(gbits=None, error="ib_write_bw ended with 1: Couldn't connect", remedy="run it by hand")


def no_server(world: World) -> None:
    for row in [row for rows in world.probes.values() for row in rows]:
        if row["rail"] == RAIL and row["peer"] == NODE:
            row.update(ok=False, transfer=None, error="the other side has no server: ib_write_bw is not installed")


def lldp_other_rails(world: World) -> None:
    """Another network's neighbour: what is heard is neither the rail's leaf nor any other rail's."""
    hears(world, NODE, RAIL, "office", "Gi0/1")


def closed(world: World) -> None:
    next(row for row in world.probes[NODE] if row["rail"] == RAIL)["cross"]["open"] = False


def opened(world: World) -> None:
    world.fabric["routing"]["cross_rail"] = False
    for rows in world.probes.values():
        for row in rows:
            row["cross"]["open"] = False
    next(row for row in world.probes[NODE] if row["rail"] == RAIL)["cross"]["open"] = True


def gpu_moved(world: World) -> None:
    world.infos[NODE]["gpus"][2]["nics"][world.nic(NODE, RAIL)["pci"]] = "SYS"


def gpu_lost(world: World) -> None:
    world.infos[NODE]["gpus"] = [row for row in world.infos[NODE]["gpus"] if row["pci"] != "0000:1a:00.0"]


def refuses(world: World) -> None:
    errors = [{"place": "ports[2].mtu (gpu03)", "message": "ens3 takes an MTU from 68 to 1500", "remedy": "plan one"}]
    errors[0]["port"] = "gpu03"
    world.states[NODE]["rail_ports"] = {"failed": True, "msg": "x", "errors": errors, "changes": []}


def refuses_by_number(world: World) -> None:
    error = {"place": "ports[2].netdev", "message": "there is no netdev ens3 here", "remedy": "compare", "port": "ens3"}
    world.states[NODE]["rdma_link"] = {"failed": True, "msg": "x", "errors": [error], "changes": []}


def state(module: str, **change: t.Any) -> Harm:
    def act(world: World) -> None:
        world.states[NODE][module] = {"changes": [dict({"before": 1, "after": 2}, **change)]}

    return act


def not_ready(*missing: Missing) -> Harm:
    def act(world: World) -> None:
        assert world.cluster is not None
        world.cluster["missing"] += [each._asdict() for each in grouped(missing)]

    return act


def differs(world: World) -> None:
    assert world.cluster is not None
    change = {"subject": "SpiderIPPool ai-gpu03", "attribute": "spec.ips", "before": ["a"], "after": ["b"]}
    world.cluster["changes"] += [change, dict(change, attribute="spec.gateway")]


def withheld(field: str) -> Harm:
    """As ``kube_ready`` returns it: a disabled pool is missing too."""

    def act(world: World) -> None:
        assert world.cluster is not None
        (group,) = grouped([Missing("SpiderIPPool ai-gpu03", "gives less", "set it back", field)])
        found = group._asdict()
        world.cluster["withheld"] = [found]
        if field == "spec.disable":
            world.cluster["missing"].append(found)

    return act


def refused(world: World) -> None:
    assert world.cluster is not None
    error = {"place": "SpiderIPPool ai-gpu03", "message": "1-9 overlaps with 5-6 of SpiderIPPool x", "remedy": "change"}
    world.cluster["refused"] = [error]


HARMS: list[tuple[str, Harm, str, str | None, str | None]] = [
    ("node down", lambda w: w.dark.update({NODE: "Connection timed out"}), "RV001", NODE, None),
    (
        "agent stopped",
        state("rail_agent", subject="railyard-agent.service", attribute="service", before="inactive", after="started"),
        *("RV005", NODE, None),
    ),
    (
        "health service stopped",
        state(
            "health_service", subject="railyard-health.service", attribute="service", before="failed", after="started"
        ),
        *("RV007", NODE, None),
    ),
    ("firmware", state("mlx_linktype", subject="0000:03:00.0", attribute="SRIOV_EN"), "RV101", NODE, RAIL),
    ("NIC gone", lambda w: w.infos[NODE]["nics"].remove(w.nic(NODE, RAIL)), "RV201", NODE, RAIL),
    ("no driver", lambda w: w.nic(NODE, RAIL).update(driver=None, netdev=None), "RV202", NODE, RAIL),
    ("netdev in a pod", lambda w: w.nic(NODE, RAIL).update(netdev=None), "RV203", NODE, RAIL),
    ("renamed", lambda w: w.nic(NODE, RAIL).update(netdev="eth7"), "RV204", NODE, RAIL),
    ("VFs gone", vfs_gone, "RV205", NODE, RAIL),
    ("VF not trusted", vf_trust, "RV206", NODE, RAIL),
    ("PCIe x4", narrow, "RV207", NODE, RAIL),
    ("GPU in another slot", gpu_moved, "RV208", NODE, RAIL),
    ("GPU fell off", gpu_lost, "RV209", NODE, RAIL),
    ("driver package", state("nic_driver", subject="doca-ofed", attribute="version"), "RV210", NODE, None),
    ("IPoIB mode", state("ib_ports", subject="ens3", attribute="mode"), "RV408", NODE, RAIL),
    ("rdma mode", lambda w: w.infos[NODE]["system"].update(rdma_mode="shared"), "RV301", NODE, None),
    ("link set down", link_down, "RV401", NODE, RAIL),
    ("cable out", cable_out, "RV402", NODE, RAIL),
    ("100 Gb/s", slow, "RV403", NODE, RAIL),
    ("MTU 1500", small_mtu, "RV404", NODE, RAIL),
    ("RDMA device gone", no_device, "RV405", NODE, RAIL),
    ("RDMA device renamed", renamed, "RV406", NODE, RAIL),
    ("RDMA not ACTIVE", lambda w: w.device(NODE, RAIL).update(state="INIT"), "RV407", NODE, RAIL),
    ("address gone", address_gone, "RV501", NODE, RAIL),
    ("another prefix", other_prefix, "RV502", NODE, RAIL),
    ("route gone", route_gone, "RV504", NODE, RAIL),
    ("another gateway", other_gateway, "RV504", NODE, RAIL),
    ("rule gone", rule_gone, "RV505", NODE, RAIL),
    ("rp_filter strict", sysctl("rp_filter", 1), "RV506", NODE, RAIL),
    ("arp_ignore", sysctl("arp_ignore", 0), "RV506", NODE, RAIL),
    ("arp_announce", sysctl("arp_announce", 0), "RV506", NODE, RAIL),
    ("default route by a rail", extra_default, "RV507", NODE, RAIL),
    ("route in another rail's table", leak_table, "RV508", NODE, RAIL),
    ("route to another rail", leak_main, "RV508", NODE, RAIL),
    ("address of a neighbour", twice, "RV510", NODE, RAIL),
    ("address of a stranger", twice_elsewhere, "RV510", NODE, RAIL),
    ("GID gone", gid_gone, "RV511", NODE, RAIL),
    ("GID of RoCE v1", v1_gid, "RV511", NODE, RAIL),
    ("refused", refuses, "RV590", NODE, RAIL),
    ("refused by number", refuses_by_number, "RV590", NODE, RAIL),
    ("PFC off", state("roce_qos", subject="ens3", attribute="pfc"), "RV601", NODE, RAIL),
    ("MaxReadReq", state("pci_tuning", subject="0000:03:00.0", attribute="MaxReadReq"), "RV602", NODE, RAIL),
    ("kernel argument", state("kernel_arguments", subject="kernel", attribute="iommu"), "RV603", NODE, None),
    ("hugepages", state("rail_limits", subject="/sys/x/nr_hugepages", attribute="nr_hugepages"), "RV604", NODE, None),
    ("IMEX", state("imex_daemon", subject="nvidia-imex.service", attribute="active"), "RV448", NODE, None),
    ("peermem", state("gpudirect", subject="nvidia_peermem", attribute="loaded"), "RV605", NODE, None),
    ("another leaf", other_leaf, "RV701", NODE, RAIL),
    ("the office's switch", lldp_other_rails, "RV701", NODE, RAIL),
    ("swapped, heard", swapped, "RV702", NODE, RAIL),
    ("swapped, unheard", swapped_unheard, "RV702", NODE, RAIL),
    ("another leaf port", other_port, "RV704", NODE, RAIL),
    ("no VLAN", lambda w: w.lose(NODE, RAIL), "RV801", NODE, RAIL),
    ("leaf's MTU", lambda w: w.lose(NODE, RAIL, {"small": True, "path_mtu": 1500}), "RV802", NODE, RAIL),
    ("loss", lambda w: w.lose(NODE, RAIL, received=2), "RV803", NODE, RAIL),
    ("one way, unheard", lambda w: w.lose(NODE, RAIL, {"answers": ["gpu01"]}), "RV701", NODE, RAIL),
    ("rails closed", closed, "RV804", NODE, RAIL),
    ("rails open", opened, "RV805", NODE, RAIL),
    ("no server", no_server, "RV851", NODE, RAIL),
    ("no perftest", no_perftest, "RV851", NODE, None),
    ("transfer fails", fails_rdma, "RV852", NODE, RAIL),
    ("congested", congested, "RV853", NODE, RAIL),
    ("no API server", lambda w: (w.cluster or {}).update(error="refused"), "RV900", None, None),
    (
        "resource short",
        not_ready(Missing(NODE, "reports 1 of 2 spidernet.io/gpu03_sriov (rail gpu03)", "see %s" % NODE, rail=RAIL)),
        *("RV901", NODE, RAIL),
    ),
    ("pool edited", differs, "RV902", None, RAIL),
    ("pool disabled", withheld("spec.disable"), "RV905", None, RAIL),
    ("addresses excluded", withheld("spec.excludeIPs"), "RV906", None, RAIL),
    ("object refused", refused, "RV907", None, RAIL),
    (
        "network not taken up",
        not_ready(Missing("SpiderMultusConfig gpu03-sriov", "has no NetworkAttachmentDefinition", "x")),
        *("RV903", None, RAIL),
    ),
]


@pytest.mark.parametrize(("harm", "code", "node", "rail"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_one_fault_is_one_failure(world: World, harm: Harm, code: str, node: str | None, rail: str | None) -> None:
    harm(world)
    verdict = world.document()
    failure = only_failure(verdict, code, node, rail)
    assert failure["playbook"] is None or failure["playbook"].startswith("playbooks/")
    assert not verdict["ok"]
    # no other rail of any node suffers for it
    others = {
        (name, other)
        for name, row in verdict["matrix"].items()
        for other, cell in row.items()
        if cell == "failed" and name == node
    }
    assert others <= {(node, each) for each in failure["rails"]}


@pytest.mark.parametrize(
    ("harm", "code", "rail"), [(row[1], row[2], row[4]) for row in HARMS], ids=[r[0] for r in HARMS]
)
def test_one_fault_is_one_failure_of_two_nodes_that_probe_in_both_directions(
    harm: Harm, code: str, rail: str | None
) -> None:
    world = World(plan(2))
    assert sorted(world.pairs) == [["ai-1", "ai-2"], ["ai-2", "ai-1"]]
    harm(world)
    (failure,) = world.document()["failures"]
    assert (failure["code"], failure["rail"]) == (code, rail)
    assert failure["node"] is None or NODE in (failure["node"], failure["peer"])


def test_a_cause_names_what_was_seen(world: World) -> None:
    swapped(world)
    (failure,) = world.document()["failures"]
    assert failure["rails"] == [RAIL, "gpu04"]
    assert failure["expected"] == "gpu03 on leaf-3 swp2, gpu04 on leaf-4 swp2"
    assert failure["found"] == "gpu03 on leaf-4 swp2, gpu04 on leaf-3 swp2"


@pytest.mark.parametrize("nodes", [2, 3])
def test_the_faulty_node_is_unknown_of_two_and_found_of_three(nodes: int) -> None:
    world = World(plan(nodes))
    world.lose("ai-1", RAIL, {"small": True, "path_mtu": 1500})
    (failure,) = world.document()["failures"]
    assert (failure["code"], failure["found"]) == ("RV802", "1500 bytes pass")
    if nodes == 2:
        assert {failure["node"], failure["peer"]} == {"ai-1", "ai-2"}
    else:
        assert (failure["node"], failure["peer"]) == ("ai-1", None)


def test_two_harms_are_two_failures_and_a_rail_is_stopped_alone(world: World) -> None:
    link_down(world)
    rule = next(row for row in world.infos["ai-4"]["ip"]["rules"] if row["from"] == "172.16.11.204/32")
    world.infos["ai-4"]["ip"]["rules"].remove(rule)
    verdict = world.document()
    assert found(world) == [("RV401", NODE, RAIL), ("RV505", "ai-4", "gpu01")]
    assert verdict["matrix"][NODE] == {"gpu01": "ok", "gpu02": "ok", RAIL: "failed", "gpu04": "ok"}
    assert next(layer for layer in verdict["layers"] if layer["name"] == "address")["not_checked"] == 1


def test_an_additional_address_is_a_warning_with_the_planned_one(world: World) -> None:
    (row,) = world.of(NODE, RAIL, "addresses")
    world.infos[NODE]["ip"]["addresses"].append(dict(row, address="172.16.13.250/24"))
    (warning,) = world.document()["warnings"]
    assert (warning["code"], warning["expected"], warning["found"]) == ("RV503", row["address"], "172.16.13.250/24")


def test_a_route_that_takes_another_rails_packets_is_the_only_failure_of_both(world: World) -> None:
    leak_main(world)
    (before,) = world.document()["failures"]
    (other,) = (rail for rail in before["rails"] if rail != RAIL)
    world.lose(NODE, other, {})
    (failure,) = world.document()["failures"]
    assert (failure["code"], failure["rails"]) == ("RV508", [RAIL, other])


def test_unrelated_failures_do_not_suppress_a_loss(world: World) -> None:
    """A cable in the wrong port of the right leaf loses nothing."""
    other_port(world)
    world.lose(NODE, RAIL, {"small": True, "path_mtu": 1500})
    assert found(world) == [("RV704", NODE, RAIL), ("RV802", NODE, RAIL)]


def test_layers_and_rails_can_be_chosen(world: World) -> None:
    small_mtu(world)
    assert found(world, layers=["address"]) == []
    assert found(world, layers=["reach"]) == [("RV802", NODE, RAIL)]
    assert found(world, rails=["gpu01"]) == []
    chosen = world.document(layers=["link", "rdma"])
    assert [layer["name"] for layer in chosen["layers"]] == ["node", "link", "rdma"]
    assert chosen["asked"]["layers"] == ["link", "rdma"]


def test_an_unreachable_node_fails_in_junit_for_any_layers(world: World) -> None:
    world.dark[NODE] = "timed out"
    verdict = world.verdict(layers=["link"])
    written = verify_engine.document(verdict, ABOUT)
    assert {failure["layer"] for failure in written["failures"]} <= {layer["name"] for layer in written["layers"]}
    cases = xml.fromstring(verify_output.as_junit(verdict, written)).iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == [NODE]


def test_the_ports_of_an_unreachable_node_are_not_checked_by_any_layer_of_ports(world: World) -> None:
    world.dark[NODE] = "timed out"
    layers = {layer["name"]: layer for layer in world.document()["layers"]}
    for name in ("driver", "link", "address", "cabling"):
        assert layers[name]["not_checked"] == 4, name
        assert layers[name]["checked"] == 4 * (len(world.infos) - 1), name


def test_a_transfer_that_was_not_tried_because_packets_were_lost_is_reported_by_rdma_alone(world: World) -> None:
    """Between one pair only, so that both nodes' rails are proven with others."""
    row = next(row for row in world.probes[NODE] if row["rail"] == RAIL)
    row["reach"] = {"sent": 3, "received": 0, "rtt_ms": None, "error": ""}
    row.update(ok=False, transfer=None, cross=None, error="0 of 3 packets came back", remedy="see the leaf")
    failure = only_failure(world.document(layers=["rdma"]), "RV852", NODE, RAIL)
    assert (failure["peer"], failure["found"]) == (row["peer"], "0 of 3 packets came back")
    assert failure["remedy"] == "see the leaf"
    assert [each[0] for each in found(world)] == ["RV801"]


@pytest.fixture
def unitless() -> World:
    """Eight nodes of a file without units and leaves."""
    text = SERVERS[: SERVERS.index("units:")] + "nodes:\n  ai-[1:8]: {profile: server}\n"
    made = lint(text.encode()).plan
    assert made
    return World(made)


def on_leaf(world: World, nodes: t.Iterable[int], rail: str, leaf: str) -> None:
    for number in nodes:
        hears(world, "ai-%d" % number, rail, leaf, "swp%d" % number)


def test_a_rail_may_have_several_leaves_where_the_file_has_no_units(unitless: World) -> None:
    for at, rail in enumerate(("gpu01", "gpu02", "gpu03", "gpu04"), 1):
        on_leaf(unitless, range(5, 9), rail, "leaf-%d" % (at + 4))
    assert found(unitless) == []
    # one pair of leaves for all rails, which a port does not identify
    for rail in ("gpu01", "gpu02", "gpu03", "gpu04"):
        on_leaf(unitless, range(1, 5), rail, "leaf-1")
        on_leaf(unitless, range(5, 9), rail, "leaf-2")
    unitless.infos["ai-7"]["lldp"].pop()
    assert found(unitless) == []


def test_another_rails_leaf_is_reported_without_units(unitless: World) -> None:
    on_leaf(unitless, range(1, 9), "gpu01", "leaf-1")
    on_leaf(unitless, range(1, 9), "gpu02", "leaf-2")
    on_leaf(unitless, [3], "gpu01", "leaf-2")
    assert found(unitless) == [("RV703", "ai-3", "gpu01")]
    on_leaf(unitless, [3], "gpu02", "leaf-1")
    assert found(unitless) == [("RV703", "ai-3", "gpu01"), ("RV703", "ai-3", "gpu02")]
    for kept in ("ai-3", "ai-4"):  # of two nodes, too
        assert kept in unitless.plans
    for name in [name for name in unitless.plans if name not in ("ai-3", "ai-4")]:
        for held in (unitless.plans, unitless.infos, unitless.probes):
            del held[name]
    assert ("RV703", "gpu01") in {(code, rail) for code, _node, rail in found(unitless, layers=["cabling"])}


# -- what traffic has proven -----------------------------------------------------------------------------------------


def without(world: World, rail: str, pods: bool = True) -> World:
    """The rail was not probed; ``pods``: nor by test pods."""
    for rows in (*world.probes.values(), *(world.pod_probes.values() if pods else ())):
        rows[:] = [row for row in rows if row["rail"] != rail]
    return world


def ended(world: World, **asked: t.Any) -> tuple[list[tuple[str, t.Any]], list[tuple[str, t.Any]], Row]:
    """Failures and warnings with the rails that each is about, and the document."""
    verdict = world.document(**asked)
    reported = [[(each["code"], each["rails"]) for each in verdict[key]] for key in ("failures", "warnings")]
    return reported[0], reported[1], verdict


def test_rails_that_no_node_probed_are_not_well(world: World) -> None:
    failures, _warnings, verdict = ended(without(world, RAIL))
    assert failures == [("RV870", [RAIL])] and not verdict["ok"]
    failure = only_failure(verdict, "RV870", None, RAIL)
    assert (failure["cause"], failure["found"]) == ("it was not probed", "none")
    # not known to be well, and not known to be ill: nothing is cordoned for it
    assert {row[RAIL] for row in verdict["matrix"].values()} == {"not checked"}
    assert verdict["proof"][RAIL] == {"state": "not proven", "why": "it was not probed"}
    lines = verify_output.lines(world.verdict(), verdict, 120)
    assert lines[0] == "12 of 16 ports proven; 4 unknown: %s (it was not probed)" % RAIL
    assert verdict["ports"] == {"planned": 16, "good": 12, "failed": 0, "unknown": 4}
    step = "1. %s: no traffic proved the rail (RV870): expected traffic between nodes, found none. Remedy: " % RAIL
    assert any(line.startswith(step) for line in lines)


def test_a_budget_that_was_too_small_is_the_reason(world: World) -> None:
    failures, _warnings, verdict = ended(without(world, RAIL), budget=60.0)
    assert failures == [("RV870", [RAIL])]
    assert "within 60 seconds" in verdict["failures"][0]["cause"]
    assert "verify_budget" in verdict["failures"][0]["remedy"]


def test_an_unproven_rail_can_be_accepted(world: World) -> None:
    failures, warnings, verdict = ended(without(world, RAIL), unproven_allowed=True)
    assert (failures, warnings, verdict["ok"]) == ([], [("RV870", [RAIL])], True)
    assert verify_output.rails_proven(verdict) == 3 and verdict["proof"][RAIL]["state"] == "not proven"


def test_rails_proven_by_pods_are_proven(world: World) -> None:
    failures, warnings, verdict = ended(without(world, RAIL, pods=False))
    assert (failures, warnings) == ([], []) and verdict["proof"][RAIL]["state"] == "proven"


def test_layers_without_traffic_prove_nothing_and_do_not_fail(world: World) -> None:
    for layers in (["link"], ["link", "address", "qos"], ["kubernetes", "pods"]):
        failures, warnings, verdict = ended(without(world, RAIL), layers=layers)
        assert (failures, warnings, verdict["proof"], verdict["ok"]) == ([], [], None, True)
    # packets alone are traffic, too
    failures, _warnings, verdict = ended(world, layers=["reach"])
    assert failures == [("RV807", [RAIL])]
    assert verdict["headline"] == "12 of 16 ports reached; 4 unknown: %s (it was not probed)" % RAIL


def test_a_node_is_well_only_where_all_of_it_was_seen_to_be(world: World) -> None:
    """The input of the task that cordons nodes, and uncordons those without a bad rail."""
    assert verify_engine.bad_rails(world.verdict()) == {name: [] for name in world.plans}
    # a part proves nothing about the rest
    for asked in ({"layers": ["link"]}, {"layers": ["reach"]}, {"rails": ["gpu01"]}):
        assert verify_engine.bad_rails(world.verdict(**asked)) == {}
    assert verify_engine.bad_rails(world.verdict(DRIFT)) == {}
    world.dark["ai-1"] = "timed out"
    for rows in world.probes.values():
        rows[:] = [row for row in rows if row["peer"] != "ai-1"]
    world.probes["ai-1"].clear()
    world.lose(NODE, RAIL)
    assert verify_engine.bad_rails(world.verdict()) == {NODE: [RAIL], "ai-3": [], "ai-4": []}
    assert verify_engine.bad_rails(world.verdict(layers=["reach"])) == {NODE: [RAIL]}


def test_a_node_with_rails_that_nothing_can_prove_can_be_well() -> None:
    world = World(plan())
    for node in world.plans.values():
        port = node["ports"][3]
        port.update(address=None, gateway=None, table=None, rule_priority=None)
    for rows in world.probes.values():
        rows[:] = [row for row in rows if row["rail"] != "gpu04"]
    assert verify_engine.bad_rails(world.verdict()) == {name: [] for name in world.plans}
    # a budget that was too small for one that can be
    without(world, RAIL)
    assert verify_engine.bad_rails(world.verdict()) == {}


def test_one_node_alone_proves_nothing() -> None:
    world = World(plan(1))
    failures, _warnings, verdict = ended(world)
    assert failures == [("RV870", ["gpu01", "gpu02", RAIL, "gpu04"])]
    assert verdict["failures"][0]["cause"] == "a pair needs two nodes"
    assert verdict["headline"] == "0 of 4 ports proven; 4 unknown: gpu0[1-4] (a pair needs two nodes)"
    assert ended(world, unproven_allowed=True)[:2] == ([], [("RV870", ["gpu01", "gpu02", RAIL, "gpu04"])])
    assert ended(world, layers=["link", "address"])[:2] == ([], [])


def test_a_cause_that_left_rails_without_traffic_is_not_reported_twice() -> None:
    world = World(plan(2))
    world.dark["ai-2"] = "no route to host"
    world.pairs.clear()  # as the play chooses them: of nodes that can be read
    failures, _warnings, verdict = ended(world)
    assert failures == [("RV001", [])]
    assert {each["state"] for each in verdict["proof"].values()} == {"not proven"}
    assert verdict["proof"][RAIL]["why"].startswith("node-unreachable (RV001) ai-2: node: no route to host")


def test_a_node_that_could_not_serve_has_proven_nothing(world: World) -> None:
    world.refused[NODE] = "perftest: ib_write_bw is not installed"
    for rows in (*world.probes.values(), *world.pod_probes.values()):
        rows.clear()
    failures, _warnings, verdict = ended(world)
    assert ("RV851", []) in failures
    assert verify_output.rails_proven(verdict) == 0


UNADDRESSED = SERVERS.replace(
    'subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253', "mode: none"
)
INFINIBAND = UNADDRESSED.replace("attachment: sriov, provider: spiderpool", "attachment: ib-sriov").replace(
    "mtu: 4200, vfs: {count: 2, trust: true, spoofchk: false}", "provider: network-operator, mtu: 4092, vfs: {count: 2}"
)


def test_infiniband_without_addresses_is_proven_and_reach_has_nothing_to_ask() -> None:
    world = World(plan(4, INFINIBAND))
    for rows in world.probes.values():
        for row in rows:
            row.update(reach=None, reach6=None, cross=None)
    failures, _warnings, verdict = ended(world)
    assert failures == [] and verdict["ok"]
    for info in world.infos.values():
        info["lldp"] = []
    layers = {each["name"]: each for each in world.document()["layers"]}
    assert layers["cabling"]["why_not"].startswith("InfiniBand has no LLDP")
    assert (layers["reach"]["checked"], layers["reach"]["why_not"]) == (0, "no addresses: not checked")
    assert layers["rdma"]["checked"] == layers["reach"]["not_checked"] == 4 * len(world.pairs)
    assert {each["rtt_ms"] for each in verdict["measures"]} == {None}
    assert verdict["headline"] == "16 of 16 ports proven"
    # reach alone asked nothing
    failures, _warnings, verdict = ended(world, layers=["reach"])
    assert failures == [("RV807", ["gpu01", "gpu02", RAIL, "gpu04"])]
    assert verdict["failures"][0]["cause"] == "no addresses: not checked"

    for transfer in world.transfers(NODE, RAIL):
        transfer.update(gbits=None, error="ai-1 could not be met at 10.0.0.1, TCP port 40000")
    failure = only_failure(world.document(), "RV852", NODE, RAIL)
    assert "subnet manager" in failure["cause"] and "UDP" not in failure["cause"]


def test_roce_without_addresses_is_not_provable_and_is_reported() -> None:
    world = World(plan(2, UNADDRESSED))
    for rows in (*world.probes.values(), *world.pod_probes.values()):
        rows.clear()
    failures, _warnings, verdict = ended(world)
    assert failures == [("RV870", ["gpu01", "gpu02", RAIL, "gpu04"])]
    assert "GID" in verdict["failures"][0]["cause"] and "hosts'" in verdict["failures"][0]["remedy"]
    assert ended(world, unproven_allowed=True)[0] == []


def test_one_rail_that_cannot_be_proven_beside_others_is_a_warning(world: World) -> None:
    for name in world.plans:
        port = world.port(name, RAIL)
        port.update(address=None, gateway=None, table=None, rule_priority=None)
    failures, warnings, verdict = ended(without(world, RAIL), layers=["rdma"])
    assert (failures, warnings) == ([], [("RV870", [RAIL])])
    junit = xml.fromstring(verify_output.as_junit(world.verdict(layers=["rdma"]), verdict))
    (case,) = [each for each in junit.iter("testcase") if each.get("name") == "rails"]
    assert [each.tag for each in case] == ["skipped"] and "GID" in str(case[0].get("message"))
    failed = verify_output.as_junit(without(world, "gpu01").verdict(layers=["rdma"]), world.document(layers=["rdma"]))
    (case,) = [each for each in xml.fromstring(failed).iter("testcase") if each.get("name") == "rails"]
    assert [(each.tag, each.get("type")) for each in case] == [("failure", "RV870")]


def test_a_port_in_a_pod_is_unproven_for_that(world: World) -> None:
    whole = World(
        plan(
            3,
            SERVERS.replace("attachment: sriov, provider: spiderpool", "attachment: host-device").replace(
                "vfs: {count: 2, trust: true, spoofchk: false}", "provider: network-operator"
            ),
        )
    )
    whole.nic(NODE, RAIL).update(netdev=None, holders=["a pod has it"])
    for rows in whole.pod_probes.values():
        rows.clear()
    failures, warnings, verdict = ended(whole)
    assert failures == [] and ("RV870", [RAIL]) in warnings
    (warning,) = [each for each in verdict["warnings"] if each["code"] == "RV870"]
    assert warning["found"] == "none with ai-2" and warning["cause"] == "ai-2 has the port in use (see the warnings)"
    assert {row[RAIL] for name, row in verdict["matrix"].items() if name != NODE} == {"ok"}


def test_a_rail_that_one_node_alone_has_is_a_warning(world: World) -> None:
    for name in world.plans:
        if name != NODE:
            world.plans[name]["ports"] = [port for port in world.plans[name]["ports"] if port["rail"] != RAIL]
    failures, warnings, verdict = ended(without(world, RAIL), layers=["rdma"])
    assert (failures, warnings) == ([], [("RV870", [RAIL])])
    assert verdict["warnings"][0]["cause"] == "no other node of this run has the rail"


def test_a_large_fabric_that_nothing_proved_is_reported_with_little_work() -> None:
    wide = INFINIBAND.replace("nodes: 32", "nodes: 512")
    world = World(plan(512, wide), rounds=8)
    for rows in (*world.probes.values(), *world.pod_probes.values()):
        rows.clear()
    with work.at_most(5_000_000):
        failures, _warnings, _verdict = ended(world, layers=["rdma"])
    assert failures == [("RV870", ["gpu01", "gpu02", RAIL, "gpu04"])]


def slow_everywhere(world: World) -> None:
    for row in (row for rows in world.probes.values() for row in rows):
        row["transfer"]["gbits"] = 100.0


def drifted_everywhere(world: World) -> None:
    for name in world.plans:
        change = {"subject": "vf 1", "attribute": "trust", "before": False, "after": True}
        changes = [dict(change, port="ens%d" % number) for number in range(1, 5)]
        world.states[name]["sriov_vfs"] = {"changes": changes}


def elsewhere_everywhere(world: World) -> None:
    for row in (row for info in world.infos.values() for row in info["lldp"]):
        row["system"] = "spine-1"


@pytest.mark.scale
@pytest.mark.parametrize(
    ("harm", "code"),
    [(slow_everywhere, "RV882"), (drifted_everywhere, "RV206"), (elsewhere_everywhere, "RV701")],
)
def test_a_failure_on_every_node_is_reported_with_little_work(harm: t.Callable[[World], None], code: str) -> None:
    wide = SERVERS.replace("nodes: 32", "nodes: 512").replace("172.16.{n+10}.0/24", "10.{n}.0.0/16")
    wide = wide.replace(".1-.200", ".8.1-.200.254").replace(".201-.253", ".0.1-.7.254").replace(".254,", ".255.254,", 1)
    world = World(plan(512, wide), rounds=8)
    world.cluster = None
    harm(world)
    with work.at_most(20_000_000):
        verdict = world.verdict()
        assert verify_output.as_junit(verdict, verify_engine.document(verdict, ABOUT))
    assert {each.code for each in verdict.run.failures} == {code}


# -- drift -----------------------------------------------------------------------------------------------------------

STATELESS = {"RV402", "RV403", "RV407"} | {code for code in CODES if code.startswith(("RV7", "RV8"))}


@pytest.mark.parametrize(("harm", "code", "node", "rail"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_drift_is_state_and_nothing_else(
    world: World, harm: Harm, code: str, node: str | None, rail: str | None
) -> None:
    harm(world)
    seen = found(world, DRIFT)
    assert seen == ([] if code in STATELESS else [(code, node, rail)])


@pytest.mark.parametrize("kind", ["verify", "drift"])
def test_a_port_that_a_pod_has_is_held_and_where_pods_take_whole_devices_not_gone(world: World, kind: str) -> None:
    why = "its netdev net1 is in network namespace cni-1 (pause pid 4711)"
    world.nic(NODE, RAIL).update(netdev=None, holders=[why])
    (failure,) = world.document(kind)["failures"]
    assert (failure["code"], failure["found"], failure["cause"]) == ("RV203", "held", why)
    sriov = "attachment: sriov, provider: spiderpool, mtu: 4200, vfs: {count: 2, trust: true, spoofchk: false}"
    assert sriov in SERVERS
    whole = World(plan(4, SERVERS.replace(sriov, "attachment: host-device, provider: network-operator, mtu: 4200")))
    whole.nic(NODE, RAIL).update(netdev=None, holders=[why])
    assert found(whole, kind) == []
    (warning,) = [each for each in whole.document(kind)["warnings"] if each["code"] == "RV203"]
    assert (warning["node"], warning["rail"], warning["found"], warning["cause"]) == (NODE, RAIL, "held", why)


@pytest.mark.parametrize("index, failures", [(0, []), (2, []), (1, [("RV206", NODE, RAIL)])])
def test_only_the_vfs_of_the_range_are_compared(index: int, failures: list[t.Any]) -> None:
    parted = World(plan(4, SERVERS.replace("vfs: {count: 2,", "vfs: {count: 3, range: 1,")))
    rows = parted.infos[NODE]["vfs"]
    (row,) = [each for each in rows if each["pf"] == "0000:03:00.0"]
    assert row["index"] == 1
    if index == 1:
        row["attributes"]["mac"] = "02:52:00:00:00:99"
    else:
        other = dict(row["attributes"], mac="02:52:00:00:00:99", trust=False)
        rows.append(dict(row, index=index, attributes=other))
    assert found(parted) == failures


def test_persistent_differences_are_drift_and_a_warning_of_verify(world: World) -> None:
    path = "/etc/systemd/network/70-railyard-ens3.network"
    change = {"subject": path, "attribute": "content", "before": None, "after": "[Match]", "kind": "file"}
    loaded = {"subject": "systemd-networkd", "attribute": "loaded", "before": False, "after": True, "kind": "step"}
    world.states[NODE]["rail_ports"] = {"changes": [change, loaded]}
    assert found(world) == []
    (warning,) = world.document()["warnings"]
    assert (warning["code"], warning["node"]) == ("RV550", NODE) and path in warning["found"]
    assert found(world, DRIFT) == [("RV550", NODE, None)]


def test_a_change_belongs_to_its_port_and_leftovers_are_not_drift(world: World) -> None:
    change = {"subject": "vf 1", "attribute": "trust", "before": False, "after": True}
    change["port"] = "0000:03:00.0"
    mark = {"subject": "/run/railyard/mark", "attribute": "any", "before": True, "after": None, "kind": "step"}
    world.states[NODE]["sriov_vfs"] = {"changes": [mark]}
    assert found(world, DRIFT) == []
    world.states[NODE]["sriov_vfs"] = {"changes": [mark, change]}
    assert found(world, DRIFT) == [("RV206", NODE, RAIL)]


OBSERVED = [
    ("rail_ports", {"subject": "eth7", "attribute": "name", "before": "eth7", "after": "ens3"}),
    ("rail_ports", {"subject": "ens3", "attribute": "mtu", "before": 1500, "after": 4200}),
    ("rail_ports", {"subject": "ens3", "attribute": "state", "before": "down", "after": "up"}),
    ("rdma_link", {"subject": "0000:03:00.0", "attribute": "name", "before": "mlx5_2", "after": "mlx5_gpu03"}),
    ("rdma_netns_mode", {"subject": "rdma", "attribute": "netns", "before": "shared", "after": "exclusive"}),
    ("sriov_vfs", {"subject": "0000:03:00.0", "attribute": "sriov_numvfs", "before": 0, "after": 2}),
]


@pytest.mark.parametrize(("module", "change"), OBSERVED, ids=["%s-%s" % (m, c["attribute"]) for m, c in OBSERVED])
def test_a_fact_that_is_observed_is_not_compared_by_a_module_as_well(world: World, module: str, change: Row) -> None:
    world.states[NODE][module] = {"changes": [change], "gathered": {}}
    assert found(world, DRIFT) == found(world) == []


def test_an_edited_mode_of_the_next_boot_drifts(world: World) -> None:
    world.states[NODE]["rdma_netns_mode"] = {
        "changes": [
            {
                "subject": "/etc/modprobe.d/x.conf",
                "attribute": "netns_mode",
                "before": "x",
                "after": "y",
                "kind": "file",
            }
        ],
        "gathered": {"next_boot": "shared", "next_boot_source": "/etc/modprobe.d/x.conf"},
    }
    assert found(world, DRIFT) == [("RV302", NODE, None)]
    assert found(world) == []


# -- what is measured --------------------------------------------------------------------------------------------------


def test_outliers_and_counters_are_warnings(world: World) -> None:
    next(row for row in world.probes[NODE] if row["rail"] == RAIL)["transfer"].update(gbits=310.0, latency_us=9.0)
    world.after[NODE]["netdevs"]["ens3"]["rx_crc_errors"] = 4
    world.after[NODE]["devices"]["mlx5_gpu03"]["np_cnp_sent"] = 9
    verdict = world.document(share=0.7)
    assert verdict["ok"]
    assert [(each["code"], each["node"], each["rail"]) for each in verdict["warnings"]] == [
        ("RV854", NODE, RAIL),
        ("RV855", NODE, RAIL),
        ("RV861", NODE, RAIL),
    ]
    assert {(row["name"], row["before"], row["after"]) for row in verdict["counters"]} == {
        ("rx_crc_errors", 0, 4),
        ("np_cnp_sent", 7, 9),
    }


@pytest.mark.parametrize("profile", ["roce-lossless", "roce-lossy", "multipath"])
def test_pause_frames_are_a_warning_where_the_profile_has_no_pfc(world: World, profile: str) -> None:
    world.fabric["qos"] = {"profile": profile}
    for counters, value in ((world.infos[NODE]["counters"], 5), (world.after[NODE], 17)):
        counters["netdevs"]["ens3"].update(rx_pfc_pause=value, tx_pfc_pause=5)
    verdict = world.document(share=0.7)
    found = [(each["code"], each["node"], each["rail"], each["found"]) for each in verdict["warnings"]]
    expected = ("RV865", NODE, RAIL, "rx_pfc_pause +12")
    assert found == ([] if profile == "roce-lossless" else [expected])
    assert verdict["ok"]
    # a rail with its own QoS
    port = next(port for port in world.plans[NODE]["ports"] if port["rail"] == RAIL)
    port["qos"] = None
    assert world.document(share=0.7)["warnings"] == []


def test_slower_servers_of_another_model_do_not_are_outliers() -> None:
    world = World(plan(8))
    for name in ("ai-7", "ai-8"):
        for port in world.plans[name]["ports"]:
            port["expect"]["speed"] = 200
            world.nic(name, port["rail"])["speed"] = 200000
            world.device(name, port["rail"])["rate"] = 200.0
    for client, rows in world.probes.items():
        for row in rows:
            if {client, row["peer"]} & {"ai-7", "ai-8"}:
                row["transfer"]["gbits"] = 196.0
    verdict = world.document()
    assert (verdict["failures"], verdict["warnings"]) == ([], [])
    # among those of a model one still does
    slow = next(row for row in world.probes["ai-7"] if row["rail"] == RAIL) if world.probes["ai-7"] else None
    assert slow is not None
    slow["transfer"].update(gbits=178.0, latency_us=40.0)
    assert [each["code"] for each in world.document()["warnings"]] == ["RV854"]


def test_measurements_beside_another_run_fail_nothing_and_are_reported_once(world: World) -> None:
    congested(world)
    next(row for row in world.probes[NODE] if row["rail"] == "gpu01")["transfer"]["latency_us"] = 90.0
    assert found(world) == [("RV853", NODE, RAIL)]
    other = {"run": "anna@bastion (48213)", "since": "2026-11-22T10:02:05Z"}
    partners = [name for name in world.plans if name != NODE]
    world.others = {name: [dict(other)] for name in (NODE, partners[-1])}
    world.others[NODE].append({"run": "job 12 of AWX, by a schedule (10001)", "since": "2026-11-22T10:03:00Z"})
    world.others[NODE][0]["since"] = "2026-11-22T10:02:01Z"
    verdict = world.document()
    assert verdict["ok"] and verdict["proof"][RAIL]["state"] == "proven"
    both, one = verdict["warnings"]
    nodes = ", ".join(name for name in world.plans if name in world.others)
    assert (both["code"], both["what"]) == ("RV856", "bandwidth and latency of %s" % nodes)
    assert both["found"] == "also anna@bastion (48213), since 2026-11-22T10:02:01Z"
    assert one["what"] == "bandwidth and latency of %s" % NODE and one["found"].startswith("also job 12 of AWX")
    # it excuses slow transfers of no other node
    world.others = {partners[-1]: [other]}
    assert found(world) == [("RV853", NODE, RAIL)]
    # and a transfer that fails is a failure, in any case
    world.others[NODE] = [other]
    fails_rdma(world)
    assert found(world) == [("RV852", NODE, RAIL)]


def test_a_threshold_is_of_link_and_bus(world: World) -> None:
    for transfer in world.transfers(NODE, RAIL):
        transfer["gbits"] = 345.0
    assert {code for code, _node, _rail in found(world)} == {"RV853"}
    assert found(world, share=0.8) == []
    assert {code for code, _node, _rail in found(world, share=0.9)} == {"RV853"}


def test_transfers_of_gpu_memory_are_reported_as_such(world: World) -> None:
    for transfer in world.transfers(NODE, RAIL):
        transfer["gpu"] = True
    measured = {(row["rail"], row["gpu"]) for row in world.document()["measures"] if NODE in (row["from"], row["to"])}
    assert measured == {("gpu01", False), ("gpu02", False), (RAIL, True), ("gpu04", False)}
    fails_rdma(world)
    (failure,) = world.document()["failures"]
    assert failure["code"] == "RV852" and "GPU's memory" in failure["cause"]


def test_the_documents_shape_is_the_contract(world: World) -> None:
    small_mtu(world)
    verdict = json.loads(json.dumps(world.document()))
    keys = (
        "format kind fabric plan railyard began seconds ok headline ports unread asked nodes rails layers matrix proof"
    )
    more = "failures warnings unknown measures counters boots cluster slots"
    assert list(verdict) == [*keys.split(), *more.split()]
    assert verdict["proof"]["gpu01"] == {"state": "proven", "why": None}
    assert verdict["proof"][RAIL] == {"state": "failed", "why": "mtu of ens3"}
    assert set(verdict["asked"]) == {"limit", "layers", "rails", "budget_s", "tags", "skip_tags"}
    assert set(verdict["layers"][0]) == {"name", "title", "checked", "failed", "not_checked", "unknown", "why_not"}
    failure = dict(verdict["failures"][0])
    assert failure.pop("rails") == [RAIL]
    assert failure == {
        "code": "RV404",
        "name": "mtu-mismatch",
        "layer": "link",
        "node": NODE,
        "rail": RAIL,
        "peer": None,
        "what": "mtu of ens3",
        "expected": "4200",
        "found": "1500",
        "cause": CODES["RV404"].cause,
        "remedy": CODES["RV404"].remedy,
        "playbook": "playbooks/hosts.yml --limit ai-2",
    }
    measures = ["rail", "from", "to", "purpose", "gbits", "latency_us", "rtt_ms", "mtu", "gpu", "ok"]
    measures += ["floor", "limited_by"]
    assert list(verdict["measures"][0]) == measures
    assert verdict["boots"][NODE] == "0d3dd8dc-34c1-4d36-b5a5-4f1c3f3a8a5e"


def test_a_summary_fits_a_screen_and_shows_the_failures(world: World) -> None:
    link_down(world)
    verdict = world.verdict()
    commands = verify_output.Commands("reports/verify.json", "ansible-playbook playbooks/report.yml", "run {}".format)
    lines = verify_output.lines(verdict, world.document(), 120, commands)
    assert lines[0] == "15 of 16 ports proven; 1 failed on ai-2"
    (step,) = (line for line in lines if line.startswith("1. ai-2 gpu03"))
    assert ": the link is administratively down (RV401): expected up, found down. Remedy: set" in step
    assert lines[-3:] == [
        "results: reports/verify.json",
        "report:  ansible-playbook playbooks/report.yml",
        "next:    run playbooks/hosts.yml --limit ai-2",
    ]
    assert len(lines) < 45
    many = World(plan(32), rounds=8)
    for name in many.plans:
        for rail in many.fabric["rails"]:
            many.nic(name, rail)["mtu"] = 1500
    lines = verify_output.lines(many.verdict(), many.document(), 120, commands)
    assert len(lines) < 50
    # what is the same on many nodes is one line
    shown = [line for line in lines if "(RV4" in line]
    assert len(shown) == 1 and shown[0].startswith("1. ai-[1-32] gpu0[1-4]: "), shown
    assert "ai-[1-32]  FAILED  FAILED  FAILED  FAILED" in lines
    # all nodes of the run need no limit
    assert lines[-1] == "next:    run playbooks/hosts.yml"
    for number, name in enumerate(many.plans):
        many.nic(name, "gpu01")["mtu"] = 1500 + number
    lines = verify_output.lines(many.verdict(), many.document(), 120)
    assert sum("(RV404)" in line for line in lines) == 1 and any(
        "found 1500, 1501 and 30 more" in line for line in lines
    )


def test_junit_knows_a_case_from_run_to_run(world: World) -> None:
    def cases() -> dict[tuple[str | None, str | None], list[str]]:
        tree = xml.fromstring(verify_output.as_junit(world.verdict(), world.document()))
        assert tree.get("tests") == str(len(tree.findall(".//testcase")))
        assert tree.get("failures") == str(len(tree.findall(".//failure")))
        return {
            (case.get("classname"), case.get("name")): [each.tag for each in case] for case in tree.iter("testcase")
        }

    before = cases()
    small_mtu(world)
    later = cases()
    assert list(before) == list(later)
    assert [case for case in later if "failure" in later[case]] == [("verify.link", NODE)]


# -- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [64, 1024])
def test_pairs_are_few_rounds_cover_all_and_make_no_incast(count: int) -> None:
    nodes = ["n%04d" % number for number in range(1, count + 1)]
    rounds = probe_pairs.rounds(nodes, 8)
    assert len(rounds) == 8
    partners: dict[str, set[str]] = {node: set() for node in nodes}
    roles: dict[str, set[int]] = {node: set() for node in nodes}
    for each in rounds:
        busy = [node for pair in each for node in pair]
        # every node has exactly one partner, so that none receives from two
        assert len(busy) == len(set(busy)) == count
        for server, client in each:
            partners[server].add(client)
            partners[client].add(server)
            roles[server].add(0)
            roles[client].add(1)
    assert all(len(others) == 8 for others in partners.values())
    assert all(each == {0, 1} for each in roles.values())
    # units of 32: every node has a partner on another leaf, so that all paths between leaves are probed
    units = {node: index // 32 for index, node in enumerate(nodes)}
    assert all(any(units[other] != units[node] for other in others) for node, others in partners.items())
    reached, edge = {nodes[0]}, {nodes[0]}
    while edge:
        edge = set().union(*(partners[node] for node in edge)) - reached
        reached |= edge
    assert len(reached) == count


@pytest.mark.scale
def test_a_large_fabric_is_judged_with_little_work() -> None:
    wide = SERVERS.replace("nodes: 32", "nodes: 256").replace("172.16.{n+10}.0/24", "10.{n}.0.0/16")
    wide = wide.replace(".1-.200", ".8.1-.200.254").replace(".201-.253", ".0.1-.7.254").replace(".254,", ".255.254,", 1)
    world = World(plan(256, wide), rounds=8)
    link_down(world)
    with work.at_most(10_000_000):
        failures = found(world)
    assert failures == [("RV401", NODE, RAIL)]


# -- the codes -------------------------------------------------------------------------------------------------------


def test_codes_are_of_their_layers_and_documented() -> None:
    page = (ROOT / "docs" / "verify.md").read_text()
    for code in CODES.values():
        assert code.layer in LAYERS and set(after(code)) <= set(LAYERS)
        assert re.match(r"RV\d{3}\Z", code.code)
        row = (code.label, code.layer, code.title, code.cause, code.playbook or "by hand")
        assert "| %s | %s | %s | %s | %s |\n" % row in page, "docs/verify.md has no row of %s" % code.code
        assert re.match(r"[a-z0-9]+(-[a-z0-9]+)+\Z", code.name)
    assert len({code.name for code in CODES.values()}) == len(CODES)
    harmed = (
        {row[2] for row in (*HARMS, *POD_HARMS, *AGENT_HARMS)}
        | LAYOUT_CODES
        | PLANE_CODES
        | PRESET_CODES
        | NVLINK_CODES
        | CONGESTION_CODES
        | SOAK_CODES
        | BASELINE_CODES
        | NARROWING_CODES
        | {"RV706", "RV862", "RV863", "RV864", "RV950"}
        | {"RV002", "RV003", "RV004", "RV102", "RV302", "RV503", "RV550", "RV703"}
    )
    assert set(CODES) <= harmed | {"RV006", "RV807", "RV854", "RV855", "RV856", "RV861", "RV865", "RV870", "RV904"}


def test_site_yml_names_itself_as_the_reason_of_what_it_does_not_compare() -> None:
    """It runs no module in check mode and listens for no neighbour, because hosts.yml has just run."""
    world = World(plan(text=SERVERS + "qos: {profile: roce-lossless}\n"))
    for name in world.states:
        world.states[name] = {}
        world.infos[name]["lldp"] = None
    reasons: dict[bool, list[str]] = {}
    for thorough in (False, True):
        verdict = world.verdict(thorough=thorough)
        lines = verify_output.lines(verdict, verify_engine.document(verdict, ABOUT), 200)
        reasons[thorough] = [line for line in lines if line.startswith("not checked: ") and "firmware" not in line]
    own = "not checked: QoS and tuning; Cabling: not compared by playbooks/site.yml: run playbooks/verify.yml"
    assert reasons[False] == [own]
    assert reasons[True][0] == "not checked: QoS and tuning: no node reported it"
    assert reasons[True][1].startswith("not checked: Cabling: no port receives LLDP: enable it on the leaves")


def test_bandwidths_are_in_the_order_of_the_rails(world: World) -> None:
    for rows in world.probes.values():
        rows.sort(key=lambda row: row["rail"], reverse=True)
    verdict = world.verdict()
    lines = verify_output.lines(verdict, verify_engine.document(verdict, ABOUT), 120)
    (head,) = (line for line in lines if line.startswith("Gb/s"))
    assert head.split()[1:] == ["gpu01", "gpu02", "gpu03", "gpu04"]
