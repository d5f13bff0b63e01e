# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepared guests are discovered; the file that comes of it is sound, and hosts.yml would change nothing with it."""

from __future__ import annotations

import re
import shutil
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from lab import cli
from tests import playbook
from tests.integration.conftest import LAB, LAB_DIR, ROOT

pytestmark = [pytest.mark.lab, pytest.mark.long]
TAG = "before-discover"


@pytest.fixture(autouse=True)
def restored() -> t.Iterator[None]:
    """The lab is left as it was found."""
    assert cli.main(["snapshot", "save", TAG, "--name", LAB]) == 0
    yield
    assert cli.main(["snapshot", "restore", TAG, "--name", LAB]) == 0
    assert cli.main(["snapshot", "delete", TAG, "--name", LAB]) == 0


def play(name: str, *words: str, inventory: str | Path | None = None, **given: t.Any) -> str:
    """What a playbook prints; it must succeed."""
    done = playbook.play("playbooks/" + name, *words, inventory=inventory, given=given, timeout=1800)
    assert done.returncode == 0, done.text
    return done.stdout


def changed(output: str) -> dict[str, int]:
    """Host -> how many tasks changed something."""
    return {host: int(count) for host, count in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.M)}


@pytest.mark.parametrize("scenario", ["lab", "lab-sriov"])
def test_discover_then_hosts_changes_nothing(tmp_path: Path, scenario: str) -> None:
    inventory = "inventories/" + scenario
    play("hosts.yml", inventory=inventory, reboot_allowed="true")
    # Nodes without a plan: their names, and how to reach them.
    plain = tmp_path / "plain" / "hosts.yml"
    plain.parent.mkdir()
    reach = {
        "ansible_user": "ops",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": "-F %s" % (LAB_DIR / "ssh_config"),
        "ansible_ssh_timeout": 120,
        "ansible_control_path_dir": "~/.ansible/cp/%s" % LAB_DIR.name,
    }
    hosts: dict[str, dict[str, t.Any]] = {"node-1": {}, "node-2": {}}
    plain.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": reach}}), encoding="utf-8")

    found = tmp_path / "found" / "fabric.yml"
    options = {"discover_name": scenario, "fabric_file": str(found)}
    output = play("discover.yml", inventory=plain, **options)
    assert changed(output).get("node-2") == 0, output
    outcome = lint(found.read_bytes())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    assert "DECIDE" not in found.read_text(encoding="utf-8").partition("---\n")[2], found.read_text(encoding="utf-8")
    assert set(changed(play("discover.yml", inventory=plain, **options)).values()) == {0}

    wanted = lint((ROOT / inventory / "fabric.yml").read_bytes()).plan
    assert wanted
    for one, other in zip(wanted.nodes, outcome.plan.nodes):
        before, after = wanted.node_vars(one), outcome.plan.node_vars(other)
        assert before["name"] == after["name"] and before["rdma_mode"] == after["rdma_mode"]
        for left, right in zip(before["ports"], after["ports"]):
            keys = ("rail", "pci", "netdev", "rdma", "mtu", "address", "gateway", "table", "rule_priority")
            assert [left[key] for key in keys] == [right[key] for key in keys]
    assert set(changed(play("validate.yml", fabric_file=str(found))).values()) == {0}

    shutil.copytree(ROOT / inventory / "group_vars", found.parent / "group_vars")
    reached = {"lab_dir": str(LAB_DIR.parent), "lab_name": LAB_DIR.name}
    done = play("hosts.yml", inventory=found, **reached)
    assert set(changed(done).values()) == {0}, done
