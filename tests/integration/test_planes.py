# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of two planes: on a NIC that spreads its packets, imitated by a bond, and with a network for each plane."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine, verify_output
from tests.integration.conftest import ROOT, Node
from tests.integration.faults import cable
from tests.integration.health_states import HealthStates
from tests.integration.layouts import CARRIERS, NO_CARRIER, ONE, TWO, Layout, prepared

pytestmark = [pytest.mark.lab, pytest.mark.long]

PLANES = (ROOT / "inventories" / "lab-planes" / "fabric.yml").read_text()
ABOUT = {"plan": "", "railyard": "", "began": "", "seconds": 0}
AGGREGATES = " && ".join("grep -qx 2 /sys/class/net/bond%d/bonding/ad_num_ports" % each for each in range(2))
# the leaves are the partner of both members of each bond
PARTNERS = '[ "$(cat /proc/net/bonding/bond[01] | grep -c "system mac address: 02:1e:af")" = 4 ]'
HEALTHY = "%s; %s && %s" % (CARRIERS % 6, AGGREGATES, PARTNERS)


@pytest.fixture(scope="module")
def planes(node: t.Callable[[str], Node], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("planes"), "planes", PLANES, HEALTHY)


def summary(verdict: verify_engine.Verdict) -> list[str]:
    """Return the lines of a verdict, as verify prints them."""
    return verify_output.lines(verdict, verify_engine.document(verdict, ABOUT), 200)


def repair(planes: Layout) -> None:
    """Repair all cables, and wait until both planes of all rails have a link."""
    cable("repair")
    planes.settle()


def test_rails_with_planes_are_prepared_and_proven(planes: Layout) -> None:
    done = planes.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]
    planes.settle()
    for node in planes.nodes.values():
        # one RDMA device and one address over both planes of a NIC, and one for each plane with its own network
        devices = {row["ifname"]: row["netdev"] for row in node.json("rdma -j link")}
        assert devices == {
            **{"rxe_bond%d" % each: "bond%d" % each for each in range(2)},
            **{"rxe_gpu03p%d" % each: "enp%ds0" % (each + 4) for each in (1, 2)},
        }
    assert planes.failures(DRIFT) == []
    assert planes.failures() == []


def test_a_lost_plane_is_named_and_the_rail_carries_on(planes: Layout) -> None:
    """If a NIC spreads its packets, the other plane carries all traffic; a plane with its own network is down."""
    planes.settle()
    for port, name in (("node-1:1", "enp1s0"), ("node-1:6", "enp6s0")):
        cable("cut", port)
        planes.nodes[ONE].until(NO_CARRIER % name)
    try:
        verdict = planes.faults.judge()
    finally:
        repair(planes)
    found = {(each.code, each.node, each.rail): each.line() for each in verdict.run.failures}
    assert set(found) == {("RV422", ONE, "gpu01"), ("RV402", ONE, "gpu03p2")}, list(found.values())
    assert "plane 1" in found["RV422", ONE, "gpu01"] and "enp1s0" in found["RV422", ONE, "gpu01"]
    assert "leaf-1-1" in found["RV422", ONE, "gpu01"]
    rows = [{"node": ONE, "rail": "gpu01", "planes": 2, "lost": [1], "proven": True}]
    assert verify_engine.degraded_rails(verdict) == rows
    carries = "node-1 gpu01 carries traffic on 1 of 2 planes, without plane 1, at 50 % of its speed"
    assert carries in summary(verdict), summary(verdict)
    assert planes.failures() == []


def test_different_planes_of_two_nodes_are_lost(planes: Layout) -> None:
    """Node 1 has only plane 1 of the rail, and node 2 only plane 2: traffic crosses from one plane to the other."""
    planes.settle()
    for port, node, name in (("node-1:2", ONE, "enp2s0"), ("node-2:1", TWO, "enp1s0")):
        cable("cut", port)
        planes.nodes[node].until(NO_CARRIER % name)
    try:
        verdict = planes.faults.judge()
    finally:
        repair(planes)
    assert {(each.code, each.node, each.rail) for each in verdict.run.failures} == {
        ("RV422", ONE, "gpu01"),
        ("RV422", TWO, "gpu01"),
    }, summary(verdict)
    assert [line for line in summary(verdict) if "carries traffic on 1 of 2 planes" in line] == [
        "node-1 gpu01 carries traffic on 1 of 2 planes, without plane 2, at 50 % of its speed",
        "node-2 gpu01 carries traffic on 1 of 2 planes, without plane 1, at 50 % of its speed",
    ]
    assert planes.failures() == []


