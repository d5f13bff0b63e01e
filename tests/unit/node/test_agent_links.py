# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VFs and RDMA devices of slots, on a sysfs of a test's own: what CDI files name, and how devices go and come back.

The kernel's part, moving VFs and RDMA devices, runs on guests of the lab.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_spec,
    cdi_files,
    host_links,
    pod_links,
    rail_health,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_links import Job, PodLinks
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from tests.unit.node.agent_files import document, rail, slot
from tests.unit.node.trees import Tree

PF, VF = "0000:0b:00.0", "0000:0b:00.3"
HOLDER = Holder("rails-0", "uid", "a", "default", "main", "4f1b" * 16, 4711, 3, ATTACHED, 0.0)
# A node of which a test uses the files only.
NODE = host_links.NodeSide(t.cast(t.Any, None), t.cast(t.Any, None), 6)
ALIAS = "railyard rails-0 %s gpu01" % HOLDER.sandbox_id
# A VF on the node before it was moved to a pod.
HOST: dict[str, t.Any] = {
    "name": "enp11s0f0v0",
    "altnames": [],
    "mtu": 9000,
    "mac": "",
    "flags": 0,
    "settings": {},
    "xdp": 0,
    "up": True,
    "alias": "",
    "pci": VF,
    "ifindex": 9,
    "identity": {"kind": None, "parent": None, "permanent": "", "below": None, "below_namespace": None},
}


def link(name: str, ifindex: int = 7, **values: t.Any) -> Link:
    base: dict[str, t.Any] = {"up": False, "mtu": 1500, "min_mtu": 0, "max_mtu": 0, "address": b"", "altnames": ()}
    return Link(ifindex=ifindex, name=name, **dict(base, **values))


class Kernel:
    """The links of the node, and what is set on them. ``ignored``: what the kernel does not set."""

    def __init__(self, *links: Link, ignored: t.Sequence[str] = ()) -> None:
        self.held = list(links)
        self.set: list[tuple[int, dict[str, t.Any]]] = []
        self._ignored = ignored

    def links(self) -> list[Link]:
        return self.held

    def link(self, which: int | str) -> Link | None:
        return next((each for each in self.held if which in (each.name, each.ifindex)), None)

    def set_link(self, index: int, **values: t.Any) -> None:
        self.set.append((index, values))
        new = {key: value for key, value in values.items() if key not in self._ignored}
        self.held = [each._replace(**new) if each.ifindex == index else each for each in self.held]


def node(tmp_path: Path) -> Tree:
    """A card with one VF, each with an RDMA device."""
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/" + PF)
    tree.netdev(PF, "rail1")
    tree.rdma(PF, "mlx5_gpu01", "Ethernet")
    tree.vf(PF, 0, "pci0000:00/0000:00:01.0/" + VF)
    tree.driver(VF, "mlx5_core")
    tree.rdma(VF, "mlx5_8", "Ethernet")
    for pci, name in ((PF, "uverbs0"), (VF, "uverbs8")):
        tree.write("%s/infiniband_verbs/%s/dev" % (tree.real(pci), name), "231:192")
    tree.write(cdi_files.RDMA_CM, "")
    return tree


def sriov(attachment: str = "sriov", **values: t.Any) -> agent_spec.AgentSpec:
    one = rail(1, pci=PF, rdma="mlx5_gpu01", slots=[slot(1, 0, "rails", vf=0), slot(1, 1, "gpu01", vf=1)], **values)
    return agent_spec.parse_spec(document(one, attachment=attachment))


def source(tree: Tree, kernel: Kernel, spec: agent_spec.AgentSpec, number: int = 0, before: t.Any = None) -> t.Any:
    each = spec.rails[0]
    return host_links.source(tree.system(), t.cast(t.Any, kernel), each, each.slots[number], before)


@pytest.mark.parametrize("attachment", ["sriov", "ib-sriov"])
def test_a_slot_finds_its_vf_by_pci_address_independently_of_its_name(tmp_path: Path, attachment: str) -> None:
    tree = node(tmp_path)
    tree.netdev(VF, "enp11s0f0v0")
    found = source(tree, Kernel(link("rail1", 4), link("enp11s0f0v0", 9, mtu=9000, up=True)), sriov(attachment))
    assert found == ("VF 0 of rail1", 9, "mlx5_8", HOST)


