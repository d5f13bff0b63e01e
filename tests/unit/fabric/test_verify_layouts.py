# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on bonds, VLANs, shared RDMA devices and one network, and facts that contradict the plan.

The rows have the format of ``rail_info``. Names, states and MAC addresses of bonds come from two guests of Debian 13
with igb ports. ``mlx5_bond_0`` belongs to the first member, as ``rdma link`` shows it with RoCE LAG (public reports of
clusters).
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine
from tests.unit.fabric.verify_nodes import SERVERS, Row, World, only_failure, plan

NODE = "ai-2"
Harm = t.Callable[[World], t.Any]


def layout(subnets: t.Mapping[str, str], ports: str) -> str:
    """A fabric of nodes without Kubernetes. ``subnets``: rail -> its subnet; ``ports``: the profile's."""
    rails = ["  %s: {subnet: %s, hosts: .0.1-.3.254}\n" % row for row in subnets.items()]
    return """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: host, provider: none, mtu: 9000}
rails:
%sprofiles:
  server:
    ports:%sunits:
  su1: {nodes: 32}
""" % ("".join(rails), ports)


LAG = '{name: bond0, members: [{pci: "0000:29:00.0", netdev: m0}, {pci: "0000:29:00.1", netdev: m1}], lacp_rate: fast}'
BONDS = layout(
    {"stor1": "10.241.0.0/16", "stor2": "10.242.0.0/16", "stor3": "10.243.0.0/16"},
    """
      stor1: {bond: LAG, vlan: 100, rdma: mlx5_bond_0}
      stor2: {bond: LAG, vlan: 200, rdma: mlx5_bond_0}
      stor3: {bond: {name: bond1, mode: active-backup,
              members: [{pci: "0000:3a:00.0", netdev: b0}, {pci: "0000:3a:00.1", netdev: b1}]}, rdma: mlx5_bond_1}
""".replace("LAG", LAG),
)
PLANES = layout(
    {"r1p1": "10.1.0.0/16", "r1p2": "10.2.0.0/16", "r1p3": "10.3.0.0/16"},
    """
      r1p1: {netdev: eth_r1_p0, pci: "0000:18:00.0", rdma: "mlx5_0:3"}
      r1p2: {netdev: eth_r1_p1, pci: "0000:18:00.1", rdma: "mlx5_0:6"}
      r1p3: {netdev: eth_r1_p2, pci: "0000:18:00.2", rdma: "mlx5_0:9"}
""",
)
FLAT = layout(
    {"gpu[01:04]": "10.248.0.0/16, numbering: node", "stor1": "10.249.0.0/16"},
    """
      gpu01: {netdev: ens1, pci: "0000:01:00.0", rdma: mlx5_gpu01}
      gpu02: {netdev: ens2, pci: "0000:02:00.0", rdma: mlx5_gpu02}
      gpu03: {netdev: ens3, pci: "0000:03:00.0", rdma: mlx5_gpu03}
      gpu04: {netdev: ens4, pci: "0000:04:00.0", rdma: mlx5_gpu04}
      stor1: {netdev: ens5, pci: "0000:05:00.0", rdma: mlx5_stor1}
""",
)
PLAIN = layout(
    {"gpu01": "10.1.0.0/16", "gpu02": "10.2.0.0/16"},
    """
      gpu01: {netdev: ens1, pci: "0000:18:00.0", rdma: mlx5_0}
      gpu02: {netdev: ens2, pci: "0000:29:00.0", rdma: mlx5_1}
""",
)
INFINIBAND = PLAIN.replace(
    "attachment: host, provider: none, mtu: 9000", "attachment: host, provider: none, mtu: 4092, link_layer: infiniband"
)
TEXTS = {"bonds": BONDS, "planes": PLANES, "flat": FLAT, "plain": PLAIN, "infiniband": INFINIBAND}


def world_of(name: str, nodes: int = 4) -> World:
    world = World(plan(nodes, TEXTS[name]))
    for info in world.infos.values():
        if name == "bonds":
            # a pair of leaves that is one LACP system
            for row in info["lldp"]:
                second = row["netdev"][-1] == "1"
                row.update(chassis="00:1b:54:c2:00:%s" % ("0b" if second else "0a"), port="swp1")
                row["system"] = "%s%s" % (row["system"].partition(".")[0], "-b" if second else "")
    return world


def found(world: World, kind: str = "verify", **asked: t.Any) -> list[tuple[str, str | None, str | None]]:
    return [(each["code"], each["node"], each["rail"]) for each in world.document(kind, **asked)["failures"]]


def above(world: World, netdev: str, node: str = NODE) -> Row:
    row: Row = next(row for row in world.infos[node]["interfaces"] if row["netdev"] == netdev)
    return row


def member(world: World, bond: str, netdev: str, node: str = NODE) -> Row:
    row: Row = next(row for row in above(world, bond, node)["bond"]["members"] if row["netdev"] == netdev)
    return row


def nic(world: World, netdev: str, node: str = NODE) -> Row:
    row: Row = next(row for row in world.infos[node]["nics"] if row["netdev"] == netdev)
    return row


@pytest.mark.parametrize("name", TEXTS)
def test_a_layout_as_planned_has_no_failures_and_no_warnings(name: str) -> None:
    world = world_of(name)
    for kind in ("verify", DRIFT):
        verdict = world.document(kind)
        assert (verdict["failures"], verdict["warnings"]) == ([], [])
        assert all(layer["failed"] == layer["not_checked"] == 0 for layer in verdict["layers"])


# -- bonds and VLANs ---------------------------------------------------------------------------------------------------


def remove(world: World, netdev: str) -> None:
    """An interface that was deleted loses its addresses, routes and traffic."""
    info = world.infos[NODE]
    info["interfaces"] = [row for row in info["interfaces"] if row["netdev"] != netdev]
    for key in ("addresses", "routes"):
        info["ip"][key] = [row for row in info["ip"][key] if row["netdev"] != netdev]
    for rail in [port["rail"] for port in world.plans[NODE]["ports"] if port["netdev"] == netdev]:
        world.lose(NODE, rail, error="no socket")


def member_removed(world: World) -> None:
    nic(world, "b1")["master"] = None
    row = above(world, "bond1")
    row["lower"].remove("b1")
    row["bond"]["members"].pop()


def card_of_member_removed(world: World) -> None:
    world.infos[NODE]["nics"].remove(nic(world, "b1"))
    row = above(world, "bond1")
    row["lower"].remove("b1")
    row["bond"]["members"].pop()


