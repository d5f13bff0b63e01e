# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails and NCCL settings in pods: one fault, one failure, and no failure without a fault."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Missing,
    grouped,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_targets import pod_node
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine, verify_output
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import document
from tests.unit.fabric.verify_nodes import ABOUT, SERVERS, World, only_failure, plan

NODE, RAIL, NET = "ai-2", "gpu03", "net3"
Harm = t.Callable[[World], t.Any]
SHARED = SERVERS.replace("attachment: sriov", "attachment: macvlan").replace(
    ", vfs: {count: 2, trust: true, spoofchk: false}", ""
)
PLAIN = SHARED.replace("provider: spiderpool", "provider: cni").replace(
    ".254, pods: .1-.200, hosts: .201-.253", ".254, mode: block, block: 16, pods: .1-.192, hosts: .201-.253"
)
AGENT = PLAIN.replace("provider: cni", "provider: agent, pods_per_node: 8")
DUAL = SERVERS.replace(
    "hosts: .201-.253}",
    'hosts: .201-.253, subnet6: "fd00:{n+10}::/64", gateway6: "::ffff", pods6: "::1-::fff", hosts6: "::1001-::2000"}',
)


@pytest.fixture
def world() -> World:
    return World(plan())


def found(world: World, kind: str = "verify", **asked: t.Any) -> list[tuple[str, str | None, str | None]]:
    return [(each["code"], each["node"], each["rail"]) for each in world.document(kind, **asked)["failures"]]


def rows(world: World, part: str) -> list[dict[str, t.Any]]:
    return [row for row in world.inside(NODE)[part] if row.get("netdev") == NET]


def drop(part: str) -> Harm:
    def act(world: World) -> None:
        held = world.inside(NODE)[part]
        held[:] = [row for row in held if row.get("netdev") != NET]

    return act


def no_rule(world: World) -> None:
    rules = world.inside(NODE)["rules"]
    rules.remove(next(row for row in rules if row["table"] == 103))


def no_default(world: World) -> None:
    routes = world.inside(NODE)["routes"]
    routes.remove(next(row for row in routes if row["to"] == "0.0.0.0/0" and row["table"] == 103))


def other_gateway(world: World) -> None:
    next(row for row in rows(world, "routes") if row["via"])["via"] = "172.16.13.1"


def other_rails_table(world: World) -> None:
    """The rule is there, and leads to the table of another rail."""
    next(row for row in world.inside(NODE)["rules"] if row["table"] == 103)["table"] = 101


def address(value: str) -> Harm:
    def act(world: World) -> None:
        rows(world, "addresses")[0]["address"] = value

    return act


def twice(world: World) -> None:
    """Two pods with one address: the failure is of the second, and names the first."""
    given = next(row["address"] for row in world.inside("ai-1")["addresses"] if row["netdev"] == NET)
    address(given)(world)
    world.pods_lose(NODE, RAIL)


def pending(why: str) -> Harm:
    def act(world: World) -> None:
        world.pod(NODE).update(phase="Pending", running=False, why=why, networks=[], node=None)
        world.insides[NODE]["pods"] = []
        for name, probes in world.pod_probes.items():
            probes[:] = [] if name == NODE else [row for row in probes if row["peer"] != NODE]

    return act


def none_there(world: World) -> None:
    assert world.cluster is not None
    world.cluster["pods"]["pods"].remove(world.pod(NODE))


def leaving(world: World) -> None:
    world.pod(NODE)["leaving"] = True


def unreadable(why: str) -> Harm:
    def act(world: World) -> None:
        world.inside(NODE).update(
            {key: [] for key in ("links", "addresses", "routes", "rules", "rdma", "gids")}, why=why
        )

    return act


def transfer_fails(world: World) -> None:
    for client, probes in world.pod_probes.items():
        for row in probes:
            if row["rail"] == RAIL and NODE in (client, row["peer"]):
                row.update(ok=False, error="ib_write_bw ended with 1: Couldn't connect", remedy="run it by hand")


