# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's modules at hand on a guest: one process there runs them as they are called, each in a child.

Under emulation Ansible's way to a module costs seconds, most of them for what is the same each time: to unpack it, and
to start a Python that reads it. Here the files are the collection's own, with their own argument specs; only the way to
the node is another. Molecule and the tests of playbooks go Ansible's way.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import io
import json
import secrets
import select
import struct
import subprocess
import tarfile
import typing as t
from pathlib import Path

import ansible

from lab import archive, bytecode

if t.TYPE_CHECKING:
    from tests.integration.conftest import Node

ROOT = Path(__file__).resolve().parents[2]
KEPT = "/run/railyard-modules"
PACKED = KEPT + ".b64"
# one a session of tests: a guest may still have the modules of an earlier one
PLACE = "%s/%s" % (KEPT, secrets.token_hex(4))
Row = t.Dict[str, t.Any]
#: A module's name, its options, and whether in check mode.
Call = t.Tuple[str, Row, bool]

# Answers a line of calls with a line of results. A module ends its process, so each runs in a child.
RUNNER = """
import importlib, json, os, sys
sys.path.insert(0, sys.argv[1])
from ansible.module_utils import basic

def call(name, options, check):
    module = importlib.import_module("ansible_collections.railyard.fabric.plugins.modules." + name)
    come, go = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(come)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(go, 1)
            # what a module leaves behind closes its output, and knows of no other
            os.close(go)
            arguments = dict(options, _ansible_check_mode=check, _ansible_remote_tmp="/tmp")
            basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
            basic._ANSIBLE_PROFILE = "legacy"
            module.main()
        except SystemExit:
            pass
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(go)
    with os.fdopen(come) as stream:
        output = stream.read()
    os.waitpid(child, 0)
    return json.loads(output[output.index("{"):])

for line in sys.stdin:
    print(json.dumps([call(*each) for each in json.loads(line)]), flush=True)
"""


class Modules:
    """The process on one guest. It is started if it is missing or no longer answers."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, *calls: Call, seconds: float = 900) -> list[Row]:
        """The modules' results, in order. Raises AssertionError where there is no answer in time."""
        # a guest may have been rebooted, or its processes killed: that is seen before anything is asked of it
        if self._process and self._ask(self._process, [], 120) != []:
            self.close()
        self._process = self._process or self._start()
        found = self._ask(self._process, calls, seconds)
        assert found is not None, "no answer from %s on %s" % ([each[0] for each in calls], self._node.name)
        return found

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        node = self._node
        if not node.run("ls %s/run.py 2>/dev/null || true" % PLACE):
            node.put(PACKED, base64.b64encode(_packed()))
            node.run("rm -rf {0}; mkdir -p {1}; base64 -d {2} | tar -xz -C {1}; rm {2}".format(KEPT, PLACE, PACKED))
            node.put(PLACE + "/run.py", RUNNER)
        process = node.process("python3 %s/run.py %s" % (PLACE, PLACE))
        assert self._ask(process, [], 600) == [], "no module can be run on %s" % node.name
        return process

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], calls: t.Sequence[Call], seconds: float) -> list[Row] | None:
        """The answer; None without one."""
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(calls).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        ready, _write, _except = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else b""
        found: list[Row] | None = json.loads(line) if line else None
        return found


def _bytecode(path: Path) -> bytes:
    """Return the content of an unchecked hash-based .pyc file; see PEP 552."""
    header = importlib.util.MAGIC_NUMBER + struct.pack("<I", 1) + importlib.util.source_hash(path.read_bytes())
    return header + bytecode.compiled(path)


@functools.lru_cache(maxsize=None)
def _packed() -> bytes:
    """The collection's modules with what they share, and Ansible's own half of modules."""
    base = Path(ansible.__file__).parent
    plugins = ROOT / "plugins"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for top, target in (
            (plugins / "modules", "ansible_collections/railyard/fabric/plugins/modules"),
            (plugins / "module_utils", "ansible_collections/railyard/fabric/plugins/module_utils"),
            (base / "module_utils", "ansible/module_utils"),
        ):
            for path in sorted(top.rglob("*.py")):
                name = path.relative_to(top)
                tar.add(path, "%s/%s" % (target, name))
                # Guests with the Python of this machine do not compile it.
                archive.add(tar, "%s/%s" % (target, importlib.util.cache_from_source(str(name))), _bytecode(path))
        tar.addfile(tarfile.TarInfo("ansible/__init__.py"))
    return stream.getvalue()
