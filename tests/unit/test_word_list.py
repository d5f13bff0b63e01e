# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/word_list.py: planted words are found, right uses are not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import word_list

LIST = """\
terms:
  wish(es|ed)?: spec
  doors?: entry point
  (?-i:is none): no X exists
  (is|are) no (?!longer\\b)[a-z]+: is not a
allow:
  - {path: docs/cabinet.md, line: "door of the rack", reason: the steel one}
exclude:
  data/*: recorded
  tools/*: the list itself
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    _put(tmp_path, "tools/word_list.yml", LIST)
    _put(tmp_path, "docs/cabinet.md", "Close the door of the rack.\n")
    return tmp_path


def _put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("docs/page.md", "Text.\nOpen the Doors here.\n", "Doors"),
        ("plugins/a.py", "x = 1\nport_wish = 2\n", "wish"),
        ("plugins/a.py", "x = 1\nclass PortWish:\n", "Wish"),
        ("plugins/a.py", "x = 1\nraise ValueError('%s is no network')\n", "is no network"),
        ("roles/a/tasks/main.yml", "---\n- name: Wished rails\n", "Wished"),
        ("tools/../Makefile", "# a\n# the wish\n", "wish"),
    ],
)
def test_planted_word(checkout: Path, path: str, text: str, word: str) -> None:
    assert list(word_list.check(checkout)) == []
    _put(checkout, path, text)
    (use,) = word_list.check(checkout)
    assert use.startswith("%s:2: %s. Write instead: " % (path.replace("tools/../", ""), word))


def test_planted_word_in_the_name_of_a_file(checkout: Path) -> None:
    _put(checkout, "tests/test_gpu_wish.py", "")
    (use,) = word_list.check(checkout)
    assert use.startswith("tests/test_gpu_wish.py:0: wish. Write instead: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("plugins/a.py", "if x is None: outdoors = swishes\n"),
        ("docs/page.md", "It is no longer there.\n"),
        ("data/told.md", "the door\n"),
    ],
)
def test_right_text(checkout: Path, path: str, text: str) -> None:
    _put(checkout, path, text)
    assert list(word_list.check(checkout)) == []


def test_unused_right(checkout: Path) -> None:
    _put(checkout, "docs/cabinet.md", "Close the rack.\n")
    (message,) = word_list.check(checkout)
    assert "docs/cabinet.md" in message and "Remove the entry." in message


def test_one_path(capsys: pytest.CaptureFixture[str]) -> None:
    """The words planted in this file are allowed in the list of this checkout."""
    assert word_list.main(["tests/unit/test_word_list.py"]) == 0
    assert capsys.readouterr().out == "words: clean\n"
