# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role reboot never reboots the machine on which Ansible runs: the run would end in its middle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.playbook import play

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OTHER = "00000000-0000-4000-8000-000000000000"
REFUSED = "node-1 is the machine on which Ansible runs, so its reboot would end this run. Remedy: reboot it by hand"
# Ansible's module refuses a local connection by itself, so that no run of these tests reboots anything.
REACHED = "with local connection would reboot the control node"


@pytest.mark.parametrize(
    ("variable", "boot_id", "reasons", "failure"),
    [
        ("preflight_node", BOOT_ID, ["the RDMA mode"], REFUSED),
        ("preflight_boot", BOOT_ID, ["the RDMA mode"], REFUSED),
        ("preflight_node", OTHER, ["the RDMA mode"], REACHED),
        ("preflight_node", BOOT_ID, [], ""),
    ],
)
def test_the_control_node_is_not_rebooted(
    tmp_path: Path, variable: str, boot_id: str, reasons: list[str], failure: str
) -> None:
    options = {"reboot_reasons": reasons, "reboot_allowed": True}
    role = {"name": "Reboot", "ansible.builtin.include_role": {"name": "railyard.fabric.reboot"}, "vars": options}
    book = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [role]}
    book["vars"] = {variable: {"system": {"boot_id": boot_id}}, "ansible_python_interpreter": sys.executable}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([book]))
    done = play(tmp_path / "play.yml", inventory="node-1,")
    assert (done.returncode != 0) == bool(failure), done.text
    assert failure in done.one_line, done.text
    assert (REACHED in done.one_line) == (failure == REACHED), done.text
