# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the lab in a layout other than one network per rail and one NIC per port, with faults and pods."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.integration.faults import Faults, cable
from tests.integration.layout_pods import AgentGuest
from tests.playbook import Played

TAG = "before-layout"
# For playbooks on the lab.
ENV = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
ONE, TWO = "node-1", "node-2"
NO_CARRIER = "grep -qx 0 /sys/class/net/%s/carrier"
# The first four ports, as members of two bonds.
MEMBERS = tuple('{pci: "0000:%02x:00.0", netdev: enp%ds0}' % (each, each) for each in range(1, 5))
CARRIERS = "for n in $(seq %d); do grep -qx 1 /sys/class/net/enp${n}s0/carrier || exit 1; done"
HEAD = """
plugin: railyard.fabric.rails
fabric:
  name: layouts
  attachment: macvlan
  provider: agent
  mtu: 4200
  slots: {all_rails: 2, per_rail: 1}
"""
# All eight ports in one network.
ONE_NETWORK = """
rails:
  gpu[01:08]: {subnet: 172.16.0.0/16, gateway: none, hosts: .0.1-.0.254, pods: .1.0-.4.255, numbering: node}
profiles:
  guest:
    soft_rdma: rxe
    ports:
""" + "".join(
    '      gpu%02d: {netdev: enp%ds0, pci: "0000:%02x:00.0", gpu: %d}\n' % (each, each, each, each - 1)
    for each in range(1, 9)
)
NODES = """
nodes:
  node-[1:2]: {profile: guest}
"""


class Fault(t.NamedTuple):
    """One fault.

    ``codes``: one of them must name it. ``harm``, ``fix``: a shell command on ``node``, or words for ``lab cable``.
    ``fix`` is empty where ``hosts.yml`` reverts it. ``found``: what the failure must contain. ``either``: any of the
    two nodes may have it. ``visible``: a shell condition that is true when the node has noticed the fault.
    """

    codes: tuple[str, ...]
    node: str
    rail: str
    harm: str | list[list[str]]
    found: str = ""
    fix: str = ""
    either: bool = False
    visible: str = "true"


class Layout:
    """The nodes of the lab with one fabric file, in one layout of the leaves."""

    def __init__(self, node: t.Callable[[str], Node], place: Path, layout: str, fabric: str, healthy: str) -> None:
        self.healthy = healthy
        self.inventory = place / "inventory"
        self.inventory.mkdir()
        (self.inventory / "fabric.yml").write_text(fabric)
        (self.inventory / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")
        cable("layout", layout)
        self.faults = Faults(node, fabric)
        self.nodes = self.faults.nodes

    def play(self, name: str, *words: str) -> Played:
        given = {"verify_report_dir": str(self.inventory.parent / "reports"), "verify_lldp_seconds": "0"}
        return playbook.play("playbooks/" + name, *words, inventory=self.inventory, given=given, env=ENV)

    def harm(self, fault: Fault) -> None:
        if isinstance(fault.harm, str):
            self.nodes[fault.node].run(fault.harm)
        else:
            for words in fault.harm:
                cable(*words)

    def name_each(self, faults: t.Mapping[str, Fault]) -> None:
        """Cause all these faults, run verify, and revert the faults as a person would."""
        for fault in faults.values():
            self.harm(fault)
        try:
            for fault in faults.values():
                self.nodes[fault.node].until(fault.visible)
            failures = self.faults.judge().run.failures
        finally:
            cable("repair")
            for fault in faults.values():
                if fault.fix:
                    self.nodes[fault.node].run(fault.fix)
        lines = [each.line() for each in failures]
        for name, fault in faults.items():
            found = [each for each in failures if each.rail == fault.rail and each.code in fault.codes]
            assert found, (name, lines)
            nodes = {each.node for each in found} | ({each.peer for each in found} if fault.either else set())
            assert fault.node in nodes, (name, lines)
            assert any(fault.found in each.line() for each in found), (name, lines)
        # rails without a fault have no failure, and verify reports no card as missing
        assert {each.rail for each in failures} == {fault.rail for fault in faults.values()}, lines
        assert "RV201" not in {each.code for each in failures}, lines
        self.faults.converge()
        self.settle()
        assert self.failures() == []

    def reboot(self) -> None:
        """Boot both nodes again, and wait until they are healthy."""
        self.faults.each(lambda name: self.nodes[name].reboot())
        self.settle()

    def settle(self) -> None:
        """Wait until all ports have carrier, and bonds have both members."""
        self.faults.each(lambda name: self.nodes[name].until(self.healthy))

    def failures(self, kind: str = VERIFY) -> list[str]:
        return [each.line() for each in self.faults.judge(kind).run.failures]


def prepared(node: t.Callable[[str], Node], place: Path, layout: str, fabric: str, healthy: str) -> t.Iterator[Layout]:
    """The nodes with a fabric file, prepared by ``hosts.yml``. The end restores the lab."""
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    try:
        found = Layout(node, place, layout, fabric, healthy)
        done = found.play("hosts.yml", "--skip-tags", "agent")
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        yield found
    finally:
        cable("layout", "rails")
        cable("repair")
        for name in (ONE, TWO):
            node(name).modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0
        assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def check_pods(layout: Layout) -> None:
    """Attach pods on both nodes, and prove each of their interfaces by its own source and by the MAC that answers."""
    with contextlib.ExitStack() as stack:
        guests = {}
        for name, node in layout.nodes.items():
            guests[name] = AgentGuest(node, layout.faults.plans[name]["agent"])
            stack.callback(guests[name].end)
        _check_pods(layout, guests)


def _check_pods(layout: Layout, guests: t.Mapping[str, AgentGuest]) -> None:
    attached = layout.faults.each(
        lambda name: guests[name].attach(**{"a" + name[-1]: "rails-0", "b" + name[-1]: "rails-1"})
    )
    for found in attached.values():
        assert not any("error" in rows for rows in found["pods"].values()), found
        assert (found["conflicts"], found["down"], found["degraded"]) == ([], {}, {})
    here, there = attached[ONE]["pods"]["a1"], attached[TWO]["pods"]["a2"]
    beside = attached[ONE]["pods"]["b1"]
    for interface, row in here.items():
        source = row["address"].partition("/")[0]
        for other in (there, beside):
            target = other[interface]["address"].partition("/")[0]
            guests[ONE].ping("a1", source, target)
            assert guests[ONE].neighbour("a1", interface, target) == other[interface]["mac"], interface
