# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Earlier verdicts beside the newest one: ``history/KIND-YYYYMMDDTHHMMSSZ.json`` in the same directory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

FOLDER = "history"
_NAME = re.compile(r"(\w+)-\d{8}T\d{6}Z\.json\Z")
_BEGAN = "%Y-%m-%dT%H:%M:%SZ"


def keep(directory: str, kind: str, most: int) -> None:
    """Move the existing verdict into the history, and delete all but the newest ``most`` verdicts of the history.

    :raises RailyardError: if the directory cannot be written.
    """
    path = os.path.join(directory, kind + ".json")
    folder = os.path.join(directory, FOLDER)
    try:
        if most > 0 and os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            os.replace(path, os.path.join(folder, "%s-%s.json" % (kind, _moment(path))))
        names = os.listdir(folder) if os.path.isdir(folder) else []
        mine = sorted(name for name in names if _is_of(name, kind))
        for name in mine[: max(len(mine) - most, 0)]:
            os.unlink(os.path.join(folder, name))
    except OSError as error:
        remedy = "name a directory that you may write, with -e verify_report_dir=DIR"
        raise RailyardError("cannot be written: %s" % error.strerror, error.filename or directory, remedy) from error


def _is_of(name: str, kind: str) -> bool:
    found = _NAME.match(name)
    return found is not None and found.group(1) == kind


def _moment(path: str) -> str:
    """Return when the verdict began, from its contents; without that, when the file was written."""
    moment = time.gmtime(os.stat(path).st_mtime)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        moment = time.strptime(json.load(file)["began"], _BEGAN)
    return time.strftime("%Y%m%dT%H%M%SZ", moment)
