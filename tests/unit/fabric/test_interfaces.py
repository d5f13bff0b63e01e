# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports whose interface is a bond, a VLAN, or a port of an RDMA device: file, lint, plan, options and objects."""

from __future__ import annotations

import csv
import re
import typing as t

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers.layer_modules import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify, unidentified
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.plan_diff import diff
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology

Row = t.Dict[str, t.Any]

MEMBERS = [{"pci": "0000:29:00.0", "netdev": "ens2f0np0"}, {"pci": "0000:29:00.1", "netdev": "ens2f1np1"}]
BOND: Row = {"name": "bond0", "members": MEMBERS}
PLAIN: Row = {"netdev": "ens1np0", "pci": "0000:18:00.0", "rdma": "mlx5_r1"}


def text(ports: Row, nodes: Row | None = None, profile: Row | None = None, **fabric: t.Any) -> str:
    """Return a fabric file with these ports, and a rail for each of them."""
    general = {"name": "ai", "attachment": "macvlan", "provider": "spiderpool", "mtu": 4200, **fabric}
    rails = {
        rail: {"subnet": "10.%d.0.0/16" % at, "hosts": ".9.1-.9.200", "pods": ".0.1-.8.250"}
        for at, rail in enumerate(sorted({re.sub(r"p\d\Z", "", rail) for rail in ports}), 1)
    }
    for rail, value in rails.items():
        if general["provider"] == "none":
            del value["pods"]
        planes = [name for name in ports if re.match(rail + r"p\d\Z", name)]
        if planes:
            subnets = ["10.%s.%d.0/24" % (value["subnet"].split(".")[1], at) for at in range(len(planes))]
            rails[rail] = {"planes": [{"subnet": net, "hosts": ".1-.99", "pods": ".100-.200"} for net in subnets]}
    whole = {
        "plugin": "railyard.fabric.rails",
        "fabric": general,
        "rails": rails,
        "profiles": {"hgx": {**(profile or {}), "ports": ports}},
        "nodes": nodes or {"ai-[1:2]": {"profile": "hgx"}},
    }
    return yaml.safe_dump(whole, sort_keys=False)


