# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of Kubernetes: those that KUBEBUILDER_ASSETS names, those on PATH, an official release, or a build."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import host as hosts
from lab.cluster import build, official
from lab.errors import LabError
from lab.progress import say

ASSETS = "KUBEBUILDER_ASSETS"
# Server-side apply and today's CRDs as this project uses them; older servers have them in part.
OLDEST = (1, 20)
ETCD, API, MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
SCHEDULER, KUBELET = "kube-scheduler", "kubelet"
NAMES = (ETCD, API, MANAGER, SCHEDULER, KUBELET)


@dataclass(frozen=True)
class Binaries:
    """Programs that run on this machine.

    ``manager``, ``scheduler`` and ``kubelet``: None without a program of the server's release.
    """

    etcd: str
    api: str
    manager: str | None
    version: str
    origin: str
    scheduler: str | None = None
    kubelet: str | None = None

    @property
    def release(self) -> tuple[int, int]:
        """The server's release, such as (1, 20)."""
        return _release(self.version)


def _release(version: str) -> tuple[int, int]:
    """Return the release of a version: (1, 20) for ``1.20.2``."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def version_of(program: str) -> str | None:
    """Return the version that a program reports (``1.20.2``); None if it does not run."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return match.group(1) if done.returncode == 0 and match else None


def probe(places: dict[str, str | None], origin: str, nodes: bool = False) -> Binaries | str:
    """Return the programs with these paths if they run and are new enough, else a text about the problem.

    :param nodes: scheduler and kubelet are required too.
    """
    for name in (ETCD, API):
        place = places[name]
        if place is None:
            return "there is no %s" % name
        if version_of(place) is None:
            return "%s does not run" % place
    version = version_of(str(places[API])) or ""
    release = version.split(".")[:2]
    others = {name: places[name] for name in ((MANAGER, SCHEDULER, KUBELET) if nodes else (MANAGER,))}

    def fits(place: str | None) -> bool:
        return place is not None and (version_of(place) or "").split(".")[:2] == release

    same = {name: place for name, place in others.items() if fits(place)}
    found = Binaries(
        *(str(places[ETCD]), str(places[API]), same.get(MANAGER), version, origin),
        *(same.get(SCHEDULER), same.get(KUBELET)),
    )
    if found.release < OLDEST:
        return "%s is %s, older than %d.%d" % (places[API], version, *OLDEST)
    if nodes and len(same) < len(others):
        return "there is no %s %s" % (min(set(others) - set(same)), ".".join(release))
    return found


def again(found: Binaries, nodes: bool) -> bool:
    """Return whether recorded programs still run."""
    places = {ETCD: found.etcd, API: found.api, MANAGER: found.manager, SCHEDULER: found.scheduler}
    return not isinstance(probe({**places, KUBELET: found.kubelet}, found.origin, nodes), str)


def _in(directories: list[Path], origin: str, nodes: bool) -> Binaries | str:
    """Return the programs in these directories, or a text about the problem."""

    def place(name: str) -> str | None:
        found = [str(directory / name) for directory in directories if os.access(directory / name, os.X_OK)]
        return found[0] if found else None

    return probe({name: place(name) for name in NAMES}, origin, nodes)


def _given(nodes: bool) -> Binaries | None:
    """Return the programs that the environment names, or those on PATH; None without usable ones."""
    named = os.environ.get(ASSETS)
    if named:
        found = _in([Path(named).expanduser().resolve()], ASSETS, nodes)
        if isinstance(found, str):
            names = NAMES if nodes else NAMES[:3]
            raise LabError(
                "%s (%s) cannot be used: %s" % (ASSETS, named, found),
                "point it at a directory with %s and %s, or unset it" % (", ".join(names[:-1]), names[-1]),
            )
        return found
    if hosts.find(API):
        found = probe({name: hosts.find(name) for name in NAMES}, "PATH", nodes)
        if not isinstance(found, str):
            return found
        say("the programs on PATH cannot be used: %s" % found)
    return None


def ensure(cache: Path, nodes: bool = False, version: str = "") -> Binaries:
    """Return working programs. They are downloaded, or else built, if they are missing.

    :param nodes: scheduler and kubelet are required too.
    :param version: that of the guests' kubelets, such as ``1.20.2``: programs of another release are an error.
    :raises LabError: if there are none.
    """
    found = _given(nodes) or _cached(cache, nodes, version)
    if version and _release(found.version) != _release(version):
        raise LabError(
            "the guests have the kubelet of Kubernetes %s, and the other programs are %s" % (version, found.version),
            "lab up --cluster --fresh, or point %s at programs of %s" % (ASSETS, version),
        )
    return found


def _cached(cache: Path, nodes: bool, version: str) -> Binaries:
    """Return the programs of the official release, or those of a build. The guests may have the kubelet of a build."""
    if version and _release(version) != _release(official.VERSION):
        return _built(cache, nodes)
    try:
        place = official.ensure(cache)
        found = _in([place], "downloaded", nodes)
        if not isinstance(found, str):
            return found
        why = "%s (remove %s to download it again)" % (found, place)
    except official.Unavailable as reason:
        why = str(reason)
    say("the lab uses Kubernetes built from Debian's source, and not the official %s: %s" % (official.VERSION, why))
    return _built(cache, nodes)


def _built(cache: Path, nodes: bool) -> Binaries:
    for attempt in (1, 2):
        places = build.ensure(cache, nodes)
        found = _in(places, "built", nodes)
        if not isinstance(found, str):
            return found
        if attempt == 1:
            say("the cached Kubernetes is damaged: %s; building it again" % found)
            for place in places:
                build.discard(place)
    raise LabError("what was built does not run here: %s" % found, "point %s at programs that do" % ASSETS)
