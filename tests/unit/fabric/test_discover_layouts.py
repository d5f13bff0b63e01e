# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Discovery of layouts other than a netdev, a function and a network for each rail."""

from __future__ import annotations

import copy
import json
import random
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import (
    NodeInfo,
    Outcome,
    as_table,
    run,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text
from tests.unit.fabric.live_nodes import MANAGEMENT, _bare

Row = t.Dict[str, t.Any]
OPTIONS = Options(name="ai", attachment="macvlan", provider="spiderpool")


def nic(pci: str, netdev: str, rdma: t.Sequence[str] = (), **values: t.Any) -> Row:
    return dict(_bare(pci, netdev), master=None, rdma=list(rdma), mtu=9000, speed=400000, **values)


def device(name: str, pci: str | None, netdev: str | None, port: int = 1, **values: t.Any) -> Row:
    row = {"device": name, "port": port, "type": "hardware", "link_layer": "ethernet", "rate": 400.0}
    return dict(row, netdev=netdev, pci=pci, **values)


def interface(netdev: str, kind: str, lower: t.Sequence[str], **values: t.Any) -> Row:
    row: Row = {"netdev": netdev, "kind": kind, "lower": list(lower), "functions": [], "master": None, "vlan": None}
    row.update({"mtu": 9000, "up": True, "operstate": "up", "carrier": True, "rdma": [], "management_path": None})
    return dict(row, managed=False, bond=None, **{}) | values


def bond(netdev: str, members: t.Sequence[str], rdma: t.Sequence[str], mode: str = "802.3ad", **values: t.Any) -> Row:
    settings = {"mode": mode, "hash_policy": "layer3+4", "lacp_rate": "fast", "primary": None, "min_links": 0}
    settings.update({"miimon": 100, "active": None, "members": [{"netdev": each} for each in members]})
    own = {key: values.pop(key) for key in list(values) if key in settings}
    return interface(netdev, "bond", members, rdma=list(rdma), bond=dict(settings, **own)) | values


def info(
    nics: t.Sequence[Row], rdma: t.Sequence[Row], above: t.Sequence[Row] = (), gpus: t.Sequence[t.Sequence[str]] = ()
) -> Row:
    """A node. ``gpus``: for each GPU, the functions that are next to it."""
    functions = sorted({row["pci"] for row in nics})
    rows = [
        {
            "index": number,
            "pci": "0001:%02x:00.0" % (8 * number + 8),
            "maker": "nvidia",
            "device": "2330",
            "nics": {pci: "PIX" if pci in near else "SYS" for pci in functions},
        }
        for number, near in enumerate(gpus)
    ]
    management = dict(_bare(MANAGEMENT, "eno1"), speed=10000, management_path="eno1 carries this", device="1563")
    ip: Row = {"addresses": [], "routes": [], "rules": []}
    return {
        "system": {"rdma_mode": "shared"},
        "nics": [*nics, management],
        "interfaces": list(above),
        "rdma": list(rdma),
        "gpus": rows,
        "vfs": [],
        "ip": ip,
    }


def nodes(template: Row, addresses: t.Callable[[int], t.Mapping[str, str]], count: int = 2) -> list[NodeInfo]:
    """``addresses``: number of a node -> netdev -> its address."""
    found = []
    for number in range(1, count + 1):
        result = copy.deepcopy(template)
        for netdev, texts in addresses(number).items():
            result["ip"]["addresses"] += [
                {"netdev": netdev, "address": each, "secondary": False, "dynamic": False} for each in texts.split()
            ]
        found.append(NodeInfo("ai-%d" % number, "10.1.16.%d" % number, result))
    return found


def discovered(infos: t.Sequence[NodeInfo], options: Options = OPTIONS) -> tuple[Outcome, Row]:
    """The outcome, and the file. It is valid, and each address of a rail port is planned as it is."""
    outcome = run(infos, options)
    plan = lint(outcome.text.encode()).plan
    assert plan, outcome.text + "\n".join(finding.text() for finding in outcome.lint)
    live = {each.name: each.result for each in infos}
    for planned in plan.nodes:
        node = plan.node_vars(planned)
        observed: dict[str, set[str]] = {}
        for row in live[node["name"]]["ip"]["addresses"]:
            observed.setdefault(row["netdev"], set()).add(row["address"])
        for port in node["ports"]:
            stated = {port["address"], port["address6"]} - {None}
            assert stated <= observed.get(port["netdev"], stated), (port["netdev"], stated, observed)
    return outcome, t.cast(Row, yaml_text.load(outcome.text))


def proposed(infos: t.Sequence[NodeInfo]) -> tuple[Outcome, Row]:
    """The outcome, and the file."""
    outcome = run(infos, OPTIONS)
    return outcome, t.cast(Row, yaml_text.load(outcome.text))


def codes(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings}


def of(outcome: Outcome, code: str) -> list[str]:
    return [finding.message for finding in outcome.findings if finding.code == code]


# -- bonds and VLANs ---------------------------------------------------------------------------------------------------


def two_bonds(**values: t.Any) -> Row:
    """Case 1: two cards with two functions, each card with a bond, and the RDMA device on the first function."""
    nics, devices, above, near = [], [], [], []
    for at, bus in enumerate(("18", "29")):
        first, second = "0000:%s:00.0" % bus, "0000:%s:00.1" % bus
        members = ["ens%df0np0" % (at + 1), "ens%df1np1" % (at + 1)]
        nics.append(nic(first, members[0], ["mlx5_bond_%d" % at], serial="MT%s" % bus) | {"master": "bond%d" % at})
        nics.append(nic(second, members[1], serial="MT%s" % bus) | {"master": "bond%d" % at})
        devices.append(device("mlx5_bond_%d" % at, first, members[0]))
        above.append(bond("bond%d" % at, members, ["mlx5_bond_%d" % at], **copy.deepcopy(values)))
        near.append([first, second])
    return info(nics, devices, above, near)


def of_bonds(number: int) -> Row:
    return {"bond%d" % at: "172.16.%d.%d/24" % (at + 1, number) for at in range(2)}


def test_bonds_with_their_members() -> None:
    outcome, file = discovered(nodes(two_bonds(), of_bonds))
    profile = file["profiles"]["server"]
    assert profile["ports"] == {
        "gpu0%d" % (at + 1): {
            "bond": {
                "name": "bond%d" % at,
                "mode": "802.3ad",
                "members": [
                    {"netdev": "ens%df0np0" % (at + 1), "pci": "0000:%s:00.0" % bus},
                    {"netdev": "ens%df1np1" % (at + 1), "pci": "0000:%s:00.1" % bus},
                ],
            },
            "rdma": "mlx5_bond_%d" % at,
            "managed": False,
            "gpu": at,
        }
        for at, bus in enumerate(("18", "29"))
    }
    # a member gets no role
    assert list(profile["other_ports"]) == ["eno1"]
    assert [rail["hosts"] for rail in file["rails"].values()] == ["172.16.1.1-172.16.1.2", "172.16.2.1-172.16.2.2"]
    assert not codes(outcome) & {"DS301", "DS302", "DS206"} and "DS214" in codes(outcome), as_table(outcome.findings)


def test_settings_of_bonds_are_kept_and_a_bond_of_railyard_is_managed() -> None:
    template = two_bonds(mode="active-backup", hash_policy=None, lacp_rate=None, managed=True)
    for at, row in enumerate(template["interfaces"], 1):
        row["bond"]["primary"] = "ens%df0np0" % at
    outcome, file = discovered(nodes(template, of_bonds))
    port = file["profiles"]["server"]["ports"]["gpu01"]
    assert (port["bond"]["mode"], port["bond"]["primary"]) == ("active-backup", "ens1f0np0")
    assert "managed" not in port and "DS214" not in codes(outcome)
    slow = two_bonds(hash_policy="layer2+3", lacp_rate="slow", min_links=2)
    port = discovered(nodes(slow, of_bonds))[1]["profiles"]["server"]["ports"]["gpu01"]
    assert {key: port["bond"][key] for key in ("hash_policy", "lacp_rate", "min_links")} == {
        "hash_policy": "layer2+3",
        "lacp_rate": "slow",
        "min_links": 2,
    }


def test_names_of_members_that_differ_are_findings() -> None:
    template = two_bonds(mode="active-backup", hash_policy=None, lacp_rate=None)
    for at, row in enumerate(template["interfaces"], 1):
        row["bond"]["primary"] = "ens%df0np0" % at
    infos = nodes(template, of_bonds, 3)
    infos[1] = infos[1]._replace(result=json.loads(json.dumps(infos[1].result).replace("ens1f", "eth1f")))
    outcome, file = discovered(infos)
    bond = file["profiles"]["server"]["ports"]["gpu01"]["bond"]
    assert [member["netdev"] for member in bond["members"]] == ["ens1f0np0", "ens1f1np1"]
    assert bond["primary"] == "ens1f0np0"
    found = [(each.nodes, each.message) for each in outcome.findings if each.code == "DS405"]
    assert found == [
        (("ai-2",), "0000:18:00.%d, a member of bond0, does not have the name ens1f%dnp%d" % (at, at, at))
        for at in range(2)
    ]
    assert "DS408" not in codes(outcome)


def test_a_node_with_another_bond_is_a_finding() -> None:
    infos = nodes(two_bonds(), of_bonds, 3)
    infos[2].result["interfaces"][1]["bond"]["mode"] = "active-backup"
    outcome, file = discovered(infos)
    (finding,) = [each for each in outcome.findings if each.code == "DS408"]
    assert (finding.nodes, finding.place[-1]) == (("ai-3",), "gpu02")
    assert list(file["profiles"]) == ["server"]


def test_a_vlan_on_a_bond_has_the_addresses_of_the_rail() -> None:
    template = two_bonds()
    template["interfaces"] += [interface("bond%d.100" % at, "vlan", ["bond%d" % at], vlan=100) for at in range(2)]
    infos = nodes(template, lambda number: {netdev + ".100": text for netdev, text in of_bonds(number).items()})
    outcome, file = discovered(infos)
    ports = file["profiles"]["server"]["ports"]
    assert [(port["bond"]["name"], port["vlan"], port["rdma"]) for port in ports.values()] == [
        ("bond0", 100, "mlx5_bond_0"),
        ("bond1", 100, "mlx5_bond_1"),
    ]


def plain(count: int = 2, **values: t.Any) -> Row:
    """One function for each GPU."""
    nics = [
        nic("0000:%02x:00.0" % (0x10 * at), "ens%dnp0" % at, ["mlx5_%d" % at], **values) for at in range(1, count + 1)
    ]
    devices = [device("mlx5_%d" % at, "0000:%02x:00.0" % (0x10 * at), "ens%dnp0" % at) for at in range(1, count + 1)]
    return info(nics, devices, (), [[row["pci"]] for row in nics])


def test_vlans_on_functions_and_a_name_of_its_own() -> None:
    template = plain()
    template["interfaces"] = [
        interface("ens1np0.7", "vlan", ["ens1np0"], vlan=7),
        interface("storage", "vlan", ["ens2np0"], vlan=8),
        # without addresses, such as one that a bridge of virtual machines uses
        interface("ens2np0.9", "vlan", ["ens2np0"], vlan=9),
    ]
    infos = nodes(
        template, lambda number: {"ens1np0.7": "172.16.1.%d/24" % number, "storage": "172.16.2.%d/24" % number}
    )
    outcome, file = discovered(infos)
    ports = file["profiles"]["server"]["ports"]
    assert ports["gpu01"] == {"netdev": "ens1np0", "pci": "0000:10:00.0", "vlan": 7, "managed": False, "gpu": 0}
    assert ports["gpu02"]["vlan"] == {"id": 8, "name": "storage"} and ports["gpu02"]["netdev"] == "ens2np0"
    assert "DS215" not in codes(outcome)


def further_vlans(number: int) -> Row:
    return {
        "ens1np0.100": "172.16.1.%d/24" % number,
        "ens1np0.200": "172.18.1.%d/24" % number,
        "ens2np0": "172.16.2.%d/24" % number,
        "ens2np0.300": "172.18.2.%d/24" % number,
    }


def on_two_ports() -> Row:
    template = plain()
    template["interfaces"] = [
        interface("ens1np0.200", "vlan", ["ens1np0"], vlan=200),
        interface("ens1np0.100", "vlan", ["ens1np0"], vlan=100),
        interface("ens2np0.300", "vlan", ["ens2np0"], vlan=300),
    ]
    return template


def test_further_vlans_on_a_port_are_storage_rails() -> None:
    outcome, file = discovered(nodes(on_two_ports(), further_vlans))
    ports = file["profiles"]["server"]["ports"]
    assert {rail: (port["netdev"], port.get("vlan"), port.get("gpu")) for rail, port in ports.items()} == {
        "gpu01": ("ens1np0", 100, 0),
        "gpu02": ("ens2np0", None, 1),
        "stor1": ("ens1np0", 200, None),
        "stor2": ("ens2np0", 300, None),
    }
    # the number of a port is only needed if a device has several
    assert not any("rdma" in port for port in ports.values())
    assert list(file["profiles"]["server"]["other_ports"]) == ["eno1"]


def test_further_vlans_without_rdma_are_named() -> None:
    template = on_two_ports()
    for row in template["nics"]:
        row["rdma"] = []
    template["rdma"] = []
    outcome, file = proposed(nodes(template, further_vlans))
    assert list(file["profiles"]["server"]["ports"]) == ["gpu01", "gpu02"]
    assert of(outcome, "DS215") == [
        "ens1np0.200 is another VLAN with addresses on ens1np0",
        "ens2np0.300 is another VLAN with addresses on ens2np0",
    ]


@pytest.mark.parametrize(
    ("kind", "holder", "message"),
    [
        ("bridge", "br0", "it is part of br0, a bridge"),
        ("vrf", "ens1np0", "it is part of br0, a vrf"),
        ("team", "br0", "br0 is a team, and an interface of several ports must be a bond"),
        (None, "ens1np0", "it is part of br0"),
    ],
)
def test_ports_below_other_interfaces_are_named_and_asked(kind: str | None, holder: str, message: str) -> None:
    template = plain()
    template["nics"][0]["master"] = "br0"
    # the master of Open vSwitch's ports has no row
    template["interfaces"] = [interface("br0", kind, ["ens1np0"], rdma=["mlx5_1"])] if kind else []
    infos = nodes(template, lambda number: {holder: "172.16.1.%d/24" % number, "ens2np0": "172.16.2.%d/24" % number})
    outcome, file = discovered(infos)
    (finding,) = [each for each in outcome.findings if each.code == "DS213"]
    assert (finding.severity, finding.message, finding.place[-1]) == ("error", message, "gpu01")
    ports = file["profiles"]["server"]["ports"]
    assert ports["gpu01"] == {"netdev": "ens1np0", "pci": "0000:10:00.0", "gpu": 0}
    # the address of the port, whatever has it
    assert file["rails"]["gpu01"]["subnet"] == "172.16.1.0/24"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda row: row["interfaces"][0]["bond"].update(mode="balance-rr"), "has the mode balance-rr"),
        (lambda row: row["nics"][1].update(serial="MT99"), "are on several cards (0000:18:00.0 and 0000:18:00.1)"),
        (lambda row: row["vfs"].append({"pf": "0000:18:00.1", "attributes": {}}), "members of bond0 have VFs"),
        (lambda row: row["interfaces"][0]["lower"].append("veth0"), "not ports of a card: veth0"),
    ],
)
def test_bonds_that_cannot_be_rail_ports_are_asked(change: t.Callable[[Row], t.Any], part: str) -> None:
    template = two_bonds()
    change(template)
    outcome, file = discovered(nodes(template, of_bonds))
    (message,) = of(outcome, "DS213")
    assert part in message
    profile = file["profiles"]["server"]
    assert "bond" not in profile["ports"]["gpu01"] and "bond" in profile["ports"]["gpu02"]
    assert list(profile["other_ports"]) == ["eno1"]