def planned(*args: t.Any, **more: t.Any) -> Row:
    outcome = lint(text(*args, **more).encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    return outcome.plan.document()


def ports_of(*args: t.Any, node: int = 0, **more: t.Any) -> list[Row]:
    found: list[Row] = planned(*args, **more)["nodes"][node]["ports"]
    return found


def codes(*args: t.Any, **more: t.Any) -> list[str]:
    findings = lint(text(*args, **more).encode()).findings
    assert all(finding.remedy for finding in findings)
    return [finding.code for finding in findings if finding.code != "RY817"]


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_the_plan_of_a_vlan_contains_its_bond_and_functions() -> None:
    (port,) = ports_of({"stor1": {"bond": BOND, "vlan": 100, "rdma": "mlx5_bond_0"}})
    assert (port["netdev"], port["pci"], port["match"]) == ("bond0.100", None, None)
    assert port["rdma"] == {"name": "mlx5_bond_0", "type": "hardware"}
    assert "managed" not in port
    assert port["lower"] == {
        "vlan": 100,
        "parent": "bond0",
        "bond": {
            "name": "bond0",
            "mode": "802.3ad",
            "hash_policy": "layer3+4",
            "lacp_rate": "fast",
            "primary": None,
            "min_links": None,
        },
        "functions": [dict(member, match=None) for member in MEMBERS],
    }
    assert port_view.rdma_netdev(port) == "bond0"
    assert [each["netdev"] for each in port_view.each_netdev(port)] == ["ens2f0np0", "ens2f1np1", "bond0", "bond0.100"]


def test_settings_of_a_bond_depend_on_its_mode_and_its_owner() -> None:
    backup = dict(BOND, mode="active-backup", primary="ens2f1np1")
    (port,) = ports_of({"stor1": {"bond": backup}})
    assert port["netdev"] == "bond0" and port["lower"]["parent"] is None and port["lower"]["vlan"] is None
    assert port["lower"]["bond"]["hash_policy"] is None and port["lower"]["bond"]["primary"] == "ens2f1np1"
    # what the file does not say about a bond of others is not compared
    (port,) = ports_of({"stor1": {"bond": BOND, "managed": False}})
    assert port["managed"] is False and port["lower"]["bond"]["lacp_rate"] is None


def test_the_plan_of_a_vlan_contains_its_function() -> None:
    (port,) = ports_of({"stor1": dict(PLAIN, vlan={"id": 7, "name": "storage0"})})
    assert (port["netdev"], port["pci"]) == ("storage0", None)
    function = {"pci": "0000:18:00.0", "netdev": "ens1np0", "match": None}
    assert port["lower"] == {"vlan": 7, "parent": "ens1np0", "bond": None, "functions": [function]}


def test_a_port_without_new_keys_has_none() -> None:
    (port,) = ports_of({"gpu1": PLAIN})
    assert not {"lower", "managed", "role"} & set(port) and set(port["rdma"]) == {"name", "type"}
    assert port_view.functions(port) == (port,) and port_view.rdma_netdev(port) == "ens1np0"


def test_overrides_merge_the_keys_of_a_bond() -> None:
    ports = {"stor1": {"bond": BOND, "vlan": 100}}
    nodes = {
        "ai-1": {"profile": "hgx", "ports": {"stor1": {"bond": {"mode": "active-backup"}, "vlan": 200}}},
        "ai-[2:3]": {
            "profile": "hgx",
            "ports": {
                "stor1": {
                    "bond": {"members": [{"netdev": "ens2f0np0", "mac": "02:00:00:00:00:0[2:3]"}, MEMBERS[1]]},
                    "vlan": None,
                }
            },
        },
        "ai-4": {"profile": "hgx", "ports": {"stor1": {"bond": None, "netdev": "bond0", "pci": "0000:18:00.0"}}},
    }
    suppressed = text(ports, nodes, attachment="host", provider="none")
    suppressed += "lint: [{rule: RY450, place: nodes.ai-4, reason: the function has this name}]\n"
    outcome = lint(suppressed.encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    first, second, third, fourth = (node["ports"][0] for node in outcome.plan.document()["nodes"])
    assert (first["netdev"], first["lower"]["bond"]["mode"]) == ("bond0.200", "active-backup")
    assert first["lower"]["functions"] == [dict(member, match=None) for member in MEMBERS]
    for port, mac in ((second, "02:00:00:00:00:02"), (third, "02:00:00:00:00:03")):
        assert port["netdev"] == "bond0" and port["lower"]["functions"][0]["match"]["mac"] == mac
    assert fourth["lower"]["bond"] is None and fourth["lower"]["functions"][0]["pci"] == "0000:18:00.0"


@pytest.mark.parametrize(
    ("base", "own", "expected"),
    [
        ({"lacp_rate": "slow", "min_links": 2}, {"mode": "active-backup"}, ("active-backup", None, None, None)),
        ({"hash_policy": "layer2", "min_links": 2}, {"mode": "balance-xor"}, ("balance-xor", "layer2", None, None)),
        ({"mode": "active-backup", "primary": "ens2f0np0"}, {"mode": "802.3ad"}, ("802.3ad", "layer3+4", "fast", None)),
        ({"lacp_rate": "slow"}, {"min_links": 1}, ("802.3ad", "layer3+4", "slow", 1)),
    ],
)
def test_an_override_of_the_mode_replaces_settings_without_effect(base: Row, own: Row, expected: tuple[t.Any]) -> None:
    nodes = {"ai-1": {"profile": "hgx", "ports": {"gpu1": {"bond": own}}}, "ai-2": {"profile": "hgx"}}
    bond = ports_of({"gpu1": {"bond": dict(BOND, **base)}}, nodes)[0]["lower"]["bond"]
    assert tuple(bond[key] for key in ("mode", "hash_policy", "lacp_rate", "min_links")) == expected
    assert bond["primary"] is None


def test_a_bond_of_an_override_replaces_the_function_of_the_profile() -> None:
    nodes = {"ai-1": {"profile": "hgx"}, "ai-2": {"profile": "hgx", "ports": {"gpu1": {"bond": BOND}}}}
    first, second = (
        node["ports"][0] for node in planned({"gpu1": PLAIN}, nodes, provider="none", attachment="host")["nodes"]
    )
    assert "lower" not in first and first["pci"] == PLAIN["pci"]
    assert second["netdev"] == "bond0" and second["pci"] is None and second["rdma"]["name"] == "mlx5_r1"


def test_the_parent_of_a_vlan_has_the_soft_rdma_device() -> None:
    ports = {"stor1": {"bond": BOND, "vlan": 100}, "stor2": {"bond": BOND, "vlan": 200}}
    document = planned(ports, profile={"soft_rdma": "rxe"})
    assert {port["rdma"]["name"] for port in document["nodes"][0]["ports"]} == {"rxe_bond0"}
    assert port_options(document["nodes"][0]["ports"], "rdma_link") == [
        {"name": "rxe_bond0", "type": "rxe", "netdev": "bond0"}
    ]


@pytest.mark.parametrize(
    "port",
    [
        {"bond": dict(BOND, mode="balance-xor", hash_policy="layer2+3", min_links=None), "vlan": 5, "managed": False},
        {"netdev": "ens1np0", "vlan": {"id": 9, "name": "st9"}, "rdma": "mlx5_stor:3"},
        {"bond": {"name": "b0", "members": [{"slot": "4", "netdev": "m1"}, {"slot": "4", "port": 2, "netdev": "m2"}]}},
    ],
)
def test_a_written_file_has_the_same_plan(port: Row) -> None:
    outcome = lint(text({"stor1": port}).encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    again = lint(write(outcome.plan.fabric).encode())
    assert again.plan is not None and again.plan.document() == outcome.plan.document()


# -- lint: a netdev is not always a function ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "remedy"),
    [
        ({"netdev": "bond0", "rdma": "mlx5_bond_0"}, "write bond: {name: bond0"),
        ({"netdev": "ens1np0.100"}, "write netdev: ens1np0, vlan: 100"),
        ({"netdev": "br0"}, "remove the function from the bridge"),
        ({"netdev": "team0"}, "make it a bond"),
        ({"netdev": "vrf-blue"}, "write the netdev of the function"),
        ({"netdev": "vlan100"}, "vlan: {id: ..., name: vlan100}"),
        ({"netdev": "ens1f0np0", "rdma": "mlx5_bond_0"}, "write bond: {name: bond0"),
        ({"bond": dict(BOND, members=[{"netdev": "bond1"}, MEMBERS[1]])}, "write bond: {name: bond1"),
    ],
)
def test_lint_reports_names_of_bonds_vlans_and_bridges_at_functions(port: Row, remedy: str) -> None:
    findings = lint(text({"gpu1": port}).encode()).findings
    assert "RY450" in [finding.code for finding in findings]
    assert any(remedy in finding.remedy for finding in findings), [finding.text() for finding in findings]


@pytest.mark.parametrize("name", ["ens1np0", "enP2p1s0f0.9999", "brocade1", "gpu1", "ens1np0.8001", "bonded"])
def test_names_of_functions_are_accepted(name: str) -> None:
    assert codes({"gpu1": {"netdev": name}}) == []


@pytest.mark.parametrize(
    ("port", "code"),
    [
        ({"bond": {"name": "bond0"}}, "RY451"),
        ({"bond": {"members": MEMBERS}}, "RY451"),
        ({"bond": dict(BOND, members=MEMBERS[:1])}, "RY451"),
        ({"bond": BOND, "pci": "0000:29:00.0"}, "RY452"),
        ({"bond": BOND, "netdev": "ens2f0np0"}, "RY452"),
        ({"bond": dict(BOND, mode="active-backup", hash_policy="layer2")}, "RY453"),
        ({"bond": dict(BOND, primary="ens2f0np0")}, "RY453"),
        ({"bond": dict(BOND, mode="active-backup", primary="eth7")}, "RY453"),
        ({"bond": dict(BOND, mode="balance-xor", min_links=1)}, "RY453"),
        ({"bond": dict(BOND, members=[MEMBERS[0], {"pci": "0000:2a:00.0"}])}, "RY454"),
        ({"bond": dict(BOND, members=[{"slot": "4", "netdev": "a"}, {"slot": "5", "netdev": "b"}])}, "RY454"),
        ({"pci": "0000:29:00.0", "vlan": 100}, "RY455"),
        ({"netdev": "enp193s0f0np0", "vlan": 100}, "RY455"),
        ({"netdev": "ens1np0", "vlan": {"name": "st0"}}, "RY455"),
        ({"bond": dict(BOND, members=[{"pci": "0000:29:00.0"}, {"pci": "0000:29:00.1"}])}, "RY458"),
        ({"bond": dict(BOND, members=[MEMBERS[0], dict(MEMBERS[1], pci="0000:29:00.0")])}, "RY459"),
        ({"bond": dict(BOND, mode="balance-rr")}, "RY114"),
        ({"netdev": "ens1np0", "vlan": 4095}, "RY113"),
        ({"netdev": "ens1np0", "vlan": {}}, "RY104"),
        ({"bond": dict(BOND, min_links=3)}, "RY453"),
        ({"bond": dict(BOND, name="ens2f0np0")}, "RY461"),
        ({"netdev": "ens1np0", "vlan": {"id": 5, "name": "ens1np0"}}, "RY461"),
        ({"bond": BOND, "vlan": {"id": 5, "name": "bond0"}}, "RY461"),
        ({"bond": dict(BOND, members=[{"pci": "0000:29:00.0", "port": 2}, MEMBERS[1]])}, "RY418"),
    ],
)
def test_a_wrong_bond_or_vlan_is_one_finding(port: Row, code: str) -> None:
    found = codes({"gpu1": port})
    assert found == [code]


@pytest.mark.parametrize(
    ("attachment", "port", "more", "code"),
    [
        ("sriov", {"bond": BOND}, {"vfs": {"count": 4}}, ["RY456"]),
        ("host-device", {"bond": BOND}, {"provider": "network-operator"}, ["RY456"]),
        ("host-device", {"netdev": "ens1np0", "vlan": 5}, {"provider": "network-operator"}, ["RY456"]),
        ("ipoib", {"bond": BOND}, {"mtu": 2044}, ["RY457"]),
        ("ib-sriov", {"netdev": "ibs1", "vlan": 5}, {"vfs": {"count": 4}, "mtu": 4092}, ["RY457"]),
        ("sriov", dict(PLAIN, vlan=5), {"vfs": {"count": 4}}, []),
        ("ipvlan", {"bond": BOND, "vlan": 5}, {}, []),
        ("host", {"bond": dict(BOND, members=[{"mac": "02:00:00:00:00:01"}, {"netdev": "e2"}])}, {}, []),
    ],
)
def test_attachments_on_bonds_and_vlans(attachment: str, port: Row, more: Row, code: list[str]) -> None:
    provider = {"provider": "none"} if attachment == "host" else {}
    nodes = {"ai-1": {"profile": "hgx"}}
    assert codes({"gpu1": port}, nodes, attachment=attachment, **dict(provider, **more)) == code


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({"bond": BOND}, {"bond": BOND}, "RY404"),
        ({"bond": BOND, "vlan": 5}, {"bond": BOND, "vlan": 5}, "RY404"),
        ({"bond": BOND}, MEMBERS[0], "RY459"),
        ({"bond": BOND}, {"bond": {"name": "bond1", "members": MEMBERS}}, "RY459"),
        ({"bond": BOND, "vlan": 5}, {"bond": dict(BOND, mode="balance-xor"), "vlan": 6}, "RY459"),
        (dict(PLAIN, vlan=5), dict(PLAIN, vlan=6, rdma="mlx5_other"), "RY460"),
        ({"bond": BOND}, dict(PLAIN, vlan={"id": 5, "name": "ens2f0np0"}), "RY461"),
        ({"bond": BOND, "vlan": 5}, dict(PLAIN, vlan={"id": 5, "name": "bond0"}), "RY461"),
        ({"bond": BOND, "vlan": 5, "rdma": "mlx5_b"}, {"bond": BOND, "vlan": 6, "rdma": "mlx5_b"}, None),
        (dict(PLAIN), dict(PLAIN, vlan=6), None),
        (dict(PLAIN, vlan=5), dict(PLAIN, vlan=6), None),
    ],
)
def test_rails_can_share_a_function_only_through_vlans(first: Row, second: Row, code: str | None) -> None:
    assert codes({"gpu1": first, "gpu2": second}) == ([code] if code else [])


