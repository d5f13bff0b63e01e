# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Programs that stay on a node: this collection's own code, packed from its sources into one file."""

from __future__ import annotations

import importlib.util
import io
import marshal
import os
import sys
import typing as t
import zipfile
import zlib

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

PACKAGE = "ansible_collections.railyard.fabric.plugins.module_utils"
GENERAL_PYTHON = "/usr/bin/python3"


def interpreter(system: System, kept: str | None) -> str:
    """The Python for a program that stays: the ``kept`` one as long as it is there, else the one that runs us.

    A later run may come by another interpreter, which is not a reason to change the program.
    """
    if kept and system.exists(kept):
        return kept
    if os.path.realpath(GENERAL_PYTHON) == os.path.realpath(sys.executable):
        # outlives the distribution's next release of Python
        return GENERAL_PYTHON
    return sys.executable or GENERAL_PYTHON


def pack(modules: t.Sequence[str], entry: str, compiled: bool = False) -> bytes:
    """A program as a zip application: the same sources always give the same bytes, except for bytecode.

    :param entry: which of ``modules`` has the ``main``.
    :param compiled: with bytecode of the Python that runs us, for programs that are started often. Another Python
        passes it by and takes the sources.
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
    """As a ``.pyc`` file of PEP 552: identified by the hash of its source, which is not checked again."""
    code = marshal.dumps(compile(text, name, "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(text.encode()) + code


def same(held: bytes, wanted: bytes) -> bool:
    """Whether a program is the wanted one: its first line and its sources, and bytecode of the same Python. Bytecode
    itself is never the same twice; a program that need have none may.
    """
    return held == wanted or _essence(held, wanted) == _essence(wanted, wanted)


def _essence(program: bytes, wanted: bytes) -> t.Any:
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
    """What is in a program; empty for another file."""
    try:
        with zipfile.ZipFile(io.BytesIO(program)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError):
        return {}


def _source(name: str) -> str:
    spec = importlib.util.find_spec(name)
    source = spec.loader.get_source(name) if spec and spec.loader and hasattr(spec.loader, "get_source") else None
    if source is None:
        raise RailyardError("its source is not at hand to be packed", name, "install the collection with its sources")
    # Ansible's own loader, on a controller, gives bytes
    return source.decode() if isinstance(source, bytes) else str(source)
