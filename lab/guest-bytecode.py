# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stores, on a guest, the bytecode of modules that Python imports from zip archives, in which Ansible sends modules.

Python does not store it, and compiles each file twice, to find it and to run it (zipimport's ``find_spec`` needs the
file's name, which is known only after compiling). An emulated processor needs seconds for that per module execution. A
server needs a tenth of a second, so benchmarks that compare with servers remove this first (benchmarks/hosts.py).
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport
from types import CodeType

PLACE = "/var/cache/railyard-lab/%s" % sys.implementation.cache_tag
_compile = zipimport._compile_source  # type: ignore[attr-defined]
_known: dict[str, CodeType] = {}


def _kept(path: str, source: bytes) -> CodeType:
    """Return the code of a source, which is compiled only if neither this nor an earlier process has compiled it."""
    name = _imp.source_hash(0, source).hex()
    if name not in _known:
        file = "%s/%s" % (PLACE, name)
        try:
            with open(file, "rb") as there:
                _known[name] = marshal.load(there)
        except (OSError, EOFError, TypeError, ValueError):
            _known[name] = _compile(path, source)
            _keep(file, _known[name])
    # the archive has another path each time
    _imp._fix_co_filename(_known[name], path)  # type: ignore[attr-defined]
    return _known[name]


def _keep(file: str, code: CodeType) -> None:
    mine = "%s.%d" % (file, os.getpid())
    try:
        os.makedirs(PLACE, exist_ok=True)
        with open(mine, "wb") as new:
            marshal.dump(code, new)
        os.replace(mine, file)
    except OSError:  # another user's directory, or a full disk: then it is compiled again
        pass


zipimport._compile_source = _kept  # type: ignore[attr-defined]