def test_lint_reports_members_among_the_other_ports() -> None:
    other = {"role": "storage", "netdev": "ens2f1np1", "pci": "0000:29:00.1"}
    assert codes({"gpu1": {"bond": BOND}}, profile={"other_ports": {"x": other}}) == ["RY430"]
    assert codes({"gpu1": {"bond": BOND}}, profile={"other_ports": {"x": dict(role="storage", netdev="bond0")}}) == [
        "RY430"
    ]


# -- an RDMA device with several ports ---------------------------------------------------------------------------------

PLANES = {"gpu1p%d" % at: {"netdev": "eth_r1_p%d" % at, "pci": "0000:18:00.%d" % (at - 1)} for at in (1, 2, 3, 4)}


def test_planes_of_a_rail_share_a_device() -> None:
    document = planned({rail: dict(port, rdma="roce_r1") for rail, port in PLANES.items()})
    node = document["nodes"][0]
    assert {port["rdma"]["name"] for port in node["ports"]} == {"roce_r1"}
    # only the node knows which port has which netdev
    assert nccl_objects.host_settings(document["fabric"], node)["NCCL_IB_HCA"] == "=roce_r1"
    assert "UCX_NET_DEVICES" not in nccl_objects.host_ucx(document["fabric"], node)
    assert [row["pci"] for row in port_options(node["ports"], "rdma_link")] == ["0000:18:00.0"]


