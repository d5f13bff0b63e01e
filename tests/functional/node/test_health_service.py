# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health service as it is packed, on this machine's kernel: faults and repairs of real links."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock, packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    health_main,
    health_run,
    health_spec,
    health_state,
)
from lab.leaf import lldp_frame
from tests.functional.node.own_namespace import LiveNode, has_kind, in_own_namespace, ip
from tests.functional.node.test_neighbours import SPEAKER
from tests.waiting import retried, wait_for

PROGRAM = Path("/run/health.pyz")
LOG = Path("/run/health.log")


def rail(number: int, **changes: t.Any) -> dict[str, t.Any]:
    row = {"rail": "gpu%02d" % number, "netdev": "rail%d" % number, "mtu": 1500, "address": "10.0.%d.1/24" % number}
    return dict(row, **changes)


class Health:
    """The service on a live node, with rails of veth pairs whose addresses are set. Findings end after 5 s."""

    def __init__(self, live: LiveNode, *rails: dict[str, t.Any]) -> None:
        self.live = live
        self.process: subprocess.Popen[bytes] | None = None
        entry = health_main.__name__[len(packed_program.PACKAGE) + 1 :]
        PROGRAM.write_bytes(packed_program.pack(packed_program.imported(entry), entry))
        self.write(*rails)
        live.at_end(self.stop)

    def write(self, *rails: dict[str, t.Any], **changes: t.Any) -> None:
        document = {"format": 1, "fabric": "ai", "node": "n1", "interval": 1, "quiet": 5, "rails": list(rails)}
        System().write_file(health_spec.FILE, json.dumps(dict(document, **changes)))

    def start(self) -> None:
        command = [sys.executable, "-I", str(PROGRAM), "run"]
        self.process = subprocess.Popen(command, stderr=LOG.open("ab"))
        self.until(lambda state: state.ready)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process:
            self.process.send_signal(number)
            assert self.process.wait() in (0, -number)
            self.process = None

    def state(self) -> health_state.HealthState | None:
        """The state that this process wrote."""
        if not os.path.exists(health_state.FILE):
            return None
        return health_state.read_state(System())

    def until(self, fits: t.Callable[[health_state.HealthState], bool]) -> health_state.HealthState:
        def look() -> health_state.HealthState | None:
            state = self.state()
            return state if state and fits(state) else None

        found = wait_for(look, lambda: "%s\n%s" % (self.state(), LOG.read_text()))
        assert found
        return found

    def until_codes(self, *codes: str, rail: int = 0) -> health_state.RailState:
        """Wait until a rail has these findings only, and return its state."""
        return self.until(lambda state: [each.code for each in state.rails[rail].findings] == list(codes)).rails[rail]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-I", str(PROGRAM), *words], capture_output=True, text=True)


def rails(live: LiveNode, *numbers: int) -> None:
    for number in numbers:
        name = live.rail(number)
        ip("link", "set", name, "up")
        ip("address", "add", "10.0.%d.1/24" % number, "dev", name)


@in_own_namespace
def test_faults_of_links_fail_the_rail_and_repairs_clear_them(live: LiveNode) -> None:
    rails(live, 1, 2)
    health = Health(live, rail(1), rail(2))
    health.start()
    state = health.until(lambda state: all(each.state == "pass" for each in state.rails))
    assert state.problems == () and state.rails[0].findings == ()
    shown = health.command("status")
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    # an unplanned port changes nothing
    live.rail(3)
    ip("link", "set", "rail3", "up")
    live.leaf("ip", "link", "set", "leaf3", "down")
    for fault, repair, code in (
        (("link", "set", "rail1", "mtu", "1400"), ("link", "set", "rail1", "mtu", "1500"), "RV404"),
        (("address", "del", "10.0.1.1/24", "dev", "rail1"), ("address", "add", "10.0.1.1/24", "dev", "rail1"), "RV501"),
    ):
        ip(*fault)
        assert health.until_codes(code).state == "fail"
        ip(*repair)
        health.until_codes()
    live.leaf("ip", "link", "set", "leaf1", "down")
    failed = health.until_codes("RV402")
    assert (failed.state, failed.findings[0].what) == ("fail", "carrier of rail1")
    shown = health.command("status")
    assert shown.returncode == 1 and "rail-link-down" in shown.stdout
    document = json.loads(health.command("status", "--json").stdout)
    assert [row["state"] for row in document["rails"]] == ["fail", "pass"]
    live.leaf("ip", "link", "set", "leaf1", "up")
    assert health.until_codes().state == "pass"
    ip("link", "set", "rail2", "down")
    health.until_codes("RV401", rail=1)
    ip("link", "set", "rail2", "up")
    health.until_codes(rail=1)
    ip("link", "del", "rail2")
    health.until_codes("RV203", rail=1)
    assert LOG.read_text().count("rail gpu01: fail: rail-link-down (RV402)") == 1, LOG.read_text()


@in_own_namespace
def test_a_flapping_link_fails_the_rail(live: LiveNode) -> None:
    rails(live, 1)
    health = Health(live, rail(1))
    health.start()
    for _flap in range(3):
        live.leaf("ip", "link", "set", "leaf1", "down")
        live.leaf("ip", "link", "set", "leaf1", "up")
    state = health.until(lambda state: "RV891" in [each.code for each in state.rails[0].findings]).rails[0]
    assert state.state == "fail" and "in 600 s" in state.findings[-1].found


