# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's programs from a process that has loaded Ansible already: each run is a fork of it.

More than half of the processor time of a short playbook is spent on starting Python and loading Ansible. What runs is
the same: the program's own ``main``, with its own argv, environment, folder and output. All runs of one process have
the same configuration (``ANSIBLE_*``, ``PYTHON*``), and share the modules that Ansible has packed, by their names.

Run as a program, with the number of a socket: it serves one run after the other.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import typing as t
import warnings
from pathlib import Path

PROGRAMS = {
    "ansible": "ansible.cli.adhoc",
    "ansible-inventory": "ansible.cli.inventory",
    "ansible-playbook": "ansible.cli.playbook",
}
_COLLECTION = "ansible_collections.railyard.fabric"
# What runs on the control node
_PRELOADED = [*("module_utils/" + each for each in ("_common", "_fabric", "_kube", "_awx")), "plugin_utils"]
# Kinds of plugins of which Ansible loads all, or the same ones in each run
_ALL_PLUGINS = ("become", "callback", "connection", "filter", "shell", "test")
# read when Ansible is loaded
_LOADED_WITH = ("ANSIBLE_", "PYTHON", "LC_", "LANG", "HOME", "PATH")


def _main(program: str, argv: list[str], cwd: str, env: dict[str, str], outputs: t.Sequence[int]) -> t.NoReturn:
    """Be that program, in a child."""
    status = 1
    try:
        for number, output in enumerate(outputs, 1):
            os.dup2(output, number)
        atexit._clear()  # what the parent cleans up at its end is still needed by others
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.argv = argv
        importlib.import_module(PROGRAMS[program]).main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _load_collection() -> None:
    """Load the collection's code, and Ansible's plugins, which its loaders would compile again in each run."""
    from ansible.plugins import loader

    loader.init_plugin_loader()
    # a run finds that the collections are known already
    warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")
    plugins = Path(__file__).resolve().parents[1] / "plugins"
    for part in _PRELOADED:
        for path in (plugins / part).rglob("*.py"):
            name = path.relative_to(plugins).with_suffix("")
            importlib.import_module(".".join([_COLLECTION, "plugins", *name.parts]).removesuffix(".__init__"))
    for kind in ("action", "callback", "inventory", "lookup"):
        for path in (plugins / kind).glob("*.py"):
            plugin = _COLLECTION.removeprefix("ansible_collections.") + "." + path.stem
            getattr(loader, kind + "_loader").get(plugin, class_only=True)
    for each in _ALL_PLUGINS:
        list(getattr(loader, each + "_loader").all(class_only=True))


def serve(number: int) -> None:
    for inherited in (0, 1, 2):  # a terminal that another program shares may not block; Ansible refuses to load then
        os.set_blocking(inherited, True)
    for module in (*PROGRAMS.values(), "kubernetes.client", "kubernetes.dynamic"):
        importlib.import_module(module)
    _load_collection()
    gc.collect()
    gc.freeze()  # collections in a run do not read, and so copy, what all runs share
    with socket.socket(fileno=number) as connection, connection.makefile("rw") as lines:
        while True:
            request, outputs, _flags, _address = socket.recv_fds(connection, 1 << 20, 2)
            if not request:
                return
            pid = os.fork()
            if not pid:
                program, argv, cwd, env = json.loads(request)
                _main(program, argv, cwd, env, outputs)
            for output in outputs:
                os.close(output)
            for answer in (pid, None):
                value = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if answer is None else answer
                lines.write("%d\n" % value)
                lines.flush()


class Prepared:
    """One process per configuration of Ansible. The second run with a configuration starts its process.

    The start of a process takes as much processor time as two runs of a program.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._loaded: dict[frozenset[tuple[str, str]], _Loaded | None] = {}

    def run(
        self, program: str, argv: list[str], env: t.Mapping[str, str], cwd: str, timeout: float
    ) -> tuple[int, str, str] | None:
        """Exit status and both outputs; None where the program has to be started by itself."""
        if self._owner != os.getpid():
            # A test with its own namespaces: processes of the parent do not see its files and links.
            self._forget()
        if program not in PROGRAMS or not self._lock.acquire(blocking=False):
            return None
        try:
            configuration = {key: value for key, value in env.items() if key.startswith(_LOADED_WITH)}
            known = frozenset(configuration.items())
            if known not in self._loaded:
                self._loaded[known] = None
                return None
            loaded = self._loaded[known] = self._loaded[known] or _Loaded(configuration)
            try:
                return loaded.run(program, argv, env, cwd, timeout)
            except subprocess.TimeoutExpired:
                self._loaded[known] = None
                raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """End all processes."""
        for each in filter(None, self._loaded.values()):
            each.close()
        self._forget()


class _Loaded:
    """A process that has loaded Ansible with one configuration."""

    def __init__(self, env: t.Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(other.fileno())],
                env=env,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._lines = self._socket.makefile("r")
        atexit.register(self.close)

    def run(
        self, program: str, argv: list[str], env: t.Mapping[str, str], cwd: str, timeout: float
    ) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = json.dumps([program, argv, cwd, dict(env)]).encode()
            socket.send_fds(self._socket, [request], [out.fileno(), err.fileno()])
            pid = int(self._lines.readline())
            self._socket.settimeout(timeout)
            try:
                rc = int(self._lines.readline())
            except TimeoutError:
                os.kill(pid, 9)
                self.close()
                raise subprocess.TimeoutExpired(argv, timeout) from None
            self._socket.settimeout(None)
            texts = []
            for output in (out, err):
                output.seek(0)
                texts.append(output.read().decode())
        return rc, texts[0], texts[1]

    def close(self) -> None:
        atexit.unregister(self.close)
        self._lines.close()
        self._socket.close()
        self._process.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
