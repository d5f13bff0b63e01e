# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel arguments in the configuration of boot loaders, with one interface for all supported loaders.

Sources: Debian's ``update-grub`` and ``/etc/default/grub.d``, grubby(8), the UAPI group's Boot Loader Specification.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The arguments that earlier runs added, for boot loaders without a separate file for them.
RECORD = "/var/lib/railyard/kernel_arguments.json"
# Name of the loader that booted this machine; see the Boot Loader Interface.
LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
ENTRIES = ("/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries")
UNIFIED = ("/boot/EFI/Linux", "/efi/EFI/Linux", "/boot/efi/EFI/Linux")
KERNEL_CMDLINE = "/etc/kernel/cmdline"
TIMEOUT = 600.0
WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
REMEDY = "fix what it reports and run again"


def words(text: str) -> list[str]:
    """Return the arguments of a command line, without double quotes, in which white space does not separate."""
    return [word.replace('"', "") for word in WORD.findall(text)]


class Loader:
    """One boot loader. ``name`` and ``place`` are for messages."""

    name = ""
    #: file, directory or command with the arguments
    place = ""

    def __init__(self, system: System) -> None:
        self._system = system

    def entries(self) -> list[list[str]]:
        """Return the arguments of each kernel that can be booted."""
        raise NotImplementedError

    def own(self) -> list[str]:
        """Return the arguments that earlier runs added."""
        raise NotImplementedError

    def changes(self, desired: t.Sequence[str], next_boot: t.Sequence[str]) -> list[Change]:
        """Return the changes that add the desired arguments to all kernels and remove others of earlier runs.

        :param next_boot: see :meth:`next_boot`.
        """
        raise NotImplementedError

    def next_boot(self) -> list[str]:
        """Return the arguments that all kernels get, in the order of the first kernel."""
        entries = self.entries()
        return [word for word in entries[0] if all(word in entry for entry in entries)] if entries else []

    def _own_desired(self, desired: t.Sequence[str], next_boot: t.Sequence[str]) -> list[str]:
        """Return the desired arguments that no other program set."""
        own = self.own()
        return [word for word in desired if word in own or word not in next_boot]


class Grub(Loader):
    """GRUB of Debian and Ubuntu, with drop-ins, and a configuration that ``update-grub`` writes."""

    name = "grub"
    place = "/etc/default/grub"
    DROP_IN = "/etc/default/grub.d/zz-railyard.cfg"
    CONFIG = "/boot/grub/grub.cfg"
    HEAD = "# Written by railyard.fabric.kernel_arguments.\n"
    LINE = re.compile(r'^GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX (.*)"$', re.MULTILINE)
    # The section with the kernels of this system. Other systems on the disk and users' entries are not read.
    OWN_KERNELS = re.compile(r"^### BEGIN \S+/10_linux\w* ###$(.*?)^### END ", re.MULTILINE | re.DOTALL)
    # Characters that end a command in GRUB's script, so that an argument with them is quoted.
    QUOTED = re.compile(r"[;|&{}<>]")
    # Exists from the change of the drop-in until the configuration has its arguments.
    MARK = "/var/lib/railyard/update-grub"

    def entries(self) -> list[list[str]]:
        entries = []
        text = self._system.read_file(self.CONFIG) or ""
        for line in ("".join(self.OWN_KERNELS.findall(text)) or text).splitlines():
            parts = words(line)
            if len(parts) > 1 and parts[0] in ("linux", "linuxefi") and os.path.basename(parts[1]).startswith("vmlinu"):
                entries.append(parts[2:])
        return entries

    def own(self) -> list[str]:
        line = self.LINE.search(self._system.read_file(self.DROP_IN) or "")
        return words(line.group(1).replace('\\"', '"')) if line else []

    def changes(self, desired: t.Sequence[str], next_boot: t.Sequence[str]) -> list[Change]:
        changes = []
        own, own_desired = self.own(), self._own_desired(desired, next_boot)
        if own != own_desired:
            changes.append(Change(self.DROP_IN, "arguments", own, own_desired, lambda: self._write(own_desired)))
        if changes or self._system.exists(self.MARK) or any(word not in next_boot for word in desired):
            after = [word for word in next_boot if word not in own] + own_desired
            changes.append(Change(self.CONFIG, "arguments", list(next_boot), after, self._update))
        return changes

    def _write(self, arguments: t.Sequence[str]) -> None:
        self._system.write_file(self.MARK, "")
        if not arguments:
            self._system.remove_file(self.DROP_IN)
            return
        quoted = ['\\"%s\\"' % word if self.QUOTED.search(word) else word for word in arguments]
        text = '%sGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"\n' % (self.HEAD, " ".join(quoted))
        self._system.write_file(self.DROP_IN, text)

    def _update(self) -> None:
        self._system.check([self._system.which("update-grub") or "update-grub"], REMEDY, timeout=TIMEOUT)
        self._system.forget_file(self.MARK)