def test_a_rail_without_any_plane_is_down(planes: Layout) -> None:
    planes.settle()
    for number in (3, 4):
        cable("cut", "node-2:%d" % number)
        planes.nodes[TWO].until(NO_CARRIER % ("enp%ds0" % number))
    try:
        verdict = planes.faults.judge()
    finally:
        repair(planes)
    assert {(each.node, each.rail) for each in verdict.run.failures} == {(TWO, "gpu02")}
    assert {"RV402", "RV407"} & {each.code for each in verdict.run.failures}
    assert verify_engine.degraded_rails(verdict) == []
    assert planes.failures() == []


def test_planes_on_the_leaves_of_each_other_are_named(planes: Layout) -> None:
    """Traffic does not show it, because the leaves of both planes forward it. LLDP does."""
    planes.settle()
    spoken = ["node-1:1", "node-1:2"]
    cable("swap", *spoken)
    for port in spoken:
        cable("lldp", port, "on")
    planes.faults.listen = 10.0
    try:
        planes.settle()
        verdict = planes.faults.judge()
    finally:
        planes.faults.listen = 0.0
        for port in spoken:
            cable("lldp", port, "off")
        repair(planes)
    lines = [each.line() for each in verdict.run.failures]
    assert [(each.code, each.node, each.rail) for each in verdict.run.failures] == [("RV426", ONE, "gpu01")], lines
    assert "plane 1 (enp1s0) on leaf-1-2" in lines[0] and "plane 2 (enp2s0) on leaf-1-1" in lines[0]
    assert planes.failures() == []


def test_networks_of_planes_that_are_swapped_are_named(planes: Layout) -> None:
    planes.settle()
    cable("swap", "node-2:5", "node-2:6")
    try:
        verdict = planes.faults.judge()
    finally:
        repair(planes)
    lines = [each.line() for each in verdict.run.failures]
    assert {rail for each in verdict.run.failures for rail in each.rails} == {"gpu03p1", "gpu03p2"}, lines
    assert planes.failures() == []


def test_a_reboot_restores_rails_with_planes(planes: Layout) -> None:
    planes.reboot()
    assert planes.failures(DRIFT) == []
    assert planes.failures() == []


def test_health_service_reports_lost_planes_until_their_repair(planes: Layout) -> None:
    """A NIC that spreads its packets makes the rail degraded. A plane with its own network fails."""
    fabric = planes.inventory / "fabric.yml"
    fabric.write_text(PLANES + "\nhealth: {enabled: true, probe: {}}\n")
    done = planes.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0, done.stdout[-4000:]
    service = HealthStates(planes.nodes)
    service.wait(service.healthy, "healthy")

    def findings(rail: str) -> set[tuple[str, int | None]]:
        return {(each["code"], each["plane"]) for each in service.rails(ONE)[rail]["findings"]}

    for port in ("node-1:1", "node-1:6"):
        cable("cut", port)
    try:
        named = service.wait(
            lambda: ("RV422", 1) in findings("gpu01") and ("RV402", None) in findings("gpu03p2"), "not named"
        )
        rails = {name: service.rails(name) for name in (ONE, TWO)}
        check = planes.nodes[ONE].run("railyard-health check >/dev/null; echo $?")
    finally:
        repair(planes)
    ended = service.wait(service.healthy, "not ended")
    print("half of the planes: named after %.1f s, ended after %.1f s" % (named, ended))
    own = rails[ONE]["gpu01"]
    assert (own["state"], own["degraded"], [each["state"] for each in own["planes"]]) == (
        "pass",
        True,
        ["fail", "pass"],
    )
    assert (rails[ONE]["gpu03p2"]["state"], check.strip()) == ("fail", "1")
    # the partner may report only the plane with its own network
    assert {rail for row in rails.values() for rail, each in row.items() if each["findings"]} <= {"gpu01", "gpu03p2"}
    assert rails[TWO]["gpu01"]["state"] == "pass"
