# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible never prints the password in the URL of a repository, which a user gives to the role or the module."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.playbook import play

FABRIC = """\
plugin: railyard.fabric.rails
fabric: {name: ai, mtu: 1500, attachment: host, provider: none}
rails: {gpu01: {subnet: 172.16.11.0/24, hosts: .201-.206}}
profiles:
  server:
    driver: {kind: doca, version: 2.9.3, source: "https://mirror.example/doca", unsigned: true}
    ports: {gpu01: {netdev: rail1}}
nodes: {node-1: {profile: server}}
"""


# with a password that contains encoded characters
SOURCE = "https://me:hush%2Fhush/hush@mirror.example/doca"
MODULE = {"railyard.fabric.nic_driver": {"kind": "doca", "version": "2.9.3", "source": SOURCE, "unsigned": True}}


@pytest.mark.parametrize("run", [{"roles": ["railyard.fabric.ofed"]}, {"tasks": [MODULE]}], ids=["role", "module"])
def test_at_no_verbosity_is_the_password_shown(tmp_path: Path, run: dict[str, t.Any]) -> None:
    given = {"ansible_python_interpreter": sys.executable, "preflight_control_node_allowed": True}
    book = {"hosts": "all", "gather_facts": False, "connection": "local", "vars": {**given, "ofed_source": SOURCE}}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**book, **run}]))
    (tmp_path / "fabric.yml").write_text(FABRIC)
    played = play(tmp_path / "play.yml", "--check", "--diff", "-vvv", inventory=tmp_path / "fabric.yml")
    assert played.returncode == 2, played.text
    assert "hush" not in played.text
    assert "source: https://me:***@mirror.example/doca cannot be read: " in played.one_line, played.text
    _before, invocation, options = played.text.partition("invocation:")
    assert invocation and ("roles" in run or "source: https://me:***@mirror.example/doca\n" in options), played.text
