# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""HTML as a tree: a text is a text and never markup, whatever is in it."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

Child = t.Union[str, None, xml.Element, t.Sequence[t.Any]]

_UNSHOWN = "\N{REPLACEMENT CHARACTER}"
# Characters of a cell that is never broken.
_SHORT = 14


def clean(value: t.Any) -> str:
    """A text in one line, with a mark for what cannot be shown: control characters, halves of characters, and those
    that turn the direction."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char in "\n\r\t" else _UNSHOWN for char in text)


def h(tag: str, *children: Child, **attributes: t.Any) -> xml.Element:
    """An element. A ``_`` at an attribute's end is dropped, others are ``-``; an attribute of None is left out."""
    named = {key.rstrip("_").replace("_", "-"): clean(value) for key, value in attributes.items() if value is not None}
    made = xml.Element(tag, named)
    add(made, *children)
    return made


def add(into: xml.Element, *children: Child) -> xml.Element:
    """Put children at the end: texts, elements, lists of them; None is nothing."""
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            text = clean(child)
            if len(into):
                into[-1].tail = (into[-1].tail or "") + text
            else:
                into.text = (into.text or "") + text
        elif isinstance(child, xml.Element):
            into.append(child)
        else:
            add(into, *child)
    return into


def style(text: str) -> xml.Element:
    """A sheet of our own: it goes out as it is."""
    made = xml.Element("style")
    made.text = text
    return made


def code(text: str) -> xml.Element:
    return h("code", text)


def region(label: str, *children: Child, class_: str = "scroll") -> xml.Element:
    """A part that scrolls by itself where the screen is narrow, with the keyboard too."""
    return h("div", *children, class_=class_, role="region", aria_label=label, tabindex="0")


def rows(head: t.Sequence[str], lines: t.Iterable[t.Sequence[Child]], caption: str, brief: bool = False) -> xml.Element:
    """A table whose rows become cards where the screen is narrow; the roles keep it a table for readers of screens.

    The first cell of a row is its head. Columns in which no row has anything are left out. ``brief``: the cells are so
    short that several of a card fit in one line.
    """
    cells = [list(line) for line in lines]
    used = [at for at in range(len(head)) if any(line[at] not in (None, "", []) for line in cells)]
    top = [h("th", head[at], scope="col", role="columnheader") for at in used]
    body = []
    for line in cells:
        row = h("tr", role="row")
        for at in used:
            keys = {"data_label": head[at], "class_": _kind(line[at])}
            if at == used[0]:
                row.append(h("th", line[at], scope="row", role="rowheader", **keys))
            else:
                row.append(h("td", line[at], role="cell", **keys))
        body.append(row)
    return h(
        "table",
        h("caption", caption),
        h("thead", h("tr", *top, role="row"), role="rowgroup"),
        h("tbody", *body, role="rowgroup"),
        class_="cards brief" if brief else "cards",
        role="table",
    )


def _kind(cell: Child) -> str | None:
    """``empty``; ``tight`` for what is so short that it should not be broken."""
    if cell in (None, "", []):
        return "empty"
    return "tight" if isinstance(cell, str) and len(cell) <= _SHORT else None


def more(summary: str, *children: Child, opened: bool = False) -> xml.Element:
    """What is shown on demand; on paper always."""
    return h("details", h("summary", summary), *children, open="" if opened else None)


def document(title: str, head: t.Sequence[xml.Element], body: xml.Element) -> bytes:
    """The file. Its own policy forbids whatever would be loaded or run."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    root = h(
        "html",
        h(
            "head",
            h("meta", charset="utf-8"),
            h("meta", http_equiv="Content-Security-Policy", content=policy),
            h("meta", name="viewport", content="width=device-width, initial-scale=1"),
            h("meta", name="color-scheme", content="light dark"),
            h("meta", name="referrer", content="no-referrer"),
            h("title", title),
            h("link", rel="icon", href="data:,"),
            *head,
        ),
        body,
        lang="en",
    )
    _broken(root)
    text = xml.tostring(root, encoding="unicode", method="html")
    return ("<!DOCTYPE html>\n%s\n" % text).encode("utf-8")


# Elements after which a new line changes nothing of what is shown, and makes the file good to read and compare.
_BLOCKS = frozenset(
    ("head", "body", "meta", "title", "link", "style", "header", "main", "nav", "section", "div", "table", "caption")
    + ("thead", "tbody", "tr", "details", "summary", "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "p", "g")
    + ("footer", "article", "figure", "figcaption", "path", "rect", "use", "svg", "pre")
)


def _broken(root: xml.Element) -> None:
    for element in root.iter():
        if element.tag in _BLOCKS and not (element.tail or "").strip():
            element.tail = "\n"
