# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys of a rail, which its plane, the rail itself and the section ``addresses`` can set."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import template
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section


class RailKeys:
    """The keys of one rail. The plane takes precedence over the rail, and the rail over ``addresses``.

    ``paths``: key -> its place. In texts of generated rails, of ranges of rails and of rails with planes, fields are
    filled with their numbers.

    :param sections: the sections of the plane, if it has one, and of the rail.
    :param addresses: the section ``addresses``. ``unshared``: keys of it that do not apply to the rail.
    """

    def __init__(
        self,
        sections: t.Sequence[Section],
        addresses: Section | None,
        unshared: t.Container[str],
        numbers: t.Mapping[str, int] | None,
        report: Report,
    ) -> None:
        self._sections = [*sections, addresses] if addresses else sections
        self._addresses = addresses
        self._unshared = unshared
        self._numbers = numbers
        self._report = report
        self.paths: dict[str, Path] = {}

    def section(self, key: str) -> Section | None:
        """Return the section whose value is used; None if no section has the key. All sections accept the key."""
        for section in self._sections:
            section.value(key)
        owner = next((section for section in self._sections if section.has(key)), None)
        if owner is self._addresses and key in self._unshared:
            return None
        if owner:
            self.paths[key] = owner.path + (key,)
        return owner

    def text(self, key: str) -> str | None:
        """Return a text with its fields filled."""
        section = self.section(key)
        text = section.text(key) if section else None
        return text if text is None or section is None else self.fill(text, section.path + (key,))

    def number(self, key: str, low: int, high: int) -> int | None:
        """Return a number, as :meth:`Section.number` does."""
        section = self.section(key)
        return section.number(key, low, high) if section else None

    def choice(self, key: str, choices: t.Sequence[str]) -> str | None:
        """Return one of ``choices``, as :meth:`Section.choice` does."""
        section = self.section(key)
        return section.choice(key, choices) if section else None

    def fill(self, text: str, path: Path) -> str | None:
        """Return a text with its fields filled; None if a field is invalid, which is reported."""
        if self._numbers is None:
            return text
        text_template = template(text, path, tuple(self._numbers), (), self._report)
        return text_template.fill(self._numbers) if text_template else None
