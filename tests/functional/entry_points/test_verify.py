# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role verify as Ansible runs it, over the states of nodes: files, history, what is shown, and how a run ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_runs
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.plugin_utils import _run_history
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.playbook import ROOT, Played, environment, play
from tests.unit.fabric.verify_nodes import World

FABRIC = ROOT / "inventories" / "macvlan-roce" / "fabric.yml"
PLAY = """
- hosts: railyard_nodes
  gather_facts: false
  connection: local
  tasks:
    - railyard.fabric.rail_verify:
        part: begin
      register: __verify_run
      run_once: true
    - ansible.builtin.command:
        argv: ["{{ ansible_playbook_python }}", "{{ fill }}", "{{ __verify_run.run }}"]
      vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
      run_once: true
    - ansible.builtin.set_fact:
        __verify_run: "{{ __verify_run }}"
      delegate_to: localhost
      delegate_facts: true
      run_once: true
    - ansible.builtin.import_role: {name: railyard.fabric.verify}  # for its defaults
      when: false
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: railyard.fabric.verify
        tasks_from: judge
"""
# Writes what nodes have reported to the files of a run, as the action rail_verify does.
FILL = """
import glob, hashlib, json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
(local,) = glob.glob(here + "/local/ansible-local-*")
directory = os.path.join(local, "railyard-" + hashlib.sha256(sys.argv[1].encode()).hexdigest()[:16])
os.makedirs(directory, exist_ok=True)
for name, row in json.load(open(here + "/reports.json")).items():
    with open(os.path.join(directory, name), "w") as file:
        file.write(json.dumps(row) + chr(10))
"""


@pytest.fixture
def world() -> World:
    plan = lint(FABRIC.read_bytes()).plan
    assert plan
    return World(plan)


def judge(tmp_path: Path, world: World, *arguments: str) -> Played:
    reported: dict[str, t.Any] = {
        name + ".rows": {
            "info": {"unreachable": True, "msg": world.dark[name]} if name in world.dark else info,
            "probed": world.probes[name],
            "others": world.others.get(name, []),
            "after": {"counters": world.after[name]},
            "states": {"modules": world.states[name]},
        }
        for name, info in world.infos.items()
    }
    reported[".pairs"] = {"pairs": world.pairs, "pod_pairs": []}
    (tmp_path / "reports.json").write_text(json.dumps(reported))
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "fill.py").write_text(FILL)
    given = {"fill": str(tmp_path / "fill.py"), "verify_report_dir": str(tmp_path / "reports")}
    env = {"ANSIBLE_LOCAL_TEMP": str(tmp_path / "local")}
    return play(tmp_path / "play.yml", *arguments, inventory=FABRIC, given=given, env=env)


def test_a_sound_fabric_ends_well_and_a_sick_one_with_its_cause(tmp_path: Path, world: World) -> None:
    world.others = {"ai-10-1-16-2": [{"run": "anna@bastion (48213)", "since": "2026-11-22T10:02:05Z"}]}
    done = judge(tmp_path, world)
    assert done.returncode == 0, done.text
    text = " ".join(done.stdout.split())
    assert "8 of 16 ports proven; 8 unknown: " in text and "another run measured at the same time" in text
    assert "warning: ai-10-1-16-2: " in done.stdout and "(RV856): expected only this run" in " ".join(
        done.stdout.split()
    )
    world.others = {}
    reports = tmp_path / "reports"
    verdict = json.loads((reports / "verify.json").read_text())
    assert verdict["ok"] and verdict["kind"] == "verify" and len(verdict["plan"]) == 64
    assert (reports / "verify.junit.xml").exists() and not (reports / "history").exists()

    first, second = world.plans
    world.nic(first, "gpu03")["mtu"] = 1500
    world.dark[second] = "Failed to connect to the host via ssh"
    done = judge(tmp_path, world)
    assert done.returncode == 2
    assert "\n2. %s gpu03" % first in done.stdout and "(RV404): expected 4200, found 1500" in done.stdout
    assert "playbooks/hosts.yml --limit %s\n" % first in done.stdout
    assert "1. %s: the node does not answer (RV001): found Failed to connect" % second in done.stdout
    assert (
        "0 of 16 ports proven; 1 failed on %s; 15 unknown: %s does not answer, gpu0[1-2,4-8] (no" % (first, second)
        in done.stdout
    )
    verdict = json.loads((reports / "verify.json").read_text())
    assert [(each["code"], each["node"]) for each in verdict["failures"]] == [("RV001", second), ("RV404", first)]
    kept = os.listdir(reports / "history")
    assert len(kept) == 1 and kept[0].startswith("verify-")