def member_of_other_bond(world: World) -> None:
    member_removed(world)
    nic(world, "b1")["master"] = "bond7"
    other = dict(above(world, "bond1"), netdev="bond7", lower=["b1"])
    world.infos[NODE]["interfaces"].append(other)


def member_without_carrier(world: World) -> None:
    nic(world, "b1").update(carrier=False, speed=None)
    member(world, "bond1", "b1")["link"] = "down"
    world.infos[NODE]["lldp"] = [row for row in world.infos[NODE]["lldp"] if row["netdev"] != "b1"]


def member_set_down(world: World) -> None:
    nic(world, "b1").update(up=False, carrier=False)
    member(world, "bond1", "b1")["link"] = "down"


def all_members_down(world: World) -> None:
    for netdev in ("b0", "b1"):
        nic(world, netdev).update(carrier=False)
        member(world, "bond1", netdev)["link"] = "down"
    above(world, "bond1").update(carrier=False)
    world.device(NODE, "stor3")["state"] = "DOWN"
    world.lose(NODE, "stor3")


def mode_changed(world: World) -> None:
    above(world, "bond1")["bond"]["mode"] = "balance-rr"
    world.lose(NODE, "stor3", received=1)


def kind_of(row: Row) -> Harm:
    def act(world: World) -> None:
        above(world, "bond1").update(bond=None, **row)

    return act


def vlan_other_parent(world: World) -> None:
    row = next(row for row in world.infos[NODE]["interfaces"] if row["netdev"] == "bond0.200")
    row["lower"] = ["eno1"]
    world.lose(NODE, "stor2")


def vlan_other_id(world: World) -> None:
    above(world, "bond0.200")["vlan"] = 300
    world.lose(NODE, "stor2")


def vlan_other_name(world: World) -> None:
    row = dict(above(world, "bond0.200"), netdev="storage0")
    remove(world, "bond0.200")
    world.infos[NODE]["interfaces"].append(row)


def bond_in_bridge(world: World) -> None:
    row = dict(above(world, "bond1"), netdev="br0", kind="bridge", lower=["bond1"], bond=None)
    world.infos[NODE]["interfaces"].append(row)
    above(world, "bond1")["master"] = "br0"
    world.lose(NODE, "stor3")


def address_on_member(world: World) -> None:
    rows = world.infos[NODE]["ip"]["addresses"]
    next(row for row in rows if row["netdev"] == "bond1")["netdev"] = "b0"
    world.lose(NODE, "stor3", error="no socket")


def member_mtu(world: World) -> None:
    nic(world, "b1")["mtu"] = 1500
    world.lose(NODE, "stor3", {"small": True, "path_mtu": 1500})


def device_renamed(world: World) -> None:
    for row in [*world.infos[NODE]["rdma"], *world.infos[NODE]["gids"]]:
        row["device"] = "mlx5_2" if row["device"] == "mlx5_bond_1" else row["device"]
    for transfer in world.transfers(NODE, "stor3"):
        transfer.update(gbits=None, error="there is no RDMA device mlx5_bond_1")


def both_lost(world: World, received: int = 0) -> None:
    """Both VLANs of the bond."""
    for rail in ("stor1", "stor2"):
        world.lose(NODE, rail, received=received)


BOND_HARMS: list[tuple[str, Harm, str, str, t.Sequence[str]]] = [
    ("bond deleted", lambda w: remove(w, "bond1"), "RV411", "stor3", ["bond of b0, b1", "none"]),
    ("VLAN deleted", lambda w: remove(w, "bond0.200"), "RV411", "stor2", ["VLAN 200 on bond0", "none"]),
    ("VLAN with another name", vlan_other_name, "RV411", "stor2", ["the same with the name storage0"]),
    ("VLAN with another ID", vlan_other_id, "RV419", "stor2", ["VLAN 200 on bond0", "VLAN 300 on bond0"]),
    ("VLAN on another parent", vlan_other_parent, "RV419", "stor2", ["VLAN 200 on eno1"]),
    ("bridge for a bond", kind_of({"kind": "bridge"}), "RV410", "stor3", ["bond1 (bridge of b0, b1)"]),
    ("team for a bond", kind_of({"kind": "team"}), "RV410", "stor3", ["bond1 (team of b0, b1)"]),
    ("bond in a bridge", bond_in_bridge, "RV412", "stor3", ["member of br0 (bridge of bond1)"]),
    ("member removed", member_removed, "RV413", "stor3", ["b1", "no member"]),
    (
        "member of another bond",
        member_of_other_bond,
        "RV413",
        "stor3",
        ["bond7 (bond of b1)", "ip link set b1 nomaster"],
    ),
    ("card of a member removed", card_of_member_removed, "RV413", "stor3", ["no PCI function 0000:3a:00.1"]),
    ("member without carrier", member_without_carrier, "RV414", "stor3", ["b1", "no carrier"]),
    ("member set down", member_set_down, "RV414", "stor3", ["it is set down", "ip link set b1 up"]),
    ("no member has a link", all_members_down, "RV402", "stor3", ["b0: no carrier; b1: no carrier"]),
    ("mode changed by hand", mode_changed, "RV415", "stor3", ["active-backup", "balance-rr"]),
    ("address on a member", address_on_member, "RV501", "stor3", ["on b0"]),
    ("MTU of a member", member_mtu, "RV404", "stor3", ["mtu of b1", "1500"]),
    ("device renamed", device_renamed, "RV406", "stor3", ["mlx5_2"]),
    ("MTU of a VLAN", lambda w: above(w, "bond0.200").update(mtu=1500), "RV404", "stor2", ["mtu of bond0.200"]),
    ("VLAN set down", lambda w: above(w, "bond0.200").update(up=False), "RV401", "stor2", ["link bond0.200"]),
    ("VLAN not on the leaf", lambda w: w.lose(NODE, "stor2"), "RV801", "stor2", ["does not pass VLAN 200"]),
]


@pytest.mark.parametrize(
    ("harm", "code", "rail", "words"), [row[1:] for row in BOND_HARMS], ids=[r[0] for r in BOND_HARMS]
)
def test_a_fault_of_a_bond_or_vlan_is_one_failure_that_names_it(
    harm: Harm, code: str, rail: str, words: t.Sequence[str]
) -> None:
    world = world_of("bonds")
    harm(world)
    failure = only_failure(world.document(), code, NODE, rail)
    text = " ".join(str(failure[key]) for key in ("what", "expected", "found", "cause", "remedy"))
    assert all(word in text for word in words), text
    assert "PCI bus" not in text or code == "RV413"
    drifts = [] if code in ("RV402", "RV414", "RV801") else [(code, NODE, rail)]
    assert found(world, DRIFT) == drifts