def test_a_vf_already_in_the_pod_keeps_its_recorded_state(tmp_path: Path) -> None:
    host = {"name": "enp11s0f0v0", "mtu": 9000, "up": True, "pci": VF}
    tree, kernel = node(tmp_path), Kernel(link("rail1", 4))
    assert source(tree, kernel, sriov(), before={"rdma": "mlx5_8", "host": host}) == (
        "VF 0 of rail1",
        None,
        "mlx5_8",
        host,
    )
    # without a record, it is another's
    with pytest.raises(AttachError, match="slot 0 of rail gpu01: VF 0 of rail1 is not on the node"):
        source(tree, kernel, sriov())


def test_a_port_with_only_a_pci_address_is_found(tmp_path: Path) -> None:
    tree = node(tmp_path)
    spec = agent_spec.parse_spec(document(rail(1, pci=PF, netdev=None)))
    assert source(tree, Kernel(link("rail1", 4)), spec) == (PF, 4, None, None)
    with pytest.raises(AttachError, match="%s is not on the node" % PF):
        source(Tree(tmp_path / "other"), Kernel(link("rail1", 4)), spec)


def test_a_vf_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AttachError, match="slot 1 of rail gpu01: VF 1 of rail1 is not on the node"):
        source(node(tmp_path), Kernel(link("rail1", 4)), sriov(), number=1)


