# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Programs that stay on a node: this collection's own code, packed from its sources into one file."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import typing as t
import zipfile

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

PACKAGE = "ansible_collections.railyard.fabric.plugins.module_utils"
GENERAL_PYTHON = "/usr/bin/python3"


def interpreter(system: System, kept: str | None) -> str:
    """The Python for a program that stays: the ``kept`` one as long as it is there, else the one that runs us.

    A later run may come by another interpreter, which is no reason to change the program.
    """
    if kept and system.exists(kept):
        return kept
    if os.path.realpath(GENERAL_PYTHON) == os.path.realpath(sys.executable):
        # outlives the distribution's next release of Python
        return GENERAL_PYTHON
    return sys.executable or GENERAL_PYTHON


def pack(modules: t.Sequence[str], entry: str) -> bytes:
    """A program as a zip application: the same sources always give the same bytes.

    :param entry: which of ``modules`` has the ``main``.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)

        add("__main__.py", "import sys\nfrom %s.%s import main\nsys.exit(main())\n" % (PACKAGE, entry))
        packages: set[str] = set()
        for name in modules:
            parts = (PACKAGE + "." + name).split(".")
            packages.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
            add("/".join(parts) + ".py", _source(PACKAGE + "." + name))
        for package in sorted(packages):
            add(package + "/__init__.py", "")
    return stream.getvalue()


def _source(name: str) -> str:
    spec = importlib.util.find_spec(name)
    source = spec.loader.get_source(name) if spec and spec.loader and hasattr(spec.loader, "get_source") else None
    if source is None:
        raise RailyardError("its source is not at hand to be packed", name, "install the collection with its sources")
    # Ansible's own loader, on a controller, gives bytes
    return source.decode() if isinstance(source, bytes) else str(source)
