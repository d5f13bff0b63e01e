# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of every part of a node: observe it, compare it with the desired state, change it."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, NotTaken
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

State = t.Dict[str, t.Any]
Options = t.Mapping[str, t.Any]
Builder = t.Callable[[Options, System], "Subsystem"]
# The option of modules that do not change the management path, and of rail_host.
MANAGEMENT: dict[str, t.Any] = {"management_interfaces": {"type": "list", "elements": "str", "default": []}}


class Layer(t.NamedTuple):
    """The parts of a module: ``spec`` and ``required_if`` as in ``AnsibleModule``; ``build`` creates the subsystem."""

    spec: dict[str, t.Any]
    build: Builder
    required_if: t.Sequence[t.Any] = ()


class Subsystem:
    """One part of a node and its desired state, which is passed to the constructor.

    A subclass stores no live state: :meth:`observe` returns it in the shape of the module's options.
    """

    #: the lock file of its changes, see :mod:`.boot_lock`; empty: they need no lock
    lock = boot_lock.FILE
    #: whether its changes may take a device from a pod, so that no pod is attached in the meantime
    changes_devices = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @property
    def locks(self) -> list[str]:
        """The files of the locks that its changes need, in the order in which they are taken."""
        return [file for file in (self.lock, boot_lock.DEVICES if self.changes_devices else "") if file]

    def observe(self) -> State:
        """Return the live state. Changes nothing. Raises :class:`RailyardError`."""
        raise NotImplementedError

    def changes(self, state: State) -> list[Change]:
        """Return the changes that lead from ``state`` to the desired state, in order.

        All refusals are raised here, together, before anything is changed. Raises :class:`RailyardError`.
        """
        raise NotImplementedError

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """Return results in addition to the state, such as ``reboot_required``.

        :param pending: changes that are only predicted (check mode); empty after they are done.
        """
        return {}


def converge(subsystem: Subsystem, state: State, changes: t.Sequence[Change], done: list[Change]) -> State:
    """Do the changes in order, and return the state observed afterwards.

    :param done: receives each change that was done, so that the caller has them after an error too.
    :raises RailyardError: if a change is needed again afterwards.
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
