# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine: its distribution, its package sources, and the tools that the lab needs of it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.progress import run, say
from lab.state import locked


@dataclass(frozen=True)
class Distribution:
    """Package of the guests' kernel, and the suite that may have a newer QEMU."""

    kernel: str
    backports: str


DISTRIBUTIONS = {
    "debian": Distribution(kernel="linux-image-amd64", backports="{codename}-backports"),
    "ubuntu": Distribution(kernel="linux-image-generic", backports="{codename}-backports"),
}

# Required commands and their packages.
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}


@dataclass(frozen=True)
class Source:
    """One stanza of the host's package sources."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None

    def deb822(self, suites: tuple[str, ...], types: str = "deb") -> str:
        """Return the stanza in deb822 form, with other suites and types."""
        lines = [
            "Types: " + types,
            "URIs: " + " ".join(self.uris),
            "Suites: " + " ".join(suites),
            "Components: " + " ".join(self.components),
        ]
        if self.signed_by:
            lines.append("Signed-By: " + self.signed_by)
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Host:
    """The distribution of this machine, which guests run by default too."""

    id: str
    codename: str
    version: str
    root: Path = Path("/")

    @classmethod
    def read(cls, root: Path = Path("/")) -> Host:
        """Read /etc/os-release. Raises LabError if the lab does not support the machine."""
        if platform.machine() != "x86_64":
            raise LabError(
                "the lab's guests are x86_64 and this machine is %s" % platform.machine(), "use an x86_64 machine"
            )
        values = {}
        try:
            text = (root / "etc/os-release").read_text(encoding="utf-8")
        except OSError:
            text = ""
        for line in text.splitlines():
            key, _, value = line.partition("=")
            values[key] = value.strip().strip('"')
        host = cls(values.get("ID", "unknown"), values.get("VERSION_CODENAME", ""), values.get("VERSION_ID", ""), root)
        if host.id not in DISTRIBUTIONS or not host.codename:
            raise LabError(
                "the lab is built from the host's own packages, and '%s' is not one of %s"
                % (host.id, ", ".join(sorted(DISTRIBUTIONS))),
                "run it on Debian 12 or 13 or Ubuntu 24.04",
            )
        return host

    @property
    def distribution(self) -> Distribution:
        return DISTRIBUTIONS[self.id]

    @property
    def backports(self) -> str:
        return self.distribution.backports.format(codename=self.codename)

    def sources(self) -> list[Source]:
        """Return the package sources of the distribution on this host, without those of other vendors.

        :raises LabError: if no source has the release.
        """
        apt = self.root / "etc/apt"
        parts = sorted((apt / "sources.list.d").glob("*")) if (apt / "sources.list.d").is_dir() else []
        found: list[Source] = []
        for place in [apt / "sources.list", *parts]:
            if place.is_file() and place.suffix in (".list", ".sources"):
                text = place.read_text(encoding="utf-8", errors="replace")
                found += (_stanzas if place.suffix == ".sources" else _lines)(text)
        own = [source for source in found if self._is_own(source)]
        if not any(self.codename in source.suites for source in own):
            raise LabError(
                "no package source for %s %s among this host's (%s)" % (self.id, self.codename, apt),
                "add the sources of the distribution, which its installer writes",
            )
        return own

    def _is_own(self, source: Source) -> bool:
        key = source.signed_by or ""
        return (
            "main" in source.components
            and any(suite.partition("-")[0] == self.codename for suite in source.suites)
            and (not key or ("%s-archive" % self.id) in key)
        )

    def release_sources(self, codename: str | None = None) -> str:
        """Return the sources of a release with updates and security fixes, for building guests, as deb822 text.

        :param codename: another release of the host's distribution. Its sources have the URIs of the host's sources.
        """
        text = []
        for source in self.sources():
            suffixes = [
                suite[len(self.codename) :]
                for suite in source.suites
                if suite in (self.codename, self.codename + "-updates", self.codename + "-security")
            ]
            if suffixes:
                text.append(source.deb822(tuple((codename or self.codename) + suffix for suffix in suffixes)))
        return "\n".join(text)

    def backports_sources(self) -> str:
        """Return the sources of the release and its backports suite as deb822 text."""
        return self.sources_of(self.codename, self.backports)

    def sources_of(self, *suites: str, types: str = "deb") -> str:
        """Return the sources of these suites, with the URIs of the host's sources of the release, as deb822 text."""
        return "\n".join(source.deb822(suites, types) for source in self.sources() if self.codename in source.suites)


def _stanzas(text: str) -> list[Source]:
    """Read the deb822 form of package sources."""
    found = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        values: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in " \t" and key:
                values[key] += "\n" + line
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                values[key] = value.strip()
        if "deb" in values.get("types", "").split() and values.get("enabled", "yes").lower() not in ("no", "false"):
            found.append(
                Source(
                    tuple(values.get("uris", "").split()),
                    tuple(values.get("suites", "").split()),
                    tuple(values.get("components", "").split()),
                    values.get("signed-by") or None,
                )
            )
    return found


def _lines(text: str) -> list[Source]:
    """Read the one-line form of package sources."""
    found = []
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line.strip())
        if match:
            options = dict(option.partition("=")[::2] for option in (match.group(1) or "").split())
            found.append(
                Source((match.group(2),), (match.group(3),), tuple(match.group(4).split()), options.get("signed-by"))
            )
    return found


def as_root(argv: list[str]) -> list[str]:
    """Return the command line that runs a command as root: itself, or with sudo."""
    if os.geteuid() == 0:
        return argv
    if shutil.which("sudo") is None:
        raise LabError("'%s' needs root, and sudo is missing" % argv[0], "run the command as root")
    return ["sudo", *argv]


def install(packages: list[str], log: Path) -> None:
    """Print the names of packages, and install them from this host's distribution."""
    say("installing on this machine: %s" % ", ".join(packages))
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    remedy = "make sure that apt-get works, or install them by hand: %s" % " ".join(packages)
    command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    # a lab and a cluster may be started at the same time, and apt-get does not wait for another
    with locked(log.with_name("apt-get.lock"), "another command is installing packages; waiting for it"):
        run(as_root(["apt-get", "update", "-q"]), log, "apt-get update", remedy, env=env)
        run(as_root(["env", "DEBIAN_FRONTEND=noninteractive", *command]), log, "apt-get install", remedy)


def find(command: str) -> str | None:
    """Return the path of a command, or None. Directories of administrators are searched too."""
    return shutil.which(command, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


def tool(command: str) -> str:
    """Return the path of a tool. Raises LabError if it is not installed."""
    path = find(command)
    if path is None:
        raise LabError("%s is not on this machine" % command, "apt-get install %s" % TOOLS.get(command, command))
    return path


def ensure_tools(log: Path) -> None:
    """Install missing tools of the lab."""
    missing = sorted({package for command, package in TOOLS.items() if find(command) is None})
    if missing:
        install(missing, log)