def one_mac(world: World) -> None:
    world.pods_lose(NODE, RAIL)


def small(world: World) -> None:
    world.pods_lose(NODE, RAIL, found={"small": True, "path_mtu": 1500, "answers": []})


def setting(place: str, **settings: str) -> Harm:
    def act(world: World) -> None:
        held = world.inside(NODE)["settings"]
        held[place] = dict(held[place] or {}, **settings)

    return act


def no_file(world: World) -> None:
    world.inside(NODE)["settings"]["file"] = None


def forbidden(world: World) -> None:
    assert world.cluster is not None
    world.cluster["pods"] = {"error": "who asks may not list pods"}


def filtered6(world: World) -> None:
    for client, probes in world.probes.items():
        for row in probes:
            lost = row["rail"] == RAIL and NODE in (client, row["peer"])
            row["reach6"] = {"sent": 3, "received": 0 if lost else 3, "rtt_ms": None, "error": ""}


HARMS: list[tuple[str, Harm, str, str | None, str | None]] = [
    ("IPv6 is filtered", filtered6, "RV806", NODE, RAIL),
    ("unschedulable", pending("Unschedulable: 4 Insufficient spidernet.io/gpu03_sriov"), "RV910", NODE, RAIL),
    ("no image", pending("ImagePullBackOff: Back-off pulling image"), "RV910", NODE, None),
    ("a taint", none_there, "RV911", NODE, None),
    ("only one that goes", leaving, "RV911", NODE, None),
    ("host network", unreadable("it has the node's own network (hostNetwork)"), "RV912", NODE, None),
    ("rail_pods fails", lambda w: w.insides.pop(NODE), "RV912", NODE, None),
    ("no right to read pods", forbidden, "RV913", None, None),
    ("interface gone", drop("links"), "RV920", NODE, RAIL),
    ("interface down", lambda w: rows(w, "links")[0].update(up=False), "RV920", NODE, RAIL),
    ("MTU 1500", lambda w: (rows(w, "links")[0].update(mtu=1500), w.pods_lose(NODE, RAIL)), "RV921", NODE, RAIL),
    ("address gone", drop("addresses"), "RV922", NODE, RAIL),
    ("a host's address", address("172.16.13.202/24"), "RV922", NODE, RAIL),
    ("another rail's address", address("172.16.11.9/24"), "RV922", NODE, RAIL),
    ("an address twice", twice, "RV923", NODE, RAIL),
    ("no rule", no_rule, "RV924", NODE, RAIL),
    ("no default route", no_default, "RV924", NODE, RAIL),
    ("another gateway", other_gateway, "RV924", NODE, RAIL),
    ("another rail's table", other_rails_table, "RV924", NODE, RAIL),
    ("no RDMA device", lambda w: (drop("rdma")(w), drop("gids")(w)), "RV925", NODE, RAIL),
    ("no GID", drop("gids"), "RV926", NODE, RAIL),
    ("GID of RoCE v1", lambda w: rows(w, "gids")[0].update(type="RoCE v1"), "RV926", NODE, RAIL),
    ("one MAC address per port", one_mac, "RV930", NODE, RAIL),
    ("a small MTU on the way", small, "RV931", NODE, RAIL),
    ("RDMA fails", transfer_fails, "RV932", NODE, RAIL),
    ("no probe", lambda w: w.pod_refused.update({NODE: "perftest: not installed"}), "RV932", NODE, None),
    ("ConfigMap edited", setting("file", NCCL_IB_ROCE_VERSION_NUM="1"), "RV951", NODE, None),
    ("ConfigMap not there", no_file, "RV951", NODE, None),
    ("environment over the file", setting("environment", NCCL_IB_ADDR_FAMILY="AF_INET6"), "RV951", NODE, None),
    ("a fixed GID index", setting("environment", NCCL_IB_GID_INDEX="1"), "RV952", NODE, "gpu01"),
]

