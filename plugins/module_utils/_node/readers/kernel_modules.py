# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kernel modules: files, exported symbols, dependencies, loading at boot, and the reason of a failed load.

The files of depmod(8) (``modules.dep``, ``modules.symbols``) have the file of a module and the module that exports a
symbol, so no module is read. The reason of a failed load is in the kernel's log, because init_module(2) returns the
same error number for several reasons.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import modprobe
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.modprobe import canonical

LOAD_DIRECTORIES = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)
# Debian's older file, to which modules-load.d has a link.
LOAD_FILE = "/etc/modules"
OFED_SYMBOLS = (
    "/usr/src/ofa_kernel/%(arch)s/%(release)s/Module.symvers",
    "/usr/src/ofa_kernel/%(release)s/Module.symvers",
    "/usr/src/ofa_kernel/default/Module.symvers",
)
LOCKDOWN = "/sys/kernel/security/lockdown"
SIGNATURES = "/sys/module/module/parameters/sig_enforce"
LOG_LINES = 60


class KernelModules:
    """The modules of a kernel release; by default the running one."""

    def __init__(self, system: System, architecture: str, release: str | None = None) -> None:
        self._system = system
        self._architecture = architecture
        self.release = release or system.read("/proc/sys/kernel/osrelease") or os.uname().release
        self.directory = "/lib/modules/" + self.release
        self._dependencies: str | None = None
        self._symbols: str | None = None
        self._infos: dict[str, dict[str, str]] = {}

    # -- on disk ------------------------------------------------------------------------------------------------------

    def path(self, name: str) -> str | None:
        """Return the path of the module's file; None if the kernel has none."""
        line = self._line(name)
        return self._absolute(line.partition(":")[0]) if line else None

    def needs(self, name: str) -> list[str]:
        """Return the names of all direct and indirect dependencies."""
        line = self._line(name) or ""
        return [_name(path) for path in line.partition(":")[2].split()]

    def exporter(self, symbol: str) -> str | None:
        """Return the module that exports a symbol; None if no module does."""
        if self._symbols is None:
            self._symbols = self._system.read_file(self.directory + "/modules.symbols") or ""
        match = re.search(r"^alias symbol:%s (\S+)$" % re.escape(symbol), self._symbols, re.MULTILINE)
        return canonical(match.group(1)) if match else None

    def built_in(self, name: str) -> bool:
        listing = self._system.read_file(self.directory + "/modules.builtin") or ""
        return any(_name(line) == name for line in listing.splitlines())

    def info(self, name: str) -> dict[str, str]:
        """Return the output of modinfo(8), the first value of each field; empty without the file or the program."""
        path = self.path(name)
        program = self._system.which("modinfo")
        if not path or not program:
            return {}
        if path not in self._infos:
            found: dict[str, str] = {}
            for line in self._system.run([program, path]).out.splitlines():
                field, colon, value = line.partition(":")
                if colon and re.match(r"[a-z_]+$", field):
                    found.setdefault(field, value.strip())
            self._infos[path] = found
        return self._infos[path]

    def disagreement(self, name: str, symbol: str) -> tuple[str, str] | None:
        """Return (version at build, present version) of a symbol that the module uses; None if equal or unknown."""
        path, exporter = self.path(name), self.exporter(symbol)
        program = self._system.which("modprobe")
        if not path or not exporter or not program:
            return None
        used = _versions(self._system.run([program, "--dump-modversions", path]).out).get(symbol)
        offered = self._offered(program, exporter, symbol) if used else None
        return (used, offered) if used and offered and int(used, 16) != int(offered, 16) else None

    def _offered(self, program: str, exporter: str, symbol: str) -> str | None:
        path = self.path(exporter)
        result = self._system.run([program, "--show-exports", path]) if path else None
        if result and result.rc == 0:  # kmod 30 has it, older ones may not
            return _versions(result.out).get(symbol)
        for pattern in OFED_SYMBOLS:
            text = self._system.read_file(pattern % {"arch": self._architecture, "release": self.release})
            if text:
                return _versions(text).get(symbol)
        return None

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else "%s/%s" % (self.directory, path)

    def _line(self, name: str) -> str | None:
        if self._dependencies is None:
            self._dependencies = self._system.read_file(self.directory + "/modules.dep") or ""
        pattern = r"^(?:[^:\n]*/)?%s\.ko[^:/\n]*:.*$" % canonical(name).replace("_", "[-_]")
        match = re.search(pattern, self._dependencies, re.MULTILINE)
        return match.group() if match else None

    # -- in the running kernel ----------------------------------------------------------------------------------------

    def loaded(self, name: str) -> bool:
        # a built-in module has a directory too, but no state
        return self._system.read("/sys/module/%s/initstate" % canonical(name)) == "live"

    def attribute(self, name: str, attribute_name: str) -> str | None:
        """Return ``version``, ``srcversion`` or ``taint`` of a loaded module; None if it has none."""
        return self._system.read("/sys/module/%s/%s" % (canonical(name), attribute_name)) or None

    def users(self, name: str) -> list[str]:
        """Return the users of a loaded module, as texts."""
        place = "/sys/module/" + canonical(name)
        holders = self._system.listdir(place + "/holders")
        count = self._system.read_int(place + "/refcnt") or 0
        found = ["the module %s" % holder for holder in holders]
        return found + (["%d more" % (count - len(holders))] if count > len(holders) else [])

    def signatures_enforced(self) -> bool:
        """Return whether the kernel loads only signed modules."""
        return self.lockdown() not in (None, "none") or self._system.read(SIGNATURES) == "Y"

    def lockdown(self) -> str | None:
        """Return ``none``, ``integrity`` or ``confidentiality``; None if the kernel does not support lockdown."""
        match = re.search(r"\[(\w+)\]", self._system.read(LOCKDOWN) or "")
        return match.group(1) if match else None

    def load(self, name: str) -> None:
        """Load a module with modprobe(8).

        :raises RailyardError: if it fails, with the reason in the kernel's log.
        """
        program = self._system.which("modprobe")
        if not program:
            raise Unsupported("there is no modprobe", name, "install the package kmod")
        since = self._uptime()
        completed = self._system.run([program, name])
        if completed.rc:
            output = completed.err or completed.out
            raise explain(name, output, self._log(since), self.release, self.path(name))

    def unload(self, name: str) -> None:
        self._system.check(
            [self._system.which("modprobe") or "modprobe", "-r", name], "end what uses it and run the task again"
        )

    def _uptime(self) -> float:
        try:
            return float((self._system.read("/proc/uptime") or "0").split()[0])
        except (ValueError, IndexError):
            return 0.0

    def _log(self, since: float) -> list[str]:
        """Return the kernel's messages since a time in seconds after boot; empty if they cannot be read."""
        program = self._system.which("dmesg")
        result = self._system.run([program]) if program else None
        found = []
        for line in (result.out if result and result.rc == 0 else "").splitlines():
            match = re.match(r"(?:<\d+>)?\[ *(\d+\.\d+)\] (.*)", line)
            # the clocks of uptime and log differ slightly
            if match and float(match.group(1)) >= since - 1.0:
                found.append(match.group(2))
        return found[-LOG_LINES:]

    # -- at boot ------------------------------------------------------------------------------------------------------

    def at_boot(self) -> dict[str, str]:
        """Return the modules that modules-load.d(5) loads at boot: name -> first file that names it."""
        files: dict[str, str] = {}
        for directory in LOAD_DIRECTORIES:
            for entry in self._system.listdir(directory):
                if entry.endswith(".conf"):
                    files.setdefault(entry, "%s/%s" % (directory, entry))
        paths = [files[entry] for entry in sorted(files)]
        found: dict[str, str] = {}
        for path in paths + [LOAD_FILE]:
            for line in (self._system.read_file(path) or "").splitlines():
                word = line.strip()
                if word and word[0] not in "#;":
                    found.setdefault(canonical(word.split()[0]), path)
        return found

    def barred(self, name: str) -> tuple[str, str] | None:
        """Return (file, line) that prevents loading a module at boot: a blacklist, or an install command; else None."""
        for path in modprobe.config_files(self._system):
            for _raw, line in modprobe.logical_lines(self._system.read_file(path) or ""):
                words = line.split()
                if len(words) > 1 and words[0] in ("blacklist", "install") and canonical(words[1]) == canonical(name):
                    return path, " ".join(words)
        for word in (self._system.read(modprobe.COMMAND_LINE) or "").split():
            option, _equals, value = word.partition("=")
            names = [canonical(each) for each in value.split(",")]
            if option in ("modprobe.blacklist", "module_blacklist") and canonical(name) in names:
                return modprobe.COMMAND_LINE, word
        return None