SETTINGS = {"hash_policy": "layer2", "lacp_rate": "slow"}


def lacp(world: World, **values: t.Any) -> None:
    member(world, "bond0", "m1").update(values)


# the bond carries two rails
SHARED_HARMS: list[tuple[str, Harm, str, t.Sequence[str]]] = [
    *(
        ("%s changed" % key, lambda w, k=key, v=value: above(w, "bond0")["bond"].update({k: v}), "RV416", [value])  # type: ignore[misc]
        for key, value in SETTINGS.items()
    ),
    ("another member", lambda w: above(w, "bond0")["lower"].append("eno2"), "RV416", ["m0, m1, eno2"]),
    (
        "no partner for one member",
        lambda w: lacp(w, partner_mac=None, aggregator=2),
        "RV414",
        ["no LACP partner answers"],
    ),
    (
        "member on another switch",
        lambda w: lacp(w, partner_mac="02:bb:00:00:00:01", aggregator=2),
        *("RV418", ["LACP partner of m1", "02:bb:00:00:00:01", "02:aa:00:00:00:01 as m0"]),
    ),
    ("another LACP key", lambda w: lacp(w, aggregator=2), "RV414", ["aggregator 2, which is not active", "LACP key"]),
]


@pytest.mark.parametrize(("harm", "code", "words"), [row[1:] for row in SHARED_HARMS], ids=[r[0] for r in SHARED_HARMS])
def test_a_fault_of_a_bond_is_one_failure_of_all_rails_on_it_and_they_keep_their_state(
    harm: Harm, code: str, words: t.Sequence[str]
) -> None:
    world = world_of("bonds")
    harm(world)
    verdict = world.document()
    failure = only_failure(verdict, code, NODE, "stor1")
    assert failure["rails"] == ["stor1", "stor2"]
    text = " ".join(str(value) for value in failure.values())
    assert all(word in text for word in words), text
    # traffic has proven the rails, and they are not cordoned
    assert {each["state"] for each in verdict["proof"].values()} == {"proven"} and not verdict["ok"]
    assert verdict["matrix"][NODE] == {"stor1": "ok", "stor2": "ok", "stor3": "ok"}
    assert verify_engine.bad_rails(world.verdict()).get(NODE, []) == []
    assert verdict["headline"] == "12 of 12 ports proven, 2 degraded on %s" % NODE


def test_a_bond_without_an_lacp_partner_is_one_failure_of_its_rails() -> None:
    world = world_of("bonds")
    for netdev in ("m0", "m1"):
        member(world, "bond0", netdev)["partner_mac"] = None
    above(world, "bond0")["bond"]["partner_mac"] = None
    both_lost(world)
    assert only_failure(world.document(), "RV417", NODE, "stor1")["rails"] == ["stor1", "stor2"]
    assert found(world, rails=["stor2"]) == [("RV417", NODE, "stor2")]
    assert found(world, DRIFT) == []
    # without root, the node shows only the partner of the bond
    above(world, "bond0")["bond"]["partner_mac"] = "02:aa:00:00:00:01"
    assert [code for code, _node, _rail in found(world, layers=["link"])] == []


def test_a_bond_of_two_rails_that_was_deleted_is_one_failure() -> None:
    world = world_of("bonds")
    for netdev in ("bond0", "bond0.100", "bond0.200"):
        remove(world, netdev)
    failure = only_failure(world.document(), "RV411", NODE, "stor1")
    assert (failure["what"], failure["rails"]) == ("bond0", ["stor1", "stor2"])


def test_a_parent_that_is_set_down_is_named_and_not_the_cable() -> None:
    world = world_of("bonds")
    for netdev in ("bond0", "bond0.100", "bond0.200"):
        above(world, netdev)["carrier"] = False
    above(world, "bond0")["up"] = False
    both_lost(world)
    rows = world.document()["failures"]
    assert [(each["code"], each["rail"], each["what"]) for each in rows] == [
        ("RV401", "stor1", "link bond0"),
        ("RV401", "stor2", "link bond0"),
    ]


def test_a_failed_member_does_not_hide_a_failure_of_the_rail() -> None:
    world = world_of("bonds")
    member_without_carrier(world)
    world.lose(NODE, "stor3")
    assert found(world) == [("RV414", NODE, "stor3"), ("RV801", NODE, "stor3")]


def predicted(*rows: tuple[str, str, t.Any, t.Any], **fields: str) -> Row:
    """The changes that rail_ports predicts."""
    keys = ("subject", "attribute", "before", "after")
    return {"changes": [dict(zip(keys, row), **fields) for row in rows]}


STEPS = [
    ("bond1", "bond.mode", "balance-rr", "active-backup"),
    ("bond1", "state", "down", "up"),
    ("bond1", "address", None, "2001:db8::2/64"),
]


@pytest.mark.parametrize("kind", ["verify", DRIFT])
def test_the_steps_with_which_a_bond_is_corrected_are_not_failures(kind: str) -> None:
    world = world_of("bonds")
    mode_changed(world)
    world.states[NODE]["rail_ports"] = predicted(*STEPS)
    assert found(world, kind) == [("RV415", NODE, "stor3")]
    # a bond without its member, and a bond that was deleted
    world = world_of("bonds")
    member_removed(world)
    world.states[NODE]["rail_ports"] = predicted(("b1", "master", None, "bond1"))
    assert found(world, kind) == [("RV413", NODE, "stor3")]
    world = world_of("bonds")
    remove(world, "bond1")
    rows = [("bond1", "interface", None, "bond of b0, b1"), ("b0", "master", None, "bond1"), *STEPS[2:]]
    world.states[NODE]["rail_ports"] = predicted(*rows)
    assert found(world, kind) == [("RV411", NODE, "stor3")]


def test_differences_that_only_the_module_compares_are_drift_of_the_bond() -> None:
    world = world_of("bonds")
    world.states[NODE]["rail_ports"] = predicted(("bond1", "bond.miimon", 0, 100))
    assert found(world, DRIFT) == [("RV416", NODE, "stor3")]
    world.states[NODE]["rail_ports"] = predicted(("bond9", "interface", "bond of x0, x1", None))
    assert found(world, DRIFT) == [("RV421", NODE, None)]