def test_planes_with_the_port_numbers_of_the_device() -> None:
    numbers = {"gpu1p%d" % at: dict(PLANES["gpu1p%d" % at], rdma="roce_r1:%d" % (3 * at)) for at in (1, 2, 3, 4)}
    document = planned(numbers)
    node = document["nodes"][0]
    assert node["ports"][0]["rdma"] == {"name": "roce_r1", "type": "hardware", "port": 3}
    assert nccl_objects.host_settings(document["fabric"], node)["NCCL_IB_HCA"] == (
        "=roce_r1:3,roce_r1:6,roce_r1:9,roce_r1:12"
    )
    assert nccl_objects.host_ucx(document["fabric"], node)["UCX_NET_DEVICES"].endswith("roce_r1:12")


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        # a device with a port for each rail
        ({"netdev": "e1", "rdma": "roce_a:1"}, {"netdev": "e2", "rdma": "roce_a:2"}, None),
        # two netdevs on a function, which only their names distinguish
        ({"netdev": "eth2", "rdma": "roce_a:1"}, {"netdev": "eth3", "rdma": "roce_a:2"}, None),
        ({"netdev": "e1", "rdma": "roce_a:1"}, {"netdev": "e2", "rdma": "roce_a:1"}, "RY406"),
        ({"netdev": "e1", "rdma": "roce_a"}, {"netdev": "e2", "rdma": "roce_a"}, "RY406"),
        ({"netdev": "e1", "rdma": "roce_a:1"}, {"netdev": "e2", "rdma": "roce_a"}, "RY406"),
        ({"netdev": "e1", "rdma": "roce_a:0"}, {"netdev": "e2"}, "RY113"),
        ({"netdev": "e1", "rdma": "roce_a:x"}, {"netdev": "e2"}, "RY112"),
    ],
)
def test_rails_of_one_device(first: Row, second: Row, code: str | None) -> None:
    found = codes({"gpu1": first, "gpu2": second})
    assert found == ([code] if code else [])


