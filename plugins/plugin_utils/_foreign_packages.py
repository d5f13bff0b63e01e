# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Other people's collections, which some playbooks need on the control node."""

from __future__ import annotations

import importlib

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Unsupported


def missing(collection: str) -> Unsupported | None:
    """What to say where a collection such as ``kubernetes.core`` is not installed; None where it is.

    To be asked before a task of it is read, for Ansible's own message names no remedy.
    """
    try:
        importlib.import_module("ansible_collections.%s" % collection)
    except ImportError:
        return Unsupported(
            "the collection %s is not there" % collection,
            "control node",
            "install it with ansible-galaxy, or the Python package ansible, which has it",
        )
    return None
