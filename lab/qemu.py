# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A QEMU with the igb device: this host's own, or a newer one of its distribution, unpacked aside."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab import apt
from lab import host as hosts
from lab.errors import LabError
from lab.progress import run, say
from lab.state import locked

PACKAGES = ["qemu-system-x86", "qemu-utils"]


@dataclass(frozen=True)
class Qemu:
    """A working QEMU. ``system``, ``img``: its programs. ``tree``: where it is unpacked; None for the host's QEMU."""

    system: str
    img: str
    version: str
    tree: Path | None = None

    @property
    def arguments(self) -> list[str]:
        """Arguments that every guest needs with this QEMU."""
        if self.tree is None:
            return []
        return [part for name in ("seabios", "qemu") for part in ("-L", str(self.tree / "usr/share" / name))]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which this QEMU finds its libraries and modules."""
        env = dict(os.environ)
        if self.tree is not None:
            places = [self.tree / part for part in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")]
            env["LD_LIBRARY_PATH"] = ":".join(map(str, places))
            env["QEMU_MODULE_DIR"] = str(places[0] / "qemu")
        return env

    def create_overlay(self, base: Path, overlay: Path, base_format: str = "raw") -> None:
        """Create a disk that stores only differences from ``base``."""
        command = [self.img, "create", "-q", "-f", "qcow2", "-F", base_format, "-b", str(base), str(overlay)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError("cannot create %s: %s" % (overlay, done.stderr.strip()), "free some space and try again")


def _probe(system: str | None, img: str | None, tree: Path | None = None) -> Qemu | None:
    """Return this QEMU if it runs on this machine and has the device igb, else None."""
    if system is None or img is None or not os.access(system, os.X_OK) or not os.access(img, os.X_OK):
        return None
    qemu = Qemu(system, img, "", tree)
    answers = []
    for command in ([system, "--version"], [system, "-device", "help"], [img, "--version"]):
        done = subprocess.run(command, env=qemu.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            return None
        answers.append(done.stdout)
    version = re.search(r"version (\S+)", answers[0])
    if version is None or not re.search(r'^name "igb"', answers[1], re.MULTILINE):
        return None
    return Qemu(system, img, version.group(1), tree)


def _candidate_is_new(package: str) -> bool:
    """Return whether this host's package sources have a QEMU with igb (8.0 or later)."""
    done = subprocess.run(
        ["apt-cache", "policy", package], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    match = re.search(r"Candidate: (?:\d+:)?(\d+)\.", done.stdout)
    return match is not None and int(match.group(1)) >= 8


def ensure(host: hosts.Host, cache: Path) -> Qemu:
    """Return a working QEMU with igb: the host's, or one that is unpacked into ``cache``. Raises LabError otherwise."""
    own = _probe(hosts.find("qemu-system-x86_64"), hosts.find("qemu-img"))
    if own:
        return own
    tree = cache / ("qemu-%s-%s" % (host.id, host.codename))
    with locked(cache / "qemu.lock", "another command is fetching QEMU; waiting for it"):
        unpacked = _probe_tree(tree)
        if unpacked:
            return unpacked
        log = cache / "qemu.log"
        if hosts.find("qemu-system-x86_64") is None and _candidate_is_new(PACKAGES[0]):
            hosts.install(PACKAGES, log)
            own = _probe(hosts.find("qemu-system-x86_64"), hosts.find("qemu-img"))
            if own:
                return own
        _unpack(host, tree, log)
        unpacked = _probe_tree(tree)
    if unpacked is None:
        raise LabError(
            "the QEMU of %s does not run here or has no igb device (log: %s)" % (host.backports, log),
            "install a qemu-system-x86 of version 8.0 or later",
        )
    return unpacked


def _probe_tree(tree: Path) -> Qemu | None:
    return _probe(str(tree / "usr/bin/qemu-system-x86_64"), str(tree / "usr/bin/qemu-img"), tree)


def _unpack(host: hosts.Host, tree: Path, log: Path) -> None:
    """Download QEMU from the backports of the host's distribution, and unpack it into ``tree``."""
    say("fetching QEMU from %s (this host's QEMU does not have igb) and unpacking it to %s" % (host.backports, tree))
    remedy = (
        "make sure that this host's package sources have %s, or install qemu-system-x86 8.0 or later" % host.backports
    )
    work = Path(tempfile.mkdtemp(prefix="qemu-", suffix=".building", dir=tree.parent))
    try:
        get = apt.aside(work, host.backports_sources())
        (work / "tree").mkdir()
        run([*get, "update"], log, "reading the package lists", remedy)
        fetch = ["install", "--download-only", "-y", "--no-install-recommends", "-t", host.backports, *PACKAGES]
        run([*get, *fetch], log, "fetching QEMU", remedy)
        for package in sorted((work / "archives").glob("*.deb")):
            run(["dpkg", "-x", str(package), str(work / "tree")], log, "unpacking QEMU", remedy)
        if tree.exists():
            shutil.rmtree(tree)
        os.replace(work / "tree", tree)
    finally:
        shutil.rmtree(work, ignore_errors=True)
