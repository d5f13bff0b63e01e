# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GUIDs of a plan's VFs, as the subnet manager's side gets them."""

from __future__ import annotations

import csv
import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import module_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import guid_files

INVENTORIES = Path(__file__).resolve().parents[3] / "inventories"


def document(name: str, old: str = "", new: str = "") -> dict[str, t.Any]:
    text = (INVENTORIES / name / "fabric.yml").read_text(encoding="utf-8")
    assert old in text
    outcome = lint(text.replace(old, new, 1).encode("utf-8"))
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan.document()


def test_every_vf_is_a_row_with_its_own_guid() -> None:
    plan = document("infiniband-sriov")
    made = guid_files.files(plan)
    assert list(made) == ["guids.csv"] and made == guid_files.files(document("infiniband-sriov"))
    rows = list(csv.DictReader(made["guids.csv"].decode().splitlines()))
    assert len(rows) == 32 * 8 * 8 == len({row["port_guid"] for row in rows})
    first = plan["nodes"][0]["ports"][0]["vfs"]["attributes"][0]
    assert rows[0] == {
        "node": "dgx-01",
        "rail": "gpu01",
        "netdev": "ibrail01",
        "pci": "0000:18:00.0",
        "vf": "0",
        "node_guid": first["node_guid"],
        "port_guid": first["port_guid"],
    }


def test_partitions_name_every_vf() -> None:
    plan = document("infiniband-sriov", "  mtu: 4092\n", "  mtu: 4092\n  infiniband: {pkeys: [0x8001, 0x8002]}\n")
    made = guid_files.files(plan)
    wanted = {row[-1].replace(":", "") for row in guid_files.rows(plan)}
    text = made["partitions.conf"].decode()
    statements = [each.split(":", 1) for each in re.sub(r"#.*", "", text).split(";") if each.strip()]
    assert [head.strip() for head, _members in statements] == [
        "Default=0x7fff, ipoib",
        "ib_east_8001=0x8001, ipoib",
        "ib_east_8002=0x8002, ipoib",
    ]
    for _head, members in statements[1:]:
        words = [word.strip() for word in members.split(",")]
        assert words[0] == "SELF=full" and {word[2:-5] for word in words[1:]} == wanted
        assert all(re.match(r"0x[0-9a-f]{16}=full\Z", word) for word in words[1:])
    bodies = json.loads(made["ufm-pkeys.json"])
    assert [body["pkey"] for body in bodies] == ["0x8001", "0x8002"] and set(bodies[0]["guids"]) == wanted


def test_without_guids_there_are_no_files() -> None:
    assert guid_files.files(document("sriov-roce")) == {} == guid_files.files(document("ipoib"))


TENANTS = """
groups:
  tenant_a: {infiniband: {pkeys: [0x8010, 0x8011]}}
  tenant_b: {infiniband: {pkeys: [0x8020]}}
nodes:
  dgx-[01:16]: {profile: dgx-h100, unit: su1, address: "10.2.1.[1:16]", groups: [tenant_a]}
  dgx-[17:30]: {profile: dgx-h100, unit: su1, address: "10.2.1.[17:30]", groups: [tenant_b]}
  dgx-[31:32]: {profile: dgx-h100, unit: su1, address: "10.2.1.[31:32]"}
"""


def tenants() -> Plan:
    text = (INVENTORIES / "infiniband-sriov/fabric.yml").read_text(encoding="utf-8").partition("\nnodes:")[0] + TENANTS
    outcome = lint(text.replace("  mtu: 4092\n", "  mtu: 4092\n  infiniband: {pkeys: [0x8001]}\n").encode())
    assert outcome.plan and not outcome.findings, [finding.text() for finding in outcome.findings]
    return outcome.plan


def test_tenants_have_partitions_of_their_own() -> None:
    plan = tenants().document()
    owners = {row[-1].replace(":", ""): int(row[0].rpartition("-")[2]) for row in guid_files.rows(plan)}
    bodies = json.loads(guid_files.files(plan)["ufm-pkeys.json"])
    nodes = {body["pkey"]: {owners[guid] for guid in body["guids"]} for body in bodies}
    first, second, rest = set(range(1, 17)), set(range(17, 31)), {31, 32}
    assert nodes == {"0x8001": rest, "0x8010": first, "0x8011": first, "0x8020": second}
    text = guid_files.files(plan)["partitions.conf"].decode()
    for key, owned in nodes.items():
        members = re.search(r"=%s, ipoib : SELF=full,([^;]*);" % key, text)
        assert members and {owners[each] for each in re.findall(r"0x(\w{16})=full", members[1])} == owned
    assert "ALL=limited keeps them apart" in text
    # and so have their ports
    port = plan["nodes"][0]["ports"][0]
    assert port["ipoib"] == {
        "mode": None,
        "pkeys": ["0x8010", "0x8011"],
        "children": ["ibrail01.8010", "ibrail01.8011"],
    }
    (options,) = module_options.port_options([port], "ib_ports")
    assert options["pkeys"] == ["0x8010", "0x8011"]


def test_tenants_survive_a_round_trip() -> None:
    plan = tenants()
    again = lint(write(plan.fabric).encode()).plan
    assert again and again.document() == plan.document()


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ("0x8020", "0xffff", "RY540", "groups.tenant_b.infiniband.pkeys[0]"),
        ("0x8020", "0x8020, 0x0020", "RY540", "groups.tenant_b.infiniband.pkeys[1]"),
        ("{pkeys: [0x8020]}", "{}", "RY111", "groups.tenant_b.infiniband.pkeys"),
    ],
)
def test_partitions_of_a_group_are_checked(old: str, new: str, code: str, place: str) -> None:
    head = (INVENTORIES / "infiniband-sriov/fabric.yml").read_text(encoding="utf-8").partition("\nnodes:")[0]
    (finding,) = lint((head + TENANTS.replace(old, new)).encode()).findings
    assert (finding.code, finding.place) == (code, place)


def test_partitions_need_infiniband() -> None:
    text = (INVENTORIES / "macvlan-roce/fabric.yml").read_text(encoding="utf-8")
    text = text.replace("profile: hgx-cx5,", "profile: hgx-cx5, groups: [tenant],")
    (finding,) = lint((text + "groups: {tenant: {infiniband: {pkeys: [0x8010]}}}\n").encode()).findings
    assert (finding.code, finding.place) == ("RY541", "groups.tenant.infiniband")
