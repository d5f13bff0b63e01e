# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's programs: those that a person names, those on PATH, or those that the lab builds."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import host as hosts
from lab.cluster import build
from lab.errors import LabError
from lab.progress import say

ASSETS = "KUBEBUILDER_ASSETS"
# Server-side apply and today's CRDs as this project uses them; older servers have them in part.
OLDEST = (1, 20)
ETCD, API, MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"


@dataclass(frozen=True)
class Binaries:
    """Programs that were seen to run. ``manager`` is None where none of the server's own release is at hand."""

    etcd: str
    api: str
    manager: str | None
    version: str
    origin: str

    @property
    def release(self) -> tuple[int, int]:
        """The server's release, such as (1, 20)."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def version_of(program: str) -> str | None:
    """What a program says its version is (``1.20.2``); None when it does not run."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return match.group(1) if done.returncode == 0 and match else None


def probe(etcd: str | None, api: str | None, manager: str | None, origin: str) -> Binaries | str:
    """These programs if they run and are new enough, else what is wrong with them."""
    for name, place in ((ETCD, etcd), (API, api)):
        if place is None:
            return "there is no %s" % name
        if version_of(place) is None:
            return "%s does not run" % place
    assert etcd is not None and api is not None
    version = version_of(api) or ""
    found = Binaries(etcd, api, None, version, origin)
    if found.release < OLDEST:
        return "%s is %s, older than %d.%d" % (api, version, *OLDEST)
    same = (version_of(manager) or "").split(".")[:2] == version.split(".")[:2] if manager else False
    return Binaries(etcd, api, manager if same else None, version, origin)


def _in(directory: Path, origin: str) -> Binaries | str:
    """The programs in one directory."""

    def place(name: str) -> str | None:
        return str(directory / name) if os.access(directory / name, os.X_OK) else None

    return probe(place(ETCD), place(API), place(MANAGER), origin)


def at_hand(cache: Path) -> bool:
    """Whether there are programs without building them. Raises LabError when those that a person named do not work."""
    return _given() is not None or build.fault(build.directory(cache)) is None


def _given() -> Binaries | None:
    """The programs of this machine, if it has any."""
    named = os.environ.get(ASSETS)
    if named:
        found = _in(Path(named).expanduser().resolve(), ASSETS)
        if isinstance(found, str):
            raise LabError(
                "%s (%s) cannot be used: %s" % (ASSETS, named, found),
                "point it at a directory with etcd, kube-apiserver and kube-controller-manager, or unset it",
            )
        return found
    if hosts.find(API):
        found = probe(hosts.find(ETCD), hosts.find(API), hosts.find(MANAGER), "PATH")
        if not isinstance(found, str):
            return found
        say("the programs on PATH cannot be used: %s" % found)
    return None


def ensure(cache: Path) -> Binaries:
    """Working programs, built when there are none. Raises LabError when none can be had."""
    given = _given()
    if given is not None:
        return given
    for attempt in (1, 2):
        place = build.ensure(cache)
        found = _in(place, "built")
        if not isinstance(found, str):
            return found
        if attempt == 1:
            say("the cached Kubernetes is damaged: %s; building it again" % found)
            build.discard(place)
    raise LabError("what was built does not run here: %s" % found, "point %s at programs that do" % ASSETS)
