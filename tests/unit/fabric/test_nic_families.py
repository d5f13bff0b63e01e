# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Families of NICs: their facts, and the key ``nic`` of profiles."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import nic_family
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_families
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_answers_every_layer(name: str) -> None:
    family = FAMILIES[name]
    assert family.name == name and family.sources
    assert tuple(family.layers) == nic_family.LAYERS
    for support in family.layers.values():
        assert support.level in nic_family.LEVELS and support.note
        # what is unknown was not tested
        assert support.level != nic_family.UNKNOWN or support.tested == nic_family.UNTESTED


def test_families_differ_in_pci_vendor_and_driver() -> None:
    keys = [(family.pci_vendor, driver) for family in FAMILIES.values() for driver in family.drivers or ("",)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("nic", "marks"),
    [
        # Juniper's design for AMD GPUs with Thor 2: RoCE DSCP 26 on priority 3, CNPs DSCP 48 on priority 7
        ("bnxt_re", (3, 26, 7, 48)),
        ("mlx5", (3, 26, 6, 48)),
        ("ionic", (3, 24, 6, 46)),
    ],
)
def test_marks_that_a_vendor_recommends(nic: str, marks: tuple[int, ...]) -> None:
    defaults = nic_families.qos_defaults(nic)
    assert defaults and defaults[:4] == marks and defaults.source


@pytest.mark.parametrize("nic", ["irdma", "habanalabs", None])
def test_marks_without_a_source_are_unknown(nic: str | None) -> None:
    assert nic_families.qos_defaults(nic) is None


# -- the page ----------------------------------------------------------------------------------------------------------


def _tables() -> list[list[list[str]]]:
    """Return the tables of docs/hardware.md as rows of cells, without the line below the heading."""
    text = (ROOT / "docs/hardware.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines() if line[1] != "-"]
        for block in blocks
    ]


def test_the_page_of_hardware_has_the_facts_of_all_families() -> None:
    columns = ["`%s`" % name for name in FAMILIES]
    support, facts, interfaces = [table for table in _tables() if table[0][1:] == columns]
    families = list(FAMILIES.values())
    assert [row[0] for row in support[1:]] == list(nic_family.LAYERS)
    for row in support[1:]:
        levels = [each.layers[row[0]] for each in families]
        assert row[1:] == ["%s (%s)" % (each.level, each.tested) for each in levels]
    for row in interfaces[1:]:
        assert row[1:] == [each.layers[row[0]].note for each in families]
    rows = {row[0]: row[1:] for row in facts}
    assert rows["cards"] == [each.title for each in families]
    assert rows["PCI vendor ID"] == ["`%s`" % each.pci_vendor for each in families]
    drivers = [each.drivers or ("mlx5_core", "mlx4_core") for each in families]
    assert rows["driver of functions"] == [", ".join("`%s`" % driver for driver in each) for each in drivers]
    assert rows["RDMA devices"] == ["`%s`" % each.rdma_name for each in families]
    assert rows["ports of one device at most"] == [str(each.rdma_ports) for each in families]
    assert rows["tool of the vendor"] == ["`%s`" % each.tool for each in families]
    answers = {True: "yes", False: "no", None: "unknown"}
    assert rows["DMA-BUF in the RDMA driver"] == [answers[each.has_dmabuf] for each in families]
    for name, kind in (("RoCE, by the vendor", ""), ("CNPs, by the vendor", "cnp_")):
        marks = [each.qos_defaults and "DSCP %s, priority %s" % each.qos_defaults.mark(kind) for each in families]
        assert rows[name] == [each or "unknown" for each in marks]


def test_the_page_of_hardware_has_the_sources_of_all_families() -> None:
    lines = (ROOT / "docs/hardware.md").read_text(encoding="utf-8").splitlines()
    for name, family in FAMILIES.items():
        qos = family.qos_defaults.source if family.qos_defaults else "no source"
        assert "- `%s`: %s. QoS: %s." % (name, "; ".join(family.sources), qos) in lines


# -- the plan ----------------------------------------------------------------------------------------------------------


