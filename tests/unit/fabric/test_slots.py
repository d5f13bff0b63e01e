# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slots that agents give to pods: how many, which addresses, and what agents and clusters get of them."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    cluster_ready,
    object_components,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_diff, plan_rows, plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_metrics
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition

from .range_files import NODES, Drawn, planned
from .range_files import files as range_files
from .test_files import files

INVENTORIES = Path(__file__).resolve().parents[3] / "inventories"
Data = t.Dict[str, t.Any]


def worked(name: str = "lab-agent", **fabric: t.Any) -> Data:
    """A worked inventory with other values in its section ``fabric``; None takes a key out."""
    # as texts: .254 is an address
    file: Data = yaml.load((INVENTORIES / name / "fabric.yml").read_text(), yaml.BaseLoader)
    values = {**file["fabric"], **fabric}
    return dict(file, fabric={key: value for key, value in values.items() if value is not None})


def findings(file: Data) -> list[tuple[str, str]]:
    raw = yaml.safe_dump(file, sort_keys=False).encode()
    return [(finding.code, finding.place) for finding in lint(raw).findings]


def plan_of(file: Data) -> Plan:
    outcome = lint(yaml.safe_dump(file, sort_keys=False).encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan


def document(file: Data) -> Data:
    return plan_of(file).document()


def slots(plan: Data, rail: str = "gpu01") -> dict[str, list[Data]]:
    """Node -> the slots of its port on a rail."""
    return {
        node["name"]: each["slots"] for node in plan["nodes"] for each in node["agent"]["rails"] if each["rail"] == rail
    }


def addresses(plan: Data, rail: str = "gpu01") -> dict[str, list[str]]:
    key = "address" if plan["rails"][0]["subnet"] else "address6"
    return {node: [slot[key].partition("/")[0] for slot in own] for node, own in slots(plan, rail).items()}


# -- addresses


@given(range_files(provider="agent"))
def test_a_slot_has_the_address_of_its_number(drawn: Drawn) -> None:
    _outcome, plan = planned(drawn)
    each = yaml.safe_load(drawn.text)["fabric"]["slots"]
    size = each["all_rails"] + each["per_rail"]
    found = addresses(plan)
    for index, own in enumerate(found.values(), 1):
        share = drawn.left[(index - 1) * size : index * size] if drawn.block is None else drawn.of_node(index)[:size]
        assert own == [drawn.address(place) for place in share] and len(own) == size
    every = [address for own in found.values() for address in own]
    taken = {drawn.address(place) for place in (*drawn.taken, *drawn.hosts)} | {plan["rails"][0]["gateway"]}
    assert len(set(every)) == len(every) == NODES * size and not taken.intersection(every)


@given(range_files(provider="agent"))
def test_a_node_that_is_appended_renumbers_no_slot(drawn: Drawn) -> None:
    _outcome, plan = planned(drawn)
    more = lint(drawn.text.replace("n-[1:%d]" % NODES, "n-[1:%d]" % (NODES + 1)).encode()).plan
    assume(more is not None)
    assert more is not None
    found = slots(more.document())
    assert {node: found[node] for node in slots(plan)} == slots(plan)


@given(files(provider="agent"))
def test_no_two_slots_share_an_address_or_a_mac_in_any_mode(file: t.Any) -> None:
    plan = lint(file.text.encode()).plan
    assert plan is not None
    owners: dict[str, str] = {}
    for node in plan.document()["nodes"]:
        for port, rail in zip(node["ports"], node["agent"]["rails"]):
            link = port["pods"] and port["pods"]["first"] == (port["address"] or "").partition("/")[0]
            for six in ("", "6"):
                gateway = (port["leaf"] or {}).get("address" + six)
                # the port's own address is the pod's where the pod gets the port
                own = None if link or node["attachment"] == "host-device" else port["address" + six]
                for address in filter(None, (own and own.partition("/")[0], gateway)):
                    owners.setdefault(address, "port or leaf")
            for slot in rail["slots"]:
                where = "%s %s %d" % (node["name"], rail["rail"], slot["number"])
                for key in ("address", "address6"):
                    pods = port["pods"] or {}
                    if not pods.get(key.replace("address", "first")):
                        assert slot[key] is None
                        continue
                    interface = ipaddress.ip_interface(slot[key])
                    assert str(interface.network) == pods[key.replace("address", "subnet")]
                    assert owners.setdefault(str(interface.ip), where) == where
                assert slot["mac"] is None or owners.setdefault(slot["mac"], where) == where


def test_nodes_with_fewer_slots_have_as_many_addresses_of_the_pool() -> None:
    file = worked(pods_per_node=None, slots={"all_rails": 2, "per_rail": 1})
    file["addresses"] = {"mode": "subnet", "gateway": ".254", "pods": ".1-.192", "hosts": ".201-.206"}
    file["groups"] = {"small": {"slots": {"all_rails": 1, "per_rail": 0}}}
    file["nodes"] = {"node-1": {"profile": "guest", "groups": ["small"]}, "node-2": {"profile": "guest"}}
    assert addresses(document(file)) == {
        "node-1": ["172.16.11.1"],
        "node-2": ["172.16.11.4", "172.16.11.5", "172.16.11.6"],
    }


# -- how many


@pytest.mark.parametrize(
    ("fabric", "wanted"),
    [
        ({"pods_per_node": 8}, (4, 4)),
        ({"pods_per_node": 7}, (4, 3)),
        ({"pods_per_node": 1}, (1, 0)),
        ({"pods_per_node": 8, "slots": {"all_rails": 6}}, (6, 2)),
        ({"pods_per_node": 8, "slots": {"per_rail": 8}}, (0, 8)),
        ({"slots": {"all_rails": 3}}, (3, 0)),
        ({"pods_per_node": 2, "slots": {"all_rails": 2, "per_rail": 5}}, (2, 5)),
        ({"attachment": "sriov", "vfs": {"count": 5}}, (3, 2)),
        ({"attachment": "sriov", "vfs": {"count": 5}, "pods_per_node": 2}, (1, 1)),
        ({"attachment": "host-device"}, (1, 0)),
    ],
)
def test_omitted_keys_have_derived_values(fabric: Data, wanted: tuple[int, int]) -> None:
    plan = document(worked(**{"pods_per_node": None, **fabric}))
    resources = [slot["resource"] for slot in slots(plan)["node-1"]]
    assert resources == ["rails"] * wanted[0] + ["gpu01"] * wanted[1]
    units = {"railyard.fabric/rails": wanted[0], **{"railyard.fabric/gpu%02d" % n: wanted[1] for n in range(1, 9)}}
    assert object_components.allocatable(plan)["node-2"] == {name: count for name, count in units.items() if count}


def test_profiles_and_groups_have_their_own_and_are_written_again() -> None:
    file = worked(slots={"all_rails": 4, "per_rail": 1})
    file["profiles"]["guest"]["slots"] = {"all_rails": 2}
    file["groups"] = {"few": {"slots": {"per_rail": 0}}}
    file["nodes"] = {"node-1": {"profile": "guest", "groups": ["few"]}, "node-2": {"profile": "guest"}}
    file["fabric"].pop("pods_per_node")
    plan = plan_of(file)
    assert {node: len(own) for node, own in slots(plan.document()).items()} == {"node-1": 2, "node-2": 3}
    assert plan_of(yaml.load(write(plan.fabric), yaml.BaseLoader)).document() == plan.document()


@pytest.mark.parametrize(
    ("fabric", "wanted"),
    [
        ({"pods_per_node": None}, [("RY833", "fabric.slots")]),
        ({"pods_per_node": None, "slot": {"all_rails": 1}}, [("RY110", "fabric.slot")]),
        ({"slots": {"all_rails": "many"}}, [("RY112", "fabric.slots.all_rails")]),
        ({"slots": {"all": 4}}, [("RY110", "fabric.slots.all")]),
        ({"slots": {"all_rails": 30, "per_rail": 3}}, [("RY323", "addresses.block")]),
        ({"attachment": "host-device", "pods_per_node": 1, "slots": {"all_rails": 2}}, [("RY836", "fabric.slots")]),
        ({"attachment": "sriov", "pods_per_node": 4, "vfs": {"count": 3}}, [("RY610", "fabric.vfs.count")]),
        (
            {"attachment": "sriov", "vfs": {"count": 8, "trust": "true", "spoofchk": "false"}},
            [("RY842", "fabric.vfs.trust"), ("RY842", "fabric.vfs.spoofchk")],
        ),
        ({"attachment": "sriov", "vfs": {"count": 8, "trust": "false", "spoofchk": "true"}}, []),
        ({"pods_per_node": 33}, [("RY323", "addresses.block")]),
    ],
)
def test_a_wrong_number_is_one_finding(fabric: Data, wanted: list[tuple[str, str]]) -> None:
    assert findings(worked(**fabric)) == wanted


@pytest.mark.parametrize(
    ("rails", "names", "wanted"),
    [
        ("rails", {}, [("RY839", "rails.rails")]),
        ("gpu01", {"resource_prefix": "4gpus.example.com"}, [("RY839", "names.resource_prefix")]),
        ("gpu01", {"resource_prefix": "r.%s.example.com" % ("x" * 45)}, [("RY839", "names.resource_prefix")]),
        ("gpu01", {"resource_prefix": "r.%s.example.com" % ("x" * 43), "interface": "rail{k}"}, []),
        ("gpu01", {"pool": "{rail}"}, [("RY838", "names.pool")]),
    ],
)
def test_names_are_valid_device_names(rails: str, names: Data, wanted: list[tuple[str, str]]) -> None:
    file = worked()
    file["rails"] = {rails: {"subnet": "172.16.11.0/24"}}
    file["profiles"]["guest"]["ports"] = {rails: {"netdev": "enp1s0"}}
    assert findings(dict(file, names=names)) == wanted


@pytest.mark.parametrize("attachment", ["ipoib", "ib-sriov", "host-device"])
def test_slots_of_infiniband(attachment: str) -> None:
    """VFs have GUIDs of the plan, and no interface gets an address of the plan."""
    pods = None if attachment == "host-device" else 2
    file = worked(
        "ipoib", provider="agent", attachment=attachment, link_layer="infiniband", pods_per_node=pods, vfs={"count": 2}
    )
    if attachment != "ib-sriov":
        del file["fabric"]["vfs"]
    node = document(file)["nodes"][0]
    rail = node["agent"]["rails"][0]
    agent = parse_spec(node["agent"])
    assert (agent.attachment, agent.rdma_mode, agent.conflict_check) == (attachment, "shared", True)
    assert {slot["mac"] for slot in rail["slots"]} == {None}
    assert rail["slots"][0]["address"] == "172.17.1.1/24"
    assert [slot["vf"] for slot in rail["slots"]] == {"ib-sriov": [0, 1], "ipoib": [None, None]}.get(attachment, [None])
    if attachment == "ib-sriov":
        assert len({vf["port_guid"] for vf in node["ports"][0]["vfs"]["attributes"]}) == 2
    if attachment != "ipoib":
        file["fabric"]["rdma_mode"] = "exclusive"
        refused = lint(yaml.safe_dump(file, sort_keys=False).encode()).findings
        assert [(finding.code, finding.place) for finding in refused] == [("RY502", "fabric.rdma_mode")]
        assert "the kernel removes an IPoIB interface" in refused[0].message


# -- what the agent reads


def test_the_node_file_has_the_address_of_metrics() -> None:
    def agent(**settings: t.Any) -> Data:
        values: Data = document(worked(agent=settings))["nodes"][0]["agent"]
        return {key: values[key] for key in ("metrics", "gateway_check")}

    assert agent(metrics="all", metrics_port=9500) == {"metrics": "*:9500", "gateway_check": False}
    assert agent(metrics="off", gateway_check=True) == {"metrics": None, "gateway_check": True}
    assert ("RY832", "fabric.agent") in findings(worked(provider="spiderpool", slots=None, agent={"metrics": "all"}))


def test_a_file_with_agent_settings_is_written_as_it_was_read() -> None:
    settings = {"metrics": "all", "metrics_port": 9500, "gateway_check": True}
    written = yaml.safe_load(write(plan_of(worked(agent=settings)).fabric))
    assert written["fabric"]["agent"] == settings


def test_alerts_and_scrape_of_agents() -> None:
    def objects(**settings: t.Any) -> dict[str, Data]:
        plan = document(worked(agent=settings))
        given = {"grafana_labels": {"grafana_dashboard": "1"}, "monitoring_namespace": "monitoring"}
        return {each["kind"]: each for each in object_components.objects(plan, given)}

    assert "ScrapeConfig" not in objects(metrics="loopback")
    made = objects(metrics="all")
    scrape = made["ScrapeConfig"]["spec"]
    assert {"__address__", "node", "fabric", "job"} == {
        each["targetLabel"] for each in scrape["relabelings"] if "targetLabel" in each
    }
    assert scrape["relabelings"][1]["replacement"] == "$1:9465"
    alerts = {each["alert"]: each for each in made["PrometheusRule"]["spec"]["groups"][0]["rules"]}
    assert list(alerts) == [
        "RailPauseStorm",
        "RailOutOfSequence",
        "RailCongestion",
        "RailAsymmetry",
        "RailAgentDown",
        "RailDown",
        "RailLinkFlap",
        "RailResourceMissing",
        "RailAttachFailures",
    ]
    board = json.loads(made["ConfigMap"]["data"]["lab-agent-rails.json"])
    assert made["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    # every metric that alerts and panels use is one that the agent exports
    used = [alert["expr"] for alert in alerts.values()]
    used += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for text in used for name in re.findall(r"railyard_\w+", text)}
    assert names <= exported_metrics()


def board_of(file: Data) -> Data:
    """The dashboard of a fabric file."""
    given = {"grafana_labels": {"grafana_dashboard": "1"}}
    objects = object_components.objects(document(file), given)
    board = next(each for each in objects if each["kind"] == "ConfigMap" and "dashboard" in each["metadata"]["name"])
    found: Data = json.loads(next(iter(board["data"].values())))
    return found


def test_the_first_panel_counts_the_planned_rails() -> None:
    plan = document(worked())
    planned = sum(len(node["agent"]["rails"]) for node in plan["nodes"])
    first = board_of(worked())["panels"][0]
    assert planned and first["type"] == "stat" and first["options"]["textMode"] == "name"
    # agents that do not answer have no metrics, so the plan gives the total
    assert first["targets"][0]["legendFormat"] == "{{up}} of %d rails up" % planned
    assert "/ %d)" % planned in first["targets"][0]["expr"] and "$node" not in first["targets"][0]["expr"]
    assert [step["value"] for step in first["fieldConfig"]["defaults"]["thresholds"]["steps"]] == [None, 1]


def test_panels_of_a_dashboard_do_not_overlap() -> None:
    panels = board_of(worked())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _y in cells) < 24


