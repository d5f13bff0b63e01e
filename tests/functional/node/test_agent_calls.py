# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of the kubelet while the agent is killed or the API server is down, ``RAILYARD_INTERRUPTIONS`` times (2)."""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
import typing as t

import grpc
import pytest

from tests.functional.node.agent_pods import Pod
from tests.functional.node.agent_program import Node
from tests.functional.node.fake_kubelet import Kubelet
from tests.functional.node.test_dra_driver import RAILS_0, DraNode
from tests.waiting import wait_for

TIMES = int(os.environ.get("RAILYARD_INTERRUPTIONS", "2"))
RAILS = "railyard.fabric/rails"


def kill_soon(node: Node, chance: random.Random, seconds: float) -> threading.Timer:
    """Kill the agent at a random moment of the next seconds."""
    agent = node.agent
    assert agent
    timer = threading.Timer(chance.uniform(0, seconds), agent.kill)
    timer.start()
    return timer


@contextlib.contextmanager
def attached(node: Node, name: str) -> t.Iterator[None]:
    """Attach a pod to slot 0 of all rails, and wait until its end has freed the slot."""
    pod = Pod(name)
    try:
        assert node.attach("rails-0", pod) == {"ok": True}
        assert pod.links() == {"net1", "net2"}
        yield
    finally:
        pod.end()
    wait_for(lambda: re.search("^%s +2 +0 " % RAILS, node.run("status").stdout, re.MULTILINE))


def test_an_agent_killed_in_allocate_serves_again(node: Node) -> None:
    chance = random.Random(16)
    kubelet = Kubelet(node.root)
    try:
        node.start_with_rails()
        for number in range(TIMES):
            kubelet.devices(RAILS)
            plugin = kubelet.plugins[RAILS]
            timer = kill_soon(node, chance, 0.1)
            with pytest.raises(grpc.RpcError):
                while True:
                    # an answer is complete or missing
                    assert plugin.allocate(["rails-0"])[0][1] == ["%s=rails-0" % RAILS]
            timer.join()
            kubelet.wait(lambda plugin=plugin: plugin.ended)
            kubelet.plugins.clear()
            node.start(*node._there())
            kubelet.devices(RAILS)
            assert kubelet.plugins[RAILS].allocate(["rails-0"])[0][1] == ["%s=rails-0" % RAILS]
            with attached(node, "pod-%d" % number):
                pass
    finally:
        kubelet.stop()


@pytest.fixture
def dra(node: Node) -> t.Iterator[DraNode]:
    found = DraNode(node)
    yield found
    found.close()


def test_a_claim_is_prepared_once_by_an_agent_killed_in_prepare(dra: DraNode) -> None:
    chance = random.Random(16)
    kubelet = dra.start()
    for number in range(TIMES):
        claim = dra.api.claim("net-%d" % number, "rails-0", pod="pod-%d" % number)
        timer = kill_soon(dra.node, chance, 0.05)
        with contextlib.suppress(grpc.RpcError):
            kubelet.prepare(claim)
        timer.join()
        kubelet = dra.restart()
        # the kubelet repeats the request after the restart
        assert kubelet.prepare(claim) == {claim[1]: [RAILS_0]}
        assert dra.recorded() == [claim[1]]
        other = dra.api.claim("other", "rails-0", pod="other")
        assert "is prepared for claim default/net-%d" % number in str(kubelet.prepare(other))
        pod = Pod("pod-%d" % number)
        try:
            assert dra.node.attach("rails-0", pod) == {"ok": True}
            pod.end_container()
            timer = kill_soon(dra.node, chance, 0.05)
            with contextlib.suppress(grpc.RpcError):
                kubelet.unprepare(claim)
            timer.join()
            kubelet = dra.restart()
            assert kubelet.unprepare(claim) == {claim[1]: ""}
            assert (pod.links(), dra.recorded()) == (set(), [])
        finally:
            pod.end()
    assert len(dra.published()) == 8
    assert [path.name for path in (dra.node.root / "var/lib/railyard/agent").iterdir() if path.name[0] == "."] == []


def test_a_slot_of_a_claim_is_not_attached_to_another_pod(dra: DraNode) -> None:
    kubelet = dra.start()
    claim = dra.api.claim("net", "rails-0", pod="owner")
    kubelet.prepare(claim)
    owner, thief = Pod("owner"), Pod("thief")
    try:
        # a plugin of the container runtime that adds CDI devices which a pod names in an annotation
        for device in ("rails-0", "rails-1"):
            answer = dra.node.attach(device, thief)
            assert answer["error"].startswith("device %s: no claim of pod default/thief is prepared with it" % device)
            assert answer["reason"] == "claim"
        assert (thief.links(), dra.node.run("slots").stdout.count("default/thief")) == (set(), 0)
        assert dra.node.attach("rails-0", owner) == {"ok": True}
        # its container restarts while the record of the claim is gone
        (dra.node.root / "var/lib/railyard/agent/claims.json").unlink()
        dra.restart()
        owner.restart_container()
        assert dra.node.attach("rails-0", owner) == {"ok": True}
    finally:
        owner.end()
        thief.end()


def test_a_claim_waits_for_an_unavailable_api_server(dra: DraNode) -> None:
    chance = random.Random(16)
    kubelet = dra.start()
    dra.published()
    for number in range(TIMES):
        claim = dra.api.claim("net-%d" % number, "rails-0", pod="pod-%d" % number)
        dra.api.close()
        timer = threading.Timer(chance.uniform(0.2, 2), dra.serve)
        timer.start()
        begun = time.monotonic()
        assert kubelet.prepare(claim) == {claim[1]: [RAILS_0]}, time.monotonic() - begun
        timer.join()
        assert kubelet.unprepare(claim) == {claim[1]: ""}
    assert dra.recorded() == []
    assert len(dra.api.devices()) == 8
