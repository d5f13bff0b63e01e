# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that need other people's collections, where these are not installed: hidden from Ansible, as on a bare
control node.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
HELM = "#!/bin/sh\necho v3.15.0\n"


def play(tmp_path: Path, name: str, *words: str) -> tuple[int, str]:
    """Return code and what was said, without the collections that lie beside Ansible's own packages."""
    config = tmp_path / "ansible.cfg"
    config.write_text("[defaults]\ncollections_path = %s\n" % (ROOT / "collections"))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "0",
        "ANSIBLE_NOCOLOR": "1",
        "CONTROLLER_HOST": "https://awx.example",
        "CONTROLLER_OAUTH_TOKEN": "none",
    }
    environment.pop("ANSIBLE_FORCE_COLOR", None)
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,"]
    command += [str(ROOT / "playbooks" / name), *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def says(text: str, collection: str) -> bool:
    """Whether the one line is there, and nothing of Ansible's own beside it."""
    line = "control node: the collection %s is not there. Remedy: install it with ansible-galaxy" % collection
    return line in text and "Traceback" not in text and "couldn't resolve module" not in text


@pytest.mark.parametrize("name", ["cluster", "teardown"])
def test_charts_without_their_collection(tmp_path: Path, name: str) -> None:
    helm = tmp_path / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)
    fabric = "fabric_file=%s" % (ROOT / "inventories/sriov-roce-prefix/fabric.yml")
    words = ["-e", fabric, "-e", "cluster_helm=%s" % helm, "-e", "cluster_archives=%s" % tmp_path]
    rc, said = play(tmp_path, name + ".yml", *words, "-e", "kubernetes_kubeconfig=%s" % (tmp_path / "none"))
    if name == "teardown":
        # without teardown_software nothing of Helm is asked for
        assert rc == 2 and "kubernetes.core" not in said, said
    else:
        assert rc == 2 and says(said, "kubernetes.core"), said


def test_awx_without_its_collection(tmp_path: Path) -> None:
    data = tmp_path / "awx.yml"
    data.write_text((ROOT / "tests/unit/awx/sample.yml").read_text())
    kinds = {
        "git": "password",
        "registry": "password",
        "nodes": "ssh_key_data",
        "cluster": "kubeconfig",
        "ops": "token",
    }
    secrets = json.dumps({"awx_secrets": {name: {kind: "none"} for name, kind in kinds.items()}})
    rc, said = play(tmp_path, "awx.yml", "-e", "awx_file=%s" % data, "-e", secrets)
    assert rc == 2 and says(said, "awx.awx"), said


def test_what_is_used_is_what_the_documentation_names() -> None:
    """No other collection has crept in, and none is a dependency that everybody must bring."""
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"] == {}
    used: set[str] = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            used |= set(re.findall(r"^\s*(?:- )?([a-z_]+\.[a-z_]+)\.[a-z_]+:", path.read_text(), re.MULTILINE))
    page = (ROOT / "docs/release.md").read_text()
    foreign = used - {"ansible.builtin", "railyard.fabric"}
    assert foreign == {"kubernetes.core", "awx.awx"} and all("`%s`" % each in page for each in foreign)
