# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GUIDs of a plan's VFs, as the subnet manager's side gets them."""

from __future__ import annotations

import csv
import json
import re
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import lint
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report import guids

INVENTORIES = Path(__file__).resolve().parents[3] / "inventories"


def document(name: str, old: str = "", new: str = "") -> dict[str, t.Any]:
    text = (INVENTORIES / name / "fabric.yml").read_text(encoding="utf-8")
    assert old in text
    outcome = lint(text.replace(old, new, 1).encode("utf-8"))
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan.document()


def test_every_vf_is_a_row_with_its_own_guid() -> None:
    plan = document("infiniband-sriov")
    made = guids.files(plan)
    assert list(made) == ["guids.csv"] and made == guids.files(document("infiniband-sriov"))
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
    made = guids.files(plan)
    wanted = {row[-1].replace(":", "") for row in guids.rows(plan)}
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
    assert guids.files(document("sriov-roce")) == {} == guids.files(document("ipoib"))