def _plan(name: str, **changed: str) -> dict[str, t.Any]:
    text = (ROOT / "inventories" / name / "fabric.yml").read_text(encoding="utf-8")
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    outcome = lint(text.encode())
    assert outcome.plan, outcome.findings
    document: dict[str, t.Any] = outcome.plan.document()
    return document


def test_qos_that_ionic_does_not_take_is_not_set_on_its_ports() -> None:
    document = _plan("mi355x-pollara")
    port = document["nodes"][0]["ports"][0]
    planned, on_nic = document["fabric"]["qos"], port["qos_on_nic"]
    kept = {key for key in planned if on_nic[key] == planned[key]}
    assert kept == {"priority", "dscp", "tclass", "rdma_cm_tos", "nccl", "ets", "buffers"}
    assert planned["ets"] is None and planned["buffers"] is None
    (options,) = {str(each["qos"]) for each in port_options([port], "roce_qos")}
    assert options == str(on_nic)
    # the leaves and NCCL use the whole plan
    assert planned["pfc"] == [0, 0, 0, 1, 0, 0, 0, 0] and planned["nccl"] == {"NCCL_IB_TC": "98"}


@pytest.mark.parametrize(("old", "new"), [("nic: ionic", "nic: mlx5"), ("nic: ionic", "nic: bnxt_re")])
def test_ports_of_other_families_have_the_qos_of_the_fabric(old: str, new: str) -> None:
    ports = [port for node in _plan("mi355x-pollara", **{old: new})["nodes"] for port in node["ports"]]
    assert ports and not any("qos_on_nic" in port for port in ports)


def test_e810_gets_pfc_and_no_congestion_control() -> None:
    port = _plan("thor2", bnxt_re="irdma")["nodes"][0]["ports"][0]
    assert port["qos_on_nic"]["ecn"] is None and port["qos_on_nic"]["pfc"] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_cnps_of_thor2_have_priority_7_without_a_finding() -> None:
    text = (ROOT / "inventories/thor2/fabric.yml").read_text(encoding="utf-8")
    assert lint(text.encode()).findings == []
    # without the name of the NIC, a DSCP of 48 on priority 7 differs from what devices do by default
    assert [each.code for each in lint(text.replace("    nic: bnxt_re\n", "").encode()).findings] == ["RY705"]
    other = lint(text.replace("cnp_priority: 7", "cnp_priority: 6").encode()).findings
    assert [(each.code, each.place) for each in other] == [("RY554", "qos.cnp_priority")]
    assert "the vendor's value for bnxt_re is 7 (Juniper" in other[0].message


@pytest.mark.parametrize(
    ("nic", "code", "remedy"),
    [
        # nvmupdate64e only writes images, hl-smi only shows the state
        ("irdma", "RY550", "remove firmware"),
        ("habanalabs", "RY550", "remove firmware"),
        ("bnxt_re", "RY550", "remove firmware, and set them with niccli"),
        ("ionic", "RY550", "remove firmware, and set them with nicctl"),
        ("irdma", "RY553", "set ecn: false in qos of these rails, or suppress this finding"),
        ("habanalabs", "RY553", "remove qos of these rails, or suppress this finding"),
        ("ionic", "RY553", "set them with nicctl, and suppress this finding"),
    ],
)
def test_a_remedy_names_only_a_program_that_makes_the_setting(nic: str, code: str, remedy: str) -> None:
    text = (ROOT / "inventories/thor2/fabric.yml").read_text(encoding="utf-8")
    text = text.replace("    nic: bnxt_re\n", "    nic: %s\n    firmware: {num_of_vfs: 16}\n" % nic)
    assert {each.remedy for each in lint(text.encode()).findings if each.code == code} == {remedy}


def test_without_ecn_e810_has_no_finding() -> None:
    text = (ROOT / "inventories/thor2/fabric.yml").read_text(encoding="utf-8")
    text = text.replace("nic: bnxt_re", "nic: irdma").replace("cnp_dscp: 48}", "cnp_dscp: 48, ecn: false}")
    assert "RY553" not in [each.code for each in lint(text.encode()).findings]
