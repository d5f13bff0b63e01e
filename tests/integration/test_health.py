# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health service on three nodes with four rails: ``lab/lab up --nodes 3 --rails 4`` first.

Each fault is caused while the service runs. The service must name it on the right rail, must not report another rail,
and must report the rail as healthy again after the repair. How long both took is printed, and not compared.
"""

from __future__ import annotations

import json
import os
import threading
import time
import typing as t
from pathlib import Path

import pytest

from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.integration.faults import GUESTS, cable
from tests.integration.health_states import STATE, HealthStates
from tests.integration.modules import Row

pytestmark = pytest.mark.lab

TAG = "before-health"
NAMES = ("node-1", "node-2", "node-3")
RAILS = ("gpu01", "gpu02", "gpu03", "gpu04")
FABRIC = """
plugin: railyard.fabric.rails
fabric:
  name: health
  attachment: host
  provider: none
  mtu: 4200
  routing: {cross_rail: false} # no router connects the lab's leaves
health: {enabled: true, probe: {}}
rails:
  {count: 4, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", gateway: .254, hosts: .201-.253}
nodes:
  node-[1:3]: {profile: guest, unit: su1}
"""
FABRIC += GUESTS
# Seconds of quiet in which no rail may change its state.
QUIET = float(os.environ.get("RAILYARD_QUIET", "120"))
ONE, TWO = NAMES[:2]
NETEM, UNSHAPED = "tc qdisc add dev %s root netem ", "tc qdisc del dev %s root"
# hosts.yml creates the device with this command.
RXE = "rdma link add rxe_gpu03 type rxe netdev enp3s0"


class Fault(t.NamedTuple):
    """A fault. ``codes``: one of them must name it. ``harm``, ``fix``: a command on ``node``, or words of ``cable``."""

    name: str
    codes: tuple[str, ...]
    node: str
    rail: str
    harm: str | list[list[str]]
    fix: str | list[list[str]]
    found: str = ""


FAULTS = [
    Fault("cable cut", ("RV402",), TWO, "gpu02", [["cut", "node-2:2"]], [["repair", "node-2:2"]]),
    Fault("link set down", ("RV401",), ONE, "gpu02", "ip link set enp2s0 down", "ip link set enp2s0 up"),
    Fault(
        "smaller MTU", ("RV404",), ONE, "gpu01", "ip link set enp1s0 mtu 1500", "ip link set enp1s0 mtu 4200", "1500"
    ),
    Fault("RDMA device gone", ("RV405",), ONE, "gpu03", "rdma link delete rxe_gpu03", RXE),
    Fault(
        *("RDMA device renamed", ("RV405", "RV406"), ONE, "gpu04", "rdma dev set rxe_gpu04 name stray0"),
        fix="rdma dev set stray0 name rxe_gpu04",
    ),
    Fault(
        *("address gone", ("RV501",), TWO, "gpu01", "ip addr del 172.16.11.202/24 dev enp1s0"),
        fix="ip addr add 172.16.11.202/24 dev enp1s0",
    ),
    Fault(
        *("another leaf", ("RV701",), TWO, "gpu04", [["lldp", "node-2:4", "on", "--chassis", "spine-9"]]),
        fix=[["lldp", "node-2:4", "on"]],
        found="spine-9",
    ),
    Fault(
        *("another leaf port", ("RV704",), ONE, "gpu04", [["lldp", "node-1:4", "on", "--port-name", "Ethernet9"]]),
        fix=[["lldp", "node-1:4", "on"]],
        found="Ethernet9",
    ),
    Fault("no packets pass", ("RV801",), ONE, "gpu03", [["loss", "node-1:3", "100"]], [["repair", "node-1:3"]]),
    Fault("loss of 5 %", ("RV803",), TWO, "gpu03", [["loss", "node-2:3", "5"]], [["repair", "node-2:3"]]),
    Fault("leaf's MTU", ("RV802",), TWO, "gpu04", [["mtu", "node-2:4", "1500"]], [["repair", "node-2:4"]]),
    Fault("loss of 0.5 %", ("RV803",), TWO, "gpu01", [["loss", "node-2:1", "0.5"]], [["repair", "node-2:1"]]),
    # nine of ten packets leave at once, and one after the delay
    Fault("delay tail", ("RV854",), TWO, "gpu02", NETEM % "enp2s0" + "delay 400ms reorder 90%", UNSHAPED % "enp2s0"),
    Fault("marked ECN", ("RV895",), ONE, "gpu03", NETEM % "enp3s0" + "loss 60% ecn", UNSHAPED % "enp3s0"),
]


class Health(HealthStates):
    """The nodes with a fabric file that enables the health service."""

    def __init__(self, node: t.Callable[[str], Node], place: Path) -> None:
        super().__init__({name: node(name) for name in NAMES})
        self.inventory = place / "inventory"
        self.inventory.mkdir()
        (self.inventory / "fabric.yml").write_text(FABRIC)
        (self.inventory / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")

    def play(self, name: str, *words: str) -> playbook.Played:
        env = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
        given = {"verify_report_dir": str(self.inventory.parent / "reports"), "verify_lldp_seconds": "0"}
        return playbook.play("playbooks/" + name, *words, inventory=self.inventory, given=given, env=env)

    def do(self, node: str, action: str | list[list[str]]) -> None:
        if isinstance(action, str):
            self.nodes[node].run(action)
        else:
            for words in action:
                cable(*words)

    def names(self, fault: Fault) -> bool:
        """Return whether the fault is named on its own rail."""
        found = self.rails(fault.node)[fault.rail]["findings"]
        return any(each["code"] in fault.codes and fault.found in json.dumps(each) for each in found)


@pytest.fixture(scope="module")
def health(node: t.Callable[[str], Node], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Health]:
    """The nodes, prepared by ``hosts.yml``. The end restores the lab."""
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    try:
        found = Health(node, tmp_path_factory.mktemp("health"))
        for number in range(1, 4):
            for rail in range(1, 5):
                cable("lldp", "node-%d:%d" % (number, rail), "on")
        done = found.play("hosts.yml")
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        yield found
    finally:
        for number in range(1, 4):
            for rail in range(1, 5):
                cable("lldp", "node-%d:%d" % (number, rail), "off")
        cable("repair")
        for name in NAMES:
            node(name).modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0
        assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def test_prepared_nodes_are_healthy_and_a_second_run_changes_nothing(health: Health) -> None:
    health.wait(health.healthy, "healthy")
    done = health.play("hosts.yml")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]


def test_nothing_is_reported_while_nothing_happens(health: Health) -> None:
    """RAILYARD_QUIET is the time in seconds (120). An unplanned interface that goes up and down is not reported."""
    health.wait(health.healthy, "healthy")
    before = {name: {rail: row["since"] for rail, row in health.rails(name).items()} for name in NAMES}
    health.nodes[ONE].run("ip link add unplanned0 type veth peer name unplanned1; ip link set unplanned0 up")
    ended = time.monotonic() + QUIET
    try:
        while time.monotonic() < ended:
            health.nodes[ONE].run("ip link set unplanned1 up; sleep 1; ip link set unplanned1 down")
            assert health.lines() == []
            time.sleep(min(10.0, max(0.0, ended - time.monotonic())))
    finally:
        health.nodes[ONE].run("ip link del unplanned0")
    assert before == {name: {rail: row["since"] for rail, row in health.rails(name).items()} for name in NAMES}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_named_and_ends_with_its_repair(health: Health, fault: Fault) -> None:
    health.wait(health.healthy, "healthy before")
    health.do(fault.node, fault.harm)
    try:
        named = health.wait(lambda: health.names(fault), "%s is not named" % fault.name)
        seen = health.lines()
    finally:
        health.do(fault.node, fault.fix)
    ended = health.wait(health.healthy, "%s has not ended" % fault.name)
    print("%s: named after %.1f s, ended after %.1f s" % (fault.name, named, ended))
    # other nodes may name the node as their partner; other rails are not reported
    assert {line.split()[1] for line in seen} == {fault.rail}, seen


def test_a_flapping_cable_stays_reported_while_it_flaps(health: Health) -> None:
    health.wait(health.healthy, "healthy before")
    stop = threading.Event()

    def flap() -> None:
        while not stop.is_set():
            cable("cut", "node-1:1")
            stop.wait(1.5)
            cable("repair", "node-1:1")
            stop.wait(3)

    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        health.wait(lambda: health.rails(ONE)["gpu01"]["state"] == "fail", "the flapping cable is not named")
        states = []
        for _time in range(20):
            states.append(health.rails(ONE)["gpu01"]["state"])
            time.sleep(1)
    finally:
        stop.set()
        flapping.join()
    assert set(states) == {"fail"}
    print("ended after %.1f s" % health.wait(health.healthy, "the flapping has not ended"))


def test_a_killed_service_starts_again_and_reports_the_same(health: Health) -> None:
    health.wait(health.healthy, "healthy before")
    cable("cut", "node-2:1")
    try:
        health.wait(lambda: health.rails(TWO)["gpu01"]["state"] == "fail", "cut")
        began = health.state(TWO)["began"]
        health.nodes[TWO].run("systemctl kill --signal=KILL railyard-health.service")
        health.wait(lambda: health.state(TWO)["began"] != began, "started again")
        health.wait(lambda: health.rails(TWO)["gpu01"]["state"] == "fail", "named again")
        assert {row["state"] for rail, row in health.rails(TWO).items() if rail != "gpu01"} == {"pass"}
    finally:
        cable("repair", "node-2:1")
    health.wait(health.healthy, "repaired")


def test_a_reboot_does_not_fail_the_rails_of_other_nodes(health: Health) -> None:
    health.wait(health.healthy, "healthy before")
    seen: list[str] = []
    rebooting = threading.Thread(target=health.nodes[TWO].reboot)
    rebooting.start()
    while rebooting.is_alive():
        for name in (ONE, NAMES[2]):
            seen += [row["rail"] for row in health.rails(name).values() if row["state"] == "fail"]
        time.sleep(1)
    rebooting.join()
    assert seen == []
    health.wait(health.healthy, "healthy after the reboot")


def test_status_reads_the_states_and_verify_agrees(health: Health) -> None:
    health.wait(health.healthy, "healthy before")
    done = health.play("status.yml")
    assert done.returncode == 0, done.stdout[-4000:]
    cable("cut", "node-2:3")
    try:
        health.wait(lambda: health.rails(TWO)["gpu03"]["state"] == "fail", "cut")
        done = health.play("status.yml")
        assert "RV402" in done.stdout and "gpu03" in done.stdout, done.stdout[-4000:]
        # the cut cable as the state of one node, and as the result of a command on it
        check = health.nodes[TWO].run("railyard-health check --json; echo $?", check=False)
        assert check.strip().endswith("1"), check
    finally:
        cable("repair", "node-2:3")
    health.wait(health.healthy, "repaired")


# Emulated guests transfer at 30 to 350 Mb/s, as the load of the machine allows. All ports are shaped to the lowest of
# these rates, so that their links limit them, and not the processors.
RATE = "tbf rate 30mbit burst 32k latency 400ms"
# Faults that verify names by a transfer: what makes a port slow, and the codes of which one must name it.
SLOW = {
    "slow leg": ("tbf rate 10mbit burst 32k latency 400ms", ("RV853",)),
    "delay tail": ("netem rate 30mbit delay 400ms reorder 90%", ("RV866", "RV867", "RV853")),
    "no packets pass": ("netem loss 100%", ("RV801",)),
}


def test_verify_narrows_to_the_port_and_finds_nothing_after_the_repair(health: Health) -> None:
    def verify(name: str) -> tuple[list[Row], list[Row]]:
        """Return failures and warnings. Warnings of tails of emulated guests also come from the load of the machine."""
        done = health.play("verify.yml", "-e", "verify_soft_rdma=true")
        assert done.returncode in (0, 2), done.stdout[-6000:] + done.stderr
        row: Row = json.loads((health.inventory.parent / "reports" / "verify.json").read_text())
        print(name, [(each["from"], each["to"], each["rail"], each["gbits"]) for each in row["measures"]])
        for each in row["failures"] + row["warnings"]:
            print(" ", *(each[key] for key in ("code", "node", "rail", "peer", "expected", "found")))
        return row["failures"], row["warnings"]

    def shape(name: str, words: str, netdevs: t.Iterable[str] = ("enp1s0", "enp2s0", "enp3s0", "enp4s0")) -> None:
        health.nodes[name].run("; ".join("tc qdisc replace dev %s root %s" % (netdev, words) for netdev in netdevs))

    health.wait(health.healthy, "healthy before")
    for name in NAMES:
        shape(name, RATE)
    try:
        assert verify("sound")[0] == []
        for fault, (words, codes) in SLOW.items():
            shape(TWO, words, ["enp2s0"])
            failures, warnings = verify(fault)
            shape(TWO, RATE, ["enp2s0"])
            named = [row for row in failures + warnings if row["code"] in codes and row["rail"] == "gpu02"]
            assert any(TWO in (row["node"], row["peer"]) for row in named), fault
            assert {row["rail"] for row in failures} <= {"gpu02"}, fault
        assert verify("repaired")[0] == []
    finally:
        for name in NAMES:
            health.nodes[name].run("; ".join("tc qdisc del dev enp%ds0 root" % number for number in range(1, 5)))


def test_absent_removes_the_service(health: Health) -> None:
    done = health.play("teardown.yml", "-e", "teardown_hosts=true", "-e", "teardown_consent=health", "--tags", "health")
    assert done.returncode == 0, done.stdout[-4000:]
    for node in health.nodes.values():
        assert node.run(
            "ls /etc/railyard/health.json %s; systemctl is-active railyard-health" % STATE, check=False
        ).strip() in (
            "inactive",
            "unknown",
            "",
        )