def test_the_bond_of_the_management_network_is_not_a_rail() -> None:
    template = plain()
    pair = ["0000:e2:00.0", "0000:e2:00.1"]
    reason = "eno3 is part of bond9, which carries this connection"
    template["nics"] += [
        nic(pci, "eno%d" % at, management_path=reason) | {"master": "bond9"} for at, pci in enumerate(pair, 3)
    ]
    template["interfaces"] = [bond("bond9", ["eno3", "eno4"], [], management_path="carries this connection")]
    infos = nodes(template, lambda number: {"bond9": "10.1.16.%d/24" % number} | dict(_two(number)))
    outcome, file = discovered(infos)
    profile = file["profiles"]["server"]
    assert list(profile["ports"]) == ["gpu01", "gpu02"]
    assert {name: port["role"] for name, port in profile["other_ports"].items()} == {
        "eno1": "management",
        "eno3": "management",
        "eno4": "management",
    }


def _two(number: int) -> Row:
    return {"ens%dnp0" % at: "172.16.%d.%d/24" % (at, number) for at in (1, 2)}


def test_an_address_on_a_member_is_a_finding() -> None:
    infos = nodes(two_bonds(), lambda number: dict(of_bonds(number), ens1f1np1="172.16.1.99/24"))
    outcome, _file = discovered(infos)
    assert "ens1f1np1, a member of bond0, has an address in 172.16.1.0/24" in of(outcome, "DS303")


