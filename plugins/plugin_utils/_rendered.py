# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A directory of rendered files, which may also contain other files.

A list of the rendered files is in the directory. So files that are not planned any more are removed, and other files
are never removed or overwritten.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    Errors,
    RailyardError,
    Refused,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files

INDEX = ".railyard-files"


def write(directory: str, files: t.Mapping[str, bytes], check: bool) -> dict[str, list[str]]:
    """Write files that differ, and remove our files that are not planned any more; with ``check``, only report them.

    Return the paths, relative to ``directory``, that were (or would be) ``written`` and ``removed``.

    :raises Refused: if another file has the name of one of ours; then nothing is written.
    """
    try:
        old = _index(directory)
        raise_all(
            [_theirs(directory, path) for path in files if path not in old and _other(directory, path, files[path])]
        )
        if not check and old != list(files):
            # Before the first file, so that the list is complete after an interruption.
            _list(directory, list(dict.fromkeys([*old, *files])))
        removed = [path for path in old if path not in files and os.path.lexists(os.path.join(directory, path))]
        by_folder: dict[str, dict[str, bytes]] = {}
        for path, content in files.items():
            folder, name = os.path.split(path)
            by_folder.setdefault(folder, {})[name] = content
        written: list[str] = []
        for folder, inside in by_folder.items():
            done = _fabric_files.write(os.path.join(directory, folder), inside, check)
            written.extend(os.path.join(folder, name) for name, each in zip(inside, done) if each["changed"])
        for path in () if check else removed:
            _remove(directory, path)
        if not check:
            _list(directory, list(files))
    except (Refused, Errors):
        raise
    except (OSError, RailyardError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        place = error.place if isinstance(error, RailyardError) else error.filename
        raise RailyardError(
            "the files cannot be written: %s" % (getattr(cause, "strerror", None) or error),
            str(place or directory),
            "name a directory that you may write, with -e render_dir=DIR",
        ) from error
    return {"written": sorted(written), "removed": sorted(removed)}


def _list(directory: str, paths: t.Sequence[str]) -> None:
    _fabric_files.write(directory, {INDEX: "".join(path + "\n" for path in paths).encode("utf-8")}, False)


def _other(directory: str, path: str, content: bytes) -> bool:
    """Return whether a file with other contents exists."""
    full = os.path.join(directory, path)
    return os.path.isfile(full) and _fabric_files.read(full, most=len(content) + 1) != content


def _theirs(directory: str, path: str) -> Refused:
    full = _fabric_files.shown_path(os.path.join(directory, path))
    remedy = "name a directory of its own with -e render_dir=DIR; or, if the file is an earlier run's, delete it"
    return Refused("it exists already, and %s does not list it as a rendered file" % INDEX, full, remedy)


def _index(directory: str) -> list[str]:
    """Return our files, as listed. Paths outside the directory are ignored."""
    path = os.path.join(directory, INDEX)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    top = os.path.join(os.path.realpath(directory), "")
    return [line for line in lines if line and os.path.realpath(os.path.join(directory, line)).startswith(top)]


def _remove(directory: str, path: str) -> None:
    """Remove the file, and folders that are empty then."""
    os.unlink(os.path.join(directory, path))
    folder = os.path.dirname(path)
    while folder:
        try:
            os.rmdir(os.path.join(directory, folder))
        except OSError:
            return
        folder = os.path.dirname(folder)
