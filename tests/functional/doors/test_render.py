# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/render.yml`` as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = "inventories/sriov-roce-prefix"


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``ansible-playbook playbooks/render.yml`` with the checkout's ansible.cfg."""
    environment = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_FORCE_COLOR="0")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(ROOT / "playbooks" / "render.yml")]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_fabric_is_rendered_once_and_then_not_again(tmp_path: Path) -> None:
    arguments = ("-i", INVENTORY, "-e", "render_dir=%s" % (tmp_path / "rails"))
    said = play("--check", *arguments)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "changed=1" in said.stdout and not (tmp_path / "rails").exists()
    done = play(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=1" in done.stdout
    top = yaml.safe_load((tmp_path / "rails" / "kustomization.yaml").read_text())
    assert "spiderpool" in top["resources"]
    pools = list(yaml.safe_load_all((tmp_path / "rails" / "spiderpool" / "spiderippool-gpu01.yaml").read_text()))
    assert {pool["spec"]["nodeName"][0] for pool in pools} >= {"gpu-su1-01"}
    again = play(*arguments)
    assert "changed=0" in again.stdout and "0 written, 0 removed" in again.stdout


def test_the_labs_inventory_without_an_operator_needs_no_word_of_a_registry(tmp_path: Path) -> None:
    done = play("-i", "inventories/lab-cni/fabric.yml", "-e", "render_dir=%s" % (tmp_path / "rails"))
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name for path in (tmp_path / "rails" / "cni").iterdir()}
    assert made == {"kustomization.yaml", *("networkattachmentdefinition-gpu0%d.yaml" % rail for rail in range(1, 9))}


def test_what_is_missing_or_wrong_is_one_line(tmp_path: Path) -> None:
    nowhere = play("-i", INVENTORY)
    assert nowhere.returncode == 2
    assert "render_dir: nobody said where to write. Remedy: " in nowhere.stdout
    options = json.dumps({"render_dir": str(tmp_path), "kubernetes_options": {"regstry": "mirror.example"}})
    wrong = play("-i", INVENTORY, "-e", options)
    assert wrong.returncode == 2
    assert "kubernetes.regstry: is not an option (did you mean registry?). Remedy: " in wrong.stdout
    assert not list(tmp_path.iterdir())