class RecordingLoader(Loader):
    """A loader without a separate file for our arguments, which are recorded in :data:`RECORD`."""

    def own(self) -> list[str]:
        try:
            recorded = json.loads(self._system.read(RECORD) or "[]")
        except ValueError:
            return []
        return [str(word) for word in recorded] if isinstance(recorded, list) else []

    def changes(self, desired: t.Sequence[str], next_boot: t.Sequence[str]) -> list[Change]:
        own, own_desired = self.own(), self._own_desired(desired, next_boot)
        present = {word for entry in self.entries() for word in entry} | set(self._later_kernels())
        stale = [word for word in own if word not in own_desired and word in present]
        missing = [word for word in own_desired if word not in next_boot or not self._is_kept(word)]
        changes: list[Change] = []
        if missing or stale:
            # recorded first, so that the arguments of an interrupted run are recognized
            union = own + [word for word in own_desired if word not in own]
            if union != own:
                changes.append(self._record_change(own, union))
                own = union
            changes += self._entry_changes(missing, stale)
        if own != own_desired or (not own_desired and self._system.exists(RECORD)):
            changes.append(self._record_change(own, own_desired))
        return changes

    def _record_change(self, before: list[str], after: list[str]) -> Change:
        if not after:
            return Change(RECORD, "arguments", before, None, lambda: self._system.forget_file(RECORD))
        text = json.dumps(after) + "\n"
        return Change(RECORD, "arguments", before, after, lambda: self._system.write_file(RECORD, text))

    def _entry_changes(self, missing: list[str], stale: list[str]) -> list[Change]:
        raise NotImplementedError

    # -- kernels that are installed later

    def _later_kernels(self) -> list[str]:
        return words(self._system.read(KERNEL_CMDLINE) or "")

    def _is_kept(self, word: str) -> bool:
        return not self._system.exists(KERNEL_CMDLINE) or word in self._later_kernels()

    def _later_kernel_changes(self, missing: list[str], stale: list[str]) -> list[Change]:
        if not self._system.exists(KERNEL_CMDLINE):
            return []  # without the file, they get the arguments of the running kernel
        before = (self._system.read_exact(KERNEL_CMDLINE) or "").strip()
        after = edited(before, missing, stale)
        if after == before:
            return []
        return [self._file_change(KERNEL_CMDLINE, words(before), words(after), after + "\n")]

    def _file_change(self, path: str, before: list[str], after: list[str], text: str) -> Change:
        return Change(path, "arguments", before, after, lambda: self._system.edit_file(path, text))


class Grubby(RecordingLoader):
    """GRUB of RHEL and its derivatives, with entries of the Boot Loader Specification that grubby reads and writes."""

    name = "grub with grubby"
    place = "grubby --info=ALL"

    def _info(self) -> list[tuple[str, list[str]]]:
        program = self._system.which("grubby") or "grubby"
        output = self._system.check([program, "--info=ALL"], REMEDY, timeout=TIMEOUT)
        entries = []
        kernel = ""
        for line in output.splitlines():
            key, _equals, value = line.partition("=")
            value = value.strip()
            if key == "kernel":
                kernel = value.strip('"')
            elif key == "args" and kernel:
                entries.append((kernel, words(value[1:-1] if value[:1] == value[-1:] == '"' else value)))
        return entries

    def entries(self) -> list[list[str]]:
        return [arguments for _kernel, arguments in self._info()]

    def _entry_changes(self, missing: list[str], stale: list[str]) -> list[Change]:
        argv = [self._system.which("grubby") or "grubby", "--update-kernel=ALL"]
        if missing:
            argv.append("--args=%s" % " ".join(missing))
        if stale:
            argv.append("--remove-args=%s" % " ".join(stale))

        def act() -> None:
            self._system.check(argv, REMEDY, timeout=TIMEOUT)

        before = self.next_boot()
        after = [word for word in before if word not in stale] + [word for word in missing if word not in before]
        changes = self._later_kernel_changes(missing, stale)
        if stale or after != before:
            changes.append(Change("all kernels", "arguments", before, after, act))
        return changes


