# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A fabric file's text from nested mappings: an entry a line where it fits, comments above what they are about."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path

WIDTH = 120
# Path of a key -> lines above it; those of the empty path are at the top.
Comments = t.Mapping[Path, t.Sequence[str]]

# Words, addresses and ranges that no reader of YAML takes for anything else, also within braces.
_PLAIN = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_./-]*|\.?[0-9]+(?:\.[0-9]+){2,3}(?:[/-][0-9./]+)?|\.[0-9]+-\.[0-9]+)\Z")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"))
# A key with host ranges needs quotes within braces alone, and entries of nodes and units are not there.
_RANGED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(?:\[[0-9A-Za-z:]+\][A-Za-z0-9_.-]*)+\Z")


def render(data: t.Mapping[str, t.Any], comments: Comments | None = None) -> str:
    """The text of a fabric file.

    :param data: its sections, of mappings, lists, texts, numbers, truth values and None, in the order of the file.
    :param comments: what to say above a key.
    """
    notes = comments or {}
    # Every place with a comment below it has to be written out.
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
        for inner, each in value.items():
            yield from _entry(str(inner), each, path + (str(inner),), comments, open_paths)
    else:
        yield head
        for at, each in enumerate(value):
            for line in comments.get(path + (at,), ()):
                yield "%s  # %s" % (indent, line)
            line = "%s  - %s" % (indent, _flow(each))
            if not isinstance(each, dict) or not each or (len(line) <= WIDTH and path + (at,) not in open_paths):
                yield line
                continue
            lines = [
                more
                for inner, own in each.items()
                for more in _entry(str(inner), own, path + (at, str(inner)), comments, open_paths)
            ]
            yield "%s  - %s" % (indent, lines[0].lstrip())
            yield from lines[1:]


def _flow(value: t.Any) -> str:
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (scalar(str(key)), _flow(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_flow(each) for each in value)
    return scalar(value)


def scalar(value: t.Any) -> str:
    """One value. Texts that some reader could take for something else get quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 wants a point in what has an exponent.
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(
            text, text.replace("e", ".0e") if "." not in text else text
        )
    text = str(value)
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return "".join(_escaped(char) for char in json.dumps(text, ensure_ascii=False))


def _escaped(char: str) -> str:
    """JSON leaves characters as they are that a YAML file must not hold, or that no one would see."""
    if char.isprintable():
        return char
    number = ord(char)
    return "\\x%02x" % number if number < 0x100 else "\\u%04x" % number if number < 0x10000 else "\\U%08x" % number
