# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan decides, and that it decides the same for a node whatever the others do."""

from __future__ import annotations

import random
import re
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model, vf_identity
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range, parse_address
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges

from .wrong_files import INFINIBAND, MACVLAN, SRIOV


def planned(text: str) -> Plan:
    outcome = lint(text.encode("utf-8"))
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    return outcome.plan


def nodes(text: str) -> dict[str, dict[str, t.Any]]:
    plan = planned(text)
    return {node.node.name: plan.node_vars(node) for node in plan.nodes}


def test_fabric_variables_are_the_contract() -> None:
    assert planned(MACVLAN).fabric_vars() == {
        "name": "ai-10-1-16",
        "attachment": "macvlan",
        "provider": "spiderpool",
        "rdma_mode": "shared",
        "link_layer": "ethernet",
        "mtu": 4200,
        "rails": ["gpu01", "gpu02", "gpu03"],
        "attachments": ["macvlan"],
        "max_nodes": None,
        "pods_per_node": None,
        "routing": {"mode": "source", "cross_rail": True},
        "resource_prefix": "spidernet.io",
        "namespace": "kube-system",
        "infiniband": None,
        "qos": None,
        "subnets": {
            "gpu%02d" % number: {
                "mode": "subnet",
                "subnet": "172.16.%d.0/24" % (10 + number),
                "subnet6": None,
                "routes": ["0.0.0.0/0"],
                "routes6": [],
            }
            for number in (1, 2, 3)
        },
    }
    assert planned(SRIOV).fabric_vars()["rdma_mode"] == "exclusive"


def test_node_variables_are_the_contract() -> None:
    node = nodes(MACVLAN)["ai-1"]
    assert {key: value for key, value in node.items() if key != "ports"} == {
        "name": "ai-1",
        "index": 1,
        "unit": None,
        "unit_number": None,
        "place": None,
        "rack": None,
        "site": None,
        "profile": "hgx",
        "attachment": "macvlan",
        "rdma_mode": "shared",
        "driver": None,
        "gpus": {"0": None, "1": None, "2": None},
        "other_ports": [],
        **dict.fromkeys(layer for layer in host_model.LAYERS if layer != host_model.IMEX),
        "groups": ["rack_1"],
        "agent": None,
    }
    assert node["ports"][0] == {
        "rail": "gpu01",
        "number": 1,
        "base": "gpu01",
        "plane": 1,
        "pci": "0000:0b:00.0",
        "netdev": "enp11s0f0np0",
        "match": None,
        "rdma": {"name": "mlx5_gpu01", "type": "hardware"},
        "gpus": [0],
        "mtu": 4200,
        "address": "172.16.11.201/24",
        "address6": None,
        "gateway": "172.16.11.254",
        "gateway6": None,
        "table": 101,
        "rule_priority": 10001,
        "routes": [],
        "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
        "leaf": {
            "name": None,
            "port": None,
            "address": "172.16.11.254",
            "address6": None,
            "aggregate": "172.16.11.0/24",
            "aggregate6": None,
        },
        "pods": {
            "first": "172.16.11.1",
            "last": "172.16.11.200",
            "subnet": "172.16.11.0/24",
            "gateway": "172.16.11.254",
            "first6": None,
            "last6": None,
            "subnet6": None,
            "gateway6": None,
        },
        "vfs": None,
        "firmware": {
            "link_type": "eth",
            "sriov_en": True,
            "num_of_vfs": 16,
            "version": None,
            "parameters": {},
        },
        "ipoib": None,
        "names": {
            "resource": "gpu01_macvlan",
            "network": "gpu01-macvlan",
            "pool": "ai-10-1-16-gpu01",
            "pool6": None,
            "policy": None,
            "interface": "net1",
        },
        "expect": {"speed": None, "width": None, "pcie_gen": None, "pcie_lanes": None, "gpu_distance": None},
    }
    third = node["ports"][2]
    assert (third["mtu"], third["table"], third["rule_priority"], third["gpus"]) == (9000, 103, 10003, [])
    assert third["pci"] == "0000:0d:00.0", "unquoted, and yet no number in base 60"
    assert third["rdma"] == {"name": None, "type": "hardware"}


def test_overrides_of_a_node_affect_only_that_node() -> None:
    found = nodes(MACVLAN)
    assert [port["rail"] for port in found["ai-3"]["ports"]] == ["gpu01", "gpu02"]
    assert [port["pci"] for port in found["jupiter"]["ports"]] == ["0000:0b:00.0", "0000:0e:00.0", "0000:0d:00.0"]
    assert found["jupiter"]["ports"][1]["netdev"] == "enp12s0f0np0"
    assert [port["pci"] for port in found["ai-2"]["ports"]] == ["0000:0b:00.0", "0000:0c:00.0", "0000:0d:00.0"]
    assert found["jupiter"]["ports"][0]["address"] == "172.16.11.204/24"


