# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's modules on a guest: one process there runs each call in a child process.

On an emulated guest, a module that Ansible runs takes seconds: it is unpacked, and Python is started and reads it. This
process does both once. The files are the collection's own, with their argument specs. Molecule and the tests of
playbooks run modules with Ansible.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import secrets
import struct
import tarfile
import typing as t
from pathlib import Path

import ansible

from lab import archive, bytecode
from tests.integration.channel import Channel

if t.TYPE_CHECKING:
    from tests.integration.conftest import Node

ROOT = Path(__file__).resolve().parents[2]
KEPT = "/run/railyard-modules"
PACKED = KEPT + ".tar.gz"
# A directory per session of tests: a guest may still have the modules of an earlier session.
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
        self._channel: Channel | None = None

    def call(self, *calls: Call, seconds: float = 900) -> list[Row]:
        """Return the modules' results, in order. Raises AssertionError if the process ends before."""
        if self._channel and not self._channel.answers():
            self.close()
        self._channel = self._channel or self._start()
        try:
            found: list[Row] = self._channel.ask(calls, seconds)
        except EOFError:
            raise AssertionError("no answer from %s on %s" % ([each[0] for each in calls], self._node.name)) from None
        return found

    def close(self) -> None:
        if self._channel:
            self._channel.close()
        self._channel = None

    def _start(self) -> Channel:
        node = self._node
        if not node.run("ls %s/run.py 2>/dev/null || true" % PLACE):
            node.put(PACKED, _packed())
            node.run("rm -rf {0}; mkdir -p {1}; tar -xzf {2} -C {1}; rm {2}".format(KEPT, PLACE, PACKED))
            node.put(PLACE + "/run.py", RUNNER)
        channel = Channel(node.process("python3 %s/run.py %s" % (PLACE, PLACE)))
        assert channel.answers(600), "no module can be run on %s" % node.name
        return channel


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