@pytest.mark.parametrize(
    "attachment, of_pods, of_ethernet",
    [("macvlan", False, True), ("ipvlan", False, True), ("sriov", True, True), ("ipoib", False, False)],
)
def test_a_dashboard_has_no_panel_that_is_always_empty(attachment: str, of_pods: bool, of_ethernet: bool) -> None:
    more: Data = {"vfs": {"count": 8}} if attachment == "sriov" else {}
    file = worked(attachment=attachment, mtu=2044, **more)
    for profile in file["profiles"].values():
        profile.pop("soft_rdma" if attachment == "ipoib" else "", None)
    titles = {panel["title"] for panel in board_of(file)["panels"]}
    assert ("RDMA received by pod" in titles) == of_pods
    assert {"Pause frames" in titles, "Congestion notifications sent" in titles} == {of_ethernet}


def exported_metrics() -> set[str]:
    """The names of the metrics that an agent exports of itself and of pods."""
    rail = {"rail": "gpu01", "port": "rail1", "healthy": True, "cordoned": False}
    resource = {"resource": "railyard.fabric/rails", "devices": 1, "held": 0, "registered": True}
    attaches = {"count": 1, "seconds": 0.5, "failed": {"held": 1}}
    status = dict.fromkeys(("version", "fabric", "node", "attachment"), "")
    out = Exposition()
    rows = {"rails": [rail], "resources": [resource], "conflicts": [{"rail": "gpu01"}], "unattached": 0}
    agent_metrics.add_agent(out, {**status, **rows, "attaches": attaches})
    pods = {"railyard_pod_network_%s_total" % name for name in agent_metrics.NETDEV}
    return pods | set(re.findall(r"^# TYPE (\w+)", out.text(), re.MULTILINE))


