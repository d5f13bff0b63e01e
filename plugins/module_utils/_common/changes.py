# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Changes: check mode prints the same list that a run applies."""

from __future__ import annotations

import typing as t

# What a change is about; programs read this and never the words of subject and attribute.
SETTING, FILE, ROUTE, RULE = "setting", "file", "route", "rule"
# A step that other changes require, such as reloading a service: not a difference by itself.
STEP = "step"
_LIVE = ("/sys/", "/proc/")

Act = t.Callable[[], None]


class NotTaken(Exception):
    """Raised by the function of a change that the kernel does not accept at this moment; the subsystem explains it."""


class Change:
    """One attribute of one thing: observed value, desired value, and the function that applies it.

    :param subject: what is changed: a netdev, a PCI address, a file.
    :param attribute: which attribute of it, in the kernel's or the vendor's spelling.
    :param before: the observed value; None if it is absent.
    :param after: the desired value; None if it is removed.
    :param act: applies it. Raises :class:`RailyardError`, or :class:`NotTaken`.
    :param kind: what it is about; a path outside sysfs and procfs is a :data:`FILE`.
    :param port: netdev, PCI address or RDMA device of its port, where ``subject`` is another thing.
    """

    def __init__(
        self,
        subject: str,
        attribute: str,
        before: t.Any,
        after: t.Any,
        act: Act,
        kind: str = "",
        port: str | None = None,
    ) -> None:
        self.subject = subject
        self.attribute = attribute
        self.before = before
        self.after = after
        self.act = act
        self.kind = kind or (FILE if subject.startswith("/") and not subject.startswith(_LIVE) else SETTING)
        self.port = port

    def as_dict(self) -> dict[str, t.Any]:
        """As a result; ``kind`` and ``port`` are left out where they are a setting and the subject."""
        row = {"subject": self.subject, "attribute": self.attribute, "before": self.before, "after": self.after}
        more = {"kind": self.kind if self.kind != SETTING else None, "port": self.port}
        return dict(row, **{key: value for key, value in more.items() if value})

    def __repr__(self) -> str:
        return "<%s %s: %r -> %r>" % (self.subject, self.attribute, self.before, self.after)


def batch(rows: t.Iterable[tuple[str, str, t.Any, t.Any]], act: Act, **fields: t.Any) -> list[Change]:
    """Changes that are applied together: the function of the first applies them all."""
    changes = [Change(*row, act=lambda: None, **fields) for row in rows]
    if changes:
        changes[0].act = act
    return changes


def as_diff(changes: t.Sequence[Change]) -> dict[str, dict[str, t.Any]]:
    """The changes as Ansible's ``diff``: subject -> attribute -> value, only what differs."""
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for change in changes:
        before.setdefault(change.subject, {}).setdefault(change.attribute, change.before)
        after.setdefault(change.subject, {})[change.attribute] = change.after
    return {"before": before, "after": after}
