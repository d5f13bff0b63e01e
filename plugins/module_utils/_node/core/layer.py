# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of one module, from the observation of its subsystem to the result."""

from __future__ import annotations

import traceback
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, unforeseen
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import all_masked
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Builder, Options, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

Result = t.Dict[str, t.Any]


def run(name: str, build: Builder, options: Options, system: System, check: bool, warnings: list[str]) -> Result:
    """Return the result of the module ``name``. After an error it has ``failed``, and the changes done before it.

    :param options: the module's options, validated by Ansible.
    :param warnings: receives the module's warnings.
    """
    done: list[Change] = []
    try:
        system.management_interfaces = options.get("management_interfaces") or system.management_interfaces
        subsystem = build(options, system)
        gather = options.get("state") == "gathered"
        if subsystem.lock and not gather:
            boot_lock.wait(system, boot_lock.SECONDS, subsystem.lock)
        state = subsystem.observe()
        changes = [] if gather else subsystem.changes(state)
        pending = changes if check else []
        if changes and not check:
            with boot_lock.changing(system, subsystem.locks, "the module %s" % name, boot_lock.SECONDS):
                # what was read before may have changed since
                subsystem = build(options, system)
                state = subsystem.observe()
                state = converge(subsystem, state, subsystem.changes(state), done)
        warnings += [all_masked(each) for each in subsystem.warnings]
        shown = pending or done
        return {
            "changed": bool(shown),
            "changes": [change.as_dict() for change in shown],
            "diff": as_diff(shown),
            "gathered": state,
            **subsystem.outcome(state, pending),
        }
    except Exception as error:
        return failure(error, options, done)


def failure(error: Exception, options: Options, done: t.Sequence[Change] = ()) -> Result:
    """Return the result of a module that failed: the error, and the changes ``done`` before it."""
    trace = ""
    if not isinstance(error, RailyardError):
        # Ansible shows 'exception' only at -vvv
        trace = traceback.format_exc()
        error = unforeseen(error)
    result: Result = {
        **error.as_result(options.get("ports") or ()),
        "changed": bool(done),
        "changes": [change.as_dict() for change in done],
    }
    return dict(result, exception=trace) if trace else result
