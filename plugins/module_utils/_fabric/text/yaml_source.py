# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a fabric file as values with line and column.

Scalars keep their text, because their type depends on their key: ``pci: 0000:11:00.0`` is not a number in base 60, and
a rail named ``on`` is not a truth value.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules as rules

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 40
# Values in the file after aliases are expanded: more than a real cluster needs, too few to exhaust the memory.
MAX_VALUES = 5 * 1000 * 1000

_TAG_STR = "tag:yaml.org,2002:str"
_TAG_MERGE = "<<"
# The message of libyaml from 0.2.6 on at 1,000 levels. It comes before the events of the line.
_PARSER_DEPTH = "exceeded maximum nesting depth"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))


class Scalar:
    """A single value. ``text``: as written, without quotes; ``plain``: it is not quoted."""

    __slots__ = ("column", "line", "plain", "text")
    kind = "a single value"
    size = 1
    depth = 0

    def __init__(self, text: str, plain: bool, line: int, column: int) -> None:
        self.text = text
        self.plain = plain
        self.line = line
        self.column = column

    @property
    def null(self) -> bool:
        return self.plain and self.text in _NULL

    @property
    def written(self) -> t.Hashable:
        """What the file contains here. Equal values have the same keys, texts and quotes in the same order."""
        return self.text, self.plain


class Sequence:
    """A list. ``size``: all values in it, aliases expanded; ``depth``: levels of nesting."""

    __slots__ = ("column", "depth", "items", "line", "size")
    kind = "a list"
    null = False

    def __init__(self, line: int, column: int) -> None:
        self.items: list[Value] = []
        self.line = line
        self.column = column
        self.size = 1
        self.depth = 1

    @property
    def written(self) -> t.Hashable:
        return tuple([item.written for item in self.items])


class Mapping:
    """A mapping. ``entries``: key -> (the key as written in the file, the value), in the order of the file.

    ``merged``: the mappings of ``<<``. ``size``: all values in it, aliases expanded; ``depth``: levels of nesting.
    """

    __slots__ = ("column", "depth", "entries", "line", "merged", "size")
    kind = "a mapping"
    null = False

    def __init__(self, line: int, column: int) -> None:
        self.entries: dict[str, tuple[Scalar, Value]] = {}
        self.merged: list[Mapping] = []
        self.line = line
        self.column = column
        self.size = 1
        self.depth = 1

    @property
    def written(self) -> t.Hashable:
        return tuple([(key, value.written) for key, (_key, value) in self.entries.items()])


Value = t.Union[Scalar, Sequence, Mapping]


class Document:
    """The YAML document of a fabric file."""

    def __init__(self, root: Mapping) -> None:
        self.root = root

    def position(self, path: Path) -> tuple[int, int]:
        """Return line and column (from 1) of the key at ``path``, or of the nearest key above it in the file."""
        value: Value = self.root
        line, column = 0, 0
        for part in path:
            if isinstance(value, Mapping) and isinstance(part, str) and part in value.entries:
                key, value = value.entries[part]
                line, column = key.line, key.column
            elif isinstance(value, Sequence) and isinstance(part, int) and part < len(value.items):
                value = value.items[part]
                line, column = value.line, value.column
            else:
                break
        return (line, column) if line else (1, 1)

    def written(self, path: Path) -> Path:
        """Return the path without the parts below a text, because a text such as ``preset`` has no keys."""
        value: Value = self.root
        for at, part in enumerate(path):
            if isinstance(value, Scalar) and not value.null:
                return path[:at]
            if isinstance(value, Mapping) and isinstance(part, str) and part in value.entries:
                value = value.entries[part][1]
            elif isinstance(value, Sequence) and isinstance(part, int) and part < len(value.items):
                value = value.items[part]
            else:
                break
        return path


class _Stop(Exception):
    """Reading the text cannot continue. The finding has been reported."""


class _Frame:
    """A collection under construction.

    ``entries``: the entries of a mapping; None for a sequence. ``key``: the key whose value is next; None in a sequence
    and before a key.
    """

    __slots__ = ("anchor", "entries", "key", "value")

    def __init__(self, value: Sequence | Mapping, anchor: str | None) -> None:
        self.value = value
        self.entries = value.entries if isinstance(value, Mapping) else None
        self.anchor = anchor
        self.key: Scalar | None = None