def test_a_difference_in_a_bond_of_another_program_has_this_cause() -> None:
    world = world_of("bonds")
    above(world, "bond1").update(managed=False)
    assert found(world) == []
    above(world, "bond1")["bond"]["mode"] = "balance-rr"
    (failure,) = world.document()["failures"]
    assert (failure["code"], failure["cause"]) == ("RV415", "another program created it")
    # rail_ports refuses to change it
    assert failure["playbook"] is None and "managed: false" in failure["remedy"]


def connect(world: World, node: str, netdev: str, leaf: str) -> None:
    """Plug the cable of a netdev into another leaf."""
    row = next(row for row in world.infos[node]["lldp"] if row["netdev"] == netdev)
    row.update(system=leaf, chassis="00:1b:54:c2:00:%s" % leaf[-2:])


def test_a_member_with_another_leaf_than_on_other_nodes_is_named() -> None:
    world = world_of("bonds")
    connect(world, NODE, "b1", "spine-99")
    failure = only_failure(world.document(), "RV705", NODE, "stor3")
    assert (failure["what"], failure["found"], failure["peer"]) == ("leaf of b1", "b1 on spine-99 swp1", None)
    assert failure["expected"].endswith("as ai-1, ai-3, ai-4")
    assert world.document()["proof"]["stor3"]["state"] == "proven"
    # both cables in one leaf of the pair
    world = world_of("bonds")
    connect(world, NODE, "b1", "leaf-0a")
    assert found(world) == [("RV705", NODE, "stor3")]
    # of two nodes, either can be the cause
    pair = world_of("bonds", 2)
    connect(pair, NODE, "b1", "spine-99")
    (failure,) = pair.document()["failures"]
    assert (failure["code"], failure["node"], failure["peer"]) == ("RV705", NODE, "ai-1")
    assert failure["cause"] == "a cable of this bond or of the bond of ai-1 leads to another leaf"


def test_members_are_compared_with_their_planned_leaves_and_leaf_ports() -> None:
    text = BONDS.replace("su1: {nodes: 32}", 'su1: {nodes: 32, leaf: "leaf{m}", leaf_port: "swp{n}s{i}"}')

    def planned() -> World:
        world = World(plan(4, text))
        for number, info in enumerate(world.infos.values(), 1):
            for row in info["lldp"]:
                second = row["netdev"][-1] == "1"
                rail = 1 if row["netdev"][0] == "m" else 3
                row.update(system="leaf2" if second else "leaf1", port="swp%ds%d" % (rail, number))
                row["chassis"] = "00:1b:54:c2:00:0%d" % (second + 1)
        return world

    assert found(planned()) == []
    world = planned()
    connect(world, NODE, "b1", "leaf9-99")
    failure = only_failure(world.document(), "RV705", NODE, "stor3")
    assert (failure["expected"], failure["found"]) == ("b1 on leaf2 swp3s2", "b1 on leaf9-99 swp3s2")
    # both cables lead to leaves of the rail, and are swapped
    world = planned()
    rows = {row["netdev"]: row for row in world.infos[NODE]["lldp"]}
    rows["b0"]["system"], rows["b1"]["system"] = "leaf2", "leaf1"
    assert only_failure(world.document(), "RV705", NODE, "stor3")["what"] == "leaf of b0, b1"
    world = planned()
    next(row for row in world.infos[NODE]["lldp"] if row["netdev"] == "b1")["port"] = "swp9"
    failure = only_failure(world.document(), "RV704", NODE, "stor3")
    assert (failure["what"], failure["expected"], failure["found"]) == ("leaf port of b1", "leaf2 swp3s2", "leaf2 swp9")


def test_the_address_that_the_leaf_of_a_member_announces_is_compared() -> None:
    world = world_of("bonds")
    for info in world.infos.values():
        for row in info["lldp"]:
            row["port_description"] = "no-alert 10.243.3.255/16"
    world.port(NODE, "stor3").update(leaf={"name": "leaf-1", "port": None, "address": "10.243.3.255"})
    assert world.document()["warnings"] == []
    next(row for row in world.infos[NODE]["lldp"] if row["netdev"] == "b1")["port_description"] = "10.243.9.9/16"
    (warning,) = world.document()["warnings"]
    assert (warning["code"], warning["node"], warning["rail"]) == ("RV706", NODE, "stor3")
    assert (warning["what"], warning["found"]) == ("address of the leaf port of b1", "10.243.9.9/16")


@pytest.mark.parametrize("leaves", ["", ', leaf: "leaf{m}", leaf_port: "swp{n}s{i}"'], ids=["neighbours", "planned"])
@pytest.mark.parametrize("silent", [["b1"], ["b1", "b2"], ["b0", "b1", "b2"]], ids=len)
def test_members_without_lldp_are_not_compared_and_the_others_are(silent: list[str], leaves: str) -> None:
    third = BONDS.replace("netdev: b1}", 'netdev: b1}, {pci: "0000:3a:00.2", netdev: b2}')
    world = World(plan(4, third.replace("{nodes: 32}", "{nodes: 32%s}" % leaves)))
    for number, info in enumerate(world.infos.values(), 1):
        for row in info["lldp"]:
            which, rail = int(row["netdev"][1]) + 1, 1 if row["netdev"][0] == "m" else 3
            row.update(system="leaf%d" % which, chassis="00:1b:54:c2:00:0%d" % which, port="swp%ds%d" % (rail, number))
    info = world.infos[NODE]
    info["lldp"] = [row for row in info["lldp"] if row["netdev"] not in silent]
    assert found(world) == []
    (cabling,) = (each for each in world.document()["layers"] if each["name"] == "cabling")
    assert cabling["why_not"] == "1 ports receive no LLDP"
    heard = [netdev for netdev in ("b0", "b1", "b2") if netdev not in silent]
    for netdev in heard[-1:]:
        connect(world, NODE, netdev, "spine-99")
        assert only_failure(world.document(), "RV705", NODE, "stor3")["what"] == "leaf of %s" % netdev


def test_a_small_mtu_on_the_path_of_a_bond_names_the_leaf_ports_of_all_members() -> None:
    text = BONDS.replace("{nodes: 32}", '{nodes: 32, leaf: "leaf{m}", leaf_port: "swp{n}s{i}"}')
    world = World(plan(4, text))
    for info in world.infos.values():
        info["lldp"] = []
    world.lose(NODE, "stor3", {"small": True, "path_mtu": 1500})
    cause = only_failure(world.document(), "RV802", NODE, "stor3")["cause"]
    assert cause.startswith(
        "the MTU of the leaf port leaf1 swp3s2 or the leaf port leaf2 swp3s2 is smaller; the port fails with ai-"
    )


