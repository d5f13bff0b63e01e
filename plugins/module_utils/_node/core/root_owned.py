# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether only root can replace a file that root executes, or the libraries of an interpreter that root executes."""

from __future__ import annotations

import grp
import os
import stat
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Symbolic links that Linux follows in one path.
_LINKS_MAX = 40
# Debian's /usr/local may belong to this group, whose members can replace programs in root's PATH anyway.
_LOCAL, _LOCAL_GROUP = "/usr/local", "staff"


def why_not(system: System, path: str) -> str:
    """Return why a user other than root can replace what is at an absolute path; empty if none can.

    The file or directory, each symbolic link on the way and all directories up to ``/`` must belong to root, and must
    not be writable by others. A world-writable directory with the sticky bit is not safe: every user can create a name
    in it before root does.
    """
    parts = [part for part in reversed(path.split("/")) if part]
    at, links = "/", 0
    reason = _reason(system, at)
    while parts and not reason:
        part = parts.pop()
        if part == ".":
            continue
        at = os.path.dirname(at) if part == ".." else os.path.join(at, part)
        target = system.link_target(at)
        reason = _reason(system, at)
        if target is not None and not reason:
            links += 1
            if links > _LINKS_MAX:
                return "%s has too many symbolic links" % path
            at = "/" if target.startswith("/") else os.path.dirname(at)
            parts += [each for each in reversed(target.split("/")) if each]
    return reason


def _reason(system: System, path: str) -> str:
    try:
        status = os.lstat(system.path(path))
    except OSError as error:
        return "%s: %s" % (path, (error.strerror or "cannot be read").lower())
    # modules run as root; a test may run as another user, who owns its directories
    if status.st_uid not in (0, os.geteuid()):
        return "%s belongs to the user with ID %d" % (path, status.st_uid)
    if stat.S_ISLNK(status.st_mode):
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "%s is writable by all users" % path
    if status.st_mode & stat.S_IWGRP and not _is_local_group(path, status.st_gid):
        return "%s is writable by the group with ID %d" % (path, status.st_gid)
    return ""


def _is_local_group(path: str, gid: int) -> bool:
    if path != _LOCAL and not path.startswith(_LOCAL + "/"):
        return False
    try:
        return grp.getgrgid(gid).gr_name == _LOCAL_GROUP
    except KeyError:
        return False


def why_not_place(system: System, path: str) -> str:
    """As :func:`why_not`, for a path that may not exist yet: its closest existing directory is checked."""
    while path != "/" and not system.exists(path):
        path = os.path.dirname(path)
    return why_not(system, path)


def check_place(system: System, path: str) -> None:
    """Raise :class:`Refused` if a user other than root could replace a program that is written at ``path``."""
    reason = why_not_place(system, os.path.dirname(path))
    if reason:
        remedy = "run 'chown root: DIRECTORY' and 'chmod go-w DIRECTORY' for this directory"
        raise Refused("root would execute it, and a user could replace it: %s" % reason, path, remedy)


def why_not_python(system: System, python: str) -> str:
    """Return why a user other than root can change what an interpreter executes; empty if none can.

    Checked are its file, the directories of its libraries, and those of the interpreter that a virtual environment
    names.
    """
    if any(sign <= " " or sign > "~" for sign in python):
        return "%r contains characters that the first line of a program cannot have" % python
    return next(filter(None, (why_not(system, path) for path in _executed(system, python))), "")


def _executed(system: System, python: str) -> t.Iterator[str]:
    """Yield the paths from which an interpreter executes code, and the files that name them before they are read."""
    yield python
    prefixes = [os.path.dirname(os.path.dirname(each)) for each in (python, system.real_path(python))]
    for config in {os.path.join(prefix, "pyvenv.cfg") for prefix in prefixes}:
        if system.exists(config):
            yield config
            home = _home(system, config)
            if home:
                yield home
                prefixes += [os.path.dirname(each) for each in (home, system.real_path(home))]
    if "/usr" in prefixes:
        # Debian's and Fedora's Python have packages there too
        prefixes.append(_LOCAL)
    yield from _libraries(system, prefixes)


def _home(system: System, config: str) -> str:
    """Return ``home`` of a ``pyvenv.cfg``: the directory of the interpreter of a virtual environment."""
    for line in (system.read(config) or "").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == "home":
            return value.strip()
    return ""


def _libraries(system: System, prefixes: t.Iterable[str]) -> t.Iterator[str]:
    """Yield the directories of libraries below the prefixes of interpreters."""
    for prefix in sorted(set(prefixes)):
        for lib in (os.path.join(prefix, "lib"), os.path.join(prefix, "lib64")):
            for version in system.listdir(lib):
                if version.startswith("python3"):
                    place = os.path.join(lib, version)
                    yield place
                    for inside in ("site-packages", "dist-packages", "lib-dynload"):
                        if system.exists(os.path.join(place, inside)):
                            yield os.path.join(place, inside)
