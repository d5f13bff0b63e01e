# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several kinds of rails on one node: every layer reads the value of the rail, and lint reports values that clash."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, Finding
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    object_components,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers.layer_modules import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    link_layer_of,
    qos_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_rows, plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets
from tests.unit.fabric.kubernetes import schema, webhooks
from tests.unit.fabric.verify_nodes import ABOUT, World, document

Row = t.Dict[str, t.Any]
GIVEN = {"registry": "registry.example", "images": {"test": "registry.example/test:1.0"}}
PORTS = """
profiles:
  hgx:
    gpus: 2
%s    ports:
      gpu01: {netdev: ibrail01, pci: "0000:18:00.0", gpu: 0, rdma: mlx5_0}
      gpu02: {netdev: ibrail02, pci: "0000:19:00.0", gpu: 1, rdma: mlx5_1}
      stor1: {netdev: stor1, pci: "0000:29:00.0", rdma: mlx5_2}
nodes:
  ai-[1:2]: {profile: hgx, address: "10.0.0.[1:2]"}
"""
STORAGE = "subnet: 172.16.13.0/24, gateway: .254, %shosts: .201-.253"
PODS = "pods: .1-.200, "


def file(general: str, storage: str, compute: str = "mode: none", more: str = "", profile: str = "") -> str:
    """Two compute rails and a storage rail. ``storage``: keys of its rail beside role and addresses."""
    pods = "" if "attachment: host," in storage + "," or "provider: none" in general else PODS
    return (
        "plugin: railyard.fabric.rails\nfabric: {name: ai, mtu: 4092, %s}\n" % general
        + "rails:\n  gpu01: {%s}\n  gpu02: {%s}\n" % (compute, compute.replace(".11.", ".12."))
        + "  stor1: {role: storage, mtu: 9000, %s, %s}\n" % (storage, STORAGE % pods)
        + more
        + PORTS % profile
    )


def findings(text: str) -> list[Finding]:
    return lint(text.encode()).findings


def errors(text: str) -> list[str]:
    return [finding.code for finding in findings(text) if finding.severity == ERROR]