def test_vlans_of_one_port_have_one_cable() -> None:
    vlans = PLAIN.replace('{netdev: ens1, pci: "0000:18:00.0", rdma: mlx5_0}', "PORT, vlan: 1, rdma: mlx5_0}")
    vlans = vlans.replace('{netdev: ens2, pci: "0000:29:00.0", rdma: mlx5_1}', "PORT, vlan: 2, rdma: mlx5_0}")
    vlans = vlans.replace("PORT", '{netdev: ens1, pci: "0000:18:00.0"').replace(
        "{nodes: 32}", '{nodes: 32, leaf: "leaf-{n}"}'
    )
    world = World(plan(2, vlans))
    for info in world.infos.values():
        for row in info["lldp"]:
            row.update(system="leaf-1", chassis="00:1b:54:c2:00:01")
    assert found(world) == []
    world.infos[NODE]["lldp"][-1].update(system="leaf-9", chassis="00:1b:54:c2:00:09")
    assert found(world) == [("RV701", NODE, "gpu01")]


def test_lacp_and_lldp_show_one_cable_in_another_leaf_once() -> None:
    world = world_of("bonds")
    lacp(world, partner_mac="02:bb:00:00:00:01", aggregator=2)
    connect(world, NODE, "m1", "spine-99")
    verdict = world.document()
    assert {each["code"] for each in verdict["failures"]} == {"RV418"}
    assert verdict["failures"][0]["found"] == "02:bb:00:00:00:01 (spine-99 swp1)"


# Codes of faults that have tests of their own below or above.
CODES = {row[2] for row in (*BOND_HARMS, *SHARED_HARMS)} | {
    "RV409",
    "RV417",
    "RV420",
    "RV421",
    "RV512",
    "RV705",
    "RV808",
}


def test_the_soft_rdma_device_of_a_bond_is_found_by_its_netdev() -> None:
    """rxe is created on the bond, which has no PCI function. A VLAN uses the device of its parent."""
    text = BONDS.replace("server:\n", "server:\n    soft_rdma: rxe\n").replace("mlx5_bond_", "rxe_bond_")
    world = World(plan(4, text))
    for info in world.infos.values():
        for row in info["rdma"]:
            row.update(netdev="bond%s" % row["device"][-1], pci=None)
    assert found(world, layers=["link", "address"]) == []
    world.infos[NODE]["rdma"] = [row for row in world.infos[NODE]["rdma"] if row["device"] != "rxe_bond_0"]
    failures = world.document(layers=["link"])["failures"]
    assert [(each["code"], each["rail"]) for each in failures] == [("RV405", "stor1"), ("RV405", "stor2")]
    assert "the soft RDMA link was deleted" in failures[0]["cause"]


# -- managed: false ----------------------------------------------------------------------------------------------------

UNMANAGED = TEXTS["bonds"].replace("rdma: mlx5_bond_1}", "rdma: mlx5_bond_1, managed: false}")
OWNER: list[tuple[str, Harm, str]] = [
    ("mode", mode_changed, "RV415"),
    ("deleted", lambda w: remove(w, "bond1"), "RV411"),
    ("member", member_removed, "RV413"),
    ("MTU", lambda w: above(w, "bond1").update(mtu=1500), "RV404"),
    ("address", address_on_member, "RV501"),
    ("sysctl", lambda w: w.infos[NODE]["sysctls"]["bond1"].update(rp_filter=1), "RV506"),
]


@pytest.mark.parametrize(("harm", "code"), [row[1:] for row in OWNER], ids=[row[0] for row in OWNER])
@pytest.mark.parametrize("kind", ["verify", DRIFT])
def test_unmanaged_ports_are_compared_and_the_remedy_names_the_owner(harm: Harm, code: str, kind: str) -> None:
    world = World(plan(4, UNMANAGED))
    assert found(world, kind, layers=["link", "address"]) == []
    harm(world)
    (failure,) = world.document(kind, layers=["link", "address"])["failures"]
    assert (failure["code"], failure["playbook"]) == (code, None)
    assert "its owner" in failure["remedy"] and "bond1" in failure["remedy"]


def test_hosts_yml_still_names_the_rdma_device_of_an_unmanaged_port() -> None:
    world = World(plan(4, UNMANAGED))
    device_renamed(world)
    (failure,) = world.document(layers=["link"])["failures"]
    assert (failure["code"], failure["playbook"]) == ("RV406", "playbooks/hosts.yml --limit ai-2")


# -- interfaces above a NIC (case 1) -----------------------------------------------------------------------------------

BY_NAME = PLAIN.replace('{netdev: ens1, pci: "0000:18:00.0", rdma: mlx5_0}', "{netdev: storage0, rdma: mlx5_0}")
KINDS = {
    "bond": ({"kind": "bond", "lower": ["ens1", "ens9"]}, "plan the bond with bond: {name: storage0"),
    "vlan": ({"kind": "vlan", "lower": ["ens1"], "vlan": 100}, "vlan: {id: 100, name: storage0} for the port of ens1"),
    "bridge": ({"kind": "bridge", "lower": ["ens1"]}, "a bridge cannot be a rail port"),
    "team": ({"kind": "team", "lower": ["ens1"]}, "a team cannot be a rail port"),
    "vrf": ({"kind": "vrf", "lower": ["ens1"]}, "a VRF cannot be a rail port"),
}


def row_above(netdev: str, about: Row, functions: t.Sequence[str] = ("0000:18:00.0",)) -> Row:
    row: Row = {"netdev": netdev, "functions": list(functions), "master": None, "vlan": None, "mtu": 9000, "up": True}
    return dict(row, carrier=True, mac="02:00:00:00:09:01", bond=None, **about)


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_is_not_reported_missing_if_an_interface_has_the_planned_name(kind: str) -> None:
    world = World(plan(2, BY_NAME))
    about, remedy = KINDS[kind]
    info = world.infos[NODE]
    nic(world, "storage0").update(netdev="ens1", master=None if kind == "vlan" else "storage0")
    info["interfaces"] = [row_above("storage0", about)]
    failure = only_failure(world.document(), "RV410", NODE, "gpu01")
    assert remedy in failure["remedy"], failure["remedy"]
    assert "PCI bus" not in failure["cause"]


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "vlan"])
def test_a_planned_port_with_a_master_is_named_with_it(kind: str) -> None:
    world = world_of("plain")
    about, _remedy = KINDS[kind]
    nic(world, "ens1")["master"] = "up0"
    world.infos[NODE]["interfaces"] = [row_above("up0", about)]
    rows = world.infos[NODE]["ip"]["addresses"]
    next(row for row in rows if row["netdev"] == "ens1")["netdev"] = "up0"
    world.lose(NODE, "gpu01", error="no socket")
    failure = only_failure(world.document(), "RV412", NODE, "gpu01")
    assert failure["found"].startswith("member of up0 (%s" % kind)
    # an Open vSwitch is not among the interfaces
    world.infos[NODE]["interfaces"] = []
    assert only_failure(world.document(), "RV412", NODE, "gpu01")["found"] == "member of up0"


