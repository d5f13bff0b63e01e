# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages name playbooks as the reader can type them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import playbook_names
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

ROOT = Path(__file__).resolve().parents[3]


def test_a_checkout_names_its_files_also_through_a_link(tmp_path: Path) -> None:
    assert not playbook_names.installed() and playbook_names.playbook("hosts") == "playbooks/hosts.yml"
    place = tmp_path / "ansible_collections" / "railyard"
    place.mkdir(parents=True)
    os.symlink(ROOT, place / "fabric")
    assert not playbook_names.installed(str(place / "fabric/plugins/module_utils/_fabric/text/playbook_names.py"))


def test_an_installed_collection_names_its_playbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert playbook_names.installed(str(tmp_path / "ansible_collections/railyard/fabric/plugins/x.py"))
    monkeypatch.setattr(playbook_names, "installed", lambda: True)
    names = playbook_names.named(
        "see the port (playbooks/hosts.yml); hosts.yml sets it, not fabric.yml or my/hosts.yml."
    )
    assert names == (
        "see the port (railyard.fabric.hosts); railyard.fabric.hosts sets it, not fabric.yml or my/hosts.yml."
    )


def test_every_playbook_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playbook_names, "installed", lambda: True)
    for path in ROOT.glob("playbooks/*.yml"):
        names = playbook_names.named("playbooks/%s" % path.name)
        # AWX has checkouts alone, and runs these two there
        assert names == "railyard.fabric.%s" % path.stem or path.stem in ("awx", "reboots")


def test_the_command_names_the_inventory_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("east", "my fabric"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(_fabric_files, "_inventory_sources", lambda: [str(tmp_path / "east")])
    monkeypatch.delenv("AWX_PRIVATE_DATA_DIR", raising=False)
    assert playbook_names.command("railyard.fabric.hosts", _fabric_files.inventory()) == (
        "ansible-playbook -i east railyard.fabric.hosts"
    )
    monkeypatch.setattr(_fabric_files, "_inventory_sources", lambda: ["east", "my fabric"])
    assert _fabric_files.inventory() == "east -i 'my fabric'"
    monkeypatch.setattr(_fabric_files, "_inventory_sources", lambda: ["/etc/there/is/none"])
    assert _fabric_files.inventory("east/fabric.yml") == "east/fabric.yml"
    assert playbook_names.command("x") == "ansible-playbook -i INVENTORY x"
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/runner")
    assert _fabric_files.inventory("east/fabric.yml") == ""
