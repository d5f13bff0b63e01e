# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment: ansible-builder takes its description, and it holds what the playbooks need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
BUILDER = str(Path(sys.executable).with_name("ansible-builder"))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder would build from."""
    place = tmp_path_factory.mktemp("ee")
    command = [
        BUILDER,
        "create",
        "-f",
        "execution-environment.yml",
        "-c",
        str(place),
        "--output-filename",
        "Containerfile",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_the_base_is_the_users_choice(context: Path) -> None:
    text = (context / "Containerfile").read_text()
    assert re.search(r'^ARG EE_BASE_IMAGE="', text, re.MULTILINE) and "FROM $EE_BASE_IMAGE" in text
    image = yaml.safe_load((ROOT / "execution-environment.yml").read_text())["images"]["base_image"]["name"]
    assert "/" not in image, "whose registry is not ours to say"


def test_the_image_has_the_programs_that_playbooks_need(context: Path) -> None:
    python = (context / "_build" / "requirements.txt").read_text()
    assert re.search(r"^kubernetes\b", python, re.MULTILINE)
    (requirements,) = (context / "_build").glob("requirements.yml")
    there = {each["name"] for each in yaml.safe_load(requirements.read_text())["collections"]}
    used = set()
    for folder in ("roles", "playbooks"):
        for path in (ROOT / folder).rglob("*.yml"):
            used |= {
                ".".join(each.split(".")[:2])
                for each in re.findall(r"^\s+([a-z]+\.[a-z]+\.\w+):", path.read_text(), re.M)
            }
    foreign = used - {"ansible.builtin", "railyard.fabric"}
    assert "kubernetes.core" in foreign and foreign <= there


def test_the_collection_reports_the_same_to_other_builders() -> None:
    command = [BUILDER, "introspect", str(ROOT / "collections")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    message = yaml.safe_load(done.stdout[done.stdout.index("---") :])
    assert "kubernetes>=22.6" in " ".join(message["python"]) and "openssh-clients [platform:rpm]" in " ".join(
        message["system"]
    )


def test_requirements_are_ranges() -> None:
    """Galaxy's rule: ``>=`` or nothing, and ansible-core is not ours to install."""
    lines = [line for line in (ROOT / "meta/ee-requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    assert lines and all(re.match(r"[a-z0-9-]+(>=[0-9.]+)?\Z", line) and "ansible" not in line for line in lines)
