# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Faults of nodes, the agent and pods on rails, with real pods: ``lab/lab up --cluster`` first.

After each fault the pod runs on a slot of the plan, no slot has two pods, and with the pod all of it leaves the node.
``test_agent_pods.py`` has a reboot of a node with pods, and an address that a stranger has.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    INVENTORY,
    RECORD,
    SERVICE,
    GetNode,
    agent_pid,
    apply,
    held,
    kube,
    manifest,
    prepare,
    prepared,
    slot_addresses,
    wait_for,
    wait_for_agent,
    wait_for_event,
    wait_for_slots,
    wait_until_whole,
    whole,
)
from tests.integration.conftest import Node
from tests.integration.faults import cable
from tests.integration.lab_pods import SECONDS, Kube, check_interfaces
from tests.playbook import play

pytestmark = pytest.mark.lab

POD, NODE = "victim", "node-1"
# Runs a script in the network namespace of the only pod of the node, by the process that the agent recorded. kubectl
# may wait for ever while kubelet or containerd restarts.
IN_POD = "pid=$(grep -om1 '\"pid\": [0-9]*' " + RECORD + " | cut -d' ' -f2); nsenter -t $pid -n sh -c %s"
# Runs a command on the node as soon as an attach has begun. An attach of eight rails takes seconds there.
IN_ATTACH = "until grep -q '\"attaching\"' %s 2>/dev/null; do sleep 0.1; done; %s"


class Lab:
    """The pod that a fault happens to, and its node."""

    def __init__(self, kube: Kube, node: Node) -> None:
        self.kube, self.node = kube, node

    def start(self) -> None:
        apply(self.kube, manifest(POD, NODE, ALL_RAILS))

    def started(self) -> None:
        self.start()
        self.running()

    def running(self) -> None:
        """Wait for the pod as its controller does: one that the kubelet refuses, because the agent has not registered
        with it again yet, is replaced.
        """

        def ended() -> t.Any:
            status = self.kube.get("pod", POD)["status"]
            return status["phase"] == "Failed" and status or self.kube.ready(POD)

        while True:
            found = wait_for(ended, lambda: self.kube("describe", "pod", POD))
            if found is True:
                return
            assert found["reason"] == "UnexpectedAdmissionError", found
            assert held(self.node) == {}
            self.delete("--wait")
            wait_for_slots(self.kube, NODE, ALL_RAILS)
            self.start()

    def in_attach(self, command: str) -> None:
        """Start the pod, and run a command in mid-attach."""
        waiting = self.node.process("sh -c %s" % json.dumps(IN_ATTACH % (RECORD, command)))
        try:
            self.start()
            assert waiting.wait(SECONDS) == 0
        finally:
            waiting.kill()

    def kill(self) -> None:
        old = agent_pid(self.node)
        self.node.run("systemctl kill -s KILL %s" % SERVICE)
        wait_for_agent(self.node, old)

    def delete(self, *words: str) -> None:
        self.kube("delete", "pod", POD, "--ignore-not-found", *words)

    def unchanged(self, act: t.Callable[[], t.Any]) -> None:
        """What does not touch a pod that runs."""
        self.started()
        before = self.interfaces()
        act()
        assert self.interfaces() == before

    def interfaces(self) -> t.Any:
        """What identifies the pod's interfaces on rails: name, index, MAC and addresses."""
        return [
            (each["ifname"], each["ifindex"], each["address"], [row["local"] for row in each["addr_info"]])
            for each in self.node.json(IN_POD % "'ip -j -4 address show'")
            if each["ifname"].startswith("net")
        ]


def killed_in_attach(lab: Lab) -> None:
    lab.in_attach("systemctl kill -s KILL %s" % SERVICE)


def killed_in_detach(lab: Lab) -> None:
    lab.started()
    lab.delete("--wait=false")
    lab.node.run("while ip netns list | grep -q cni-; do sleep 0.1; done; systemctl kill -s KILL %s" % SERVICE)
    wait_for(lambda: held(lab.node) == {}, lambda: str(held(lab.node)))
    wait_for_slots(lab.kube, NODE, ALL_RAILS)
    lab.started()


