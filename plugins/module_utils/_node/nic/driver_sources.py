# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Where a NIC driver's packages come from: a repository, an ISO, an archive, a package that brings one, a directory.

What is mounted, unpacked or laid down for the time of an installation stands in known places, so that the run after one
that was killed finds it and clears it away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import Login, parted
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.driver_packages import Packages

REPOSITORY = "repository"
ISO = "iso"
ARCHIVE = "archive"
PACKAGE = "package"
DIRECTORY = "directory"
MEDIA = "/run/railyard/nic_driver/media"
SCRATCH = "/var/tmp/railyard-nic-driver"  # noqa: S108 - a fixed name, made for root alone, on the disk
# Keeps a package's script from starting or restarting the stack while it is installed; gone with the next boot anyway.
MASK = "/run/systemd/system/openibd.service"
UNIT = "openibd.service"
_PER_CENT = "write signs other than letters and digits in user and password in per cent: %2F for a slash, %40 for an @"
_INDEXES = ("Packages", "Packages.gz", "Packages.xz", "repodata")
_UNPACK_SECONDS = 1800.0
# How dpkg and rpm start a package's script, which goes on where they are killed. Seconds: for it to end, as long as the
# modules of a kernel or two take to build, and between two looks.
_SCRIPTS = ("/var/lib/dpkg/info/", "/var/lib/dpkg/tmp.ci/", "/var/tmp/rpm-tmp.")  # noqa: S108 - names to be known by
_SCRIPT_SECONDS = 1200.0
_LOOK = 2.0


def form(source: str) -> str:
    """Which of the forms a source has, by how it is written."""
    if "://" in source or source.startswith("file:"):
        return REPOSITORY
    if source.endswith(".iso"):
        return ISO
    if source.endswith((".tgz", ".tar.gz", ".tar")):
        return ARCHIVE
    return PACKAGE if source.endswith((".deb", ".rpm")) else DIRECTORY


class Source:
    """One source. ``key``: the key's text or None."""

    def __init__(self, system: System, source: str, key: str | None) -> None:
        self._system = system
        self.form = form(source)
        self.key = key
        #: without user and password, which are its ``login``
        self.source = source
        self.login: Login | None = None
        self._wrong: list[RailyardError] = []
        try:
            if self.form == REPOSITORY:
                self.source, self.login = parted(source)
        except ValueError as error:
            self._wrong = [RailyardError("%s cannot be read: %s" % (source, error), "source", _PER_CENT)]
        if any(ord(sign) <= ord(" ") or sign == "\x7f" for sign in "".join(self.login or ())):
            message = "user or password has white space in it, which a package manager cannot be told"
            self._wrong = [RailyardError(message, "source", "have the repository's server give another one")]

    def problems(self, unsigned: bool) -> list[RailyardError]:
        """What is wrong with it before anything is done."""
        if self.form == REPOSITORY:
            if self.key or unsigned:
                return list(self._wrong)
            return self._wrong + [
                RailyardError("the repository has no key", "key", "give the key, or set unsigned: true if it has none")
            ]
        if not self.source.startswith("/"):
            return [RailyardError("%r is no full path" % self.source, "source", "write it from the root, or as a URL")]
        if not self._system.exists(self.source):
            return [RailyardError("there is no %s on the node" % self.source, "source", "bring it there, or mount it")]
        return []

    @contextlib.contextmanager
    def open(self, packages: Packages, package: str, version: str) -> t.Iterator[None]:
        """While it is open the package manager can install from it. A repository's files are laid down already."""
        if self.form == REPOSITORY:
            packages.refresh()
            yield
            return
        if self.form == PACKAGE:
            packages.install_file(self.source)
            packages.refresh(own=False)
            yield
            return
        try:
            place = self._placed()
            url = "file:" + self._with_index(place, packages)
            for file in packages.files(url, self.key, package, version):
                self._system.write_file(file.path, file.text)
            packages.refresh()
            yield
        finally:
            self._system.remove_file(packages.repository)
            clear(self._system)

    def _placed(self) -> str:
        """The directory in which the source's files can be read."""
        if self.form == DIRECTORY:
            return self.source
        if self.form == ISO:
            os.makedirs(self._system.path(MEDIA), exist_ok=True)
            self._system.check(
                ["mount", "-o", "ro,loop", self.source, MEDIA], "see that it is an ISO, and that there are loop devices"
            )
            return MEDIA
        scratch = self._system.path(SCRATCH)
        os.makedirs(scratch, mode=0o755)
        argv = ["tar", "-x", "-f", self.source, "-C", SCRATCH, "--no-same-owner"]
        self._system.check(argv, "see that the archive is whole, and that there is room in /var/tmp", _UNPACK_SECONDS)
        tops = self._system.listdir(SCRATCH)
        return "%s/%s" % (SCRATCH, tops[0]) if len(tops) == 1 else SCRATCH

    def _with_index(self, place: str, packages: Packages) -> str:
        for directory in (place, "%s/%s" % (place, packages.directory)):
            if any(self._system.exists("%s/%s" % (directory, index)) for index in _INDEXES):
                return directory
        raise RailyardError(
            "there is no repository for %s in %s" % (packages.name, self.source),
            "source",
            "take the one that is for this distribution: it has %s with an index" % packages.directory,
        )


