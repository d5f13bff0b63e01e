# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The one way in which a module runs: observe, changes, apply or predict, read back, result."""

from __future__ import annotations

import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, as_diff
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import all_masked
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

Builder = t.Callable[[t.Mapping[str, t.Any], System], Subsystem]


def run(module: AnsibleModule, build: Builder) -> t.NoReturn:
    """Run a module to its end. ``build`` makes the subsystem from the module's options; see :class:`Subsystem`."""
    done: list[Change] = []
    try:
        system = System()
        subsystem = build(module.params, system)
        gather = module.params.get("state") == "gathered"
        if subsystem.at_boot and not gather:
            # here and below, because the other modules need not pay for the import
            from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock

            boot_lock.wait(system, boot_lock.SECONDS)
        state = subsystem.observe()
        if gather:
            _exit(module, subsystem, [], gathered=state, **subsystem.outcome(state, []))
        changes = subsystem.changes(state)
        pending = changes if module.check_mode else []
        if not module.check_mode:
            state = _converge(module, subsystem, system, state, changes, done)
        _exit(module, subsystem, pending or done, gathered=state, **subsystem.outcome(state, pending))
    except RailyardError as error:
        fail(module, error, done)
    except Exception as error:
        fail(module, _unforeseen(error), done, traceback.format_exc())


def _converge(
    module: AnsibleModule,
    subsystem: Subsystem,
    system: System,
    state: State,
    changes: t.Sequence[Change],
    done: list[Change],
) -> State:
    """Do the changes; where the boot program may do them too, when it is this module's turn, and as it is then."""
    if not (subsystem.at_boot and changes):
        return converge(subsystem, state, changes, done)
    from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock

    with boot_lock.turn(system, "the module %s" % module._name, boot_lock.SECONDS):
        state = subsystem.observe()
        return converge(subsystem, state, subsystem.changes(state), done)


def read(module: AnsibleModule, look: t.Callable[[t.Mapping[str, t.Any], System], dict[str, t.Any]]) -> t.NoReturn:
    """Run a module that only reads; ``look`` gives its results."""
    try:
        module.exit_json(**_told(module, changed=False, **look(module.params, System())))
    except RailyardError as error:
        fail(module, error, [])
    except Exception as error:
        fail(module, _unforeseen(error), [], traceback.format_exc())


def fail(module: AnsibleModule, error: RailyardError, done: t.Sequence[Change], trace: str | None = None) -> t.NoReturn:
    """End with the error, and with what was already done when it came."""
    errors = error.errors if isinstance(error, Errors) else [error]
    result: dict[str, t.Any] = {
        "msg": str(error),
        "errors": [each.as_dict(module.params.get("ports") or ()) for each in errors],
        "changed": bool(done),
        "changes": [change.as_dict() for change in done],
    }
    if trace:
        result["exception"] = trace
    module.fail_json(**_told(module, **result))


def _exit(module: AnsibleModule, subsystem: Subsystem, changes: t.Sequence[Change], **results: t.Any) -> t.NoReturn:
    for warning in subsystem.warnings:
        module.warn(all_masked(warning))
    rows = [change.as_dict() for change in changes]
    module.exit_json(**_told(module, changed=bool(changes), changes=rows, diff=as_diff(changes), **results))


def _told(module: AnsibleModule, **results: t.Any) -> dict[str, t.Any]:
    """What the module ends with, without passwords of URLs. Ansible would add the options as they were given."""
    masked: dict[str, t.Any] = all_masked(dict(results, invocation={"module_args": module.params}))
    return masked


def _unforeseen(error: Exception) -> RailyardError:
    # Ansible shows the traceback, kept in 'exception', only at -vvv
    return RailyardError(
        "%s: %s" % (type(error).__name__, error), "unforeseen", "run again with -vvv and report what it prints as a bug"
    )
