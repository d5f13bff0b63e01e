# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Collections of others that some playbooks need on the control node."""

from __future__ import annotations

import importlib

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Unsupported


def missing(collection: str) -> Unsupported | None:
    """Return the error for a collection such as ``kubernetes.core`` that is not installed; None if it is.

    Call it before Ansible reads a task of the collection, because Ansible's message has no remedy.
    """
    try:
        importlib.import_module("ansible_collections.%s" % collection)
    except ImportError:
        return Unsupported(
            "the collection %s is not installed" % collection,
            "control node",
            "install it with ansible-galaxy, or the Python package ansible, which has it",
        )
    return None