@in_own_namespace
def test_lldp_shows_a_cable_in_another_leaf(live: LiveNode) -> None:
    rails(live, 1)
    health = Health(live, rail(1, leaf={"name": "leaf-1", "port": "Ethernet7"}))
    health.start()
    enter = "nsenter", "--net=/proc/%d/ns/net" % live._leaf.pid, sys.executable, "-c"

    def speak(leaf: int, port: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*enter, SPEAKER, "leaf1", lldp_frame(leaf, port).hex()])

    def end(speaker: subprocess.Popen[bytes], leaf: int, port: int) -> None:
        speaker.kill()
        speaker.wait()
        frame = bytes(lldp_frame(leaf, port))
        # the same with the time 0: the neighbour leaves the link
        assert b"\x06\x02" in frame
        at = frame.index(b"\x06\x02") + 2
        frame = frame[:at] + b"\0\0" + frame[at + 2 :]
        subprocess.run([*enter, SPEAKER.replace("while True", "for _once in (1,)"), "leaf1", frame.hex()], check=True)

    speaker = speak(2, 7)
    assert health.until_codes("RV701").findings[0].found == "leaf-2 Ethernet7"
    end(speaker, 2, 7)
    health.until_codes()
    speaker = speak(1, 8)
    health.until_codes("RV704")
    end(speaker, 1, 8)
    speaker = speak(1, 7)
    health.until_codes()
    # a neighbour is forgotten with the carrier: the next one is judged alone
    live.leaf("ip", "link", "set", "leaf1", "down")
    health.until_codes("RV402")
    speaker.kill()
    speaker.wait()
    live.leaf("ip", "link", "set", "leaf1", "up")
    speaker = speak(2, 7)
    health.until(lambda state: "RV701" in [each.code for each in state.rails[0].findings])
    speaker.kill()
    speaker.wait()


def test_planes_of_a_bond_are_reported_by_their_number() -> None:
    if not has_kind("bond"):
        pytest.skip("this kernel has no bonds")
    in_own_namespace(planes_of_a_bond)()


def planes_of_a_bond(live: LiveNode) -> None:
    ip("link", "add", "bond0", "type", "bond", "mode", "active-backup", "miimon", "100")
    for number in (1, 2):
        name = live.rail(number)
        ip("link", "set", name, "master", "bond0")
    ip("link", "set", "bond0", "up")
    functions = [{"netdev": "rail%d" % number} for number in (1, 2)]
    planes = [{"plane": number} for number in (1, 2)]
    stacked = rail(1, netdev="bond0", bond="bond0", bond_mode="active-backup", functions=functions, address=None)
    health = Health(live, dict(stacked, planes=planes))
    health.start()
    health.until_codes()
    live.leaf("ip", "link", "set", "leaf2", "down")
    state = health.until_codes("RV422")
    assert (state.state, state.degraded, state.findings[0].plane) == ("pass", True, 2)
    assert [(each.plane, each.state) for each in state.planes] == [(1, "pass"), (2, "fail")]
    live.leaf("ip", "link", "set", "leaf1", "down")
    assert health.until(lambda state: state.rails[0].state == "fail").rails[0].findings[0].code == "RV402"
    for number in (1, 2):
        live.leaf("ip", "link", "set", "leaf%d" % number, "up")
    health.until_codes()
    # the same bond without planes
    health.write(stacked)
    live.leaf("ip", "link", "set", "leaf2", "down")
    assert health.until_codes("RV414").degraded
    ip("link", "set", "rail2", "nomaster")
    health.until(lambda state: "RV413" in [each.code for each in state.rails[0].findings])


@in_own_namespace
def test_a_killed_service_continues_and_a_second_one_is_refused(live: LiveNode) -> None:
    rails(live, 1)
    health = Health(live, rail(1))
    health.start()
    refused = health.command("run")
    assert refused.returncode == 1 and "another health service runs on this node" in refused.stderr
    live.leaf("ip", "link", "set", "leaf1", "down")
    before = health.until_codes("RV402")
    health.stop(signal.SIGKILL)
    # the state stays until it is stale, and the next service goes on with it
    began = health.until(lambda state: True).began
    health.start()
    after = health.until(lambda state: state.began > began).rails[0]
    assert (after.state, after.since, after.findings[0].since) == (before.state, before.since, before.findings[0].since)
    live.leaf("ip", "link", "set", "leaf1", "up")
    health.until_codes()
    os.unlink(health_run.LOCK)
    retried(lambda: os.stat(health_run.LOCK), FileNotFoundError)
    health.stop()


@in_own_namespace
def test_a_changed_spec_is_read_and_a_damaged_one_is_a_problem(live: LiveNode) -> None:
    rails(live, 1, 2)
    health = Health(live, rail(1))
    health.start()
    health.write(rail(1), rail(2, mtu=9000))
    assert health.until(lambda state: len(state.rails) == 2)
    health.until_codes("RV404", rail=1)
    System().write_file(health_spec.FILE, "{")
    state = health.until(lambda state: bool(state.problems))
    assert "is not JSON" in state.problems[0] and len(state.rails) == 2
    health.write(rail(1))
    health.until(lambda state: not state.problems and len(state.rails) == 1)
    health.stop()
    System().write_file(health_spec.FILE, "[]")
    failed = health.command("run")
    assert failed.returncode == 1 and "Remedy: run hosts.yml --tags health" in failed.stderr


@in_own_namespace
def test_a_run_that_changes_the_node_is_not_a_fault(live: LiveNode) -> None:
    rails(live, 1)
    health = Health(live, rail(1))
    health.start()
    health.until_codes()
    with boot_lock.turn(System(), "a test", 5.0):
        live.leaf("ip", "link", "set", "leaf1", "down")
        updated = health.until(lambda state: True).updated
        state = health.until(lambda state: state.updated > updated + 2)
        assert state.rails[0].state == "pass"
    health.until_codes("RV402")
