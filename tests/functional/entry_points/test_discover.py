# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_discover and playbooks/discover.yml as a person runs them: what is written, and what is reported."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests.playbook import ROOT, Played, play, run
from tests.unit.fabric import live_nodes


@pytest.fixture(scope="module")
def nodes() -> dict[str, t.Any]:
    plan = lint((ROOT / "inventories" / "lab" / "fabric.yml").read_bytes()).plan
    assert plan
    return {each.name: each.result for each in live_nodes.nodes_of(plan)}


def discover(*arguments: str, **options: t.Any) -> Played:
    named = ("localhost", "-i", "localhost,", "-m", "railyard.fabric.fabric_discover", "-a", json.dumps(options))
    return run("ansible", *named, *arguments)


def test_discovery_writes_the_fabric_file_once(tmp_path: Path, nodes: dict[str, t.Any]) -> None:
    out = tmp_path / "new" / "fabric.yml"
    addresses = {"node-1": "192.0.2.1", "node-2": ""}
    specs = {"nodes": nodes, "addresses": addresses, "dest": str(out), "name": "lab", "pods": ".1-.200"}
    checked = discover("--check", "--diff", **specs)
    assert checked.returncode == 0 and "+  attachment: macvlan" in checked.stdout and not out.parent.exists()

    first = discover(**specs)
    assert first.returncode == 0 and "CHANGED" in first.stdout, first.text
    raw = out.read_bytes()
    outcome = lint(raw)
    assert outcome.plan is not None and outcome.findings == []
    assert yaml.safe_load(raw)["nodes"] == {
        "node-1": {"profile": "server", "address": "192.0.2.1"},
        "node-2": {"profile": "server"},
    }
    second = discover(**specs)
    assert second.returncode == 0 and "CHANGED" not in second.stdout and out.read_bytes() == raw

    other = discover(**dict(specs, name="another"))
    assert other.returncode and out.read_bytes() == raw
    assert "Remedy: name another file, or overwrite it with -e discover_force=true." in other.stdout
    forced = discover(**dict(specs, name="another", force=True))
    assert forced.returncode == 0 and yaml.safe_load(out.read_text())["fabric"]["name"] == "another"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": {}}, "no node has a port that can be a rail port"),
        ({"nodes": {"a": "x"}}, "nodes.a: not a mapping. Remedy: "),
        (
            {"rail_name": "gpu{x}"},
            "rail_name: {x} is not a template. Remedy: write a name that contains the rail's number",
        ),
        ({"lldp": {"node-1": ["x"]}}, "lldp: not a mapping"),
        ({"provider": "cilium"}, "value of provider must be one of: spiderpool, network-operator, cni"),
    ],
    ids=["no node", "no mapping", "no template", "no LLDP", "no provider"],
)
def test_wrong_options_end_with_one_clear_line(
    nodes: dict[str, t.Any], options: dict[str, t.Any], message: str
) -> None:
    done = discover(**dict({"nodes": nodes}, **options))
    assert done.returncode and message in done.text, done.text


def test_the_playbook_reports_what_is_missing(tmp_path: Path) -> None:
    """This machine is a node that answers; another does not, and is reported too."""
    inventory = tmp_path / "hosts.yml"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_connection": "local", "ansible_python_interpreter": "/nonexistent/python"}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"here": here, "gone": gone}}}), encoding="utf-8")
    given = {"ansible_become": "false", "fabric_file": str(tmp_path / "fabric.yml")}
    done = play("playbooks/discover.yml", inventory=inventory, given=given)
    assert done.returncode and "DS101" in done.text, done.text
    if (tmp_path / "fabric.yml").exists():
        assert lint((tmp_path / "fabric.yml").read_bytes())
    else:
        assert "no node has a port that can be a rail port" in done.text, done.text


def test_bare_servers_get_addresses_from_a_supernet(tmp_path: Path, nodes: dict[str, t.Any]) -> None:
    bare = {name: dict(result, ip={"addresses": [], "routes": [], "rules": []}) for name, result in nodes.items()}
    without = discover(nodes=bare, name="lab")
    assert without.text.count("rail-without-addresses (DS301): no port of") == 1, without.text
    out = tmp_path / "fabric.yml"
    done = discover(nodes=bare, name="lab", dest=str(out), supernet="172.16.0.0/16")
    assert done.returncode == 0 and lint(out.read_bytes()).findings == [], done.text
    wrong = discover(nodes=bare, supernet="172.16.0.1/16")
    assert wrong.returncode and "172.16.0.1/16 is not a network" in wrong.text