def test_a_node_that_failed_in_an_earlier_play_is_not_called_down(tmp_path: Path, world: World) -> None:
    second = list(world.plans)[1]
    world.infos[second].clear()
    done = judge(tmp_path, world)
    assert done.returncode == 2 and "RV001" not in done.stdout
    headline = "16 unknown: %s failed earlier in this run, gpu0[1-8] (no working partner)" % second
    assert headline in " ".join(done.stdout.split())


def test_rails_that_nothing_has_proven_fail_the_run_unless_that_is_accepted(tmp_path: Path, world: World) -> None:
    for rows in world.probes.values():
        rows[:] = [row for row in rows if row["rail"] != "gpu03"]
    done = judge(tmp_path, world)
    assert done.returncode == 2 and "14 of 16 ports proven; 2 unknown: gpu03 (it was not probed)" in done.stdout
    lines = " ".join(done.stdout.split())
    assert "1. gpu03: no traffic proved the rail (RV870): expected traffic between nodes, found none. " in lines
    verdict = json.loads((tmp_path / "reports" / "verify.json").read_text())
    assert verdict["proof"]["gpu03"] == {"state": "not proven", "why": "it was not probed"}
    accepted = judge(tmp_path, world, "-e", "verify_unproven_allowed=true")
    assert accepted.returncode == 0 and "warning: gpu03: no traffic proved the rail (RV870)" in accepted.stdout
    # who asks for no traffic has none to miss
    assert judge(tmp_path, world, "-e", "verify_layers=link,address").returncode == 0


def test_drift_writes_its_own_and_no_proof(tmp_path: Path, world: World) -> None:
    name = next(iter(world.plans))
    world.nic(name, world.plans[name]["ports"][0]["rail"])["mtu"] = 1500
    done = judge(tmp_path, world, "-e", "verify_kind=drift")
    assert done.returncode == 2 and "1 things drifted" not in done.stdout
    assert "1 of 2 nodes as planned; 1 drifted: %s (1 difference)" % name in done.stdout
    assert sorted(os.listdir(tmp_path / "reports")) == ["drift.json", "drift.junit.xml"]
    assert json.loads((tmp_path / "reports" / "drift.json").read_text())["asked"]["skip_tags"] == []
    again = judge(tmp_path, world, "-e", "verify_kind=drift", "-e", "verify_layers=mode,address", "--skip-tags", "qos")
    assert again.returncode == 0 and "2 of 2 nodes as planned" in again.stdout
    asked = json.loads((tmp_path / "reports" / "drift.json").read_text())["asked"]
    assert (asked["layers"], asked["tags"], asked["skip_tags"]) == (["mode", "address"], [], ["qos"])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (("-e", "verify_layers=lnk"), "value of layers must be one or more of"),
        (("-e", "verify_rails=gpu99"), "verify_rails: no rail is called gpu99. Remedy: name some of gpu01,"),
        (
            ("-e", "verify_share=0"),
            "verify_share: 0.0 is not a part of the bandwidth of a port. Remedy: write a number",
        ),
        (
            ("-e", "verify_share=1.5"),
            "verify_share: 1.5 is not a part of the bandwidth of a port. Remedy: write a number",
        ),
        (
            ("-e", "verify_soak=8x"),
            "verify_soak: 8x is not a time. Remedy: write seconds, or a number with s, m, h or d",
        ),
        (
            ("-e", "verify_congestion=1"),
            "verify_congestion: 1 is not a number of clients. Remedy: write 0 for no many-to-one rounds",
        ),
    ],
)
def test_wrong_options_end_with_one_clear_line(
    tmp_path: Path, world: World, message: t.Sequence[str], expected: str
) -> None:
    done = judge(tmp_path, world, *message)
    assert done.returncode == 2 and expected in done.stdout


def test_history_keeps_the_newest(tmp_path: Path) -> None:
    for second in range(6):
        (tmp_path / "verify.json").write_text(json.dumps({"began": "2026-11-21T20:15:0%dZ" % second}))
        _run_history.keep(str(tmp_path), "verify", 3)
    assert sorted(os.listdir(tmp_path / "history")) == [
        "verify-20261121T20150%dZ.json" % number for number in (3, 4, 5)
    ]
    # files of another kind, and files without an owner, stay
    (tmp_path / "history" / "drift-20200101T000000Z.json").write_text("{}")
    (tmp_path / "history" / "verify-notes.txt").write_text("mine")
    (tmp_path / "verify.json").write_text("half a docu")
    _run_history.keep(str(tmp_path), "verify", 1)
    left = sorted(os.listdir(tmp_path / "history"))
    assert left[0] == "drift-20200101T000000Z.json" and left[-1] == "verify-notes.txt" and len(left) == 3


