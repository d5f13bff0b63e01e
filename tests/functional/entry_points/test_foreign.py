# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that need other people's collections, where these are not installed: hidden from Ansible, as on a bare
control node.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests import playbook
from tests.playbook import ROOT, Played

HELM = "#!/bin/sh\necho v3.15.0\n"


def play(tmp_path: Path, name: str, **given: object) -> Played:
    """A playbook without the collections that lie beside Ansible's own packages."""
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\ncollections_path = %s\n" % (ROOT / "collections"))
    env = {
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "0",
    }
    return playbook.play("playbooks/" + name, inventory="localhost,", given=given, env=env, cwd=tmp_path)


def reports(text: str, collection: str) -> bool:
    """Whether the one line is there, and nothing of Ansible's own beside it."""
    line = "control node: the collection %s is not installed. Remedy: install it with ansible-galaxy" % collection
    return line in text and "couldn't resolve module" not in text


@pytest.mark.parametrize("name", ["cluster", "teardown"])
def test_charts_without_their_collection(tmp_path: Path, name: str) -> None:
    helm = tmp_path / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)
    given = {"fabric_file": str(ROOT / "inventories/sriov-roce-prefix/fabric.yml"), "cluster_helm": str(helm)}
    given.update(cluster_archives=str(tmp_path), kubernetes_kubeconfig=str(tmp_path / "none"))
    done = play(tmp_path, name + ".yml", **given)
    if name == "teardown":
        # without teardown_software nothing of Helm is asked for
        assert done.returncode == 2 and "kubernetes.core" not in done.one_line, done.text
    else:
        assert done.returncode == 2 and reports(done.one_line, "kubernetes.core"), done.text


def test_used_collections_are_those_of_the_documentation() -> None:
    """No other collection has crept in, and none is a dependency of the collection."""
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"] == {}
    used: set[str] = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            used |= set(re.findall(r"^\s*(?:- )?([a-z_]+\.[a-z_]+)\.[a-z_]+:", path.read_text(), re.MULTILINE))
    page = (ROOT / "docs/release.md").read_text()
    foreign = used - {"ansible.builtin", "railyard.fabric"}
    assert foreign == {"kubernetes.core"} and all("`%s`" % each in page for each in foreign)
