# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""One layer of a node: the options of its module, its subsystem, and the run from observation to result."""

from __future__ import annotations

import traceback
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, unforeseen
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import all_masked
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

Options = t.Mapping[str, t.Any]
Builder = t.Callable[[Options, System], Subsystem]
Result = t.Dict[str, t.Any]
# The option of modules that do not change the management path, and of rail_host.
MANAGEMENT: dict[str, t.Any] = {"management_interfaces": {"type": "list", "elements": "str", "default": []}}


class Layer(t.NamedTuple):
    """The parts of a module: ``spec`` and ``required_if`` as in ``AnsibleModule``; ``build`` creates the subsystem."""

    spec: dict[str, t.Any]
    build: Builder
    required_if: t.Sequence[t.Any] = ()


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
        if subsystem.at_boot and not gather:
            # imported here and below, so that other modules do not load it
            from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock

            boot_lock.wait(system, boot_lock.SECONDS)
        state = subsystem.observe()
        changes = [] if gather else subsystem.changes(state)
        pending = changes if check else []
        if not check:
            state = _converge(name, subsystem, system, state, changes, done)
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


def _converge(
    name: str,
    subsystem: Subsystem,
    system: System,
    state: State,
    changes: t.Sequence[Change],
    done: list[Change],
) -> State:
    """Take the lock, compute the changes from the state then, and do them.

    Modules whose changes the boot program may do too have one lock. Each other module has its own, because two runs
    of a module write the same records.
    """
    if not changes:
        return converge(subsystem, state, changes, done)
    from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock

    file = boot_lock.FILE if subsystem.at_boot else "%s/%s" % (boot_lock.MODULES, name)
    with boot_lock.turn(system, "the module %s" % name, boot_lock.SECONDS, file):
        state = subsystem.observe()
        return converge(subsystem, state, subsystem.changes(state), done)


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
