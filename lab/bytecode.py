# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytecode of what Ansible sends to nodes, compiled here for emulated guests with the same Python.

A guest stores it itself (guest-bytecode.py), but takes half a minute to compile it once.
"""

from __future__ import annotations

import _imp
import gzip
import io
import marshal
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterable, Iterator

from lab import access
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


def archive(files: Iterable[Path]) -> bytes:
    """Return a compressed tar file with the bytecode of each file, in the form that guest-bytecode.py reads."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in files:
            source = path.read_bytes()
            data = marshal.dumps(compile(source, str(path), "exec", dont_inherit=True))
            member = tarfile.TarInfo(_imp.source_hash(0, source).hex())
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), 6)


def send(lab: Lab, nodes: list[int]) -> None:
    """Store the bytecode on guests that have this Python. Others compile at the first use."""
    if not nodes:
        return
    data = archive(sources())
    command = "[ ! -d {0} ] || (mkdir -p {1} && tar -xz -C {1} -f -)".format(PYTHON, PLACE)

    def one(node: int) -> None:
        argv = access.argv(lab, node, [command], "-o", "User=root", "-o", "BatchMode=yes")
        subprocess.run(argv, input=data, capture_output=True, timeout=SECONDS)

    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        list(pool.map(one, nodes))
