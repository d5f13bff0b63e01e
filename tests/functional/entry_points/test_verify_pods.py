# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role verify as Ansible runs it over pods of the kernel's own: found, read, probed in rounds, and judged.

Two nodes of a plan are this machine twice, each with its pod; the pods that an API server would list are given.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_runs
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.functional.node.test_pods import UIDS, ground, leave, pod
from tests.playbook import Played, play
from tests.unit.fabric.verify_nodes import World

NODES = ("ai-1", "ai-2")
FABRIC = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: macvlan, provider: cni, mtu: 4200, nccl: {ucx: true, version: "2.30.5"}}
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, mode: block, block: 16, pods: .1-.192, hosts: .201-.253}
profiles:
  server: {soft_rdma: siw, ports: {gpu01: {netdev: ens1, pci: "0000:01:00.0"}}}
units:
  su1: {nodes: 32, leaf: leaf, leaf_port: "swp{i}"}
nodes:
  ai-[1:2]: {profile: server, unit: su1}
"""
PLAY = """
- &play
  hosts: railyard_nodes
  gather_facts: false
  connection: local
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    verify_kubernetes: true
    preflight_control_node_allowed: true
  roles: []
- <<: *play
  tasks:
    - ansible.builtin.import_role: {name: railyard.fabric.verify, tasks_from: read}
- <<: *play
  tasks:
    - ansible.builtin.import_role: {name: railyard.fabric.proof, tasks_from: probe}
- <<: *play
  tasks:
    - ansible.builtin.import_role:
        name: railyard.fabric.verify
        tasks_from: judge
      run_once: true
"""


class Site:
    """The plan, the pods that an API server would list, and a way to run the role over them."""

    def __init__(self) -> None:
        self.place = Path("/run/site")
        self.place.mkdir()
        made = lint(FABRIC.encode()).plan
        assert made
        self.world = World(made)
        assert self.world.cluster is not None
        self.workload = dict(self.world.cluster["pods"])
        for row, uid in zip(self.workload["pods"], UIDS):
            row["uid"] = uid
        self.workload["running"] = {row["node"]: [row["uid"]] for row in self.workload["pods"]}
        (self.place / "fabric.yml").write_text(FABRIC)
        (self.place / "play.yml").write_text(PLAY)
        files = [settings["nccl"] for settings in self.workload["settings"]]
        self.pod_file = "".join("%s=%s\n" % each for each in files[0].items())

    def prepare(self) -> str:
        """What hosts.yml does for NCCL, on the one node that both are; what Ansible counts of it."""
        book = {"hosts": NODES[0], "gather_facts": False, "connection": "local"}
        book["vars"] = {"ansible_python_interpreter": sys.executable, "preflight_control_node_allowed": True}
        book["tasks"] = [{"railyard.fabric.rail_host": {"packages": {}}, "tags": ["nccl"]}]
        (self.place / "prepare.yml").write_text(yaml.safe_dump([book]))
        done = play(self.place / "prepare.yml", "--tags", "nccl", inventory=self.place / "fabric.yml")
        assert done.returncode == 0, done.text
        return next(line for line in done.stdout.splitlines() if line.startswith(NODES[0] + " "))

    def _play(self, name: str, **given: t.Any) -> Played:
        # verify also runs the layers of hosts.yml in check mode: only nccl writes a file that pods have too
        others = ",".join(layer for layer in layer_modules.LAYERS if layer != "nccl")
        return play(self.place / name, "--skip-tags", others, inventory=self.place / "fabric.yml", given=given)

    def verdict(self) -> tuple[int, dict[str, t.Any], str]:
        """Exit status, verdict, and what was shown."""
        skipped = {"skipped": True}
        given = {
            "verify_report_dir": str(self.place / "reports"),
            "verify_layers": "pods,nccl",
            "__verify_workload": self.workload,
            "__verify_ready": skipped,
            "__verify_objects": skipped,
        }
        done = self._play("play.yml", **given)
        assert (self.place / "reports/verify.json").exists(), done.text
        return done.returncode, json.loads((self.place / "reports/verify.json").read_text()), done.text


def inside(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", "--net=/proc/%d/ns/net" % pid, *words], check=True, capture_output=True)


@in_own_namespace
def test_pods_are_read_probed_and_judged(live: LiveNode) -> None:
    ground(live)
    pids = [pod(live, UIDS[0], "172.16.11.1", UCX_NET_DEVICES="siw_gpu01:1")]
    try:
        pids.append(pod(live, UIDS[1], "172.16.11.17", UCX_NET_DEVICES="siw_gpu01:1"))
        site = Site()
        for pid in pids:
            enter = ["nsenter", "--mount=/proc/%d/ns/mnt" % pid, "tee", "/etc/nccl.conf"]
            subprocess.run(enter, input=site.pod_file, check=True, capture_output=True, text=True)
        assert "changed=1" in site.prepare() and "changed=0" in site.prepare()
        file = Path("/etc/nccl.conf")
        written = file.read_text()
        assert Path("/etc/ucx/ucx.conf").read_text().count("UCX_NET_DEVICES=siw_gpu01:1") == 1
        rc, verdict, shown = site.verdict()
        assert rc == 0 and verdict["failures"] == [], shown
        assert [(each["name"], each["checked"], each["why_not"]) for each in verdict["layers"]] == [
            ("node", 2, None),
            ("pods", 2, None),
            ("nccl", 2, None),
        ]
        # the probers of both nodes have removed their files
        assert not Path(probe_runs.RUNS_DIR).exists() or os.listdir(probe_runs.RUNS_DIR) == []

        # a rule is gone in one pod, and a user has edited the node's file
        inside(pids[1], "ip", "rule", "del", "priority", "10001")
        file.write_text("NCCL_IB_HCA=mlx5\n")
        rc, verdict, shown = site.verdict()
        failures = {(each["code"], each["node"], each["rail"]) for each in verdict["failures"]}
        assert rc == 2 and failures == {("RV924", "ai-2", "gpu01"), ("RV950", "ai-1", None), ("RV950", "ai-2", None)}
        step = (
            "1. ai-2 gpu01: a rule or route of the pod is missing (RV924): expected table 101 at 10001, found no rule. "
        )
        assert step in shown
        (what,) = (each["what"] for each in verdict["failures"] if each["code"] == "RV924")
        assert what == "net1 of pod default/ai-rails-2: rule from 172.16.11.17"

        # what lies between has a smaller MTU: both pods are as planned, and full packets do not pass
        inside(pids[1], "ip", "rule", "add", "priority", "10001", "from", "172.16.11.17", "lookup", "101")
        file.write_text(written)
        subprocess.run(["ip", "link", "set", "pod%d" % pids[0], "mtu", "1500"], check=True)
        rc, verdict, shown = site.verdict()
        (failure,) = verdict["failures"]
        assert (rc, failure["code"], failure["rail"], failure["found"]) == (2, "RV931", "gpu01", "1500 bytes pass"), (
            shown
        )
    finally:
        leave(live)