# -- options of modules ------------------------------------------------------------------------------------------------


def options(document: Row, module: str) -> list[Row]:
    return port_options(document["nodes"][0]["ports"], module)


def test_modules_get_interfaces_functions_or_all_netdevs() -> None:
    profile = {
        "pci": {"acs": "leave"},
        "limits": {"memlock": "unlimited", "network_manager": "unmanaged"},
        "firmware": {"sriov_en": False},
    }
    document = planned({"gpu1": dict(PLAIN, gpu=0), "stor1": {"bond": BOND, "vlan": 100}}, profile=profile)
    functions = [{"pci": PLAIN["pci"], "netdev": "ens1np0"}, *MEMBERS]
    assert [{key: row[key] for key in ("pci", "netdev")} for row in options(document, "pci_tuning")] == functions
    assert [row["pci"] for row in options(document, "mlx_linktype")] == [row["pci"] for row in functions]
    assert options(document, "roce_qos") == functions
    assert options(document, "rail_limits") == [*functions, {"netdev": "bond0"}, {"netdev": "bond0.100"}]
    plain, stacked = options(document, "rail_ports")
    assert "lower" not in plain and plain["pci"] == PLAIN["pci"]
    assert stacked["netdev"] == "bond0.100" and "pci" not in stacked
    assert stacked["lower"]["functions"] == MEMBERS and stacked["lower"]["bond"]["mode"] == "802.3ad"


