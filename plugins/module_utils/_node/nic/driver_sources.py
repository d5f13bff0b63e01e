# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sources of a NIC driver's packages: a repository, an ISO, an archive, a package that adds one, a directory.

Temporary mounts, directories and files of an installation have fixed paths, so that the run after an interrupted one
finds and removes them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import typing as t
from functools import partial

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
# On the disk, in a directory where only root creates names.
SCRATCH = "/var/lib/railyard/nic_driver"
# Where a masked unit keeps the scripts of packages from starting or restarting the driver stack. Removed by a boot.
MASKS = "/run/systemd/system/"
_PER_CENT = "percent-encode all but letters and digits in user and password: %2F for a slash, %40 for an @"
_INDEXES = ("Packages", "Packages.gz", "Packages.xz", "repodata")
_UNPACK_SECONDS = 1800.0
# Paths of the scripts of packages, which continue if dpkg or rpm is killed; the seconds that they may take, enough to
# build the modules of two kernels.
_SCRIPTS = ("/var/lib/dpkg/info/", "/var/lib/dpkg/tmp.ci/", "/var/tmp/rpm-tmp.")  # noqa: S108 - names to be known by
_SCRIPT_SECONDS = 1200.0
_POLL_SECONDS = 2.0


def form(source: str) -> str:
    """Return the form of a source, by its spelling."""
    if "://" in source or source.startswith("file:"):
        return REPOSITORY
    if source.endswith(".iso"):
        return ISO
    if source.endswith((".tgz", ".tar.gz", ".tar")):
        return ARCHIVE
    return PACKAGE if source.endswith((".deb", ".rpm")) else DIRECTORY


class Source:
    """One source. ``key``: the text of the key, or None."""

    def __init__(self, system: System, source: str, key: str | None) -> None:
        self._system = system
        self.form = form(source)
        self.key = key
        #: without user and password, which are its ``login``
        self.source = source
        self.login: Login | None = None
        self._errors: list[RailyardError] = []
        try:
            if self.form == REPOSITORY:
                self.source, self.login = parted(source)
        except ValueError as error:
            self._errors = [RailyardError("%s cannot be read: %s" % (source, error), "source", _PER_CENT)]
        if any(ord(sign) <= ord(" ") or sign == "\x7f" for sign in "".join(self.login or ())):
            message = "user or password contains white space, which package managers do not accept"
            self._errors = [RailyardError(message, "source", "use another user or password on the repository's server")]

    def problems(self, unsigned: bool) -> list[RailyardError]:
        """Return all errors of the source."""
        if self.form == REPOSITORY:
            if self.key or unsigned:
                return list(self._errors)
            return self._errors + [
                RailyardError(
                    "a repository requires a key", "key", "set it, or set unsigned: true for an unsigned repository"
                )
            ]
        if not self.source.startswith("/"):
            return [RailyardError("%r is not an absolute path" % self.source, "source", "write a full path or a URL")]
        if not self._system.exists(self.source):
            return [RailyardError("%s does not exist on the node" % self.source, "source", "copy or mount it there")]
        return []

    @contextlib.contextmanager
    def open(self, packages: Packages, package: str, version: str) -> t.Iterator[None]:
        """Make the source available to the package manager. The files of a repository exist already."""
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
            place = self._open_directory()
            url = "file:" + self._with_index(place, packages)
            for file in packages.files(url, self.key, package, version):
                self._system.write_file(file.path, file.text)
            packages.refresh()
            yield
        finally:
            self._system.remove_file(packages.repository)
            clear(self._system)

    def _open_directory(self) -> str:
        """Mount or unpack the source. Return the directory of its files."""
        if self.form == DIRECTORY:
            return self.source
        if self.form == ISO:
            os.makedirs(self._system.path(MEDIA), exist_ok=True)
            remedy = "check that it is an ISO image, and that the kernel has loop devices"
            self._system.check(["mount", "-o", "ro,loop", self.source, MEDIA], remedy)
            return MEDIA
        scratch = self._system.path(SCRATCH)
        os.makedirs(scratch, mode=0o755)
        argv = ["tar", "-x", "-f", self.source, "-C", SCRATCH, "--no-same-owner"]
        self._system.check(argv, "check that the archive is complete, and the space in /var/lib", _UNPACK_SECONDS)
        tops = self._system.listdir(SCRATCH)
        return "%s/%s" % (SCRATCH, tops[0]) if len(tops) == 1 else SCRATCH

    def _with_index(self, place: str, packages: Packages) -> str:
        for directory in (place, "%s/%s" % (place, packages.directory)):
            if any(self._system.exists("%s/%s" % (directory, index)) for index in _INDEXES):
                return directory
        raise RailyardError(
            "%s does not contain a repository for %s" % (self.source, packages.name),
            "source",
            "use the one for this distribution, which contains %s with an index" % packages.directory,
        )


