# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests on the lab's guests: ``lab/lab up`` first; ``RAILYARD_LAB`` names the lab (``default``)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

import pytest

from tests.integration.channel import Commands
from tests.integration.cluster import clean_cluster, cluster, namespace  # noqa: F401  (fixtures for every test here)
from tests.integration.kube_fixtures import bench, proxy  # noqa: F401
from tests.integration.modules import Modules
from tests.integration.webhooks import spiderpool_controller, start_spiderpool  # noqa: F401
from tests.playbook import PROGRAMS, ROOT, environment

LAB = os.environ.get("RAILYARD_LAB", "default")
LAB_DIR = Path(os.environ.get("RAILYARD_LAB_DIR", str(ROOT / ".lab"))) / LAB


class Failed(AssertionError):
    """A module failed on a guest; ``result`` is what it returned."""

    def __init__(self, result: dict[str, t.Any]) -> None:
        super().__init__(str(result.get("msg")))
        self.result = result


class Node:
    """One guest: its shell as root, and the collection's modules there."""

    def __init__(self, name: str, control: Path) -> None:
        self.name = name
        self._control = control
        self._ssh = [
            *("ssh", "-F", str(LAB_DIR / "ssh_config")),
            *("-o", "ControlMaster=auto", "-o", "ControlPath=%s/%%C" % control, "-o", "ControlPersist=60s"),
        ]
        self.modules = Modules(self)
        self._commands = Commands(self.process)

    def run(self, command: str, check: bool = True, timeout: float = 300) -> str:
        """Run a shell command as root; its standard output. Both streams on a failure that is not expected."""
        done = self._commands.run(command, timeout)
        if check and done.returncode:
            raise AssertionError("%s: %s\n%s%s" % (self.name, command, done.stdout, done.stderr))
        return done.stdout

    def until(self, command: str) -> str:
        """Run a shell command as root until it succeeds, for some minutes; its standard output."""
        return self.run("for try in $(seq 400); do ( %s ) && exit 0; sleep 0.5; done; exit 1" % command, timeout=600)

    def hold(self, netns: str) -> str:
        """Start a process in a network namespace of the guest, and wait until it is there; its pid."""
        return self.run(
            "ip netns exec %s setsid sleep 3600 >/dev/null 2>&1 </dev/null & pid=$!; "
            'until [ "$(cat /proc/$pid/comm)" = sleep ]; do sleep 0.2; done; echo $pid' % netns
        ).strip()

    def process(self, command: str) -> subprocess.Popen[bytes]:
        """Start a shell command as root, to talk with: its input and output are pipes."""
        return subprocess.Popen(
            [*self._ssh, self.name, "sudo sh -c %s" % shlex.quote("exec " + command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def json(self, command: str) -> t.Any:
        return json.loads(self.run(command) or "[]")

    def put(self, path: str, data: str | bytes, mode: str = "0644") -> None:
        """Write a file as root."""
        raw = data.encode("utf-8") if isinstance(data, str) else data
        done = self._commands.run("install -D -m %s /dev/stdin %s" % (mode, shlex.quote(path)), 300, raw)
        assert not done.returncode, done.stderr

    def module_process(self, name: str, options: dict[str, t.Any], check: bool = False) -> subprocess.Popen[str]:
        """Start a module of the collection on the guest, for tests that interrupt it."""
        argv = [
            *(str(PROGRAMS / "ansible"), self.name, "-i", "%s," % self.name),
            *("-m", "railyard.fabric.%s" % name, "-a", json.dumps(options), "--become", "--user", "ops"),
            *("-e", "ansible_python_interpreter=/usr/bin/python3"),
            *("--timeout", "120"),  # sudo, on a guest that is emulated beside other work
            # the nodes of every lab have the same names: a kept connection must not serve another lab
            *("-e", "ansible_control_path_dir=%s" % self._control),
            *("--ssh-common-args", "-F %s" % (LAB_DIR / "ssh_config")),
            *(["--check"] if check else []),
        ]
        env = environment(ANSIBLE_CALLBACK_RESULT_FORMAT="json")
        return subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
        )

    def module(self, name: str, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Run a module of the collection on the guest; its result. Raises :class:`Failed` where it fails."""
        (result,) = self.modules.call((name, options, check))
        # as ansible-core 2.19 hands them on; older ones send their text alone
        result["warnings"] = [
            each if isinstance(each, str) else each["event"]["msg"] for each in result.get("warnings", ())
        ]
        if result.get("failed"):
            raise Failed(result)
        return result

    def reboot(self, timeout: float = 900) -> None:
        """Reboot the guest and wait until it is back with another boot id."""
        before = self.boot_id()
        self.run("systemctl reboot", check=False)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            time.sleep(2)
            self.forget()
            try:
                if self.boot_id() != before and self.run("systemctl is-system-running --wait", check=False):
                    return
            except (AssertionError, subprocess.TimeoutExpired):
                continue
        raise AssertionError(
            "%s did not come back within %g s; see its console log in %s" % (self.name, timeout, LAB_DIR)
        )

    def forget(self) -> None:
        """End the connection that is kept, and what uses it: its other end goes away."""
        self.modules.close()
        self._commands.close()
        subprocess.run([*self._ssh, "-O", "exit", self.name], capture_output=True)

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").strip()


@pytest.fixture(scope="session")
def node() -> t.Iterator[t.Callable[[str], Node]]:
    """``node("node-1")``: that guest."""
    if not (LAB_DIR / "ssh_config").exists():
        pytest.fail("the lab %r is not up. Remedy: lab/lab up --name %s" % (LAB, LAB))
    nodes: dict[str, Node] = {}
    # a socket's path must be short
    with tempfile.TemporaryDirectory(prefix="ry-", dir="/tmp", ignore_cleanup_errors=True) as control:
        yield lambda name: nodes.setdefault(name, Node(name, Path(control)))
        for each in nodes.values():
            each.forget()
