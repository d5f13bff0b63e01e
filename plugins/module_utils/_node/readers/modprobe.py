# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What modprobe.d and the kernel command line say of one boolean module parameter, and how to make them say it.

The rules are those of modprobe.d(5) and of the kernel: a file hides those of its name in later directories; all files
are read in the order of their names; the options of one module are put together in that order, the kernel command
line's last; of one parameter set twice the last counts; an invalid value fails the module's loading, wherever
it is.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

ETC = "/etc/modprobe.d"
DIRECTORIES = (ETC, "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
COMMAND_LINE = "/proc/cmdline"


class Setting(t.NamedTuple):
    """One place where the parameter is set; ``value`` is None where it is not a boolean."""

    source: str
    text: str
    value: bool | None


class Parameter:
    """A boolean parameter of a module: ``Parameter("ib_core", "netns_mode")``."""

    def __init__(self, module: str, name: str) -> None:
        self.module = _same(module)
        self.name = _same(name)

    def files(self, system: System, but: t.Collection[str] = ()) -> dict[str, list[Setting]]:
        """The files in force that set it, in the order in which they are read; ``but``: as if these were not there."""
        found = {}
        for path in config_files(system, but):
            settings = self.settings(path, system.read_file(path) or "")
            if settings:
                found[path] = settings
        return found

    def settings(self, path: str, text: str) -> list[Setting]:
        """Where a file's text sets it."""
        found = []
        for _raw, line in logical_lines(text):
            words = line.split()
            if len(words) < 3 or words[0] != "options" or _same(words[1]) != self.module:
                continue
            found += [Setting(path, word, boolean(word)) for word in words[2:] if self._is_name(word.partition("=")[0])]
        return found

    def on_command_line(self, system: System) -> Setting | None:
        """The last setting on the running kernel's command line; None where it has none."""
        found = None
        for word in (system.read(COMMAND_LINE) or "").split():
            if word == "--":
                break  # the rest is for the first process
            module, dot, rest = word.partition(".")
            if dot and _same(module) == self.module and self._is_name(rest.partition("=")[0]):
                found = Setting(COMMAND_LINE, word, boolean(rest))
        return found

    def line(self, value: bool) -> str:
        return "options %s %s=%d\n" % (self.module, self.name, value)

    def removed(self, text: str) -> str:
        """The text without this parameter; all else, comments too, stays as it is."""
        parts = []
        for raw, line in logical_lines(text):
            if not self.settings("", raw):
                parts.append(raw)
                continue
            others = [word for word in line.split()[2:] if not self._is_name(word.partition("=")[0])]
            if others:
                # not the backslash at a line's end, which continues it
                pattern = r"(?:[ \t]+|(?<=\n))%s(?:=[^\s\\]*)?(?=[\s\\]|$)" % self.name.replace("_", "[-_]")
                parts.append(re.sub(pattern, "", raw))
            else:
                # one line: a comment that ends in a backslash would go on in the next
                parts.append("# %s\n" % " ".join(line.split()))
        return "".join(parts)

    def _is_name(self, word: str) -> bool:
        return _same(word) == self.name


def config_files(system: System, but: t.Collection[str] = ()) -> list[str]:
    """The files of modprobe.d in force, in the order in which they are read; ``but``: as if these were not there."""
    found: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in system.listdir(directory):
            path = "%s/%s" % (directory, name)
            if name.endswith(".conf") and path not in but:
                found.setdefault(name, path)
    return [found[name] for name in sorted(found)]


def logical_lines(text: str) -> t.Iterator[tuple[str, str]]:
    """Each line as it is in the file, and with the lines that a backslash continues put together."""
    raw = line = ""
    for physical in text.splitlines(True):
        raw += physical
        body = physical.rstrip("\n")
        if body.endswith("\\"):
            line += body[:-1]
            continue
        yield raw, line + body
        raw = line = ""
    if raw:
        yield raw, line


def boolean(word: str) -> bool | None:
    """``NAME`` or ``NAME=VALUE`` as the kernel's kstrtobool() takes it; None where that fails."""
    _name, equals, value = word.partition("=")
    value = value.strip("\"'").lower()
    if not equals or value[:1] in ("y", "t", "1") or value[:2] == "on":
        return True
    return False if value[:1] in ("n", "f", "0") or value[:2] == "of" else None


def _same(name: str) -> str:
    return name.replace("-", "_")
