# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's settings of every worked inventory, on hosts, in pods, and in slots, are lines that NCCL documents."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common import nccl_hca
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    object_components,
    object_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import compute_ports, hca_ports
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import slurm_environment
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, cdi_files
from tests.unit.fabric.kubernetes.documents import REGISTRY
from tests.unit.fabric.nccl_grammar import Entry, check, entries, file_settings, old_entries
from tests.unit.node.trees import Tree

ROOT = Path(__file__).resolve().parents[3]
INVENTORIES = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))
VERSIONS = (None, "2.20.5", "2.30.4", "2.30.5", "2.31.0")
# Rails of two planes: one with a device for each plane, that one node does not have, one that no node has, and one with
# a port for each plane; a rail of one plane; and a storage rail. The profile has them in another order.
PLANES = """
plugin: railyard.fabric.rails
fabric: {name: ai, provider: %s, attachment: macvlan, mtu: 9000, nccl: {version: "%s"}%s}
rails:
  gpu[1:3]: {planes: 2, subnet: "10.{p}.{n}.0/24", hosts: .201-.253, pods: .1-.200}
  gpu4: {subnet: 10.3.1.0/24, hosts: .201-.253, pods: .1-.200}
  stor: {role: storage, attachment: host, subnet: 10.4.1.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu3p1: {netdev: nic31, rdma: "mlx5_2:3"}
      gpu3p2: {netdev: nic32, rdma: "mlx5_2:6"}
      gpu1p1: {pci: "0000:0b:00.0", netdev: nic11, rdma: mlx5_0}
      gpu1p2: {pci: "0000:0b:00.1", netdev: nic12, rdma: mlx5_1}
      gpu4: {pci: "0000:2b:00.0", netdev: nic4, rdma: mlx5_10}
      stor: {pci: "0000:3b:00.0", netdev: nic5, rdma: mlx5_11}
groups:
  part: {ports: {gpu1p1: null, gpu1p2: null}}
nodes:
  ai-1: {profile: hgx, groups: [part]}
  ai-[2:3]: {profile: hgx}
"""
SLURM = (PLANES % ("none", "2.30.5", "")).replace(", pods: .1-.200", "").replace("attachment: macvlan, ", "")
SLURM = SLURM.replace("attachment: host, ", "").replace("ai-[2:3]", "ai-[2:19]")
SLOTS = {"agent": ", slots: {all_rails: 2, per_rail: 1}", "spiderpool": ""}


def planned(text: str) -> Plan:
    outcome = lint(text.encode())
    assert outcome.plan, [str(finding) for finding in outcome.errors]
    return outcome.plan


def with_version(text: str, version: str | None) -> str:
    """The file with this version of NCCL in the section ``nccl`` of its fabric, in place of its own."""
    text = re.sub(r'\n  nccl: \{version: "[\d.]+"\}', "", text)
    text = re.sub(r'(\n  nccl: \{file: true), version: "[\d.]+"\}', r"\1}", text)
    if version is None:
        return text
    if "  nccl: {file: true}" in text:
        return text.replace("  nccl: {file: true}", '  nccl: {file: true, version: "%s"}' % version)
    return text.replace("\nfabric:\n", '\nfabric:\n  nccl: {version: "%s"}\n' % version)


def slots(tmp_path: Path, node: t.Mapping[str, t.Any]) -> t.Iterator[dict[str, str]]:
    """The environments of the devices that the agent of a node offers."""
    spec, system = agent_spec.parse_spec(node["agent"]), Tree(tmp_path).system()
    for devices in spec.resources().values():
        for device in devices:
            yield cdi_files.environment(system, spec, device)


def lines(plan: Plan, tmp_path: Path) -> t.Iterator[tuple[str, dict[str, str]]]:
    """The settings of each place: the hosts, the objects or files for pods and Slurm, the slots of the first node."""
    document = plan.document()
    for node, files in object_components.node_files(document, REGISTRY):
        yield node, file_settings(files["/etc/nccl.conf"])
    for path, text in object_files.render(document, REGISTRY).items():
        if path.startswith("nccl/") and path.endswith(".conf"):
            yield path, file_settings(text)
    if plan.fabric.provider == "none":
        for node in document["nodes"]:
            yield "task of %s" % node["name"], task(slurm_environment.files(document), node["name"])
    for component, made in object_components.components(document, REGISTRY):
        if component == nccl_objects.COMPONENT:
            yield made["metadata"]["name"], {**made["data"], **file_settings(made["data"][nccl_objects.FILE])}
    first = document["nodes"][0]
    for environment in slots(tmp_path, first) if first["agent"] else ():
        yield "slot %s" % environment, environment


