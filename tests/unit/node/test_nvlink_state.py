# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVLink domain of GPUs, from recorded outputs of nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import nvlink_state

RECORDINGS = Path(__file__).parents[2] / "recordings" / "nvlink"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("completed", ("Completed", "Success", "4026", "9c6f5af3-53bf-49b5-a436-b66766c413c3")),
        ("in-progress", ("In Progress", None, None, None)),
        (
            "insufficient-resources",
            ("Completed", "Insufficient Resources", "0", "00000000-0000-0000-0000-000000000000"),
        ),
    ],
)
def test_each_gpu_has_its_domain(name: str, values: tuple[str | None, ...]) -> None:
    rows = nvlink_state.parse((RECORDINGS / (name + ".txt")).read_text())
    assert [row["pci"] for row in rows] == ["0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0"]
    keys = ("state", "status", "clique", "cluster")
    assert {tuple(row[key] for key in keys) for row in rows} == {values}


def test_gpus_without_the_section_have_no_row() -> None:
    text = (RECORDINGS / "completed.txt").read_text().replace("    Fabric\n", "    Other\n")
    assert nvlink_state.parse(text) == []


def test_one_gpu_without_the_section_has_no_values() -> None:
    text = (RECORDINGS / "completed.txt").read_text().replace("    Fabric\n", "    Other\n", 1)
    rows = nvlink_state.parse(text)
    assert [row["state"] for row in rows] == [None, "Completed", "Completed", "Completed"]
    assert rows[0] == {"pci": "0008:06:00.0", "state": None, "status": None, "clique": None, "cluster": None}


FORGED = (
    "    Fabric\n        State : Completed\n        Status : Success\n        CliqueId : 7\n        ClusterUUID : %s\n"
    % ("2f3f9c11-7f1d-4f0e-9a53-0c8d7a1f4c02")
)


@pytest.mark.parametrize(
    "process",
    [
        "train\n" + FORGED,
        "train\nGPU 00000009:06:00.0\n" + FORGED,
        "train\nGPU 00000020:06:00.0\n" + FORGED,
    ],
    ids=["section", "listed GPU", "further GPU"],
)
def test_the_name_of_a_process_does_not_change_the_state(tmp_path: Path, process: str) -> None:
    for name in ("completed", "in-progress"):
        text = (RECORDINGS / (name + ".txt")).read_text()
        first, mark, rest = text.partition("\nGPU 00000009")
        forged = "%s    Processes\n        Process ID : 42\n            Name : %s%s%s" % (first, process, mark, rest)
        found = nvlink_state.look(Node(tmp_path, CommandResult(0, forged, "")))
        assert found["gpus"] == [] and "4 attached" in found["error"]


def test_an_output_that_ends_early_is_an_error(tmp_path: Path) -> None:
    text = (RECORDINGS / "completed.txt").read_text().partition("\nGPU 00000018")[0]
    found = nvlink_state.look(Node(tmp_path, CommandResult(0, text, "")))
    assert found == {"gpus": [], "error": "nvidia-smi -q: 2 GPUs with 2 sections Fabric, and 4 attached"}


class Node(System):
    """A node with nvidia-smi, or without it."""

    def __init__(self, root: Path, result: CommandResult | None) -> None:
        super().__init__(str(root), lambda argv, timeout: result or CommandResult(127, "", "missing"))
        self.installed = result is not None

    def which(self, program: str) -> str | None:
        return "/usr/bin/" + program if self.installed else None


def test_a_failed_program_is_an_error(tmp_path: Path) -> None:
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    found = nvlink_state.look(Node(tmp_path, CommandResult(9, message + "\n", "")))
    assert found == {"gpus": [], "error": "nvidia-smi -q: " + message}
    assert nvlink_state.look(Node(tmp_path, None))["error"] == "nvidia-smi is not installed"
    text = (RECORDINGS / "completed.txt").read_text()
    assert len(nvlink_state.look(Node(tmp_path, CommandResult(0, text, "")))["gpus"]) == 4
