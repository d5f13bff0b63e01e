# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Changes: what is said in check mode and what is done are one list."""

from __future__ import annotations

import typing as t

# What a change is about; programs read this and never the words of subject and attribute.
SETTING, FILE, ROUTE, RULE = "setting", "file", "route", "rule"
# A step that other changes require, such as reloading a service: not a difference by itself.
STEP = "step"
_LIVE = ("/sys/", "/proc/")


class NotTaken(Exception):
    """Raised by a change's act when the kernel will not have it just now, and the subsystem tells why afterwards."""


class Change:
    """One attribute of one thing, from what it is to what it shall be, and how.

    :param subject: what is changed: a netdev, a PCI address, a file.
    :param attribute: which attribute of it, in the kernel's or the vendor's spelling.
    :param before: its value now; None where it is absent.
    :param after: its value then; None where it is taken away.
    :param act: does it. Raises :class:`RailyardError`, or :class:`NotTaken`.
    :param kind: what it is about; a path outside sysfs and procfs is a :data:`FILE`.
    :param port: netdev, PCI address or RDMA device of its port, where ``subject`` is another thing.
    """

    def __init__(
        self,
        subject: str,
        attribute: str,
        before: t.Any,
        after: t.Any,
        act: t.Callable[[], None],
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


def as_diff(changes: t.Sequence[Change]) -> dict[str, dict[str, t.Any]]:
    """The changes as Ansible's ``diff``: subject -> attribute -> value, only what differs."""
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for change in changes:
        before.setdefault(change.subject, {}).setdefault(change.attribute, change.before)
        after.setdefault(change.subject, {})[change.attribute] = change.after
    return {"before": before, "after": after}