# -- RDMA devices of several ports -------------------------------------------------------------------------------------


def planes(name: str = "mlx5_0", count: int = 4) -> Row:
    """Case 2: functions of a card next to one GPU, with one RDMA device of twelve ports."""
    netdevs = ["eth_r1_p%d" % at for at in range(count)]
    nics = [nic("0000:18:00.%d" % at, netdev, [name] if not at else ()) for at, netdev in enumerate(netdevs)]
    used = {3 * at + 3: netdev for at, netdev in enumerate(netdevs)}
    ports = [device(name, "0000:18:00.0", used.get(port), port) for port in range(1, 13)]
    for row in ports:
        row["state"] = "ACTIVE" if row["netdev"] else "DOWN"
    return info(nics, ports, (), [[row["pci"] for row in nics]])


def of_planes(number: int) -> Row:
    return {"eth_r1_p%d" % at: "172.16.%d.%d/24" % (at + 1, number) for at in range(4)}


@pytest.mark.parametrize("name", ["mlx5_0", "roce_r1"])
def test_planes_that_share_a_device_have_the_numbers_of_its_ports(name: str) -> None:
    outcome, file = discovered(nodes(planes(name), of_planes))
    ports = file["profiles"]["server"]["ports"]
    assert {rail: (port["netdev"], port["rdma"]) for rail, port in ports.items()} == {
        "gpu01p%d" % (at + 1): ("eth_r1_p%d" % at, "%s:%d" % (name, 3 * at + 3)) for at in range(4)
    }
    assert list(file["rails"]) == ["gpu01"] and len(file["rails"]["gpu01"]["planes"]) == 4
    assert list(file["profiles"]["server"]["other_ports"]) == ["eno1"]