def task(files: t.Mapping[str, str], node: str, **given: str) -> dict[str, str]:
    """The environment of a task on a node: what Slurm's TaskProlog prints for it. ``given``: what the job has set."""
    if not files:
        return {}
    environment = dict(given, SLURMD_NODENAME=node)
    script = files[slurm_environment.FILE]
    done = subprocess.run(["/bin/sh"], input=script, env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr
    lines = [line.partition("export ") for line in done.stdout.splitlines()]
    assert all(not head and export for head, export, _setting in lines)
    return dict(setting.split("=", 1) for _head, _export, setting in lines)


def place(entry: Entry) -> tuple[int, ...]:
    return entry.rail if entry.rail is not None else -1, entry.plane if entry.plane is not None else -1


@pytest.mark.parametrize("name", INVENTORIES)
def test_lines_of_every_inventory_follow_the_documented_grammar(name: str, tmp_path: Path) -> None:
    text = (ROOT / "inventories" / name / "fabric.yml").read_text(encoding="utf-8")
    for number, version in enumerate(VERSIONS):
        plan = planned(with_version(text, version))
        by_rail = version is not None and version >= "2.30.5"
        seen = 0
        for where, settings in lines(plan, tmp_path / str(number)):
            found = check(settings)
            seen += bool(found)
            assert ("NCCL_NET_MERGE_POLICY" in settings) == bool(by_rail and found), where
            assert all((each.rail is not None) == by_rail for each in found), where
            # in the order of rails, NICs and planes
            assert found == sorted(found, key=place), where
            # older versions use the same devices and ports
            assert [(hca, number) for hca, number in old_entries(settings.get("NCCL_IB_HCA", ""))] == (
                [(each.hca, -1 if each.port is None else each.port) for each in found] or [("", -1)]
            ), where
        # RDMA devices without planned names are found by NCCL
        assert bool(seen) == any(hca_ports(compute_ports(plan.node_vars(node)["ports"])) for node in plan.nodes)


@pytest.mark.parametrize("provider", ["agent", "spiderpool"])
def test_rails_and_planes_have_the_same_numbers_on_all_nodes(provider: str, tmp_path: Path) -> None:
    plan = planned(PLANES % (provider, "2.30.5", SLOTS[provider]))
    part, *whole = (plan.node_vars(node) for node in plan.nodes)
    fabric = plan.fabric_vars()
    of_part, of_whole = (entries(nccl_objects.host_settings(fabric, node)["NCCL_IB_HCA"]) for node in (part, whole[0]))
    # no number for the plane of a rail that has one plane; storage rails are omitted
    last = [Entry("mlx5_2", 3, 2, 0), Entry("mlx5_2", 6, 2, 1), Entry("mlx5_10", 1, 3, None)]
    assert of_whole == [Entry("mlx5_0", 1, 0, 0), Entry("mlx5_1", 1, 0, 1), *last]
    assert of_part == last
    if provider == "agent":
        (rails,) = [each for each in slots(tmp_path, part) if each.get("RAILYARD_SLOT") == "0"]
        assert check(rails) == last
        assert rails["UCX_NET_DEVICES"] == "mlx5_2:3,mlx5_2:6,mlx5_10:1"
        assert rails["NCCL_NET_MERGE_POLICY"] == "RAIL"
        # a device of one rail does not name devices: without their rails, the policy would merge none
        assert not [
            each for each in slots(tmp_path / "2", part) if "NCCL_IB_HCA" not in each and "RAIL" in each.values()
        ]


def test_older_versions_get_neither_rail_nor_plane() -> None:
    plan = planned(PLANES % ("spiderpool", "2.30.4", ""))
    node = plan.node_vars(plan.nodes[1])
    assert not [port for port in node["ports"] if "nccl" in port]
    settings = nccl_objects.host_settings(plan.fabric_vars(), node)
    assert settings["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1,mlx5_2:3,mlx5_2:6,mlx5_10:1"
    assert "NCCL_NET_MERGE_POLICY" not in settings


def test_planes_that_share_a_device_without_numbers_have_a_rail_and_no_plane() -> None:
    text = PLANES % ("agent", "2.30.5", SLOTS["agent"])
    plan = planned(text.replace('"mlx5_2:3"', "mlx5_2").replace('"mlx5_2:6"', "mlx5_2"))
    node = plan.node_vars(plan.nodes[0])
    settings = nccl_objects.host_settings(plan.fabric_vars(), node)
    assert settings["NCCL_IB_HCA"] == "=mlx5_2::2,mlx5_10:1:3"
    spec = agent_spec.parse_spec(node["agent"])
    assert [rail.nccl for rail in spec.rails] == [((), 2, None), ((), 2, None), ((1,), 3, None)]


# Two NICs per rail, each with two planes that the NIC balances: ports of its device, functions, or unknown.
NICS = """
plugin: railyard.fabric.rails
fabric: {name: ai, provider: agent, attachment: macvlan, mtu: 9000, slots: {all_rails: 2}%s}
rails:
  gpu[1:2]:
    nics: 2
    planes: {count: 2, balancing: hardware}
    subnet: "10.{n}.{c}.0/24"
    hosts: .201-.253
    pods: .1-.200
profiles:
  hgx:
    ports:
      gpu1n1: {netdev: nic11, rdma: roce_r11, planes: [3, 6]}
      gpu1n2: {netdev: nic12, rdma: "roce_r12:1", planes: [3, 6]}
      gpu2n1: {netdev: nic21, rdma: roce_r21, planes: [{pci: "0000:1b:00.0"}, {pci: "0000:1b:00.1"}]}
      gpu2n2: {netdev: nic22, rdma: roce_r22}
nodes:
  ai-[1:2]: {profile: hgx}
"""


@pytest.mark.parametrize("version, rails", [(', nccl: {version: "2.30.5"}', (0, 0, 0, 1, 1)), ("", (None,) * 5)])
def test_nics_have_the_number_of_their_rail_and_the_ports_of_their_planes(
    version: str, rails: tuple[int | None, ...], tmp_path: Path
) -> None:
    """Port 1 of a device whose planes have other numbers carries nothing, unless the file names it."""
    plan = planned(NICS % version)
    node = plan.node_vars(plan.nodes[0])
    value = nccl_objects.host_settings(plan.fabric_vars(), node)["NCCL_IB_HCA"]
    devices = [("roce_r11", 3), ("roce_r11", 6), ("roce_r12", 1), ("roce_r21", 1), ("roce_r22", 1)]
    # hardware balancing has no planes for NCCL
    assert entries(value) == [Entry(*device, rail, None) for device, rail in zip(devices, rails)]
    (slot,) = [each for each in slots(tmp_path, node) if each["RAILYARD_SLOT"] == "0"]
    if version:
        assert slot["NCCL_IB_HCA"] == value
    else:
        assert slot["NCCL_IB_HCA"] == "=roce_r11:3,roce_r11:6,roce_r12:1,roce_r21,roce_r22"


@pytest.mark.parametrize(
    "value, entry",
    [
        (("mlx5_0",), "mlx5_0"),
        (("mlx5_0", 1), "mlx5_0:1"),
        (("mlx5_0", 1, 0), "mlx5_0:1:0"),
        (("mlx5_0", 1, 0, 0), "mlx5_0:1:0:0"),
        (("mlx5_0", None, 0, 1), "mlx5_0::0:1"),
        (("mlx5_0", None, None, 1), "mlx5_0:::1"),
        (("mlx5_0", 2, None, 1), "mlx5_0:2::1"),
    ],
)
def test_an_entry_has_its_fields_at_their_positions(value: t.Any, entry: str) -> None:
    assert nccl_hca.HcaPort(*value).entry == entry
    (found,) = entries("=" + entry)
    assert found == (value + (None,) * 4)[:4]


@pytest.mark.parametrize(
    "value",
    [
        "mlx5_0:1",
        "=",
        "=mlx5_0:",
        "=mlx5_0:1:",
        "=mlx5_0:1:0:0:0",
        "=mlx5_0:a",
        "=mlx5_0,mlx5_0",
        "=mlx5_0:1,mlx5_0:1:3",
    ],
)
def test_the_grammar_rejects_other_values(value: str) -> None:
    with pytest.raises(ValueError):
        entries(value)


def test_the_grammar_has_a_limit_of_devices() -> None:
    assert len(entries("=" + ",".join("mlx5_%d:1" % number for number in range(32)))) == 32
    with pytest.raises(ValueError, match="33 entries"):
        entries("=" + ",".join("mlx5_%d:1" % number for number in range(33)))


def test_compute_ports_have_numbers_and_others_do_not() -> None:
    plan = planned(PLANES % ("spiderpool", "2.30.5", ""))
    node = plan.node_vars(plan.nodes[0])
    assert {port["rail"] for port in node["ports"] if "nccl" in port} == {
        port["rail"] for port in compute_ports(node["ports"])
    }


@pytest.mark.parametrize("version, given, index", [("2.20.5", {}, True), ("2.20.5", {"NCCL_IB_GID_INDEX": 3}, False)])
def test_hosts_read_the_gid_index_that_older_versions_need(version: str, given: t.Any, index: bool) -> None:
    plan = planned(PLANES % ("spiderpool", version, ""))
    node, fabric = plan.node_vars(plan.nodes[1]), plan.fabric_vars()
    (row,) = layer_modules.layer_modules(node, fabric, {"nccl_settings": given}, ["nccl"])
    (file,) = row["options"]["files"]
    assert not {"NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM"} & set(file["settings"])
    addresses = ["10.1.1.202", "10.2.1.202", "10.1.3.202", "10.2.3.202", "10.3.1.202"]
    assert file.get("gid_index") == ({"setting": "NCCL_IB_GID_INDEX", "addresses": addresses} if index else None)


def test_tasks_of_slurm_have_the_settings_of_their_node() -> None:
    document = planned(SLURM).document()
    files = slurm_environment.files(document)
    own = {node["name"]: nccl_objects.host_settings(document["fabric"], node) for node in document["nodes"]}
    for name, settings in own.items():
        found = task(files, name)
        assert {key: value for key, value in found.items() if key.startswith("NCCL_")} == settings
        assert found["OMPI_MCA_pml_ucx_devices"] == "any"
    assert own["ai-1"]["NCCL_IB_HCA"] != own["ai-2"]["NCCL_IB_HCA"] == own["ai-19"]["NCCL_IB_HCA"]
    assert task(files, "ai-3")["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1,mlx5_2:3,mlx5_2:6,mlx5_10:1"
    # a job's own value stays, also an empty one; nodes that the plan does not have get nothing
    changed = task(files, "ai-1", NCCL_IB_HCA="", NCCL_IB_ADDR_FAMILY="AF_INET6")
    assert set(own["ai-1"]) - set(changed) == {"NCCL_IB_HCA", "NCCL_IB_ADDR_FAMILY"}
    assert task(files, "ai-20") == task(files, "ai") == {}


def test_without_a_version_no_script_for_tasks_is_written() -> None:
    assert slurm_environment.files(planned(SLURM.replace(', nccl: {version: "2.30.5"}', "")).document()) == {}


def _codes(text: str) -> list[str]:
    return [finding.code for finding in lint(text.encode()).findings if finding.code.startswith("RY86")]


def test_lint_counts_every_port_of_a_device() -> None:
    ports = "[%s]" % ", ".join(str(number) for number in range(1, 9))
    text = (NICS % "").replace("count: 2", "count: 8").replace('"roce_r12:1"', "roce_r12")
    for old in ("[3, 6]", '[{pci: "0000:1b:00.0"}, {pci: "0000:1b:00.1"}]'):
        text = text.replace(old, ports)
    text = text.replace("rdma: roce_r22}", "rdma: roce_r22, planes: %s}" % ports)
    # four NICs with 8 ports each
    assert _codes(text) == []
    fifth = "      gpu3n1: {netdev: nic31, rdma: roce_r31, planes: %s}\nnodes:" % ports
    assert _codes(text.replace("gpu[1:2]", "gpu[1:3]").replace("nodes:", fifth)) == ["RY861"]


def test_planes_of_one_nic_have_the_order_of_their_functions() -> None:
    text = (NICS % ', nccl: {version: "2.30.5"}').replace("{count: 2, balancing: hardware}", "2")
    text = text.replace("gpu[1:2]:", "gpu1:").replace("{n}.{c}", "{c}.{p}").partition("      gpu1n1:")[0]
    for nic, pci in ((1, "2b"), (2, "1b")):
        for plane in (1, 2):
            text += '      gpu1n%dp%d: {netdev: nic%d%d, pci: "0000:%s:00.%d"}\n' % (nic, plane, nic, plane, pci, plane)
    text += "nodes: {ai-1: {profile: hgx}}\n"
    # the order of NICs does not matter: they are not merged
    assert _codes(text) == []
    assert _codes(text.replace("0000:2b:00.1", "0000:2b:00.3")) == ["RY864"]


@pytest.mark.parametrize(("extra", "found"), [(9, []), (10, ["RY862"])])
def test_lint_measures_the_value_that_nodes_get(extra: int, found: list[str]) -> None:
    """NCCL numbers compute rails from 0, also after storage rails, so ten of these numbers have one digit."""
    names = ["mlx5_gpu%02d" % number for number in range(1, 17)]
    names = [name + "x" * (58 - len(name) + (at < extra)) for at, name in enumerate(names)]
    ports = ["a%02d: {netdev: store%d}" % (number, number) for number in range(1, 13)]
    ports += ["gpu%02d: {netdev: nic%d, rdma: %s}" % (at, at, name) for at, name in enumerate(names, 1)]
    text = """
plugin: railyard.fabric.rails
fabric: {name: ai, provider: none, attachment: host, mtu: 4200, nccl: {version: "2.30.5"}}
rails:
  a[01:12]: {subnet: "10.1.{n}.0/24", hosts: .201-.253, role: storage}
  gpu[01:16]: {subnet: "10.2.{n}.0/24", hosts: .201-.253}
profiles: {hgx: {ports: {%s}}}
nodes: {ai-1: {profile: hgx}}
""" % ", ".join(ports)
    devices = hca_ports(compute_ports(planned(text).document()["nodes"][0]["ports"]))
    value = nccl_hca.settings(devices)[nccl_hca.VARIABLE]
    assert len(value) == 1014 + extra
    assert _codes(text) == found
