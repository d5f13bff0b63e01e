# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent on the lab's Kubernetes nodes: planned slots, pods that ask for them, and what pods must not leave."""

from __future__ import annotations

import difflib
import json
import os
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from lab.cluster import state
from tests.integration import lab_pods
from tests.integration.conftest import LAB, ROOT, Node
from tests.integration.lab_pods import NAMES, RAILS, SECONDS, Kube, Manifest, addresses, check_interfaces
from tests.playbook import Played, play


def _dra() -> bool:
    """Whether the agent is a DRA driver and not a device plugin. The default is DRA if the cluster has it."""
    selected, running = os.environ.get("RAILYARD_DRA"), state.load(LAB)
    return selected == "1" if selected else bool(running and running.dra)


DRA = _dra()
INVENTORY = ROOT / ("inventories/lab-agent-dra" if DRA else "inventories/lab-agent")
SERVICE = "railyard-agent"
ALL_RAILS = "railyard.fabric/rails"
# The scheduler's message about a pod for which no node has a slot.
NO_SLOT = "cannot allocate all claims" if DRA else "Insufficient " + ALL_RAILS
RECORD = "/var/lib/railyard/agent/slots.json"
# The pod that a fault happens to, and its node.
POD, NODE = "victim", "node-1"
# Runs a script in the network namespace of the only pod of the node, by the process that the agent recorded. kubectl
# may wait for ever while kubelet or containerd restarts.
IN_POD = "pid=$(grep -om1 '\"pid\": [0-9]*' " + RECORD + " | cut -d' ' -f2); nsenter -t $pid -n sh -c %s"
# Runs a command on the node as soon as an attach has begun. An attach of eight rails takes seconds there.
IN_ATTACH = "until grep -q '\"attaching\"' %s 2>/dev/null; do sleep 0.1; done; %s"
GetNode = t.Callable[[str], Node]

# All of a node that pods may change. The agent writes its record with the first pod.
_WHOLE = (
    """
railyard-agent status >/dev/null
ip -o link | cut -d: -f2 | sort; ip rule; ip -6 rule; ip route show table all | sort; rdma link | sort
sha256sum /var/run/cdi/*
cat %s 2>/dev/null || printf '{\\n "format": 1,\\n "holders": []\\n}\\n'
"""
    % RECORD
)


def planned() -> dict[str, dict[str, t.Any]]:
    """Node -> its spec of the agent."""
    plan = lint((INVENTORY / "fabric.yml").read_bytes()).plan
    assert plan
    return {each["name"]: each["agent"] for each in (plan.node_vars(node) for node in plan.nodes)}


PLANNED = planned()


def slot_addresses(node: str, resource: str) -> list[list[str]]:
    """Of each slot of a resource, its addresses in rail order."""
    rails = [
        [slot["address"].partition("/")[0] for slot in rail["slots"] if slot["resource"] == resource]
        for rail in PLANNED[node]["rails"]
    ]
    return [list(each) for each in zip(*(slots for slots in rails if slots))]


def manifest(pod: str, node: str, *resources: str) -> Manifest:
    return lab_pods.manifest(pod, node, resources={"limits": dict.fromkeys(resources, 1)})