def parse(raw: bytes, report: Report, lines_before: int = 0) -> Document | None:
    """Return the document in the bytes of a file; None if it is empty or wrong. Adds findings to ``report``.

    :param lines_before: of a larger file. Only messages count them: positions begin at the first of these bytes.
    """
    text = _decode(raw, report)
    if text is None:
        return None
    if text.startswith("$ANSIBLE_VAULT;"):
        remedy = "run ansible-vault decrypt on it, and put secrets into host_vars or group_vars beside it"
        report.add(rules.ENCRYPTED, (), "the file is encrypted by ansible-vault", remedy, (1, 1))
        return None
    import yaml  # here, so that importing this module does not require PyYAML

    builder = _Builder(report, lines_before)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            # yaml.parse() would run three functions of Python for each event
            root = builder.build(iter(loader.get_event, None))
        finally:
            loader.dispose()
    except _Stop:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.problem == _PARSER_DEPTH:
            builder.too_deep((mark.line + 1, mark.column + 1) if mark else (1, 1))
            return None
        report.add(
            rules.SYNTAX,
            (),
            "invalid YAML: %s" % _problem(error.problem, error.context),
            "check the indentation (spaces, no tabs), the colons, brackets and quotes here and on the line above",
            (mark.line + 1, mark.column + 1) if mark else (1, 1),
        )
        return None
    except yaml.YAMLError as error:
        report.add(rules.SYNTAX, (), "invalid YAML: %s" % shown(str(error), 120), "rewrite the file", (1, 1))
        return None
    if root is None or root.null:
        report.add(
            rules.EMPTY, (), "the file is empty", "describe the fabric: plugin, fabric, rails, profiles, nodes", (1, 1)
        )
        return None
    if not isinstance(root, Mapping):
        report.add(
            rules.KIND,
            (),
            "the file contains %s instead of the sections plugin, fabric, rails, profiles and nodes" % root.kind,
            "begin with the line plugin: railyard.fabric.rails",
            (root.line, root.column),
        )
        return None
    return Document(root)


def _problem(problem: str | None, context: str | None) -> str:
    return shown(", ".join(part for part in (problem, context) if part) or "it cannot be read", 160)


def _decode(raw: bytes, report: Report) -> str | None:
    if len(raw) > MAX_BYTES:
        report.add(
            rules.SIZE,
            (),
            "the file has %d MiB; the limit is %d MiB" % (len(raw) >> 20, MAX_BYTES >> 20),
            "write nodes as ranges, such as ai-[001:512]",
            (1, 1),
        )
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        message = "byte 0x%02x is not UTF-8 text" % raw[error.start]
        report.add(rules.TEXT, (), message, "save the file as UTF-8", (line, column))
        return None
    wrong = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    if wrong:
        line = text.count("\n", 0, wrong.start()) + 1
        column = wrong.start() - text.rfind("\n", 0, wrong.start())
        message = "control character (%s)" % shown(wrong.group())
        report.add(rules.TEXT, (), message, "delete it", (line, column))
        return None
    return text