def test_nodes_with_the_same_entry_have_the_same_port() -> None:
    ports = ('{netdev: "null", pci: 0000:1b:00.0}', "{netdev: null, pci: 0000:1b:00.0}", "{pci: 1b}")
    rows = ["ai-%d: {profile: hgx, index: %d, ports: {gpu01: %s}}" % (n + 1, n + 1, ports[n // 2]) for n in range(6)]
    text = MACVLAN.partition("\nnodes:")[0] + "\nnodes:\n  " + "\n  ".join(rows) + "\n"
    wrong = [(finding.code, finding.place) for finding in lint(text.encode("utf-8")).errors]
    assert wrong == [
        ("RY809", "profiles.hgx.ports.gpu01.netdev"),  # the netdev of ai-1 and ai-2 has the name null
        ("RY407", "nodes.ai-5.ports.gpu01.pci"),
        ("RY407", "nodes.ai-6.ports.gpu01.pci"),
    ]
    found = nodes("\n".join(text.splitlines()[:-2]).replace('"null"', '"enp11s0f0np0"') + "\n")
    assert {(each["ports"][0]["netdev"], each["ports"][0]["pci"]) for each in found.values()} == {
        ("enp11s0f0np0", "0000:1b:00.0")
    }


def test_the_sample_has_each_kind_of_node_once() -> None:
    rows = [
        "ai-10-1-16-%d: {profile: hgx, index: %d, ports: {gpu01: {mac: '02:00:00:00:00:%02x'}}}" % (n, n, n)
        for n in range(1, 13)
    ]
    rows[4] = rows[4].replace("mac:", "pci: 0000:0e:00.0, mac:")
    rows[6] = "ai-10-1-16-7: {profile: hgx, index: 7}"
    plan = planned(MACVLAN.partition("\nnodes:")[0] + "\nnodes:\n  " + "\n  ".join(rows) + "\n")
    sample = plan.sample()
    assert [node["index"] for node in sample["nodes"]] == [1, 5, 7, 10]
    assert sample["fabric"]["max_nodes"] == max(plan.fabric.max_nodes or 0, 12)


def test_a_rail_needs_room_for_its_own_nodes_alone() -> None:
    text = MACVLAN.replace("    hosts: .201-.253", "    hosts: .201-.203").replace(
        "gpu02: {pci", "gpu03: null\n      gpu02: {pci"
    )
    found = nodes(text)
    assert found["jupiter"]["index"] == 4 and [port["rail"] for port in found["jupiter"]["ports"]] == ["gpu01", "gpu02"]
    (finding,) = lint(text.replace("      gpu03: null\n      gpu02", "      gpu02").encode("utf-8")).findings
    assert finding.code == "RY313" and finding.place == "nodes.jupiter.index"


def test_rails_by_index_and_rails_by_place_have_room_each_for_itself() -> None:
    text = """\
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200}
units: {"su[1:4]": {nodes: 32}}
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
  gpu02: {mode: prefix, subnet: 172.16.12.0/24, node_prefix: 29}
profiles:
  hgx: {ports: {gpu01: {netdev: eth6}, gpu02: {netdev: eth7}}}
nodes:
  ai-1: {profile: hgx, unit: su%d, place: 1, index: %d}
"""
    assert planned(text % (1, 53)).document()["nodes"][0]["ports"][1]["address"] == "172.16.12.2/29"
    for unit, index, code, place in ((2, 1, "RY326", "rails.gpu02.subnet"), (1, 54, "RY313", "nodes.ai-1.index")):
        found = [(finding.code, finding.place) for finding in lint((text % (unit, index)).encode()).findings]
        assert found == [(code, place)]


def test_ranges_of_names_and_addresses_run_together() -> None:
    text = MACVLAN.replace("groups: [rack_1]", "ports: {gpu01: {netdev: 'eth[7:8]', pci: '0000:0[1:2]:00.0'}}")
    text = text.replace("  provider: spiderpool", "  provider: spiderpool\n  vfs: {count: 1}")
    text = text.replace("macvlan", "sriov").replace("rdma_mode: shared", "rdma_mode: exclusive")
    found = nodes(text)
    assert [found[name]["ports"][0]["netdev"] for name in ("ai-1", "ai-2", "ai-3")] == ["eth7", "eth8", "enp11s0f0np0"]
    assert [found[name]["ports"][0]["pci"] for name in ("ai-1", "ai-2")] == ["0000:01:00.0", "0000:02:00.0"]
    assert [node.node.address for node in planned(text).nodes][:2] == ["10.1.16.1", "10.1.16.2"]
    indexes = {name: node["index"] for name, node in nodes(SRIOV).items()}
    assert indexes["rack1-ai-1"] == 1 and indexes["rack1-ai-4"] == 4 and indexes["rack2-ai-4"] == 8


def test_a_rail_that_nodes_alone_have_a_port_on() -> None:
    words = "nodes:\n  ai-1: {profile: hgx, ports: {gpu02: {netdev: nic7, pci: 0000:49:00.0}}}\n"
    profile = 'profiles:\n  hgx: {ports: {gpu01: {netdev: nic6, pci: "0000:0b:00.0"}}}\n'
    rails = (
        "rails: {gpu01: {subnet: 172.16.11.0/24, hosts: .1-.9%s}, gpu02: {subnet: 172.16.12.0/24, hosts: .1-.9%s}}\n"
    )
    fabric = "plugin: railyard.fabric.rails\nfabric: {name: ai, attachment: sriov, provider: spiderpool, mtu: 4200}\n"
    counted = planned(fabric + rails % (", vfs: {count: 4}", ", vfs: {count: 2}") + profile + words).document()
    assert [port["vfs"]["count"] for port in counted["nodes"][0]["ports"]] == [4, 2]
    assert [each["networks"][0]["network"] for each in counted["rails"]] == ["gpu01-sriov", "gpu02-sriov"]
    outcome = lint((fabric + rails % (", vfs: {count: 4}", "") + profile + words).encode())
    assert [(finding.code, finding.place) for finding in outcome.findings] == [("RY602", "fabric.vfs")]


def test_vfs_take_the_nearest_value() -> None:
    vfs = nodes(SRIOV)["rack1-ai-1"]["ports"][0]["vfs"]
    assert vfs["count"] == 8 and len(vfs["attributes"]) == 8
    assert vfs["attributes"][0] == {
        "index": 0,
        "mac": vf_identity.mac("one", "rack1-ai-1", "gpu01", 0),
        "vlan": 100,
        "qos": 3,
        "trust": True,
        "spoofchk": False,
        "link_state": "auto",
        "min_tx_rate": 10,
        "max_tx_rate": 20,
        "node_guid": None,
        "port_guid": None,
    }
    without = SRIOV.replace("    vfs: {count: 8}\n", "")
    assert nodes(without)["rack1-ai-1"]["ports"][0]["vfs"]["count"] == 4


def test_infiniband_has_guids_and_optional_addresses() -> None:
    port = nodes(INFINIBAND)["dgx-01"]["ports"][0]
    assert (port["address"], port["gateway"]) == (None, None)
    first = port["vfs"]["attributes"][0]
    assert first["mac"] is None and first["node_guid"] == first["port_guid"]
    assert re.match(r"[0-9a-f]2(:[0-9a-f]{2}){7}\Z", first["node_guid"])


def test_soft_rdma_is_named_after_its_rail() -> None:
    found = nodes(MACVLAN.replace("soft_rdma: null", "soft_rdma: rxe").replace("rdma: mlx5_gpu01, ", ""))
    assert found["ai-1"]["ports"][0]["rdma"] == {"name": "rxe_gpu01", "type": "rxe"}
    assert found["ai-1"]["ports"][1]["rdma"] == {"name": "mlx5_gpu02", "type": "rxe"}


def test_identities_are_as_documented() -> None:
    # By sha256sum: printf 'mac\nai\nai-1\ngpu01\n0' | sha256sum
    assert vf_identity.mac("ai", "ai-1", "gpu01", 0) == "22:a4:24:8a:f1:73"
    assert vf_identity.guid("ai", "ai-1", "gpu01", 0) == "92:de:9d:6e:3a:c4:24:8c"


def test_a_true_collision_is_found_and_removed_by_a_seed() -> None:
    text = SRIOV.replace("name: ai", "name: ai\n  mac_seed: ai").replace("  mac_seed: one\n", "")
    text = text.replace('rack[1:2]-ai-[1:4]: {profile: hgx, index: "[1:8]"}', "ai-632966: {profile: hgx, index: 1}")
    text += "  ai-6307574: {profile: hgx, index: 2}\n"
    (finding,) = lint(text.encode("utf-8")).findings
    assert finding.code == "RY609" and finding.place == "nodes.ai-6307574"
    for part in ("VF 0 of ai-632966 on gpu01", "VF 0 of ai-6307574 on gpu01", "12:da:a9:45:6e:8f"):
        assert part in finding.message
    assert "fabric.mac_seed" in finding.remedy
    assert lint(text.replace("mac_seed: ai", "mac_seed: two").encode("utf-8")).findings == []


@st.composite
def fabrics(draw: t.Callable[..., t.Any]) -> tuple[str, list[str]]:
    """A file without its nodes, and lines of nodes."""
    rails = draw(st.integers(1, 8))
    vfs = draw(st.sampled_from([1, 2, 3, 4]))
    text = SRIOV[: SRIOV.index("rails:")].replace("count: 4", "count: %d" % vfs)
    text += 'rails: {count: %d, name: "r{n:02}", subnet: "10.{n+%d}.0.0/16", gateway: .255.254,' % (
        rails,
        draw(st.integers(0, 200)),
    )
    text += " pods: .0.1-.127.255, hosts: .128.1-.%d.9}\nprofiles:\n  p:\n    ports:\n" % draw(st.integers(140, 254))
    text += "".join("      r%02d: {netdev: eth%d}\n" % (rail, rail) for rail in range(1, rails + 1))
    indexes = draw(st.lists(st.integers(1, 3000), min_size=1, max_size=12, unique=True))
    return text + "nodes:\n", ["  n%d: {profile: p}\n" % index for index in indexes]


@given(fabrics(), st.randoms(use_true_random=False))
def test_adding_removing_and_reordering_nodes_renumbers_no_node(
    fabric: tuple[str, list[str]], chance: random.Random
) -> None:
    head, lines = fabric
    whole = nodes(head + "".join(lines))
    some = chance.sample(lines, chance.randint(1, len(lines)))
    chance.shuffle(some)
    part = nodes(head + "".join(some))
    assert len(part) == len(some)
    for name, node in part.items():
        assert node == whole[name]


@given(fabrics())
def test_no_two_allocations_overlap(fabric: tuple[str, list[str]]) -> None:
    plan = planned(fabric[0] + "".join(fabric[1]))
    addresses, macs, tables = set(), set(), set()
    total = vfs = 0
    for node in plan.nodes:
        for port in plan.node_vars(node)["ports"]:
            total += 1
            addresses.add(port["address"])
            tables.add((port["rail"], port["table"], port["rule_priority"]))
            for attributes in port["vfs"]["attributes"]:
                vfs += 1
                macs.add(attributes["mac"])
            scheme = plan.fabric.rails[port["number"] - 1].scheme
            own = parse_address(port["address"].partition("/")[0])
            assert own is not None and scheme and scheme.pods and scheme.hosts
            assert scheme.network.first < own < scheme.network.last
            assert not scheme.pods.overlap(Ranges.of(Range(own, own)))
            assert scheme.hosts.overlap(Ranges.of(Range(own, own)))
            assert port["address"].partition("/")[0] != port["gateway"]
    assert len(addresses) == total and len(macs) == vfs
    assert len(tables) == len({table for _rail, table, _priority in tables}) == len(plan.fabric.rails)


@pytest.mark.parametrize("text", [MACVLAN, SRIOV, INFINIBAND])
def test_crlf_and_byte_order_mark_change_nothing(text: str) -> None:
    assert nodes("\ufeff" + text.replace("\n", "\r\n")) == nodes(text)


def with_range(vfs: str, text: str = SRIOV) -> str:
    return text.replace("    vfs: {count: 8}\n", "    vfs: {%s}\n" % vfs)


def test_a_range_plans_only_its_vfs() -> None:
    whole, part = (nodes(with_range(vfs)) for vfs in ("count: 8", "count: 8, range: 3-7"))
    for name, node in part.items():
        for port, other in zip(node["ports"], whole[name]["ports"]):
            assert (port["vfs"]["count"], port["vfs"]["range"]) == (8, "3-7")
            # a VF has the same identity with and without a range
            assert port["vfs"]["attributes"] == other["vfs"]["attributes"][3:]
            assert "range" not in other["vfs"]


@pytest.mark.parametrize(
    "vfs, expected",
    [
        ("count: 8, range: 5-9", ["RY619"]),
        ("count: 8, range: 7", []),
        ("count: 8, range: 7-5", ["RY112"]),
        ("count: 8, range: all", ["RY112"]),
        ("count: 8, range: 0-7", []),
    ],
)
def test_a_range_is_within_the_count(vfs: str, expected: list[str]) -> None:
    assert [each.code for each in lint(with_range(vfs).encode()).findings if each.severity == "error"] == expected