def test_vlans_of_one_function_share_a_row_of_the_function() -> None:
    ports = {"stor1": dict(PLAIN, vlan=5, gpu=0), "stor2": dict(PLAIN, vlan=6, gpu=1)}
    document = planned(ports, profile={"pci": {"acs": "leave"}})
    (row,) = options(document, "pci_tuning")
    assert row["gpus"] == [0, 1] and row["pci"] == PLAIN["pci"]
    assert options(document, "rdma_link") == [{"name": "mlx5_r1", "type": "hardware", "netdev": "ens1np0"}]


def test_modules_get_no_unmanaged_interfaces() -> None:
    profile = {"limits": {"network_manager": "unmanaged", "memlock": "unlimited"}}
    ports = {"stor1": {"bond": BOND, "managed": False, "rdma": "mlx5_bond_0"}, "stor2": dict(PLAIN, managed=False)}
    document = planned(ports, profile=profile)
    for module in ("rail_ports", "rdma_link", "rail_limits"):
        assert options(document, module) == []
    rows = layer_modules(document["nodes"][0], document["fabric"], {}, LAYERS)
    (limits,) = (row["options"] for row in rows if row["module"] == "rail_limits")
    assert "network_manager" not in limits and limits["memlock"] == "unlimited"
    # rail_ports refuses to run without ports
    assert "rail_ports" not in [row["module"] for row in rows]
    # no other program creates a soft device
    soft = planned({"stor1": {"bond": BOND, "managed": False}}, profile={"soft_rdma": "rxe"})
    assert options(soft, "rdma_link") == [{"name": "rxe_bond0", "type": "rxe", "netdev": "bond0"}]


def test_the_function_of_a_vlan_has_the_vfs() -> None:
    document = planned(
        {"gpu1": dict(PLAIN, vlan=5)}, {"ai-1": {"profile": "hgx"}}, attachment="sriov", vfs={"count": 2}
    )
    (row,) = options(document, "sriov_vfs")
    assert (row["pci"], row["netdev"], row["count"]) == (PLAIN["pci"], "ens1np0", 2)


# -- identities of members ---------------------------------------------------------------------------------------------


def nic(pci: str, netdev: str, mac: str, slot: str | None = None) -> Row:
    return {"pci": pci, "netdev": netdev, "slot": slot, "serial": None, "mac": mac, "permanent_mac": mac, "rdma": []}


# The current MAC address of a member comes from the bond.
NICS = [
    dict(nic("0000:29:00.0", "eth4", "0c:42:a1:00:00:01", "4"), mac="0c:42:a1:00:00:01"),
    dict(nic("0000:29:00.1", "eth5", "0c:42:a1:00:00:02", "4"), mac="0c:42:a1:00:00:01"),
    nic("0000:18:00.0", "ens1np0", "0c:42:a1:00:00:03"),
]


@pytest.mark.parametrize(
    "members",
    [
        [{"mac": "0c:42:a1:00:00:01"}, {"mac": "0c:42:a1:00:00:02"}],
        [{"slot": "4", "port": 1}, {"slot": "4", "port": 2}],
        [{"slot": "4", "port": 1}, {"mac": "0c:42:a1:00:00:02"}],
    ],
)
def test_members_are_identified(members: list[Row]) -> None:
    bond = {"name": "bond0", "members": [dict(each, netdev="m%d" % at) for at, each in enumerate(members)]}
    nodes = {"ai-1": {"profile": "hgx"}}
    document = planned({"stor1": {"bond": bond, "vlan": 100}}, nodes, provider="agent", pods_per_node=2)
    node = document["nodes"][0]
    assert unidentified(node, again=False)
    found = identify(node, NICS)
    assert [(each["pci"], each["netdev"]) for each in found["ports"][0]["lower"]["functions"]] == [
        ("0000:29:00.0", "m0"),
        ("0000:29:00.1", "m1"),
    ]
    (rail,) = found["agent"]["rails"]
    assert (rail["netdev"], rail["pci"]) == ("bond0.100", None)
    assert rail["lower"] == {
        "vlan": 100,
        "parent": "bond0",
        "bond": "bond0",
        "functions": ["0000:29:00.0", "0000:29:00.1"],
    }
    assert not unidentified(found, again=False) and unidentified(found, again=True)
    moved = [dict(row, pci=row["pci"].replace("29", "3a")) for row in NICS]
    assert identify(found, moved)["ports"][0]["lower"]["functions"][0]["pci"] == "0000:3a:00.0"


