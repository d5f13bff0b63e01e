# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Faults of the agent and of pods on rails, with real pods: ``lab/lab up --cluster`` first.

``test_agent_pods.py`` has an address that another host has, ``test_agent_nodes.py`` faults of nodes.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import installed_agent
from tests.integration.agent_lab import (
    ALL_RAILS,
    DRA,
    IN_POD,
    NO_SLOT,
    NODE,
    POD,
    RECORD,
    SERVICE,
    GetNode,
    Victim,
    agent_pid,
    held,
    kube,
    offered,
    prepare,
    prepared,
    wait_for,
    wait_for_agent,
    wait_for_event,
    wait_for_slots,
)
from tests.integration.faults import cable
from tests.integration.lab_pods import Kube

pytestmark = pytest.mark.lab


def killed_in_attach(victim: Victim) -> None:
    victim.in_attach("systemctl kill -s KILL %s" % SERVICE)


def killed_in_detach(victim: Victim) -> None:
    victim.started()
    victim.delete("--wait=false")
    victim.node.run("while ip netns list | grep -q cni-; do sleep 0.1; done; systemctl kill -s KILL %s" % SERVICE)
    wait_for(lambda: held(victim.node) == {}, lambda: str(held(victim.node)))
    wait_for_slots(victim.kube, NODE, ALL_RAILS)
    victim.started()


def killed_in_allocate(victim: Victim) -> None:
    """The kubelet waits for the answer of an agent that is killed: it refuses the pod, and the next one starts."""
    old = agent_pid(victim.node)
    victim.node.run("kill -STOP %s" % old)
    victim.start()
    wait_for(lambda: victim.kube.get("pod", POD)["spec"].get("nodeName"), lambda: victim.kube("describe", "pod", POD))
    victim.node.run("sleep 2; kill -KILL %s" % old)
    wait_for_agent(victim.node, old)


# Replaces the agent by itself with another version number, as if an earlier release was installed.
OTHER_VERSION = """
python3 - <<'END'
import zipfile
path = "/usr/local/lib/railyard/agent.pyz"
with zipfile.ZipFile(path) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
(name,) = (name for name in members if name.endswith("/_common/version.py"))
members[name] = members[name].replace(b'VERSION = "%(version)s"', b'VERSION = "0.0.1"')
members.pop(name + "c", None)
with zipfile.ZipFile(path, "w") as archive:
    for name, data in members.items():
        archive.writestr(name, data)
END
sed -i 's/%(stamp)s=.*/%(stamp)s=other/' /etc/systemd/system/%(service)s.service
systemctl daemon-reload
systemctl restart %(service)s
""" % {"version": VERSION, "stamp": installed_agent.SERVICE.stamp, "service": SERVICE}


def upgraded(victim: Victim) -> None:
    """The agent of another version gave the pod its slot."""

    def version() -> str:
        return victim.node.run("railyard-agent status | head -n 1; railyard-agent version")

    def upgrade() -> None:
        old = agent_pid(victim.node)
        prepare("--tags", "agent", "--limit", NODE)
        wait_for_agent(victim.node, old)
        assert version().count(VERSION) == 2

    victim.node.run(OTHER_VERSION)
    wait_for_slots(victim.kube, NODE, ALL_RAILS)
    assert version().count("0.0.1") == 2
    victim.unchanged(upgrade)


def deleted_by_force(victim: Victim) -> None:
    victim.started()
    victim.delete("--force", "--grace-period=0", "--wait=false")
    victim.started()


def link_down_in_attach(victim: Victim) -> None:
    """Before the agent looks at the carrier, the attach fails; after that, the pod starts."""

    def ended() -> bool:
        events = victim.kube.get("events", "--field-selector", "involvedObject.name=%s" % POD)["items"]
        return victim.kube.ready(POD) or any("has no carrier" in each["message"] for each in events)

    try:
        victim.in_attach("true")
        cable("cut", "%s:5" % NODE)
        wait_for(ended, lambda: victim.kube("describe", "pod", POD))
    finally:
        cable("repair", "%s:5" % NODE)


def disk_full(victim: Victim) -> None:
    """A record that cannot be written gives no slot."""
    place = RECORD.rpartition("/")[0]
    victim.node.run(
        "mount -t tmpfs -o size=8k,mode=0750 none %s; dd if=/dev/zero of=%s/filler bs=4k 2>/dev/null;"
        # the service has its own view of mounts
        " systemctl restart %s" % (place, place, SERVICE)
    )
    wait_for_slots(victim.kube, NODE, ALL_RAILS)
    try:
        victim.start()
        # the error names the file of slots, or with DRA the file of claims, which is written first
        wait_for_event(victim.kube, POD, place, "free space")
        assert held(victim.node) == {}
    finally:
        victim.node.run("umount %s; systemctl restart %s" % (place, SERVICE))


def agent_stopped(victim: Victim) -> None:
    """A pod that starts meanwhile waits for the agent."""
    victim.node.run("systemctl stop %s" % SERVICE)
    try:
        # the node offers no healthy slots; with DRA it has no slots at all
        wait_for(lambda: not offered(victim.kube, NODE, ALL_RAILS), lambda: victim.kube("describe", "node", NODE))
        victim.start()
        wait_for_event(victim.kube, POD, NO_SLOT)
    finally:
        victim.node.run("systemctl start %s" % SERVICE)


def namespace_kept(victim: Victim) -> None:
    """A process that is not of the pod keeps its network namespace. With a device plugin it keeps the slot too, and the
    next pod gets another one. With DRA, the end of the claim removes the interfaces from the namespace.
    """
    victim.started()
    first = held(victim.node)
    try:
        victim.node.run(IN_POD % "'setsid sleep 3600 >/dev/null 2>&1 </dev/null &'")
        victim.delete("--wait")
        victim.started()
        if DRA:
            kept = victim.node.run("nsenter -t $(pgrep -xf 'sleep 3600') -n ip -br link show")
            assert "net1" not in kept and len(held(victim.node)) == 1
        else:
            assert len(held(victim.node)) == 2 and first.items() < held(victim.node).items()
    finally:
        victim.node.run("pkill -xf 'sleep 3600'; true")


def rail_down(victim: Victim) -> None:
    def act() -> None:
        victim.node.run("ip link set enp5s0 down")
        prepare("--limit", NODE)

    victim.unchanged(act)


FAULTS = [
    killed_in_attach,
    killed_in_detach,
    killed_in_allocate,
    upgraded,
    deleted_by_force,
    link_down_in_attach,
    disk_full,
    agent_stopped,
    namespace_kept,
    rail_down,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_leaves_a_pod_on_planned_rails_and_nothing_behind(
    kube: Kube, prepared: None, node: GetNode, fault: t.Callable[[Victim], None]
) -> None:
    Victim(kube, node(NODE)).leaves_nothing(fault)
