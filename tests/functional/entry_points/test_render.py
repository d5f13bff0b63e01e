# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/render.yml`` as a person runs it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests import playbook
from tests.playbook import Played

INVENTORY = "inventories/sriov-roce-prefix"


def render(*words: str, inventory: str = INVENTORY, **given: object) -> Played:
    return playbook.play("playbooks/render.yml", *words, inventory=inventory, given=given)


def test_a_fabric_is_rendered_once_and_then_not_again(tmp_path: Path) -> None:
    place = str(tmp_path / "rails")
    would = render("--check", render_dir=place)
    assert would.returncode == 0, would.text
    assert "changed=1" in would.stdout and not (tmp_path / "rails").exists()
    done = render(render_dir=place)
    assert done.returncode == 0, done.text
    assert "changed=1" in done.stdout
    top = yaml.safe_load((tmp_path / "rails" / "kustomization.yaml").read_text())
    assert "spiderpool" in top["resources"]
    pools = list(yaml.safe_load_all((tmp_path / "rails" / "spiderpool" / "spiderippool-gpu01.yaml").read_text()))
    assert {pool["spec"]["nodeName"][0] for pool in pools} >= {"gpu-su1-01"}
    again = render(render_dir=place)
    assert "changed=0" in again.stdout and "0 written, 0 removed" in again.stdout


def test_the_labs_inventory_without_an_operator_does_not_need_a_registry(tmp_path: Path) -> None:
    done = render(inventory="inventories/lab-cni/fabric.yml", render_dir=str(tmp_path / "rails"))
    assert done.returncode == 0, done.text
    made = {path.name for path in (tmp_path / "rails" / "cni").iterdir()}
    assert made == {"kustomization.yaml", *("networkattachmentdefinition-gpu0%d.yaml" % rail for rail in range(1, 9))}


def test_missing_or_wrong_options_are_one_error(tmp_path: Path) -> None:
    nowhere = render()
    assert nowhere.returncode == 2
    assert "render_dir is required. Remedy: " in nowhere.stdout
    wrong = render(render_dir=str(tmp_path), kubernetes_options={"regstry": "mirror.example"})
    assert wrong.returncode == 2
    assert "kubernetes.regstry: is not an option (did you mean registry?). Remedy: " in wrong.stdout
    assert not list(tmp_path.iterdir())
