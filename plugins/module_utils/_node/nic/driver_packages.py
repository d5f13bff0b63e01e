# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of NIC drivers with apt and dnf: installed and available versions, and transactions."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import HIDDEN, Login, masked
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import VendorDriver
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

SECONDS = 3600.0
ASK_SECONDS = 120.0
RETRY = "fix the reported problem and run the task again"

# Permissions of a file without and with a password.
OPEN, SECRET = 0o644, 0o600
_PASSWORD = re.compile(r"\b(password[ =])\S+")
_USER = re.compile(r"\b(login |username=)\S+")


class File(t.NamedTuple):
    """A desired file of the package manager."""

    path: str
    text: str
    mode: int = OPEN


def shown(text: str) -> str:
    """Return a file's text with passwords masked; a user without a password is masked too, as it may be a token."""
    secret = _PASSWORD if _PASSWORD.search(text) else _USER
    return secret.sub(r"\g<1>" + HIDDEN, masked(text))


def find(system: System, driver: VendorDriver) -> Packages:
    """Return the node's package manager. Raises :class:`Unsupported`."""
    if system.which("apt-get") and system.which("dpkg-query"):
        return Apt(system, driver)
    if system.which("dnf") and system.which("rpm"):
        return Dnf(system, driver)
    raise Unsupported("neither apt nor dnf is installed", "kind", "install the driver by hand")


class Packages:
    """A package manager."""

    name = ""
    #: files that this module writes: the repository, its key, the pin
    repository = ""
    key = ""
    pin = ""
    #: the file of the repository's password, if it is not in the repository file
    login = ""
    #: the directory of packages in an unpacked MLNX_OFED
    directory = ""

    def __init__(self, system: System, driver: VendorDriver) -> None:
        self._system = system
        self._driver = driver
        self._environment = ("env", *driver.environment)

    def installed(self) -> dict[str, str]:
        """Return the installed packages of the vendor: name -> version."""
        raise NotImplementedError

    def interrupted(self) -> list[str]:
        """Return the remains of an interrupted transaction, as texts."""
        return []

    def repair(self) -> None:
        """Finish an interrupted transaction."""

    def files(self, url: str, key: str | None, package: str, version: str, login: Login | None = None) -> list[File]:
        """Return the desired files of the repository.

        :param url: without user and password, which are in ``login``.
        :param key: the text of the key; None disables signature checks.
        """
        raise NotImplementedError

    def refresh(self, own: bool = True) -> None:
        """Read the index of Railyard's repository, or of all repositories if ``own`` is false."""
        raise NotImplementedError

    def versions(self, package: str) -> list[str]:
        """Return the available versions, newest first."""
        raise NotImplementedError

    def install(self, wanted: t.Mapping[str, str], without: t.Iterable[str] = ()) -> None:
        """Install packages (name -> version), and remove those in ``without`` in the same transaction."""
        raise NotImplementedError

    def remove(self, names: t.Sequence[str], restored: t.Mapping[str, str]) -> None:
        """Remove packages, and restore these versions of others, in one transaction."""
        raise NotImplementedError

    def install_file(self, path: str) -> None:
        """Install a package from its file."""
        raise NotImplementedError

    def inbox_version(self, package: str) -> str | None:
        """Return the distribution's version of a package; None if it has none."""
        own = [version for version in self.versions(package) if not self._driver.is_package("", version)]
        return None if self._driver.names.match(package) or not own else own[0]


