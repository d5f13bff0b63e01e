# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find manifests in files: YAML and JSON files, and code blocks and heredocs in pages and shell scripts."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import copied
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import MAX_BYTES, Mapping, parse

_DATA = (".yml", ".yaml", ".json")
_FENCE = re.compile(r"\s*(```|~~~)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_KEY = re.compile(r"( *)(- +)?[\"']?([A-Za-z][\w./-]*)[\"']?\s*:(\s|$)")
_HEAD = re.compile(r"( *)(apiVersion|kind)\s*:\s*\S")
_VALUES = re.compile(r"( *)(rdma|sriov|rdmaSharedDevicePlugin|sriovDevicePlugin)\s*:\s*(#.*)?$")
# A JSON document that may be a manifest or the configuration of a device plugin.
_JSON = re.compile(r'\s*\{[\s\S]*"(apiVersion|configList|resourceList)"\s*:')
_VARIABLE = re.compile(r"\$(\{[^}]*\}|[A-Za-z_]\w*)")
_SEPARATOR = re.compile(r"\s*---\s*(#.*)?$")


class Manifest(t.NamedTuple):
    """One document. ``line``: its first line. Lines of its values are lines of ``file``."""

    file: str
    line: int
    root: Mapping


class Text(t.NamedTuple):
    """The lines of a file. ``prose``: whether it is a page or a script and not a data file."""

    file: str
    lines: list[str]
    prose: bool


def decode(file: str, raw: bytes, found: Found) -> Text:
    """Return the lines of a file. Invalid UTF-8 and files that are too large are reported."""
    if len(raw) > MAX_BYTES:
        message = "the file has %d MiB, of which the first %d are read" % (len(raw) >> 20, MAX_BYTES >> 20)
        found.add(
            import_rules.TEXT,
            Place(file),
            message,
            "name the directory that contains only the manifests",
            "nothing of the rest",
        )
        raw = raw[:MAX_BYTES]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = Place(file, raw.count(b"\n", 0, error.start) + 1)
        message = "byte 0x%02x is not UTF-8 text" % raw[error.start]
        found.add(import_rules.TEXT, place, message, "save the file as UTF-8", "the text without it")
        text = raw.decode("utf-8", "replace")
    # line ends of both YAML and editors, so that line numbers of findings are those of the editor
    lines = re.split(r"\r\n|\n|\r", text)
    data = file.lower().endswith(_DATA)
    return Text(file, lines, not data or any(_FENCE.match(line) for line in lines))


def manifests(text: Text, found: Found) -> list[Manifest]:
    """Return all documents of the file that may be a manifest or a configuration."""
    pieces = _blocks(text) if text.prose else _documents(text)
    roots = [(first, _parse(text, first, last, found)) for first, last in pieces]
    return [Manifest(text.file, first + 1, root) for first, root in roots if root is not None]


# -- data ------------------------------------------------------------------------------------------------------------


def _documents(text: Text) -> t.Iterator[tuple[int, int]]:
    start = 0
    for at, line in enumerate(text.lines + ["---"]):
        if line.startswith("---") and _SEPARATOR.match(line) and not line.startswith(" "):
            if any(each.strip() and not each.lstrip().startswith("#") for each in text.lines[start:at]):
                yield start, at
            start = at + 1


# -- pages and scripts -----------------------------------------------------------------------------------------------


def _blocks(text: Text) -> t.Iterator[tuple[int, int]]:
    for first, last in _sections(text.lines):
        if _JSON.match("\n".join(text.lines[first:last])):
            yield first, last
            continue
        at = first
        while at < last:
            head = _HEAD.match(text.lines[at]) or _VALUES.match(text.lines[at])
            if not head:
                at += 1
                continue
            begin = _first_line(text.lines, first, at, len(head.group(1)))
            end = _end_line(text.lines, at, last, len(head.group(1)))
            yield begin, end
            at = first = end


def _sections(lines: t.Sequence[str]) -> t.Iterator[tuple[int, int]]:
    """Return (first, end) of sections of lines between fences, ends of heredocs, and document separators."""
    start, end_word = 0, ""
    for at, line in enumerate(lines):
        heredoc = _HEREDOC.search(line)
        if heredoc and not end_word:
            end_word = heredoc.group(2)
        elif (end_word and line.strip() == end_word) or _FENCE.match(line):
            end_word = ""
        elif not _SEPARATOR.match(line):
            continue
        if start < at:
            yield start, at
        start = at + 1
    if start < len(lines):
        yield start, len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _first_line(lines: t.Sequence[str], first: int, at: int, indent: int) -> int:
    """Return the first line of a document, searching upwards from a known key: ``metadata`` may precede ``kind``."""
    begin = at
    while at > first:
        at -= 1
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key = _KEY.match(line)
        if _indent(line) < indent or (_indent(line) == indent and (not key or key.group(2))):
            break
        if key and _indent(line) == indent:
            begin = at
    return begin


def _end_line(lines: t.Sequence[str], at: int, last: int, indent: int) -> int:
    """Return the line after the document whose keys have this indentation."""
    heads = {_head_key(lines[at])}
    at += 1
    while at < last:
        line = lines[at]
        if line.strip() and not line.lstrip().startswith("#"):
            if _indent(line) < indent:
                return at
            if _indent(line) == indent:
                if not (_KEY.match(line) or line.lstrip().startswith(("- ", "}", "]"))):
                    return at
                head = _head_key(line)
                if head and head in heads:
                    return at
                heads.add(head)
        at += 1
    return last


def _head_key(line: str) -> str:
    found = _HEAD.match(line)
    return found.group(2) if found else ""


# -- one document ----------------------------------------------------------------------------------------------------


def _parse(text: Text, first: int, last: int, found: Found) -> Mapping | None:
    report = Report()
    lines = text.lines[first:last]
    for at, line in enumerate(lines, first + 1):
        variable = _VARIABLE.search(line) if text.prose else None
        if variable:
            message = "%s has no value here" % shown(variable.group())
            remedy = "write the value itself, or give the manifests from the cluster"
            found.add(import_rules.VARIABLE, Place(text.file, at), message, remedy, "the text unchanged")
    raw = "\n".join(lines).encode("utf-8", "replace")
    document = parse(raw, report, first)
    for each in report.findings(document.position if document else lambda _path: (1, 1)):
        place = Place(text.file, each.line + first, each.column, each.place)
        written = "nothing of this document" if document is None else "the first of it"
        found.add(import_rules.SYNTAX, place, each.message, each.remedy, written)
    return t.cast(Mapping, copied(document.root, first)) if document else None
