# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The fabric file as text, from its sections as nested mappings, with comments above the keys that need them."""

from __future__ import annotations

import re
import typing as t

Comments = t.Mapping[t.Tuple[str, ...], t.Sequence[str]]

_PLAIN = re.compile(r"(?:[A-Za-z_][\w./-]*|[0-9]+(?:\.[0-9]+){1,3}(?:[/-][0-9./]+)?)\Z")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
# Sections whose entries stand on a line of their own each.
_LINES: dict[tuple[str, ...], int] = {("rails",): 1, ("nodes",): 1, ("groups",): 1, ("profiles",): 3}


def render(data: t.Mapping[str, t.Any], comments: Comments) -> str:
    """``comments``: path of a key -> lines; those of the empty path stand at the top."""
    lines = ["# %s" % line for line in comments.get((), ())] + ["---"]
    for key, value in data.items():
        if key not in ("plugin",):
            lines.append("")
        lines.extend(_entry(key, value, (), comments))
    return "\n".join(lines) + "\n"


def _entry(key: str, value: t.Any, path: tuple[str, ...], comments: Comments) -> t.Iterator[str]:
    here = path + (key,)
    indent = "  " * len(path)
    for line in comments.get(here, ()):
        yield "%s# %s" % (indent, line)
    depth = _LINES.get(here[:1])
    flat = not isinstance(value, dict) or not value or (depth is not None and len(path) >= depth)
    flat = flat or (depth is None and len(path) >= 1)
    if flat or not isinstance(value, dict):
        yield "%s%s: %s" % (indent, _key(key), _flow(value))
        return
    yield "%s%s:" % (indent, _key(key))
    for inner, each in value.items():
        yield from _entry(inner, each, here, comments)


def _flow(value: t.Any) -> str:
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (scalar(str(key)), _flow(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_flow(each) for each in value)
    return scalar(value)


def _key(text: str) -> str:
    # a range of names needs quotes only within braces
    return text if re.match(r"[A-Za-z0-9][\w.-]*(?:\[[0-9a-zA-Z:]+\][\w.-]*)+\Z", text) else scalar(text)


def scalar(value: t.Any) -> str:
    """One value as YAML: texts that another reader could take for something else get quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _WORDS and not re.match(r"[0-9]+\.[0-9]+\Z", text):
        return text
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return '"%s"' % clean.replace("\\", "\\\\").replace('"', '\\"')
