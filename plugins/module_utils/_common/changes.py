# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Changes: what is said in check mode and what is done are one list."""

from __future__ import annotations

import typing as t


class NotTaken(Exception):
    """Raised by a change's act when the kernel will not have it just now, and the subsystem tells why afterwards."""


class Change:
    """One attribute of one thing, from what it is to what it shall be, and how.

    :param subject: what is changed: a netdev, a PCI address, a file.
    :param attribute: which attribute of it, in the kernel's or the vendor's spelling.
    :param before: its value now; None where it is absent.
    :param after: its value then; None where it is taken away.
    :param act: does it. Raises :class:`RailyardError`, or :class:`NotTaken`.
    """

    def __init__(self, subject: str, attribute: str, before: t.Any, after: t.Any, act: t.Callable[[], None]) -> None:
        self.subject = subject
        self.attribute = attribute
        self.before = before
        self.after = after
        self.act = act

    def as_dict(self) -> dict[str, t.Any]:
        return {"subject": self.subject, "attribute": self.attribute, "before": self.before, "after": self.after}

    def __repr__(self) -> str:
        return "<%s %s: %r -> %r>" % (self.subject, self.attribute, self.before, self.after)


def as_diff(changes: t.Sequence[Change]) -> dict[str, dict[str, t.Any]]:
    """The changes as Ansible's ``diff``: subject -> attribute -> value, only what differs."""
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for change in changes:
        before.setdefault(change.subject, {}).setdefault(change.attribute, change.before)
        after.setdefault(change.subject, {})[change.attribute] = change.after
    return {"before": before, "after": after}
