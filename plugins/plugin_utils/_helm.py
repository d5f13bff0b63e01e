# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check Helm on the control node: the program, and the collection that runs it."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Unsupported,
    raise_all,
)

# kubernetes.core uses options that Helm has only in this major version.
_MAJOR = 3


def program(named: str) -> str:
    """Return the path of Helm.

    :param named: the path that the user sets; empty: Helm on the PATH.
    :raises RailyardError: for all problems at once.
    """
    errors: list[RailyardError] = []
    path = shutil.which(os.path.expanduser(named) if named else "helm")
    if path is None:
        errors.append(
            RailyardError(
                "%s is not a program" % named if named else "there is no helm on the PATH",
                "control node",
                "install Helm %d, or name it with -e cluster_helm=PATH" % _MAJOR,
            )
        )
    else:
        errors.extend(_wrong(path))
    errors.extend(filter(None, [_missing("kubernetes.core")]))
    raise_all(errors)
    return str(path)


def _wrong(path: str) -> t.Iterator[RailyardError]:
    try:
        done = subprocess.run(
            [path, "version", "--template", "{{.Version}}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        output = done.stdout.strip() or " ".join(done.stderr.split())
    except (OSError, subprocess.TimeoutExpired) as error:
        output = str(error)
    version = re.match(r"v(\d+)\.", output)
    if not version or int(version.group(1)) != _MAJOR:
        yield Unsupported(
            "%s reports the version %s" % (path, output or "(none)"),
            "control node",
            "kubernetes.core works with Helm %d: install that, or name it with -e cluster_helm=PATH" % _MAJOR,
        )


def _missing(collection: str) -> Unsupported | None:
    """Return the error for a collection that is not installed; None if it is.

    Ansible's own message, when it reads a task of the collection, has no remedy.
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