def test_the_file_of_an_agent() -> None:
    file = worked(slots={"all_rails": 1, "per_rail": 1}, pods_per_node=None)
    file["addresses"]["gateway"] = ".254"
    node = document(file)["nodes"][1]
    agent = node["agent"]
    assert {key: value for key, value in agent.items() if key != "rails"} == {
        "format": 1,
        "gateway_check": False,
        "metrics": "127.0.0.1:9465",
        "fabric": "lab-agent",
        "node": "node-2",
        "resource_prefix": "railyard.fabric",
        "attachment": "macvlan",
        "rdma_mode": "shared",
        "conflict_check": True,
        "kubelet_plugin": "device-plugin",
        "kubeconfig": None,
        "env": {"NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_FAMILY": "AF_INET"},
    }
    slot = {"address6": None, "vf": None}
    macs = [each["mac"] for each in agent["rails"][0]["slots"]]
    assert agent["rails"][0] == {
        "rail": "gpu01",
        "number": 1,
        "netdev": "enp1s0",
        "pci": "0000:01:00.0",
        "rdma": "rxe_gpu01",
        "rdma_type": "rxe",
        "interface": "net1",
        "mtu": 4200,
        "table": 101,
        "rule_priority": 10001,
        "gateway": "172.16.11.254",
        "gateway6": None,
        "routes": [],
        "sysctl": {"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"},
        "plane": 1,
        "leaf": node["ports"][0]["leaf"]["name"],
        "speed": None,
        "slots": [
            {"number": 0, "resource": "rails", "address": "172.16.11.33/24", "mac": macs[0], **slot},
            {"number": 1, "resource": "gpu01", "address": "172.16.11.34/24", "mac": macs[1], **slot},
        ],
    }
    assert len(set(macs)) == 2 and all(mac[1] == "2" and len(mac) == 17 for mac in macs)
    assert json.loads(json.dumps(agent)) == agent


