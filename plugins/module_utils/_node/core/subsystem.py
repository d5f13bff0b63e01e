# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What every part of a node has in common: it is observed, compared with what is wanted, and changed."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, NotTaken
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

State = t.Dict[str, t.Any]


class Subsystem:
    """One concern of a node, with what is wanted of it (given to the constructor).

    A subclass keeps no live state: :meth:`observe` reads it, and gives it in the shape of the module's options.
    """

    #: whether the boot program lays it down too, so that only one at a time may change it
    at_boot = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def observe(self) -> State:
        """Read the live state. Changes nothing. Raises :class:`RailyardError`."""
        raise NotImplementedError

    def changes(self, state: State) -> list[Change]:
        """What must be done to get from ``state`` to what is wanted; empty where nothing must.

        All refusals are raised here, together and before anything is done. Raises :class:`RailyardError`.
        """
        raise NotImplementedError

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """Results beside the state, such as ``reboot_required``.

        :param pending: changes that are only predicted (check mode); empty once they are done.
        """
        return {}


def converge(subsystem: Subsystem, state: State, changes: t.Sequence[Change], done: list[Change]) -> State:
    """Do the changes in order and read back.

    :param done: receives each change that was done, so that a caller knows them after an error too.
    :return: the state after.
    """
    if not changes:
        return state
    for change in changes:
        # a planned change that failed is not reported as done; changes() below reports why
        with contextlib.suppress(NotTaken):
            change.act()
            done.append(change)
    after = subsystem.observe()
    left = subsystem.changes(after)
    if left:
        raise RailyardError(
            "was set, but reads back otherwise: %s"
            % ", ".join("%s is %r, not %r" % (c.attribute, c.before, c.after) for c in left),
            left[0].subject,
            "see the kernel's messages (dmesg) for the reason",
        )
    return after
