# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Files on the control node: which fabric files a run is about, and the reports that it writes."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import typing as t

from ansible import constants, context

from ansible_collections.railyard.fabric.plugins.inventory.rails import InventoryModule
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import MAX_BYTES

_VARS = ("group_vars", "host_vars")
# Options of actions that write a fabric file, as the documentation fragment controller.new_fabric has them.
NEW_FABRIC = {"dest": {"type": "path"}, "force": {"type": "bool", "default": False}}
_NAME_ONE = "name one, such as -e fabric_file=PATH/fabric.yml"


def named(paths: t.Sequence[str]) -> list[str]:
    """The fabric files that ``paths`` name, or hold where they are directories; without any, those of the inventory.

    Files are shown relative to the working directory where they lie beneath it.
    """
    found: list[str] = []
    for path in paths or _inventory_sources():
        if os.path.isdir(path):
            inside = sorted(_inside(path))
            if paths and not inside:
                raise RailyardError("the directory holds no fabric file", path, "name one that does, or the file")
            found.extend(inside)
        elif paths or InventoryModule().verify_file(path):
            found.append(path)
    if not found:
        raise RailyardError("the inventory comes from no fabric file", "inventory", _NAME_ONE)
    return list(dict.fromkeys(shown_path(path) for path in found))


def _inventory_sources() -> list[str]:
    named = context.CLIARGS.get("inventory") if context.CLIARGS else None
    sources = named or constants.config.get_config_value("DEFAULT_HOST_LIST")
    return [str(source) for source in sources if "," not in str(source)]


def inventory(file: str = "") -> str:
    """The inventory of this run as ``ansible-playbook -i`` takes it, else ``file``, a fabric file that is one, too.

    Empty where neither is known: a job of AWX has a copy of its inventory that is gone when the job ends.
    """
    if os.environ.get("AWX_PRIVATE_DATA_DIR"):
        return ""
    sources = [shown_path(source) for source in _inventory_sources() if os.path.exists(source)]
    return " -i ".join(shlex.quote(source) for source in sources or [file] if source)


def _inside(directory: str) -> t.Iterator[str]:
    plugin = InventoryModule()
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in _VARS and not name.startswith(".")]
        for name in files:
            path = os.path.join(folder, name)
            if not name.startswith(".") and plugin.verify_file(path):
                yield path


def shown_path(path: str) -> str:
    """A path relative to the working directory where it lies beneath it, else the absolute one."""
    full = os.path.abspath(path)
    here = os.path.join(os.getcwd(), "")
    return full[len(here) :] if full.startswith(here) else full


def read(path: str, remedy: str = "let it be a file that you may read", most: int = MAX_BYTES + 1) -> bytes:
    """The bytes of a file, no more than ``most``."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise RailyardError("it cannot be read: %s" % (error.strerror or error), path, remedy) from error


def write(
    directory: str, files: t.Mapping[str, bytes], check: bool, named: str = "report_dir"
) -> list[dict[str, t.Any]]:
    """Write the files that are not there already, byte for byte; a reader never sees half a file.

    With ``check`` nothing is written. ``named`` is the variable by which another directory is named. Gives for each
    file its ``path``, its ``size`` in bytes and whether it is (or would be) ``changed``.
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
        raise RailyardError(
            "the report cannot be written: %s" % (error.strerror or error),
            error.filename or directory,
            "name a directory that you may write, with -e %s=DIR" % named,
        ) from error
    return done


def write_fabric(dest: str, text: str, check: bool, refused: str, consent: str | None) -> dict[str, t.Any]:
    """Write a fabric file, and never another over one that is there.

    :param refused: why another file is not written over.
    :param consent: how to consent to it; None if consent is given.
    :raises Refused: where there is another file.
    """
    content = text.encode("utf-8")
    before = read(dest) if os.path.exists(dest) else b""
    if before and before != content and consent:
        raise Refused(refused, dest, "name another file, or overwrite it with %s" % consent)
    folder, name = os.path.split(dest)
    try:
        (file,) = write(folder or ".", {name: content}, check)
    except RailyardError as error:
        remedy = "name a file that you may write, with -e fabric_file=OUT"
        raise RailyardError(error.message.replace("report", "fabric file", 1), error.place, remedy) from error
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


def version() -> str:
    """The collection's version, from its manifest where it is installed, else from its checkout."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    manifest = os.path.join(top, "MANIFEST.json")
    if os.path.exists(manifest):
        return str(json.loads(read(manifest))["collection_info"]["version"])
    for line in read(os.path.join(top, "galaxy.yml")).decode("utf-8").splitlines():
        if line.startswith("version:"):
            return line.partition(":")[2].strip()
    return "0"
