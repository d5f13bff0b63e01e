# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver, firmware parameters and InfiniBand in a fabric file: what the plan hands over of them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import pkey
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware import FIRMWARE

FILE = """\
fabric:
  name: ai
  provider: network-operator
  attachment: host-device
  link_layer: infiniband
  mtu: 4092
  infiniband: {ipoib_mode: datagram, pkeys: [0x8001, 2], subnet_manager: required}
profiles:
  hgx:
    driver: {kind: doca, version: 2.9.3, source: "file:/srv/doca", unsigned: true, packages: [doca-roce]}
    firmware:
      version: 20.43.2566
      parameters: {relaxed_ordering: true, roce_cc_priorities: [3], "HOST_CHAINING_DESCRIPTORS[0..3]": 64}
    ports:
      gpu01: {netdev: ibs1, pci: "0000:0b:00.0"}
      gpu02: {netdev: ibs2, pci: "0000:0c:00.0"}
groups:
  old_kernel:
    driver: {kind: inbox}
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx, groups: [old_kernel], ports: {gpu02: {netdev: ibs9}}}
"""


def planned(text: str) -> Plan:
    outcome = lint(example_file.whole(text).encode("utf-8"))
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan


def nodes(text: str) -> dict[str, dict[str, t.Any]]:
    plan = planned(text)
    return {node.node.name: plan.node_vars(node) for node in plan.nodes}


def test_the_driver_is_the_models_and_a_group_has_its_own() -> None:
    found = nodes(FILE)
    assert found["ai-1"]["driver"] == {
        "kind": "doca",
        "version": "2.9.3",
        "source": "file:/srv/doca",
        "key": None,
        "unsigned": True,
        "packages": ["doca-roce"],
        "allow_unlisted": False,
    }
    assert found["ai-2"]["driver"]["kind"] == "inbox" and found["ai-2"]["driver"]["version"] is None
    assert nodes(example_file.BASE)["ai-1"]["driver"] is None


def test_firmware_parameters_are_handed_to_the_module_as_they_are_written() -> None:
    port = nodes(FILE)["ai-1"]["ports"][0]
    (option, _other) = port_options([port, dict(port, pci="0000:0c:00.0")], "mlx_linktype")
    assert option["version"] == "20.43.2566" and option["link_type"] == "ib" and "sriov_en" not in option
    assert option["parameters"] == {
        "relaxed_ordering": "true",
        "roce_cc_priorities": ["3"],
        "HOST_CHAINING_DESCRIPTORS[0..3]": "64",
    }
    assert FIRMWARE.parameters.value("roce_cc_priorities", option["parameters"]["roce_cc_priorities"]) == 8
    assert FIRMWARE.parameters.value("relaxed_ordering", option["parameters"]["relaxed_ordering"]) == "force_relax"


def test_infiniband_is_the_same_on_every_port_under_its_own_name() -> None:
    plan = planned(FILE)
    assert plan.fabric_vars()["infiniband"] == {
        "ipoib_mode": "datagram",
        "pkeys": ["0x8001", "0x8002"],
        "subnet_manager": "required",
    }
    found = nodes(FILE)
    assert [port["ipoib"]["children"] for port in found["ai-2"]["ports"]] == [
        ["ibs1.8001", "ibs1.8002"],
        ["ibs9.8001", "ibs9.8002"],
    ]
    assert port_options(found["ai-1"]["ports"], "ib_ports")[0] == {
        "pci": "0000:0b:00.0",
        "netdev": "ibs1",
        "mode": "datagram",
        "pkeys": ["0x8001", "0x8002"],
    }
    assert port_options(nodes(example_file.BASE)["ai-1"]["ports"], "ib_ports") == []


def test_the_file_is_written_back() -> None:
    plan = planned(FILE)
    again = lint(write(plan.fabric).encode("utf-8")).plan
    assert again and again.document() == plan.document()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x8001", 0x8001),
        ("0x1", 0x8001),
        ("1", 0x8001),
        ("0x7ffe", 0xFFFE),
        ("0", None),
        ("0x0", None),
        ("0x8000", None),
        ("0x7fff", None),
        ("0xffff", None),
        ("0x10001", None),
        ("65537", None),
        ("99999", None),
        ("-1", None),
        ("rail", None),
    ],
)
def test_partition_keys(text: str, expected: int | None) -> None:
    assert pkey(text) == expected


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        (("kind: doca, ", ""), "RY111", "profiles.hgx.driver.kind"),
        (("version: 2.9.3, ", ""), "RY111", "profiles.hgx.driver.version"),
        (('source: "file:/srv/doca", ', ""), "RY111", "profiles.hgx.driver.source"),
        (("kind: inbox", "kind: ofed"), "RY114", "groups.old_kernel.driver.kind"),
        (("kind: inbox", "kind: inbox, packages: [x]"), "RY520", "groups.old_kernel.driver.packages"),
        (("file:/srv/doca", "/srv/MLNX_OFED_LINUX.iso"), "RY521", "profiles.hgx.driver.source"),
        (("file:/srv/doca", "/srv/doca-host_2.9.2.deb"), "RY522", "profiles.hgx.driver.source"),
        (("file:/srv/doca", "https://me:hush@mirror.example/doca"), "RY526", "profiles.hgx.driver.source"),
        (("relaxed_ordering", "relaxed-ordering"), "RY530", "profiles.hgx.firmware.parameters.relaxed-ordering"),
        (("[3]", "[8]"), "RY531", "profiles.hgx.firmware.parameters.roce_cc_priorities"),
        (("relaxed_ordering: true", "LINK_TYPE_P1: 1"), "RY532", "profiles.hgx.firmware.parameters.LINK_TYPE_P1"),
        (
            ("relaxed_ordering: true", "ats: 1, ATS_ENABLED: 1"),
            "RY532",
            "profiles.hgx.firmware.parameters.ATS_ENABLED",
        ),
        (("0x8001, 2", "0x8001, 1"), "RY540", "fabric.infiniband.pkeys[1]"),
        (("netdev: ibs9", "netdev: ibp193s0f0np0"), "RY542", "nodes.ai-2.ports.gpu02"),
    ],
)
def test_every_error_is_reported_at_its_place(change: tuple[str, str], code: str, place: str) -> None:
    assert change[0] in FILE
    found = lint(example_file.whole(FILE.replace(*change)).encode("utf-8")).findings
    assert [(finding.code, finding.place) for finding in found] == [(code, place)]
    assert "hush" not in found[0].text()


@pytest.mark.parametrize(
    ("provider", "codes"),
    [("spiderpool", ["RY524"]), ("cni", ["RY524"]), ("agent", ["RY524"]), ("network-operator", [])],
)
def test_a_driver_container_that_nothing_deploys_is_reported(provider: str, codes: list[str]) -> None:
    fabric = "fabric: {name: ai, provider: %s, attachment: macvlan, mtu: 4200, pods_per_node: 4}\n" % provider
    ports = "ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}"
    profiles = "profiles:\n  hgx: {driver: {kind: container}, %s}\n" % ports
    mode = "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    text = example_file.whole(fabric + mode + "rails: {gpu01: {}, gpu02: {}}\n" + profiles)
    found = [each for each in lint(text.encode()).findings if each.code.startswith("RY52")]
    assert [each.code for each in found] == codes and all(provider in each.message for each in found)