def test_nodes_with_other_names_of_a_shared_device_get_none() -> None:
    infos = nodes(planes(), of_planes)
    for row in infos[1].result["rdma"]:
        row["device"] = "mlx5_7"
    infos[1].result["nics"][0]["rdma"] = ["mlx5_7"]
    _outcome, file = discovered(infos)
    assert not any("rdma" in port for port in file["profiles"]["server"]["ports"].values())


def test_a_device_with_a_port_for_each_rail() -> None:
    """One card: functions next to different GPUs, and the device on the first."""
    nics = [nic("0000:18:00.%d" % at, "eth%d" % at, ["roce0"] if not at else (), serial="MT1") for at in range(4)]
    devices = [device("roce0", "0000:18:00.0", "eth%d" % at, at + 1) for at in range(4)]
    template = info(nics, devices, (), [[row["pci"]] for row in nics])
    infos = nodes(template, lambda number: {"eth%d" % at: "172.16.%d.%d/24" % (at, number) for at in range(4)})
    _outcome, file = discovered(infos)
    assert [port["rdma"] for port in file["profiles"]["server"]["ports"].values()] == [
        *("roce0:1", "roce0:2", "roce0:3", "roce0:4"),
    ]
    assert list(file["rails"]) == ["gpu01", "gpu02", "gpu03", "gpu04"]


