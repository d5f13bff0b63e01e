# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that could not run is neither a pass nor a failure: no missing value makes a port good."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_output
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import bad_rails
from tests.unit.fabric.verify_nodes import Row, World, plan

NODE, RAIL = "ai-2", "gpu03"
_WORLD = World(plan())
Harm = t.Callable[[World], None]


def world() -> World:
    return copy.deepcopy(_WORLD)


def part(name: str) -> Harm:
    """``rail_info`` did not return a part."""

    def harm(world: World) -> None:
        world.infos[NODE].pop(name)

    return harm


def of_nic(**values: t.Any) -> Harm:
    def harm(world: World) -> None:
        for row in world.infos[NODE].get("nics") or ():
            if row["pci"] == world.port(NODE, RAIL)["pci"]:
                row.update(values)

    return harm


def of_device(**values: t.Any) -> Harm:
    def harm(world: World) -> None:
        for row in world.infos[NODE].get("rdma") or ():
            if row["device"] == world.port(NODE, RAIL)["rdma"]["name"]:
                row.update(values)

    return harm


def no_speed(world: World) -> None:
    of_nic(speed=None)(world)
    of_device(rate=None)(world)


def probed(change: t.Callable[[Row], None]) -> Harm:
    def harm(world: World) -> None:
        for client, rows in world.probes.items():
            for row in rows:
                if row["rail"] == RAIL and NODE in (client, row["peer"]):
                    change(row)

    return harm


def measured(key: str) -> Harm:
    def change(row: Row) -> None:
        if row["transfer"]:
            row["transfer"][key] = None

    return probed(change)


def not_timed(row: Row) -> None:
    if row["transfer"]:
        row["transfer"].update(gbits=None, latency_us=None, unmeasured="perftest could not measure the clock")


def not_counted(world: World) -> None:
    world.after[NODE] = {}


def not_counted_before(world: World) -> None:
    (world.infos[NODE].get("counters") or {}).get("devices", {}).pop(world.port(NODE, RAIL)["rdma"]["name"], None)


def no_sysctls(world: World) -> None:
    (world.infos[NODE].get("sysctls") or {}).pop(world.port(NODE, RAIL)["netdev"], None)


def no_lldp(world: World) -> None:
    rows = world.infos[NODE].get("lldp") or []
    rows[:] = [row for row in rows if row["netdev"] != world.port(NODE, RAIL)["netdev"]]


def other_run(world: World) -> None:
    world.others[NODE] = [{"run": "ops@deploy (20001)", "since": "2026-11-21T20:14:00Z"}]


def no_distance(world: World) -> None:
    for row in world.infos[NODE].get("gpus") or ():
        row["nics"].pop(world.port(NODE, RAIL)["pci"], None)


def no_vf_values(world: World) -> None:
    for row in world.infos[NODE].get("vfs") or ():
        row["attributes"] = {}