class Entries(RecordingLoader):
    """systemd-boot, or another loader that reads entries of the Boot Loader Specification."""

    name = "systemd-boot"

    def __init__(self, system: System, directory: str) -> None:
        super().__init__(system)
        self.place = directory

    def _files(self) -> dict[str, str]:
        files = {}
        for name in self._system.listdir(self.place):
            text = self._system.read_exact("%s/%s" % (self.place, name)) if name.endswith(".conf") else None
            if text and re.search(r"^linux\s", text, re.MULTILINE):
                files["%s/%s" % (self.place, name)] = text
        return files

    def entries(self) -> list[list[str]]:
        return [self._options(text) for text in self._files().values()]

    @staticmethod
    def _options(text: str) -> list[str]:
        return [word for line in re.findall(r"^options\s+(.*)$", text, re.MULTILINE) for word in words(line)]

    def _entry_changes(self, missing: list[str], stale: list[str]) -> list[Change]:
        changes = self._later_kernel_changes(missing, stale)
        for path, text in self._files().items():
            before = self._options(text)
            if any(word.startswith("$") for word in before):
                text = "its options are a variable of GRUB, %s" % next(word for word in before if word[0] == "$")
                raise Unsupported(text, path, "install grubby, which edits the variable")
            add = [word for word in missing if word not in before]
            after = self._edited(text, add, stale)
            if after != text:
                changes.append(self._file_change(path, before, self._options(after), after))
        return changes

    @staticmethod
    def _edited(text: str, missing: list[str], stale: list[str]) -> str:
        lines = text.rstrip("\n").split("\n")
        places = [number for number, line in enumerate(lines) if re.match(r"options\s", line)]
        if not places:
            return "\n".join([*lines, "options " + " ".join(missing)]) + "\n" if missing else text
        for number in places:
            head, _space, rest = lines[number].partition(" ")
            add = missing if number == places[-1] else []
            lines[number] = "%s %s" % (head, edited(rest, add, stale))
        return "\n".join(lines) + "\n"


def edited(line: str, missing: t.Sequence[str], stale: t.Sequence[str]) -> str:
    """Return a command line with the missing and without the stale arguments. Other text is not changed."""
    for word in WORD.findall(line):
        if word.replace('"', "") in stale:
            line = re.sub(r"(^|\s+)%s(?=\s|$)" % re.escape(word), "", line)
    remaining = words(line)
    return " ".join([line.strip(), *(word for word in missing if word not in remaining)]).strip()


def find_loader(system: System) -> Loader | None:
    """Return the boot loader of this node; None if it is not supported."""
    directories = [path for path in ENTRIES if any(name.endswith(".conf") for name in system.listdir(path))]
    info = (system.read_bytes(LOADER_INFO) or b"").decode("utf-16-le", "replace")
    if "systemd-boot" in info and directories:
        return Entries(system, directories[0])
    if system.which("grubby") and directories:
        return Grubby(system)
    if system.exists(Grub.CONFIG) and system.exists(Grub.place) and system.which("update-grub"):
        return Grub(system)
    return Entries(system, directories[0]) if directories else None


def unknown_loader_error(system: System) -> RailyardError:
    """Return the error of a node for which :func:`find_loader` returns None."""
    for directory in UNIFIED:
        if any(name.endswith(".efi") for name in system.listdir(directory)):
            return Unsupported(
                "the kernels are unified kernel images, which contain their arguments",
                directory,
                "write %s and build the images again with 'kernel-install add-all'" % KERNEL_CMDLINE,
            )
    return Unsupported(
        "the boot loader is not supported: it is not GRUB with update-grub or grubby, or systemd-boot",
        "/boot",
        "set the kernel arguments in the configuration of this machine's boot loader",
    )