def test_a_vf_without_its_rdma_device_is_an_error(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.function("pci0000:00/0000:00:01.0/" + PF)
    tree.vf(PF, 0, "pci0000:00/0000:00:01.0/" + VF)
    tree.netdev(VF, "enp11s0f0v0")
    with pytest.raises(AttachError, match="the RDMA device of VF 0 of rail1 is not on the node"):
        source(tree, Kernel(link("enp11s0f0v0", 9)), sriov())
    # a fabric without RDMA does not need one
    spec = agent_spec.parse_spec(document(rail(1, pci=PF, slots=[slot(1, 0, "rails", vf=0)]), attachment="sriov"))
    assert source(tree, Kernel(link("enp11s0f0v0", 9)), spec).rdma is None


def holder(host: t.Any) -> Holder:
    return HOLDER._replace(interfaces=({"rail": "gpu01", "interface": "net1", "host": host},))


def restored(tree: Tree, kernel: Kernel, **host: t.Any) -> bool:
    return host_links.restore(tree.system(), t.cast(t.Any, kernel), holder(dict(HOST, **host)))


def test_a_returned_vf_is_set_back_completely(tmp_path: Path) -> None:
    tree, kernel = node(tmp_path), Kernel(link("rail1", 4))
    # the namespace has ended, and the kernel has not brought the VF back yet
    assert not restored(tree, kernel)
    tree.netdev(VF, "net1")
    kernel.held.append(link("net1", 9, alias=ALIAS))
    assert restored(tree, kernel)
    assert kernel.set == [
        (9, {"up": False}),
        (9, {"name": "enp11s0f0v0", "mtu": 9000}),
        (9, {"up": True}),
        (9, {"alias": ""}),
    ]
    # what a pod may have set besides
    tree.netdev(VF, "enp11s0f0v0")
    settings = {"txqlen": 1000, "group": 0}
    changed = link(
        "enp11s0f0v0", 9, mtu=68, address=b"\2\xde\xad\0\0\1", flags=0x380, settings={"txqlen": 1, "group": 7}
    )
    kernel = Kernel(changed)
    assert restored(tree, kernel, mac="02:00:00:00:01:00", flags=0x1000, settings=settings)
    (port,) = kernel.held
    assert (port.mtu, port.address, port.up, port.flags, port.settings) == (
        *(9000, b"\2\0\0\0\1\0", True, 0x1000),
        settings,
    )


@pytest.mark.parametrize("key", ["mtu", "up", "name"])
def test_a_port_that_differs_after_its_return_keeps_the_slot(tmp_path: Path, key: str) -> None:
    tree, kernel = node(tmp_path), Kernel(link("net1", 9, alias=ALIAS), ignored=[key])
    for name in ("net1", "enp11s0f0v0"):
        tree.netdev(VF, name)
    with pytest.raises(RailyardError, match="enp11s0f0v0: the port returned from pod default/a with .*%s " % key):
        restored(tree, kernel)
    assert kernel.held[0].alias == ALIAS


def test_a_row_of_an_earlier_release_sets_back_what_it_has(tmp_path: Path) -> None:
    """An interface with its name and without alias was not moved: the row may be of another boot."""
    before = {"name": "enp11s0f0v0", "mtu": 9000, "up": True, "pci": VF}
    tree, kernel = node(tmp_path), Kernel(link("enp11s0f0v0", 9))
    tree.netdev(VF, "enp11s0f0v0")

    def restore() -> bool:
        return host_links.restore(tree.system(), t.cast(t.Any, kernel), holder(before))

    assert restore()
    assert kernel.set == []
    kernel.held = [link("enp11s0f0v0", 9, alias=ALIAS)]
    assert restore()
    assert (kernel.held[0].mtu, kernel.held[0].up, kernel.held[0].alias) == (9000, True, "")


def test_a_vf_that_has_left_the_node_is_not_waited_for(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert restored(tree, Kernel(link("rail1", 4)))
    # as one that another driver has
    tree.function("pci0000:00/0000:00:01.0/" + VF)
    assert restored(tree, Kernel(link("rail1", 4)))


# -- RDMA devices ------------------------------------------------------------------------------------------------------


class Socket(str):
    def close(self) -> None:
        pass


class Rdma:
    """RDMA devices by the namespace of a socket, as ``rdma_netlink`` reports and changes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: str, **outside: int) -> None:
        self.mode = mode
        self.devices = {"outside": dict(outside), "inside": dict(outside) if mode == "shared" else {}}
        self.made: list[tuple[str, ...]] = []
        monkeypatch.setattr(rdma_netlink, "devices", self._list)
        monkeypatch.setattr(rdma_netlink, "move", self._move)
        monkeypatch.setattr(rdma_netlink, "new_link", self._new)
        monkeypatch.setattr(rdma_netlink, "rename", self._rename)

    def _list(self, sock: str, most: int | None = None) -> list[dict[str, t.Any]]:
        return [{"name": name, "index": index} for name, index in self.devices[sock].items()]

    def _move(self, sock: str, index: int, _namespace: int) -> None:
        name = next(name for name, each in self.devices[sock].items() if each == index)
        other = {"outside": "inside", "inside": "outside"}[sock]
        self.devices[other][name] = self.devices[sock].pop(name)

    def _rename(self, sock: str, index: int, name: str) -> None:
        before = next(before for before, each in self.devices[sock].items() if each == index)
        self.devices[sock][name] = self.devices[sock].pop(before)

    def _new(self, sock: str, name: str, kind: str, netdev: str) -> None:
        """In mode exclusive, the kernel makes it in the first namespace."""
        self.made.append((sock, name, kind, netdev))
        for namespace in ("outside", "inside") if self.mode == "shared" else ("outside",):
            self.devices[namespace][name] = 90


def device(mode: str, **values: t.Any) -> str:
    spec = agent_spec.parse_spec(document(rail(1, rdma="mlx5_gpu01", **values), rdma_mode=mode))
    each = spec.rails[0]
    job = Job(each, each.slots[0], host_links.Source("rail1", 4, each.rdma, None))
    links = PodLinks(NODE, spec, HOLDER, [job], 5)
    return links._devices(t.cast(t.Any, "inside"), t.cast(t.Any, "outside"), [job])["gpu01"]


def test_in_mode_shared_the_ports_own_device_serves_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    rdma = Rdma(monkeypatch, "shared", mlx5_gpu01=1)
    assert device("shared") == "mlx5_gpu01"
    assert "mlx5_gpu01" in rdma.devices["outside"]
    del rdma.devices["outside"]["mlx5_gpu01"], rdma.devices["inside"]["mlx5_gpu01"]
    with pytest.raises(AttachError, match="the RDMA device mlx5_gpu01 is not on the node"):
        device("shared")


def test_in_mode_exclusive_the_device_is_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rdma = Rdma(monkeypatch, "exclusive", mlx5_gpu01=1, mlx5_gpu02=2)
    assert device("exclusive") == device("exclusive") == "mlx5_gpu01"
    assert rdma.devices == {"outside": {"mlx5_gpu02": 2}, "inside": {"mlx5_gpu01": 1}}


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_soft_device_is_made_on_the_interface_of_the_pod(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    rdma = Rdma(monkeypatch, mode, rxe_gpu01=1)
    assert device(mode, rdma_type="rxe") == device(mode, rdma_type="rxe") == "rxe_4f1b4f1b-net1"
    assert rdma.made == [("inside", "rxe_4f1b4f1b-net1", "rxe", "net1")]
    assert "rxe_4f1b4f1b-net1" in rdma.devices["inside"]


def test_the_rdma_device_returns_before_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    rdma = Rdma(monkeypatch, "exclusive")
    rdma.devices["inside"]["mlx5_8"] = 8
    monkeypatch.setattr(rdma_netlink, "connect", lambda _system: Socket("inside"))
    monkeypatch.setattr(rdma_netlink, "netns_mode", lambda _sock: "exclusive")
    host_links._return_rdma(NODE, {8: "mlx5_8"})
    assert rdma.devices == {"outside": {"mlx5_8": 8}, "inside": {}}


def test_an_rdma_device_returns_by_its_index_and_not_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rdma = Rdma(monkeypatch, "exclusive")
    # the pod has renamed the device, and made a soft one with a name that no other device has
    rdma.devices["inside"] = {"mine": 8, "rxe_bait": 90}
    monkeypatch.setattr(rdma_netlink, "connect", lambda _system: Socket("inside"))
    monkeypatch.setattr(rdma_netlink, "netns_mode", lambda _sock: "exclusive")
    host_links._return_rdma(NODE, {8: "mlx5_8"})
    assert rdma.devices == {"outside": {"mlx5_8": 8}, "inside": {"rxe_bait": 90}}


def test_a_missing_gid_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pod_links, "PATIENCE", 0.0)
    tree = node(tmp_path)
    spec = agent_spec.parse_spec(document(rail(1, rdma="mlx5_gpu01")))
    each = spec.rails[0]
    job = Job(each, each.slots[0], host_links.Source("rail1", 4, each.rdma, None))
    links = PodLinks(NODE._replace(system=tree.system()), spec, HOLDER, [job], 5)
    place = "/sys/class/infiniband/mlx5_gpu01/ports/1/gids/"
    tree.write(place + "3", "0000:0000:0000:0000:0000:ffff:ac10:0b01")
    with pytest.raises(AttachError, match="mlx5_gpu01 does not get a GID of 172.16.11.1, fd00:11::1"):
        links._await_gids({"gpu01": "mlx5_gpu01"})
    tree.write(place + "4", "fd00:0011:0000:0000:0000:0000:0000:0001")
    links._await_gids({"gpu01": "mlx5_gpu01"})


def test_gids_of_infiniband_are_not_waited_for(tmp_path: Path) -> None:
    """They are GUIDs of the port with the prefix of the subnet."""
    tree = node(tmp_path)
    tree.write("/sys/class/infiniband/mlx5_gpu01/ports/1/link_layer", "InfiniBand")
    spec = agent_spec.parse_spec(document(rail(1, rdma="mlx5_gpu01"), attachment="ipoib"))
    each = spec.rails[0]
    job = Job(each, each.slots[0], host_links.Source("ibs1", 4, each.rdma, None))
    links = PodLinks(NODE._replace(system=tree.system()), spec, HOLDER, [job], 5)
    links._await_gids({"gpu01": "mlx5_gpu01"})


# -- CDI files and health ----------------------------------------------------------------------------------------------


def cdi(tree: Tree, name: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = json.loads(
        tree.system().read("%s/railyard.fabric-%s.json" % (cdi_files.DIRECTORY, name)) or ""
    )
    return found


def test_a_device_gets_only_the_verbs_files_of_its_vf(tmp_path: Path) -> None:
    tree = node(tmp_path)
    cdi_files.write_cdi(tree.system(), sriov())
    assert cdi(tree, "rails") == {
        "cdiVersion": "0.5.0",
        "kind": "railyard.fabric/rails",
        "devices": [
            {
                "name": "rails-0",
                "containerEdits": {
                    "env": [
                        "NCCL_IB_GID_INDEX=3",
                        "NCCL_IB_HCA==mlx5_8",
                        "RAILYARD_RAILS=gpu01",
                        "RAILYARD_SLOT=0",
                    ],
                    "hooks": [
                        {
                            "hookName": "createRuntime",
                            "path": "/usr/local/lib/railyard/agent-hook",
                            "args": ["agent-hook", "rails-0"],
                            "timeout": 110,
                        }
                    ],
                    "deviceNodes": [
                        {"path": "/dev/infiniband/rdma_cm", "permissions": "rw"},
                        {"path": "/dev/infiniband/uverbs8", "permissions": "rw"},
                    ],
                },
            }
        ],
    }
    # VF 1 does not exist
    (single,) = cdi(tree, "gpu01")["devices"]
    assert single["containerEdits"]["env"] == ["NCCL_IB_GID_INDEX=3", "RAILYARD_SLOT_GPU01=1"]
    assert [each["path"] for each in single["containerEdits"]["deviceNodes"]] == ["/dev/infiniband/rdma_cm"]


def test_the_device_of_a_vf_has_port_rail_and_plane_for_nccl(tmp_path: Path) -> None:
    numbers = {"ports": [1], "rail": 0, "plane": 1}
    one = rail(1, pci=PF, rdma="mlx5_gpu01", slots=[slot(1, 0, "rails", vf=0), slot(1, 1, "gpu01", vf=0)], nccl=numbers)
    spec = agent_spec.parse_spec(document(one, attachment="sriov", env={}))
    whole, single = (spec.resources()[resource][0] for resource in ("rails", "gpu01"))
    system = node(tmp_path).system()
    found = cdi_files.environment(system, spec, whole)
    assert (found["NCCL_IB_HCA"], found["NCCL_NET_MERGE_POLICY"]) == ("=mlx5_8:1:0:1", "RAIL")
    # the order of VFs can differ between nodes, and NCCL would connect merged planes crosswise
    assert found["NCCL_IB_MERGE_NICS"] == "0"
    # NCCL merges only devices that are named with their rail, so one without names has no such policy
    assert cdi_files.environment(system, spec, single) == {"RAILYARD_SLOT_GPU01": "1"}


def test_cdi_files_that_differ_are_written_and_stale_ones_removed(tmp_path: Path) -> None:
    tree = node(tmp_path)
    system = tree.system()
    tree.write(cdi_files.DIRECTORY + "/nvidia.yaml", "x")
    cdi_files.write_cdi(system, agent_spec.parse_spec(document(rail(7))))
    spec = agent_spec.parse_spec(document(rail(1, rdma="mlx5_gpu01"), rail(2)))
    cdi_files.write_cdi(system, spec)
    names = ["railyard.fabric-%s.json" % each for each in ("gpu01", "gpu02", "rails")]
    assert system.listdir(cdi_files.DIRECTORY) == ["nvidia.yaml", *names]
    stamps = [system.modified("%s/%s" % (cdi_files.DIRECTORY, each)) for each in names]
    cdi_files.write_cdi(system, spec)
    assert [system.modified("%s/%s" % (cdi_files.DIRECTORY, each)) for each in names] == stamps
    device = spec.device("rails-1")
    assert device and cdi_files.qualified_name(spec, device) == "railyard.fabric/rails=rails-1"
    # the second rail has no RDMA device, so not all are known
    assert cdi_files.environment(system, spec, device) == {
        "NCCL_IB_GID_INDEX": "3",
        "RAILYARD_RAILS": "gpu01,gpu02",
        "RAILYARD_SLOT": "1",
    }
    cdi_files.remove_cdi(system)
    assert system.listdir(cdi_files.DIRECTORY) == ["nvidia.yaml"]


def test_nccl_variables_of_the_plan_are_kept(tmp_path: Path) -> None:
    spec = agent_spec.parse_spec(document(rail(1, rdma="mlx5_gpu01"), env={"NCCL_IB_HCA": "=mlx5_bond"}))
    device = spec.device("rails-0")
    assert device and cdi_files.environment(node(tmp_path).system(), spec, device)["NCCL_IB_HCA"] == "=mlx5_bond"


@pytest.mark.parametrize(
    ("port", "away", "reason"),
    [
        (link("rail1", up=True, carrier=True), False, ""),
        (link("rail1", up=True), False, "rail1 has no carrier"),
        (link("rail1", carrier=True), False, "rail1 is set down"),
        (None, False, "rail1 is not on the node"),
        (None, True, ""),
    ],
)
def test_a_rail_is_healthy_while_its_port_is_up(port: Link | None, away: bool, reason: str) -> None:
    spec = agent_spec.parse_spec(document(rail(1)))
    assert rail_health.down(spec.rails[0], port, away) == reason


def test_a_cordoned_rail_is_unhealthy_whatever_its_port_does() -> None:
    assert rail_health.Health().healthy
    cordoned = rail_health.Health("", "a new cable")
    assert (cordoned.healthy, cordoned.reason) == (False, "cordoned: a new cable")
    assert rail_health.Health("rail1 is set down", "a new cable").reason == "rail1 is set down; cordoned: a new cable"