def test_a_card_that_is_missing_without_any_other_interface_is_missing() -> None:
    world = world_of("plain")
    world.infos[NODE]["nics"].remove(nic(world, "ens1"))
    failure = only_failure(world.document(), "RV201", NODE, "gpu01")
    assert "no longer on the PCI bus" in failure["cause"]
    # its sibling is present: the card is not missing
    world.infos[NODE]["nics"].append(dict(nic(world, "ens2"), pci="0000:18:00.1", netdev="ens1f1"))
    assert "the card is present (0000:18:00.1)" in world.document()["failures"][0]["cause"]


# -- facts that contradict the plan (case 8) ---------------------------------------------------------------------------


def mode_infiniband(world: World, named: bool = True) -> None:
    """What a card in InfiniBand mode reports, with and without IPoIB."""
    row, device = nic(world, "ens1"), world.device(NODE, "gpu01")
    row.update(link_layer="infiniband", mtu=2044, netdev="ibp24s0" if named else None)
    if not named:
        row.update(link_layer=None, mtu=None, up=None, carrier=None)
    device.update(link_layer="infiniband", state="INIT", netdev=None)
    ip = world.infos[NODE]["ip"]
    ip["addresses"] = [each for each in ip["addresses"] if each["netdev"] != "ens1"]
    world.lose(NODE, "gpu01", error="no socket")


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["verify", DRIFT])
def test_a_card_in_infiniband_mode_is_one_failure_with_the_link_type_as_its_remedy(named: bool, kind: str) -> None:
    world = world_of("plain")
    mode_infiniband(world, named)
    failure = only_failure(world.document(kind), "RV409", NODE, "gpu01")
    assert (failure["expected"], failure["found"]) == ("Ethernet", "InfiniBand")
    assert "mstconfig -d 0000:18:00.0 set LINK_TYPE_P1=2" in failure["remedy"]
    assert "subnet manager" not in failure["remedy"] and "MTU" not in failure["what"]


def test_a_card_in_ethernet_mode_is_one_failure_of_an_infiniband_rail() -> None:
    world = world_of("infiniband")
    for name in ("ens1", "ens2"):
        nic(world, name).update(link_layer="ethernet", mtu=1500)
    for rail in ("gpu01", "gpu02"):
        world.device(NODE, rail).update(link_layer="ethernet", state="DOWN")
        world.lose(NODE, rail)
    rows = world.document()["failures"]
    assert [(each["code"], each["rail"], each["found"]) for each in rows] == [
        ("RV409", "gpu01", "Ethernet"),
        ("RV409", "gpu02", "Ethernet"),
    ]
    assert "LINK_TYPE_P1=1" in rows[0]["remedy"]


def test_firmware_that_hosts_yml_sets_is_the_remedy_and_is_not_reported_twice() -> None:
    world = world_of("plain")
    mode_infiniband(world)
    world.port(NODE, "gpu01")["firmware"] = {"link_type": "eth"}
    failure = only_failure(world.document(), "RV409", NODE, "gpu01")
    assert failure["playbook"] == "playbooks/hosts.yml --limit ai-2" and "nic_firmware" in failure["remedy"]
    change = {"subject": "0000:18:00.0", "attribute": "LINK_TYPE_P1", "before": "IB(1)", "after": "ETH(2)"}
    world.states[NODE]["mlx_linktype"] = {"changes": [change]}
    assert found(world) == [("RV101", NODE, "gpu01")]


def test_an_rdma_device_in_another_namespace_is_not_missing() -> None:
    world = world_of("plain")
    world.infos[NODE]["rdma"].remove(world.device(NODE, "gpu01"))
    world.infos[NODE]["gids"] = [row for row in world.infos[NODE]["gids"] if row["device"] != "mlx5_0"]
    why = "its RDMA device mlx5_0 is in network namespace cni-1 (pause pid 4711)"
    nic(world, "ens1")["rdma_holders"] = [why]
    for transfer in world.transfers(NODE, "gpu01"):
        transfer.update(gbits=None, error="there is no RDMA device mlx5_0")
    failure = only_failure(world.document(), "RV420", NODE, "gpu01")
    assert (failure["found"], failure["cause"]) == ("in another namespace", why)
    nic(world, "ens1")["rdma_holders"] = []
    assert found(world) == [("RV405", NODE, "gpu01")]


CAUSES: list[tuple[str, str, t.Callable[[World], t.Any], str, str]] = [
    (
        "zero GUID",
        "infiniband",
        lambda w: w.device(NODE, "gpu01").update(state="INIT", node_guid="0000:0000:0000:0000"),
        *("RV407", "its node GUID is zero"),
    ),
    (
        "no link on InfiniBand",
        "infiniband",
        lambda w: w.device(NODE, "gpu01").update(state="DOWN", physical_state="POLLING"),
        *("RV407", "its physical state is POLLING"),
    ),
    (
        "link without a subnet manager",
        "infiniband",
        lambda w: w.device(NODE, "gpu01").update(state="INIT", node_guid="b8ce:f603:0012:3456"),
        *("RV407", "no subnet manager configured the port"),
    ),
    (
        "NIC of a virtual machine",
        "plain",
        lambda w: nic(w, "ens1").update(netdev=None, driver="vfio-pci"),
        *("RV203", "vfio-pci gives the whole NIC"),
    ),
    (
        "MTU above the maximum of the driver",
        "plain",
        lambda w: nic(w, "ens1").update(mtu=4082, max_mtu=4082),
        *("RV404", "the driver supports at most 4082"),
    ),
]


@pytest.mark.parametrize(("name", "harm", "code", "cause"), [row[1:] for row in CAUSES], ids=[row[0] for row in CAUSES])
def test_the_cause_is_a_known_fact(name: str, harm: Harm, code: str, cause: str) -> None:
    world = world_of(name)
    harm(world)
    assert cause in only_failure(world.document(), code, NODE, "gpu01")["cause"]


