# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies of modules name the variable of the role that sets an option, or the module if no role sets it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from tests import yaml_text

ROOT = Path(__file__).resolve().parents[3]
NODE = ROOT / "plugins" / "module_utils" / "_node"
# A remedy that proposes to set an option, in any notation.
_SET = re.compile(r"\b(?:set|with|add) `?([a-z]+(?:_[a-z]+)*)(?=:|`| to (?:true|false|none|a)\b| \(option )")
_OPTION = re.compile(r"([a-z_]+) (?:to [a-z]+ ?)?\(option ([a-z_]+)[:a-z ]* of the module\)")


def _texts() -> list[tuple[str, str]]:
    found = []
    for path in sorted(NODE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                found.append((path.name, node.value))
    return found


def _variables() -> set[str]:
    specs = (yaml_text.load(path.read_text(encoding="utf-8")) for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
    return {name for spec in specs for name in spec["argument_specs"]["main"].get("options", {})}


def test_a_remedy_names_a_variable_of_a_role_or_the_module() -> None:
    options = {each.option for layer in HOST_LAYERS for each in layer.variables} | {"persist", "switch"}
    wrong = [
        (file, text)
        for file, text in _texts()
        for option in _SET.findall(text)
        if option in options and "call the module" not in text
    ]
    assert wrong == []


def test_variables_in_remedies_exist_and_set_the_option_that_is_named() -> None:
    named = [match for _file, text in _texts() for match in _OPTION.findall(text)]
    pairs = {(each.name, each.option) for layer in HOST_LAYERS for each in layer.variables}
    assert len(named) >= 5 and {variable for variable, _option in named} <= _variables()
    # with the backend none, nothing is written for the next boot
    assert set(named) - {("rail_ports_backend", "persist")} <= pairs
