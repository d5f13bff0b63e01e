# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the services of a node share: states for systemd, the log, and problems that are logged once each."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

Table = t.List[t.Sequence[str]]


def notify(text: str) -> None:
    """Send a state to systemd, if it started this program; see sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(text.encode())


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def columns(rows: Table) -> str:
    """Return rows of equal length as lines. Each column is as wide as its widest value."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)


class Problems:
    """The present problems.

    :param log: writes a message to the agent's log.
    :param progress: called after each attempt, as a slow kubelet may take seconds for each of many resources.
    """

    def __init__(self, log: t.Callable[[str], None], progress: t.Callable[[], None]) -> None:
        self.log = log
        self._progress = progress
        self._messages: dict[str, str] = {}

    @property
    def messages(self) -> list[str]:
        return list(self._messages.values())

    def attempt(self, place: str, act: t.Callable[[], t.Any]) -> None:
        """Call ``act``, which may fail temporarily, and record its problem under ``place``. Log its begin and end."""
        try:
            act()
        except RailyardError as error:
            if self._messages.get(place) != str(error):
                self._messages[place] = str(error)
                self.log(str(error))
        else:
            if self._messages.pop(place, None):
                self.log("%s: the problem is over" % place)
        finally:
            self._progress()

    def forget(self, place: str) -> None:
        """Remove the problem of a place that does not exist any more."""
        self._messages.pop(place, None)

    def log_new(self, before: t.Container[str], after: t.Iterable[str]) -> None:
        """Log the messages that are not in ``before``."""
        for message in after:
            if message not in before:
                self.log(message)