def test_two_netdevs_on_a_function_are_two_ports() -> None:
    nics = [nic("0000:18:00.0", "ens1", ["mlx4_0"]), nic("0000:18:00.0", "ens1d1", ["mlx4_0"])]
    devices = [device("mlx4_0", "0000:18:00.0", "ens1", 1), device("mlx4_0", "0000:18:00.0", "ens1d1", 2)]
    template = info(nics, devices, (), [["0000:18:00.0"]])
    infos = nodes(template, lambda number: {"ens1": "172.16.1.%d/24" % number, "ens1d1": "172.16.2.%d/24" % number})
    outcome, file = discovered(infos)
    assert list(file["profiles"]["server"]["ports"].values()) == [
        {"netdev": "ens1", "rdma": "mlx4_0:1", "gpu": 0},
        {"netdev": "ens1d1", "rdma": "mlx4_0:2", "gpu": 0},
    ]
    assert of(outcome, "DS103") == ["0000:18:00.0 has the netdevs ens1 and ens1d1"]


# -- one network -------------------------------------------------------------------------------------------------------


def flat(text: t.Callable[[int, int], str]) -> t.Callable[[int], Row]:
    return lambda number: {"ens%dnp0" % rail: text(number, rail) for rail in range(1, 5)}


def test_one_network_numbered_by_node() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.1.%d/16" % (4 * node + rail)), 3)
    outcome, file = discovered(infos)
    (rails,) = file["rails"].values()
    assert list(file["rails"]) == ["gpu[01:04]"]
    assert (rails["numbering"], rails["subnet"]) == ("node", "10.248.0.0/16")
    assert rails["hosts"] == "10.248.1.5-10.248.1.16"
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)
    pods(outcome, infos)


def test_one_network_numbered_by_rail() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.0.%d/16" % (20 * (rail - 1) + node)), 3)
    outcome, file = discovered(infos)
    (rails,) = file["rails"].values()
    assert (rails["numbering"], rails["hosts"]) == ("rail", "10.248.0.1-10.248.0.80")
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)
    pods(outcome, infos)


def test_one_network_with_a_range_for_each_rail() -> None:
    starts = {1: 10, 2: 30, 3: 90, 4: 200}
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.0.%d/24" % (starts[rail] + node)), 3)
    outcome, file = discovered(infos)
    assert [rail["hosts"] for rail in file["rails"].values()] == [
        "10.248.0.%d-10.248.0.%d" % (start + 1, start + 3) for start in starts.values()
    ]
    assert not any("numbering" in rail for rail in file["rails"].values())
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)
    pods(outcome, infos)