# -- a round of the proof ----------------------------------------------------------------------------------------------

# The task files of the roles end their plays.
ROUND = """
- &play
  hosts: railyard_nodes
  gather_facts: false
  connection: local
  vars:
    ansible_python_interpreter: "{{ python }}"
    verify_thorough: false
  tasks:
    - ansible.builtin.include_role: &read
        name: railyard.fabric.verify
        tasks_from: read
- <<: *play
  tasks:
    - ansible.builtin.include_role:
        name: railyard.fabric.proof
        tasks_from: probe
- <<: *play
  tasks:
    - ansible.builtin.set_fact:
        known: "{{ __verify_run.run }}"
    - ansible.builtin.command:
        argv: [cp, -r, "{{ local }}", "{{ answer }}"]
      run_once: true
    - ansible.builtin.include_role: *read
      vars: {awx_job_id: 12, awx_user_name: anna}
- <<: *play
  tasks:
    - ansible.builtin.copy:
        content: "{{ [hostvars['ib-1'].known, hostvars['ib-2'].known, __verify_run.run] | to_json }}"
        dest: "{{ answer }}/runs.json"
        mode: "0600"
      run_once: true
"""
NODES = ("ib-1", "ib-2")
INFINIBAND = """
plugin: railyard.fabric.rails
fabric: {name: ib, attachment: ib-sriov, provider: network-operator, mtu: 4092, vfs: {count: 2}}
rails: {count: 2, name: "gpu{n:02}", mode: none}
profiles:
  server:
    ports:
      gpu01: {netdev: ibrail01, pci: "ffff:18:00.0"}
      gpu02: {netdev: ibrail02, pci: "ffff:40:00.0"}
nodes:
  ib-[1:2]: {profile: server}
"""


@pytest.mark.long
def test_a_round_on_rails_without_addresses_asks_by_pci_function_and_meets_at_the_nodes_own(tmp_path: Path) -> None:
    """Both nodes are this machine, which has no such cards: that is reported for each rail, by both ends."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ib_write_bw", "ib_write_lat"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    (tmp_path / "fabric.yml").write_text(INFINIBAND)
    (tmp_path / "play.yml").write_text(ROUND)
    given = {"python": sys.executable, "answer": str(tmp_path / "answer"), "proof_meet": "127.0.0.9"}
    # Ansible removes its own directory in it when it ends
    local = given["local"] = str(tmp_path / "local")
    env = {"PATH": "%s:%s" % (programs, environment()["PATH"]), "USER": "ben", "ANSIBLE_LOCAL_TEMP": local}

    @in_own_namespace
    def scenario(_live: LiveNode) -> None:
        # another run tests on the node at the same time
        place = Path(probe_runs.directory("anna@bastion (48213)", "ib-1"))
        place.mkdir(parents=True)
        (place / probe_runs.TESTS).write_text("")
        row = {"run": "anna@bastion (48213)", "began": 1795514525.0, "pid": os.getpid()}
        ticks = network_namespaces.started(System(), os.getpid())
        (place / "process.json").write_text(json.dumps({**row, "ticks": ticks}))
        done = play(tmp_path / "play.yml", inventory=tmp_path / "fabric.yml", given=given, env=env)
        assert done.returncode == 0, done.text

    scenario()
    *known, of_job = json.loads((tmp_path / "answer/runs.json").read_text())
    # one name for the whole run
    assert known[0] == known[1] and re.match(r"ben@\S+ \(\d{5}\)\Z", known[0])
    assert re.match(r"job 12 of AWX, by anna \(\d{5}\)\Z", of_job)
    (spool,) = (tmp_path / "answer").glob("*/railyard-" + hashlib.sha256(known[0].encode()).hexdigest()[:16])
    rows = {name: [json.loads(line) for line in (spool / (name + ".rows")).read_text().splitlines()] for name in NODES}
    # whom it met on each node
    for name in NODES:
        assert {other["run"] for row in rows[name] for other in row.get("others", ())} == {"anna@bastion (48213)"}
    notes = {name: json.loads((spool / (name + ".node")).read_text()) for name in NODES}
    assert {each["meet"] for each in notes.values()} == {"127.0.0.9"}
    probed = [each for row in rows["ib-1"] for each in row.get("probed", ())]
    assert [(each["rail"], each["peer"], each["reach"]) for each in probed] == [
        ("gpu01", "ib-2", None),
        ("gpu02", "ib-2", None),
    ]
    assert {each["error"] for each in probed} == {"the other side has no server: there is no RDMA device of the port"}