def apply(kube: Kube, *items: Manifest) -> None:
    kube("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def wait_for(what: t.Callable[[], t.Any], why: t.Callable[[], str]) -> t.Any:
    """Wait until ``what`` gives something."""
    end = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < end, why()
        time.sleep(2)
    return found


def held(node: Node) -> dict[str, str]:
    """Device -> the pod that holds it."""
    slots = node.module("rail_agent", state="gathered")["gathered"]["slots"]
    return {each["device"]: "%s/%s" % (each["namespace"], each["pod"]) for each in slots}


def whole(node: Node) -> str:
    """Links, rules, routes, RDMA links, CDI files and the agent's record of a node."""
    return node.run(_WHOLE)


def wait_until_whole(node: Node, before: str) -> None:
    """Wait until nothing of pods is left on a node."""

    def difference() -> str:
        lines = difflib.unified_diff(before.splitlines(), whole(node).splitlines(), "before", "now", n=0, lineterm="")
        return "\n".join(lines)

    wait_for(lambda: whole(node) == before, difference)


def wait_for_event(kube: Kube, pod: str, *words: str) -> None:
    """Wait until an event of a pod has all words in one message."""

    def seen() -> bool:
        items = kube.get("events", "--field-selector", "involvedObject.name=%s" % pod)["items"]
        return any(all(word in each["message"] for word in words) for each in items)

    wait_for(seen, lambda: kube("describe", "pod", pod))


def offered(kube: Kube, node: str, resource: str) -> int | None:
    """The slots of a resource that a node offers to the scheduler; None without the resource."""
    if not DRA:
        units = kube.get("node", node)["status"]["allocatable"].get(resource)
        return None if units is None else int(units)
    devices = [
        device
        for each in kube.get("resourceslices")["items"]
        if each["spec"].get("nodeName") == node
        for device in each["spec"].get("devices") or ()
        if device["attributes"]["resource"]["string"] == resource.partition("/")[2]
    ]
    return sum(not device.get("taints") for device in devices) if devices else None


def wait_for_slots(kube: Kube, node: str, resource: str) -> None:
    """Wait until a node offers all slots of a resource."""
    count = len(slot_addresses(node, resource.partition("/")[2]))
    wait_for(lambda: offered(kube, node, resource) == count, lambda: kube("describe", "node", node))


def wait_for_agent(node: Node, old: str) -> None:
    """Wait until the agent runs with another process id than before."""

    def back() -> bool:
        state = node.run("systemctl show -p MainPID -p ActiveState --value %s" % SERVICE).split()
        return "active" in state and old not in state

    wait_for(back, lambda: node.run("journalctl -n 50 -u %s" % SERVICE))


def agent_pid(node: Node) -> str:
    return node.run("systemctl show -p MainPID --value %s" % SERVICE).strip()


def interfaces(kube: Kube, pod: str) -> dict[str, tuple[int, str, str]]:
    """What identifies a pod's interfaces on rails: index, MAC and address."""
    found = {each["ifname"]: each for each in json.loads(kube.inside(pod, "ip -j link show"))}
    pairs = zip(("net%d" % rail for rail in RAILS), addresses(kube, pod))
    return {name: (found[name]["ifindex"], found[name]["address"], address) for name, address in pairs}


class Victim:
    """:data:`POD` on :data:`NODE`, which a fault happens to."""

    def __init__(self, kube: Kube, node: Node) -> None:
        self.kube, self.node = kube, node

    def leaves_nothing(self, fault: t.Callable[[Victim], None]) -> None:
        """After a fault, the pod runs on a slot of the plan, which no other pod has, and all of it leaves the node."""
        before = whole(self.node)
        try:
            fault(self)
            self.running()
            assert check_interfaces(self.kube, POD) in slot_addresses(NODE, "rails")
            wait_for(lambda: list(held(self.node).values()) == ["default/" + POD], lambda: str(held(self.node)))
        finally:
            self.delete("--wait")
        wait_until_whole(self.node, before)

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
            for each in self.node.json(IN_POD % "'ip -j address show'")
            if each["ifname"].startswith("net")
        ]


def remove_test_pods(kube: Kube) -> None:
    """Remove the pods of ``kubernetes.yml``."""
    kube("delete", "daemonset", "--all")
    wait_for(lambda: not kube.get("pods")["items"], lambda: kube("describe", "pods"))


def prepare(*words: str, check: bool = True) -> Played:
    played = play("playbooks/hosts.yml", *words, inventory=INVENTORY, timeout=SECONDS)
    assert played.returncode == 0 or not check, played.text
    return played


@pytest.fixture(scope="module")
def kube() -> Kube:
    return Kube()


@pytest.fixture(scope="module")
def prepared(kube: Kube, node: GetNode) -> None:
    """Both nodes after ``hosts.yml``, without pods of an earlier run, with all slots on offer."""
    kube("delete", "daemonset,pod", "--all", "--wait")
    prepare()
    if DRA:
        # limits need the DeviceClasses
        played = play("playbooks/kubernetes.yml", inventory=INVENTORY, timeout=SECONDS)
        assert played.returncode == 0, played.text
        remove_test_pods(kube)
    for name in NAMES.values():
        # pods are gone from the API server earlier than from the node
        node(name).until("! ip netns list | grep -q cni-")
        wait_for(lambda name=name: held(node(name)) == {}, lambda name=name: str(held(node(name))))  # type: ignore[misc]
        wait_for_slots(kube, name, ALL_RAILS)
