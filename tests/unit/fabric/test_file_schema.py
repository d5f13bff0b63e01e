# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of the fabric file: it accepts good files, refuses wrong shapes, and is the one that is released."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import jsonschema
import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import WRONG_PLUGIN
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file, finding
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules
from tools import schema_doc

from .wrong_files import GOOD, WRONG

ROOT = Path(__file__).resolve().parents[3]
RELEASED = ROOT / "docs" / "fabric.schema.json"
PAGES = schema_doc.pages()
SCHEMA = schema_doc.schema(PAGES)
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# The rules of what a key or a value alone must look like.
SHAPE = {
    rule.code
    for rule in (
        file_rules.UNKNOWN,
        file_rules.MISSING,
        file_rules.KIND,
        file_rules.RANGE,
        file_rules.CHOICE,
        WRONG_PLUGIN,
    )
}
FILES = {path.parent.name: path.read_text() for path in sorted((ROOT / "inventories").glob("*/fabric.yml"))}


class _Editor(yaml.SafeLoader):
    """YAML 1.2, as editors read it: 0000:11:00.0 and on are texts."""


_OLD = {"tag:yaml.org,2002:" + kind for kind in ("int", "float", "timestamp", "bool")}
_Editor.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OLD]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Editor.add_implicit_resolver("tag:yaml.org,2002:int", re.compile("^[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789"))
_Editor.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def _errors(text: str | bytes) -> list[str]:
    loaded = yaml.load(text, _Editor)
    return ["%s: %s" % (list(error.absolute_path), error.message[:200]) for error in VALIDATOR.iter_errors(loaded)]


def test_the_schema_is_valid() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_released_file_is_current() -> None:
    """Written by ``tools/schema_doc.py``."""
    assert RELEASED.read_text(encoding="utf-8") == schema_doc.page()


@pytest.mark.parametrize("name", FILES)
def test_worked_inventories_are_accepted(name: str) -> None:
    assert _errors(FILES[name]) == []


@pytest.mark.parametrize("name", GOOD)
def test_good_files_are_accepted(name: str) -> None:
    assert _errors(GOOD[name]) == []


def test_the_good_examples_of_all_rules_are_accepted() -> None:
    wrong = {}
    for rule in finding.RULES.values():
        text = example_file.whole(rule.good)
        if not lint(text.encode()).errors:
            wrong[rule.code] = _errors(text)
    assert len(wrong) > 150
    assert {code: errors for code, errors in wrong.items() if errors} == {}


def test_wrong_shapes_are_refused() -> None:
    """At least 80 %: what is required depends on other values in some places, and the schema leaves that to lint."""
    refused: dict[str, bool] = {}
    for wrong in WRONG:
        if not {found.code for found in lint(wrong.text).findings} & SHAPE:
            continue
        try:
            refused[wrong.title] = bool(_errors(wrong.text))
        except (yaml.YAMLError, ValueError):
            continue
    assert len(refused) > 90
    accepted = [title for title, done in refused.items() if not done]
    assert len(accepted) <= 0.2 * len(refused), accepted


@pytest.mark.parametrize(
    "old, new",
    [
        ("mtu: 4200", "mtu: 42"),
        ("mtu: 4200", "mtu: many"),
        ("provider: spiderpool", "provider: spiderpod"),
        ("provider: spiderpool", "provder: spiderpool"),
        ("  name: ai-10-1-16\n", ""),
        ("firmware: {link_type: eth,", "firmware: {link_type: fc,"),
        ("soft_rdma: null", "soft_rdma: [rxe]"),
        ("hosts: .201-.253}", "hosts: {first: .201}}"),
        ("gpu: 0}", "gpus: 0}"),
        ("rack_1]", "rack_1], rak: 1"),
        ("plugin: railyard.fabric.rails", "plugin: ini"),
    ],
)
def test_editors_mark_wrong_values(old: str, new: str) -> None:
    text = GOOD["macvlan"]
    assert old in text
    assert _errors(text.replace(old, new))


def _descriptions(schema: dict[str, t.Any], path: str = "") -> t.Iterator[tuple[str, str]]:
    for key, value in schema.get("properties", {}).items():
        yield "%s.%s" % (path, key), value.get("description", "")
        yield from _descriptions(value, "%s.%s" % (path, key))
    below = [*schema.get("anyOf", []), schema.get("items"), schema.get("additionalProperties")]
    for part in below:
        if isinstance(part, dict):
            yield from _descriptions(part, path)


def test_each_key_has_a_short_description() -> None:
    texts = dict(_descriptions(SCHEMA))
    assert len(texts) > 400
    assert [key for key, text in texts.items() if not text.endswith(".")] == []
    assert {key: len(text) for key, text in texts.items() if len(text) > 400} == {}
    assert [key for key, text in texts.items() if "](" in text or "see below" in text] == []
    assert texts[".fabric.mtu"].startswith("Bytes that all switches of the rails support")
    assert texts[".profiles.ports.bond.members.pci"] == texts[".nodes.ports.pci"] != texts[".fabric.pci"]


def test_a_key_without_a_row_in_the_documentation_is_an_error() -> None:
    pages = {name: text.replace("`mac_seed`", "`mac_sed`") for name, text in PAGES.items()}
    with pytest.raises(RailyardError, match="fabric.mac_seed: no table has the key"):
        schema_doc.schema(pages)


@pytest.mark.parametrize("key", ["subnt", "gatway", "host_range"])
def test_a_misspelt_key_of_generated_rails_is_not_the_name_of_a_rail(key: str) -> None:
    generated = 'count: 2, name: "gpu{n:02}", hosts: .1-.9'
    good = {"rails": "{%s, subnet: '10.{n}.0.0/24'}" % generated}
    wrong = {"rails": "{%s, %s: {subnet: 10.1.0.0/24}}" % (generated, key)}
    for rails, refused in ((good, False), (wrong, True)):
        text = re.sub(r"(?ms)^rails:\n.*?(?=^profiles:)", "rails: %s\n" % rails["rails"], GOOD["macvlan"])
        assert bool(_errors(text)) == refused


def test_choices_and_limits_are_those_of_the_reader() -> None:
    fabric: dict[str, t.Any] = SCHEMA["properties"]["fabric"]["properties"]
    assert "none" in str(fabric["provider"]) and "network-operator" in str(fabric["provider"])
    assert "'maximum': 65536" in str(fabric["max_nodes"])
