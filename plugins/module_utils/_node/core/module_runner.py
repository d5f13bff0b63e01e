# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entry and exit of every module; ``layer`` has the run itself."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import all_masked
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System


def run(module: AnsibleModule, build: layer.Builder) -> t.NoReturn:
    """Run a module and exit. ``build`` creates the subsystem from the module's options; see :class:`Subsystem`."""
    warnings: list[str] = []
    result = layer.run(module._name, build, module.params, System(), module.check_mode, warnings)
    end(module, result, module.params, warnings)


def read(module: AnsibleModule, observe: t.Callable[[t.Mapping[str, t.Any], System], dict[str, t.Any]]) -> t.NoReturn:
    """Run a module that only reads, and exit. ``observe`` returns its results."""
    try:
        result = dict(observe(module.params, System()), changed=False)
    except Exception as error:
        result = layer.failure(error, module.params)
    end(module, result, module.params)


def end(
    module: AnsibleModule, result: layer.Result, options: t.Mapping[str, t.Any], warnings: t.Sequence[str] = ()
) -> t.NoReturn:
    """Exit with the result; passwords in URLs are masked.

    :param options: reported as ``invocation`` with masked URLs, because Ansible would add them unmasked.
    """
    for warning in warnings:
        module.warn(warning)
    masked: dict[str, t.Any] = all_masked(dict(result, invocation={"module_args": options}))
    if masked.get("failed"):
        module.fail_json(**masked)
    module.exit_json(**masked)
