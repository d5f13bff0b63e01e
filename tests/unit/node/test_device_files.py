# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices and their files: when a rail or slot is healthy, whose CDI files are ours, and what a container has."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, cdi_files, rail_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from tests.unit.node.agent_files import document, rail, slot
from tests.unit.node.trees import Tree

PF, VF, OTHER = "0000:0b:00.0", "0000:0b:00.1", "0000:0c:00.0"
BUNDLE = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/4f1b"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Port rail1 with RDMA device mlx5_0, its VF 0 with mlx5_8, and another port with mlx5_1."""
    tree = Tree(tmp_path)
    for number, pci in enumerate((PF, OTHER)):
        tree.function("pci0000:00/0000:00:0%d.0/%s" % (number, pci))
        tree.netdev(pci, "rail%d" % (number + 1))
    tree.vf(PF, 0, "pci0000:00/0000:00:00.0/" + VF)
    for number, pci in ((0, PF), (1, OTHER), (8, VF)):
        device(tree, pci, "mlx5_%d" % number, number)
    tree.write(cdi_files.RDMA_CM, "")
    tree.write("/sys/class/misc/rdma_cm/dev", "10:58")
    return tree


def device(tree: Tree, pci: str, name: str, number: int) -> None:
    tree.rdma(pci, name, "Ethernet")
    verbs = "%s/infiniband_verbs/uverbs%d" % (tree.real(pci), number)
    tree.write(verbs + "/dev", "231:%d" % (192 + number))
    tree.write(verbs + "/ibdev", name)
    tree.link("/sys/class/infiniband_verbs/uverbs%d" % number, verbs)


def remove(tree: Tree, pci: str, *parts: str) -> None:
    """Remove what a driver had: the RDMA device, its verbs files, or both."""
    for part in parts:
        for name in os.listdir(tree.root / tree.real(pci).lstrip("/") / part):
            os.unlink(tree.root / "sys/class" / part / name)
        os.rename(tree.root / tree.real(pci).lstrip("/") / part, tree.root / ("removed-" + part))


def spec_of(attachment: str = "macvlan", mode: str = "shared", **values: t.Any) -> agent_spec.AgentSpec:
    slots = [slot(1, 0, "rails", vf=0), slot(1, 1, "gpu01", vf=1)]
    one = rail(1, **dict({"pci": PF, "rdma": "mlx5_0", "slots": slots}, **values))
    return agent_spec.parse_spec(document(one, attachment=attachment, rdma_mode=mode))


def down(tree: Tree, spec: agent_spec.AgentSpec, *holders: Holder) -> dict[t.Any, str]:
    return rail_health.rdma_down(spec, holders, tree.system())


