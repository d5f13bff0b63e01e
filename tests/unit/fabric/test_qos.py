# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The QoS object: what follows from few keys, the settings of every tool, and what does not fit together."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, Finding, Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.hosts import qos_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_model as qos_room
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_profiles
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Port,
    Profile,
    Rail,
    Setting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import Qos, host_variable
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_families
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import qos_spec

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "qos.md").read_text(encoding="utf-8")


def looked_at(
    text: str,
    link_layer: str = "ethernet",
    mtu: int = 4200,
    speed: int | None = None,
    vfs: t.Mapping[str, int | None] | None = None,
) -> tuple[Qos, list[Finding]]:
    """The object of one flow mapping, and its findings in a fabric of one rail and one profile."""
    report = Report()
    document = yaml_source.parse(("qos: %s\n" % text).encode("utf-8"), report)
    assert document is not None
    section = Section(document.root, (), report).section("qos")
    assert section is not None
    qos = qos_room.read(section, report)
    profile = Profile("hgx", ("profiles", "hgx"))
    profile.ports["gpu01"] = Port("gpu01", ("profiles", "hgx", "ports", "gpu01"), speed=speed)
    fabric = Fabric(
        attachment="sriov" if vfs else "macvlan",
        link_layer=link_layer,
        mtu=mtu,
        qos=qos,
        vfs={key: Setting(value, ("fabric", "vfs", key)) for key, value in (vfs or {}).items()},
        rails=[Rail("gpu01", 1, ("rails", "gpu01"))],
        profiles={"hgx": profile},
    )
    rules.check(fabric, Variants(fabric), report)
    return qos, report.findings(document.position)


def clean(text: str) -> dict[str, t.Any]:
    """What is derived from an object without findings."""
    qos, findings = looked_at(text)
    assert [finding.text() for finding in findings] == []
    return host_variable(qos)


def found(text: str, **fabric: t.Any) -> list[tuple[str, str]]:
    findings = looked_at(text, **fabric)[1]
    for finding in findings:
        assert finding.line == 1 or finding.place.startswith("fabric"), "no line of the file"
        assert finding.remedy and not finding.remedy.endswith(".") and "\n" not in finding.text()
    return [(finding.code, finding.place) for finding in findings]


# -- what follows


def test_defaults_are_the_convention() -> None:
    assert clean("{}") == {
        "priority": 3,
        "dscp": 26,
        "trust": "dscp",
        "pfc": [0, 0, 0, 1, 0, 0, 0, 0],
        "dscp2prio": [[26, 3], [48, 6]],
        "tclass": 106,
        "rdma_cm_tos": 106,
        "ecn": {"enable": True, "np": [3], "rp": [3], "cnp_dscp": 48, "cnp_priority": 6},
        "ets": None,
        "buffers": None,
        "global_pause": False,
        "nccl": {"NCCL_IB_TC": "106"},
    }


@pytest.mark.parametrize(
    ("text", "priority", "dscp", "tclass"),
    [
        ("{dscp: 26}", 3, 26, 106),
        ("{priority: 3}", 3, 26, 106),
        ("{dscp: 24}", 3, 24, 98),
        ("{priority: 5}", 5, 40, 162),
        ("{dscp: 10}", 1, 10, 42),
        ("{dscp: 26, ecn: false}", 3, 26, 104),
        ("{priority: 5, ecn: false}", 5, 40, 160),
    ],
)
def test_one_key_implies_the_others(text: str, priority: int, dscp: int, tclass: int) -> None:
    data = clean(text)
    assert (data["priority"], data["dscp"], data["tclass"]) == (priority, dscp, tclass)
    assert data["pfc"] == [int(each == priority) for each in range(8)]
    assert data["nccl"]["NCCL_IB_TC"] == str(data["rdma_cm_tos"]) == str(tclass)
    assert data["ecn"]["np"] == data["ecn"]["rp"] == [priority]


