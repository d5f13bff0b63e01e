# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors for users: each has a message, a place and a remedy."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import masked

# A place that is a port in a module's options, or an option of a port.
_PORT = re.compile(r"ports\[(\d+)\]")


class RailyardError(Exception):
    """An error in the request or on the node. Passwords of URLs are masked in its texts.

    :param message: what is wrong with which value, without a final full stop.
    :param place: an option (``ports[2].vfs.count``), a netdev, a file.
    :param remedy: what the user can do, as one sentence without a final full stop.
    """

    def __init__(self, message: str, place: str = "", remedy: str = "") -> None:
        self.message = masked(message)
        self.place = masked(place)
        self.remedy = masked(remedy)
        super().__init__(self.message)

    @property
    def errors(self) -> list[RailyardError]:
        """Return the errors of which this one consists."""
        return [self]

    def __str__(self) -> str:
        text = "%s: %s" % (self.place, self.message) if self.place else self.message
        return "%s. Remedy: %s." % (text, self.remedy) if self.remedy else "%s." % text

    def as_dict(self, ports: t.Sequence[t.Mapping[str, t.Any]] = ()) -> dict[str, str]:
        """Return the error as a row of a module's result.

        :param ports: the module's option of this name. If the place is in it, ``port`` has the port's name.
        """
        row = {"place": self.place, "message": self.message, "remedy": self.remedy}
        match = _PORT.match(self.place)
        options = ports[int(match.group(1))] if match and int(match.group(1)) < len(ports) else {}
        names = [options[key] for key in ("rail", "netdev", "pci", "name") if options.get(key)]
        return dict(row, port=str(names[0])) if names else row

    def as_result(self, ports: t.Sequence[t.Mapping[str, t.Any]] = ()) -> dict[str, t.Any]:
        """Return the result of a module or action that failed with this error. ``ports``: as in :meth:`as_dict`."""
        return {"failed": True, "msg": str(self), "errors": [error.as_dict(ports) for error in self.errors]}


class Refused(RailyardError):
    """A refusal: the request is valid, but would do damage."""


class Unsupported(RailyardError):
    """The node's kernel, driver or tools do not support the request."""


class Errors(RailyardError):
    """Several errors, in the order in which they are reported."""

    def __init__(self, errors: t.Sequence[RailyardError]) -> None:
        super().__init__("; ".join(error.message for error in errors))
        self._errors = list(errors)

    @property
    def errors(self) -> list[RailyardError]:
        return self._errors

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def unforeseen(error: Exception) -> RailyardError:
    """Return the error for users of an exception that only a bug can raise."""
    remedy = "run again with -vvv and report what it prints as a bug"
    return RailyardError("%s: %s" % (type(error).__name__, error), "unforeseen", remedy)


@contextlib.contextmanager
def collected(errors: list[RailyardError]) -> t.Iterator[None]:
    """Add an error that the block raises to ``errors``, which :func:`raise_all` raises later."""
    try:
        yield
    except RailyardError as error:
        errors.append(error)


def raise_all(errors: t.Sequence[RailyardError]) -> None:
    """Raise the collected errors, if any: a single one itself, several as :class:`Errors`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise Errors(errors)