# Devices in the pod's own setting that its RDMA devices, mlx5_11 to mlx5_14, do not confirm. NCCL reads "=" as exact.
DEVICE_HARMS: list[tuple[str, Harm, str, str | None]] = [
    ("a device is gone", setting("environment", NCCL_IB_HCA="=mlx5_11:1:0,mlx5_29:1:1"), "RV863", None),
    ("a port that no device has", setting("environment", NCCL_IB_HCA="=mlx5_11:2:0"), "RV863", None),
    ("rails are swapped", setting("environment", NCCL_IB_HCA="=mlx5_11:1:0,mlx5_12:1:2"), "RV864", "gpu02"),
    ("a plane of a rail with one plane", setting("environment", NCCL_IB_HCA="=mlx5_13::2:1"), "RV864", "gpu03"),
    ("all right", setting("environment", NCCL_IB_HCA="=mlx5_11:1:0,mlx5_12,mlx5_13::2"), "", None),
    ("a prefix", setting("environment", NCCL_IB_HCA="mlx5"), "", None),
    ("all but one", setting("environment", NCCL_IB_HCA="^=mlx5_29"), "", None),
]
WITH_RAILS = SERVERS.replace("spoofchk: false}}", 'spoofchk: false}, nccl: {file: false, version: "2.30.5"}}')
OLD = SERVERS.replace("spoofchk: false}}", 'spoofchk: false}, nccl: {version: "2.20.5"}}')


@pytest.mark.parametrize(("harm", "code", "rail"), [row[1:] for row in DEVICE_HARMS], ids=[r[0] for r in DEVICE_HARMS])
def test_devices_for_nccl_exist_and_have_their_rail(harm: Harm, code: str, rail: str | None) -> None:
    for text in (WITH_RAILS, SERVERS):
        world = World(plan(4, text))
        harm(world)
        # without nccl.version, the plan has no rails for NCCL to compare
        expected = [(code, NODE, rail)] if code and (code == "RV863" or text == WITH_RAILS) else []
        assert found(world) == expected


def test_older_versions_need_their_gid_index() -> None:
    def world(**settings: str) -> World:
        made = World(plan(4, OLD))
        for name, inside in made.insides.items():
            hca = {"NCCL_IB_HCA": "=" + ",".join("mlx5_gpu%02d:1" % number for number in range(1, 5))}
            inside["files"] = {"/etc/nccl.conf": dict(hca, NCCL_IB_GID_INDEX="3")}
            made.inside(name)["settings"]["environment"]["NCCL_IB_GID_INDEX"] = "3"
        return made

    assert found(world()) == []
    file = world()
    del file.insides[NODE]["files"]["/etc/nccl.conf"]["NCCL_IB_GID_INDEX"]
    for kind in ("verify", DRIFT):
        (failure,) = file.document(kind)["failures"]
        assert (failure["code"], failure["playbook"]) == ("RV862", "playbooks/hosts.yml --limit ai-2")
    pod = world()
    del pod.inside(NODE)["settings"]["environment"]["NCCL_IB_GID_INDEX"]
    (failure,) = pod.document()["failures"]
    assert (failure["code"], failure["playbook"]) == ("RV862", None) and "NCCL 2.21" in failure["remedy"]
    wrong = world()
    setting("environment", NCCL_IB_GID_INDEX="1")(wrong)
    (failure,) = wrong.document()["failures"]
    assert failure["code"] == "RV952" and "NCCL 2.21" in failure["remedy"]