def pods(outcome: Outcome, infos: t.Sequence[NodeInfo]) -> None:
    """Pods of a rail get no address of a port, and none of pods of another rail."""
    plan = lint(outcome.text.encode()).plan
    assert plan
    ports = {row["address"].partition("/")[0] for each in infos for row in each.result["ip"]["addresses"]}
    taken: set[int] = set()
    for planners in plan.fabric.planners().values():
        for planner in planners.values():
            own = {part for each in planner.pods.parts for part in range(each.first, each.last + 1)}  # type: ignore[attr-defined]
            assert own and not own & taken
            taken |= own
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import show

    assert not ports & {show(address, 32) for address in taken}


def test_one_node_whose_ports_are_in_one_network() -> None:
    outcome, file = discovered(nodes(plain(4), flat(lambda node, rail: "10.248.0.%d/16" % rail), 1))
    assert next(iter(file["rails"].values()))["numbering"] == "node"
    assert "DS309" not in codes(outcome)


def test_one_network_of_ipv6() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "fd00:248::%x/64" % (4 * (node - 1) + rail)), 3)
    outcome, file = discovered(infos)
    (rails,) = file["rails"].values()
    assert (rails["numbering"], rails["hosts6"]) == ("node", "fd00:248::1-fd00:248::c")
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)


def test_one_network_without_rules_by_source() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.0.%d/16" % (4 * node + rail)), 3)
    for each in infos:
        way = {"netdev": "ens1np0", "to": "10.249.0.0/16", "via": "10.248.255.254", "table": None, "dynamic": False}
        each.result["ip"]["routes"].append(way)
    outcome, file = discovered(infos)
    assert "routing" not in file["fabric"]
    assert of(outcome, "DS308") == ["ports are in one network and have no rules by source, which the plan has"]


def test_a_wrong_address_in_one_network_is_a_finding() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.1.%d/16" % (4 * node + rail)), 4)
    infos[3].result["ip"]["addresses"][2]["address"] = "10.248.9.9/16"
    outcome = run(infos, OPTIONS)
    assert of(outcome, "DS302") == ["the node has 10.248.9.9, but the plan has 10.248.1.19"]


def test_ports_of_one_network_on_different_nodes_may_be_one_rail() -> None:
    """No node has two ports in the network: cables or addresses may be swapped."""
    first, second = plain(2), plain(2)
    infos = nodes(first, lambda number: {"ens1np0": "172.16.1.%d/24" % number}, 2)
    infos += [
        NodeInfo("ai-%d" % (number + 2), None, each.result)
        for number, each in enumerate(nodes(second, lambda number: {"ens2np0": "172.16.1.%d/24" % (number + 2)}, 2), 1)
    ]
    assert "DS309" in codes(run(infos, OPTIONS))


def test_two_networks_with_two_rails_each() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "10.24%d.0.%d/16" % (rail // 3, 2 * node + 1 - rail % 2)), 3)
    outcome, file = discovered(infos)
    assert [rail["subnet"] for rail in file["rails"].values()] == ["10.240.0.0/16", "10.241.0.0/16"]
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)


def test_one_network_of_ipv4_beside_a_subnet_for_each_rail_of_ipv6() -> None:
    def addresses(node: int, rail: int) -> str:
        return "10.248.0.%d/16 fd00:%d::%x/64" % (4 * (node - 1) + rail, rail, node)

    outcome, file = discovered(nodes(plain(4), flat(addresses), 3))
    assert [(rail["numbering"], rail["subnet6"]) for rail in file["rails"].values()] == [
        ("node", "fd00:%d::/64" % rail) for rail in range(1, 5)
    ]
    assert not codes(outcome) & {"DS302", "DS304", "DS305", "DS309"}, as_table(outcome.findings)


def test_one_network_that_ipv6_divides_in_another_way() -> None:
    def addresses(node: int, rail: int) -> str:
        return "10.248.0.%d/16 fd00::%x/64" % (4 * (node - 1) + rail, 0x100 * rail + node)

    outcome, file = discovered(nodes(plain(4), flat(addresses), 3))
    assert not any("subnet6" in rail for rail in file["rails"].values()) and "DS304" in codes(outcome)


