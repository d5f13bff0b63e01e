# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories of reports as the playbooks leave them, of any size: the plan is the planner's own, and the results are
drawn by a seeded generator, the same each time.

The faults that are drawn are those that a report must show well: a leaf with a wrong MTU, a dead port, a slow node, a
node that lost its routing rules after a boot.
"""

from __future__ import annotations

import datetime
import json
import random
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import finding_report, plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs

Data = t.Dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
BEGAN = datetime.datetime(2026, 11, 21, 20, 15, tzinfo=datetime.timezone.utc)
UNIT = 32
# As many as the addresses of a rail have room for; above, the fabric has larger networks.
_MOST_UNITS = 64
_FABRIC = """\
plugin: railyard.fabric.rails
fabric:
  name: ai-east
  attachment: sriov
  provider: spiderpool
  mtu: 4200
  max_nodes: %d
  pods_per_node: 8
  reserved: {nodes: 10.1.0.0/16, pods: 10.233.64.0/18, services: 10.233.0.0/18}
  vfs: {count: 8, trust: true, spoofchk: false, link_state: auto}
addresses: {mode: prefix, supernet: 172.16.0.0/12, rail_prefix: 17, node_prefix: 28, gateway: first}
qos: {dscp: 26}
units:
  su[1:%d]: {site: ams1, nodes: 32, leaf: "su{u}-r{n:02}", leaf_port: "swp{i}"}
rails: {count: 8, name: "gpu{n:02}", mtu: 4200}
profiles:
  hgx-h100:
    speed: 400
    gpus: 8
    ports:
%s
nodes:
%s
"""


def servers(nodes: int, network: str) -> tuple[str, str]:
    """Lines of eight ports of a profile, and of nodes in units of 32 with addresses ``NETWORK.UNIT.NUMBER``."""
    port = '      gpu%02d: {netdev: rail%02d, pci: "0000:%02x:00.0", rdma: mlx5_gpu%02d, gpu: %d}'
    ports = [port % (rail, rail, 0x10 + rail, rail, rail - 1) for rail in range(1, 9)]
    node = '  gpu-su%d-[01:%02d]: {profile: hgx-h100, unit: su%d, address: "%s.%d.[1:%d]"}'
    sizes = [min(UNIT, nodes - unit * UNIT) for unit in range(-(-nodes // UNIT))]
    lines = [node % (unit, size, unit, network, unit, size) for unit, size in enumerate(sizes, 1)]
    return "\n".join(ports), "\n".join(lines)


def fabric(nodes: int) -> bytes:
    """A fabric file of so many nodes: two as in the worked example, more in units of 32."""
    if nodes == 2:
        return (ROOT / "inventories" / "sriov-roce" / "fabric.yml").read_bytes()
    units = -(-nodes // UNIT)
    text = _FABRIC % (units * UNIT, units, *servers(nodes, "10.1"))
    if units > _MOST_UNITS:
        text = text.replace("supernet: 172.16.0.0/12, rail_prefix: 17", "supernet: 100.0.0.0/8, rail_prefix: 14")
    return text.encode("utf-8")


class Sample:
    """One fabric and what its runs found. ``faults``: whether there are any."""

    def __init__(self, nodes: int, faults: bool = True, seed: int = 7) -> None:
        outcome = lint(fabric(nodes))
        assert outcome.plan is not None, [each.text() for each in outcome.errors]
        self.file = fabric(nodes)
        self.findings = outcome.findings
        self.plan: Data = outcome.plan.document()
        self.nodes = [node["name"] for node in self.plan["nodes"]]
        self.rails = [rail["name"] for rail in self.plan["rails"]]
        self.faults = faults
        self._random = random.Random(seed)

    def write(self, directory: Path, history: int = 0) -> Path:
        """All documents, and so many earlier runs."""
        (directory / "history").mkdir(parents=True, exist_ok=True)
        for number in range(history, 0, -1):
            began = BEGAN - datetime.timedelta(days=number)
            bad = self.faults and number in (1, 4)
            for made in (self.verify(began, bad, 1 - 0.004 * number), self.drift(began, False)):
                name = "%s-%s.json" % (made["kind"], began.strftime("%Y%m%dT%H%M%SZ"))
                (directory / "history" / name).write_text(json.dumps(made))
        (directory / "plan.json").write_bytes(plan_tables.as_json(self.plan))
        (directory / "findings.json").write_bytes(
            finding_report.as_json([("inventories/prod/fabric.yml", self.findings)])
        )
        (directory / "verify.json").write_text(json.dumps(self.verify(BEGAN, self.faults, 1.0)))
        (directory / "drift.json").write_text(json.dumps(self.drift(BEGAN, self.faults)))
        return directory

    # -- the documents

    def verify(self, began: datetime.datetime, faults: bool, speed: float) -> Data:
        failures = self._failures() if faults else []
        matrix = {node: dict.fromkeys(self.rails, "ok") for node in self.nodes}
        for failure in failures:
            matrix[failure["node"]][failure["rail"]] = "failed"
        dark = self.nodes[-2:] if faults and len(self.nodes) > 8 else []
        for node in dark:
            matrix[node] = dict.fromkeys(self.rails, "not checked")
        measures = self._measures(matrix, speed)
        slow = self._slow(faults)
        failures += [self._failure("RV853", slow, self.rails[4], "bandwidth", "360 Gb/s", "241 Gb/s")] if slow else []
        if slow:
            matrix[slow][self.rails[4]] = "failed"
        made = self._document("verify", began, failures, matrix)
        warning = self._failure("RV601", self.nodes[0], self.rails[0], "PFC on priority 4", "off", "on")
        made["warnings"] = [warning] if faults else []
        made["measures"] = measures
        made["counters"] = [
            {"node": node, "rail": rail, "name": name, "before": 12, "after": 12 + (41 if node == slow else 0)}
            for node in self.nodes
            for rail in self.rails
            for name in ("out_of_sequence", "rx_prio3_pause")
        ][:4096]
        return made

    def drift(self, began: datetime.datetime, faults: bool) -> Data:
        node = self.nodes[0]
        found = [
            self._failure("RV505", node, rail, "rule of rail0%d" % at, "from 172.16.%d.201" % at, "none")
            for at, rail in enumerate(self.rails[:3])
        ]
        matrix = {each: dict.fromkeys(self.rails, "ok") for each in self.nodes}
        for failure in found if faults else ():
            matrix[node][failure["rail"]] = "failed"
        made = self._document("drift", began, found if faults else [], matrix)
        if faults:
            made["boots"][node] = "b-after-a-boot"
        return made

    def _document(self, kind: str, began: datetime.datetime, failures: list[Data], matrix: Data) -> Data:
        layers = []
        for layer in LAYERS.values():
            failed = sum(failure["layer"] == layer.name for failure in failures)
            ports = len(self.nodes) * len(self.rails)
            unknown = sum(state == "not checked" for rails in matrix.values() for state in rails.values())
            layers.append(
                {
                    "name": layer.name,
                    "title": layer.title,
                    "checked": ports - unknown,
                    "failed": failed,
                    "not_checked": unknown,
                    "why_not": "the nodes do not answer" if unknown else None,
                }
            )
        return {
            "format": 1,
            "kind": kind,
            "fabric": self.plan["fabric"]["name"],
            "plan": plan_tables.digest(self.plan),
            "railyard": "0.1.0",
            "began": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": 80.0 + len(self.nodes) / 8,
            "ok": not failures,
            "asked": {"limit": [], "layers": [], "rails": [], "budget_s": None},
            "nodes": self.nodes,
            "rails": self.rails,
            "layers": layers,
            "matrix": matrix,
            "failures": failures,
            "warnings": [],
            "measures": [],
            "counters": [],
            "boots": {node: "b-%04d" % at for at, node in enumerate(self.nodes)},
            "cluster": {"server": "v1.30.1", "reachable": True},
        }

    # -- what is wrong

    def _failures(self) -> list[Data]:
        """A dead port; and of a fabric with leaves, one leaf's MTU."""
        down = self._failure("RV402", self.nodes[1], self.rails[1], "carrier of rail02", "yes", "no")
        if len(self.nodes) <= 8:
            return [down]
        leaf = [node["name"] for node in self.plan["nodes"] if node["unit"] == "su2"][:UNIT] or self.nodes[2:6]
        wrong = [self._failure("RV802", node, self.rails[2], "path to its leaf", "4200", "1500") for node in leaf]
        return [down, *(each for each in wrong if each["node"] not in self.nodes[-2:])]

    @staticmethod
    def _failure(code: str, node: str, rail: str, what: str, expected: str, found: str) -> Data:
        known = CODES[code]
        return {
            "code": code,
            "layer": known.layer,
            "node": node,
            "rail": rail,
            "rails": [rail],
            "peer": None,
            "what": what,
            "expected": expected,
            "found": found,
            "cause": known.cause,
            "remedy": known.remedy,
            "playbook": "%s --limit %s" % (known.playbook, node) if known.playbook else None,
        }

    def _slow(self, faults: bool) -> str:
        return self.nodes[4] if faults and len(self.nodes) > 8 else ""

    def _measures(self, matrix: t.Mapping[str, t.Mapping[str, str]], speed: float) -> list[Data]:
        rounds = probe_pairs.rounds(self.nodes, 8)
        pairs = [pair for each in rounds for pair in each]
        slow = self._slow(bool(self.faults) and speed == 1.0)
        measures = []
        for server, client in pairs:
            for at, rail in enumerate(self.rails):
                states = {matrix[node][rail] for node in (server, client)}
                if "not checked" in states:
                    continue
                good = states == {"ok"}
                rate = self._random.gauss(372.0 - at, 2.5) * speed
                late = self._random.gauss(1.9, 0.03)
                if slow in (server, client) and at == 4:
                    rate, late = rate * 0.65, late * 2.1
                measures.append(
                    {
                        "rail": rail,
                        "from": client,
                        "to": server,
                        "gbits": round(rate, 2) if good else None,
                        "latency_us": round(late, 3) if good else None,
                        "rtt_ms": 0.05,
                        "mtu": 4200,
                        "gpu": False,
                        "ok": good,
                    }
                )
        return measures