@pytest.mark.parametrize(("harm", "code", "node", "rail"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_one_fault_is_one_failure(world: World, harm: Harm, code: str, node: str | None, rail: str | None) -> None:
    harm(world)
    assert only_failure(world.document(), code, node, rail)["found"]
    # pods come and go: they do not drift
    assert found(world, DRIFT) == []


def test_observed_values_are_reported() -> None:
    def only(harm: Harm, text: str = SERVERS) -> dict[str, t.Any]:
        world = World(plan(4, text))
        harm(world)
        (failure,) = world.document()["failures"]
        return dict(failure)

    found = only(no_rule)
    assert found["what"] == "net3 of pod default/ai-rails-2: rule from 172.16.13.2"
    assert (found["expected"], found["found"]) == ("its own table", "no rule")
    found = only(no_rule, PLAIN)
    assert found["expected"] == "table 103 at 10003"
    assert only(twice)["found"] == "also in pod default/ai-rails-1" and only(twice)["peer"] == "ai-1"
    assert only(drop("links"))["cause"] == "it was attached (gpu03-sriov) and removed afterwards"
    gone = only(lambda w: (drop("links")(w), w.pod(NODE)["networks"].pop(2)))
    assert gone["found"] == "4 interfaces: eth0, net1, net2, net4" and "older than the network" in gone["cause"]
    index = only(setting("environment", NCCL_IB_GID_INDEX="1"))
    assert index["expected"] == "none, or 3" and index["found"].startswith("1; 172.16.11.2 of gpu01 (mlx5_11) is at 3")
    over = only(setting("environment", NCCL_IB_ADDR_FAMILY="AF_INET6"))
    assert "overrides its file" in over["cause"] and over["found"] == "NCCL_IB_ADDR_FAMILY=AF_INET6"
    assert "MAC address" in only(one_mac, SHARED)["cause"] and "spoof check" in only(one_mac)["cause"]


AGENT_HARMS: list[tuple[str, Harm, str, str]] = [
    ("no slot recorded", lambda w: w.inside(NODE)["slots"].pop(2), "RV927", "CDI is off"),
    ("interface gone", lambda w: (drop("links")(w), w.pod(NODE)["networks"].clear()), "RV920", "attached it as slot 0"),
    ("interface down", lambda w: rows(w, "links")[0].update(up=False), "RV920", "set down in the pod"),
    ("the address of another slot", address("172.16.13.18/24"), "RV922", "changed in the pod"),
    ("no rule", no_rule, "RV924", "deleted in the pod"),
    ("GID of the port alone", lambda w: rows(w, "gids")[0].update(device="mlx5_9"), "RV926", "GID table"),
    ("RDMA device gone", lambda w: (drop("rdma")(w), drop("gids")(w)), "RV925", "taken out of the pod"),
    ("RDMA fails", transfer_fails, "RV932", "RDMA device"),
]


@pytest.mark.parametrize(("harm", "code", "cause"), [r[1:] for r in AGENT_HARMS], ids=[r[0] for r in AGENT_HARMS])
def test_one_fault_in_a_pod_of_the_agent_is_one_failure(harm: Harm, code: str, cause: str) -> None:
    world = World(plan(4, AGENT))
    harm(world)
    failure = only_failure(world.document(), code, NODE, RAIL)
    assert cause in failure["cause"], failure


def test_an_index_that_is_right_for_all_rails_is_accepted(world: World) -> None:
    setting("environment", NCCL_IB_GID_INDEX="3")(world)
    assert found(world) == []
    rows(world, "gids")[0]["index"] = 5
    (failure,) = world.document()["failures"]
    assert (failure["code"], failure["rail"], failure["expected"]) == ("RV952", RAIL, "none: rails have 3, 5")


@pytest.mark.parametrize(
    "text", [SERVERS, SHARED, PLAIN, AGENT, DUAL], ids=["sriov", "macvlan", "cni", "agent", "dual stack"]
)
def test_pods_of_each_kind_are_green_as_the_provider_makes_them(text: str) -> None:
    verdict = World(plan(4, text)).document()
    assert verdict["failures"] == [] and verdict["warnings"] == []
    layers = {each["name"]: each for each in verdict["layers"]}
    assert (layers["pods"]["checked"], layers["nccl"]["checked"]) == (16, 4)


def test_failed_rails_are_cordoned_on_nodes_with_the_agent() -> None:
    world = World(plan(4, AGENT))

    def cordoned(node: str, **by: str) -> None:
        world.insides[node]["cordons"] = {rail: {"reason": "a", "by": name} for rail, name in by.items()}

    assert verify_engine.rail_cordons(world.verdict()) == {}
    # a rail of an earlier run that is good again
    cordoned("ai-3", gpu02="rail_cordon")
    assert verify_engine.rail_cordons(world.verdict()) == {"ai-3": {}}
    world.lose(NODE, RAIL)
    desired = verify_engine.rail_cordons(world.verdict())
    assert set(desired) == {NODE, "ai-3"} and list(desired[NODE]) == [RAIL]
    assert re.fullmatch(r"failed verify \(RV\d{3}(, RV\d{3})*\)", desired[NODE][RAIL])
    cordoned(NODE, **{RAIL: "rail_cordon"})
    assert verify_engine.rail_cordons(world.verdict()) == {"ai-3": {}}
    # an administrator's cordon stays, and neither labels the node nor makes it good
    cordoned(NODE, **{RAIL: ""})
    assert verify_engine.rail_cordons(world.verdict()) == {"ai-3": {}}
    assert NODE not in verify_engine.bad_rails(world.verdict())


def test_a_node_without_the_agent_gets_no_cordons_of_rails(world: World) -> None:
    world.lose(NODE, RAIL)
    assert verify_engine.bad_rails(world.verdict())[NODE] == [RAIL]
    assert verify_engine.rail_cordons(world.verdict()) == {}


def test_both_families_are_looked_at() -> None:
    world = World(plan(4, DUAL))
    rules = world.inside(NODE)["rules"]
    rules.remove(next(row for row in rules if row["from"].startswith("fd00:13:")))
    (failure,) = world.document()["failures"]
    assert failure["code"] == "RV924" and "rule from fd00:13:" in failure["what"]
    world = World(plan(4, DUAL))
    for row in world.pod_probes[NODE]:
        if row["rail"] == RAIL:
            row["reach6"] = {"sent": 3, "received": 0, "rtt_ms": None, "error": ""}
    assert {(code, rail) for code, _node, rail in found(world)} == {("RV930", RAIL)}
    assert "over IPv6" in world.document()["failures"][0]["found"]


def test_only_settings_of_the_provider_are_required() -> None:
    """A priority and a table are the plan's with plain CNI alone; a further pod on the rail has another thousand."""
    for text, wrong in ((SHARED, False), (PLAIN, True)):
        world = World(plan(4, text))
        rule = next(row for row in world.inside(NODE)["rules"] if row["table"] == 103)
        rule["priority"] = 20000
        assert bool(found(world)) is wrong
    world = World(plan(4, PLAIN))
    for row in (*world.inside(NODE)["rules"], *rows(world, "routes")):
        row["table"] += 1000 * (row["table"] == 103)
    assert found(world) == []
    # with soft RDMA a pod has no device of its own, and cannot be reached by RDMA
    soft = World(plan(4, SHARED))
    soft.use_soft_rdma()
    for probes in soft.pod_probes.values():
        for row in probes:
            row.update(ok=False, transfer=None, error="the other side has no server: it was not started")
    assert found(soft) == []


def test_without_a_workload_the_remedy_names_it(world: World) -> None:
    assert world.cluster is not None
    world.cluster["pods"] = {"there": False, "nodes": [], "pods": [], "settings": [], "remedy": "kubectl apply -k DIR"}
    verdict = world.document()
    layers = {each["name"]: each for each in verdict["layers"]}
    assert verdict["ok"] and layers["pods"]["checked"] == 0
    assert layers["pods"]["why_not"] == "the test workload is not in the cluster: kubectl apply -k DIR"
    assert layers["nccl"]["why_not"] == "the plan writes no file on nodes, and no test pod was read"
    world.cluster = None
    layers = {each["name"]: each for each in world.document()["layers"]}
    assert "kubernetes_kubeconfig" in layers["pods"]["why_not"]


def test_failures_of_nodes_are_not_repeated_for_pods(world: World) -> None:
    """A rail that nodes do not reach each other on, and one whose resource is short."""
    world.lose(NODE, RAIL)
    world.pods_lose(NODE, RAIL)
    assert found(world) == [("RV801", NODE, RAIL)]
    world = World(plan())
    pending("Unschedulable: 1 Insufficient spidernet.io/gpu03_sriov")(world)
    assert world.cluster is not None
    short = Missing(NODE, "reports 0 of 2 spidernet.io/gpu03_sriov (rail gpu03)", "x", rail=RAIL)
    world.cluster["missing"] += [each._asdict() for each in grouped([short])]
    assert found(world) == [("RV901", NODE, RAIL)]


def test_without_perftest_pods_are_reached_and_no_more(world: World) -> None:
    transfer_fails(world)
    world.infos[NODE]["tools"] = {"ethtool": "/usr/sbin/ethtool"}
    assert found(world, layers=["pods"]) == []
    one_mac(world)
    assert found(world, layers=["pods"]) == [("RV930", NODE, RAIL)]


def test_layers_can_be_chosen(world: World) -> None:
    no_rule(world)
    setting("environment", NCCL_IB_GID_INDEX="1")(world)
    assert found(world, layers=["pods"]) == [("RV924", NODE, RAIL)]
    assert found(world, layers=["nccl"]) == [("RV952", NODE, "gpu01")]
    assert found(world, layers=["pods"], rails=["gpu01"]) == []


# -- NCCL's file on nodes

FILED = SERVERS.replace("spoofchk: false}}", "spoofchk: false}, nccl: {ucx: true}}")


def filed() -> World:
    world = World(plan(4, FILED))
    devices = ",".join("mlx5_gpu%02d:1" % number for number in range(1, 5))
    wanted = {"NCCL_IB_HCA": "=" + devices, "NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_FAMILY": "AF_INET"}
    for inside in world.insides.values():
        inside["files"] = {"/etc/nccl.conf": dict(wanted), "/etc/ucx/ucx.conf": {"UCX_NET_DEVICES": devices}}
    return world


def edited(path: str, **settings: str) -> Harm:
    return lambda world: world.insides[NODE]["files"][path].update(settings)


def gone(path: str) -> Harm:
    return lambda world: world.insides[NODE]["files"].update({path: None})


@pytest.mark.parametrize(
    ("harm", "code", "expected"),
    [
        (lambda world: None, None, ""),
        (edited("/etc/nccl.conf", NCCL_IB_HCA="mlx5"), "RV950", "NCCL_IB_HCA==mlx5_gpu01:1,"),
        (gone("/etc/nccl.conf"), "RV950", "NCCL_IB_ADDR_FAMILY=AF_INET, "),
        (gone("/etc/ucx/ucx.conf"), "RV950", "UCX_NET_DEVICES=mlx5_gpu01:1,"),
        (edited("/etc/nccl.conf", NCCL_IB_GID_INDEX="5"), "RV952", "none, or 3"),
        (edited("/etc/nccl.conf", NCCL_IB_GID_INDEX="-1"), None, ""),
        (edited("/etc/nccl.conf", NCCL_DEBUG="INFO"), None, ""),
    ],
)
def test_files_on_nodes_are_state(harm: Harm, code: str | None, expected: str) -> None:
    world = filed()
    harm(world)
    for kind in ("verify", DRIFT):
        failures = world.document(kind)["failures"]
        assert [each["code"] for each in failures] == ([code] if code else [])
        assert not code or (failures[0]["node"] == NODE and failures[0]["expected"].startswith(expected))
    if code == "RV950":
        assert failures[0]["playbook"] == "playbooks/hosts.yml --limit ai-2"


def test_values_overridden_in_the_inventory_do_not_drift() -> None:
    world = filed()
    edited("/etc/nccl.conf", NCCL_IB_ADDR_FAMILY="AF_INET6")(world)
    world.insides[NODE]["own_settings"] = ["NCCL_IB_ADDR_FAMILY"]
    assert found(world, DRIFT) == []


def test_devices_of_the_inventory_are_compared_with_the_node() -> None:
    text = FILED.replace("nccl: {ucx: true}", 'nccl: {version: "2.30.5"}')
    for value, expected in (
        ("=mlx5_gpu01:1:0,mlx5_gpu02:1:1", []),
        ("=mlx5_gpu01:1:0,mlx5_gpu02:1:2", [("RV864", NODE, "gpu02")]),
        ("=mlx5_gpu01:1:0,mlx5_0:1:1", [("RV863", NODE, None)]),
    ):
        world = World(plan(4, text))
        entries = ",".join("mlx5_gpu%02d:1:%d" % (number, number - 1) for number in range(1, 5))
        settings = {"NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_FAMILY": "AF_INET", "NCCL_NET_MERGE_POLICY": "RAIL"}
        for inside in world.insides.values():
            inside["files"] = {"/etc/nccl.conf": dict(settings, NCCL_IB_HCA="=" + entries)}
        edited("/etc/nccl.conf", NCCL_IB_HCA=value)(world)
        world.insides[NODE]["own_settings"] = ["NCCL_IB_HCA"]
        assert found(world) == expected


# -- how pods are probed


def test_a_pod_is_probed_by_its_own_interfaces_addresses_and_devices(world: World) -> None:
    rows(world, "links")[0]["up"] = False
    pods = [pod_node(world.plans[name], world.fabric, world.inside(name)) for name in ("ai-1", NODE)]
    assert [port["rail"] for port in pods[1]["ports"]] == ["gpu01", "gpu02", "gpu04"]
    turn = probe_targets.turn(0, "probe", pods[1], pods[0], [40000], True, "ethernet")
    assert turn["targets"][0] == {
        **{"rail": "gpu01", "netdev": "net1", "device": "mlx5_11", "mtu": 4200},
        **{"source": "172.16.11.2", "address": "172.16.11.1"},
    }
    assert turn["others"] == [{"rail": "gpu%02d" % n, "address": "172.16.%d.1" % (10 + n)} for n in (1, 2, 3, 4)]
    assert [each["source"] for each in turn["ways"]] == ["172.16.11.2", "172.16.12.2", "172.16.14.2"]
    shared = World(plan(2, SHARED))
    (first, *_rest) = pod_node(shared.plans["ai-1"], shared.fabric, shared.inside("ai-1"))["ports"]
    # in the mode shared the device is the one whose table has the address
    assert first["rdma"] == {"name": None, "type": "hardware", "transfers": True}


def test_the_holders_of_slots_are_named() -> None:
    verdict = World(plan(6, AGENT)).verdict()
    shown = document(verdict, ABOUT)
    assert shown["slots"]["ai-2"] == {"rails-0": "default/ai-rails-2"}
    (line,) = [line for line in verify_output.lines(verdict, shown, 200) if line.startswith("slots held")]
    assert "ai-1 rails-0 by default/ai-rails-1, ai-2" in line and line.endswith(" and 2 more")
    assert World(plan(2, PLAIN)).document()["slots"] == {}


def test_soft_rdma_is_tested_between_pods_of_the_agent_alone() -> None:
    def rdma(text: str) -> dict[str, t.Any]:
        world = World(plan(2, text))
        for row in world.inside("ai-1")["slots"]:
            row["rdma"] = "rxe_0123-%s" % row["interface"]
        ports = world.plans["ai-1"]["ports"]
        for port in ports:
            port["rdma"]["type"] = "rxe"
        return dict(pod_node(world.plans["ai-1"], world.fabric, world.inside("ai-1"))["ports"][0]["rdma"])

    assert rdma(PLAIN) == {"name": None, "type": "rxe", "transfers": False}
    # the device of the port has the GID of the pod too
    assert rdma(AGENT) == {"name": "rxe_0123-net1", "type": "rxe", "transfers": True}