def mounted(system: System) -> bool:
    return any(line.split()[1:2] == [MEDIA] for line in (system.read("/proc/mounts") or "").splitlines())


def clear(system: System) -> None:
    """Unmount and remove temporary files of an installation."""
    if mounted(system):
        system.check(["umount", MEDIA], "see what uses %s (fuser -vm), and run the task again" % MEDIA)
    with contextlib.suppress(OSError):
        os.rmdir(system.path(MEDIA))
    shutil.rmtree(system.path(SCRATCH), ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(system.path(os.path.dirname(SCRATCH)))


def scripts(system: System) -> list[str]:
    """Return the names of running scripts of packages, with their process ids."""
    found = []
    for entry in system.listdir("/proc"):
        arguments = (system.read_file("/proc/%s/cmdline" % entry) or "").split("\0") if entry.isdigit() else []
        # the shell, and its first argument
        name = next((word for word in arguments[:3] if word.startswith(_SCRIPTS)), None)
        if name:
            found.append("%s (pid %s)" % (name.rpartition("/")[2], entry))
    return sorted(found)


def settle(system: System, unit: str) -> None:
    """Wait for scripts that continue after dpkg or rpm was killed: they may start the driver stack or build modules.

    :raises RailyardError: if they run for more than 20 minutes.
    """
    deadline = time.monotonic() + _SCRIPT_SECONDS
    while scripts(system):
        if time.monotonic() >= deadline:
            raise RailyardError(
                "scripts of packages have run for more than %d s: %s" % (_SCRIPT_SECONDS, ", ".join(scripts(system))),
                unit,
                "see what they wait for, stop them, and run the task again",
            )
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def quiet(system: System, unit: str) -> t.Iterator[None]:
    """Keep the scripts of packages from starting or restarting the driver stack, which ``unit`` loads."""
    program = system.which("systemctl")
    if not program or not system.exists("/run/systemd/system"):
        yield
        return
    system.check([program, "mask", "--runtime", unit], "see 'systemctl status %s'" % unit)
    try:
        yield
    finally:
        _unmask(system, unit)


def _unmask(system: System, unit: str) -> None:
    settle(system, unit)
    system.check([system.which("systemctl") or "systemctl", "unmask", "--runtime", unit], "run it by hand")


def leftovers(system: System, packages: Packages | None, unit: str) -> list[Change]:
    """Return the changes that remove the remains of an interrupted run."""
    found = []
    if mounted(system):
        found.append(Change(MEDIA, "mounted", True, False, lambda: clear(system)))
    if system.exists(SCRATCH):
        found.append(Change(SCRATCH, "unpacked", True, False, lambda: clear(system)))
    masked = system.link_target(MASKS + unit) == "/dev/null"
    if packages is not None:
        found += _package_leftovers(system, packages, unit)
    if masked:
        # after the scripts of packages
        found.append(Change(unit, "masked", True, False, lambda: _unmask(system, unit)))
    return found


def _package_leftovers(system: System, packages: Packages, unit: str) -> list[Change]:
    found = []
    text = system.read_file(packages.repository) or ""
    if any(" file:%s" % place in text or "file://%s" % place in text for place in (MEDIA, SCRATCH)):
        remove = partial(system.remove_file, packages.repository)
        found.append(Change(packages.repository, "content", text, None, remove))
    incomplete = packages.interrupted()
    if incomplete:

        def repair() -> None:
            with quiet(system, unit):
                settle(system, unit)
                packages.repair()

        found.append(Change(packages.name, "interrupted", incomplete, [], repair))
    return found
