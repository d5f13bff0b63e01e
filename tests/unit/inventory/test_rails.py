# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin through Ansible itself: in this process for every wrong file, as a command for some."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader

from ansible_collections.railyard.fabric.plugins.inventory.rails import InventoryModule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import RULES

ROOT = Path(__file__).resolve().parents[3]
INVENTORIES = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))

# Nodes of the worked examples that have more than two.
NODES = {
    "dual-stack": 4,
    "agent": 8,
    "agent-dra": 8,
    "bonded-roce": 4,
    "flat-roce": 4,
    "hgx-b300-planes": 8,
    "vera-rubin": 18,
    "four-gpu-two-nic": 6,
    "host-device": 4,
    "ib-compute-roce-storage": 32,
    "infiniband-sriov": 32,
    "ipoib": 4,
    "mixed-models": 12,
    "node-first": 8,
    "routed-31": 128,
    "slurm": 8,
    "sriov-roce-prefix": 16,
}


def _wrong_files() -> t.Any:
    path = ROOT / "tests/unit/fabric/wrong_files.py"
    spec = importlib.util.spec_from_file_location("wrong_files", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["wrong_files"] = module
    spec.loader.exec_module(module)
    return module


TABLE = _wrong_files()


class _Display:
    """Replaces Ansible's display, and keeps what it would show."""

    def __init__(self, warnings: list[str]) -> None:
        self.warning = warnings.append


def parse(path: Path, warnings: list[str] | None = None) -> InventoryData:
    plugin = InventoryModule()
    if warnings is not None:
        plugin.display = _Display(warnings)
    assert plugin.verify_file(str(path))
    inventory = InventoryData()
    plugin.parse(inventory, DataLoader(), str(path), cache=False)
    inventory.reconcile_inventory()
    return inventory


def run(*arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``ansible-inventory`` as a person runs it in the checkout, with its ansible.cfg or another."""
    environment = dict(os.environ, ANSIBLE_CONFIG=str(config or ROOT / "ansible.cfg"))
    if config:
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
    command = [str(Path(sys.executable).with_name("ansible-inventory")), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("wrong", TABLE.WRONG, ids=lambda wrong: wrong.title)
def test_every_wrong_file_is_refused_or_warned_of(wrong: t.Any, tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_bytes(wrong.text)
    warnings: list[str] = []
    line = "%s:%d: %s " % (path, wrong.line, RULES[wrong.code].label)
    try:
        inventory = parse(path, warnings)
    except AnsibleParserError as error:
        assert error.message.startswith(line) and wrong.place in error.message
        assert "Remedy: " in error.message and "\n" not in error.message
    else:
        assert inventory.groups["railyard_nodes"].get_hosts()
        (warning,) = warnings
        assert warning.startswith(line)


def test_groups_and_variables(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yml"
    path.write_text(TABLE.MACVLAN.replace("  hgx:", "  hgx-cx5:").replace("profile: hgx", "profile: hgx-cx5"))
    inventory = parse(path)
    nodes = ["ai-1", "ai-2", "ai-3", "jupiter"]
    assert [host.name for host in inventory.groups["railyard_nodes"].get_hosts()] == nodes
    assert [host.name for host in inventory.groups["railyard_profile_hgx_cx5"].get_hosts()] == nodes
    assert [host.name for host in inventory.groups["rack_1"].get_hosts()] == ["ai-1", "ai-2"]
    assert inventory.groups["railyard_nodes"].get_vars()["railyard_fabric"]["rails"] == ["gpu01", "gpu02", "gpu03"]
    third = inventory.hosts["ai-3"].get_vars()
    assert third["ansible_host"] == "ai-3.example.com" and third["bmc"] == "10.1.17.3"
    assert third["railyard_node"]["index"] == 3 and len(third["railyard_node"]["ports"]) == 2
    assert "ansible_host" not in inventory.hosts["jupiter"].get_vars()


@pytest.mark.parametrize(
    ("name", "text", "ours"),
    [
        ("fabric.yml", "", True),
        ("fabric.yaml", "rails: {}", True),
        ("fabric.yml", "plugin: rails", True),
        ("fabric.yml", "plugin: amazon.aws.aws_ec2", False),
        ("other.yml", "# ours\nplugin: 'railyard.fabric.rails' # yes", True),
        ("other.yml", "all: {hosts: {}}", False),
        ("other.yml", "comment: plugin railyard.fabric.rails", False),
        ("fabric.ini", "plugin: railyard.fabric.rails", False),
    ],
)
def test_which_files_are_ours(name: str, text: str, ours: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert InventoryModule().verify_file(str(path)) is ours


def test_a_directory_of_the_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.mkdir()
    with pytest.raises(AnsibleParserError, match=r"it cannot be read: Is a directory\. Remedy: "):
        parse(path)


@pytest.mark.parametrize("name", INVENTORIES)
def test_the_worked_examples_are_clean(name: str) -> None:
    warnings: list[str] = []
    inventory = parse(ROOT / "inventories" / name / "fabric.yml", warnings)
    assert not warnings and len(inventory.groups["railyard_nodes"].get_hosts()) == NODES.get(name, 2)


def _ports(name: str, node: str) -> list[dict[str, t.Any]]:
    ports: list[dict[str, t.Any]] = (
        parse(ROOT / "inventories" / name / "fabric.yml").hosts[node].get_vars()["railyard_node"]["ports"]
    )
    return ports


def test_a_prefix_for_each_node_and_rail() -> None:
    port = _ports("sriov-roce-prefix", "gpu-su2-03")[7]
    assert (port["address"], port["gateway"]) == ("172.17.194.66/27", "172.17.194.65")
    assert (port["pods"]["first"], port["pods"]["last"]) == ("172.17.194.67", "172.17.194.94"), "28 of a /27"
    assert port["leaf"]["name"] == "su2-r08" and port["leaf"]["port"] == "swp3"
    assert port["leaf"]["aggregate"] == "172.17.194.0/23", "16 places of a /27"
    assert port["names"]["pool"] == "ai-east-gpu08-gpu-su2-03" and port["names"]["policy"] == "ai-east-gpu08-hgx-h100"


def test_links_to_two_planes() -> None:
    ports = _ports("routed-31", "b300-su2-05")
    assert [port["rail"] for port in ports[:3]] == ["r1p1", "r1p2", "r2p1"] and len(ports) == 16
    assert [(port["number"], port["base"], port["plane"]) for port in ports[2:4]] == [(3, "r2", 1), (4, "r2", 2)]
    first = ports[0]
    assert first["address"] == "10.192.0.72/31", "place 5 of unit 2: the host's end is even"
    assert first["leaf"] == {
        "name": "ams1-su2-r1-p1",
        "port": "swp5",
        "address": "10.192.0.73",
        "address6": None,
        "aggregate": "10.192.0.64/26",
        "aggregate6": None,
    }


def test_rails_that_do_not_meet() -> None:
    port = _ports("host-device", "solo-02")[0]
    assert port["gateway"] is None and port["leaf"]["address"] == "10.64.0.9"
    assert port["routes"] == [{"to": "10.64.0.0/20", "via": "10.64.0.9", "table": 101}]
    assert port["match"]["slot"] == "40" and port["pci"] is None and port["netdev"] == "rail01"


def test_two_models_with_their_own_attachments() -> None:
    inventory = parse(ROOT / "inventories/mixed-models/fabric.yml")
    nodes = {name: host.get_vars()["railyard_node"] for name, host in inventory.hosts.items()}
    fabric = inventory.groups["railyard_nodes"].get_vars()["railyard_fabric"]
    assert fabric["attachments"] == ["sriov", "macvlan"] and fabric["attachment"] == "sriov"
    assert (nodes["h100-01"]["attachment"], nodes["h100-01"]["rdma_mode"]) == ("sriov", "exclusive")
    assert (nodes["a100-11"]["attachment"], nodes["a100-11"]["rdma_mode"]) == ("macvlan", "shared")
    counts = [len(nodes[name]["ports"][0]["vfs"]["attributes"]) for name in ("h100-06", "h100-07")]
    assert counts == [8, 4] and nodes["a100-11"]["ports"][0]["vfs"] is None
    assert nodes["a100-14"]["ports"][3]["pci"] == "0000:d1:00.0"
    assert inventory.groups["inference"].get_vars()["workload"] == "inference"


def test_both_families_side_by_side() -> None:
    port = _ports("dual-stack", "dual-03")[1]
    assert (port["address"], port["gateway"]) == ("172.24.1.203/24", "172.24.1.254")
    assert (port["address6"], port["gateway6"]) == ("fd00:172:24:1::102/64", "fd00:172:24:1::1")
    assert port["names"]["pool6"] == "v6-" + port["names"]["pool"]


def test_blocks_of_addresses() -> None:
    port = _ports("four-gpu-two-nic", "four-2")[1]
    assert (port["pods"]["first"], port["pods"]["last"]) == ("172.18.2.32", "172.18.2.47")
    assert port["gpus"] == [2, 3] and port["expect"]["gpu_distance"] == "NODE"


def test_infiniband_without_addresses() -> None:
    port = _ports("infiniband-sriov", "dgx-32")[0]
    assert port["address"] is None and port["pods"] is None and port["names"]["pool"] is None
    assert port["leaf"]["name"] == "ib-su1-l1" and port["leaf"]["port"] == "p32" and port["expect"]["width"] == 4
    expected = {"link_type": "ib", "sriov_en": True, "num_of_vfs": 8, "parameters": {}, "version": None}
    assert port["firmware"] == expected
    assert _ports("ipoib", "ib-2")[0]["pods"]["first"] == "172.17.1.9"


@pytest.mark.parametrize("rule", ["RY314", "no-host-addresses"])
def test_a_suppressed_finding_is_a_note_with_its_reason(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(
        TABLE.MACVLAN.replace("    hosts: .201-.253\n", "")
        + "lint:\n  - {rule: %s, place: rails.gpu03, reason: proven by hand}\n" % rule
    )
    done = run("-i", str(path), "--list")
    assert done.returncode == 0 and json.loads(done.stdout)
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("[NOTE]: %s:16: no-host-addresses (RY314) rails.gpu03: " % path)
    assert line.endswith("Suppressed: proven by hand.")


def test_the_macvlan_example_is_the_cluster_that_was_asked_for() -> None:
    inventory = parse(ROOT / "inventories/macvlan-roce/fabric.yml")
    for index, name in enumerate(("ai-10-1-16-1", "ai-10-1-16-2"), 1):
        ports = inventory.hosts[name].get_vars()["railyard_node"]["ports"]
        assert [port["netdev"] for port in ports] == ["enp%ds0f0np0" % slot for slot in range(11, 19)]
        assert [port["gateway"] for port in ports] == ["172.16.%d.254" % net for net in range(11, 19)]
        assert [port["address"] for port in ports] == ["172.16.%d.%d/24" % (net, 200 + index) for net in range(11, 19)]
        assert [port["table"] for port in ports] == list(range(101, 109))
        assert inventory.hosts[name].get_vars()["ansible_host"] == "10.1.16.%d" % index


def test_the_command_lists_the_lab() -> None:
    done = run("-i", "inventories/lab-sriov", "--list")
    assert done.returncode == 0 and done.stderr == "" and "__ansible_unsafe" not in done.stdout
    hosts = json.loads(done.stdout)["_meta"]["hostvars"]
    assert sorted(hosts) == ["node-1", "node-2"]
    assert [len(port["vfs"]["attributes"]) for port in hosts["node-1"]["railyard_node"]["ports"]] == [2, 2]
    assert hosts["node-2"]["railyard_fabric"]["rdma_mode"] == "exclusive"
    # as a playbook has it
    inventory = parse(ROOT / "inventories/lab-sriov/fabric.yml", [])
    assert hosts["node-2"]["railyard_node"] == inventory.hosts["node-2"].get_vars()["railyard_node"]


@pytest.mark.parametrize("own_config", [False, True], ids=["this ansible.cfg", "an ansible.cfg of someone else"])
def test_the_command_ends_with_every_finding_once_and_no_traceback(own_config: bool, tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(TABLE.MACVLAN.replace("mtu: 4200", "mtu: jumbo").replace("gateway: .254", "gateway: 172.16.31.254"))
    config = None
    if own_config:
        config = tmp_path / "ansible.cfg"
        config.write_text("[inventory]\nenable_plugins = railyard.fabric.rails, host_list, auto, yaml, ini\n")
    done = run("-i", str(path), "--list", config=config)
    assert done.returncode != 0 and done.stdout == ""
    # as ansible-core spells it from 2.19 on
    assert re.sub(r"^ERROR! ", "[ERROR]: ", done.stderr.strip()).splitlines() == [
        "[ERROR]: %s:8: wrong-type (RY112) fabric.mtu: jumbo is not a whole number."
        " Remedy: write a whole number of bytes from 576 to 9978." % path,
        "%s:18: address-outside-subnet (RY306) rails.gpu03.gateway: 172.16.31.254 is not in 172.16.13.0/24."
        " Remedy: use an address from 172.16.13.1 to 172.16.13.254." % path,
    ]


def test_a_warning_among_errors_is_called_that(tmp_path: Path) -> None:
    text = (ROOT / "inventories/macvlan-roce/fabric.yml").read_text()
    path = tmp_path / "fabric.yml"
    path.write_text(re.sub(r"provider: \S+", "provider: spider", text) + "qos: {dscp: 26, priority: 4}\n")
    done = run("-i", str(path), "--list")
    lines = done.stderr.strip().splitlines()
    warned = [line for line in lines if "RY705" in line]
    assert done.returncode != 0 and len(warned) == 1 and warned[0].split("%s:" % path)[0].endswith("warning: ")
    assert all("warning: " not in line for line in lines if "RY114" in line)


def test_two_fabrics_in_one_inventory_are_refused() -> None:
    done = run("-i", "inventories/lab", "-i", "inventories/macvlan-roce", "--list")
    assert done.returncode != 0 and done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    first = str(ROOT / "inventories/lab/fabric.yml")
    assert "an inventory has one fabric, and %s describes one already (lab; this is ai-10-1-16)." % first in line
    same = run("-i", "inventories/lab", "-i", "inventories/lab/fabric.yml", "--list")
    assert same.returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(TABLE.MACVLAN)
    path.chmod(0)
    with pytest.raises(AnsibleParserError, match="Permission denied"):
        parse(path)