HARMS: dict[str, tuple[Harm, str]] = {
    "part nics": (part("nics"), "driver"),
    "part rdma": (part("rdma"), "link"),
    "part gids": (part("gids"), "address"),
    "part ip": (part("ip"), "address"),
    "part sysctls": (part("sysctls"), "address"),
    "part duplicates": (part("duplicates"), "address"),
    "part gpus": (part("gpus"), "driver"),
    "part vfs": (part("vfs"), "driver"),
    "part lldp": (part("lldp"), "cabling"),
    "part counters": (part("counters"), "rdma"),
    "carrier": (of_nic(carrier=None), "link"),
    "mtu": (of_nic(mtu=None), "link"),
    "pcie": (of_nic(pcie={"speed": None, "width": None}), "driver"),
    "vf count": (of_nic(vfs=None), "driver"),
    "vf values": (no_vf_values, "driver"),
    "distance": (no_distance, "driver"),
    "speed": (no_speed, "link"),
    "rdma state": (of_device(state=None), "link"),
    "sysctls": (no_sysctls, "address"),
    "lldp": (no_lldp, "cabling"),
    "packets": (probed(lambda row: row.update(reach=None)), "reach"),
    "transfer": (probed(lambda row: row.update(transfer=None)), "rdma"),
    "bandwidth": (measured("gbits"), "rdma"),
    "latency": (measured("latency_us"), "rdma"),
    "clock of perftest": (probed(not_timed), "rdma"),
    "counters": (not_counted, "rdma"),
    "counters before": (not_counted_before, "rdma"),
    "other run": (other_run, "rdma"),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_missing_value_is_unknown_with_reason_and_remedy(name: str) -> None:
    harm, layer = HARMS[name]
    broken = world()
    harm(broken)
    document = broken.document()
    assert document["matrix"][NODE][RAIL] != "ok"
    rows = [row for row in document["unknown"] if row["layer"] == layer and row["node"] == NODE]
    assert any(RAIL in row["rails"] for row in rows)
    assert all(row["why"] and row["remedy"] and row["what"] for row in rows)
    assert {(row["code"], row["name"]) for row in document["unknown"]} == {("RV006", "check-not-run")}
    (shown,) = [row for row in document["layers"] if row["name"] == layer]
    assert shown["unknown"] >= 1
    # the other nodes keep their state, unless the harm is one of pairs
    assert document["matrix"]["ai-1"]["gpu01"] == "ok"
    assert verify_output.as_junit(broken.verdict(), document).count(b"RV006") >= 1


def test_nothing_is_unknown_of_a_fabric_as_planned() -> None:
    document = world().document()
    assert document["unknown"] == [] and {each["unknown"] for each in document["layers"]} == {0}


@settings(max_examples=30)
@given(st.sets(st.sampled_from(sorted(HARMS)), min_size=1, max_size=6))
def test_no_combination_of_missing_values_makes_a_port_good(names: set[str]) -> None:
    broken = world()
    # parts last: they remove what other harms change
    for name in sorted(names, key=lambda each: each.startswith("part")):
        HARMS[name][0](broken)
    cell = broken.document()["matrix"][NODE][RAIL]
    assert cell in ("unknown", "not checked", "failed"), names


def test_an_unknown_check_does_not_fail_a_run_that_traffic_proved() -> None:
    broken = world()
    no_lldp(broken)
    verdict = broken.verdict()
    document = broken.document()
    assert verdict.ok and document["proof"][RAIL]["state"] == "proven"
    assert document["headline"] == "15 of 16 ports proven; 1 unknown: gpu03 (leaf: the port receives no LLDP)"
    assert document["ports"] == {"planned": 16, "good": 15, "failed": 0, "unknown": 1}
    # the state of a node that was proven before does not change
    assert NODE not in bad_rails(verdict) or bad_rails(verdict)[NODE] == []
    lines = verify_output.lines(verdict, document, 120)
    assert any(
        line.startswith("unknown: check-not-run (RV006) ai-2 gpu03: leaf: the port receives no LLDP") for line in lines
    )
    header = next(line for line in lines if line.startswith("layer"))
    assert header.split() == ["layer", "checked", "failed", "unknown", "not", "checked"]


def test_a_transfer_without_result_and_error_proves_nothing() -> None:
    """As before, a required proof that is missing fails the run."""
    broken = world()
    HARMS["transfer"][0](broken)
    # nor did pods
    broken.pod_probes = {name: [] for name in broken.plans}
    document = broken.document()
    assert [(each["code"], each["rails"]) for each in document["failures"]] == [("RV870", [RAIL])]
    rows = [row for row in document["unknown"] if row["layer"] == "pods"]
    assert rows and {row["what"].partition(" with ")[0] for row in rows} == {"packets between pods,"}


def test_a_planned_module_without_result_is_unknown() -> None:
    broken = world()
    broken.states[NODE].pop("rail_ports")
    (row,) = broken.document()["unknown"]
    assert (row["node"], row["rails"], row["what"]) == (NODE, [], "rail_ports")
    assert broken.document()["headline"].endswith("16 of 16 ports proven; 1 unknown check")
    # neither a run with tags nor site.yml compares it
    assert broken.document(tags=["qos"])["unknown"] == broken.document(thorough=False)["unknown"] == []


def test_what_was_not_requested_is_not_unknown() -> None:
    broken = world()
    for name in ("gids", "sysctls"):
        broken.infos[NODE].pop(name)
    assert broken.document(layers=["link"])["unknown"] == []
    drifted = world()
    for info in drifted.infos.values():
        for name in ("duplicates", "lldp", "counters"):
            info.pop(name)
    assert drifted.document("drift")["unknown"] == []
