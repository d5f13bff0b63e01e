# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/import_rules.py: the layers of the collection hold, and a violation of each kind is found."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

import pytest

from tools import import_rules

ROOT = Path(__file__).resolve().parents[2]
PRIVATE = "plugins/module_utils/"
IMPORT = "from ansible_collections.railyard.fabric.plugins.module_utils."


Add = t.Callable[[str, str], t.List[str]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "plugins", tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "architecture.md", tmp_path / "docs")
    return tmp_path


@pytest.fixture
def add(copied: Path) -> t.Iterator[t.Callable[[str, str], list[str]]]:
    """Append to files of a copy, which is restored afterwards; returns what the check then reports."""
    before: dict[Path, str | None] = {}

    def append(file: str, text: str) -> list[str]:
        path = copied / file
        before.setdefault(path, path.read_text() if path.exists() else None)
        path.parent.mkdir(exist_ok=True)
        path.write_text((before[path] or "") + text)
        return list(import_rules.check(copied))

    yield append
    for path, text in before.items():
        if text is None:
            path.unlink()
        else:
            path.write_text(text)


def test_the_layers_hold() -> None:
    assert import_rules.check(ROOT) == []


def test_the_table_has_no_cycle() -> None:
    left = {name: package.allowed for name, package in import_rules.PACKAGES.items()}
    while left:
        free = {name for name, below in left.items() if not below & set(left)}
        assert free, "packages that import each other: %s" % sorted(left)
        left = {name: below for name, below in left.items() if name not in free}


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        (
            PRIVATE + "_fabric/plan/fabric_plan.py",
            IMPORT + "_fabric.lint.lint_run import lint\n",
            "_fabric.plan must not",
        ),
        (PRIVATE + "_fabric/model/variants.py", IMPORT + "_node.core.system import System\n", "_fabric.model must not"),
        (PRIVATE + "_node/sriov/vf_spec.py", IMPORT + "_node.qos import qos_spec\n", "_node.sriov must not"),
        (PRIVATE + "_node/core/system.py", IMPORT + "_fabric.text import name_syntax\n", "_node.core must not"),
        (PRIVATE + "_kube/api/connect.py", IMPORT + "_fabric.model import variants\n", "_kube.api must not"),
        (PRIVATE + "_common/errors.py", IMPORT + "_node.core.system import System\n", "_common must not"),
        ("plugins/modules/rail_info.py", IMPORT + "_fabric.model import variants\n", "plugins/modules must not"),
        ("plugins/filter/port_options.py", IMPORT + "_node.core.system import System\n", "plugins/filter must not"),
        (
            PRIVATE + "_node/core/system.py",
            "def late():\n    %s_node.core.boot_lock import Busy\n    return Busy\n" % IMPORT,
            "import cycle: ",
        ),
        (PRIVATE + "_node/core/system.py", "from . import subsystem\n", "is not imported as"),
        (PRIVATE + "_node/newroom/thing.py", "", "its package is not in"),
        (PRIVATE + "thing.py", "", "belongs in a package"),
        (PRIVATE + "_common/system.py", "", "system: is the name of"),
        (PRIVATE + "_common/urls.py", "#\n" * 500, "more than 500"),
        (PRIVATE + "_common/__init__.py", "#\n", "differs from tools/import_rules.py"),
    ],
)
def test_a_violation_is_found(add: Add, file: str, text: str, found: str) -> None:
    assert [line for line in add(file, text) if found in line]


def test_a_package_of_more_than_24_modules_is_found(add: Add) -> None:
    reports = [add(PRIVATE + "_node/gpu/extra_%d.py" % number, "") for number in range(25)]
    assert [line for line in reports[-1] if line.startswith("_node.gpu: has 27 modules")]
    assert not [line for line in reports[0] if line.startswith("_node.gpu: has")]


def test_a_page_that_differs_is_found(copied: Path) -> None:
    page = copied / "docs" / "architecture.md"
    text = page.read_text()
    page.write_text(text.replace("| `_common` |", "| `_shared` |"))
    found = import_rules.check(copied)
    page.write_text(text)
    assert found == ["docs/architecture.md: differs from tools/import_rules.py. " + import_rules.FIX]
