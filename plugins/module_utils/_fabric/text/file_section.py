# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A mapping of a fabric file, read key by key into typed values. A key that no getter reads is unknown."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    did_you_mean,
    nearest,
    remedy_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off"))
_TEMPLATE_MARKS = ("{{", "{%", "{#")
# A message lists at most as many values of a choice.
MAX_LISTED = 12


class Section:
    """A mapping of the file with typed getters for its keys.

    A getter returns None if the key is absent, null or invalid, and reports an invalid value. ``required`` of a getter
    makes the key required: it is the remedy of the finding if the key is missing.
    """

    def __init__(self, mapping: Mapping, path: Path, report: Report) -> None:
        self.mapping = mapping
        self.path = path
        self.report = report
        self._known: dict[str, None] = {}
        # Missing required key -> the remedy.
        self._missing: dict[str, str] = {}

    def has(self, key: str) -> bool:
        """Return whether the key has a value, valid or not."""
        entry = self.mapping.entries.get(key)
        return entry is not None and not entry[1].null

    def written_null(self, key: str) -> bool:
        """Return whether the file sets the key to null."""
        entry = self.mapping.entries.get(key)
        return entry is not None and entry[1].null

    def value(self, key: str, required: str = "", lists: bool = False) -> Value | None:
        """Return the value as it is written.

        :meth:`done` reports a missing key, because only then all keys are known that may be a misspelling of it.

        :param lists: declare in the schema that the value is one text or a list of texts.
        """
        self._known[key] = None
        entry = self.mapping.entries.get(key)
        if entry and not entry[1].null:
            return entry[1]
        if required and entry:
            self._report_missing(key, required)
        elif required:
            self._missing[key] = required
        return None

    def _report_missing(self, key: str, required: str) -> None:
        self.report.add(rules.MISSING, self.path + (key,), "%s is missing" % key, required)

    def text(self, key: str, required: str = "") -> str | None:
        value = self.value(key, required)
        return None if value is None else text_of(value, self.path + (key,), self.report)

    def number(self, key: str, low: int, high: int, unit: str = "", required: str = "") -> int | None:
        """Return a whole number from ``low`` to ``high``. ``unit`` is for the remedy."""
        text = self.text(key, required)
        return None if text is None else number_of(text, self.path + (key,), low, high, unit, self.report)

    def flag(self, key: str) -> bool | None:
        """Return a truth value: true, yes, on, false, no or off, in any case."""
        text = self.text(key)
        if text is None:
            return None
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
        self.report.add(
            rules.KIND, self.path + (key,), "%s is neither true nor false" % shown(text), "write true or false"
        )
        return None

    def choice(
        self, key: str, choices: t.Sequence[str], required: str = "", remedy: str = "write one of them"
    ) -> str | None:
        """Return one of the texts. ``remedy``: of another text that is not similar to one of them."""
        text = self.text(key, required)
        if text is None or text in choices:
            return text
        near = nearest(text, choices)
        listed = ", ".join(choices) if len(choices) <= MAX_LISTED else "the %d values of %s" % (len(choices), key)
        message = "%s is not one of %s%s" % (shown(text), listed, did_you_mean(near))
        self.report.add(rules.CHOICE, self.path + (key,), message, remedy_of(near, remedy))
        return None

    def section(self, key: str, required: str = "") -> Section | None:
        value = self.value(key, required)
        return None if value is None else section_of(value, self.path + (key,), self.report)

    def sections(self) -> t.Iterator[tuple[str, Section]]:
        """Yield each key with its section, for mappings whose keys are names."""
        for key in self.mapping.entries:
            section = self.section(key, "add keys to %s, or remove it" % shown(key))
            if section is not None:
                yield key, section

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; a single text as a list of one; an empty list for an absent key."""
        value = self.value(key)
        if value is None:
            return []
        path = self.path + (key,)
        if not isinstance(value, Sequence):
            text = text_of(value, path, self.report)
            return [] if text is None else [text]
        found = []
        for index, item in enumerate(value.items):
            text = text_of(item, path + (index,), self.report)
            if text is not None:
                found.append(text)
        return found

    def items(self, key: str) -> list[Section | None] | None:
        """Return the items of a list as sections, None for an item that is not a mapping; None if there is no list."""
        value = self.value(key)
        if not isinstance(value, Sequence):
            return None
        return [section_of(item, self.path + (key, at), self.report) for at, item in enumerate(value.items)]

    def done(self) -> None:
        """Report missing required keys, and keys that no getter has read."""
        for key, required in self._missing.items():
            if not self.misspelt(key):
                self._report_missing(key, required)
        known = list(self._known)
        for key in self.mapping.entries:
            if key in self._known:
                continue
            near = nearest(key, [absent for absent in known if not self.has(absent)])
            self.report.add(
                rules.UNKNOWN,
                self.path + (key,),
                "unknown key %s%s" % (shown(key), did_you_mean(near)),
                remedy_of(near, "remove it" if near else "remove it; the keys here are %s" % ", ".join(known)),
            )

    def misspelt(self, key: str) -> bool:
        """Return whether the key is missing and an unknown key may be a misspelling; :meth:`done` reports that key."""
        unknown = [name for name in self.mapping.entries if name not in self._known]
        return key not in self.mapping.entries and any(nearest(name, [key]) for name in unknown)


def number_of(text: str, path: Path, low: int, high: int, unit: str, report: Report) -> int | None:
    """Return a whole number from ``low`` to ``high``; None for another text, which is reported."""
    remedy = "write a whole number%s from %d to %d" % (unit and " of " + unit, low, high)
    if not re.match(r"-?(0|[1-9][0-9]*)\Z", text):
        report.add(rules.KIND, path, "%s is not a whole number" % shown(text), remedy)
    elif len(text) > 20 or not low <= int(text) <= high:
        report.add(rules.RANGE, path, "%s is not from %d to %d" % (shown(text), low, high), remedy)
    else:
        return int(text)
    return None


def section_of(value: Value, path: Path, report: Report) -> Section | None:
    """Return a mapping as a section; None for another value, which is reported."""
    if isinstance(value, Mapping):
        return Section(value, path, report)
    report.add(rules.KIND, path, "%s instead of a mapping" % value.kind, "write it as key: value pairs")
    return None


def text_of(value: Value, path: Path, report: Report) -> str | None:
    """Return the text of a single value that is not empty; None for another value, which is reported."""
    if not isinstance(value, Scalar):
        report.add(rules.KIND, path, "%s instead of a single value" % value.kind, "write one value")
        return None
    if value.null or not value.text.strip():
        report.add(rules.KIND, path, "the value is empty", "write a value, or remove the key")
        return None
    if "{" in value.text and any(mark in value.text for mark in _TEMPLATE_MARKS):
        message = "%s is a template, and templates are not evaluated in this file" % shown(value.text)
        report.add(rules.TEMPLATE, path, message, "write the value itself")
        return None
    return value.text
