# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Faults of nodes, with real pods on rails: ``lab/lab up --cluster`` first."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    NODE,
    POD,
    GetNode,
    Victim,
    held,
    kube,
    prepare,
    prepared,
    wait_for,
    wait_for_slots,
)
from tests.integration.lab_pods import SECONDS, Kube

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