def planned(text: str) -> Row:
    outcome = lint(text.encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan.document()


def ports(plan: Row) -> dict[str, Row]:
    return {port["rail"]: port for port in plan["nodes"][0]["ports"]}


def modules(plan: Row) -> dict[str, Row]:
    found = layer_modules(plan["nodes"][0], plan["fabric"], {"kubernetes_options": GIVEN}, LAYERS)
    return {row["module"]: row["options"] for row in found}


IB_SRIOV = "attachment: ib-sriov, provider: %s, vfs: {count: 4}, pods_per_node: 4"
# provider -> general keys and the storage rail: InfiniBand between GPUs, Ethernet to storage
MIXED = {
    "spiderpool": (IB_SRIOV % "spiderpool", "attachment: sriov"),
    "spiderpool-shared": (IB_SRIOV % "spiderpool" + ", rdma_mode: shared", "attachment: ipvlan"),
    "spiderpool-ipoib": ("attachment: ipoib, provider: spiderpool, pods_per_node: 4", "attachment: macvlan"),
    "spiderpool-host": (IB_SRIOV % "spiderpool", "attachment: host, link_layer: ethernet"),
    "network-operator": (IB_SRIOV % "network-operator", "attachment: sriov"),
    "network-operator-shared": (IB_SRIOV % "network-operator" + ", rdma_mode: shared", "attachment: macvlan"),
    "network-operator-whole": (
        "attachment: host-device, link_layer: infiniband, provider: network-operator, pods_per_node: 1",
        "attachment: host-device, link_layer: ethernet",
    ),
    "cni": (
        "attachment: host-device, link_layer: infiniband, provider: cni, pods_per_node: 1",
        "attachment: host, link_layer: ethernet",
    ),
    "agent": (IB_SRIOV % "agent", "attachment: ipvlan"),
    "agent-whole": (
        "attachment: host-device, link_layer: infiniband, provider: agent, pods_per_node: 1",
        "attachment: macvlan",
    ),
    "agent-host": (IB_SRIOV % "agent", "attachment: host, link_layer: ethernet"),
    "none": ("provider: none, link_layer: infiniband", "link_layer: ethernet"),
}
IPOIB = "subnet: 172.16.11.0/24, pods: .1-.200, hosts: .201-.253"


def mixed(name: str, more: str = "", profile: str = "") -> str:
    return file(*MIXED[name], compute=IPOIB if "ipoib" in name else "mode: none", more=more, profile=profile)


@pytest.mark.parametrize("name", MIXED)
def test_infiniband_compute_and_ethernet_storage_are_one_file(name: str) -> None:
    text = mixed(name, "qos: {dscp: 26}\n", "    firmware: {num_of_vfs: 8}\n    infiniband: {pkeys: [0x8001]}\n")
    plan = planned(text)
    of = ports(plan)
    assert [of[rail]["firmware"]["link_type"] for rail in of] == ["ib", "ib", "eth"]
    assert [bool(of[rail]["ipoib"]) for rail in of] == [True, True, False]
    assert [of[rail]["mtu"] for rail in of] == [4092, 4092, 9000]
    assert [port["pci"] for port in modules(plan)["roce_qos"]["ports"]] == ["0000:29:00.0"]
    assert [port["pci"] for port in modules(plan)["ib_ports"]["ports"]] == ["0000:18:00.0", "0000:19:00.0"]
    assert [port["link_type"] for port in modules(plan)["mlx_linktype"]["ports"]] == ["ib", "ib", "eth"]
    assert {port.get("role") for port in of.values()} == {None, "storage"}
    # a file that is written from the plan gives the same plan
    outcome = lint(text.encode())
    assert outcome.plan and planned(write(outcome.plan.fabric)) == plan
    assert plan_tables.head(plan)[0] == "fabric ai: 2 nodes, 2 rails and 1 storage rail, 6 ports"
    assert "infiniband and ethernet" in plan_tables.head(plan)[1]
    qos = [row[plan_rows.LEAVES.index("qos_class")] for leaf in plan_rows.leaves(plan) for row in leaf.rows[:1]]
    assert qos == ["", "", "roce-p3-dscp26"]


@pytest.mark.parametrize("name", [name for name in MIXED if name != "none"])
def test_the_objects_of_both_kinds_are_valid(name: str) -> None:
    plan = planned(mixed(name))
    objects = list(object_components.objects(plan, GIVEN))
    assert [problem for each in objects if schema.known(each) for problem in schema.problems(each)] == []
    assert webhooks.problems(objects) == []
    object_components.values(plan, GIVEN)
    networks = [(rail["name"], each["attachment"]) for rail in plan["rails"] for each in rail["networks"]]
    storage = MIXED[name][1].partition("attachment: ")[2].partition(",")[0]
    compute = MIXED[name][0].partition("attachment: ")[2].partition(",")[0]
    wanted = [("gpu01", compute), ("gpu02", compute)] + [("stor1", storage)] * (storage != "host")
    assert networks == wanted
    links = {
        each["metadata"]["labels"]["railyard.fabric/rail"]: each["spec"]["linkType"]
        for each in objects
        if each["kind"] == "SriovNetworkNodePolicy"
    }
    vfs = {"ib-sriov": "ib", "sriov": "eth"}
    agent = name.startswith("agent")
    assert links == {rail: vfs[kind] for rail, kind in wanted if kind in vfs and not agent}


@pytest.mark.parametrize("name", ["spiderpool-shared", "network-operator", "agent"])
def test_a_job_with_all_gpus_gets_the_compute_rails_only(name: str) -> None:
    plan = planned(mixed(name))
    (pods,) = [each for each in object_components.objects(plan, GIVEN) if each["kind"] == "DaemonSet"]
    template = pods["spec"]["template"]
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    networks = (template["metadata"].get("annotations") or {}).get("k8s.v1.cni.cncf.io/networks", "")
    assert not any("stor1" in resource for resource in limits) and "stor1" not in networks
    assert list(limits) == ["railyard.fabric/rails"] if name == "agent" else networks.count("@") == len(limits) == 2


def test_vfs_have_the_identities_of_their_link_layer() -> None:
    for name in ("spiderpool", "network-operator"):
        of = ports(planned(mixed(name)))
        compute, storage = of["gpu01"]["vfs"]["attributes"][0], of["stor1"]["vfs"]["attributes"][0]
        assert (bool(compute["node_guid"]), compute["mac"]) == (True, None)
        assert (storage["node_guid"], bool(storage["mac"])) == (None, True)


def test_nccl_uses_compute_rails_of_either_link_layer() -> None:
    plan = planned(mixed("spiderpool-shared", "qos: {dscp: 26}\n"))
    settings = nccl_objects.host_settings(plan["fabric"], plan["nodes"][0])
    # nothing of RoCE, which only the storage rail has
    assert settings == {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}
    assert nccl_objects.host_ucx(plan["fabric"], plan["nodes"][0]) == {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}
    # the reverse: RoCE between GPUs, InfiniBand to storage
    roce = file(
        "attachment: macvlan, provider: spiderpool, pods_per_node: 4",
        "attachment: ipoib, qos: leave",
        IPOIB + ", gateway: .254",
        "qos: {dscp: 26}\n",
    ).replace("mtu: 9000", "mtu: 2044")
    plan = planned(roce)
    settings = nccl_objects.host_settings(plan["fabric"], plan["nodes"][0])
    assert settings["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1" and settings["NCCL_IB_TC"] == "106"
    assert settings["NCCL_IB_ROCE_VERSION_NUM"] == "2"


# -- the agent ---------------------------------------------------------------------------------------------------------


def slots(plan: Row) -> dict[str, list[str]]:
    return {rail["rail"]: [slot["resource"] for slot in rail["slots"]] for rail in plan["nodes"][0]["agent"]["rails"]}


def test_the_unit_of_all_rails_has_no_slot_of_storage() -> None:
    found = slots(planned(mixed("agent")))
    assert found["gpu01"] == ["rails", "rails", "gpu01", "gpu01"] and found["stor1"] == ["stor1"] * 4
    # a port of its own for each pod on the compute rails leaves as many slots of the storage rail
    assert slots(planned(mixed("agent-whole"))) == {"gpu01": ["rails"], "gpu02": ["rails"], "stor1": ["stor1"]}
    assert list(slots(planned(mixed("agent-host")))) == ["gpu01", "gpu02"]
    stated = mixed("agent").replace("pods_per_node: 4", "slots: {all_rails: 1, per_rail: 2}")
    found = slots(planned(stated))
    assert found["gpu01"] == ["rails", "gpu01", "gpu01"] and found["stor1"] == ["stor1"] * 3


def test_the_agent_file_has_the_attachment_of_a_rail_only_where_it_differs() -> None:
    rails = planned(mixed("agent"))["nodes"][0]["agent"]["rails"]
    assert [rail.get("attachment") for rail in rails] == [None, None, "ipvlan"]
    assert [rail["slots"][0]["vf"] for rail in rails] == [0, 0, None]
    macvlan = planned(mixed("agent").replace("ipvlan", "macvlan"))["nodes"][0]["agent"]["rails"]
    assert [bool(rail["slots"][0]["mac"]) for rail in macvlan] == [False, False, True]


# -- the RDMA mode -----------------------------------------------------------------------------------------------------

CONFLICTS = [
    (IB_SRIOV % "spiderpool", "attachment: ipvlan"),
    (IB_SRIOV % "network-operator", "attachment: macvlan"),
    ("attachment: ipoib, provider: spiderpool, pods_per_node: 4", "attachment: sriov, vfs: {count: 4}"),
    (
        "attachment: host-device, link_layer: infiniband, provider: network-operator, pods_per_node: 1",
        "attachment: macvlan",
    ),
    (IB_SRIOV % "agent", "attachment: sriov"),
]


@pytest.mark.parametrize(("general", "storage"), CONFLICTS)
def test_rails_that_need_different_rdma_modes_are_an_error_with_a_remedy_that_works(general: str, storage: str) -> None:
    compute = IPOIB if "ipoib" in general else "mode: none"
    text = file(general, storage, compute)
    (found,) = [finding for finding in findings(text) if finding.severity == ERROR]
    assert found.code == "RY509" and "gpu01" in found.message and "stor1" in found.message
    assert "set fabric.rdma_mode: shared" in found.remedy
    outcome = lint(file(general + ", rdma_mode: shared", storage, compute).encode())
    assert outcome.plan and outcome.plan.document()["nodes"][0]["rdma_mode"] == "shared"
    # what it costs is a warning
    assert "RY507" in [finding.code for finding in outcome.findings]
    other = found.remedy.partition("set attachment: ")[2].partition(" for ")[0]
    if other and "stor1" in found.remedy:
        again = file(general, "attachment: %s, link_layer: ethernet" % other, compute)
        assert "RY509" not in errors(again) and "RY503" not in errors(again)


@pytest.mark.parametrize("storage", ["ipvlan", "macvlan"])
def test_a_stated_mode_must_suit_all_rails(storage: str) -> None:
    text = file(IB_SRIOV % "spiderpool" + ", rdma_mode: exclusive", "attachment: %s" % storage)
    (found,) = [finding for finding in findings(text) if finding.severity == ERROR]
    assert (found.code, found.place, found.remedy) == ("RY502", "fabric.rdma_mode", "write shared")


def test_a_rail_without_pods_does_not_determine_the_rdma_mode() -> None:
    for name, mode in (("spiderpool-host", "exclusive"), ("agent-host", "shared"), ("cni", "exclusive")):
        assert planned(mixed(name))["nodes"][0]["rdma_mode"] == mode


# -- any kinds ---------------------------------------------------------------------------------------------------------


@st.composite
def any_kinds(draw: t.Callable[..., t.Any]) -> str:
    """A file whose rails have any roles, attachments, link layers and QoS."""
    provider = draw(st.sampled_from(list(PROVIDERS)))
    served = PROVIDERS[provider].served
    common = draw(st.sampled_from(served))
    general = "provider: %s, attachment: %s" % (provider, common)
    general += draw(st.sampled_from(["", ", rdma_mode: shared", ", rdma_mode: shared"]))
    general += ", pods_per_node: %d" % draw(st.sampled_from([1, 1, 2])) if provider != "none" else ""
    text = "plugin: railyard.fabric.rails\nfabric: {name: ai, mtu: 4092, %s}\n" % general
    text += "addresses: {mode: block, block: 16}\n" if provider == "cni" else ""
    text += "rails:\n"
    for at, name in enumerate(("gpu01", "gpu02", "stor1")):
        own = draw(st.sampled_from(["", *served, "host"]))
        attachment = own or common
        layer = draw(st.sampled_from(ATTACHMENTS[attachment].link_layers))
        keys = ["link_layer: %s" % layer] + ["attachment: %s" % own] * bool(own)
        keys += ["role: %s" % draw(st.sampled_from(["compute", "storage"]))] * draw(st.booleans())
        if layer == "ethernet":
            keys.append(draw(st.sampled_from(["qos: leave", "qos: {dscp: 34}", "qos: {pfc: []}", "mtu: 9000"])))
        else:
            keys.append(draw(st.sampled_from(["infiniband: {pkeys: [2]}", "infiniband: {ipoib_mode: datagram}"])))
        keys += ["vfs: {count: 4}"] * ATTACHMENTS[attachment].vfs
        pods = PODS if provider != "none" and attachment != "host" else ""
        text += "  %s: {%s, %s}\n" % (name, ", ".join(keys), STORAGE.replace(".13.", ".%d." % (11 + at)) % pods)
    return text + draw(st.sampled_from(["", "qos: {dscp: 26}\n"])) + PORTS % "    firmware: {}\n"


@given(any_kinds())
def test_a_plan_of_any_kinds_can_be_applied(text: str) -> None:
    """What lint accepts has one RDMA mode that suits all rails, valid objects and options of modules, and is written as
    a file that gives the same plan."""
    outcome = lint(text.encode())
    if outcome.plan is None:
        assert outcome.errors
        return
    plan = outcome.plan.document()
    assert planned(write(outcome.plan.fabric)) == plan
    facts = PROVIDERS[plan["fabric"]["provider"]]
    for node in plan["nodes"]:
        for port in node["ports"]:
            attachment, layer = attachment_of(node, port), link_layer_of(plan["fabric"], port)
            assert layer in ATTACHMENTS[attachment].link_layers
            assert node["rdma_mode"] in facts.rdma_modes(attachment, layer)
            assert bool(port["vfs"]) == ATTACHMENTS[attachment].vfs
            assert (port["names"]["interface"] is None) == (attachment == "host")
            assert layer == "ethernet" or qos_of(plan["fabric"], port) is None
    options = modules(plan)
    ethernet = [port["pci"] for port in ports(plan).values() if link_layer_of(plan["fabric"], port) == "ethernet"]
    assert {port["pci"] for port in options.get("roce_qos", {"ports": []})["ports"]} <= set(ethernet)
    assert not {port["pci"] for port in options.get("ib_ports", {"ports": []})["ports"]} & set(ethernet)
    plan_tables.as_table(plan, 10)
    if facts.kubernetes:
        objects = list(object_components.objects(plan, GIVEN))
        assert [problem for each in objects if schema.known(each) for problem in schema.problems(each)] == []
        assert webhooks.problems(objects) == []
        object_components.values(plan, GIVEN)
        object_components.allocatable(plan, GIVEN)


# -- values that do not fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("general", "storage", "more", "code", "place"),
    [
        # the link layer of the rail, and the attachment of the fabric
        (IB_SRIOV % "spiderpool", "link_layer: ethernet", "", "RY503", "rails.stor1.link_layer"),
        (IB_SRIOV % "spiderpool", "attachment: macvlan, link_layer: infiniband", "", "RY503", "rails.stor1.attachment"),
        (IB_SRIOV % "spiderpool", "attachment: ib-sriov, link_layer: ethernet", "", "RY503", "rails.stor1.attachment"),
        # the provider
        (IB_SRIOV % "network-operator", "attachment: ipvlan", "", "RY801", "rails.stor1.attachment"),
        ("provider: none, link_layer: infiniband", "attachment: macvlan", "", "RY801", "rails.stor1.attachment"),
        # settings of the other link layer
        (IB_SRIOV % "spiderpool", "attachment: sriov, infiniband: {pkeys: [1]}", "", "RY541", "rails.stor1.infiniband"),
        (IB_SRIOV % "spiderpool", "attachment: ib-sriov, qos: {dscp: 26}", "", "RY701", "rails.stor1.qos"),
        (IB_SRIOV % "spiderpool", "attachment: ib-sriov", "qos: {dscp: 26}\n", "RY701", "qos"),
        (
            "attachment: ib-sriov, provider: spiderpool, vfs: {count: 4, trust: true}",
            "attachment: sriov",
            "",
            "RY605",
            "fabric.vfs.trust",
        ),
        # VFs that the rail does not have
        (
            "attachment: ipoib, provider: spiderpool, pods_per_node: 4",
            "attachment: macvlan, vfs: {count: 4}",
            "",
            "RY601",
            "rails.stor1.vfs",
        ),
        (
            "attachment: ipoib, provider: spiderpool, pods_per_node: 4, rdma_mode: shared",
            "attachment: sriov",
            "",
            "RY602",
            "rails.stor1.vfs",
        ),
    ],
)
def test_findings_about_values_of_a_rail_have_the_place_of_the_rail(
    general: str, storage: str, more: str, code: str, place: str
) -> None:
    compute = IPOIB if "ipoib" in general else "mode: none"
    found = [(finding.code, finding.place) for finding in findings(file(general, storage, compute, more))]
    assert (code, place) in found


def test_pods_on_a_rail_of_the_node_are_an_error() -> None:
    text = mixed("spiderpool-host")
    assert errors(text) == []
    assert errors(text.replace("stor1: {role", "stor1: {pods: .1-.9, role")) == ["RY846"]
    assert errors(text.replace("stor1: {role", "stor1: {vfs: {count: 2}, role")) == ["RY601"]


@pytest.mark.parametrize("mode", ["mode: block, block: 16, pods: .1-.200", "mode: subnet, pods: .1-.200"])
def test_a_rail_of_the_node_inherits_no_pods(mode: str) -> None:
    general = "attachment: macvlan, provider: spiderpool, pods_per_node: 4"
    text = file(general, "attachment: host", OWN.replace(PODS, ""), "addresses: {%s}\n" % mode)
    plan = planned(text)
    port = ports(plan)["stor1"]
    assert (port["address"], port["pods"], port["names"]["pool"]) == ("172.16.13.201/24", None, None)
    assert ports(plan)["gpu01"]["pods"]["first"] == "172.16.11.1"
    outcome = lint(text.encode())
    assert outcome.plan and planned(write(outcome.plan.fabric)) == plan


def test_the_firmware_of_a_profile_has_one_link_type_only_if_its_rails_have() -> None:
    for link_type in ("ib", "eth"):
        (found,) = [
            each
            for each in findings(mixed("spiderpool", "", "    firmware: {link_type: %s}\n" % link_type))
            if each.severity == ERROR
        ]
        assert found.code == "RY505" and "remove link_type" in found.remedy
    assert errors(mixed("spiderpool", "", "    firmware: {}\n")) == []


# -- QoS ---------------------------------------------------------------------------------------------------------------

ROCE = "attachment: sriov, provider: spiderpool, vfs: {count: 4}, pods_per_node: 4"
OWN = "subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"


def test_the_qos_of_a_rail_overrides_single_keys_or_leaves_all() -> None:
    base = "qos: {dscp: 26, pfc: [3], trust: dscp, buffers: {cable_len: 30}}\n"
    found = ports(planned(file(ROCE, "qos: {ecn: false}", OWN, base)))
    assert "qos" not in found["gpu01"] and found["stor1"]["qos"]["ecn"]["enable"] is False
    assert found["stor1"]["qos"]["buffers"]["cable_len"] == 30
    # another priority has its own PFC and DSCP
    own = ports(planned(file(ROCE, "qos: {priority: 4}", OWN, base)))["stor1"]["qos"]
    assert (own["dscp"], own["pfc"]) == (32, [0, 0, 0, 0, 1, 0, 0, 0])
    assert ports(planned(file(ROCE, "qos: leave", OWN, base)))["stor1"]["qos"] is None
    # without QoS of the fabric
    only = ports(planned(file(ROCE, "qos: {dscp: 34}", OWN)))
    assert only["stor1"]["qos"]["dscp"] == 34 and "qos" not in only["gpu01"]


def test_the_module_gets_the_qos_of_each_port() -> None:
    base = "qos: {dscp: 26}\n"
    plan = planned(file(ROCE, "qos: {pfc: []}", OWN, base))
    options = modules(plan)["roce_qos"]
    assert options["qos"] == plan["fabric"]["qos"]
    assert [port.get("qos", {}).get("pfc") for port in options["ports"]] == [None, None, [0] * 8]
    left = modules(planned(file(ROCE, "qos: leave", OWN, base)))["roce_qos"]
    assert [port["netdev"] for port in left["ports"]] == ["ibrail01", "ibrail02"]
    only = modules(planned(file(ROCE, "qos: {dscp: 34}", OWN)))["roce_qos"]
    assert [port["netdev"] for port in only["ports"]] == ["stor1"] and only["qos"]["dscp"] == 34
    assert "qos" not in only["ports"][0]
    assert "roce_qos" not in modules(planned(file(ROCE, "qos: leave", OWN)))


def test_leaf_ports_have_the_qos_of_their_rail() -> None:
    plan = planned(file(ROCE, "qos: {dscp: 34, priority: 4}", OWN, "qos: {dscp: 26}\n"))
    page = plan_tables.leaf_page(plan, plan_rows.leaves(plan)).decode()
    assert "gpu01, gpu02:" in page and "stor1:" in page and "priority 4, DSCP 34" in page


def test_compute_rails_with_different_traffic_classes_are_a_warning() -> None:
    base = "qos: {dscp: 26}\n"
    text = file(ROCE, "qos: {dscp: 34, priority: 4}", OWN, base)
    assert "RY719" not in [finding.code for finding in findings(text)]
    assert "RY719" in [finding.code for finding in findings(text.replace("role: storage", "role: compute"))]


# -- InfiniBand without IPoIB ------------------------------------------------------------------------------------------

BARE = "infiniband: {ipoib_mode: none}, "


def bare(general: str, rail: str = "mode: none") -> str:
    return (
        "plugin: railyard.fabric.rails\nfabric: {name: ai, mtu: 4092, %s}\n" % (BARE + general)
        + 'rails: {count: 2, name: "gpu{n:02}", %s}\n' % rail
        + 'profiles:\n  hgx:\n    limits: {memlock: unlimited}\n    ports:\n      gpu01: {pci: "0000:18:00.0", rdma: '
        'mlx5_gpu01}\n      gpu02: {pci: "0000:19:00.0"}\nnodes:\n  ai-[1:2]: {profile: hgx}\n'
    )


WITHOUT_IPOIB = {
    "host": "provider: none, link_layer: infiniband",
    "ib-sriov": "provider: network-operator, attachment: ib-sriov, vfs: {count: 2}",
    "host-device": "provider: network-operator, attachment: host-device, link_layer: infiniband, pods_per_node: 1",
}


@pytest.mark.parametrize("name", WITHOUT_IPOIB)
def test_a_port_can_be_an_rdma_device_without_an_interface(name: str) -> None:
    plan = planned(bare(WITHOUT_IPOIB[name]))
    options = modules(plan)
    assert not {"rail_ports", "ib_ports"} & set(options)
    assert options["rdma_link"]["ports"] == [{"pci": "0000:18:00.0", "name": "mlx5_gpu01", "type": "hardware"}]
    rows = port_options(plan["nodes"][0]["ports"], "rail_probe", plan["nodes"][0], "infiniband")
    assert [row["pci"] for row in rows] == ["0000:18:00.0", "0000:19:00.0"]
    if name != "host":
        objects = list(object_components.objects(plan, GIVEN))
        assert [problem for each in objects if schema.known(each) for problem in schema.problems(each)] == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ((", mode: none}", ', subnet: "172.16.{n+10}.0/24", hosts: .1-.9}'), "rails"),
        (("{ipoib_mode: none}", "{ipoib_mode: none, pkeys: [1]}"), "fabric.infiniband.pkeys"),
        (("gpu02: {", "gpu02: {netdev: ib1, "), "profiles.hgx.ports.gpu02.netdev"),
    ],
)
def test_settings_of_the_missing_interface_are_errors(change: tuple[str, str], place: str) -> None:
    text = bare(WITHOUT_IPOIB["host"]).replace(*change)
    assert ("RY545", place) in [(finding.code, finding.place) for finding in findings(text)]


