# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytecode of the modules that Ansible sends to nodes, compiled on the host for guests with the same Python.

Without it, an emulated guest compiles each module at its first use, and stores the result (guest-bytecode.py).
"""

from __future__ import annotations

import _imp
import io
import marshal
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterable, Iterator

from lab import access, archive
from lab.state import REPOSITORY, Lab

PLACE = "/var/cache/railyard-lab/%s" % sys.implementation.cache_tag
PYTHON = "/usr/lib/python%d.%d" % sys.version_info[:2]
SECONDS = 300.0


def sources() -> Iterator[Path]:
    """Return the files of modules, of this collection and of Ansible, if its virtual environment exists."""
    plugins = REPOSITORY / "plugins"
    for part in ("modules", "module_utils/_common", "module_utils/_node"):
        yield from (plugins / part).rglob("*.py")
    for ansible in REPOSITORY.glob(".venv/lib/python3*/site-packages/ansible/module_utils"):
        yield from (path for path in ansible.rglob("*.py") if "facts" not in path.parts)


def compiled(path: Path) -> bytes:
    """Return the bytecode of a source file, as Python stores it after the header of a .pyc file."""
    return marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))


def packed(files: Iterable[Path]) -> bytes:
    """Return a compressed tar file with the bytecode of each file, named as guest-bytecode.py names it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for path in files:
            archive.add(tar, _imp.source_hash(0, path.read_bytes()).hex(), compiled(path))
    return stream.getvalue()


def send(lab: Lab, nodes: list[int]) -> None:
    """Store the bytecode on those nodes that have this Python. The others compile at the first use."""
    if not nodes:
        return
    data = packed(sources())
    command = "[ ! -d {0} ] || (mkdir -p {1} && tar -xz -C {1} -f -)".format(PYTHON, PLACE)
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        list(pool.map(lambda node: access.run(lab, node, command, SECONDS, "root", data), nodes))