@pytest.mark.parametrize(
    ("text", "priority", "dscp"),
    [("{cnp_priority: 7}", 7, 56), ("{cnp_dscp: 56}", 7, 56), ("{cnp_dscp: 4}", 0, 4), ("{cnp_priority: 6}", 6, 48)],
)
def test_defaults_of_notifications_are_the_convention(text: str, priority: int, dscp: int) -> None:
    data = clean(text)
    assert (data["ecn"]["cnp_priority"], data["ecn"]["cnp_dscp"]) == (priority, dscp)
    assert data["dscp2prio"][1] == [dscp, priority]


@given(st.integers(0, 63), st.booleans())
def test_the_traffic_class_is_the_dscp_with_ecns_bits(dscp: int, ecn: bool) -> None:
    data = host_variable(looked_at("{dscp: %d, ecn: %s}" % (dscp, ecn))[0])
    assert data["tclass"] >> 2 == dscp
    assert data["tclass"] & 3 == (2 if ecn else 0), "ECT(0) is 10"
    assert json.loads(json.dumps(data)) == data


def test_with_trust_pcp_nothing_turns_the_trust_back() -> None:
    qos, findings = looked_at("{trust: pcp}", vfs={"vlan": 100, "qos": 3})
    assert findings == []
    assert host_variable(qos)["dscp2prio"] == []
    assert host_variable(qos)["nccl"] == {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}


# -- profiles

LOSSY = [name for name, profile in qos_profiles.PROFILES.items() if not profile.pfc]


@pytest.mark.parametrize("name", qos_profiles.PROFILES)
def test_a_profile_has_the_convention_and_determines_pfc(name: str) -> None:
    data = clean("{profile: %s}" % name)
    pfc = qos_profiles.PROFILES[name].pfc
    assert data == dict(clean("{}"), profile=name, pfc=[0, 0, 0, int(pfc), 0, 0, 0, 0])


@pytest.mark.parametrize("name", LOSSY)
def test_the_default_buffer_of_a_profile_without_pfc_is_one(name: str) -> None:
    data = clean("{profile: %s, buffers: {buffer_size: {0: 200000}}}" % name)
    assert data["buffers"]["prio_buffer"] == [0] * 8


def test_keys_of_the_file_override_the_profile() -> None:
    data = clean("{profile: roce-lossy, dscp: 40, cnp_dscp: 56, ets: {}}")
    assert (data["priority"], data["dscp2prio"], data["tclass"]) == (5, [[40, 5], [56, 7]], 162)
    assert data["ets"]["prio_tc"] == [0, 0, 0, 0, 0, 5, 0, 7]
    assert data["nccl"] == {"NCCL_IB_TC": "162"}


def test_a_profile_follows_the_maker_and_the_file_overrides_it() -> None:
    """Only a profile does: without one, the file means the same on all NICs."""
    other = "bnxt_re"
    plain = looked_at("{ets: {}}")[0]
    assert plain.on(other) is plain
    lossy = looked_at("{profile: roce-lossless, ets: {}}")[0].on(other)
    assert (lossy.priority, lossy.dscp, lossy.cnp_priority, lossy.cnp_dscp) == (3, 26, 7, 48)
    assert lossy.pfc == (3,) and lossy.ets is not None and lossy.ets.strict == (7,)
    own = looked_at("{profile: roce-lossless, cnp_priority: 5, dscp: 26}")[0].on(other)
    assert (own.priority, own.dscp, own.cnp_priority, own.cnp_dscp) == (3, 26, 5, 40)
    # the maker's priority of a DSCP that the file repeats
    same = looked_at("{profile: roce-lossless, cnp_dscp: 48}")[0].on(other)
    assert (same.cnp_priority, same.cnp_dscp) == (7, 48)


MAKERS = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: host, provider: none, mtu: 4200}
rails:
  gpu[01:02]: {subnet: "172.16.{n+10}.0/24", gateway: .254, hosts: .201-.253%s}
profiles:
  pollara: {nic: %s, ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}
  other: {%sports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}}
nodes:
  ai-1: {profile: pollara, address: 10.1.16.1}
  ai-2: {profile: other, address: 10.1.16.2}
