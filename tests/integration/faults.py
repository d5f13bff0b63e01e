# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's guests as verify and drift read them, in seconds a fault."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY, NodeReport
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs, probe_targets
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import (
    Asked,
    Verdict,
    judge,
)
from lab import cli
from tests.integration import probing
from tests.integration.conftest import LAB, Node
from tests.integration.modules import Call, Row

# Units and profiles of a fabric file: the ports of a guest with four rails.
GUESTS = """\
units:
  su1: {nodes: 16, leaf: "leaf-{n}", leaf_port: "Ethernet{i}"}
profiles:
  guest:
    soft_rdma: rxe
    ports:
      gpu01: {netdev: enp1s0, pci: "0000:01:00.0"}
      gpu02: {netdev: enp2s0, pci: "0000:02:00.0"}
      gpu03: {netdev: enp3s0, pci: "0000:03:00.0"}
      gpu04: {netdev: enp4s0, pci: "0000:04:00.0"}
"""
SUBSET = ["system", "nics", "rdma", "gids", "gpus", "vfs", "ip", "sysctls", "duplicates", "counters", "lldp"]
STATES = ("rdma_netns_mode", "sriov_vfs", "rail_ports", "rdma_link")
T = t.TypeVar("T")
# A node's name -> what rail_info reports, and what modules in check mode would change.
Looked = t.Dict[str, t.Tuple[Row, t.Dict[str, Row]]]


class Faults:
    """Two nodes of a lab, a fabric file, and the verdict of verify."""

    def __init__(self, node: t.Callable[[str], Node], fabric: str) -> None:
        outcome = lint(fabric.encode())
        assert outcome.plan, [finding.text() for finding in outcome.findings]
        document = outcome.plan.document()
        self.fabric: Row = document["fabric"]
        self.plans: dict[str, Row] = {each["name"]: each for each in document["nodes"]}
        self.nodes = {name: node(name) for name in self.plans}
        self.pairs = [pair for each in probe_pairs.rounds(list(self.plans), 8) for pair in each]
        # seconds to listen for LLDP: it is not spoken but where a fault is heard by it
        self.listen = 0.0
        self.count = 3

    def each(self, act: t.Callable[[str], T]) -> dict[str, T]:
        """Do something for all nodes side by side."""
        with ThreadPoolExecutor(len(self.plans)) as pool:
            return dict(zip(self.plans, pool.map(act, self.plans)))

    def specs(self, name: str, check: bool) -> list[Call]:
        """The modules of ``hosts.yml``, with its options."""
        plan = self.plans[name]
        options: dict[str, Row] = {
            "rdma_netns_mode": {"mode": plan["rdma_mode"]},
            "sriov_vfs": {"ports": port_options(plan["ports"], "sriov_vfs"), "allow_recreate": not check},
            "rail_ports": {"ports": port_options(plan["ports"], "rail_ports")},
            "rdma_link": {"ports": port_options(plan["ports"], "rdma_link"), "wait_active": 0 if check else 60},
        }
        return [(module, options[module], check) for module in STATES]

    def converge(self, *names: str) -> list[Row]:
        """What ``hosts.yml`` does, for nodes with a fault; all changes."""
        done = []
        for name in names or self.plans:
            for result in self.nodes[name].modules.call(*self.specs(name, check=False)):
                assert not result.get("failed"), result
                done += result["changes"]
        return done

    def read(self, name: str) -> tuple[Row, dict[str, Row]]:
        first: Call = ("rail_info", {"subset": SUBSET, "listen": self.listen}, False)
        info, *states = self.nodes[name].modules.call(first, *self.specs(name, check=True))
        return info, dict(zip(STATES, states))

    def look(self) -> Looked:
        """What all nodes have, as ``verify.yml`` and ``drift.yml`` read it."""
        return self.each(self.read)

    def judge(self, kind: str = VERIFY, looked: Looked | None = None) -> Verdict:
        """Judge what was read, or is read now; for verify let the pairs probe each other before."""
        read = looked or self.look()
        pairs = self.pairs if kind == VERIFY else []
        found = self._probed(pairs) if pairs else {}
        reports = [
            NodeReport(
                *(name, plan, *read[name], found.get(name, {}).get("results") or []),
                refused=found.get(name, {}).get("refused") or "",
            )
            for name, plan in self.plans.items()
        ]
        return judge(kind, self.fabric, reports, Asked(list(self.plans)), pairs)

    def _probed(self, pairs: probing.Pairs) -> dict[str, Row]:
        """Return name of the node -> the results of its prober."""
        nodes = {name: probe_targets.probe_node(plan, [], None, None, []) for name, plan in self.plans.items()}
        options = {"iterations": 20, "lifetime": 180, "count": self.count, "timeout": 3}
        cross_rail = self.fabric["routing"]["cross_rail"]
        starts = probing.schedules(nodes, pairs, cross_rail, **options)

        self.each(lambda name: probing.call(self.nodes[name], starts[name]))
        return self.each(lambda name: probing.call(self.nodes[name], probing.collection(name)))


def cable(*words: str) -> None:
    """Do something to a cable of the lab."""
    assert cli.main(["cable", *words, "--name", LAB]) == 0, words
