# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that are installed on a node: modules of this collection, packed into one zip application."""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import os
import re
import sys
import typing as t
import zipfile
import zlib

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

PACKAGE = "ansible_collections.railyard.fabric.plugins.module_utils"
GENERAL_PYTHON = "/usr/bin/python3"
# The only form of imports from this collection (tools/import_rules.py). Syntax trees would take 100 times as long.
_IMPORT = re.compile(r"^ *from %s[.]([\w.]+) import (\([^)]*\)|.+)" % re.escape(PACKAGE), re.MULTILINE)
_IMPORTED = re.compile(r"(\w+)(?: as \w+)?(?:,|\s|\)|$)")


def interpreter(system: System, kept: str | None, hidden: t.Sequence[str] = ()) -> str:
    """Return the path of the Python for an installed program, which root executes.

    It is ``kept`` while it exists, as the interpreter of a later run may differ, and the program is not changed for it;
    else the running interpreter; else the distribution's. Each is used only if no user other than root can change it.

    :param hidden: directories, such as ``/home/``, that the program cannot see.
    :raises Refused: if none can be used.
    """

    def why_not(node: System, python: str) -> str:
        if any(path.startswith(directory) for path in (python, node.real_path(python)) for directory in hidden):
            return "it is in a directory that the service cannot see"
        return root_owned.why_not_python(node, python)

    if kept and system.exists(kept) and not why_not(system, kept):
        return kept
    # the general path stays valid when the distribution updates Python
    is_general = os.path.realpath(GENERAL_PYTHON) == os.path.realpath(sys.executable)
    reasons = []
    for python in [GENERAL_PYTHON] if is_general or not sys.executable else [sys.executable, GENERAL_PYTHON]:
        # these are the interpreters of this process's root, also if a test replaces that of the node
        reason = why_not(System(), python)
        if not reason:
            return python
        reasons.append("%s (%s)" % (python, reason))
    remedy = (
        "install python3 of the distribution, or set ansible_python_interpreter to a Python that only root can change"
    )
    raise Refused("root must not execute %s" % ", nor ".join(reasons), "Python", remedy)


def is_running(system: System, python: str) -> bool:
    """Return whether ``python`` is the running interpreter, for which bytecode is valid."""
    return os.path.realpath(system.path(python)) == os.path.realpath(sys.executable)


def executable(python: str, modules: t.Sequence[str], entry: str, compiled: bool) -> bytes:
    """Return a program that starts itself with ``python``, for programs that are started often; see :func:`pack`."""
    # isolated and without site, which is three times as fast
    return b"#!%s -IS\n" % python.encode() + pack(modules, entry, compiled)


def imported(entry: str, without: t.Collection[str] = ()) -> list[str]:
    """Return the modules of a program, sorted: ``entry``, and all that it imports, directly or not.

    :param without: modules that the program never uses, although others import them inside functions.
    """
    found: set[str] = set()
    left = [entry]
    while left:
        name = left.pop()
        if name in found or name in without:
            continue
        found.add(name)
        for base, names in _IMPORT.findall(_source(PACKAGE + "." + name)):
            is_package = getattr(_spec("%s.%s" % (PACKAGE, base)), "submodule_search_locations", None) is not None
            left += ["%s.%s" % (base, each) for each in _IMPORTED.findall(names)] if is_package else [base]
    return sorted(found)


def pack(modules: t.Sequence[str], entry: str, compiled: bool = False) -> bytes:
    """Return a program as a zip application. The same sources give the same bytes, except for bytecode.

    :param modules: those of :func:`imported`.
    :param entry: the module that has ``main``.
    :param compiled: add bytecode of the running Python, for programs that are started often. Another Python ignores
        it and uses the sources.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
            if compiled:
                code = _bytecode(name, text)
                archive.writestr(zipfile.ZipInfo(name + "c", (1980, 1, 1, 0, 0, 0)), code, zipfile.ZIP_DEFLATED)

        add("__main__.py", "import sys\nfrom %s.%s import main\nsys.exit(main())\n" % (PACKAGE, entry))
        packages: set[str] = set()
        for name in modules:
            parts = (PACKAGE + "." + name).split(".")
            packages.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
            add("/".join(parts) + ".py", _source(PACKAGE + "." + name))
        for package in sorted(packages):
            add(package + "/__init__.py", "")
    return stream.getvalue()


def _bytecode(name: str, text: str) -> bytes:
    """Return a ``.pyc`` file (PEP 552) that has the hash of its source and is not checked against it."""
    code = marshal.dumps(compile(text, name, "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(text.encode()) + code


def same(held: bytes, wanted: bytes) -> bool:
    """Return whether two programs have the same first line, the same sources, and bytecode for the same Python.

    ``held`` must have nothing else, such as bytes after the archive. Bytecode itself is not compared, because it
    differs each time. If ``wanted`` has no bytecode, that of ``held`` is ignored.
    """
    return held == wanted or _comparable(held, wanted) == _comparable(wanted, wanted)


def _comparable(program: bytes, wanted: bytes) -> t.Any:
    names = _members(wanted)
    held = _members(program)
    compiled = any(name.endswith(".pyc") for name in names)
    parts = {
        name: data[: len(importlib.util.MAGIC_NUMBER)] if name.endswith(".pyc") else data
        for name, data in held.items()
        if compiled or not name.endswith(".pyc")
    }
    return program.partition(b"PK\3\4")[0], parts


def _members(program: bytes) -> dict[str, bytes]:
    """Return the members of a program by name; empty if it is not a first line and a zip file with each member once."""
    try:
        with zipfile.ZipFile(io.BytesIO(program)) as archive:
            rows = archive.infolist()
            # sizes of the headers: of a member, of its entry in the directory, and of the end of the directory
            size = sum(30 + 46 + 2 * len(row.filename.encode()) + row.compress_size for row in rows) + 22
            members = {row.filename: archive.read(row) for row in rows}
            exact = len(members) == len(rows) and len(program.partition(b"PK\3\4")[0]) + size == len(program)
            return members if exact else {}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError):
        return {}


# many modules import from the same package
_spec = functools.lru_cache(maxsize=None)(importlib.util.find_spec)


@functools.lru_cache(maxsize=None)
def _source(name: str) -> str:
    spec = _spec(name)
    source = spec.loader.get_source(name) if spec and spec.loader and hasattr(spec.loader, "get_source") else None
    if source is None:
        raise RailyardError("its source is not at hand to be packed", name, "install the collection with its sources")
    # Ansible's loader returns bytes on a controller
    return source.decode() if isinstance(source, bytes) else str(source)