@given(files(provider="agent"))
def test_an_agent_reads_what_is_planned(file: t.Any) -> None:
    plan = lint(file.text.encode()).plan
    assert plan is not None
    made = plan.document()
    for node in made["nodes"]:
        spec = parse_spec(node["agent"])
        units = {"railyard.fabric/" + resource: len(devices) for resource, devices in spec.resources().items()}
        assert units == object_components.allocatable(made)[node["name"]]
        for rail, planned_rail in zip(spec.rails, node["agent"]["rails"]):
            addresses = [[str(address) for address in slot.addresses] for slot in rail.slots]
            wanted = [[each for each in (slot["address"], slot["address6"]) if each] for slot in planned_rail["slots"]]
            assert addresses == wanted


def test_a_slot_of_a_vf_is_the_vf() -> None:
    plan = document(worked("sriov-roce", provider="agent"))
    for node in plan["nodes"]:
        for port, rail in zip(node["ports"], node["agent"]["rails"]):
            vfs = port["vfs"]["attributes"]
            assert [(slot["vf"], slot["mac"]) for slot in rail["slots"]] == [(vf["index"], vf["mac"]) for vf in vfs]


@pytest.mark.parametrize("attachment", ["ipvlan", "host-device"])
def test_an_interface_without_a_mac_of_its_own(attachment: str) -> None:
    plan = document(worked(attachment=attachment, pods_per_node=1))
    assert plan["nodes"][0]["ports"][0]["vfs"] is None
    assert {(slot["mac"], slot["vf"]) for slot in slots(plan)["node-1"]} == {(None, None)}