def test_addresses_in_one_network_give_the_order_of_rails() -> None:
    """Ports are numbered in another order than that of the GPUs."""
    order = {1: 3, 2: 1, 3: 4, 4: 2}
    infos = nodes(plain(4), flat(lambda node, rail: "10.248.0.%d/16" % (4 * (node - 1) + order[rail])), 3)
    outcome, file = discovered(infos)
    ports = file["profiles"]["server"]["ports"]
    assert [port["netdev"] for port in ports.values()] == ["ens2np0", "ens4np0", "ens1np0", "ens3np0"]
    assert "DS209" in codes(outcome) and not codes(outcome) & {"DS302", "DS305", "DS309"}


def test_rails_in_another_order_than_their_addresses_are_findings() -> None:
    template = plain(4)
    for each in (*template["nics"], *template["rdma"]):
        # names decide the order of rails
        each["netdev"] = each["netdev"].replace("ens", "rail0").replace("np0", "")

    def addresses(node: int) -> Row:
        return {"rail0%d" % rail: "10.248.0.%d/16" % (4 * node - rail + 1) for rail in range(1, 5)}

    outcome = run(nodes(template, addresses, 3), OPTIONS)
    assert not [each for each in outcome.lint if each.severity == "error"], outcome.text
    assert len(of(outcome, "DS302")) == 12
    assert {each.code for each in outcome.findings if each.severity == "error"} == {"DS302"}


def test_one_network_of_ipoib() -> None:
    template = plain(4, link_layer="infiniband")
    options = Options(name="ai", attachment="ipoib", provider="spiderpool")
    infos = nodes(template, flat(lambda node, rail: "10.248.0.%d/16" % (4 * (node - 1) + rail)), 3)
    _outcome, file = discovered(infos, options)
    assert [rail["numbering"] for rail in file["rails"].values()] == ["node"]


