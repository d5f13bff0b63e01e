# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""One mapping of a fabric file, read key by key into typed values; keys that are not read are unknown."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog import file_rules as rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

_TRUE = frozenset(("true", "yes", "on"))
_TEMPLATE_MARKS = ("{{", "{%", "{#")
_FALSE = frozenset(("false", "no", "off"))


class Section:
    """Each getter returns None for a key that is absent, null or wrong; what is wrong has then been reported."""

    def __init__(self, mapping: Mapping, path: Path, report: Report) -> None:
        self.mapping = mapping
        self.path = path
        self.report = report
        self._known: dict[str, None] = {}
        # Key that is missing -> what to write.
        self._missing: dict[str, str] = {}

    def has(self, key: str) -> bool:
        """Whether the key is given a value, right or wrong."""
        return key in self.mapping.entries and not self.mapping.entries[key][1].null

    def value(self, key: str, required: str = "", lists: bool = False) -> Value | None:
        """The value as written. ``required``: as a remedy, what to write when it is missing. ``lists`` declares for the
        schema that the value is one text or a list of them.

        That it is missing is reported by :meth:`done`: only then it is known which other keys are none, and may be it.
        """
        self._known[key] = None
        if self.has(key):
            return self.mapping.entries[key][1]
        if required and key in self.mapping.entries:
            self._absent(key, required)
        elif required:
            self._missing[key] = required
        return None

    def _absent(self, key: str, required: str) -> None:
        self.report.add(rules.MISSING, self.path + (key,), "%s is missing" % key, required)

    def text(self, key: str, required: str = "") -> str | None:
        value = self.value(key, required)
        return None if value is None else text_of(value, self.path + (key,), self.report)

    def number(self, key: str, low: int, high: int, unit: str = "", required: str = "") -> int | None:
        text = self.text(key, required)
        if text is None:
            return None
        what = "a whole number%s from %d to %d" % (unit and " of " + unit, low, high)
        path = self.path + (key,)
        if not re.match(r"-?(0|[1-9][0-9]*)\Z", text):
            self.report.add(rules.KIND, path, "%s is not a whole number" % shown(text), "write %s" % what)
            return None
        if len(text) > 20 or not low <= int(text) <= high:
            self.report.add(rules.RANGE, path, "%s is not from %d to %d" % (shown(text), low, high), "write %s" % what)
            return None
        return int(text)

    def flag(self, key: str) -> bool | None:
        text = self.text(key)
        if text is None:
            return None
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
        self.report.add(
            rules.KIND, self.path + (key,), "%s is neither true nor false" % shown(text), "write true or false"
        )
        return None

    def choice(self, key: str, choices: t.Sequence[str], required: str = "") -> str | None:
        text = self.text(key, required)
        if text is None or text in choices:
            return text
        near = nearest(text, choices)
        message = "%s is not one of %s%s" % (shown(text), ", ".join(choices), did_you_mean(near))
        self.report.add(rules.CHOICE, self.path + (key,), message, "write %s" % near if near else "write one of them")
        return None

    def section(self, key: str, required: str = "") -> Section | None:
        value = self.value(key, required)
        return None if value is None else section_of(value, self.path + (key,), self.report)

    def sections(self) -> t.Iterator[tuple[str, Section]]:
        """Every entry as a section, for mappings whose keys are names."""
        for key in self.mapping.entries:
            part = self.section(key, "give %s its keys, or remove it" % shown(key))
            if part is not None:
                yield key, part

    def texts(self, key: str) -> list[str]:
        """A list of texts; a single text is a list of one."""
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
        """The items of a list, each as a section, or None for one that is not a mapping. None without a list."""
        value = self.value(key)
        if not isinstance(value, Sequence):
            return None
        return [section_of(item, self.path + (key, at), self.report) for at, item in enumerate(value.items)]

    def done(self) -> None:
        """Report the keys that no getter asked for, and those that were asked for and are missing."""
        for key, required in self._missing.items():
            if not self.misspelt(key):
                self._absent(key, required)
        known = list(self._known)
        for key in self.mapping.entries:
            if key in self._known:
                continue
            near = nearest(key, [each for each in known if not self.has(each)])
            self.report.add(
                rules.UNKNOWN,
                self.path + (key,),
                "unknown key %s%s" % (shown(key), did_you_mean(near)),
                "write %s" % near if near else "remove it; the keys here are %s" % ", ".join(known),
            )

    def misspelt(self, key: str) -> bool:
        """Whether a key that is missing seems to be there under another spelling, which :meth:`done` will report."""
        others = [other for other in self.mapping.entries if other not in self._known]
        return key not in self.mapping.entries and any(nearest(other, [key]) for other in others)


def section_of(value: Value, path: Path, report: Report) -> Section | None:
    if isinstance(value, Mapping):
        return Section(value, path, report)
    report.add(rules.KIND, path, "%s instead of a mapping" % value.kind, "write it as key: value pairs")
    return None


def text_of(value: Value, path: Path, report: Report, rule: Rule | None = None) -> str | None:
    """The text of a single value that is not null."""
    if not isinstance(value, Scalar):
        report.add(rule or rules.KIND, path, "%s instead of a single value" % value.kind, "write one value")
        return None
    if value.null or not value.text.strip():
        report.add(rule or rules.KIND, path, "the value is empty", "write a value, or take the key out")
        return None
    if any(mark in value.text for mark in _TEMPLATE_MARKS):
        message = "%s is a template, and templates are not worked out here" % shown(value.text)
        report.add(rules.TEMPLATE, path, message, "write the value itself")
        return None
    return value.text