# -- verify ------------------------------------------------------------------------------------------------------------


UNITS = 'units:\n  su1: {nodes: 8, leaf: "{rail}", leaf_port: "p{i}"}\n'


def world(text: str) -> World:
    """``text``: a fabric file with :data:`UNITS`."""
    outcome = lint(text.replace("profile: hgx,", "profile: hgx, unit: su1,").encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return World(outcome.plan)


@pytest.mark.parametrize("name", ["spiderpool", "network-operator-shared", "none"])
def test_nodes_with_both_kinds_are_healthy_and_counted_apart(name: str) -> None:
    nodes = world(mixed(name, UNITS))
    verdict = nodes.verdict()
    shown = document(verdict, ABOUT)
    assert shown["failures"] == []
    assert shown["headline"] == "4 of 4 ports and 2 of 2 storage ports proven"


def test_pods_without_the_storage_rail_are_as_planned() -> None:
    nodes = world(mixed("spiderpool", UNITS))
    for name in nodes.plans:
        inside = nodes.inside(name)
        for part in ("links", "addresses", "routes", "rules", "rdma", "gids"):
            inside[part] = [row for row in inside[part] if row.get("netdev") != "net3"]
        inside["rules"] = [row for row in inside["rules"] if "172.16.13." not in row["from"]]
        nodes.pod(name)["networks"] = [row for row in nodes.pod(name)["networks"] if row["interface"] != "net3"]
    assert nodes.document()["failures"] == []
    # a pod that Multus has attached to the rail must have its interface
    nodes.pod("ai-1")["networks"].append({"interface": "net3", "network": "kube-system/stor1-sriov"})
    assert [(each["code"], each["rail"]) for each in nodes.document()["failures"]] == [("RV920", "stor1")]


def test_pods_must_have_the_storage_rail_if_the_compute_rails_have_no_pods() -> None:
    compute = "attachment: host, subnet: 172.16.11.0/24, gateway: .254, hosts: .201-.253"
    general = "attachment: ipvlan, provider: spiderpool, pods_per_node: 4"
    nodes = world(file(general, "qos: leave", compute, UNITS).replace("mtu: 9000", "mtu: 4092"))
    assert nodes.document()["failures"] == []
    inside = nodes.inside("ai-1")
    inside["links"] = [row for row in inside["links"] if row["netdev"] != "net3"]
    nodes.pod("ai-1")["networks"] = []
    assert [(each["code"], each["rail"]) for each in nodes.document()["failures"]] == [("RV920", "stor1")]


def test_traffic_is_probed_across_rails_of_one_kind_only() -> None:
    text = file(ROCE, "qos: leave", OWN)
    for changed, crossed in ((text, False), (text.replace("role: storage", "role: compute"), True)):
        plan = planned(changed)
        one, other = (probe_targets.probe_node(node, [], None, "", []) for node in plan["nodes"])
        rows = {row["rail"]: row for row in probe_targets.targets(one, other)}
        assert rows["gpu01"]["cross"]["rail"] == "gpu02"
        assert ("cross" in rows["stor1"]) == crossed


def test_infiniband_needs_no_address_beside_ethernet() -> None:
    plan = planned(mixed("none"))
    one, other = (probe_targets.probe_node(node, [], None, "", []) for node in plan["nodes"])
    assert [row["rail"] for row in probe_targets.targets(one, other, link_layer="infiniband")] == [
        "gpu01",
        "gpu02",
        "stor1",
    ]
    # the reverse: an Ethernet rail without addresses cannot be probed
    text = mixed("none").replace(", subnet: 172.16.13.0/24, gateway: .254, hosts: .201-.253", ", mode: none")
    one, other = (probe_targets.probe_node(node, [], None, "", []) for node in planned(text)["nodes"])
    assert [row["rail"] for row in probe_targets.targets(one, other, link_layer="infiniband")] == ["gpu01", "gpu02"]