# -- networks cut by node, and kinds of rails --------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "step", "aggregate"), [(27, 32, 24), (26, 64, 24), (31, 2, 28), (27, 32, 25)])
def test_networks_that_are_cut_by_node(prefix: int, step: int, aggregate: int) -> None:
    size = 1 << 32 - aggregate

    def text(node: int, rail: int) -> str:
        offset = (node - 1) * size + (rail - 1) * step + 1
        return "172.16.%d.%d/%d" % (offset // 256, offset % 256, prefix)

    options = OPTIONS._replace(attachment="host-device", provider="network-operator") if prefix == 31 else OPTIONS
    outcome, file = discovered(nodes(plain(4), flat(text), 5), options)
    (rails,) = file["rails"].values()
    assert rails["node_aggregate"] == aggregate and rails.get("node_prefix") in (prefix, None)
    assert rails["mode"] == ("link" if prefix == 31 else "prefix")
    assert not codes(outcome) & {"DS302", "DS305", "DS309"}, as_table(outcome.findings)


def test_networks_that_are_cut_by_rail_stay_so() -> None:
    infos = nodes(plain(4), flat(lambda node, rail: "172.%d.0.%d/27" % (15 + rail, 32 * (node - 1) + 1)), 5)
    _outcome, file = discovered(infos)
    assert [(rail["subnet"], "node_aggregate" in rail) for rail in file["rails"].values()] == [
        ("172.%d.0.0/24" % (15 + rail), False) for rail in range(1, 5)
    ]


def test_networks_without_an_order_are_asked() -> None:
    """The rails of a node are in another order on each node."""
    offsets = {1: (0, 1, 2, 3), 2: (3, 2, 1, 0), 3: (1, 0, 3, 2)}

    def text(node: int, rail: int) -> str:
        return "172.16.%d.%d/27" % (node, 32 * offsets[node][rail - 1] + 1)

    outcome = run(nodes(plain(4), flat(text), 3), OPTIONS)
    assert "DS309" in codes(outcome)


def two_kinds() -> Row:
    template = plain(4)
    for row in template["nics"][:4]:
        row["link_layer"] = "infiniband"
    for row in template["rdma"]:
        row["link_layer"] = "infiniband"
    template["nics"] += [nic("0000:a%d:00.0" % at, "storage%d" % at, ["mlx5_1%d" % at], device="101d") for at in (1, 2)]
    template["rdma"] += [device("mlx5_1%d" % at, "0000:a%d:00.0" % at, "storage%d" % at) for at in (1, 2)]
    return template


IB = Options(name="ai", attachment="host-device", provider="network-operator")


def test_infiniband_between_gpus_and_ethernet_to_storage() -> None:
    infos = nodes(two_kinds(), lambda number: {"storage%d" % at: "10.24%d.0.%d/24" % (at, number) for at in (1, 2)})
    outcome, file = discovered(infos, IB)
    assert file["fabric"]["link_layer"] == "infiniband"
    assert {name: rail.get("role") for name, rail in file["rails"].items()} == {
        **dict.fromkeys(["gpu01", "gpu02", "gpu03", "gpu04"]),
        **dict.fromkeys(["stor1", "stor2"], "storage"),
    }
    assert file["rails"]["stor1"] == {
        "role": "storage",
        "link_layer": "ethernet",
        "attachment": "host",
        "subnet": "10.241.0.0/24",
        "hosts": "10.241.0.1-10.241.0.2",
    }
    assert file["profiles"]["server"]["ports"]["stor2"] == {"netdev": "storage2", "pci": "0000:a2:00.0"}
    assert len(of(outcome, "DS216")) == 2 and "DS301" not in codes(outcome)


def test_storage_over_a_bond_and_a_vlan() -> None:
    template = plain(4)
    pair = ["0000:a1:00.0", "0000:a1:00.1"]
    template["nics"] += [
        nic(pci, "stor_p%d" % at, ["mlx5_bond_0"] if not at else (), device="101d") | {"master": "bond0"}
        for at, pci in enumerate(pair)
    ]
    template["rdma"].append(device("mlx5_bond_0", pair[0], "stor_p0"))
    template["interfaces"] = [
        bond("bond0", ["stor_p0", "stor_p1"], ["mlx5_bond_0"]),
        interface("bond0.100", "vlan", ["bond0"], vlan=100),
    ]
    infos = nodes(template, lambda number: {"bond0.100": "10.241.0.%d/24" % number} | flat(_by_rail)(number))
    _outcome, file = discovered(infos)
    port = file["profiles"]["server"]["ports"]["stor1"]
    assert (port["bond"]["name"], port["vlan"], port["rdma"], port["managed"]) == ("bond0", 100, "mlx5_bond_0", False)
    assert file["rails"]["stor1"]["role"] == "storage" and "link_layer" not in file["rails"]["stor1"]


def _by_rail(node: int, rail: int) -> str:
    return "172.16.%d.%d/24" % (rail, node)


def test_storage_without_addresses_stays_another_port() -> None:
    outcome, file = discovered(nodes(two_kinds(), lambda number: {}), IB)
    assert {name: port["role"] for name, port in file["profiles"]["server"]["other_ports"].items()} == {
        "storage1": "storage",
        "storage2": "storage",
        "eno1": "management",
    }
    assert "DS216" not in codes(outcome)


def test_rails_to_storage_of_other_models_are_matched_by_network() -> None:
    second = two_kinds()
    for row in second["nics"]:
        if row["pci"].startswith("0000:a"):
            row["pci"] = row["pci"].replace("0000:a", "0000:b")
    for row in second["rdma"]:
        row["pci"] = row["pci"].replace("0000:a", "0000:b")
    infos = nodes(two_kinds(), lambda number: {"storage%d" % at: "10.24%d.0.%d/24" % (at, number) for at in (1, 2)}, 3)
    # the cables of the other model are in the other order
    others = nodes(second, lambda number: {"storage%d" % at: "10.24%d.0.%d/24" % (3 - at, number + 3) for at in (1, 2)})
    infos += [NodeInfo("ai-%d" % (number + 3), None, each.result) for number, each in enumerate(others, 1)]
    outcome, file = discovered(infos, IB)
    assert file["profiles"]["server-2"]["ports"]["stor1"]["netdev"] == "storage2"
    assert "DS302" not in codes(outcome), as_table(outcome.findings)


# -- incomplete nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["bonds", "planes", "kinds"])
def test_incomplete_nodes_give_a_file_or_findings(name: str, seed: int) -> None:
    draw = random.Random(seed)
    template, addresses = {
        "bonds": (two_bonds(), of_bonds),
        "planes": (planes(), of_planes),
        "kinds": (two_kinds(), lambda number: {"storage%d" % at: "10.24%d.0.%d/24" % (at, number) for at in (1, 2)}),
    }[name]
    if name == "bonds":
        template["interfaces"] += [
            interface("bond0.5", "vlan", ["bond0"], vlan=5),
            interface("br0", "bridge", ["bond1"]),
        ]
    infos = nodes(template, addresses, 3)
    for each in infos:
        for part in ("nics", "interfaces", "rdma", "gpus"):
            for row in each.result[part]:
                for key in sorted(set(row) - {"pci", "netdev", "index", "device"}):
                    if draw.random() < 0.1:
                        del row[key]
            if draw.random() < 0.3:
                del each.result[part][draw.randint(0, 3) :]
    outcome = run(infos, OPTIONS)
    assert outcome.text or outcome.findings
    assert outcome.text == run(list(reversed(infos)), OPTIONS).text