def test_a_rail_is_healthy_only_with_its_planned_rdma_device(tree: Tree) -> None:
    assert down(tree, spec_of()) == {}
    assert down(tree, spec_of(rdma="mlx5_7")) == {("gpu01", None): "the RDMA device mlx5_7 is not on the node"}
    reason = "the RDMA device mlx5_1 belongs to %s, and not to rail1" % OTHER
    assert down(tree, spec_of(rdma="mlx5_1")) == {("gpu01", None): reason}
    assert down(tree, spec_of(rdma="mlx5_1", pci=None)) == {("gpu01", None): reason}
    # one device of a bond of both ports
    tree.write("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "rail1")
    assert down(tree, spec_of(rdma="mlx5_1")) == {}
    remove(tree, PF, "infiniband_verbs")
    assert "mlx5_0 has no verbs file" in down(tree, spec_of())["gpu01", None]
    assert down(tree, spec_of(rdma=None)) == {}


@pytest.mark.parametrize(("kind", "module"), [("rxe", "rdma_rxe"), ("siw", "siw")])
def test_soft_rdma_requires_its_kernel_module(tree: Tree, kind: str, module: str) -> None:
    spec = spec_of(rdma_type=kind)
    assert down(tree, spec) == {("gpu01", None): "the kernel module %s is not loaded" % module}
    tree.write("/sys/module/%s/refcnt" % module, "0")
    assert down(tree, spec) == {}


def test_each_vf_requires_its_rdma_device(tree: Tree) -> None:
    missing = {("gpu01", 1): "VF 1 of rail1 is not on the node"}
    assert down(tree, spec_of("sriov")) == missing
    # pods do not get the device of the port
    assert down(tree, spec_of("sriov", rdma="mlx5_7")) == missing
    remove(tree, VF, "infiniband", "infiniband_verbs")
    assert down(tree, spec_of("sriov")) == {
        ("gpu01", 0): "VF 0 of rail1 has no RDMA device with a verbs file",
        **missing,
    }


@pytest.mark.parametrize(("attachment", "pci", "name"), [("macvlan", PF, "mlx5_0"), ("sriov", VF, "mlx5_8")])
def test_a_device_in_a_pod_is_not_missing(tree: Tree, attachment: str, pci: str, name: str) -> None:
    """In RDMA mode exclusive, the class infiniband of the node does not show it, and its verbs file stays."""
    spec = spec_of(attachment, "exclusive")
    rows = ({"rail": "gpu01", "slot": 0, "rdma": name, "interface": "net1"},)
    holder = Holder("rails-0", "uid", "pod", "ns", "main", "sandbox", 9, 1, ATTACHED, 1.0, rows)
    before = cdi_files.document(tree.system(), spec, "rails", spec.resources()["rails"])
    assert name in str(before) and "/dev/infiniband/uverbs" in str(before)
    remove(tree, pci, "infiniband")
    assert ("gpu01", 0) not in down(tree, spec, holder) and ("gpu01", None) not in down(tree, spec, holder)
    # a container that starts again in the pod gets the same files
    assert cdi_files.document(tree.system(), spec, "rails", spec.resources()["rails"]) == before
    if attachment == "macvlan":
        other = holder._replace(interfaces=({"rail": "gpu02", "slot": 0, "rdma": "mlx5_1", "interface": "net2"},))
        assert down(tree, spec, other) == {("gpu01", None): "the RDMA device mlx5_0 is not on the node"}


# -- CDI files of others -----------------------------------------------------------------------------------------------

HOOKED = {"name": "0", "containerEdits": {"hooks": [{"hookName": "createRuntime", "path": cdi_files.HOOK}]}}
OTHERS: dict[str, t.Any] = {
    "a GPU": {"devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]},
    "no device": {"kind": "railyard.fabric/gpu01", "devices": []},
    "one device of two is ours": {"devices": [HOOKED, {"name": "1", "containerEdits": {}}]},
    "another hook": {"devices": [{"name": "0", "containerEdits": {"hooks": [{"path": "/usr/bin/nvidia-ctk"}]}}]},
    "devices are not objects": {"devices": ["a"]},
    "devices are not a list": {"devices": {"a": 1}},
    "hooks are not a list": {"devices": [{"containerEdits": {"hooks": {"path": cdi_files.HOOK}}}]},
}


@pytest.mark.parametrize("prefix", ["railyard.fabric", "nvidia.com"])
def test_cdi_files_of_others_stay(tmp_path: Path, prefix: str) -> None:
    system, spec = System(str(tmp_path)), agent_spec.parse_spec(document(rail(1), resource_prefix=prefix))
    names = {}
    for number, content in enumerate(OTHERS.values()):
        names["%s-other%d.json" % (prefix, number)] = json.dumps(content)
    names.update(
        {prefix + "-text.json": "{", prefix + "-deep.json": "[" * 100000, prefix + ".yaml": json.dumps(HOOKED)}
    )
    for name, text in names.items():
        system.write_file("%s/%s" % (cdi_files.DIRECTORY, name), text)
    own = json.dumps({"devices": [HOOKED]})
    system.write_file("/etc/cdi/%s-own.json" % prefix, own)
    system.symlink("/etc/cdi/%s-own.json" % prefix, "%s/%s-link.json" % (cdi_files.DIRECTORY, prefix))
    os.mkfifo(system.path("%s/%s-pipe.json" % (cdi_files.DIRECTORY, prefix)))
    os.mkdir(system.path("%s/%s-directory.json" % (cdi_files.DIRECTORY, prefix)))
    large = "%s/%s-large.json" % (cdi_files.DIRECTORY, prefix)
    system.write_file(large, own)
    os.truncate(system.path(large), cdi_files.LENGTH + 1)
    system.write_file("%s/old.example.com-rails.json" % cdi_files.DIRECTORY, own)
    before = set(system.listdir(cdi_files.DIRECTORY)) - {"old.example.com-rails.json"}
    cdi_files.write_cdi(system, spec)
    written = {"%s-%s.json" % (prefix, resource) for resource in ("gpu01", "rails")}
    assert set(system.listdir(cdi_files.DIRECTORY)) == before | written
    cdi_files.remove_cdi(system)
    assert set(system.listdir(cdi_files.DIRECTORY)) == before
    assert {name: system.read_file("%s/%s" % (cdi_files.DIRECTORY, name)) for name in names} == names
    assert system.read_file("/etc/cdi/%s-own.json" % prefix) == own


@pytest.mark.parametrize("kind", ["file", "link", "link to nothing", "directory"])
def test_a_path_of_another_program_is_refused_and_the_other_files_are_written(tmp_path: Path, kind: str) -> None:
    system, spec = System(str(tmp_path)), agent_spec.parse_spec(document(rail(1), resource_prefix="nvidia.com"))
    path, target = cdi_files.DIRECTORY + "/nvidia.com-rails.json", "/root/precious"
    system.write_file(target, "kept")
    if kind == "file":
        system.write_file(path, json.dumps(OTHERS["a GPU"]))
    elif kind == "directory":
        os.makedirs(system.path(path))
    else:
        system.symlink(system.path(target if kind == "link" else "/root/none"), path)
    before = os.lstat(system.path(path))
    for _again in range(2):
        with pytest.raises(RailyardError) as caught:
            cdi_files.write_cdi(system, spec)
        assert (caught.value.place, "Remedy: set another slots.resource_prefix" in str(caught.value)) == (path, True)
    assert os.lstat(system.path(path)).st_ino == before.st_ino and system.read(target) == "kept"
    assert not system.exists("/root/none")
    assert [os.path.basename(file) for file in cdi_files.own_files(system)] == ["nvidia.com-gpu01.json"]
    assert len(cdi_files.other_files(system, spec)) == 1


# -- what a container was given ----------------------------------------------------------------------------------------


def check(tree: Tree, spec: agent_spec.AgentSpec, *nodes: tuple[str, int, int]) -> None:
    """Check a container whose configuration has these device nodes."""
    rows = [{"path": "/dev/infiniband/" + name, "type": "c", "major": a, "minor": b} for name, a, b in nodes]
    tree.write(BUNDLE + "/config.json", json.dumps({"ociVersion": "1.0.2", "linux": {"devices": rows}}))
    check_state(tree, spec, {"bundle": BUNDLE})


def check_state(tree: Tree, spec: agent_spec.AgentSpec, state: t.Any) -> None:
    found = spec.device("rails-0")
    assert found
    cdi_files.check_device_files(tree.system(), spec, found, state)


@pytest.mark.parametrize(("attachment", "number"), [("macvlan", 0), ("sriov", 8)])
def test_a_container_must_have_the_rdma_files_of_the_kernel(tree: Tree, attachment: str, number: int) -> None:
    spec, cm = spec_of(attachment), ("rdma_cm", 10, 58)
    name = "uverbs%d" % number
    check(tree, spec, cm, (name, 231, 192 + number), ("uverbs1", 231, 193))
    for nodes in (
        [],
        [cm],
        [(name, 231, 192 + number)],
        # the kernel gave the number to another device
        [cm, (name, 231, 100)],
        [cm, ("uverbs1", 231, 193)],
    ):
        with pytest.raises(AttachError) as caught:
            check(tree, spec, *nodes)
        assert (caught.value.reason, caught.value.place) == ("device-files", "device rails-0")
        assert "/dev/infiniband/" in str(caught.value) and "Remedy: wait until the kubelet starts" in str(caught.value)


def test_without_the_configuration_the_cdi_file_in_force_counts(tree: Tree) -> None:
    spec, system = spec_of(), tree.system()
    states: list[t.Any] = [
        {},
        {"bundle": "relative"},
        {"bundle": 7},
        {"bundle": "/none"},
        {"bundle": "/home/user/b"},
        {"bundle": BUNDLE},
    ]
    tree.write("/home/user/b/config.json", json.dumps({"linux": {"devices": []}}))
    os.chmod(tree.root / "home/user", 0o777)
    tree.write(BUNDLE + "/config.json", "{")
    for state in states:
        cdi_files.write_cdi(system, spec)
        check_state(tree, spec, state)
        device(tree, PF, "mlx5_0", 3)
        with pytest.raises(AttachError, match="/dev/infiniband/uverbs3"):
            check_state(tree, spec, state)
        # the file was written again for the next start of the container
        check_state(tree, spec, state)
        os.rename(tree.root / tree.real(PF).lstrip("/") / "infiniband_verbs/uverbs3", tree.root / "removed")
        (tree.root / "removed/dev").unlink()
        (tree.root / "removed/ibdev").unlink()
        (tree.root / "removed").rmdir()


def test_a_container_does_not_start_without_a_verbs_file(tree: Tree) -> None:
    spec = spec_of()
    remove(tree, PF, "infiniband_verbs")
    with pytest.raises(AttachError, match="verbs file on rail gpu01"):
        check(tree, spec, ("rdma_cm", 10, 58))
    # rails without RDMA, and soft devices, which are made for the pod
    os.unlink(tree.root / cdi_files.RDMA_CM.lstrip("/"))
    check(tree, spec_of(rdma=None))
    check(tree, spec_of(rdma_type="rxe"))
