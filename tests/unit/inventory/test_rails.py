# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin through Ansible's own door: in this process for every wrong file, as a command for some."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader

from ansible_collections.railyard.fabric.plugins.inventory.rails import InventoryModule

ROOT = Path(__file__).resolve().parents[3]
INVENTORIES = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))


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
    """Stands for Ansible's display, and keeps what it would show."""

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
    line = "%s:%d: %s " % (path, wrong.line, wrong.code)
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


def test_a_directory_of_the_name_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.mkdir()
    with pytest.raises(AnsibleParserError, match=r"it cannot be read: Is a directory\. Remedy: "):
        parse(path)


@pytest.mark.parametrize("name", INVENTORIES)
def test_the_worked_examples_are_clean(name: str) -> None:
    warnings: list[str] = []
    inventory = parse(ROOT / "inventories" / name / "fabric.yml", warnings)
    assert not warnings and len(inventory.groups["railyard_nodes"].get_hosts()) == 2


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
    assert done.returncode == 0 and done.stderr == ""
    hosts = json.loads(done.stdout)["_meta"]["hostvars"]
    assert sorted(hosts) == ["node-1", "node-2"]
    assert [len(port["vfs"]["attributes"]) for port in hosts["node-1"]["railyard_node"]["ports"]] == [2] * 8
    assert hosts["node-2"]["railyard_fabric"]["rdma_mode"] == "exclusive"


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
    assert done.stderr.strip().splitlines() == [
        "[ERROR]: %s:8: RY112 fabric.mtu: jumbo is not a whole number."
        " Remedy: write a whole number of bytes from 576 to 9978." % path,
        "%s:18: RY306 rails.gpu03.gateway: 172.16.31.254 is not in 172.16.13.0/24."
        " Remedy: take an address from 172.16.13.1 to 172.16.13.254." % path,
    ]


def test_two_fabrics_in_one_inventory_are_refused() -> None:
    done = run("-i", "inventories/lab", "-i", "inventories/macvlan-roce", "--list")
    assert done.returncode != 0 and done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert "the inventory has the fabric lab already, and this is ai-10-1-16. Remedy: " in line
    same = run("-i", "inventories/lab", "-i", "inventories/lab/fabric.yml", "--list")
    assert same.returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yml"
    path.write_text(TABLE.MACVLAN)
    path.chmod(0)
    with pytest.raises(AnsibleParserError, match="Permission denied"):
        parse(path)
