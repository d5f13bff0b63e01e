# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A lenient JSON parser for pages: accepts parts replaced by dots, extra commas, and missing braces at the end."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import Leaf
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

# More than the depth of any real configuration.
_MAX_DEPTH = 40

_TOKEN = re.compile(
    r"""\s+|(?P<dots>\.{2,}|…+)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<mark>[][{},:])|(?P<word>[A-Za-z0-9_.+-]+)""",
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Reading(t.NamedTuple):
    """A parsed value.

    ``value``: None if the text does not begin with JSON. ``dots``: lines with omitted parts. ``whole``: whether the
    value is complete. ``line``: the last line read. ``doubled``: duplicate keys of an object, each with the first key
    of this name. The last value is used, as by the plugins, which are written in Go (``encoding/json``).
    """

    value: Value | None
    dots: list[int]
    whole: bool
    line: int
    doubled: t.Sequence[tuple[Scalar, Scalar]] = ()


def read(text: str, line: int = 1, column: int = 1) -> Reading:
    """Parse the object or list at the beginning of ``text``, as far as it is valid. The rest of the text is ignored.

    :param line: line of the text in its file, and its column.
    """
    return _Reader(text, line, column).run()


class _Reader:
    def __init__(self, text: str, line: int, column: int) -> None:
        self._text = text
        self._line = line
        self._column = column
        self._start = 0
        self._dots: list[int] = []
        self._doubled: list[tuple[Scalar, Scalar]] = []
        # per object under construction: name -> first key of this name
        self._firsts: list[dict[str, Scalar]] = []

    def run(self) -> Reading:
        stack: list[Mapping | Sequence] = []
        keys: list[Scalar | None] = []
        root: Value | None = None
        line = self._line
        for kind, token, line, column in self._tokens():
            if kind == "dots":
                self._dots.append(line)
            elif token in ("{", "["):
                if len(stack) >= _MAX_DEPTH:
                    break
                opened: Mapping | Sequence = Mapping(line, column) if token == "{" else Sequence(line, column)
                if root is None:
                    root = opened
                else:
                    self._put(stack, keys, opened)
                stack.append(opened)
                keys.append(None)
                self._firsts.append({})
            elif root is None:
                break
            elif token in ("}", "]"):
                stack.pop()
                keys.pop()
                self._firsts.pop()
                if not stack:
                    return Reading(root, self._dots, True, line, self._doubled)
            elif kind in ("string", "word"):
                scalar = self._scalar(kind, token, line, column)
                if isinstance(stack[-1], Mapping) and keys[-1] is None:
                    if kind == "word":
                        break  # prose: a key has quotes
                    keys[-1] = scalar
                    first = self._firsts[-1].setdefault(scalar.text, scalar)
                    if first is not scalar and not self._left_out_since(first):
                        self._doubled.append((scalar, first))
                else:
                    self._put(stack, keys, scalar)
        return Reading(root, self._dots, False, line, self._doubled)

    def _tokens(self) -> t.Iterator[tuple[str, str, int, int]]:
        at, line, start = 0, self._line, 1 - self._column
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if not found:
                return
            if found.lastgroup:
                yield found.lastgroup, found.group(), line, at - start + 1
            breaks = found.group().count("\n")
            if breaks:
                line += breaks
                start = at + found.group().rfind("\n") + 1
            at = found.end()

    @staticmethod
    def _scalar(kind: str, token: str, line: int, column: int) -> Scalar:
        if kind == "word":
            return Leaf(token, True, line, column)
        return Leaf(_ESCAPE.sub(_unescape, token[1:-1]), False, line, column)

    def _left_out_since(self, key: Scalar) -> bool:
        """Return whether dots are after the key: they may replace the braces between two objects."""
        return any(line >= key.line for line in self._dots)

    def _put(self, stack: list[Mapping | Sequence], keys: list[Scalar | None], value: Value) -> None:
        top, key = stack[-1], keys[-1]
        if isinstance(top, Sequence):
            top.items.append(value)
        elif key is not None:
            previous = top.entries.get(key.text)
            if previous is None or not self._left_out_since(previous[0]):
                top.entries[key.text] = (key, value)
            keys[-1] = None


def _unescape(found: t.Match[str]) -> str:
    code = found.group(1)
    if len(code) == 5:
        # a single surrogate is not a character
        return chr(int(code[1:], 16)) if not 0xD800 <= int(code[1:], 16) <= 0xDFFF else "?"
    return _ESCAPES.get(code, code)
