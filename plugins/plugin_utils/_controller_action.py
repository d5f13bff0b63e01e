# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base of actions that run only on the control node: options, work, and a result or an error."""

from __future__ import annotations

import traceback
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, unforeseen
from ansible_collections.railyard.fabric.plugins.plugin_utils import _output


class ControllerAction(ActionBase):
    """The base class of action plugins. A subclass defines its options in ``SPEC`` and its work in :meth:`work`."""

    TRANSFERS_FILES = False
    _requires_connection = False
    SPEC: t.Mapping[str, t.Any] = {}

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Run :meth:`work` with the options. Return its result, or that of a failed task."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        self._vars: t.Mapping[str, t.Any] = task_vars or {}
        _validated, options = self.validate_argument_spec(argument_spec=dict(self.SPEC))
        try:
            result.update(self.work(options, bool(self._task.check_mode)))
        except RailyardError as error:
            _output.show_error(str(error))
            result.update(error.as_result())
        except AnsibleError:
            raise
        except Exception as error:  # Ansible shows the traceback, kept in 'exception', only at -vvv
            result.update(failed=True, msg=str(unforeseen(error)), exception=traceback.format_exc())
        return result

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        """Do the work of the task and return its result. With ``check``, write nothing."""
        raise NotImplementedError
