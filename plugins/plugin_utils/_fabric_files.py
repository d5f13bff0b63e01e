# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on the control node: the fabric files of a run, and the reports that it writes."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import typing as t

from ansible import constants, context

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import MAX_BYTES

_VARS = ("group_vars", "host_vars")
# The key of a file for this inventory plugin, and for the plugin of another collection
_OURS = re.compile(rb"""^plugin\s*:\s*["']?railyard\.fabric\.rails["']?\s*(#.*)?$""", re.MULTILINE)
_OTHERS = re.compile(rb"""^plugin\s*:\s*["']?(?!railyard\.)\w+\.""", re.MULTILINE)
# Options of actions that write a fabric file; documented in the fragment controller.new_fabric.
NEW_FABRIC = {"dest": {"type": "path"}, "force": {"type": "bool", "default": False}}
_NAME_ONE = "name one, such as -e fabric_file=PATH/fabric.yml"


def named(paths: t.Sequence[str]) -> list[str]:
    """Return the fabric files in ``paths``, which are files or directories; without paths, those of the inventory.

    Files in the working directory have relative paths.
    """
    found: list[str] = []
    for path in paths or _inventory_sources():
        if os.path.isdir(path):
            inside = sorted(_inside(path))
            if paths and not inside:
                raise RailyardError(
                    "the directory contains no fabric file", path, "name another directory, or the file"
                )
            found.extend(inside)
        elif paths or is_fabric_file(path):
            found.append(path)
    if not found:
        raise RailyardError("the inventory is not a fabric file", "inventory", _NAME_ONE)
    return list(dict.fromkeys(shown_path(path) for path in found))


def _inventory_sources() -> list[str]:
    named = context.CLIARGS.get("inventory") if context.CLIARGS else None
    sources = named or constants.config.get_config_value("DEFAULT_HOST_LIST")
    return [str(source) for source in sources if "," not in str(source)]


def inventory(file: str = "") -> str:
    """Return the argument of ``-i`` for the inventory of this run; without an inventory, ``file``, a fabric file.

    Return an empty text if neither is known, or in a job of AWX, whose copy of the inventory is temporary.
    """
    if os.environ.get("AWX_PRIVATE_DATA_DIR"):
        return ""
    sources = [shown_path(source) for source in _inventory_sources() if os.path.exists(source)]
    return " -i ".join(shlex.quote(source) for source in sources or [file] if source)


def _inside(directory: str) -> t.Iterator[str]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in _VARS and not name.startswith(".")]
        for name in files:
            path = os.path.join(folder, name)
            if not name.startswith(".") and is_fabric_file(path):
                yield path


def is_fabric_file(path: str) -> bool:
    """Return whether a file has the name of a fabric file and no other plugin, or is YAML with the plugin ``rails``."""
    by_name = os.path.basename(path) in ("fabric.yml", "fabric.yaml")
    if not path.endswith((".yml", ".yaml")) or not os.path.exists(path):
        return False
    try:
        start = read(path, most=65536)
    except RailyardError:
        return by_name  # the error is reported when the whole file is read
    if _OURS.search(start):
        return True
    return by_name and not _OTHERS.search(start)


def shown_path(path: str) -> str:
    """Return the path relative to the working directory if it is inside it, else the absolute path."""
    full = os.path.abspath(path)
    here = os.path.join(os.getcwd(), "")
    return full[len(here) :] if full.startswith(here) else full


def read(path: str, remedy: str = "name a file that you may read", most: int = MAX_BYTES + 1) -> bytes:
    """Return the bytes of a file, at most ``most``.

    :raises RailyardError: if the file cannot be read; ``remedy`` is that of the error.
    """
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise RailyardError("it cannot be read: %s" % (error.strerror or error), path, remedy) from error


def write(
    directory: str,
    files: t.Mapping[str, bytes],
    check: bool,
    named: str = "report_dir",
    what: str = "report",
) -> list[dict[str, t.Any]]:
    """Write files that are missing or differ, each atomically.

    Return for each file its ``path``, its ``size`` in bytes, and whether it is (or would be) ``changed``.

    :param check: whether to write nothing.
    :param named: the variable that sets the directory or the file.
    :param what: what the files are, for the error.
    """
    done = []
    try:
        if not check:
            os.makedirs(directory, exist_ok=True)
        for name, content in files.items():
            path = os.path.join(directory, name)
            changed = not _holds(path, content)
            if changed and not check:
                _put(path, content)
            done.append({"path": shown_path(path), "size": len(content), "changed": changed})
    except OSError as error:
        message = "the %s cannot be written: %s" % (what, error.strerror or error)
        kind, value = ("file", "OUT") if named.endswith("_file") else ("directory", "DIR")
        remedy = "name a %s that you may write, with -e %s=%s" % (kind, named, value)
        raise RailyardError(message, error.filename or directory, remedy) from error
    return done


def write_fabric(dest: str, text: str, check: bool, refused: str, consent: str | None) -> dict[str, t.Any]:
    """Write a fabric file. A file with other contents is not overwritten without consent.

    :param refused: why the file is not overwritten, for the error.
    :param consent: what to type to consent; None if consent is given.
    :raises Refused: if the file exists with other contents.
    """
    content = text.encode("utf-8")
    before = read(dest) if os.path.exists(dest) else b""
    if before and before != content and consent:
        raise Refused(refused, dest, "name another file, or overwrite it with %s" % consent)
    folder, name = os.path.split(dest)
    (file,) = write(folder or ".", {name: content}, check, "fabric_file", "fabric file")
    shown = shown_path(dest)
    diff = {"before": before.decode("utf-8", "replace"), "after": text}
    diff.update(before_header=shown, after_header=shown)
    return {"changed": file["changed"], "dest": shown, "diff": diff}


def _holds(path: str, content: bytes) -> bool:
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(content) + 1) == content


def _put(path: str, content: bytes) -> None:
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".railyard-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
