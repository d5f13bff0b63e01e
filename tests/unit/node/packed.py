# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which private modules a program that is packed for nodes needs, read from the sources."""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program


def contents(program: bytes) -> set[str]:
    """The private modules that a packed program contains."""
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        names = [name[: -len(".py")].replace("/", ".") for name in archive.namelist() if name.endswith(".py")]
    return {
        name[len(packed_program.PACKAGE) + 1 :]
        for name in names
        if name.startswith(packed_program.PACKAGE + ".") and not name.endswith(".__init__")
    }


def reached(first: str) -> set[str]:
    """The private modules that are imported from ``first`` on, at the top of a module or inside functions; it too."""
    found: set[str] = set()
    queue = [first]
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue.extend(_imports(name))
    return found


def sent_with(module: str) -> set[str]:
    """The private modules that Ansible sends to a node with a module: all that it reaches by import."""
    return set().union(
        *(reached(name) for name in _of_file("ansible_collections.railyard.fabric.plugins.modules." + module))
    )


def _imports(name: str) -> set[str]:
    return _of_file("%s.%s" % (packed_program.PACKAGE, name))


def _of_file(name: str) -> set[str]:
    spec = importlib.util.find_spec(name)
    assert spec and spec.origin
    found = set()
    for part in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(part, ast.ImportFrom) and part.module and part.module.startswith(packed_program.PACKAGE):
            base = part.module[len(packed_program.PACKAGE) :].lstrip(".")
            for alias in part.names:
                full = ".".join(filter(None, [base, alias.name]))
                package = importlib.util.find_spec("%s.%s" % (packed_program.PACKAGE, base))
                found.add(full if package and package.submodule_search_locations else base)
    return found