@pytest.mark.parametrize(
    ("routing", "table", "gateway", "routed"),
    [
        ({}, 101, "172.16.11.1", False),
        ({"cross_rail": False}, 101, None, True),
        ({"mode": "destination"}, None, None, True),
    ],
)
def test_routes_of_pods(routing: Data, table: int | None, gateway: str | None, routed: bool) -> None:
    file = worked(routing=routing)
    file["addresses"] = {"mode": "prefix", "node_prefix": 28}
    rail = document(file)["nodes"][0]["agent"]["rails"][0]
    assert (rail["table"], rail["gateway"]) == (table, gateway)
    route = {"to": "172.16.11.0/24", "via": "172.16.11.1", "table": table}
    assert rail["routes"] == ([route] if routed else [])


def test_a_port_that_is_found_on_the_node_is_filled_in() -> None:
    file = dict(worked(), nodes={"node-1": {"profile": "guest"}})
    for number, port in enumerate(file["profiles"]["guest"]["ports"].values(), 1):
        del port["pci"]
        port.update(netdev="rail%d" % number, mac="02:00:00:00:00:%02x" % number)
    node = document(file)["nodes"][0]
    nics = [
        {"pci": "0000:0%d:00.0" % n, "netdev": "eth%d" % n, "mac": "02:00:00:00:00:%02x" % n, "slot": None,
         "serial": None, "rdma": [], "management_path": None}
        for n in range(1, 9)
    ]  # fmt: skip
    assert node["agent"]["rails"][2]["pci"] is None
    done = identify(node, nics)
    assert [rail["pci"] for rail in done["agent"]["rails"]] == [port["pci"] for port in done["ports"]]
    assert done["agent"]["rails"][2]["pci"] == "0000:03:00.0"


# -- what the cluster gets, and what people see


