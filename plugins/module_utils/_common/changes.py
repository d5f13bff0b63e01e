# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes. Check mode reports the same list that a run applies."""

from __future__ import annotations

import typing as t

# Kinds of changes, for programs, which must not parse the texts of subject and attribute.
SETTING, FILE, ROUTE, RULE = "setting", "file", "route", "rule"
# A step that other changes require, such as reloading a service; not a difference between observed and desired state.
STEP = "step"
_LIVE = ("/sys/", "/proc/")

Act = t.Callable[[], None]


class NotTaken(Exception):
    """Raised by the function of a change that the kernel does not accept now. The subsystem reports the reason."""


class Change:
    """One difference between observed and desired state, and the function that removes it.

    :param subject: what is changed: a netdev, a PCI address, a file.
    :param attribute: the changed attribute, in the kernel's or the vendor's spelling.
    :param before: the observed value; None if it is absent.
    :param after: the desired value; None if it is removed.
    :param act: applies the change. Raises :class:`RailyardError`, or :class:`NotTaken`.
    :param kind: one of the kinds above. Default: :data:`FILE` for a path outside sysfs and procfs, else
        :data:`SETTING`.
    :param port: netdev, PCI address or RDMA device of the port, if ``subject`` is not the port.
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
        """Return the change as a row of a module's result. The default kind, and a missing port, are omitted."""
        row = {"subject": self.subject, "attribute": self.attribute, "before": self.before, "after": self.after}
        optional = {"kind": self.kind if self.kind != SETTING else None, "port": self.port}
        return dict(row, **{key: value for key, value in optional.items() if value})

    def __repr__(self) -> str:
        return "<%s %s: %r -> %r>" % (self.subject, self.attribute, self.before, self.after)


def batch(rows: t.Iterable[tuple[str, str, t.Any, t.Any]], act: Act, **fields: t.Any) -> list[Change]:
    """Return changes that are applied together. ``act``: applies all of them; it is the function of the first."""
    changes = [Change(*row, act=lambda: None, **fields) for row in rows]
    if changes:
        changes[0].act = act
    return changes


def as_diff(changes: t.Sequence[Change]) -> dict[str, dict[str, t.Any]]:
    """Return the changes as Ansible's ``diff``. ``before`` and ``after``: subject -> attribute -> value."""
    before: dict[str, t.Any] = {}
    after: dict[str, t.Any] = {}
    for change in changes:
        before.setdefault(change.subject, {}).setdefault(change.attribute, change.before)
        after.setdefault(change.subject, {})[change.attribute] = change.after
    return {"before": before, "after": after}