def killed_in_allocate(lab: Lab) -> None:
    """The kubelet waits for the answer of an agent that is killed: it refuses the pod, and the next one starts."""
    old = agent_pid(lab.node)
    lab.node.run("kill -STOP %s" % old)
    lab.start()
    wait_for(lambda: lab.kube.get("pod", POD)["spec"].get("nodeName"), lambda: lab.kube("describe", "pod", POD))
    lab.node.run("sleep 2; kill -KILL %s" % old)
    wait_for_agent(lab.node, old)


def upgraded(lab: Lab) -> None:
    def upgrade() -> None:
        old = agent_pid(lab.node)
        # another program than this release's
        lab.node.run("printf x >>/usr/local/lib/railyard/agent.pyz")
        prepare("--tags", "agent", "--limit", NODE)
        wait_for_agent(lab.node, old)

    lab.unchanged(upgrade)


def kubelet_stopped(lab: Lab) -> None:
    """A pod that is deleted meanwhile holds its slot until its end."""
    lab.started()
    lab.node.run("systemctl stop kubelet")
    try:
        lab.delete("--wait=false")
        assert list(held(lab.node).values()) == ["default/" + POD]
    finally:
        lab.node.run("systemctl start kubelet")
    lab.kube("wait", "pod", POD, "--for=delete", "--timeout=%ds" % SECONDS)
    wait_for_slots(lab.kube, NODE, ALL_RAILS)
    lab.started()


def containerd_restarted(lab: Lab) -> None:
    lab.unchanged(lambda: lab.node.run("systemctl restart containerd", timeout=SECONDS))


def deleted_by_force(lab: Lab) -> None:
    lab.started()
    lab.delete("--force", "--grace-period=0", "--wait=false")
    lab.started()


def link_down_in_attach(lab: Lab) -> None:
    """Before the agent looks at the carrier, the attach fails; after that, the pod starts."""

    def ended() -> bool:
        events = lab.kube.get("events", "--field-selector", "involvedObject.name=%s" % POD)["items"]
        return lab.kube.ready(POD) or any("has no carrier" in each["message"] for each in events)

    try:
        lab.in_attach("true")
        cable("cut", "%s:5" % NODE)
        wait_for(ended, lambda: lab.kube("describe", "pod", POD))
    finally:
        cable("repair", "%s:5" % NODE)


def disk_full(lab: Lab) -> None:
    """A record that cannot be written gives no slot."""
    place = RECORD.rpartition("/")[0]
    lab.node.run(
        "mount -t tmpfs -o size=8k,mode=0750 none %s; dd if=/dev/zero of=%s/filler bs=4k 2>/dev/null;"
        # the service has its own view of mounts
        " systemctl restart %s" % (place, place, SERVICE)
    )
    wait_for_slots(lab.kube, NODE, ALL_RAILS)
    try:
        lab.start()
        wait_for_event(lab.kube, POD, RECORD, "free space")
        assert held(lab.node) == {}
    finally:
        lab.node.run("umount %s; systemctl restart %s" % (place, SERVICE))


def agent_stopped(lab: Lab) -> None:
    """A pod that starts meanwhile waits for the agent."""
    lab.node.run("systemctl stop %s" % SERVICE)
    try:
        wait_for(
            lambda: lab.kube.get("node", NODE)["status"]["allocatable"].get(ALL_RAILS) == "0",
            lambda: lab.kube("describe", "node", NODE),
        )
        lab.start()
        wait_for_event(lab.kube, POD, "Insufficient " + ALL_RAILS)
    finally:
        lab.node.run("systemctl start %s" % SERVICE)


def namespace_kept(lab: Lab) -> None:
    """A process that is not of the pod keeps its network namespace, and so its slot: the next pod gets another one."""
    lab.started()
    first = held(lab.node)
    try:
        lab.node.run(IN_POD % "'setsid sleep 3600 >/dev/null 2>&1 </dev/null &'")
        lab.delete("--wait")
        lab.started()
        assert len(held(lab.node)) == 2 and first.items() < held(lab.node).items()
    finally:
        lab.node.run("pkill -xf 'sleep 3600'; true")


def rail_down(lab: Lab) -> None:
    def act() -> None:
        lab.node.run("ip link set enp5s0 down")
        prepare("--limit", NODE)

    lab.unchanged(act)


