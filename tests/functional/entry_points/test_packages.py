# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing packages, on a node whose package manager has not yet read the lists of its repositories."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.playbook import Played

# A package manager as ansible.builtin.package reaches any: without new lists it knows no package.
MANAGER = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
KNOWN = %r
spec = {"name": {"type": "list"}, "state": {}, "update_cache": {"type": "bool", "default": False}}
module = AnsibleModule(spec, supports_check_mode=True)
for each in module.params["name"]:
    if each not in KNOWN or not module.params["update_cache"]:
        module.fail_json(msg="No package matching '%%s' is available" %% each)
module.exit_json(changed=True)
"""


def install(tmp_path: Path, known: list[str], *words: str) -> Played:
    # Runs share Ansible's packed modules by name, so each variant of the module needs its own name.
    manager = "_".join(["manager_of", *known])
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / (manager + ".py")).write_text(MANAGER % known)
    play = {"hosts": "node-1", "gather_facts": False, "connection": "local", "roles": ["railyard.fabric.preflight"]}
    variables = {"preflight_packages": {"none": "perftest"}, "ansible_package_use": "ansible.legacy." + manager}
    variables["preflight_control_node_allowed"] = True
    play["vars"] = {**variables, "ansible_python_interpreter": sys.executable}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    return playbook.play(tmp_path / "play.yml", *words, inventory="node-1,")


def test_lists_that_were_never_read_are_read(tmp_path: Path) -> None:
    done = install(tmp_path, ["perftest"])
    assert done.returncode == 0 and "changed=1" in done.one_line and "rescued=1" in done.one_line, done.text


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    done = install(tmp_path, [])
    assert done.returncode == 2 and "failed=1" in done.one_line, done.text
    assert "No package matching 'perftest' is available" in done.one_line


@pytest.mark.parametrize("known", [[], ["perftest"]])
def test_check_mode_does_not_fail_where_a_run_would_not(tmp_path: Path, known: list[str]) -> None:
    done = install(tmp_path, known, "--check")
    message = "node-1 does not have perftest; check mode cannot find these packages"
    assert done.returncode == 0 and message in done.one_line, done.text