def mounted(system: System) -> bool:
    return any(line.split()[1:2] == [MEDIA] for line in (system.read("/proc/mounts") or "").splitlines())


def clear(system: System) -> None:
    """Take away what was mounted and unpacked."""
    if mounted(system):
        system.check(["umount", MEDIA], "see who uses %s (fuser -vm), and run the task again" % MEDIA)
    with contextlib.suppress(OSError):
        os.rmdir(system.path(MEDIA))
    shutil.rmtree(system.path(SCRATCH), ignore_errors=True)


def scripts(system: System) -> list[str]:
    """The packages' scripts that run, with their processes."""
    found = []
    for entry in system.listdir("/proc"):
        words = (system.read_file("/proc/%s/cmdline" % entry) or "").split("\0") if entry.isdigit() else []
        # the shell that runs it, and its first argument
        name = next((word for word in words[:3] if word.startswith(_SCRIPTS)), None)
        if name:
            found.append("%s (pid %s)" % (name.rpartition("/")[2], entry))
    return sorted(found)


def settle(system: System) -> None:
    """Wait for scripts that outlived their dpkg or rpm: they may still start the stack, or build its modules.

    :raises RailyardError: where one does not end.
    """
    deadline = time.monotonic() + _SCRIPT_SECONDS
    while scripts(system):
        if time.monotonic() >= deadline:
            raise RailyardError(
                "scripts of packages run since %d s: %s" % (_SCRIPT_SECONDS, ", ".join(scripts(system))),
                UNIT,
                "see what they wait for, end them, and run the task again",
            )
        time.sleep(_LOOK)


@contextlib.contextmanager
def quiet(system: System) -> t.Iterator[None]:
    """While it lasts, no package's script can start or restart the stack."""
    program = system.which("systemctl")
    if not program or not system.exists("/run/systemd/system"):
        yield
        return
    system.check([program, "mask", "--runtime", UNIT], "see 'systemctl status %s'" % UNIT)
    try:
        yield
    finally:
        _unmask(system)


def _unmask(system: System) -> None:
    settle(system)
    system.check([system.which("systemctl") or "systemctl", "unmask", "--runtime", UNIT], "run it by hand")


def leftovers(system: System, packages: Packages | None) -> list[Change]:
    """The changes that clear away what a run that was cut off has left."""
    found = []
    if mounted(system):
        found.append(Change(MEDIA, "mounted", True, False, lambda: clear(system)))
    if system.exists(SCRATCH):
        found.append(Change(SCRATCH, "unpacked", True, False, lambda: clear(system)))
    masked = system.link_target(MASK) == "/dev/null"
    if packages is not None:
        found += _of_packages(system, packages)
    if masked:
        # after the packages' scripts have had their turn
        found.append(Change(UNIT, "masked", True, False, lambda: _unmask(system)))
    return found


def _of_packages(system: System, packages: Packages) -> list[Change]:
    found = []
    text = system.read_file(packages.repository) or ""
    if any(" file:%s" % place in text or "file://%s" % place in text for place in (MEDIA, SCRATCH)):
        found.append(
            Change(packages.repository, "content", text, None, lambda: system.remove_file(packages.repository))
        )
    half = packages.interrupted()
    if half:

        def repair() -> None:
            with quiet(system):
                settle(system)
                packages.repair()

        found.append(Change(packages.name, "interrupted", half, [], repair))
    return found