class Apt(Packages):
    """apt and dpkg."""

    name = "apt"
    repository = "/etc/apt/sources.list.d/railyard-nic-driver.list"
    key = "/etc/apt/keyrings/railyard-nic-driver.asc"
    pin = "/etc/apt/preferences.d/railyard-nic-driver"
    # the list must be world-readable, or apt fails for other users
    login = "/etc/apt/auth.conf.d/railyard-nic-driver.conf"
    directory = "DEBS"
    # no questions, no restarts of services by needrestart, and wait for other package managers
    _QUIET = ("DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "UCF_FORCE_CONFFOLD=1")
    _OPTIONS = (
        "-y",
        "-o",
        "DPkg::Lock::Timeout=300",
        "-o",
        "Dpkg::Options::=--force-confdef",
        "-o",
        "Dpkg::Options::=--force-confold",
    )

    def installed(self) -> dict[str, str]:
        return {name: version for name, version in self._all("i") if self._driver.is_package(name, version)}

    def _all(self, states: str, wanted: str = "") -> t.Iterator[tuple[str, str]]:
        """Yield (name, version) of packages in these states and, if given, with these selections, by dpkg's letters."""
        output = self._system.check(
            ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\\t${Package}\\t${Version}\\n"], RETRY, ASK_SECONDS
        )
        for line in output.splitlines():
            status, _tab, rest = line.partition("\t")
            name, _tab, version = rest.partition("\t")
            if status[1:2] in tuple(states) and (not wanted or status[:1] in tuple(wanted)):
                yield name, version

    def interrupted(self) -> list[str]:
        incomplete = ["%s %s" % each for each in self._all("UFHW", "ih")]
        journal = [name for name in self._system.listdir("/var/lib/dpkg/updates") if name.isdigit()]
        return incomplete + ["%d steps of dpkg" % len(journal)] * bool(journal)

    def repair(self) -> None:
        program = [*self._environment, *self._QUIET, "dpkg", "--force-confdef", "--force-confold"]
        _check(self._system, program, ["--configure", "-a"])
        self._apt("-f", "install")

    def files(self, url: str, key: str | None, package: str, version: str, login: Login | None = None) -> list[File]:
        option = "signed-by=%s" % self.key if key else "trusted=yes"
        head = "# Written by railyard.fabric.nic_driver.\n"
        found = []
        if login:
            # apt uses the entry for plain http only if it has the scheme, expects an IPv6 host without brackets, and
            # compares the path with a decoded one
            machine = re.sub(r"[][]", "", url.rstrip("/") + "/").partition("%")[0]
            arguments = (("machine", machine), ("login", login.user), ("password", login.password))
            text = head + " ".join("%s %s" % each for each in arguments if each[1]) + "\n"
            found.append(File(self.login, text, SECRET))
        found += [File(self.repository, "%sdeb [%s] %s ./\n" % (head, option, url.rstrip("/") + "/"))]
        if key:
            found.append(File(self.key, key))
        pin = "%sPackage: %s\nPin: version %s*\nPin-Priority: 1001\n" % (head, package, version)
        return found + [File(self.pin, pin)]

    def refresh(self, own: bool = True) -> None:
        source_options = ["-o", "Dir::Etc::sourcelist=" + self.repository, "-o", "Dir::Etc::sourceparts=-"]
        source_options += ["-o", "APT::Get::List-Cleanup=0"]
        argv = ["apt-get", "update", *(source_options if own else []), "-o", "DPkg::Lock::Timeout=300"]
        remedy = "check that the node reaches the repository, and the user and password of source and the key"
        result = self._system.run([*argv, "-o", "APT::Update::Error-Mode=any"], SECONDS)
        lines = [line for line in (result.err + result.out).splitlines() if line[:2] in ("E:", "W:")]
        # older releases report an unreadable repository as a warning
        if result.rc or any(re.match(r"W: (Failed|GPG|Some index)", line) for line in lines):
            raise RailyardError(" / ".join(lines[:3]) or "exit status %d" % result.rc, "source", remedy)

    def versions(self, package: str) -> list[str]:
        result = self._system.run(["apt-cache", "madison", package], ASK_SECONDS)
        rows = [[part.strip() for part in line.split("|")] for line in result.out.splitlines()]
        return list(dict.fromkeys(row[1] for row in rows if len(row) > 1 and row[0] == package))

    def install(self, wanted: t.Mapping[str, str], without: t.Iterable[str] = ()) -> None:
        arguments = ["%s=%s" % each for each in self._with_parts(wanted).items()] + ["%s-" % name for name in without]
        self._apt("--allow-downgrades", "--allow-change-held-packages", "install", *arguments)

    def _with_parts(self, wanted: t.Mapping[str, str]) -> dict[str, str]:
        """Return the packages with their dependencies, because apt does not upgrade installed dependencies.

        These are exact versions that a package depends on, and newer versions of the vendor's other installed packages.
        """
        parts = dict(wanted)
        queue = list(wanted.items())
        while queue:
            for name, version in self._exact_dependencies(*queue.pop()):
                if name not in parts:
                    parts[name] = version
                    queue.append((name, version))
        for name, version in self.installed().items():
            versions = [] if self._driver.is_meta(name) else self.versions(name)
            available = [each for each in versions if self._driver.is_package(name, each)]
            if name not in parts and available and available[0] != version:
                parts[name] = available[0]
        return parts

    def _exact_dependencies(self, name: str, version: str) -> list[tuple[str, str]]:
        """Return (name, version) of the vendor's packages that a package depends on in an exact version."""
        result = self._system.run(["apt-cache", "show", "%s=%s" % (name, version)], ASK_SECONDS)
        depends = ", ".join(re.findall(r"^(?:Pre-)?Depends: (.*)$", result.out, re.MULTILINE))
        found = re.findall(r"(?:^|, )([a-z0-9][a-z0-9+.-]*)(?::\w+)? \(= ([^)]+)\)(?=,|$)", depends)
        return [each for each in found if self._driver.is_package(*each)]

    def remove(self, names: t.Sequence[str], restored: t.Mapping[str, str]) -> None:
        arguments = ["%s=%s" % each for each in restored.items()] + ["%s-" % name for name in names]
        self._apt("--purge", "--allow-downgrades", "--allow-change-held-packages", "install", *arguments)

    def install_file(self, path: str) -> None:
        self._apt("--allow-downgrades", "install", path)

    def _apt(self, *arguments: str) -> None:
        _check(self._system, [*self._environment, *self._QUIET, "apt-get", *self._OPTIONS], arguments)


class Dnf(Packages):
    """dnf and rpm."""

    name = "dnf"
    repository = "/etc/yum.repos.d/railyard-nic-driver.repo"
    key = "/etc/pki/rpm-gpg/RPM-GPG-KEY-railyard-nic-driver"
    directory = "RPMS"

    def installed(self) -> dict[str, str]:
        output = self._system.check(
            ["rpm", "-qa", "--qf", "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"],
            "run rpm --rebuilddb",
            ASK_SECONDS,
        )
        rows = [line.partition("\t") for line in output.splitlines()]
        return {name: version for name, _tab, version in rows if self._driver.is_package(name, version)}

    def files(self, url: str, key: str | None, package: str, version: str, login: Login | None = None) -> list[File]:
        lines = ["# Written by railyard.fabric.nic_driver.", "[railyard-nic-driver]", "name=NIC driver"]
        # file:/path is apt's notation, dnf needs file:///path
        address = re.sub(r"^file:/(?!/)", "file:///", url)
        lines += ["baseurl=%s/" % address.rstrip("/"), "enabled=1", "gpgcheck=%d" % bool(key), "metadata_expire=0"]
        lines += ["gpgkey=file://" + self.key] if key else []
        if login:
            arguments = (("username", login.user), ("password", login.password))
            lines += ["%s=%s" % each for each in arguments if each[1]]
        found = [File(self.repository, "\n".join(lines) + "\n", SECRET if login else OPEN)]
        return found + ([File(self.key, key)] if key else [])

    def refresh(self, own: bool = True) -> None:
        argv = ["dnf", "-q", "makecache"]
        argv += ["--disablerepo=*", "--enablerepo=railyard-nic-driver"] if own else []
        result = self._system.run(argv, SECONDS)
        if result.rc:
            lines = [line.strip() for line in (result.err + result.out).splitlines() if line.strip()]
            remedy = "check that the node reaches the repository, and the user and password of source"
            raise RailyardError(" / ".join(lines[:3]) or "exit status %d" % result.rc, "source", remedy)

    def versions(self, package: str) -> list[str]:
        result = self._system.run(["dnf", "-q", "list", "--showduplicates", package], SECONDS)
        found = []
        for line in result.out.splitlines():
            arguments = line.split()
            if len(arguments) >= 3 and arguments[0].rpartition(".")[0] == package:
                found.append(arguments[1].rpartition(":")[2])
        # dnf lists the oldest first
        return list(dict.fromkeys(reversed(found)))

    def install(self, wanted: t.Mapping[str, str], without: t.Iterable[str] = ()) -> None:
        removed = list(without)
        if removed:
            self._dnf("remove", *removed)
        self._dnf("install", "--allowerasing", *("%s-%s" % each for each in wanted.items()))
        # 'install' does not downgrade
        installed = self.installed()
        older = ["%s-%s" % (name, version) for name, version in wanted.items() if installed.get(name) != version]
        if older:
            self._dnf("downgrade", "--allowerasing", *older)

    def remove(self, names: t.Sequence[str], restored: t.Mapping[str, str]) -> None:
        if names:
            self._dnf("remove", *names)
        if restored:
            self._dnf("install", "--allowerasing", *("%s-%s" % each for each in restored.items()))
            installed = self.installed()
            if any(name in installed for name in restored):
                self._dnf("downgrade", "--allowerasing", *("%s-%s" % each for each in restored.items()))

    def install_file(self, path: str) -> None:
        self._dnf("install", path)

    def _dnf(self, *arguments: str) -> None:
        _check(self._system, [*self._environment, "dnf", "-y"], arguments)


def _check(system: System, program: t.Sequence[str], arguments: t.Sequence[str]) -> None:
    """Run a transaction. Raises :class:`RailyardError` with the lines about errors if it fails."""
    result = system.run([*program, *arguments], SECONDS)
    if not result.rc:
        return
    lines = [line.strip() for line in (result.out + "\n" + result.err).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(E:|Error|dpkg: error|error:|.* returned error|Problem)", line)]
    message = " / ".join(list(dict.fromkeys(errors or lines[-3:]))[:5])
    name = next(word for word in program if word in ("apt-get", "dpkg", "dnf"))
    place = " ".join([name, *(word for word in arguments if word[0] != "-")])
    raise RailyardError(message or "exit status %d" % result.rc, place, RETRY)
