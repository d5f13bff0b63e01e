# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The RDMA mode: whether all network namespaces share the RDMA devices or each has its own.

Live state (over netlink), next boot (modprobe.d, the kernel command line and the initramfs) and the need for a reboot
are reported separately.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, NotTaken
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import modprobe, network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.initramfs import KNOWN, Initramfs

# Files are read in the order of their names, and the last one takes effect.
FILE = "/etc/modprobe.d/zz-railyard-rdma.conf"
HEAD = "# Written by railyard.fabric.rdma_netns_mode: 1 is shared, 0 is exclusive.\n"
PARAMETER = modprobe.Parameter("ib_core", "netns_mode")
DEFAULT = "shared"
KERNEL_DEFAULT = "the kernel's default"
NAMES = {True: "shared", False: "exclusive", None: None}
SUBJECT = "rdma"
# Exists while images must still be rebuilt after the mode was removed; no newer file shows that they are stale.
UNFINISHED = "/var/lib/railyard/rdma_mode.unfinished"
# Seconds to wait for the kernel, which removes a deleted namespace in the background.
PATIENCE = 5.0

Connect = t.Callable[[System], t.Optional[NetlinkSocket]]

SPEC: dict[str, t.Any] = {
    "mode": {"type": "str", "choices": ["shared", "exclusive"]},
    "persist": {"type": "bool", "default": True},
    "switch": {"type": "str", "choices": ["try", "require", "never"], "default": "try"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class RdmaMode(Subsystem):
    """The RDMA mode of the node.

    :param mode: ``shared`` or ``exclusive``; None only observes.
    :param persist: whether the next boot must have it too.
    :param switch: whether to switch the running kernel: ``try``, ``require`` or ``never``.
    """

    def __init__(
        self, system: System, mode: str | None, persist: bool, switch: str, connect: Connect = rdma_netlink.connect
    ) -> None:
        super().__init__()
        self._system = system
        self._mode = mode
        self._persist = persist
        self._switch = switch
        self._connect = connect
        self._initramfs = Initramfs(system, PARAMETER.module)
        self._until_boot = UntilBoot(system, "rdma_netns_mode")
        #: holders found after the kernel's refusal, and those found before
        self._held = ""
        self._busy = ""
        # kept, because the message is still needed after the files are written
        self._unloaded: list[str] = []
        self._without_modes = False

    def observe(self) -> State:
        """Return ``mode``, ``live``, ``next_boot``, ``next_boot_source`` and ``stale_initramfs`` (paths of images)."""
        sock = self._connect(self._system)
        live = None
        if sock:
            with contextlib.closing(sock):
                live = rdma_netlink.netns_mode(sock)
            self._without_modes = live is None
            live = live or DEFAULT
        next_boot, source = self._next_boot()
        return {
            "mode": live or next_boot,
            "live": live,
            "next_boot": next_boot,
            "next_boot_source": source,
            "stale_initramfs": [image for _release, image in self._stale(source)],
        }

    def changes(self, state: State) -> list[Change]:
        del self.warnings[:]
        changes: list[Change] = []
        errors: list[RailyardError] = []
        if self._without_modes and self._mode != DEFAULT:
            raise Unsupported(
                "this kernel knows no rdma modes: all network namespaces share the devices",
                "mode",
                "use Linux 5.2 or later, or mode shared",
            )
        for part in (self._boot_changes, self._live_changes):
            with collected(errors):
                changes += part(state)
        raise_all(errors)
        self._warn_of_unknown()
        return changes + self._until_boot.keep([])

    def _warn_of_unknown(self) -> None:
        for image in self._initramfs.unknown:
            self.warnings.append(
                "%s may hold ib_core with another rdma mode, and neither lsinitramfs nor lsinitrd is there to list it: "
                "rebuild it with the distribution's own tool." % image
            )

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        live = state["live"]
        if self._mode is None or live is None or live == self._mode or any(c.subject == SUBJECT for c in pending):
            return {"reboot_required": False, "reboot_reasons": []}
        coming = state["next_boot"] == self._mode or (self._persist and bool(pending))
        reason = Staying("rdma-mode", (live, self._mode)).text
        if self._busy:
            reason += "; now other network namespaces exist: %s" % self._busy
        return {"reboot_required": coming, "reboot_reasons": [reason] if coming else []}

    # -- next boot

    def _next_boot(self, but: t.Collection[str] = ()) -> tuple[str | None, str]:
        """Return the mode with which ib_core will be loaded (None: its load will fail), and the source of the setting.

        :param but: files that are ignored.
        """
        last = PARAMETER.on_command_line(self._system)
        for settings in PARAMETER.files(self._system, but).values():
            for setting in settings:
                if setting.value is None:
                    return None, setting.source
                if last is None or last.source != modprobe.COMMAND_LINE:
                    last = setting
        return (NAMES[last.value], last.source) if last else (DEFAULT, KERNEL_DEFAULT)

    def _stale(self, source: str) -> list[tuple[str, str]]:
        if self._system.exists(UNFINISHED):
            return self._initramfs.stale((), rewritten=True)
        # the kernel command line is also read in the initramfs
        if source in (modprobe.COMMAND_LINE, KERNEL_DEFAULT):
            return []
        return self._initramfs.stale(PARAMETER.files(self._system))

    def _boot_changes(self, state: State) -> list[Change]:
        if not self._persist:
            return []
        mode = str(self._mode)
        if state["next_boot"] == mode:
            stale = [each for each in self._initramfs.images() if each[1] in state["stale_initramfs"]]
            return self._initramfs.learnt() + self._rebuilds(stale)
        argument = PARAMETER.on_command_line(self._system)
        if argument and argument.value is not (mode == "shared"):
            raise Refused(
                "the kernel command line has %s, which counts before all files; mode %s would not outlive a reboot"
                % (argument.text, mode),
                modprobe.COMMAND_LINE,
                "take %s out of the boot loader's configuration (or make it %s) and reboot, or call the module"
                " rdma_netns_mode with persist: false"
                % (argument.text, "%s.%s=%d" % (PARAMETER.module, PARAMETER.name, int(mode == "shared"))),
            )
        release = self._system.read("/proc/sys/kernel/osrelease") or ""
        if self._initramfs.built_in(release):
            raise Unsupported(
                "is built into the kernel, which reads no modprobe.d",
                PARAMETER.module,
                "add %s.%s=%d to the kernel command line and reboot"
                % (PARAMETER.module, PARAMETER.name, int(mode == "shared")),
            )
        files = self._file_changes(mode)
        stale = self._initramfs.stale((), rewritten=True)
        return self._initramfs.learnt() + files + self._rebuilds(stale)

    def _rebuilds(self, stale: t.Sequence[tuple[str, str]]) -> list[Change]:
        """Return the changes that rebuild images."""
        finished = [self._finished()] if self._system.exists(UNFINISHED) else []
        return [self._initramfs.rebuild(*each) for each in stale] + finished

    def _finished(self) -> Change:
        return Change(UNFINISHED, "images", "to be built", None, lambda: self._system.forget_file(UNFINISHED))

    def _file_changes(self, mode: str) -> list[Change]:
        """Return the changes of Railyard's file, and of files that would override it."""
        text = HEAD + PARAMETER.line(mode == "shared")
        held = self._system.read_file(FILE)
        changes = []
        if held != text:
            changes.append(self._file_change(FILE, held, text))
        for path, settings in PARAMETER.files(self._system).items():
            name = os.path.basename(path)
            next_load = name > os.path.basename(FILE) and settings[-1].value is not (mode == "shared")
            if path != FILE and (next_load or any(setting.value is None for setting in settings)):
                old = self._system.read_exact(path) or ""
                new = PARAMETER.removed(old)
                # a packaged file is not edited, as its package would restore it; a file in /etc hides it
                target = "%s/%s" % (modprobe.ETC, name)
                changes.append(self._file_change(target, old, new))
        return changes

    def _file_change(self, path: str, before: str | None, after: str) -> Change:
        old, new = self._settings_text(path, before), self._settings_text(path, after)
        return Change(path, PARAMETER.name, old, new, lambda: self._system.edit_file(path, after))

    @staticmethod
    def _settings_text(path: str, text: str | None) -> str | None:
        """Return the settings of the parameter in a file's text; None if there is no file."""
        return None if text is None else " ".join(s.text for s in PARAMETER.settings(path, text)) or "not set"

    # -- running kernel

    def _live_changes(self, state: State) -> list[Change]:
        live, mode = state["live"], self._mode
        if live == mode or self._switch == "never":
            return []
        if live is None:
            if self._switch == "require":
                raise Unsupported(
                    "the RDMA subsystem is not loaded, so there is no mode to switch",
                    PARAMETER.module,
                    "load ib_core (modprobe ib_core), or call the module rdma_netns_mode with switch: try",
                )
            if state["next_boot"] != mode:
                next_load = "%s sets mode %s for its next load" % (FILE, mode)
                if not self._persist:
                    next_load = "persist is false, so nothing sets mode %s" % mode
                self._unloaded = ["the RDMA subsystem is not loaded, so no mode was switched: %s" % next_load]
            self.warnings += self._unloaded
            return []
        self._busy = held = self._held or self._holders()
        if not held:
            return [Change(SUBJECT, "netns", live, mode, self._switch_mode)]
        text = "the rdma mode stays %s while other network namespaces exist: %s" % (live, held)
        if self._switch == "require" or not (self._persist or state["next_boot"] == mode):
            raise Refused(
                text,
                "mode",
                "end what holds them, or call the module rdma_netns_mode with persist: true and"
                " switch: try, and reboot",
            )
        self.warnings.append("%s. A reboot brings mode %s." % (text, mode))
        return []

    def _holders(self) -> str:
        return ", ".join(str(each) for each in network_namespaces.others(self._system))

    def _switch_mode(self) -> None:
        sock = self._connect(self._system)
        if sock is None:
            raise RailyardError("the RDMA subsystem was unloaded meanwhile", PARAMETER.module, "run the task again")
        try:
            with contextlib.closing(sock):
                self._retry_while_busy(sock)
        except NetlinkError as error:
            if error.errno == errno.EBUSY:
                self._held = self._holders() or "the kernel reports a user, and nothing in /proc shows which"
                raise NotTaken() from None
            if error.errno == errno.EPERM:
                error.remedy = "run the task with become, outside any container"
            raise

    def _retry_while_busy(self, sock: NetlinkSocket) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return rdma_netlink.set_netns_mode(sock, str(self._mode))
            except NetlinkError as error:
                if error.errno != errno.EBUSY or time.monotonic() >= deadline or self._holders():
                    raise
            time.sleep(0.2)


class RdmaModeBack(RdmaMode):
    """Removes Railyard's files, so that other files or the kernel's default take effect.

    The live mode is switched before the files are removed, and images are rebuilt after. An interrupted run is detected
    by the files, by the mark of the images, or by the record of the mode that stays until the next boot.
    """

    def __init__(self, system: System, switch: str, connect: Connect = rdma_netlink.connect) -> None:
        super().__init__(system, None, True, switch, connect)
        self._live = ""

    def changes(self, state: State) -> list[Change]:
        del self.warnings[:]
        system = self._system
        files = self._our_files()
        unfinished = system.exists(UNFINISHED)
        recorded = bool(self._until_boot.read())
        # without settings of an earlier run, the live mode was set by another program
        self._mode = self._next_boot(files)[0] if files or unfinished or recorded else None
        self._live = state["live"] or ""
        switched: list[Change] = []
        if self._mode and self._live:
            switched = self._live_changes(state)
        stays = bool(self._mode and self._live and self._live != self._mode)
        # _switch_mode records its result
        record = [] if switched else self._until_boot.keep([self._reason()] if stays else [])
        rebuilt = self._initramfs.stale((), rewritten=True) if files or unfinished else []
        self._warn_of_unknown()
        changes = record + switched
        if rebuilt and not unfinished:
            images = [image for _release, image in rebuilt]
            changes.append(Change(UNFINISHED, "images", None, images, lambda: system.write_file(UNFINISHED, "")))
        changes += [self._removal(path) for path in files]
        changes += [self._initramfs.rebuild(*each) for each in rebuilt]
        if rebuilt or unfinished:
            changes.append(self._finished())
        if system.exists(KNOWN):
            changes.append(Change(KNOWN, PARAMETER.module, "as known", None, lambda: system.forget_file(KNOWN)))
        return changes

    def _our_files(self) -> list[str]:
        """Return Railyard's files: first those that hide a packaged file by a copy without the mode."""
        system = self._system
        if not system.exists(FILE):
            return []
        found = []
        hidden = {}
        for directory in modprobe.DIRECTORIES[:0:-1]:
            hidden.update({name: "%s/%s" % (directory, name) for name in system.listdir(directory)})
        for name in system.listdir(modprobe.ETC):
            text = (system.read_file(hidden[name]) or "") if name in hidden else ""
            path = "%s/%s" % (modprobe.ETC, name)
            if PARAMETER.settings(path, text) and system.read_file(path) == PARAMETER.removed(text):
                found.append(path)
        return [*found, FILE]

    def _removal(self, path: str) -> Change:
        held = self._settings_text(path, self._system.read_file(path))
        attribute = PARAMETER.name if path == FILE else "hides %s" % os.path.basename(path)
        return Change(path, attribute, held, None, lambda: self._system.remove_file(path))

    def _reason(self) -> Staying:
        return Staying("rdma-mode", (self._live, str(self._mode)))

    def _switch_mode(self) -> None:
        try:
            super()._switch_mode()
        except NotTaken:
            self._record([self._reason()])
            raise
        self._record([])

    def _record(self, reasons: t.Sequence[Staying]) -> None:
        for change in self._until_boot.keep(reasons):
            change.act()


def _build(options: t.Mapping[str, t.Any], system: System) -> RdmaMode:
    if options["state"] == "absent":
        return RdmaModeBack(system, options["switch"])
    return RdmaMode(system, options["mode"], options["persist"], options["switch"])


LAYER = Layer(SPEC, _build, required_if=[("state", "present", ["mode"])])
