# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of VF attributes: every place that lists attributes has all of them, with the same values."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import BY_NAME, VfAttribute
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds.upstream_vf_fields import (
    VF_FIELDS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia import vf_files
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import VF_CODES
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov import vf_spec
from ansible_collections.railyard.fabric.plugins.modules import rail_info, sriov_vfs

ROOT = Path(__file__).resolve().parents[2]
FABRIC = """\
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: sriov, provider: network-operator, mtu: 4000, vfs: {count: 1, %s: %d}}
"""
NUMBERS = [attribute for attribute in vf_attributes.SETTINGS if attribute.kind == vf_attributes.NUMBER]


def test_at_most_six_files_of_the_collection_name_an_attribute() -> None:
    files = [path for path in (ROOT / "plugins").rglob("*.py") if "spoofchk" in path.read_text(encoding="utf-8")]
    assert len(files) <= 6, sorted(str(path.relative_to(ROOT)) for path in files)


def test_every_attribute_has_a_code_of_netlink() -> None:
    assert set(VF_CODES) == set(BY_NAME)


def test_names_of_other_programs_are_of_known_attributes() -> None:
    assert {*vf_files.KEYS, *vf_files.FILES, *VF_FIELDS} <= set(BY_NAME)


def test_attributes_that_refer_to_others_refer_to_known_ones() -> None:
    for attribute in vf_attributes.VF_ATTRIBUTES:
        assert {attribute.partner, attribute.requires, attribute.at_most} <= {None, *BY_NAME}
        if attribute.partner:
            assert BY_NAME[attribute.partner].partner == attribute.name
            assert VF_CODES[attribute.name].key == VF_CODES[attribute.partner].key


def test_the_documentation_of_the_modules_and_of_the_fabric_file_has_every_attribute() -> None:
    ports = yaml.safe_load(sriov_vfs.DOCUMENTATION)["options"]["ports"]["suboptions"]
    assert list(ports["attributes"]["suboptions"]) == ["index", *BY_NAME]
    (sample,) = yaml.safe_load(sriov_vfs.RETURN)["gathered"]["contains"]["ports"]["sample"]
    assert set(sample["attributes"][0]) == {"index", *BY_NAME}
    (vf,) = yaml.safe_load(rail_info.RETURN)["vfs"]["sample"]
    assert set(vf["attributes"]) == set(BY_NAME)
    page = (ROOT / "docs" / "fabric-file.md").read_text(encoding="utf-8")
    section = page.partition("\n## `vfs`\n")[2].partition("\n## ")[0]
    assert [each.name for each in vf_attributes.SETTINGS if "`%s`" % each.name not in section] == []


@pytest.mark.parametrize("attribute", NUMBERS, ids=lambda attribute: attribute.name)
def test_the_fabric_file_and_the_module_accept_the_same_numbers(attribute: VfAttribute) -> None:
    low, high = attribute.limits
    for value in (low - 1, low, high, high + 1):
        findings = lint((FABRIC % (attribute.name, value)).encode()).findings
        wrong = ("RY113", "fabric.vfs." + attribute.name) in {(finding.code, finding.place) for finding in findings}
        assert wrong == (not low <= value <= high), (value, findings)
        assert _module_refuses(attribute.name, value) == wrong, value


def _module_refuses(name: str, value: t.Any) -> bool:
    try:
        vf_spec.ports({"ports": [{"pci": "0000:0b:00.0", "attributes": [{"index": 0, "vlan": 1, name: value}]}]})
    except RailyardError as error:
        return " is not within " in str(error)
    return False
