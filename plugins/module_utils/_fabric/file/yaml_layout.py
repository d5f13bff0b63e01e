# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layout of a fabric file: each entry on one line if it fits, with comments above keys."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path

WIDTH = 120
# Path of a key -> lines of the comment above it; empty path: at the top of the file.
Comments = t.Mapping[Path, t.Sequence[str]]

# Words, addresses and ranges that every YAML reader reads as texts, also within braces.
_PLAIN = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_./-]*|\.?[0-9]+(?:\.[0-9]+){2,3}(?:[/-][0-9./]+)?|\.[0-9]+-\.[0-9]+)\Z")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"))
# Keys with host ranges need quotes only within braces. Entries of nodes and units are not within braces.
_RANGED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(?:\[[0-9A-Za-z:]+\][A-Za-z0-9_.-]*)+\Z")


def render(data: t.Mapping[str, t.Any], comments: Comments | None = None) -> str:
    """Return the text of a fabric file.

    :param data: the sections: mappings, lists, texts, numbers, truth values and None, in the order of the file.
    :param comments: the comments above keys.
    """
    notes = comments or {}
    # Places with a comment below them are not written on one line.
    open_paths = {path[:size] for path in notes for size in range(len(path))}
    lines = ["# %s" % line for line in notes.get((), ())] + ["---"]
    for key, value in data.items():
        if isinstance(value, (dict, list)):
            lines.append("")
        lines.extend(_entry(key, value, (key,), notes, open_paths))
    return "\n".join(lines) + "\n"


def _entry(key: str, value: t.Any, path: Path, comments: Comments, open_paths: set[Path]) -> t.Iterator[str]:
    indent = "  " * (len(path) - 1)
    for line in comments.get(path, ()):
        yield "%s# %s" % (indent, line)
    head = "%s%s:" % (indent, key if _RANGED.match(key) else scalar(key))
    flow = "%s %s" % (head, _flow(value))
    fits = len(flow) <= WIDTH and path not in open_paths and (len(path) > 1 or key == "qos")
    if fits or not isinstance(value, (dict, list)) or not value:
        yield flow
    elif isinstance(value, dict):
        yield head
        for inner, inner_value in value.items():
            yield from _entry(str(inner), inner_value, path + (str(inner),), comments, open_paths)
    else:
        yield head
        for at, item in enumerate(value):
            for line in comments.get(path + (at,), ()):
                yield "%s  # %s" % (indent, line)
            line = "%s  - %s" % (indent, _flow(item))
            if not isinstance(item, dict) or not item or (len(line) <= WIDTH and path + (at,) not in open_paths):
                yield line
                continue
            lines = [
                more
                for inner, inner_value in item.items()
                for more in _entry(str(inner), inner_value, path + (at, str(inner)), comments, open_paths)
            ]
            yield "%s  - %s" % (indent, lines[0].lstrip())
            yield from lines[1:]


def _flow(value: t.Any) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (scalar(str(key)), _flow(entry)) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_flow(item) for item in value)
    return scalar(value)


def scalar(value: t.Any) -> str:
    """Return a single value. Texts that a YAML reader could read as another type are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 requires a point in numbers with an exponent.
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(
            text, text.replace("e", ".0e") if "." not in text else text
        )
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return "".join(_escaped(char) for char in json.dumps(text, ensure_ascii=False))


def _escaped(char: str) -> str:
    """Return a character, escaped if it is not printable. ``json.dumps`` does not escape all of these."""
    if char.isprintable():
        return char
    number = ord(char)
    return "\\x%02x" % number if number < 0x100 else "\\u%04x" % number if number < 0x10000 else "\\U%08x" % number
