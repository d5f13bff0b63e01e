# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Faults of nodes and of the controller, with real pods on rails: ``lab/lab up --cluster`` first."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import typing as t

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    INVENTORY,
    NODE,
    POD,
    GetNode,
    Victim,
    held,
    kube,
    prepare,
    prepared,
    remove_test_pods,
    slot_addresses,
    wait_for,
    wait_for_slots,
)
from tests.integration.conftest import LAB
from tests.integration.lab_pods import NAMES, SECONDS, Kube, check_interfaces
from tests.playbook import PROGRAMS, ROOT, environment, play, words_of

pytestmark = pytest.mark.lab


def kubelet_stopped(victim: Victim) -> None:
    """A pod that is deleted meanwhile holds its slot until its end."""
    victim.started()
    victim.node.run("systemctl stop kubelet")
    try:
        victim.delete("--wait=false")
        assert list(held(victim.node).values()) == ["default/" + POD]
    finally:
        victim.node.run("systemctl start kubelet")
    victim.kube("wait", "pod", POD, "--for=delete", "--timeout=%ds" % SECONDS)
    wait_for_slots(victim.kube, NODE, ALL_RAILS)
    victim.started()


def containerd_restarted(victim: Victim) -> None:
    """systemd restarts the kubelet with containerd. It knows its pods some seconds after it answers."""

    def reachable() -> bool:
        try:
            return victim.kube.inside(POD, "echo yes", 20) == "yes\n"
        except (AssertionError, subprocess.TimeoutExpired):
            return False

    victim.unchanged(lambda: victim.node.run("systemctl restart containerd", timeout=SECONDS))
    wait_for(reachable, lambda: victim.kube("describe", "pod", POD))


def drained_for_a_reboot(victim: Victim) -> None:
    """A port that has another name gets its own at the next boot while a pod uses it."""
    consent = ("-e", "reboot_drain=true", "-e", "reboot_allowed=true", "--limit", NODE)
    victim.started()
    boot = victim.node.boot_id()
    victim.node.run("ip link set enp5s0 down; ip link set enp5s0 name other; ip link set other up")
    refused = prepare(*consent, check=False).one_line
    assert "gpu05: other becomes enp5s0 at the next boot" in refused
    assert "default/%s" % POD in refused and "reboot_drain_unmanaged=true" in refused
    assert victim.node.boot_id() == boot and victim.kube.ready(POD)
    prepare(*consent, "-e", "reboot_drain_unmanaged=true")
    victim.node.forget()
    assert victim.node.boot_id() != boot
    assert held(victim.node) == {}
    assert not victim.kube.get("node", NODE)["spec"].get("unschedulable")
    wait_for_slots(victim.kube, NODE, ALL_RAILS)
    victim.started()


FAULTS = [kubelet_stopped, containerd_restarted, drained_for_a_reboot]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_a_node_leaves_a_pod_on_planned_rails_and_nothing_behind(
    kube: Kube, prepared: None, node: GetNode, fault: t.Callable[[Victim], None]
) -> None:
    Victim(kube, node(NODE)).leaves_nothing(fault)


# site.yml is killed when it begins one of these tasks.
TASKS = [
    "Prepare the node",
    "railyard.fabric.rail_networks : Do it",
    "railyard.fabric.proof : Probe and serve every rail",
]
# Changes that hosts.yml corrects without a pod losing a rail.
SPOIL = """
printf x >>/usr/local/lib/railyard/agent.pyz
rm -f /etc/systemd/network/*railyard*
ip rule del priority 10003 || true
"""


def kill_in(task: str) -> None:
    """Kill all processes of a ``site.yml`` some seconds after it has begun a task."""
    run = subprocess.Popen(
        [PROGRAMS / "ansible-playbook", *words_of("site.yml", inventory=INVENTORY)],
        cwd=ROOT,
        env=environment(RAILYARD_LAB=LAB),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert run.stdout
    try:
        seen = []
        for line in run.stdout:
            seen.append(line)
            if line.startswith("TASK [%s" % task):
                time.sleep(5)
                break
        assert run.poll() is None, "".join(seen)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def test_no_pod_loses_a_rail_when_site_yml_is_killed(kube: Kube, prepared: None, node: GetNode) -> None:
    victim = Victim(kube, node(NODE))

    def killed() -> None:
        for task in TASKS:
            victim.node.run(SPOIL)
            kill_in(task)
            assert list(held(victim.node).values()).count("default/" + POD) == 1, task
        played = play("site.yml", inventory=INVENTORY, timeout=SECONDS)
        assert played.returncode == 0, played.text
        assert prepare().text.count("changed=0") == len(NAMES)

    try:
        victim.unchanged(killed)
        assert check_interfaces(kube, POD) in slot_addresses(NODE, "rails")
    finally:
        victim.delete("--wait")
        remove_test_pods(kube)