FAULTS = [
    killed_in_attach,
    killed_in_detach,
    killed_in_allocate,
    upgraded,
    kubelet_stopped,
    containerd_restarted,
    deleted_by_force,
    link_down_in_attach,
    disk_full,
    agent_stopped,
    namespace_kept,
    rail_down,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_leaves_a_pod_on_planned_rails_and_nothing_behind(
    kube: Kube, prepared: None, node: GetNode, fault: t.Callable[[Lab], None]
) -> None:
    lab = Lab(kube, node(NODE))
    before = whole(lab.node)
    try:
        fault(lab)
        lab.running()
        assert check_interfaces(kube, POD) in slot_addresses(NODE, "rails")
        wait_for(lambda: list(held(lab.node).values()) == ["default/" + POD], lambda: str(held(lab.node)))
    finally:
        lab.delete("--wait")
    wait_until_whole(lab.node, before)


# Script in a pod -> code and cause of verify's failure. Each is on a rail of its own.
CHANGED = [
    ("ip rule del from %(address)s", "RV924", "deleted in the pod"),
    ("ip link set net%(rail)d down", "RV920", "set down in the pod"),
    (
        "ip address del %(address)s/24 dev net%(rail)d; ip address add 172.16.%(net)d.99/24 dev net%(rail)d",
        *("RV922", "changed in the pod"),
    ),
    ("ip route flush table 10%(rail)d", "RV924", "deleted in the pod"),
    ("ip link set net%(rail)d mtu 1500", "RV921", "changed in the pod"),
    ("ip link delete net%(rail)d", "RV920", "removed afterwards"),
    ("rdma link delete $(rdma link | grep -o rxe_[0-9a-f]*-net%(rail)d)", "RV925", "deleted"),
]


def verify(place: Path, layers: str) -> dict[str, t.Any]:
    """The verdict of ``verify.yml``."""
    given = {"verify_layers": layers, "verify_report_dir": str(place)}
    played = play("playbooks/verify.yml", inventory=INVENTORY, given=given, timeout=SECONDS)
    assert (place / "verify.json").exists(), played.text
    verdict: dict[str, t.Any] = json.loads((place / "verify.json").read_text())
    return verdict


def test_verify_names_what_was_changed_in_a_pod(kube: Kube, prepared: None, node: GetNode, tmp_path: Path) -> None:
    played = play("playbooks/kubernetes.yml", inventory=INVENTORY, timeout=SECONDS)
    assert played.returncode == 0, played.text
    try:
        verdict = verify(tmp_path, "kubernetes,pods")
        assert verdict["failures"] == []
        (row,) = [each for each in kube.get("pods")["items"] if each["spec"]["nodeName"] == NODE]
        pod = row["metadata"]["name"]
        assert "default/" + pod in verdict["slots"][NODE].values()
        (own,) = [row for row in slot_addresses(NODE, "rails") if row == check_interfaces(kube, pod)]
        # the test pod has no rights over its network, so the changes are the node's
        for rail, (script, _code, _cause) in enumerate(CHANGED, 1):
            values = {"rail": rail, "address": own[rail - 1], "net": 10 + rail}
            node(NODE).run(IN_POD % ("'%s'" % (script % values)))
        verdict = verify(tmp_path, "pods")
        found = {each["rail"]: (each["code"], each["cause"]) for each in verdict["failures"]}
        wanted = {"gpu%02d" % rail: code for rail, (_script, code, _cause) in enumerate(CHANGED, 1)}
        assert {rail: code for rail, (code, _cause) in found.items()} == wanted, verdict["failures"]
        assert all(cause in found["gpu%02d" % rail][1] for rail, (_script, _code, cause) in enumerate(CHANGED, 1))
        # all other rails carry traffic from pod to pod
        carried = {rail for rail, state in verdict["matrix"][NODE].items() if state == "ok"}
        assert carried == {"gpu%02d" % rail for rail in range(len(CHANGED) + 1, 9)}
        node(NODE).run("systemctl stop %s" % SERVICE)
        wait_for(
            lambda: kube.get("node", NODE)["status"]["allocatable"].get(ALL_RAILS) == "0",
            lambda: kube("describe", "node", NODE),
        )
        (failure,) = verify(tmp_path, "kubernetes")["failures"]
        assert (failure["code"], failure["node"], failure["found"]) == ("RV005", NODE, "inactive")
    finally:
        node(NODE).run("systemctl start %s" % SERVICE)
        kube("delete", "daemonset", "--all", "--wait")
        kube("wait", "pod", "--all", "--for=delete", "--timeout=%ds" % SECONDS)
