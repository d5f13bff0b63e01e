# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a run of verify: which nodes a part has, which of them link it to other parts, and which files are parts."""

from __future__ import annotations

import json
import shutil
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import node_parts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.node_parts import Part, cut
from ansible_collections.railyard.fabric.plugins.plugin_utils import _verify_parts

NODES = ["ai-%d" % number for number in range(1, 9)]
MADE_BY = {"plan": "d1", "layers": [], "tags": []}


@pytest.mark.parametrize("text", ["0/8", "9/8", "x", "1", "1/0", "-1/8", "1/8/2", "01/8", "1/10000", ""])
def test_other_texts_are_not_parts(text: str) -> None:
    with pytest.raises(ValueError, match="is not a part of the nodes"):
        node_parts.parse(text)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 64])
@pytest.mark.parametrize("nodes", [1, 2, 8, 63, 64])
def test_parts_are_blocks_that_together_are_all_nodes(nodes: int, count: int) -> None:
    names = ["n%d" % number for number in range(nodes)]
    parts = [cut(names, node_parts.parse("%d/%d" % (number, count))) for number in range(1, count + 1)]
    assert [name for part in parts for name in part] == names
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_first_node_of_each_unit_links_a_part_and_without_units_two_nodes_do() -> None:
    units = {"a": "su1", "b": "su1", "c": "su2", "d": "su2", "e": "su3"}
    assert node_parts.links(units) == ["a", "c", "e"]
    assert node_parts.links(dict.fromkeys(units, "su1")) == ["a", "b"]
    assert node_parts.links(dict.fromkeys(units)) == ["a", "b"]
    assert node_parts.links({"a": None}) == ["a"]
    assert node_parts.links({}) == []


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 16, 31])
@pytest.mark.parametrize("per_part", [1, 2, 5])
def test_pairs_across_parts_link_all_parts(count: int, per_part: int) -> None:
    parts = [["p%d-%d" % (part, number) for number in range(per_part + part % 2)] for part in range(count)]
    of = {name: number for number, part in enumerate(parts) for name in part}
    rounds = node_parts.rounds_across(parts, 8)
    assert len(rounds) <= 8
    groups = {number: {number} for number in range(count)}
    pairs = [pair for each in rounds for pair in each]
    for server, client in pairs:
        joined = groups[of[server]] | groups[of[client]]
        groups.update(dict.fromkeys(joined, joined))
    assert groups[0] == set(range(count))
    assert all(of[server] != of[client] for server, client in pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    for each in rounds:
        names = [name for pair in each for name in pair]
        assert len(set(names)) == len(names)


def test_a_part_without_nodes_to_probe_is_in_no_pair() -> None:
    assert node_parts.rounds_across([["a"], [], ["b"]], 8) == [[["b", "a"]]]
    assert node_parts.rounds_across([["a"], []], 8) == []


def write(directory: Path, part: str, kind: str = "verify", **head: t.Any) -> Path:
    nodes = list(cut(NODES, node_parts.parse(part)))
    whole = {"kind": kind, "began": time.time(), "made_by": MADE_BY, "nodes": nodes, **head}
    rows = {name: {"info": {"system": {"name": name}}} for name in nodes}
    done = _verify_parts.write(str(directory), node_parts.parse(part), whole, rows, False)
    return Path(done["path"])


def errors(check: t.Callable[[], t.Any]) -> list[str]:
    with pytest.raises(RailyardError) as caught:
        check()
    lines = str(caught.value).splitlines()
    assert all("Remedy: " in line for line in lines)
    return lines


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(1, 5):
        write(tmp_path, "%d/4" % number)
    return tmp_path


def test_parts_are_read_as_they_were_written(directory: Path) -> None:
    write(directory, "1/2", kind="drift")
    parts = _verify_parts.read(str(directory), "verify")
    assert [each.part for each in parts] == [Part(number, 4) for number in range(1, 5)]
    assert parts[1].rows() == {name: {"info": {"system": {"name": name}}} for name in NODES[2:4]}
    _verify_parts.check_nodes(parts, NODES, str(directory))
    _verify_parts.check_made_by(parts, MADE_BY)
    parts[0].remove()
    assert len(_verify_parts.read(str(directory), "verify")) == 3


def test_parts_without_nodes_are_not_needed(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, "%d/4" % number, nodes=NODES[number - 1 : number])
    parts = _verify_parts.read(str(tmp_path), "verify")
    _verify_parts.check_nodes(parts, NODES[:2], str(tmp_path))


def test_a_missing_part_is_named_with_what_runs_it(directory: Path) -> None:
    (directory / "verify-3-of-4.jsonl").unlink()
    (line,) = errors(
        lambda: _verify_parts.check_nodes(_verify_parts.read(str(directory), "verify"), NODES, str(directory))
    )
    assert "part 3/4 is missing. Remedy: run verify.yml -e railyard_part=3/4 first." in line
    (line,) = errors(lambda: _verify_parts.read(str(directory / "other"), "verify"))
    assert "there are no parts of verify here" in line and "verify_parts_dir=DIR" in line


def test_a_part_that_exists_twice_is_an_error(directory: Path) -> None:
    shutil.copy(directory / "verify-2-of-4.jsonl", directory / "verify-2-of-4-copy.jsonl")
    (line,) = errors(lambda: _verify_parts.read(str(directory), "verify"))
    assert "is the same part, 2/4. Remedy: remove one of the two files." in line


def test_an_old_part_is_an_error(directory: Path) -> None:
    write(directory, "2/4", began=time.time() - 14 * 3600)
    (line,) = errors(lambda: _verify_parts.read(str(directory), "verify"))
    assert "part 2/4 began 14 hours ago, and a part is valid for 12" in line and "railyard_part=2/4 again" in line


def test_parts_of_two_divisions_are_an_error(directory: Path) -> None:
    other = write(directory, "1/3")
    (line,) = errors(lambda: _verify_parts.read(str(directory), "verify"))
    assert "most files here are parts K/4" in line and other.name in line


def test_a_part_of_other_nodes_is_an_error(directory: Path) -> None:
    write(directory, "2/4", nodes=["ai-3"])
    parts = _verify_parts.read(str(directory), "verify")
    (line,) = errors(lambda: _verify_parts.check_nodes(parts, NODES, str(directory)))
    assert "part 2/4 has other nodes than part 2/4 of this run" in line and "--limit" in line


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("plan", "d2", "plan is d2, and here d1"), ("layers", ["link", "rdma"], "layers is link, rdma, and here all")],
)
def test_a_part_of_another_plan_or_selection_is_an_error(directory: Path, key: str, value: t.Any, text: str) -> None:
    write(directory, "3/4", made_by={**MADE_BY, key: value})
    parts = _verify_parts.read(str(directory), "verify")
    (line,) = errors(lambda: _verify_parts.check_made_by(parts, MADE_BY))
    assert "part 3/4 is of another run: %s" % text in line and "railyard_part=3/4 again" in line


@pytest.mark.parametrize(
    "text", ["", "{", "[]\n", "{}\n", json.dumps({"format": 2, "kind": "verify", "part": "1/4", "began": 0}) + "\n"]
)
def test_a_file_that_is_not_a_part_is_an_error(directory: Path, text: str) -> None:
    (directory / "verify-1-of-4.jsonl").write_text(text)
    (line,) = errors(lambda: _verify_parts.read(str(directory), "verify"))
    assert "it is not a part of a run" in line
