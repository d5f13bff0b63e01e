# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/import_rules.py: the ranks of the collection hold, and a violation of each kind is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import import_rules

ROOT = Path(__file__).resolve().parents[2]
PRIVATE = "plugins/module_utils/"
IMPORT = "from ansible_collections.railyard.fabric.plugins.module_utils."
# A checkout of a few modules. Its packages without modules are reported too, so tests look for one line.
FILES = {
    "docs/architecture.md": import_rules.BEGIN + import_rules.END,
    PRIVATE + "_common/errors.py": "",
    PRIVATE + "_node/core/system.py": IMPORT + "_common import errors\n",
    PRIVATE + "_node/core/lock.py": IMPORT + "_node.core.system import System\n",
    PRIVATE + "_node/qos/port_qos.py": IMPORT + "_node.core import lock, system\n",
    PRIVATE + "_fabric/model/variants.py": "",
    PRIVATE + "_fabric/lint/lint_run.py": IMPORT + "_fabric.model import variants\n",
    PRIVATE + "_fabric/kubernetes/view/labels.py": "",
    PRIVATE + "_fabric/kubernetes/gpu/operator.py": IMPORT + "_fabric.kubernetes.view import labels\n",
    "plugins/plugin_utils/_output.py": "",
    "plugins/inventory/rails.py": "from ansible_collections.railyard.fabric.plugins.plugin_utils import _output\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def _violations(checkout: Path) -> list[str]:
    return [line for line in import_rules.check(checkout) if line.startswith(("plugins/", "import cycle"))]


def test_the_ranks_hold() -> None:
    assert import_rules.check(ROOT) == []


def test_imports_of_lower_ranks_are_accepted(checkout: Path) -> None:
    assert _violations(checkout) == []


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("_fabric/model/variants.py", IMPORT + "_fabric.lint.lint_run import lint\n", "_fabric.model must not"),
        ("_fabric/model/variants.py", IMPORT + "_node.core.system import System\n", "_fabric.model must not"),
        ("_fabric/kubernetes/view/labels.py", IMPORT + "_fabric.kubernetes.gpu import operator\n", "view must not"),
        ("_fabric/report/tables.py", IMPORT + "_fabric.kubernetes.view import labels\n", "_fabric.report must not"),
        ("_node/sriov/vf_spec.py", IMPORT + "_node.qos import port_qos\n", "_node.sriov must not"),
        ("_node/core/system.py", IMPORT + "_node.qos import port_qos\n", "_node.core must not"),
        ("_kube/api/connect.py", IMPORT + "_fabric.model import variants\n", "_kube.api must not"),
        ("_common/errors.py", IMPORT + "_node.core.system import System\n", "_common must not"),
        ("../modules/rail_info.py", IMPORT + "_fabric.model import variants\n", "modules must not"),
        ("../filter/rails.py", IMPORT + "_node.core.system import System\n", "filter must not"),
        ("../plugin_utils/_output.py", IMPORT[: -len("module_utils.")] + "inventory import rails\n", "utils must not"),
        ("_node/core/system.py", "def f():\n    %s_node.core.lock import x\n" % IMPORT, "import cycle: _node.core.l"),
        ("_node/core/system.py", "from . import lock\n", "is not imported as"),
        ("_node/newroom/thing.py", "", "its package has no rank"),
        ("_node/thing.py", "", "its package has no rank"),
        ("thing.py", "", "its package has no rank"),
        ("_common/urls.py", "#\n" * 501, "more than 500"),
    ],
)
def test_a_violation_is_found(checkout: Path, file: str, text: str, found: str) -> None:
    path = checkout / PRIVATE / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as opened:
        opened.write(text)
    assert [line for line in _violations(checkout) if found in line]


def test_a_package_of_more_than_24_modules_is_found(checkout: Path) -> None:
    for number in range(24):
        (checkout / PRIVATE / "_node" / "qos" / ("extra_%d.py" % number)).touch()
    assert "_node.qos: has 25 modules, more than 24" in import_rules.check(checkout)


def test_a_package_without_docstring_and_a_page_that_differs_are_found(checkout: Path) -> None:
    found = import_rules.check(checkout)
    assert "_node.qos: its __init__.py needs a docstring of one line: what the package holds" in found
    assert "tools/import_rules.py: _node.rdma has no modules" in found
    assert "docs/architecture.md: its table of packages differs. " + import_rules.FIX in found