def releases(system: System) -> list[str]:
    """Return the kernels that can be booted: with modules, and with an image next to them or in ``/boot``."""
    found = []
    for release in system.listdir("/lib/modules"):
        images = ("/boot/vmlinuz-" + release, "/boot/vmlinux-" + release, "/lib/modules/%s/vmlinuz" % release)
        if system.exists("/lib/modules/%s/modules.dep" % release) and any(system.exists(image) for image in images):
            found.append(release)
    return found


def explain(name: str, output: str, log: t.Sequence[str], release: str, path: str | None = None) -> RailyardError:
    """Return the error of a module that failed to load.

    :param output: the messages of modprobe.
    :param log: the kernel's messages of the attempt.
    :param path: the module's file.
    """
    kernel = canonical(name)
    module_lines = [line for line in log if line.startswith(kernel + ":")]
    file = path or name
    disagreeing = _symbols(module_lines, r"disagrees about version of symbol (\S+)")
    gpl_only = [line for line in module_lines if "GPL-only symbols" in line]
    unknown = _symbols(module_lines, r"Unknown symbol (\S+)")
    magic = [line for line in module_lines if "version magic" in line]
    rebuild = "rebuild it for the kernel %s, after the modules that it needs" % release
    if disagreeing:
        return RailyardError(
            "would not load (Invalid argument): it was built against another version of what exports %s"
            % ", ".join(disagreeing),
            name,
            "%s; 'modprobe --dump-modversions %s' shows which versions it wants, and Module.symvers of the NIC driver's"
            " sources (/usr/src/ofa_kernel) which there are" % (rebuild, file),
        )
    if magic:
        return RailyardError(
            "would not load: %s" % magic[0].partition(": ")[2],
            name,
            "%s; 'modinfo -F vermagic %s' shows for which it was built" % (rebuild, file),
        )
    if gpl_only:
        return RailyardError(
            "would not load: it was built for NVIDIA's open kernel modules, and the loaded ones are proprietary",
            name,
            "install the open kernel modules, or build it for the proprietary ones",
        )
    if unknown:
        return RailyardError(
            "would not load: nothing in the kernel %s exports %s" % (release, ", ".join(unknown)),
            name,
            "install the driver that exports it for this kernel; /lib/modules/%s/modules.symbols lists who exports what"
            % release,
        )
    if any("unsigned module loading is restricted" in line for line in log):
        return Refused(
            "would not load: Secure Boot locks the kernel down, and %s is not signed" % file,
            name,
            "sign it with a key that is enrolled (mokutil --import), or take the distribution's signed modules",
        )
    if "Key was rejected by service" in output or "Required key not available" in output:
        return Refused(
            "would not load: the kernel does not trust the key that %s is signed with (Secure Boot)" % file,
            name,
            "enrol the key (mokutil --import; 'modinfo -F signer %s' names it) and confirm it at the next boot" % file,
        )
    if "Invalid argument" in output:
        return RailyardError(
            _INVALID.get(kernel, "would not load: the only message is Invalid argument"), name, rebuild
        )
    if "not found in directory" in output:
        return Unsupported("is not there for the kernel %s" % release, name, "install it for this kernel")
    if "Exec format error" in output or "Invalid module format" in output:
        return RailyardError("would not load: it was built for another kernel than %s" % release, name, rebuild)
    if "Operation not permitted" in output:
        return Refused("may not be loaded", name, "run the task with become, outside any container")
    reason = "; ".join([output.strip().splitlines()[-1] if output.strip() else "no message", *module_lines[-2:]])
    return RailyardError("would not load: %s" % reason, name, "see the kernel's messages (dmesg)")


# Modules that fail with "Invalid argument" and log no reason.
_INVALID = {
    "nvidia_peermem": "would not load (Invalid argument) and the kernel logs no reason: it was built where no peer"
    " memory interface (ib_register_peer_memory_client) was found, and then does nothing but refuse"
}


def _symbols(lines: t.Iterable[str], pattern: str) -> list[str]:
    found = [match.group(1) for match in (re.search(pattern, line) for line in lines) if match]
    return sorted(set(found))


def _versions(text: str) -> dict[str, str]:
    """Parse lines ``0x1234abcd NAME …`` of modprobe and Module.symvers. Return name -> version."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and re.match(r"0x[0-9a-fA-F]+$", words[0]):
            found[words[1]] = words[0]
    return found


def _name(path: str) -> str:
    return canonical(os.path.basename(path).partition(".ko")[0])