qos: {profile: %s}
"""


def planned(*values: str) -> dict[str, t.Any]:
    plan = lint((MAKERS % values).encode()).plan
    assert plan is not None
    return plan.document()


@pytest.mark.parametrize("profile", qos_profiles.PROFILES)
def test_a_fabric_of_one_maker_has_its_class_everywhere(profile: str) -> None:
    document = planned("", "ionic", "nic: ionic, ", profile)
    qos = document["fabric"]["qos"]
    assert qos["dscp2prio"] == [[24, 3], [46, 6]] and qos["tclass"] == 98
    # AMD's NICs send the control messages of collectives in the class of CNPs
    assert qos["nccl"] == {"NCCL_IB_TC": "98", "NCCL_IB_FIFO_TC": "184"}
    assert not [port for node in document["nodes"] for port in node["ports"] if "qos" in port]
    page = plan_tables.files(document)["leaves.md"].decode()
    assert "| profile | %s |" % profile in re.sub(" +", " ", page)
    trimming = "on, in the class of RoCE" if profile == "multipath" else "off"
    assert "| packet trimming | %s |" % trimming in re.sub(" +", " ", page)


def test_nics_of_two_makers_have_the_class_of_their_own() -> None:
    document = planned("", "bnxt_re", "nic: mlx5, ", "roce-lossless")
    assert document["fabric"]["qos"]["ecn"]["cnp_priority"] == 6
    first, second = document["nodes"]
    assert [port["qos"]["dscp2prio"] for port in first["ports"]] == [[[26, 3], [48, 7]]] * 2
    assert not [port for port in second["ports"] if "qos" in port]
    options = port_options(first["ports"], "roce_qos")
    assert [port["qos"]["ecn"]["cnp_priority"] for port in options] == [7, 7]
    # a maker that publishes no class, and an unknown one, have the convention
    for other in ("irdma", "habanalabs"):
        document = planned("", other, "", "roce-lossy")
        assert document["fabric"]["qos"]["dscp"] == 26
        assert not [port for node in document["nodes"] for port in node["ports"] if "qos" in port]


def test_a_rail_has_another_profile() -> None:
    document = planned(", qos: {profile: roce-lossy}", "ionic", "nic: ionic, ", "roce-lossless")
    assert sum(document["fabric"]["qos"]["pfc"]) == 1
    for node in document["nodes"]:
        for port in node["ports"]:
            assert (port["qos"]["profile"], port["qos"]["pfc"], port["qos"]["dscp"]) == ("roce-lossy", [0] * 8, 24)
    # the profile of the fabric applies to a rail that sets other keys
    document = planned(", qos: {dscp: 34}", "mlx5", "", "roce-lossy")
    port = document["nodes"][0]["ports"][0]
    assert (port["qos"]["profile"], port["qos"]["pfc"], port["qos"]["dscp"]) == ("roce-lossy", [0] * 8, 34)


@pytest.mark.parametrize(
    ("rail", "profile", "expected"),
    [
        (", qos: {pfc: [3]}", "roce-lossy", [("RY720", "rails.gpu[01:02].qos.pfc")]),
        (", qos: {profile: multipath}", "roce-lossless, pfc: [3], buffers: {cable_len: 30}", []),
        (", qos: {profile: roce-lossless, pfc: []}", "roce-lossy", [("RY722", "rails.gpu[01:02].qos.pfc")]),
        ("", "roce-lossy", []),
    ],
)
def test_contradictions_of_a_rail_have_the_place_of_the_rail(
    rail: str, profile: str, expected: list[tuple[str, str]]
) -> None:
    findings = lint((MAKERS % (rail, "mlx5", "nic: mlx5, ", profile)).encode()).findings
    assert [(each.code, each.place) for each in findings if each.code.startswith("RY7")] == expected


def test_dscps_of_different_makers_are_reported() -> None:
    def codes(*values: str) -> list[str]:
        findings = lint((MAKERS % values).encode()).findings
        return [each.code for each in findings if each.code.startswith("RY7")]

    assert codes("", "ionic", "nic: mlx5, ", "roce-lossy") == ["RY719"]
    assert codes("", "bnxt_re", "nic: mlx5, ", "roce-lossy") == []  # only the priority in the NIC differs
    assert codes("", "ionic", "nic: mlx5, ", "roce-lossy, dscp: 26, cnp_dscp: 48") == []


def test_a_written_file_has_the_keys_of_the_file_alone() -> None:
    text = MAKERS % (", qos: {profile: multipath}", "ionic", "nic: mlx5, ", "roce-lossy, cnp_dscp: 48")
    before = lint(text.encode())
    assert before.plan is not None
    after = lint(write(before.plan.fabric).encode())
    assert after.plan is not None and after.plan.document() == before.plan.document()


def test_every_profile_has_sources_with_dates() -> None:
    for profile in qos_profiles.PROFILES.values():
        assert profile.sources
        assert all(re.search(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", source) for source in profile.sources)
    for name, profile in qos_profiles.PROFILES.items():
        row = next(line for line in PAGE.splitlines() if line.startswith("| `%s` |" % name))
        pfc, trimming = (each.strip() for each in row.split("|")[2:4])
        assert (pfc, trimming) == ("RoCE's priority" if profile.pfc else "no", "yes" if profile.trimming else "no")
    for nic in (None, *nic_families.FAMILIES):
        row = next(line for line in PAGE.splitlines() if line.startswith("| `") and "`%s`" % (nic or "mlx5") in line)
        row = row.replace("as `mlx5` | as `mlx5`", "DSCP 26, priority 3 | DSCP 48, priority 6")
        priority, dscp, cnp_priority, cnp_dscp = qos_profiles.defaults_of(nic)
        assert "DSCP %d, priority %d | DSCP %d, priority %d" % (dscp, priority, cnp_dscp, cnp_priority) in row
    assert {name: profile.pfc for name, profile in qos_profiles.PROFILES.items()} == qos_spec.PROFILES


# -- ets


def test_shares_by_default() -> None:
    assert clean("{ets: {}}")["ets"] == {
        "prio_tc": [0, 0, 0, 3, 0, 0, 6, 0],
        "tc_bw": [50, 0, 0, 50, 0, 0, 0, 0],
        "tc_tsa": ["ets", "strict", "strict", "ets", "strict", "strict", "strict", "strict"],
    }
    assert clean("{pfc: [3, 4], ets: {}}")["ets"]["tc_bw"] == [25, 0, 0, 50, 25, 0, 0, 0]
    assert clean("{pfc: [3], ets: {tc_bw: {0: 10, 3: 90}}}")["ets"]["tc_bw"] == [10, 0, 0, 90, 0, 0, 0, 0]
    assert clean("{ets: {prio_tc: {3: 1, 6: 2}}}")["ets"] == {
        "prio_tc": [0, 0, 0, 1, 0, 0, 2, 0],
        "tc_bw": [50, 50, 0, 0, 0, 0, 0, 0],
        "tc_tsa": ["ets", "ets", "strict", "strict", "strict", "strict", "strict", "strict"],
    }
    assert clean("{ets: {strict: [3, 6]}}")["ets"]["tc_bw"] == [100, 0, 0, 0, 0, 0, 0, 0]


@given(st.integers(0, 7), st.integers(0, 7), st.sets(st.integers(0, 7)))
def test_default_shares_are_always_sound(priority: int, cnp: int, more: set[int]) -> None:
    pfc = sorted(more | {priority})
    text = "{priority: %d, cnp_priority: %d, pfc: %s, ets: {}, buffers: {}}" % (priority, cnp, pfc)
    qos, findings = looked_at(text)
    assert not {"RY711", "RY712", "RY113"} & {finding.code for finding in findings}
    data = host_variable(qos)["ets"]
    assert sum(data["tc_bw"]) == 100
    assert all((bandwidth > 0) == (algorithm == "ets") for bandwidth, algorithm in zip(data["tc_bw"], data["tc_tsa"]))
    assert all(data["tc_bw"][tc] or tc == data["prio_tc"][cnp] for tc in data["prio_tc"])
    if len(pfc) < 7 and cnp not in pfc:
        lossless = {data["prio_tc"][each] for each in pfc}
        assert not lossless & {data["prio_tc"][each] for each in range(8) if each not in pfc}


# -- buffers


def test_buffers_by_default() -> None:
    assert clean("{buffers: {}}")["buffers"] == {
        "prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0],
        "buffer_size": None,
        "cable_len": None,
    }
    data = clean("{pfc: [3, 4], buffers: {cable_len: 100, buffer_size: {0: 60000, 1: 90000, 2: 90000}}}")["buffers"]
    assert data == {
        "prio_buffer": [0, 0, 0, 1, 2, 0, 0, 0],
        "buffer_size": [60000, 90000, 90000, 0, 0, 0, 0, 0],
        "cable_len": 100,
    }


@given(st.integers(1, 999), st.sampled_from([1, 40, 100, 400, 800]), st.integers(576, 9978))
def test_headroom_is_that_of_the_driver(cable_len: int, speed: int, mtu: int) -> None:
    exact = (301 + 2.16 * cable_len) * max(speed, 40) + 2.72 * mtu
    headroom = qos_room.headroom(cable_len, speed, mtu)
    assert exact - max(speed, 40) - 1 <= headroom <= exact, "the driver rounds down"
    assert qos_room.least_size(cable_len, speed, mtu) == headroom + 9216 + 128, "and the largest frame and a cell"


def test_the_table_of_the_page_is_the_calculated_one() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for speed, *sizes in rows:
        least = [qos_room.least_size(metres, int(speed), 4200) for metres in (10, 100, 300)]
        assert [int(size) for size in sizes] == [-(-size // 1000) for size in least]


@pytest.mark.parametrize("number", range(4))
def test_the_examples_of_the_page_are_sound(number: int) -> None:
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[number]
    assert clean(json.dumps(yaml.safe_load(example)["qos"]))


def test_headroom_without_a_length_assumes_seven_metres() -> None:
    assert qos_room.headroom(None, 100, 4200) == qos_room.headroom(7, 100, 4200) == (301 + 15) * 100 + 11424


def test_the_speed_that_the_profile_expects_decides() -> None:
    text = "{buffers: {cable_len: 50, buffer_size: {0: 60000, 1: 100000}}}"
    assert found(text) == []
    assert found(text, speed=100) == []
    assert found(text, speed=400) == [("RY717", "qos.buffers.buffer_size.1")]
    assert found(text, mtu=9978, speed=200) == [("RY717", "qos.buffers.buffer_size.1")]
    # Buffer 0 is not lossless, and may be as small as it likes.
    assert found("{buffers: {buffer_size: {0: 100, 1: 1000000}}}", speed=800) == []


# -- what does not fit

VLAN = {"vlan": 100, "qos": 5}


@pytest.mark.parametrize(
    ("text", "fabric", "expected"),
    [
        ("{dscp: 64}", {}, [("RY113", "qos.dscp")]),
        ("{cnp_dscp: -1}", {}, [("RY113", "qos.cnp_dscp")]),
        ("{priority: 8}", {}, [("RY113", "qos.priority")]),
        ("{dscp: AF31}", {}, [("RY112", "qos.dscp")]),
        ("{trust: vlan}", {}, [("RY114", "qos.trust")]),
        ("{pfc: [3, 9]}", {}, [("RY113", "qos.pfc[1]")]),
        ('{pfc: "0,0,0,1,0,0,0,0"}', {}, [("RY113", "qos.pfc")]),
        ("{pfc: {3: on}}", {}, [("RY112", "qos.pfc")]),
        ("{pfc: [[3]]}", {}, [("RY112", "qos.pfc[0]")]),
        ("{ecn: maybe}", {}, [("RY112", "qos.ecn")]),
        ("{priorty: 3}", {}, [("RY110", "qos.priorty")]),
        ("{ets: [50, 50]}", {}, [("RY112", "qos.ets")]),
        ("{ets: {tc_bw: {tc0: 50}}}", {}, [("RY110", "qos.ets.tc_bw.tc0")]),
        ("{ets: {tc_bw: {0: 101}}}", {}, [("RY113", "qos.ets.tc_bw.0")]),
        ("{ets: {bandwidth: {0: 100}}}", {}, [("RY110", "qos.ets.bandwidth")]),
        ("{ets: {strict: [8]}}", {}, [("RY113", "qos.ets.strict[0]")]),
        ("{buffers: {cable_len: 1000}}", {}, [("RY113", "qos.buffers.cable_len")]),
        ("{buffers: {buffer_size: {1: 64K}}}", {}, [("RY112", "qos.buffers.buffer_size.1")]),
        ("{}", {"link_layer": "infiniband"}, [("RY701", "qos")]),
        ("{pfc: [4], dscp: 26}", {"link_layer": "infiniband"}, [("RY701", "qos")]),
        ("{dscp: 26, cnp_dscp: 26}", {}, [("RY702", "qos.cnp_dscp")]),
        ("{dscp: 48}", {}, [("RY702", "qos.dscp")]),
        ("{pfc: [4]}", {}, [("RY703", "qos.pfc")]),
        ("{dscp: 40, pfc: 3}", {}, [("RY703", "qos.pfc")]),
        ("{priority: 6, dscp: 50}", {}, [("RY704", "qos.priority")]),
        ("{cnp_dscp: 24}", {}, [("RY704", "qos.cnp_dscp")]),
        ("{pfc: [3, 6]}", {}, [("RY704", "qos.pfc")]),
        ("{dscp: 26, priority: 4}", {}, [("RY705", "qos.priority")]),
        ("{cnp_dscp: 48, cnp_priority: 7}", {}, [("RY705", "qos.cnp_priority")]),
        ("{trust: pcp, dscp: 26, priority: 4}", {"vfs": {"vlan": 1, "qos": 4}}, []),
        ("{trust: pcp}", {}, [("RY706", "qos.trust")]),
        ("{trust: pcp}", {"vfs": {"vlan": 0}}, [("RY706", "qos.trust")]),
        ("{trust: pcp}", {"vfs": VLAN}, [("RY707", "fabric.vfs.qos")]),
        ("{trust: pcp}", {"vfs": {"vlan": 100}}, [("RY707", "fabric.vfs.vlan")]),
        ("{trust: pcp}", {"vfs": {"vlan": 100, "qos": None}}, []),
        ("{trust: dscp}", {"vfs": VLAN}, []),
        ("{pfc: [], ecn: off}", {}, [("RY708", "qos.pfc")]),
        ("{profile: lossy}", {}, [("RY114", "qos.profile")]),
        ("{profile: roce-lossy, pfc: [3]}", {}, [("RY720", "qos.pfc")]),
        ("{profile: multipath, pfc: [0, 4, 5]}", {}, [("RY720", "qos.pfc")]),
        ("{profile: roce-lossy, pfc: []}", {}, []),
        ("{profile: roce-lossy, pfc: [9]}", {}, [("RY113", "qos.pfc[0]")]),
        ("{profile: roce-lossy, buffers: {cable_len: 30}}", {}, [("RY721", "qos.buffers.cable_len")]),
        ("{profile: multipath, buffers: {prio_buffer: {3: 1}}}", {}, [("RY721", "qos.buffers.prio_buffer")]),
        ("{profile: roce-lossy, buffers: {}}", {}, []),
        ("{profile: roce-lossless, pfc: []}", {}, [("RY722", "qos.pfc")]),
        ("{profile: roce-lossless, pfc: [3, 4]}", {}, []),
        ("{profile: roce-lossy, ecn: off}", {}, [("RY708", "qos.ecn")]),
        ("{profile: multipath}", {"link_layer": "infiniband"}, [("RY701", "qos")]),
        ("{pfc: []}", {}, []),
        ("{ecn: off}", {}, []),
        ("{pfc: [2, 3, 4]}", {}, [("RY709", "qos.pfc")]),
        ("{priority: 0, dscp: 0}", {}, [("RY710", "qos.priority")]),
        ("{pfc: [0, 3]}", {}, [("RY710", "qos.pfc")]),
        ("{ets: {tc_bw: {0: 50, 3: 60}}}", {}, [("RY711", "qos.ets.tc_bw")]),
        ("{ets: {tc_bw: {0: 0, 3: 0}}}", {}, [("RY711", "qos.ets.tc_bw")]),
        ("{ets: {tc_bw: {3: 100}}}", {}, [("RY712", "qos.ets.tc_bw")]),
        ("{ets: {strict: [6, 3], tc_bw: {0: 50, 3: 50}}}", {}, [("RY712", "qos.ets.strict")]),
        ("{ets: {tc_bw: {0: 45, 3: 50, 6: 5}}}", {}, [("RY713", "qos.ets.strict")]),
        ("{ets: {strict: []}}", {}, [("RY713", "qos.ets.strict")]),
        ("{ets: {prio_tc: {6: 6}, tc_bw: {0: 100}}}", {}, [("RY714", "qos.ets.prio_tc")]),
        ("{ets: {prio_tc: {3: 3, 4: 3, 6: 6}}}", {}, [("RY714", "qos.ets.prio_tc")]),
        ("{pfc: [], ets: {prio_tc: {6: 6}}}", {}, []),
        ("{buffers: {prio_buffer: {}}}", {}, [("RY715", "qos.buffers.prio_buffer")]),
        ("{pfc: [3, 4], buffers: {prio_buffer: {3: 1, 4: 1}}}", {}, []),
        ("{buffers: {buffer_size: {1: 90000}}}", {}, [("RY716", "qos.buffers.buffer_size")]),
        ("{buffers: {buffer_size: {0: 90000, 1: 0}}}", {}, [("RY716", "qos.buffers.buffer_size")]),
        ("{buffers: {buffer_size: {0: 60000, 1: 20000}}}", {}, [("RY717", "qos.buffers.buffer_size.1")]),
        (
            "{pfc: [4], pfd: x, buffers: {cable_len: 0}}",
            {},
            [
                ("RY703", "qos.pfc"),
                ("RY110", "qos.pfd"),
                ("RY113", "qos.buffers.cable_len"),
            ],
        ),
    ],
)
def test_one_mistake_is_one_finding(text: str, fabric: dict[str, t.Any], expected: list[tuple[str, str]]) -> None:
    assert found(text, **fabric) == expected


def test_the_severities() -> None:
    warnings = {rule.code for rule in vars(rules).values() if getattr(rule, "severity", None) == WARNING}
    assert warnings == {
        "RY705",
        "RY706",
        "RY708",
        "RY709",
        "RY710",
        "RY713",
        "RY714",
        "RY715",
        "RY717",
        "RY718",
        "RY719",
    }


def test_the_remedy_of_a_notification_on_a_lossless_priority_is_one() -> None:
    for priority in range(8):
        findings = looked_at(
            "{priority: %d, dscp: %d, cnp_priority: %d, cnp_dscp: 63}" % (priority, priority << 3, priority)
        )[1]
        (finding,) = [each for each in findings if each.code == "RY704"]
        remedy = finding.remedy.replace("set ", "").replace(" and", ",")
        remedied = looked_at("{priority: %d, dscp: %d, %s}" % (priority, priority << 3, remedy))[1]
        assert {each.code for each in remedied} <= {"RY710"}


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 99)
    | st.sampled_from(["dscp", "pcp", "roce-lossy", "roce-lossless", "x", "3", "[", "{{ a }}"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["0", "3", "6", "9", "a"]), inner, max_size=4)
    ),
    max_leaves=8,
)
KEYS = ("profile", "priority", "dscp", "cnp_priority", "cnp_dscp", "trust", "pfc", "ecn", "ets", "buffers", "other")
INNER = ("prio_tc", "tc_bw", "strict", "prio_buffer", "buffer_size", "cable_len")


@given(
    st.dictionaries(
        st.sampled_from(KEYS), json_like | st.dictionaries(st.sampled_from(INNER), json_like, max_size=4), max_size=6
    )
)
def test_any_object_is_either_correct_or_reported(data: dict[str, t.Any]) -> None:
    qos, findings = looked_at(json.dumps(data))
    assert all(finding.text() for finding in findings)
    values = host_variable(qos)
    assert json.loads(json.dumps(values)) == values
    assert values["tclass"] >> 2 == values["dscp"]
    if not findings and values["ets"]:
        assert sum(values["ets"]["tc_bw"]) in (0, 100)
