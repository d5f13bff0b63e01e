# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""Pods that get their rails from the rail agent by one line, a limit: ``lab/lab up --cluster`` first.

Each node has a pod with ``railyard.fabric/rails: 1``; ``hosts.yml`` prepared the nodes for ``inventories/lab-agent``.
"""

from __future__ import annotations

import typing as t

import pytest

from tests.integration.agent_lab import (
    ALL_RAILS,
    INVENTORY,
    NO_SLOT,
    PLANNED,
    SERVICE,
    GetNode,
    agent_pid,
    apply,
    held,
    interfaces,
    kube,
    manifest,
    offered,
    prepare,
    prepared,
    slot_addresses,
    wait_for,
    wait_for_agent,
    wait_for_event,
    wait_for_slots,
)
from tests.integration.lab_pods import (
    NAMES,
    SECONDS,
    Kube,
    addresses,
    check_interfaces,
    check_ping,
    check_rdma,
    links,
)
from tests.playbook import play

pytestmark = pytest.mark.lab

Addresses = t.Dict[str, t.List[str]]


@pytest.fixture(scope="module")
def pods(kube: Kube, prepared: None) -> t.Iterator[Addresses]:
    """Pod -> its addresses in rail order."""
    apply(kube, *(manifest(pod, node, ALL_RAILS) for pod, node in NAMES.items()))
    kube.wait(NAMES)
    yield {pod: addresses(kube, pod) for pod in NAMES}
    kube("delete", "pod", *NAMES, "--wait", "--ignore-not-found")


@pytest.mark.parametrize("pod", NAMES)
def test_a_pod_with_the_limit_has_every_rail_as_planned(kube: Kube, pods: Addresses, pod: str) -> None:
    # the lowest slot, on all rails
    assert check_interfaces(kube, pod) == slot_addresses(NAMES[pod], "rails")[0]


def test_the_container_knows_its_rails(kube: Kube, pods: Addresses) -> None:
    names = [rail["rail"] for rail in PLANNED["node-1"]["rails"]]
    assert kube.inside("one", "echo $RAILYARD_RAILS").strip() == ",".join(names)


def test_full_packets_and_rdma_pass_on_every_rail_between_pods_of_two_nodes(kube: Kube, pods: Addresses) -> None:
    check_ping(kube, "one", pods["two"])
    print("MB/s per rail:", check_rdma(kube, ("two", pods["two"]), ("one", pods["one"])))


def test_second_run_of_hosts_changes_nothing_under_running_pods(kube: Kube, pods: Addresses) -> None:
    before = interfaces(kube, "one")
    assert prepare().text.count("changed=0") == len(NAMES)
    assert interfaces(kube, "one") == before


def test_a_restarted_container_keeps_its_interfaces(kube: Kube, pods: Addresses) -> None:
    before, restarts = interfaces(kube, "one"), kube.restarts("one")
    # the container's first process; the exec ends with it
    kube.start("exec", "one", "--", "sh", "-c", "kill 1").communicate(timeout=SECONDS)
    kube.wait(["one"], restarts=restarts + 1)
    assert interfaces(kube, "one") == before
    assert check_interfaces(kube, "one") == pods["one"]


@pytest.mark.parametrize("end", ["systemctl restart %s" % SERVICE, "systemctl kill -s KILL %s" % SERVICE])
def test_pods_keep_their_interfaces_over_a_restart_of_the_agent(
    kube: Kube, pods: Addresses, node: GetNode, end: str
) -> None:
    one = node("node-1")
    before, holders = interfaces(kube, "one"), held(one)
    old = agent_pid(one)
    one.run(end, timeout=SECONDS)
    wait_for_agent(one, old)
    wait_for_slots(kube, "node-1", ALL_RAILS)
    assert interfaces(kube, "one") == before
    assert held(one) == holders and "default/one" in holders.values()
    check_ping(kube, "one", pods["two"])


def test_the_agent_of_a_node_with_pods_is_not_removed(kube: Kube, pods: Addresses, node: GetNode) -> None:
    given = {"teardown_hosts": True, "kubernetes_enabled": False, "teardown_consent": INVENTORY.name}
    words = ("--tags", "agent", "--limit", "node-1")
    played = play("playbooks/teardown.yml", *words, inventory=INVENTORY, given=given, timeout=SECONDS)
    assert played.returncode and "is held by pod default/one" in played.text, played.text
    assert node("node-1").run("systemctl is-active %s" % SERVICE).strip() == "active"


def test_the_slot_of_a_deleted_pod_is_free_for_the_next(kube: Kube, pods: Addresses, node: GetNode) -> None:
    kube("delete", "pod", "one", "--wait")
    wait_for(lambda: "default/one" not in held(node("node-1")).values(), lambda: str(held(node("node-1"))))
    apply(kube, manifest("one", "node-1", ALL_RAILS))
    kube.wait(["one"])
    assert check_interfaces(kube, "one") == pods["one"]


def test_a_pod_may_have_single_rails(kube: Kube, pods: Addresses) -> None:
    apply(kube, manifest("single", "node-1", "railyard.fabric/gpu01", "railyard.fabric/gpu02"))
    try:
        kube.wait(["single"])
        found = {name: row for name, row in links(kube, "single").items() if name.startswith("net")}
        expected = [slot_addresses("node-1", rail)[0][0] for rail in ("gpu01", "gpu02")]
        assert [found[name]["addr_info"][0]["local"] for name in sorted(found)] == expected
    finally:
        kube("delete", "pod", "single", "--wait")


def test_the_event_of_a_pod_explains_why_it_does_not_start(kube: Kube, pods: Addresses, node: GetNode) -> None:
    address = slot_addresses("node-1", "rails")[1][2]
    two = node("node-2")
    two.run("ip address add %s/32 dev enp3s0" % address)
    try:
        apply(kube, manifest("late", "node-1", ALL_RAILS))
        wait_for_event(kube, "late", "gpu03", address)
        two.run("ip address del %s/32 dev enp3s0" % address)
        kube.wait(["late"])
        assert check_interfaces(kube, "late") == slot_addresses("node-1", "rails")[1]
    finally:
        two.run("ip address del %s/32 dev enp3s0" % address, check=False)
        kube("delete", "pod", "late", "--wait")


def test_pods_wait_for_a_rail_whose_link_is_down(kube: Kube, pods: Addresses, node: GetNode) -> None:
    one = node("node-1")
    one.run("ip link set enp5s0 down")
    try:
        wait_for(
            lambda: offered(kube, "node-1", ALL_RAILS) == 0,
            lambda: kube("describe", "node", "node-1"),
        )
        apply(kube, manifest("late", "node-1", ALL_RAILS))
        wait_for_event(kube, "late", NO_SLOT)
    finally:
        prepare("--limit", "node-1")
    kube.wait(["late"])
    kube("delete", "pod", "late", "--wait")


def test_pods_of_a_rebooted_node_come_back_on_their_rails(kube: Kube, pods: Addresses, node: GetNode) -> None:
    node("node-1").reboot(timeout=SECONDS)
    kube.wait(["one"], restarts=1)
    again = check_interfaces(kube, "one")
    assert again in slot_addresses("node-1", "rails")
    check_ping(kube, "two", again)
    check_rdma(kube, ("one", again), ("two", pods["two"]))
