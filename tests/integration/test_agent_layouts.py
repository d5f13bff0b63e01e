# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA between pods on bonds, on VLANs, on ipvlan, and in one network for all ports: ``lab/lab up --cluster`` first."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT
from tests.integration.faults import cable
from tests.integration.layouts import ENV, MEMBERS, NODES, ONE_NETWORK
from tests.playbook import Played, play

pytestmark = pytest.mark.lab

SECONDS = 1800
HEAD = """
plugin: railyard.fabric.rails
fabric:
  name: lab-agent
  attachment: macvlan
  provider: agent
  mtu: 4200
  pods_per_node: 8
"""
BONDS = (
    """
  routing: {cross_rail: false} # nothing routes between the networks
addresses: {mode: block, block: 32, pods: .1-.192, hosts: .201-.206}
rails:
  gpu[01:03]: {subnet: "172.16.{n+10}.0/24", gateway: none}
  stor1: {role: storage, attachment: ipvlan, subnet: 172.16.21.0/24, gateway: none}
profiles:
  guest:
    soft_rdma: rxe
    ports:
      gpu01: {bond: {name: bond0, mode: 802.3ad, members: [%s, %s]}, vlan: 100, gpu: 0}
      gpu02: {bond: {name: bond1, mode: active-backup, members: [%s, %s]}, gpu: 1}
      gpu03: {pci: "0000:05:00.0", netdev: enp5s0, vlan: 200, gpu: 2}
      stor1: {pci: "0000:06:00.0", netdev: enp6s0}
"""
    % MEMBERS
)
# Layout of the lab's leaves -> fabric file, and the verdict on it.
LAYOUTS = {
    "flat": (ONE_NETWORK, "16 of 16 ports proven"),
    "mlag": (BONDS, "6 of 6 ports and 2 of 2 storage ports proven"),
}


def run(name: str, inventory: Path, **given: str) -> Played:
    return play(name, inventory=inventory, given=given, env=ENV, timeout=SECONDS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pods_have_rdma_between_nodes(layout: str, tmp_path: Path) -> None:
    """``site.yml`` proves the rails between nodes and between pods; its second run changes nothing; teardown reverts
    all, for the next layout."""
    fabric, verdict = LAYOUTS[layout]
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "fabric.yml").write_text(HEAD + fabric + NODES)
    (inventory / "group_vars").symlink_to(ROOT / "inventories" / "lab-agent" / "group_vars")
    cable("layout", layout)
    try:
        for again in (False, True):
            done = run("site.yml", inventory)
            assert done.returncode == 0, done.stdout[-8000:] + done.stderr
            assert verdict in done.one_line, done.stdout[-8000:]
            assert not again or set(_changed(done)) == {"changed=0"}, done.stdout[-8000:]
    finally:
        done = run("playbooks/teardown.yml", inventory, teardown_hosts="true", teardown_consent="lab-agent")
        cable("layout", "rails")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr


def _changed(done: Played) -> t.Iterator[str]:
    """The number of changes of each host in the recap."""
    recap = done.stdout.rpartition("PLAY RECAP")[2]
    return (word for word in recap.split() if word.startswith("changed="))
