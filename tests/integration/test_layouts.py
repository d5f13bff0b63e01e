# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts other than one network per rail and one NIC per port, on real kernels: one network for all ports, bonds with
LACP and with active-backup, and VLANs on them.

For each layout: ``hosts.yml`` twice, verify, a reboot, the rail agent with pods, and faults that verify must name.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, VERIFY
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.integration.faults import Faults, cable
from tests.integration.layout_pods import AgentGuest
from tests.playbook import Played

pytestmark = pytest.mark.lab

TAG = "before-layouts"
ONE, TWO = "node-1", "node-2"
PROC = "/proc/sys/net/ipv4/conf"
HEAD = """
plugin: railyard.fabric.rails
fabric:
  name: layouts
  attachment: macvlan
  provider: agent
  mtu: 4200
  slots: {all_rails: 2, per_rail: 1}
"""
NODES = """
nodes:
  node-[1:2]: {profile: guest}
"""
FLAT = (
    HEAD
    + """
rails:
  gpu[01:08]: {subnet: 172.16.0.0/16, gateway: none, hosts: .0.1-.0.254, pods: .1.0-.4.255, numbering: node}
profiles:
  guest:
    soft_rdma: rxe
    ports:
"""
    + "".join(
        '      gpu%02d: {netdev: enp%ds0, pci: "0000:%02x:00.0", gpu: %d}\n' % (each, each, each, each - 1)
        for each in range(1, 9)
    )
    + NODES
)


class Fault(t.NamedTuple):
    """One fault. ``harm``, ``fix``: a shell command on ``node``, or words for ``lab cable``.

    ``fix``: what reverts it; empty where ``hosts.yml`` does. ``found``: what the failure must contain. ``also``: codes
    that may be reported too.
    """

    name: str
    code: str
    node: str
    rail: str | None
    harm: str | list[list[str]]
    fix: str | list[list[str]] = ""
    found: str = ""
    also: tuple[str, ...] = ()


class Layout:
    """The nodes of the lab with one fabric file, in one layout of the leaves."""

    def __init__(self, node: t.Callable[[str], Node], place: Path, layout: str, fabric: str) -> None:
        self.inventory = place / "inventory"
        self.inventory.mkdir()
        (self.inventory / "fabric.yml").write_text(fabric)
        (self.inventory / "group_vars").symlink_to(ROOT / "inventories" / "lab" / "group_vars")
        cable("layout", layout)
        self.faults = Faults(node, fabric)
        self.nodes = self.faults.nodes

    def play(self, name: str, *words: str) -> Played:
        env = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
        given = {"verify_report_dir": str(self.inventory.parent / "reports"), "verify_lldp_seconds": "0"}
        return playbook.play("playbooks/" + name, *words, inventory=self.inventory, given=given, env=env)

    def do(self, fault: Fault, action: str | list[list[str]]) -> None:
        if isinstance(action, str):
            self.nodes[fault.node].run(action)
        else:
            for words in action:
                cable(*words)

    def failures(self, kind: str = VERIFY) -> list[str]:
        return [each.line() for each in self.faults.judge(kind).run.failures]


@pytest.fixture(scope="module")
def lab_as_before(node: t.Callable[[str], Node]) -> t.Iterator[None]:
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    yield
    assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def prepared(node: t.Callable[[str], Node], place: Path, layout: str, fabric: str) -> t.Iterator[Layout]:
    """The nodes with a fabric file, prepared by ``hosts.yml``. At the end, the lab is as before."""
    try:
        found = Layout(node, place, layout, fabric)
        done = found.play("hosts.yml", "--skip-tags", "agent")
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        yield found
    finally:
        cable("layout", "rails")
        cable("repair")
        for name in (ONE, TWO):
            node(name).modules.close()
        assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0


@pytest.fixture(scope="module")
def flat(
    node: t.Callable[[str], Node], lab_as_before: None, tmp_path_factory: pytest.TempPathFactory
) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("flat"), "flat", FLAT)


def test_one_network_of_eight_ports_is_prepared_and_proven(flat: Layout) -> None:
    done = flat.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]
    assert flat.failures() == []
    assert flat.failures(DRIFT) == []


@pytest.fixture
def guests(request: pytest.FixtureRequest) -> t.Iterator[t.Callable[[Layout], dict[str, AgentGuest]]]:
    made: list[AgentGuest] = []

    def make(layout: Layout) -> dict[str, AgentGuest]:
        found = {name: AgentGuest(node, layout.faults.plans[name]["agent"]) for name, node in layout.nodes.items()}
        made.extend(found.values())
        return found

    yield make
    for guest in made:
        guest.end()


def check_pods(layout: Layout, guests: dict[str, AgentGuest]) -> None:
    """Attach pods on both nodes, and prove each of their interfaces by its own source and by the MAC that answers."""
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


def test_pods_have_all_rails_in_one_network(flat: Layout, guests: t.Callable[[Layout], dict[str, AgentGuest]]) -> None:
    check_pods(flat, guests(flat))