IB_VFS = (
    SERVERS.replace('subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253', "mode: none")
    .replace("attachment: sriov, provider: spiderpool", "attachment: ib-sriov, provider: network-operator")
    .replace("mtu: 4200, vfs: {count: 2, trust: true, spoofchk: false}", "mtu: 4092, vfs: {count: 2}")
)


def test_a_vf_with_a_zero_guid_has_this_cause() -> None:
    world = World(plan(2, IB_VFS))
    row = next(row for row in world.infos[NODE]["vfs"] if row["pf"] == "0000:03:00.0")
    row["attributes"]["node_guid"] = "00:00:00:00:00:00:00:00"
    failure = next(each for each in world.document(layers=["driver"])["failures"])
    assert (failure["code"], failure["rail"]) == ("RV206", "gpu03") and "never set" in failure["cause"]


# -- ports of one RDMA device (case 2) ---------------------------------------------------------------------------------


def twelve_ports(world: World, names: t.Mapping[int, str]) -> None:
    """mlx5_0 has twelve ports, four of which have netdevs, on the first function of the card."""
    for info in world.infos.values():
        row = info["rdma"][0]
        info["rdma"] = [
            dict(
                row,
                pci="0000:18:00.0",
                port=number,
                netdev=names.get(number),
                state="ACTIVE" if number in names else "DOWN",
                physical_state="LINK_UP" if number in names else "DISABLED",
            )
            for number in range(1, 13)
        ]


NETDEVS = {3: "eth_r1_p0", 6: "eth_r1_p1", 9: "eth_r1_p2", 12: "eth_r1_p3"}


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("device", ["mlx5_0", None])
def test_each_plane_is_judged_by_its_own_port_of_the_device(numbered: bool, device: str | None) -> None:
    world = world_of("planes")
    for node in world.plans.values():
        for port in node["ports"] if not numbered or device is None else ():
            port["rdma"] = {"name": device, "type": "hardware"}
    if device is None:
        for info in world.infos.values():
            number_of = {"r1p1": 3, "r1p2": 6, "r1p3": 9}
            assert {row["port"] for row in info["gids"]} == set(number_of.values())
    twelve_ports(world, NETDEVS)
    assert found(world) == []
    # only the plane whose port is down
    row = next(row for row in world.infos[NODE]["rdma"] if row["port"] == 6)
    row.update(state="DOWN", physical_state="DISABLED")
    failure = only_failure(world.document(), "RV407", NODE, "r1p2")
    assert failure["what"] == "RDMA device mlx5_0:6"


def test_a_port_of_a_device_that_belongs_to_another_plane_is_reported() -> None:
    world = world_of("planes")
    twelve_ports(world, NETDEVS)
    rows = {row["port"]: row for row in world.infos[NODE]["rdma"]}
    rows[3]["netdev"], rows[9]["netdev"] = rows[9]["netdev"], rows[3]["netdev"]
    failures = world.document()["failures"]
    assert [(each["code"], each["rail"]) for each in failures] == [("RV405", "r1p1"), ("RV405", "r1p3")]
    assert failures[0]["cause"] == "port 3 of mlx5_0 belongs to eth_r1_p2"
    assert "mlx5_0:3" in failures[0]["expected"]
    # a device without a port for the netdev
    world = world_of("planes")
    twelve_ports(world, {number: name for number, name in NETDEVS.items() if number != 6})
    for node in world.plans.values():
        for port in node["ports"]:
            port["rdma"] = {"name": "mlx5_0", "type": "hardware"}
    failure = next(each for each in world.document()["failures"] if each["node"] == NODE)
    assert (failure["code"], failure["rail"]) == ("RV405", "r1p2") and "is present" in failure["cause"]


@pytest.mark.parametrize("netdevs", [("ens1", "ens2"), (None, None)], ids=["RoCE", "InfiniBand"])
def test_two_ports_of_one_function_are_judged_separately(netdevs: tuple[str | None, str | None]) -> None:
    """A ConnectX-3 has one PCI function and one RDMA device, mlx4_0, with a port for each of its netdevs."""
    world = world_of("plain" if netdevs[0] else "infiniband", 2)
    for name, info in world.infos.items():
        rows = []
        for number, (row, port) in enumerate(zip(info["rdma"], world.plans[name]["ports"]), 1):
            nic(world, "ens%d" % number, name)["pci"] = port["pci"] = "0000:18:00.0"
            rows.append(dict(row, device="mlx4_0", port=number, pci="0000:18:00.0", netdev=netdevs[number - 1]))
            # without a netdev, only the plan knows the number of the port
            port["rdma"] = dict({"name": "mlx4_0", "type": "hardware"}, **({} if netdevs[0] else {"port": number}))
        info["rdma"] = rows
        for gid in info["gids"]:
            gid.update(port=1 if gid["device"] == "mlx5_0" else 2, device="mlx4_0")
    assert found(world) == []
    world.infos[NODE]["rdma"][1].update(state="DOWN", physical_state="POLLING")
    assert only_failure(world.document(), "RV407", NODE, "gpu02")["what"] == "RDMA device mlx4_0:2"


def test_a_plane_does_not_use_the_gid_and_counters_of_another_port_of_the_device() -> None:
    world = world_of("planes")
    twelve_ports(world, NETDEVS)
    gid = next(row for row in world.infos[NODE]["gids"] if row["port"] == 6)
    gid["port"] = 9
    failure = only_failure(world.document(layers=["address"]), "RV511", NODE, "r1p2")
    assert failure["what"] == "GID of mlx5_0:6"
    gid["port"] = 6
    for port in (6, 9):
        world.infos[NODE]["counters"]["devices"]["mlx5_0:%d" % port] = {"packet_seq_err": 0}
        world.after[NODE]["devices"]["mlx5_0:%d" % port] = {"packet_seq_err": 3 if port == 9 else 0}
    (warning,) = world.document()["warnings"]
    assert (warning["code"], warning["rail"]) == ("RV861", "r1p3")


# -- one network for several rails (case 6) ----------------------------------------------------------------------------


def mac(world: World, rail: str, node: str = NODE) -> str:
    return str(world.nic(node, rail)["mac"])


