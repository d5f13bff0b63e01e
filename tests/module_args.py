# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module's options in a test, under every ansible-core that is supported."""

from __future__ import annotations

import contextlib
import json
import typing as t
from unittest import mock

from ansible.module_utils import basic

try:
    from ansible.module_utils.testing import patch_module_args
except ImportError:  # it came with 2.19

    @contextlib.contextmanager
    def patch_module_args(module_args: dict[str, t.Any] | None = None) -> t.Iterator[None]:
        given = json.dumps({"ANSIBLE_MODULE_ARGS": module_args or {}}).encode()
        with mock.patch.object(basic, "_ANSIBLE_ARGS", given):
            yield


__all__ = ["patch_module_args"]
