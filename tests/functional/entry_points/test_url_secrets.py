# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository's address with a password, as a person gives it to the role: Ansible prints it nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from tests.playbook import play


def test_at_no_verbosity_is_the_password_shown(tmp_path: Path) -> None:
    book = {
        "hosts": "all",
        "gather_facts": False,
        "connection": "local",
        "roles": ["railyard.fabric.ofed"],
        "vars": {
            "ansible_python_interpreter": sys.executable,
            # the unreadable part of it, as programs would print it
            "ofed_source": "https://me:hush%2Fhush/hush@mirror.example/doca",
            "ofed_driver": {"kind": "doca", "version": "2.9.3", "source": "https://mirror.example/doca"},
        },
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([book]))
    played = play(tmp_path / "play.yml", "--check", "--diff", "-vvv", inventory="node-1,")
    assert played.returncode == 2, played.text
    assert "hush" not in played.text
    assert "source: https://me:***@mirror.example/doca cannot be read: " in played.one_line, played.text
    _before, invocation, options = played.text.partition("invocation:")
    assert invocation and "source: https://me:***@mirror.example/doca\n" in options, played.text
