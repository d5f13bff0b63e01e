# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole host phase on guests whose network is managed by netplan: prepared, booted, verified, and taken back.

``lab/lab up --network netplan`` first. The plan is ``inventories/lab``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import playbook
from tests.integration import test_stacked_ports as stacked
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node

pytestmark = pytest.mark.lab

INVENTORY = "inventories/lab"
ENVIRONMENT = {"RAILYARD_LAB": LAB, "RAILYARD_LAB_DIR": str(LAB_DIR.parent)}
SECONDS = 1500
NODES = ("node-1", "node-2")
RAILS = range(1, 9)
MANAGEMENT = "enp0s30"
FILE = "/etc/netplan/60-railyard.yaml"
GENERATED = "/run/systemd/network/10-netplan-enp%ds0.network"
OTHER_BACKENDS = "ls -d /etc/systemd/network/05-railyard-*.network /etc/NetworkManager/*/railyard* 2>/dev/null || true"
GetNode = t.Callable[[str], Node]


def play(name: str, *words: str) -> playbook.Played:
    """Run a playbook with the lab's inventory. It must succeed."""
    played = playbook.play("playbooks/" + name, *words, inventory=ROOT / INVENTORY, env=ENVIRONMENT, timeout=SECONDS)
    assert played.returncode == 0, played.text[-6000:]
    return played


def changed(played: playbook.Played) -> list[int]:
    """Return the number of changed tasks of each node."""
    recap = played.one_line.partition("PLAY RECAP")[2]
    numbers = [re.search(r"%s : .*?changed=(\d+)" % name, recap) for name in NODES]
    assert all(numbers), recap
    return [int(number.group(1)) for number in numbers if number]


def check_state() -> None:
    """Compare the nodes with the plan, by other programs than the collection's."""
    command = [sys.executable, "molecule/shared/check_state.py", INVENTORY]
    done = subprocess.run(command, cwd=ROOT, env=playbook.environment(**ENVIRONMENT), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def management(node: Node) -> dict[str, str]:
    """Return what netplan configures for the connection, what the kernel has, and how often its lease was lost."""
    questions = {
        "files": "find /etc/netplan -type f ! -path %s -exec sha256sum {} + | sort" % FILE,
        "generated": "cat /run/systemd/network/*%s*" % MANAGEMENT,
        # without the index of the interface, which a boot can change
        "addresses": "ip -o address show dev %s | sed 's/^[0-9]*: //; s/valid_lft.*//'" % MANAGEMENT,
        "routes": "ip route show dev %s | sort" % MANAGEMENT,
        "lost leases": "journalctl -b -u systemd-networkd | grep -c '%s: DHCP lease lost' || true" % MANAGEMENT,
    }
    return {name: node.run(question) for name, question in questions.items()}


@pytest.fixture(scope="module")
def nodes(node: GetNode) -> list[Node]:
    """Both guests, prepared once by ``hosts.yml``. Their connection must stay as it was."""
    guests = [node(name) for name in NODES]
    for guest in guests:
        guest.run("test -e /etc/netplan/50-management.yaml && systemctl is-active systemd-networkd")
    before = [management(guest) for guest in guests]
    play("hosts.yml")
    assert [management(guest) for guest in guests] == before
    return guests


def test_rail_ports_are_configured_by_netplan_alone(nodes: list[Node]) -> None:
    for guest in nodes:
        assert guest.run("stat -c '%%a' %s" % FILE).strip() == "600"
        for rail in RAILS:
            assert GENERATED % rail in guest.run("networkctl --no-pager status enp%ds0" % rail)
        assert guest.run(OTHER_BACKENDS) == ""
    check_state()


def test_second_run_changes_nothing(nodes: list[Node]) -> None:
    assert changed(play("hosts.yml")) == [0, 0]


def test_netplan_apply_of_an_administrator_keeps_the_rails(nodes: list[Node]) -> None:
    for guest in nodes:
        guest.run("netplan apply")
        guest.until("networkctl --no-legend list | grep -c 'routable *configured' | grep -qx %d" % (len(RAILS) + 1))
    check_state()
    assert changed(play("hosts.yml", "--check")) == [0, 0]


def test_after_a_reboot_nodes_are_as_planned_and_rails_carry_traffic(nodes: list[Node]) -> None:
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(Node.reboot, nodes))
    check_state()
    assert changed(play("hosts.yml", "--check")) == [0, 0]
    play("verify.yml", "-e", "kubernetes_enabled=false")


def test_taken_back_nodes_have_no_rails_in_netplan(nodes: list[Node]) -> None:
    consent = ("-e", "teardown_hosts=true", "-e", "teardown_consent=lab", "-e", "kubernetes_enabled=false")
    before = [management(guest) for guest in nodes]
    play("teardown.yml", *consent)
    assert [management(guest) for guest in nodes] == before
    for guest in nodes:
        assert guest.run("ls %s /etc/systemd/network/10-netplan-* 2>/dev/null || true" % FILE) == ""
        assert "enp1s0" not in guest.run("netplan get")


def test_a_boot_restores_bonds_and_vlans(nodes: list[Node]) -> None:
    """On nodes whose rails were taken back."""
    configured = "networkctl --no-legend list | grep -E 'bond0|enp[123]s0' | grep -vc ' configured' | grep -qx 0"
    before = management(nodes[1])
    try:
        stacked.check_boot(nodes[1], configured)
    finally:
        stacked.clean(nodes[1])
    after = management(nodes[1])
    assert dict(after, **{"lost leases": ""}) == dict(before, **{"lost leases": ""})
    assert nodes[1].run("ls %s /etc/systemd/network/10-netplan-* 2>/dev/null || true" % FILE) == ""