def test_a_missing_or_shared_member_is_named() -> None:
    bond = {"name": "bond0", "members": [{"mac": "0c:42:a1:00:00:01"}, {"mac": "0c:42:a1:00:00:09"}]}
    ports = {"stor1": {"bond": bond}}
    nodes = {"ai-1": {"profile": "hgx"}}
    node = planned(ports, nodes, provider="none", attachment="host")["nodes"][0]
    with pytest.raises(RailyardError, match=r"bond.members\[1\].mac"):
        identify(node, NICS)
    node["ports"][0]["lower"]["functions"][1]["match"]["mac"] = "0c:42:a1:00:00:02"
    node["other_ports"] = [{"name": "x", "role": "storage", "netdev": "eth5", "pci": None}]
    with pytest.raises(RailyardError, match="the port x, which is not on a rail"):
        identify(node, NICS)


def test_two_rails_on_one_function_are_identified_if_they_are_vlans() -> None:
    below = {"netdev": "m0", "mac": "0c:42:a1:00:00:01"}
    ports = {"gpu1": dict(below, vlan=5), "gpu2": dict(below, vlan=6)}
    one = {"ai-1": {"profile": "hgx"}}
    found = identify(planned(ports, one)["nodes"][0], NICS)
    assert [port["lower"]["functions"][0]["pci"] for port in found["ports"]] == ["0000:29:00.0"] * 2
    # two netdevs of one function
    both = [nic("0000:18:00.0", "eth2", "0c:42:a1:00:00:04"), nic("0000:18:00.0", "eth3", "0c:42:a1:00:00:05"), NICS[0]]
    node = planned(
        {"gpu1": {"netdev": "eth2"}, "gpu2": {"netdev": "eth3"}, "gpu3": {"netdev": "m", "slot": "4", "port": 1}}
    )
    assert identify(node["nodes"][0], both)["ports"][2]["pci"] == "0000:29:00.0"


