# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events that wake the rail agent, from the kernel of this machine."""

from __future__ import annotations

import select
import socket
import threading
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import node_events
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.node_events import NodeEvents
from tests.functional.node.agent_pods import Pod
from tests.functional.node.own_namespace import why_not
from tests.waiting import wait_for

PATIENCE = 60


def test_a_changed_directory_is_an_event(tmp_path: Path) -> None:
    changed = threading.Event()
    events = NodeEvents(changed.set)
    directory = tmp_path / "plugins"
    assert not events.watch(str(directory)), "a directory that does not exist"
    directory.mkdir()
    assert events.watch(str(directory)) and events.watch(str(directory))
    for act in ((directory / "a").touch, lambda: (directory / "a").rename(directory / "b"), (directory / "b").unlink):
        changed.clear()
        act()
        assert changed.wait(PATIENCE)
    # as a kubelet that is installed again
    changed.clear()
    directory.rmdir()
    assert changed.wait(PATIENCE)
    directory.mkdir()
    assert events.watch(str(directory))
    changed.clear()
    (directory / "c").touch()
    assert changed.wait(PATIENCE)


@pytest.mark.skipif(bool(why_not()), reason="no namespaces here: %s" % why_not())
def test_a_changed_link_is_an_event() -> None:
    pod, changed = Pod("events"), threading.Event()
    try:
        with open(pod.net(pod.pid), "rb") as namespace:
            in_namespace(namespace.fileno(), lambda: NodeEvents(changed.set))
        for words in (
            ["add", "port0", "type", "veth", "peer", "name", "leaf0"],
            ["set", "port0", "up"],
            ["del", "port0"],
        ):
            changed.clear()
            pod.run("ip", "link", *words)
            assert changed.wait(PATIENCE)
    finally:
        pod.end()


@pytest.mark.skipif(bool(why_not()), reason="no namespaces here: %s" % why_not())
def test_many_changes_are_few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_events, "PAUSE", 0.2)
    pod, calls, found = Pod("events"), [], []
    try:
        with open(pod.net(pod.pid), "rb") as namespace:
            in_namespace(namespace.fileno(), lambda: found.append(NodeEvents(lambda: calls.append(1))))
        pod.run("sh", "-c", "ip link add port0 type veth peer name leaf0; for mtu in $(seq 1300 1350); do"
                " echo link set port0 mtu $mtu; done | ip -batch -")  # fmt: skip
        wait_for(lambda: not select.select(found[0]._fds, [], [], 0.5)[0])
        assert 0 < len(calls) < 20
    finally:
        pod.end()


@pytest.mark.skipif(bool(why_not()), reason="no namespaces here: %s" % why_not())
def test_an_rdma_device_is_an_event_and_other_devices_are_not() -> None:
    pod, reports = Pod("uevents"), threading.Semaphore(0)

    def send(subsystem: bytes) -> None:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, node_events.NETLINK_KOBJECT_UEVENT) as kernel:
            message = b"add@/devices/x\0ACTION=add\0SUBSYSTEM=" + subsystem + b"\0"
            kernel.sendto(message, (0, node_events.UEVENT_KERNEL))

    try:
        with open(pod.net(pod.pid), "rb") as namespace:
            in_namespace(namespace.fileno(), lambda: NodeEvents(reports.release))
            in_namespace(namespace.fileno(), lambda: [send(each) for each in (b"block", b"net", b"infiniband")])
            assert reports.acquire(timeout=PATIENCE)
            in_namespace(namespace.fileno(), lambda: [send(each) for each in (b"block", b"infiniband_verbs")])
            assert reports.acquire(timeout=PATIENCE)
            # events of other subsystems were read before, in order
            assert not reports.acquire(blocking=False)
    finally:
        pod.end()
