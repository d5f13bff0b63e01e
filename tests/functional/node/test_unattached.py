# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that run without the devices that the kubelet allocated: a container runtime with CDI off."""

from __future__ import annotations

import shutil
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unattached import Unattached
from tests.functional.node.agent_program import Node
from tests.functional.node.fake_kubelet import Kubelet, Tree, runtime

PREFIX = "railyard.fabric"


def pod(name: str, device: str) -> t.Any:
    # name 1, namespace 2, containers 3: name 1, devices 2: resource_name 1, device_ids 2
    return (1, [(1, name), (2, "ns"), (3, [(1, "main"), (2, [(1, PREFIX + "/rails"), (2, device)])])])


def claimed(name: str, device: str) -> t.Any:
    # containers 3: dynamic_resources 5: claim_resources 4: cdi_devices 1: name 1; driver_name 2
    cdi = (4, [(1, [(1, "%s/rails=%s" % (PREFIX, device))]), (2, PREFIX)])
    return (1, [(1, name), (2, "ns"), (3, [(1, "main"), (5, [(2, "claim"), cdi])])])


class Compared:
    """A node, and the comparison on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.unattached = Unattached(System(str(root)))
        self.held: dict[str, str] = {}
        self.servers: list[t.Any] = []
        self.kubelet: Kubelet | None = None

    def serve(self, pods: Tree, running: t.Sequence[tuple[str, str, str]]) -> None:
        self.kubelet = Kubelet(self.root, pods)
        self.servers.append(runtime(self.root, running))

    def look(self, *given: str) -> list[str]:
        self.unattached.look(PREFIX, given, lambda: self.held)
        return self.unattached.problems

    @property
    def calls(self) -> int:
        return self.kubelet.listed if self.kubelet else 0


@pytest.fixture
def compared() -> t.Iterator[Compared]:
    # not tmp_path: the path of a unix socket has at most 107 bytes
    found = Compared(Path(tempfile.mkdtemp(prefix="compare", dir="/tmp")))
    yield found
    for server in found.servers:
        server.stop(0).wait()
    if found.kubelet:
        found.kubelet.stop()
    shutil.rmtree(found.root)


@pytest.mark.parametrize("row", [pod, claimed])
def test_a_container_that_runs_without_its_device_is_reported(compared: Compared, row: t.Any) -> None:
    # of three containers, one is attached, and one waits for its image
    compared.held = {"rails-0": "ns/attached"}
    rows = [row("attached", "rails-0"), row("early", "rails-1"), row("lost", "rails-2")]
    compared.serve(rows, [("ns", "attached", "main"), ("ns", "lost", "main"), ("ns", "early", "sidecar")])
    assert compared.look() == []
    (problem,) = compared.look()
    assert problem.startswith(
        "device rails-2: container main of pod ns/lost runs without it: the container runtime did"
    )
    assert "Remedy: enable CDI" in problem
    # another pod has the device
    compared.held["rails-2"] = "ns/other"
    assert compared.look() == [problem]
    compared.held["rails-2"] = "ns/lost"
    assert compared.look() == []


def test_kubelet_is_called_only_if_a_device_may_be_unattached(compared: Compared) -> None:
    compared.held = {"rails-0": "ns/attached"}
    compared.serve([pod("attached", "rails-0")], [("ns", "attached", "main")])
    for _pass in range(3):
        assert compared.look() == []
    # at the start, what the kubelet allocated before is unknown
    assert compared.calls == 1
    compared.look("rails-1")
    assert compared.calls == 2
    # the allocation has ended
    compared.look()
    assert compared.calls == 2
    # the pod's device was freed while it runs, for example by the pod itself
    compared.held.clear()
    compared.look()
    (problem,) = compared.look()
    assert problem.startswith("device rails-0: ") and compared.calls == 4


def test_without_kubelet_or_runtime_nothing_is_reported(compared: Compared) -> None:
    assert compared.look("rails-1") == compared.look() == []
    compared.kubelet = Kubelet(compared.root, [pod("lost", "rails-1")])
    assert compared.look() == compared.look() == []
    compared.servers.append(runtime(compared.root, [("ns", "lost", "main")]))
    compared.look()
    assert len(compared.look()) == 1


@pytest.mark.long
def test_the_agent_reports_it_in_status_and_metrics(node: Node) -> None:
    """The agent compares twice, with half a minute in between."""
    kubelet, cri = Kubelet(node.root, [pod("lost", "rails-1")]), runtime(node.root, [("ns", "lost", "main")])
    try:
        node.start_with_rails()
        kubelet.wait(lambda: node.logged("device rails-1: container main of pod ns/lost runs without it"))
        status = node.run("status")
        assert status.returncode == 1 and "pod ns/lost runs without it" in status.stdout
    finally:
        kubelet.stop()
        cri.stop(0).wait()
