# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages that others build on say what the plan hands over, and the tables of the file's page are the code's."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import object_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from tests import yaml_text

ROOT = Path(__file__).resolve().parents[3]
WORKED = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))

# Keys that only rails with values of their own have, and the inventories with such rails.
KIND = ("role", "link_layer", "attachment", "qos")
KINDS = ("ib-compute-roce-storage", "vlan-roce")
# Keys that only ports with a bond or VLAN, or with an interface of others, have, and the inventories with such ports.
LOWER = ("lower", "managed")
LOWERS = ("bonded-roce", "lab-planes", "vlan-roce")
# Keys that only nodes of a profile with a preset, or with the model of its GPUs, have.
PRESET = {"preset", "gpu_model"}
# Keys of fabrics and nodes with NVLink domains only, and the inventory with such nodes.
NVLINK = {"nvlink_domains", "nvlink_domain", "imex"}
NVLINKS = ("gb300-rack",)
# Keys that only nodes with GPUs or NICs of other vendors than NVIDIA have, and the inventories with such nodes.
VENDOR = {"gpu_vendor", "nic_family"}
VENDORS = ("mi355x-pollara", "thor2")
# The key of ports whose NICs take only a part of the QoS, with its inventory.
NIC, NICS = ("qos_on_nic",), ("mi355x-pollara",)
# Keys that only ports of rails with several NICs, or with planes that a NIC balances, have, and their inventories.
PLANE = ("nic", "planes")
PLANES = ("hgx-b300-planes", "vera-rubin", "lab-planes")


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _plan(name: str) -> Plan:
    plan = lint((ROOT / "inventories" / name / "fabric.yml").read_bytes()).plan
    assert plan
    return plan


def _block(heading: str) -> t.Any:
    text = _page("architecture.md").partition("## %s" % heading)[2].partition("```yaml\n")[2].partition("```")[0]
    return yaml_text.load(text.replace("…", "null"))


@pytest.mark.parametrize("name", WORKED)
def test_host_variables_have_the_keys_of_the_contract(name: str) -> None:
    wanted = _block("Host variables")
    plan = _plan(name)
    # only imported files have objects, and none of the examples has health
    without = {"objects", "health"} | (set() if name in NVLINKS else NVLINK)
    assert set(plan.fabric_vars()) == set(wanted["railyard_fabric"]) - without
    node, port = wanted["railyard_node"], wanted["railyard_node"]["ports"][0]
    for planned in plan.nodes:
        found = plan.node_vars(planned)
        assert list(found) == [key for key in found if key in node]
        assert set(found) | VENDOR | PRESET == (set(node) - without) | VENDOR | PRESET
        assert VENDOR & set(found) == (VENDOR if name in VENDORS else set())
        for each in found["ports"]:
            optional = {*KIND, *LOWER, *NIC, *PLANE, "nccl"}
            assert set(each) - optional == set(port) - optional
            assert name in LOWERS or not set(each) & set(LOWER)
            assert (name in NICS) == bool(set(each) & set(NIC))
            assert name in PLANES or not set(each) & set(PLANE)
            for plane in each["planes"]["ports"] if "planes" in each else ():
                assert set(plane) == {*port["planes"]["ports"][0], "leaf"}
            if "lower" in each:
                assert set(each["lower"]) == set(port["lower"])
                assert not each["lower"]["bond"] or set(each["lower"]["bond"]) == set(port["lower"]["bond"])
                functions = [set(function) - {"leaf"} for function in each["lower"]["functions"]]
                assert all(keys == set(port["lower"]["functions"][0]) for keys in functions)
            assert name in KINDS or not set(each) & set(KIND)
            for key in ("rdma", "expect", "leaf", "pods", "names"):
                assert each[key] is None or set(each[key]) == set(port[key]), key
            assert set(each["sysctl"]) - {"arp_filter"} == set(port["sysctl"])
            assert ("arp_filter" in each["sysctl"]) == (name == "flat-roce")


@pytest.mark.parametrize("name", WORKED)
def test_the_document_has_the_keys_of_the_contract(name: str) -> None:
    wanted = _block("The plan as one document")
    document = _plan(name).document()
    assert set(document) == set(wanted) and document["format"] == wanted["format"]
    rail = wanted["rails"][0]
    plain = set(rail) - {None, "subnet6"}  # an ellipsis replaces the others of IPv6
    for each in document["rails"]:
        six = {key + "6" for key in ("subnet", "gateway", "pods", "hosts", "capacity", "pool")}
        numbering = {"numbering"} if name == "flat-roce" else set()
        of_planes = {"nic", "nics", "planes"}
        assert set(each) - set(KIND) - of_planes == (plain | six | numbering) - set(KIND) - of_planes
        assert name in PLANES or not set(each) & of_planes
        assert name in KINDS or not set(each) & set(KIND)
        if each["capacity"]:
            assert set(each["capacity"]) == set(rail["capacity"])
            shared = {"rails"} if name in ("flat-roce", "node-first") else set()
            assert set(each["capacity"]["taken"]) == set(rail["capacity"]["taken"]) | shared
            assert sum(each["capacity"]["taken"].values()) + each["capacity"]["pods"] == each["capacity"]["addresses"]
        assert all(set(network) == set(rail["networks"][0]) for network in each["networks"])
    for unit in document["units"]:
        assert set(unit) == set(wanted["units"][0])
        assert len({leaf["rail"] for leaf in unit["leaves"]}) == len(document["rails"])


def test_the_page_of_the_file_has_the_table_of_attachments() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", _page("fabric-file.md"), re.M)
    assert [row for row in rows if row[0] in ATTACHMENTS] == [
        (
            each.name,
            ", ".join(each.link_layers),
            ", ".join(each.modes),
            ", ".join(provider for provider, facts in PROVIDERS.items() if not facts.refused(each.name)),
        )
        for each in ATTACHMENTS.values()
    ]


def test_the_page_of_the_file_names_every_template() -> None:
    section = _page("fabric-file.md").partition("## `names`")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(object_names.FIELDS)
    for kind in ("resource", "network", "policy", "interface"):
        assert "| `%s` |" % object_names.default(kind, None) in section
