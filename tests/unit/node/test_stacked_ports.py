# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports that are bonds or VLANs: which interface the agent takes for a port, health, RDMA devices and metrics."""

from __future__ import annotations

import contextlib
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_metrics,
    agent_spec,
    cdi_files,
    pod_desired,
    rail_health,
    stacked_ports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from tests.unit.node.agent_files import document, rail
from tests.unit.node.test_agent_links import Kernel, source
from tests.unit.node.trees import Tree

FIRST, SECOND, OTHER = "0000:29:00.0", "0000:29:00.1", "0000:3a:00.0"
MEMBERS = {"ens2f0np0": FIRST, "ens2f1np1": SECOND}
BOND, VLAN = "/sys/class/net/bond0", "/sys/class/net/bond0.100"


def vlan_data(number: int) -> bytes:
    return codec.attribute(1, struct.pack("=H", number))


def link(name: str, index: int, kind: str | None = None, **values: t.Any) -> Link:
    base: dict[str, t.Any] = {"up": True, "carrier": True, "mtu": 9000, "min_mtu": 0, "max_mtu": 0, "address": bytes(6)}
    return Link(ifindex=index, name=name, altnames=(), kind=kind, **{**base, **values})


LINKS = {
    "ens2f0np0": link("ens2f0np0", 2, master=5),
    "ens2f1np1": link("ens2f1np1", 3, master=5),
    "bond0": link("bond0", 5, "bond"),
    "bond0.100": link("bond0.100", 6, "vlan", below=5, data=vlan_data(100)),
    "ens2f0np0.7": link("ens2f0np0.7", 7, "vlan", below=2, data=vlan_data(7)),
}
LOWER = {
    "bond0": {"vlan": None, "parent": None, "bond": "bond0", "functions": [FIRST, SECOND]},
    "bond0.100": {"vlan": 100, "parent": "bond0", "bond": "bond0", "functions": [FIRST, SECOND]},
    "ens2f0np0.7": {"vlan": 7, "parent": "ens2f0np0", "bond": None, "functions": [FIRST]},
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A bond over the functions of a card, in mode 802.3ad with both members in one aggregate, and another card."""
    tree = Tree(tmp_path)
    for number, (name, pci) in enumerate({**MEMBERS, "ens3np0": OTHER}.items()):
        tree.function("pci0000:20/0000:20:0%d.0/%s" % (number, pci), numa=1)
        tree.netdev(pci, name, carrier="1")
    tree.write(BOND + "/bonding/mode", "802.3ad 4")
    tree.write(BOND + "/bonding/ad_aggregator", "1")
    tree.write(BOND + "/bonding/ad_partner_mac", "02:1e:af:00:01:00")
    for name in MEMBERS:
        tree.link(BOND + "/lower_" + name, "/sys/class/net/" + name)
        tree.write("/sys/class/net/%s/bonding_slave/mii_status" % name, "up")
        tree.write("/sys/class/net/%s/bonding_slave/ad_aggregator_id" % name, "1")
    return tree


def spec_of(name: str, **values: t.Any) -> agent_spec.AgentSpec:
    one = rail(1, netdev=name, pci=None, lower={**LOWER[name], **values.pop("lower", {})}, **values)
    return agent_spec.parse_spec(document(one))


def taken(tree: Tree, name: str, **links: Link) -> t.Any:
    """The source of a slot on a node with these links instead of the healthy ones."""
    kernel = Kernel(*{**LINKS, **{each.name: each for each in links.values()}}.values())
    return source(tree, kernel, spec_of(name))


@pytest.mark.parametrize("name", sorted(LOWER))
def test_a_pod_gets_an_interface_on_the_planned_bond_or_vlan(tree: Tree, name: str) -> None:
    assert taken(tree, name) == (name, LINKS[name].ifindex, None, None)


@pytest.mark.parametrize(
    ("name", "fake", "reason"),
    [
        ("bond0", link("bond0", 5, "veth"), "bond0 is not a bond"),
        ("bond0", link("bond0", 5), "bond0 is not a bond"),
        ("bond0.100", link("bond0.100", 6, "dummy"), "bond0.100 is not a VLAN"),
        ("bond0.100", link("bond0.100", 6, "vlan", below=5, data=vlan_data(200)), "has the VLAN id 200, not 100"),
        ("bond0.100", link("bond0.100", 6, "vlan", below=5), "has the VLAN id unknown, not 100"),
        # a VLAN that a pod has made in its namespace and moved to the node
        (
            "bond0.100",
            link("bond0.100", 6, "vlan", below=5, below_namespace=1, data=vlan_data(100)),
            "does not have the parent",
        ),
        ("bond0.100", link("bond0.100", 6, "vlan", below=99, data=vlan_data(100)), "parent of the VLAN bond0.100"),
        ("bond0.100", link("bond0.100", 6, "vlan", below=2, data=vlan_data(100)), "ens2f0np0 is not a bond"),
        ("ens2f0np0.7", link("ens2f0np0.7", 7, "vlan", below=3, data=vlan_data(7)), "not the interface of " + FIRST),
        ("ens2f0np0.7", link("ens2f0np0.7", 7, "vlan", below=5, data=vlan_data(7)), "bond0 is not the interface of"),
    ],
)
def test_another_interface_with_the_name_of_the_port_is_refused(tree: Tree, name: str, fake: Link, reason: str) -> None:
    with pytest.raises(AttachError, match=reason) as caught:
        taken(tree, name, fake=fake)
    assert caught.value.reason == "stack"
    assert "run the playbook again" in caught.value.remedy


@pytest.mark.parametrize("name", ["bond0", "bond0.100"])
def test_a_bond_with_another_member_or_without_its_own_is_refused(tree: Tree, name: str) -> None:
    tree.link(BOND + "/lower_wire", "/sys/class/net/wire")
    with pytest.raises(AttachError, match="bond0 has the member wire, which is not planned"):
        taken(tree, name)
    for member in ("wire", *MEMBERS):
        (tree.root / BOND.lstrip("/") / ("lower_" + member)).unlink()
    with pytest.raises(AttachError, match="bond0 has none of its members %s, %s" % (FIRST, SECOND)):
        taken(tree, name)


def test_a_bond_with_one_member_serves_pods(tree: Tree) -> None:
    (tree.root / BOND.lstrip("/") / "lower_ens2f1np1").unlink()
    assert taken(tree, "bond0").ifindex == 5


# -- health ------------------------------------------------------------------------------------------------------------


def test_all_members_of_a_healthy_bond_carry_traffic(tree: Tree) -> None:
    for name in ("bond0", "bond0.100"):
        found = stacked_ports.members(tree.system(), spec_of(name).rails[0])
        assert found and (found.planned, found.active, found.problems) == (2, 2, ())
    assert stacked_ports.members(tree.system(), spec_of("ens2f0np0.7").rails[0]) is None


@pytest.mark.parametrize(
    ("path", "text", "problems"),
    [
        ("ens2f1np1/carrier", "0", ["ens2f1np1 has no carrier"]),
        ("ens2f1np1/bonding_slave/mii_status", "down", ["ens2f1np1 is down in bond0"]),
        ("ens2f1np1/bonding_slave/ad_aggregator_id", "2", ["ens2f1np1 is not in the aggregate of bond0"]),
        (
            "bond0/bonding/ad_partner_mac",
            "00:00:00:00:00:00",
            ["ens2f0np0 has no LACP partner", "ens2f1np1 has no LACP partner"],
        ),
    ],
)
def test_a_member_without_traffic_degrades_the_rail_and_keeps_its_slots(
    tree: Tree, path: str, text: str, problems: list[str]
) -> None:
    tree.write("/sys/class/net/" + path, text)
    members = stacked_ports.members(tree.system(), spec_of("bond0").rails[0])
    assert members and list(members.problems) == problems
    health = rail_health.Health(members=members)
    assert (health.healthy, health.degraded) == (True, "; ".join(problems))
    # a rail that is down is not called degraded too
    assert rail_health.Health("bond0 has no carrier", members=members).degraded == ""


def test_a_function_that_is_not_a_member_or_has_no_interface_degrades_the_rail(tree: Tree) -> None:
    (tree.root / BOND.lstrip("/") / "lower_ens2f1np1").unlink()
    members = stacked_ports.members(tree.system(), spec_of("bond0").rails[0])
    assert members and members.problems == ("ens2f1np1 is not a member of bond0",)
    lower = {"functions": [FIRST, "0000:29:00.2"]}
    members = stacked_ports.members(tree.system(), spec_of("bond0", lower=lower).rails[0])
    assert members and members.problems == ("0000:29:00.2 has no interface on the node",)


def test_a_waiting_member_of_active_backup_has_no_problem(tree: Tree) -> None:
    tree.write(BOND + "/bonding/mode", "active-backup 1")
    tree.write("/sys/class/net/ens2f1np1/bonding_slave/ad_aggregator_id", "2")
    tree.write("/sys/class/net/ens2f1np1/bonding_slave/state", "backup")
    members = stacked_ports.members(tree.system(), spec_of("bond0").rails[0])
    assert members and members.active == 2


def test_metrics_count_the_members(tree: Tree) -> None:
    tree.write("/sys/class/net/ens2f1np1/carrier", "0")
    members = stacked_ports.members(tree.system(), spec_of("bond0").rails[0])
    out = Exposition()
    row = {"rail": "gpu01", "port": "bond0", "healthy": True, "cordoned": False, "reason": "", "members": 2}
    row.update(active_members=members and members.active, degraded="ens2f1np1 has no carrier")
    plain = {**{key: row[key] for key in ("healthy", "cordoned", "reason")}, "rail": "gpu02", "port": "ens3np0"}
    status: dict[str, t.Any] = {"version": "1", "fabric": "ai", "node": "n", "attachment": "macvlan", "unattached": 0}
    attaches = {"count": 0, "seconds": 0, "failed": {}}
    status.update(rails=[row, plain], resources=[], conflicts=[], attaches=attaches)
    agent_metrics.add_agent(out, status)
    lines = [line for line in out.text().splitlines() if "_rail_" in line and not line.startswith("#")]
    labels = '{port="bond0",rail="gpu01"}'
    for name, value in (("healthy", 1), ("degraded", 1), ("members", 2), ("members_active", 1)):
        assert {"railyard_agent_rail_%s%s %d" % (name, each, value) for each in (labels, _swapped(labels))} & set(lines)
    assert not [line for line in lines if "gpu02" in line and ("degraded" in line or "members" in line)]


def _swapped(labels: str) -> str:
    first, second = labels.strip("{}").split(",")
    return "{%s,%s}" % (second, first)


# -- RDMA devices ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [FIRST, SECOND])
def test_a_lag_has_its_rdma_device_on_any_of_its_functions(tree: Tree, function: str) -> None:
    tree.rdma(function, "mlx5_bond_0", "Ethernet")
    tree.write(tree.real(function) + "/infiniband_verbs/uverbs0/dev", "231:192")
    for name in ("bond0", "bond0.100"):
        spec = spec_of(name, rdma="mlx5_bond_0")
        assert rail_health.rdma_down(spec, (), tree.system()) == {}
        assert [file.rpartition("/")[2] for file in cdi_files.verbs(tree.system(), spec, spec.rails[0])] == ["uverbs0"]
    tree.rdma(OTHER, "mlx5_7", "Ethernet")
    (reason,) = rail_health.rdma_down(spec_of("bond0", rdma="mlx5_7"), (), tree.system()).values()
    assert reason == "the RDMA device mlx5_7 belongs to %s, and not to bond0" % OTHER


def nccl(tree: Tree, *rails: dict[str, t.Any]) -> str:
    spec = agent_spec.parse_spec(document(*rails))
    device = spec.device("rails-0")
    assert device
    return cdi_files.environment(tree.system(), spec, device)["NCCL_IB_HCA"]


def test_nccl_gets_each_device_of_the_rails_once_with_its_port(tree: Tree) -> None:
    shared = [rail(1, rdma="mlx5_bond_0"), rail(2, rdma="mlx5_bond_0")]
    assert nccl(tree, *shared) == "=mlx5_bond_0"
    planes = [rail(1, rdma="mlx5_0", rdma_port=3), rail(2, rdma="mlx5_0", rdma_port=6)]
    assert nccl(tree, *planes) == "=mlx5_0:3,mlx5_0:6"
    assert nccl(tree, rail(1, rdma="mlx5_0"), rail(2, rdma="mlx5_1")) == "=mlx5_0,mlx5_1"


# -- the node file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attachment", ["host-device", "sriov", "ipoib"])
def test_an_attachment_that_a_bond_cannot_have_is_refused(attachment: str) -> None:
    with pytest.raises(RailyardError, match="rail gpu01 has attachment %s on a bond or VLAN" % attachment):
        spec_of("bond0", attachment=attachment)


def test_rails_of_a_node_have_their_own_attachments() -> None:
    rails = [rail(1), rail(2, attachment="ipvlan"), rail(3, attachment="host-device"), rail(4, attachment="sriov")]
    spec = agent_spec.parse_spec(document(*rails))
    assert [each.attachment for each in spec.rails] == ["macvlan", "ipvlan", "host-device", "sriov"]
    assert [each.moved for each in spec.rails] == [False, False, True, True]
    assert [each.has_vfs for each in spec.rails] == [False, False, False, True]


def test_a_pod_keeps_the_bond_and_the_attachment_with_which_it_was_attached() -> None:
    spec = agent_spec.parse_spec(
        document(rail(1, netdev="bond0", lower=LOWER["bond0"], attachment="ipvlan"), attachment="macvlan")
    )
    device = spec.device("rails-0")
    assert device
    kept = pod_desired.kept_spec(spec, pod_desired.plan_of(spec, device))
    assert kept.rails[0].lower == spec.rails[0].lower
    assert kept.rails[0].attachment == "ipvlan"


def _device(tree: Tree, *down: int) -> None:
    for number in (3, 6):
        state = "1: DOWN" if number in down else "4: ACTIVE"
        tree.write("/sys/class/infiniband/roce_r1/ports/%d/state" % number, state)


PLANES: dict[str, list[dict[str, t.Any]]] = {
    "ports": [{"plane": 1, "rdma_port": 3, "pci": None}, {"plane": 2, "rdma_port": 6, "pci": None}],
    "functions": [{"plane": 1, "rdma_port": None, "pci": FIRST}, {"plane": 2, "rdma_port": None, "pci": SECOND}],
}


@pytest.mark.parametrize("form", PLANES)
def test_a_rail_is_degraded_without_a_plane_and_down_without_all(
    form: str, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rail(1, netdev="ens2f0np0", pci=FIRST, rdma="roce_r1", planes=PLANES[form])
    spec = agent_spec.parse_spec(document(row))
    assert spec.rails[0].functions == ((FIRST, SECOND) if form == "functions" else (FIRST,))

    def health(*down: int) -> rail_health.Health:
        _device(tree, *(3 * number for number in down))
        for number, name in enumerate(MEMBERS, 1):
            tree.write("/sys/class/net/%s/carrier" % name, "0" if number in down else "1")
        port = link("ens2f0np0", 2, carrier=1 not in down or form == "ports")
        monkeypatch.setattr(rail_health, "Rtnetlink", lambda: contextlib.nullcontext(Kernel(port)))
        return rail_health.look(spec, [], {}, {}, tree.system())["gpu01"]

    assert (health().reason, health().degraded) == ("", "")
    what = {"ports": "port %d of roce_r1 is 1: DOWN", "functions": "%s has no carrier"}[form]
    names = {"ports": (3, 6), "functions": tuple(MEMBERS)}[form]
    for number in (1, 2):
        lost = health(number)
        assert (lost.reason, lost.degraded) == ("", "plane %d: %s" % (number, what % names[number - 1]))
        assert lost.members == stacked_ports.Members(2, (lost.degraded,)) and lost.members.active == 1
    assert health(1, 2).reason == "no plane of ens2f0np0 carries traffic"


def test_a_plane_that_the_node_does_not_have_is_named(tree: Tree) -> None:
    _device(tree)
    planes = [
        PLANES["ports"][0],
        {"plane": 2, "rdma_port": 9, "pci": None},
        {"plane": 3, "rdma_port": None, "pci": "0000:29:00.7"},
    ]
    spec = agent_spec.parse_spec(document(rail(1, netdev="ens2f0np0", pci=FIRST, rdma="roce_r1", planes=planes)))
    members = stacked_ports.members(tree.system(), spec.rails[0])
    assert members and members.problems == (
        "plane 2: roce_r1 has no port 9",
        "plane 3: 0000:29:00.7 has no interface on the node",
    )


def test_planes_without_port_and_function_are_refused() -> None:
    planes = [{"plane": 1, "rdma_port": None, "pci": None}]
    with pytest.raises(RailyardError, match="neither a function nor an RDMA port for plane 1"):
        agent_spec.parse_spec(document(rail(1, planes=planes)))
