# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""``site.yml`` that is killed at random points, with real pods on rails: ``lab/lab up --cluster`` first.

``RAILYARD_INTERRUPTIONS`` is the number of points (10).
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.integration.agent_lab import (
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
)
from tests.integration.conftest import LAB
from tests.integration.lab_pods import NAMES, SECONDS, Kube, check_interfaces
from tests.playbook import kill, play, start

pytestmark = pytest.mark.lab

INTERRUPTIONS = int(os.environ.get("RAILYARD_INTERRUPTIONS", "10"))
TASK = "TASK ["
# Differences that hosts.yml corrects without a pod losing a rail.
SPOIL = """
printf x >>/usr/local/lib/railyard/agent.pyz
rm -f /etc/systemd/network/*railyard*
ip rule del priority 10003 || true
"""


def kill_site(task: int, seconds: float) -> str:
    """Run ``site.yml``, and kill all its processes in or after the task with this number, from 0.

    :param seconds: between the start of the task and the kill.
    :return: the name of the task.
    """
    run = start("site.yml", INVENTORY, RAILYARD_LAB=LAB)
    assert run.stdout
    begun: list[str] = []
    try:
        for line in run.stdout:
            if line.startswith(TASK):
                begun.append(line.strip(" *\n"))
            if len(begun) > task:
                time.sleep(seconds)
                break
        return begun[-1]
    finally:
        kill(run)


def test_no_pod_loses_a_rail_when_site_yml_is_killed(kube: Kube, prepared: None, node: GetNode) -> None:
    victim = Victim(kube, node(NODE))
    whole_run = play("site.yml", inventory=INVENTORY, timeout=SECONDS)
    assert whole_run.returncode == 0, whole_run.text
    tasks = sum(line.startswith(TASK) for line in whole_run.text.splitlines())

    def killed() -> None:
        for _number in range(INTERRUPTIONS):
            point = (random.randrange(tasks), random.uniform(0, 8))
            victim.node.run(SPOIL)
            task = kill_site(*point)
            print("killed %.1f s after the begin of %s" % (point[1], task))
            assert list(held(victim.node).values()).count("default/" + POD) == 1, (point, task)
        converged = play("site.yml", inventory=INVENTORY, timeout=SECONDS)
        assert converged.returncode == 0, converged.text
        assert prepare().text.count("changed=0") == len(NAMES)

    try:
        victim.unchanged(killed)
        assert check_interfaces(kube, POD) in slot_addresses(NODE, "rails")
    finally:
        victim.delete("--wait")
        remove_test_pods(kube)
