# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiles each source once, in processes with this folder in PYTHONPATH.

Ansible stores no bytecode of collections, and sends modules in zip archives, of which Python stores no bytecode either.
Each Python that a test starts reads this file, so it imports little.
"""

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing as t

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_compile: t.Any = builtins.compile
_bytecode: t.Any = None


def _compile_module(path: str, source: bytes) -> t.Any:
    return _compile(source, path, "exec", dont_inherit=True)


def _compile_once(
    source: t.Any,
    filename: t.Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **more: t.Any,
) -> t.Any:
    if mode == "exec" and dont_inherit and not flags and optimize == -1 and not more:
        if isinstance(source, str):
            source = source.encode()
        if isinstance(source, bytes) and isinstance(filename, str):
            return _bytecode._kept(filename, source)
    return _compile(source, filename, mode, flags, dont_inherit, optimize, **more)


# A virtual environment that was made by another one reads this twice.
if not sys.flags.optimize and not hasattr(_compile, "__code__"):
    _bytecode = SourceFileLoader("railyard_lab_bytecode", _ROOT + "/lab/guest-bytecode.py").load_module()
    _bytecode.PLACE = "%s/.ansible/bytecode/%s" % (_ROOT, sys.implementation.cache_tag)
    _bytecode._compile = _compile_module
    builtins.compile = _compile_once
