# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request of a command line or a survey is carried out or refused, and never ignored in silence."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import playbook
from tests.functional.entry_points.test_packages import MANAGER
from tests.functional.entry_points.test_verify import FABRIC, judge
from tests.playbook import Played
from tests.unit.fabric.verify_nodes import World

# No server listens there: connections are refused.
SERVER = {"apiVersion": "v1", "kind": "Config", "current-context": "none"}
SERVER["clusters"] = [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}]
SERVER["users"] = [{"name": "none", "user": {"token": "none"}}]
SERVER["contexts"] = [{"name": "none", "context": {"cluster": "none", "user": "none"}}]


def play(book: str | Path, *words: str, inventory: str | Path = FABRIC, **given: t.Any) -> Played:
    done = playbook.play(book, "-T", "3", *words, inventory=inventory, given=given)
    assert "[WARNING]" not in done.text, done.text
    return done


def test_plugins_that_may_not_be_installed_are_not(tmp_path: Path) -> None:
    """The text "false" of a command line is not consent. This machine is only read."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "manager_of_none.py").write_text(MANAGER % [])
    given = {"cni_sources": [], "cni_plugin_directory": str(tmp_path), "preflight_control_node_allowed": True}
    given["ansible_package_use"] = "ansible.legacy.manager_of_none"
    roles = [{"role": "railyard.fabric.cni", "vars": given}]
    book = {"hosts": "node-1", "connection": "local", "gather_facts": False, "roles": roles}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([book]))
    inventory = playbook.ROOT / "inventories/lab-cni/fabric.yml"
    for answer, message in (("false", "is not in %s" % tmp_path), ("true", "No package matching")):
        python = "ansible_python_interpreter=" + sys.executable
        done = play(tmp_path / "play.yml", "--check", "-e", python, "-e", "cni_install=" + answer, inventory=inventory)
        assert done.returncode == 2 and message in done.one_line, done.text
        assert ("Install the package of plugins]" in done.one_line) is (answer == "true"), done.text


@pytest.fixture
def sick() -> World:
    plan = lint(FABRIC.read_bytes()).plan
    assert plan
    world = World(plan)
    world.nic(next(iter(world.plans)), "gpu03")["mtu"] = 1500
    return world


@pytest.mark.parametrize(("kind", "asked"), [("verify", True), ("drift", False)])
def test_the_end_of_a_whole_run_cordons_and_drift_never_does(
    tmp_path: Path, sick: World, kind: str, asked: bool
) -> None:
    """What looks at nothing of the cluster, as the end of site.yml, has found bad rails all the same."""
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(SERVER))
    given = {"verify_kind": kind, "verify_cordon": "true", "verify_kubernetes": False}
    given["verify_kubernetes_kubeconfig"] = str(tmp_path / "kubeconfig")
    done = judge(tmp_path, sick, "-e", json.dumps(given))
    assert done.returncode == 2 and "RV404" in done.stdout, "the verdict is shown although no cluster answers"
    assert ("https://127.0.0.1:1" in done.stdout) is asked, done.stdout


def test_nodes_are_cordoned_only_in_a_named_cluster() -> None:
    done = play("playbooks/verify.yml", "-e", "verify_cordon=true", "-e", "ansible_host=192.0.2.1")
    assert done.returncode == 2 and "verify_cordon: no cluster is named" in done.one_line, done.text
    assert "Read the node]" not in done.one_line, done.text


def test_a_verdict_that_cannot_be_written_is_reported(tmp_path: Path, sick: World) -> None:
    """It took a whole proof to find out."""
    (tmp_path / "taken").write_text("")
    done = judge(tmp_path, sick, "-e", "verify_report_dir=%s" % (tmp_path / "taken"))
    assert done.returncode == 2 and "RV404" in done.one_line and "ports proven" in done.one_line, done.text
    assert "name a directory that you may write, with -e verify_report_dir=DIR" in done.one_line