def test_the_cluster_has_no_object_but_the_test_pods() -> None:
    plan = document(worked())
    options = {"metrics": False, "images": {"test": "registry.example.org/rails:1"}}
    assert list(object_components.objects(plan, {"metrics": False})) == []
    (made,) = object_components.objects(plan, options)
    template = made["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert made["kind"] == "DaemonSet" and "annotations" not in template["metadata"]
    assert container["resources"]["limits"] == {"railyard.fabric/rails": "1"} and "env" not in container
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["shm"]
    (made,) = object_components.objects(document(worked(slots={"per_rail": 2}, pods_per_node=None)), options)
    limits = made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"railyard.fabric/gpu%02d" % number: "1" for number in range(1, 9)}
    files = dict(object_components.node_files(plan))
    assert json.loads(files["node-1"]["/etc/railyard/agent.json"]) == plan["nodes"][0]["agent"]


def test_a_node_without_its_agent_is_missing() -> None:
    goal = cluster_ready.Goal(document(worked(attachment="ipvlan", pods_per_node=2)), {"metrics": False}, [])
    ready = [{"type": "Ready", "status": "True"}]
    units = {"railyard.fabric/rails": "1", **{"railyard.fabric/gpu%02d" % number: "1" for number in range(1, 9)}}
    nodes = {
        name: {"metadata": {"name": name}, "status": {"conditions": ready, "allocatable": dict(units)}}
        for name in ("node-1", "node-2")
    }
    assert goal.missing(nodes, {}) == [] and goal.reached(nodes, {}) == goal.resources == 18
    nodes["node-1"]["status"]["allocatable"]["railyard.fabric/rails"] = "0"
    del nodes["node-1"]["status"]["allocatable"]["railyard.fabric/gpu02"]
    nodes["node-2"]["status"]["allocatable"] = {}
    found = goal.missing(nodes, {})
    assert [(each.subject, each.what, each.rail) for each in found] == [
        ("node-1", "reports 0 of 1 railyard.fabric/rails (all rails)", None),
        ("node-1", "reports none of 1 railyard.fabric/gpu02 (rail gpu02)", "gpu02"),
        ("node-2", "reports none of its 9 rails' resources", None),
    ]
    assert ["railyard-agent" in each.reason for each in found] == [False, True, True]
    # the kubelet keeps the resources of an agent that has ended
    nodes["node-2"]["status"]["allocatable"] = dict.fromkeys(units, "0")
    assert goal.missing(nodes, {})[2] == found[2]


def test_tables_and_differences() -> None:
    plan, other = (document(worked(pods_per_node=pods)) for pods in (8, 6))
    rows = [dict(zip(plan_rows.SLOTS, row)) for row in plan_rows.slots(plan)]
    assert len(rows) == 2 * 8 * 8 and len(plan_tables.files(plan)["slots.csv"].splitlines()) == 129
    assert [(row["device"], row["resource"]) for row in rows[3:5]] == [
        ("rails-3", "railyard.fabric/rails"),
        ("gpu01-4", "railyard.fabric/gpu01"),
    ]
    kinds = {row[:2]: row[OBJECT_NODES] for row in plan_rows.objects(plan)}
    assert kinds[("resource", "railyard.fabric/rails")] == 2 and len(kinds) == 9
    changes = [change for change in plan_diff.diff(plan, other) if change.what == "slot"]
    assert {(change.kind, change.subject[-1], change.attribute) for change in changes} == {
        ("removed", "6", ""),
        ("removed", "7", ""),
        ("renamed", "3", "resource"),
    }


OBJECT_NODES = plan_rows.OBJECTS.index("nodes")


def test_slots_are_the_vfs_of_the_range() -> None:
    vfs = {"count": "10", "range": "5-9"}
    plan = document(worked(attachment="sriov", pods_per_node="5", vfs=vfs, slots={"all_rails": "3", "per_rail": "2"}))
    node = plan["nodes"][0]
    macs = [row["mac"] for row in node["ports"][0]["vfs"]["attributes"]]
    assert [(slot["vf"], slot["mac"]) for slot in slots(plan)[node["name"]]] == list(zip(range(5, 10), macs))
    more = worked(attachment="sriov", pods_per_node="5", vfs=vfs, slots={"all_rails": "6", "per_rail": "0"})
    remedies = [each.remedy for each in lint(yaml.safe_dump(more).encode()).findings if each.code == "RY836"]
    assert remedies and all("widen vfs.range to 6 VFs" in remedy for remedy in remedies)
