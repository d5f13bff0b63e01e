# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTML as a tree of elements. Text is always escaped, so that no value becomes markup."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as xml

Child = t.Union[str, None, xml.Element, t.Sequence[t.Any]]

_UNSHOWN = "\N{REPLACEMENT CHARACTER}"
# Maximum length of a cell that is not wrapped.
_SHORT = 14


def clean(value: t.Any) -> str:
    """Return a text on one line. Control characters, surrogates and direction overrides become U+FFFD."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char in "\n\r\t" else _UNSHOWN for char in text)


def h(tag: str, *children: Child, **attributes: t.Any) -> xml.Element:
    """Return an element. In attribute names, a trailing ``_`` is dropped and others become ``-``; None omits an
    attribute.
    """
    texts = {key.rstrip("_").replace("_", "-"): clean(value) for key, value in attributes.items() if value is not None}
    element = xml.Element(tag, texts)
    add(element, *children)
    return element


def add(into: xml.Element, *children: Child) -> xml.Element:
    """Append children: texts, elements and lists of them. None is skipped."""
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
    """Return a style element. The text is not escaped."""
    element = xml.Element("style")
    element.text = text
    return element


def code(text: str) -> xml.Element:
    """Return a text in code style."""
    return h("code", text)


def region(label: str, *children: Child, class_: str = "scroll") -> xml.Element:
    """Return an element that scrolls on narrow screens, also with the keyboard."""
    return h("div", *children, class_=class_, role="region", aria_label=label, tabindex="0")


def rows(head: t.Sequence[str], lines: t.Iterable[t.Sequence[Child]], caption: str, brief: bool = False) -> xml.Element:
    """Return a table whose rows become cards on narrow screens; the roles keep it a table for screen readers.

    The first cell of a row is its header. Empty columns are omitted.

    :param brief: cells are short, and several cells of a card fit on one line.
    """
    cells = [list(line) for line in lines]
    used = [at for at in range(len(head)) if any(line[at] not in (None, "", []) for line in cells)]
    top = [h("th", head[at], scope="col", role="columnheader") for at in used]
    body = []
    for line in cells:
        row = h("tr", role="row")
        for at in used:
            keys = {"data_label": head[at], "class_": _cell_class(line[at])}
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


def _cell_class(cell: Child) -> str | None:
    """Return the class of a cell: ``empty``, ``tight`` if it is so short that it is not wrapped, or None."""
    if cell in (None, "", []):
        return "empty"
    return "tight" if isinstance(cell, str) and len(cell) <= _SHORT else None


def more(summary: str, *children: Child, opened: bool = False) -> xml.Element:
    """Return an element that is shown on demand, and always on paper."""
    return h("details", h("summary", summary), *children, open="" if opened else None)


def document(title: str, head: t.Sequence[xml.Element], body: xml.Element) -> bytes:
    """Return the file. Its content security policy forbids scripts and external resources."""
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
    _add_newlines(root)
    text = xml.tostring(root, encoding="unicode", method="html")
    return ("<!DOCTYPE html>\n%s\n" % text).encode("utf-8")


# Elements after which a newline does not change the display. It makes the file readable and comparable.
_BLOCKS = frozenset(
    ("head", "body", "meta", "title", "link", "style", "header", "main", "nav", "section", "div", "table", "caption")
    + ("thead", "tbody", "tr", "details", "summary", "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "p", "g")
    + ("footer", "article", "path", "rect", "use", "svg", "pre")
)


def _add_newlines(root: xml.Element) -> None:
    for element in root.iter():
        if element.tag in _BLOCKS and not (element.tail or "").strip():
            element.tail = "\n"
