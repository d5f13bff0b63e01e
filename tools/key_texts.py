# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the keys of the fabric file mean, from the tables of its documentation, for the JSON Schema."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path

# The pages with the tables. The section names a table of the first page, and the page a table of the others.
PAGES = ("fabric-file.md", "qos.md", "infiniband.md", "driver.md", "firmware.md")
# The longest text that an editor shows well beside a key, in characters, without the default.
MAX_TEXT = 280

# Mapping of the file -> the tables of its keys, if not the one of its own name.
_TABLES = {
    "rails": ("rails", "addresses"),
    "profiles": ("profiles", "fabric"),
    "groups": ("groups", "profiles", "fabric"),
    "ports": ("ports",),
    "other_ports": ("ports",),
    "members": ("ports",),
}
# First heading of a table -> the name of the table; an empty one for that of its section.
_TITLES = {"key": "", "section": "fabric file"}
_WORD = re.compile(r"[A-Za-z]+")
_CELLS = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# References to other places of the documentation, which an editor cannot follow.
_REFERENCE = re.compile(
    r",? ?(\(\[[^\]]*\]\([^)]*\)\)|\[see (above|below)\]\([^)]*\)|see (below|above|\[[^\]]*\]\([^)]*\)))"
)
_SENTENCE = re.compile(r"(?<=[.]) (?=[A-Z`])")
# The text of a key that another table describes.
_ELSEWHERE = "as in "

Tables = t.Dict[str, t.Dict[str, str]]


def tables(pages: t.Mapping[str, str]) -> Tables:
    """Return table -> key -> text.

    :param pages: name of each of :data:`PAGES` -> its Markdown.
    """
    found: Tables = {}
    for page in PAGES:
        title = page[: -len(".md")]
        head: list[str] = []
        last = ""
        for line in pages[page].splitlines():
            if line.startswith("#") and page == PAGES[0]:
                title = _WORD.findall(line)[0].lower()
            if not line.startswith("|"):
                head, last = [], ""
                continue
            cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
            if not head:
                head = cells
            elif head[0] in _TITLES and not cells[0].startswith("---"):
                _add(found.setdefault(_TITLES[head[0]] or title, {}), dict(zip(head, cells)), last)
                last = cells[0] or last
    return found


def _add(table: dict[str, str], row: t.Mapping[str, str], last: str) -> None:
    """Add the keys of a row. A row without a key describes the key ``last`` in other modes."""
    key = row.get("key", row.get("section", ""))
    text = _short(row.get("meaning") or row.get("names") or row.get("defines") or "")
    default = row.get("default", "")
    if default and not default.startswith("required"):
        text += " Default: %s." % _plain(default)
    for name in re.findall(r"`([^`]+)`", key):
        if text and not text.lower().startswith(_ELSEWHERE):
            table.setdefault(name, text)
    if not key:
        for name in re.findall(r"`([^`]+)`", last):
            table[name] += " Mode %s: %s" % (row.get("modes", ""), text)


def _plain(text: str) -> str:
    text = _LINK.sub(r"\1", _REFERENCE.sub("", text)).replace("\\|", "|")
    return text.strip(" .,;")


def _short(text: str) -> str:
    """Return the first sentences, as many as are short enough, and at least one."""
    sentences = _SENTENCE.split(_plain(text))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + len(sentence) > MAX_TEXT:
            break
        kept += " " + sentence
    kept = kept.rstrip(". ")
    return kept and kept[0].upper() + kept[1:] + "."


def text_of(known: Tables, path: Path) -> str:
    """Return what the key at a path means.

    :param path: keys from the top of the file, without the names that its author chooses.
    :raises RailyardError: no table has the key.
    """
    key = str(path[-1])
    parents = [str(part) for part in path[:-1]] or ["fabric file"]
    for name in (key, key[:-1]) if key.endswith("6") else (key,):
        for table in known.values():
            if "%s.%s" % (parents[-1], name) in table:
                return table["%s.%s" % (parents[-1], name)]
        for parent in reversed(parents):
            for title in _TABLES.get(parent, (parent,)):
                if name in known.get(title, {}):
                    return ("" if name == key else "IPv6: ") + known[title][name]
    raise RailyardError(
        "no table has the key",
        ".".join(str(part) for part in path),
        "add a row for it to the table of its section in docs/%s" % PAGES[0],
    )