def test_deleted_arp_settings_are_one_failure_with_their_evidence() -> None:
    world = world_of("flat")
    world.infos[NODE]["sysctls"]["ens2"]["arp_ignore"] = 0
    # the node itself and a partner have received answers of the other port
    address = world.port(NODE, "gpu01")["address"].partition("/")[0]
    world.infos[NODE]["duplicates"] = [{"netdev": "ens1", "address": address, "macs": [], "own": [mac(world, "gpu02")]}]
    assert "answers for %s of gpu01" % address in world.document()["failures"][0]["found"]
    for rows in world.probes.values():
        for row in rows:
            if (row["peer"], row["rail"]) == (NODE, "gpu03"):
                row["macs"] = [mac(world, "gpu03"), mac(world, "gpu02")]
    failure = only_failure(world.document(), "RV512", NODE, "gpu02")
    assert (failure["what"], failure["expected"]) == ("net.ipv4.conf.ens2.arp_ignore", "arp_ignore 1")
    third = world.port(NODE, "gpu03")["address"].partition("/")[0]
    assert failure["found"] == "arp_ignore 0; ens2 answers for %s of gpu01, %s of gpu03" % (address, third)
    assert failure["playbook"] == "playbooks/hosts.yml --limit ai-2"
    assert failure["rails"] == ["gpu02", "gpu01", "gpu03", "gpu04"]
    assert [each[0] for each in found(world, DRIFT)] == ["RV512"]


def test_arp_settings_of_all_ports_are_one_failure_and_a_module_does_not_repeat_it() -> None:
    world = world_of("flat")
    changes = []
    for netdev in ("ens1", "ens2", "ens3", "ens4"):
        world.infos[NODE]["sysctls"][netdev].update(arp_ignore=0, arp_announce=0, arp_filter=0)
        changes.append({"subject": netdev, "attribute": "arp_ignore", "before": 0, "after": 1})
    world.states[NODE]["rail_ports"] = {"changes": changes}
    for kind in ("verify", DRIFT):
        failure = only_failure(world.document(kind), "RV512", NODE, "gpu01")
        assert failure["expected"] == "arp_announce 2, arp_filter 1, arp_ignore 1"
    # on a network of its own a rail has no ARP flux
    world = world_of("flat")
    world.infos[NODE]["sysctls"]["ens5"]["arp_ignore"] = 0
    assert found(world) == [("RV506", NODE, "stor1")]


def test_an_answer_from_another_port_of_the_node_is_named_although_the_settings_are_as_planned() -> None:
    world = world_of("flat")
    for rows in world.probes.values():
        for row in rows:
            if (row["peer"], row["rail"]) == (NODE, "gpu01"):
                row["macs"] = [mac(world, "gpu03")]
    failure = only_failure(world.document(), "RV808", NODE, "gpu03")
    assert "ens3 answers for" in failure["found"] and failure["rails"] == ["gpu03", "gpu01"]
    # replies that another port has received prove nothing
    assert world.document()["proof"]["gpu01"]["state"] == "failed"
    # the planned port answers
    for rows in world.probes.values():
        for row in rows:
            row["macs"] = [mac(world, row["rail"], row["peer"])]
    assert found(world) == []


def test_only_answers_of_other_nodes_are_duplicates() -> None:
    world = world_of("flat")
    address = world.port(NODE, "gpu01")["address"].partition("/")[0]
    heard = {"netdev": "ens1", "address": address, "macs": [mac(world, "gpu04")]}
    world.infos[NODE]["duplicates"] = [heard]
    assert found(world) == []
    heard["macs"] = [mac(world, "gpu04"), mac(world, "gpu01", "ai-3")]
    assert found(world) == [("RV510", "ai-3", "gpu01")]
    heard["macs"] = ["02:99:00:00:00:01"]
    assert found(world) == [("RV510", NODE, "gpu01")]


def test_a_duplicate_on_a_vlan_concerns_its_rail_and_no_other_vlan() -> None:
    world = world_of("bonds")
    address = world.port(NODE, "stor1")["address"].partition("/")[0]
    other = above(world, "bond0.100", "ai-3")["mac"]
    assert other == above(world, "bond0.200", "ai-3")["mac"]
    world.infos[NODE]["duplicates"] = [{"netdev": "bond0.100", "address": address, "macs": [other]}]
    assert found(world) == [("RV510", "ai-3", "stor1")]


def test_packets_do_not_show_swapped_cables_on_one_network_and_the_verdict_reports_it() -> None:
    world = world_of("flat")
    for rail, other in (("gpu01", "gpu02"), ("gpu02", "gpu01")):
        world.lose(NODE, rail, {"answers": [other]})
    rows = world.document()["failures"]
    assert [(each["code"], each["rail"]) for each in rows] == [("RV801", "gpu01"), ("RV801", "gpu02")]
    assert "only LLDP can" in rows[0]["cause"]
    # between networks, the answer still shows the leaf
    world = world_of("flat")
    world.lose(NODE, "stor1", {"answers": ["gpu01"]})
    assert [code for code, _node, _rail in found(world)] == ["RV701"]
    for info in world.infos.values():
        info["lldp"] = []
    cabling = next(each for each in world.document()["layers"] if each["name"] == "cabling")
    assert "only LLDP shows swapped cables" in cabling["why_not"]


def test_rails_of_one_network_reach_each_other_and_their_routes_do_not_divert() -> None:
    world = world_of("flat")
    world.fabric["routing"]["cross_rail"] = False
    for rows in world.probes.values():
        for row in rows:
            row["cross"] = {"rail": "gpu02" if row["rail"] != "gpu02" else "gpu01", "open": row["rail"] != "stor1"}
    route = {"netdev": "ens2", "to": "10.248.0.0/16", "via": None, "table": None}
    world.infos[NODE]["ip"]["routes"].append(route)
    verdict = world.document()
    assert (verdict["failures"], [each["code"] for each in verdict["warnings"]]) == ([], ["RV508"])


def test_leaves_on_one_network_are_compared_without_assuming_one_per_rail() -> None:
    world = world_of("flat")
    # a pair of leaves for all NICs: nodes 1 and 2 on the first, 3 and 4 on the second
    for number in (1, 2, 3, 4):
        for row in world.infos["ai-%d" % number]["lldp"]:
            if row["netdev"] != "ens5":
                leaf = "leaf-%02d" % (number > 2)
                row.update(system=leaf, chassis="00:1b:54:c2:01:%s" % leaf[-2:])
    assert found(world) == []
    # a leaf per rail, and two cables of a node are swapped
    world = world_of("flat")
    for netdev, other in (("ens1", "02"), ("ens2", "01")):
        row = next(row for row in world.infos[NODE]["lldp"] if row["netdev"] == netdev)
        row.update(chassis="00:1b:54:c2:00:%s" % other)
    assert {code for code, _node, _rail in found(world)} == {"RV703"}