# -- Kubernetes objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["spiderpool", "network-operator", "cni"])
def test_networks_name_the_interface_and_device_plugins_the_functions(provider: str) -> None:
    ports = {"stor1": {"bond": BOND, "vlan": 100}, "stor2": {"bond": BOND, "vlan": 200}}
    data = yaml.safe_load(text(ports, provider=provider, pods_per_node=8))
    for rail in data["rails"].values() if provider == "cni" else ():
        rail.update(mode="block", block=8)
    outcome = lint(yaml.safe_dump(data, sort_keys=False).encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    options = {"registry": "registry.example", **({"device_plugins": True} if provider == "cni" else {})}
    files = render(outcome.plan.document(), options, nodes=True)
    masters = [name for name, content in files.items() if "bond0.100" in content]
    members = [name for name, content in files.items() if "ens2f0np0" in content and "ens2f1np1" in content]
    plugins = [name for name in members if not name.startswith("metrics")]
    assert masters and plugins, sorted(files)
    assert not [name for name in plugins if "bond0" in files[name]]


# -- cables and reports ------------------------------------------------------------------------------------------------


def with_units(ports: Row, **unit: t.Any) -> str:
    data = yaml.safe_load(text(ports, {"ai-[1:2]": {"profile": "hgx", "unit": "su1"}}))
    data["units"] = {"su1": {"nodes": 4, **unit}}
    return yaml.safe_dump(data, sort_keys=False)


def test_each_member_has_its_own_cable() -> None:
    ports = {"gpu1": PLAIN, "stor1": {"bond": BOND, "vlan": 100}}
    outcome = lint(with_units(ports, leaf="{rail}-{m}", leaf_port="swp{i}").encode())
    assert outcome.plan is not None, [finding.text() for finding in outcome.findings]
    document = outcome.plan.document()
    plain, stacked = document["nodes"][1]["ports"]
    assert plain["leaf"]["name"] == "gpu1-1" and stacked["leaf"]["name"] == "stor1-1"
    assert [each["leaf"] for each in stacked["lower"]["functions"]] == [
        {"name": "stor1-1", "port": "swp2"},
        {"name": "stor1-2", "port": "swp2"},
    ]
    assert "leaf" not in port_options([stacked], "rail_ports")[0]["lower"]["functions"][0]
    names = [(leaf["rail"], leaf["name"]) for leaf in document["units"][0]["leaves"]]
    assert names == [("gpu1", "gpu1-1"), ("stor1", "stor1-1"), ("stor1", "stor1-2")]
    files = plan_tables.files(document)
    rows = list(csv.DictReader(files["leaves.csv"].decode().splitlines()))
    assert [(row["leaf"], row["leaf_port"], row["node"], row["function"], row["vlan"]) for row in rows[2:]] == [
        ("stor1-1", "swp1", "ai-1", "0000:29:00.0", "100"),
        ("stor1-1", "swp2", "ai-2", "0000:29:00.0", "100"),
        ("stor1-2", "swp1", "ai-1", "0000:29:00.1", "100"),
        ("stor1-2", "swp2", "ai-2", "0000:29:00.1", "100"),
    ]
    (row,) = [
        row
        for row in csv.DictReader(files["ports.csv"].decode().splitlines())
        if (row["node"], row["rail"]) == ("ai-1", "stor1")
    ]
    assert (row["netdev"], row["bond"], row["vlan_id"]) == ("bond0.100", "bond0 802.3ad", "100")
    assert "bond0 802.3ad" in files["leaves.md"].decode()
    picture = topology(document).decode()
    assert "stor1-1, stor1-2" in picture and "on ens2f0np0, ens2f1np1" in picture


def test_files_without_bonds_have_no_columns_for_them() -> None:
    files = plan_tables.files(planned({"gpu1": PLAIN}))
    for name in ("ports.csv", "leaves.csv"):
        assert not {"bond", "function", "functions", "vlan_id"} & set(files[name].decode().splitlines()[0].split(","))


def test_leaf_ports_of_members_and_vlans() -> None:
    def found(ports: Row, **unit: str) -> list[tuple[str, str]]:
        findings = lint(with_units(ports, **unit).encode()).findings
        return [(each.code, each.remedy) for each in findings if each.code != "RY817"]

    bond = {"stor1": {"bond": BOND}}
    ((code, remedy),) = found(bond, leaf="{rail}", leaf_port="swp{i}")
    assert code == "RY427" and "{m}" in remedy
    assert found(bond, leaf="{rail}", leaf_port="swp{i}s{m}") == []
    # VLANs of one netdev have one cable
    vlans = {"stor1": dict(PLAIN, vlan=5), "stor2": dict(PLAIN, vlan=6)}
    assert found(vlans, leaf="leaf", leaf_port="swp{i}") == []


def test_differences_of_members_are_named() -> None:
    before = planned({"stor1": {"bond": BOND, "vlan": 100}})
    after = planned({"stor1": {"bond": dict(BOND, mode="active-backup", members=MEMBERS[::-1]), "vlan": 101}})
    changes = {(each.what, each.attribute) for each in diff(before, after)}
    assert {("port", "lower.vlan"), ("port", "lower.bond.mode"), ("port", "netdev")} <= changes
    replaced = [dict(MEMBERS[0], pci="0000:29:00.2"), MEMBERS[1]]
    other = planned({"stor1": {"bond": dict(BOND, members=replaced), "vlan": 100}})
    changes = {(each.kind, each.what) for each in diff(before, other)}
    assert ("added", "function") in changes and ("removed", "function") in changes


@pytest.mark.parametrize("port", [{"bond": BOND}, {"netdev": "ens2f0np0", "vlan": 5}, {"bond": BOND, "vlan": 5}])
def test_interfaces_are_checked_against_the_kind_of_their_rail(port: Row) -> None:
    whole = yaml.safe_load(text({"gpu1": {"netdev": "ibs1"}, "stor1": port}, attachment="ib-sriov", mtu=4092))
    whole["fabric"].update(provider="agent", rdma_mode="shared", vfs={"count": 2})
    whole["rails"]["gpu1"] = {"mode": "none"}
    of_storage = whole["rails"]["stor1"]

    def found() -> list[str]:
        return [each.code for each in lint(yaml.safe_dump(whole).encode()).findings if each.severity == "error"]

    of_storage.update(role="storage", attachment="ipvlan", mtu=4000)
    assert found() == []
    of_storage.update(attachment="host-device", link_layer="ethernet")
    assert "RY456" in found()
    of_storage.update(attachment="ipoib", link_layer="infiniband")
    assert "RY457" in found()
