# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A boolean module parameter in modprobe.d and on the kernel command line.

The rules are those of modprobe.d(5) and of the kernel: a file hides files of the same name in later directories; all
files are read in the order of their names; the options of a module are combined in this order, followed by those of
the kernel command line; the last value of a parameter takes effect; any invalid value fails the load of the module.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

ETC = "/etc/modprobe.d"
DIRECTORIES = (ETC, "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
COMMAND_LINE = "/proc/cmdline"


class Setting(t.NamedTuple):
    """One place where the parameter is set. ``value``: None if it is not a boolean."""

    source: str
    text: str
    value: bool | None


class Parameter:
    """A boolean parameter of a module: ``Parameter("ib_core", "netns_mode")``."""

    def __init__(self, module: str, name: str) -> None:
        self.module = canonical(module)
        self.name = canonical(name)

    def files(self, system: System, but: t.Collection[str] = ()) -> dict[str, list[Setting]]:
        """Return the settings by file, in the order in which files are read. Files in ``but`` are ignored."""
        found = {}
        for path in config_files(system, but):
            settings = self.settings(path, system.read_file(path) or "")
            if settings:
                found[path] = settings
        return found

    def settings(self, path: str, text: str) -> list[Setting]:
        """Return the settings of the parameter in a file's text."""
        found = []
        for _raw, line in logical_lines(text):
            words = line.split()
            if len(words) < 3 or words[0] != "options" or canonical(words[1]) != self.module:
                continue
            found += [Setting(path, word, boolean(word)) for word in words[2:] if self._is_name(word.partition("=")[0])]
        return found

    def on_command_line(self, system: System) -> Setting | None:
        """Return the last setting on the running kernel's command line; None if it has none."""
        found = None
        for word in (system.read(COMMAND_LINE) or "").split():
            if word == "--":
                break  # the rest is for the first process
            module, dot, rest = word.partition(".")
            if dot and canonical(module) == self.module and self._is_name(rest.partition("=")[0]):
                found = Setting(COMMAND_LINE, word, boolean(rest))
        return found

    def line(self, value: bool) -> str:
        return "options %s %s=%d\n" % (self.module, self.name, value)

    def removed(self, text: str) -> str:
        """Return the text without this parameter. Everything else, including comments, is preserved."""
        parts = []
        for raw, line in logical_lines(text):
            if not self.settings("", raw):
                parts.append(raw)
                continue
            others = [word for word in line.split()[2:] if not self._is_name(word.partition("=")[0])]
            if others:
                # keep the backslash of a continued line
                pattern = r"(?:[ \t]+|(?<=\n))%s(?:=[^\s\\]*)?(?=[\s\\]|$)" % self.name.replace("_", "[-_]")
                parts.append(re.sub(pattern, "", raw))
            else:
                # joined to one line, because a comment that ends in a backslash continues on the next line
                parts.append("# %s\n" % " ".join(line.split()))
        return "".join(parts)

    def _is_name(self, word: str) -> bool:
        return canonical(word) == self.name


def config_files(system: System, but: t.Collection[str] = ()) -> list[str]:
    """Return the effective files of modprobe.d, in the order in which they are read. Files in ``but`` are ignored."""
    found: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in system.listdir(directory):
            path = "%s/%s" % (directory, name)
            if name.endswith(".conf") and path not in but:
                found.setdefault(name, path)
    return [found[name] for name in sorted(found)]


def logical_lines(text: str) -> t.Iterator[tuple[str, str]]:
    """Yield (raw text, joined text) of each logical line; a backslash continues a line."""
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
    """Return the value of ``NAME`` or ``NAME=VALUE`` as the kernel's kstrtobool() parses it; None if that fails."""
    _name, equals, value = word.partition("=")
    value = value.strip("\"'").lower()
    if not equals or value[:1] in ("y", "t", "1") or value[:2] == "on":
        return True
    return False if value[:1] in ("n", "f", "0") or value[:2] == "of" else None


def canonical(name: str) -> str:
    """Return a module's name in the kernel's form: ``nvidia_peermem`` for ``nvidia-peermem``."""
    return name.replace("-", "_")
