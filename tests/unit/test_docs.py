# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation prints can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import lint

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a language: where each stands, and its text."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            if block[2] == language:
                body = re.sub("^" + block[1], "", block[3], flags=re.MULTILINE)
                found.append(("%s:%d" % (page.relative_to(ROOT), text.count("\n", 0, block.start()) + 1), body))
    return found


FILES = [block for block in blocks("yaml") if block[1].startswith("plugin: railyard.fabric.rails\n")]


@pytest.mark.parametrize("text", [text for _place, text in FILES], ids=[place for place, _text in FILES])
def test_a_whole_fabric_file_is_clean(text: str) -> None:
    assert lint(text.encode()).findings == []


def test_there_are_whole_files_in_the_pages() -> None:
    assert {place.partition(":")[0] for place, _text in FILES} >= {"README.md", "docs/fabric-file.md"}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
