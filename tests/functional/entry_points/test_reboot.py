# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes after a reboot: the node is prepared when its own boot has ended, and not beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.playbook import ROOT, play

# As systemd's: it reports how the boot ended when it has, and fails if any service did.
SYSTEMCTL = """#!/bin/sh
[ "$*" = "is-system-running --wait" ] || exit 9
sleep 2
touch %s
echo degraded
exit 1
"""


@pytest.mark.parametrize("words", [[], ["--check"]])
def test_nothing_is_changed_before_the_boot_has_ended(tmp_path: Path, words: list[str]) -> None:
    tasks = yaml.safe_load((ROOT / "roles/reboot/tasks/main.yml").read_text())
    at = [each["name"] for each in tasks].index("Reboot")
    (wait,) = tasks[at + 1 :]
    ended = tmp_path / "ended"
    (tmp_path / "systemctl").write_text(SYSTEMCTL % ended)
    (tmp_path / "systemctl").chmod(0o755)
    see = {"name": "See", "ansible.builtin.stat": {"path": str(ended)}, "register": "seen"}
    message = {"name": "Say", "ansible.builtin.debug": {"msg": "the boot has ended: {{ seen.stat.exists }}"}}
    book = {"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [wait, see, message]}
    book["environment"] = {"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])}
    book["vars"] = {"reboot_reasons": ["the RDMA mode"], "ansible_python_interpreter": sys.executable}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([book]))
    done = play(tmp_path / "play.yml", *words, inventory="node-1,")
    assert done.returncode == 0 and "changed=0" in done.stdout, done.text
    assert "the boot has ended: %s" % (not words) in done.stdout, done.stdout