class _Builder:
    """Builds values from the parser's events, without recursion, so that deep nesting cannot overflow the stack."""

    def __init__(self, report: Report, lines_before: int) -> None:
        self._report = report
        self._lines_before = lines_before
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Value] = {}
        self._open: set[str] = set()
        self._root: Value | None = None
        self._documents = 0
        # Equal texts are one object: large files repeat most of their keys and values.
        self._texts: dict[str, str] = {}

    def build(self, events: t.Iterator[t.Any]) -> Value | None:
        """Return the top value; None for an empty file.

        :raises _Stop: for a text that cannot be read, which is reported.
        """
        for event in events:
            kind = type(event).__name__
            if kind == "ScalarEvent":
                self._scalar(event)
            elif kind == "MappingStartEvent":
                self._start(event, Mapping(*_mark(event)))
            elif kind == "SequenceStartEvent":
                self._start(event, Sequence(*_mark(event)))
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._end()
            elif kind == "AliasEvent":
                self._alias(event)
            elif kind == "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    self._stop(
                        rules.DOCUMENTS, event, "the file has a second YAML document", "keep one document per file"
                    )
        return self._root

    def too_deep(self, position: tuple[int, int]) -> None:
        """Report nesting beyond the limit."""
        message = "nested deeper than %d levels" % MAX_DEPTH
        # The first six keys of such a path are enough.
        self._report.add(rules.SIZE, self._path_here()[:6], message, "reduce the nesting", position)

    def _stop(self, rule: t.Any, event: t.Any, message: str, remedy: str) -> t.NoReturn:
        self._report.add(rule, self._path_here(), message, remedy, _mark(event))
        raise _Stop

    def _path_here(self) -> Path:
        path: list[str | int] = []
        for frame in self._stack:
            if isinstance(frame.value, Sequence):
                path.append(len(frame.value.items))
            elif frame.key:
                path.append(frame.key.text)
        return tuple(path)

    def _expects_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].entries is not None and self._stack[-1].key is None

    def _scalar(self, event: t.Any) -> None:
        tag, mark, text = event.tag, event.start_mark, event.value
        if tag is not None and tag not in ("!", _TAG_STR):
            self._tag(event)
        text = self._texts.setdefault(text, text)
        scalar = Scalar(text, event.implicit[0] and tag is None, mark.line + 1, mark.column + 1)
        if event.anchor:
            self._anchors[event.anchor] = scalar
        frame = self._stack[-1] if self._stack else None
        if frame and frame.key is None and frame.entries is not None:
            self._key(frame, scalar)
        else:
            self._put(scalar)

    def _tag(self, event: t.Any) -> None:
        if event.tag.startswith("tag:yaml.org,2002:"):
            tag = "!!" + event.tag[len("tag:yaml.org,2002:") :]
            remedy = "remove the tag: the key determines the type of the value"
        else:
            tag, remedy = (
                event.tag,
                "move the variable to host_vars or group_vars beside the file, where Ansible supports tags",
            )
        path = self._path_here()
        self._report.add(rules.TAG, path, "the tag %s is not supported" % shown(tag), remedy, _mark(event))

    def _key(self, frame: _Frame, key: Scalar) -> None:
        if frame.entries and key.text in frame.entries and not (key.plain and key.text == _TAG_MERGE):
            first = frame.entries[key.text][0].line + self._lines_before
            self._report.add(
                rules.DUPLICATE,
                self._path_here() + (key.text,),
                "duplicate key %s, first used on line %d" % (shown(key.text), first),
                "keep one of the two",
                (key.line, key.column),
            )
        frame.key = key

    def _start(self, event: t.Any, value: Sequence | Mapping) -> None:
        if self._expects_key():
            self._stop(
                rules.KEY,
                event,
                "%s instead of a key" % value.kind,
                "write a plain word before the colon; a text that begins with a brace or bracket needs quotes",
            )
        if len(self._stack) >= MAX_DEPTH:
            self._deep(event)
        if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self._tag(event)
        if event.anchor:
            self._open.add(event.anchor)
        self._stack.append(_Frame(value, event.anchor))

    def _end(self) -> None:
        frame = self._stack.pop()
        value = frame.value
        if isinstance(value, Mapping):
            for merged in value.merged:
                for text, entry in merged.entries.items():
                    value.entries.setdefault(text, entry)
        if frame.anchor:
            self._open.discard(frame.anchor)
            self._anchors[frame.anchor] = value
        self._put(value)

    def _alias(self, event: t.Any) -> None:
        if event.anchor in self._open:
            self._stop(rules.ALIAS, event, "*%s is inside its own anchor" % shown(event.anchor), "write it out")
        if event.anchor not in self._anchors:
            message = "alias *%s before its anchor &%s" % (shown(event.anchor), shown(event.anchor))
            self._stop(rules.ALIAS, event, message, "define the anchor above, or write the value itself")
        value = self._anchors[event.anchor]
        if self._expects_key():
            if not isinstance(value, Scalar):
                self._stop(rules.KEY, event, "%s instead of a key" % value.kind, "write a plain word")
            self._key(self._stack[-1], Scalar(value.text, False, *_mark(event)))
        else:
            # The levels of the alias and those around it count together.
            if len(self._stack) + value.depth > MAX_DEPTH:
                self._deep(event)
            self._put(value)

    def _deep(self, event: t.Any) -> t.NoReturn:
        self.too_deep(_mark(event))
        raise _Stop

    def _put(self, value: Value) -> None:
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        collection, key = frame.value, frame.key
        collection.size += value.size
        if value.depth >= collection.depth:
            collection.depth = value.depth + 1
        if collection.size > MAX_VALUES:
            self._stack.pop()
            message = "the file has more than %d values after its aliases are expanded" % MAX_VALUES
            self._report.add(
                rules.SIZE, self._path_here(), message, "use fewer aliases", (collection.line, collection.column)
            )
            raise _Stop
        if isinstance(collection, Sequence):
            collection.items.append(value)
        elif key is not None:
            frame.key = None
            if key.text == _TAG_MERGE and key.plain:
                self._merge(collection, key, value)
            else:
                collection.entries.setdefault(key.text, (key, value))

    def _merge(self, mapping: Mapping, key: Scalar, value: Value) -> None:
        sources = value.items if isinstance(value, Sequence) else [value]
        for source in sources:
            if isinstance(source, Mapping):
                mapping.merged.append(source)
            else:
                self._report.add(
                    rules.ALIAS,
                    self._path_here() + (_TAG_MERGE,),
                    "<< takes mappings, not %s" % source.kind,
                    "use the anchor of a mapping",
                    (key.line, key.column),
                )


def _mark(event: t.Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def plain(value: Value) -> t.Any:
    """Return a value with the types of YAML 1.1, for the variables of nodes and groups, which are passed on unchanged.

    :raises ValueError: for a scalar that looks like a number or a date and is invalid.
    """
    import yaml

    loader = yaml.SafeLoader("")
    try:
        return _plain(value, loader, yaml.ScalarNode)
    finally:
        loader.dispose()


def _plain(value: Value, loader: t.Any, scalar_node: t.Any) -> t.Any:
    if isinstance(value, Sequence):
        return [_plain(item, loader, scalar_node) for item in value.items]
    if isinstance(value, Mapping):
        return {key: _plain(entry, loader, scalar_node) for key, (_key, entry) in value.entries.items()}
    if not value.plain:
        return value.text
    tag = loader.resolve(scalar_node, value.text, (True, False))
    node = scalar_node(tag, value.text)
    try:
        made = loader.construct_object(node, deep=True)
    except Exception as error:  # PyYAML's constructors raise what int(), float() and datetime raise
        raise ValueError("%s is not a value" % shown(value.text)) from error
    return made if made is None or isinstance(made, (bool, int, float, str)) else value.text
