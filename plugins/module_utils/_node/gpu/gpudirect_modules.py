# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""GPUDirect RDMA on a node: which way GPU memory takes to the NIC, the modules for it, and their place at boot."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu import gpu_observed as seen
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpu_observed import Seen

LOAD_FILE = "/etc/modules-load.d/railyard-gpudirect.conf"
ORDER_FILE = "/etc/modprobe.d/railyard-gpudirect.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/railyard-gpudirect.conf"
OPENIBD = ("/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/")
FILES = ((LOAD_FILE, "modules"), (ORDER_FILE, "softdep"), (DROP_IN, "ExecStartPost"))
HEAD = "# Written by railyard.fabric.gpudirect.\n"
# As modprobe(8) and the file's own name have it; the kernel has an underscore.
NAMES = {seen.PEERMEM: "nvidia-peermem", seen.GDRDRV: "gdrdrv"}
# The peer memory interface is ib_core's or, in newer OFED, ib_uverbs's: dependencies name the right one, but for a
# module that was built for neither. GPUs must be there before nvidia-peermem registers itself.
ORDER = "softdep nvidia_peermem pre: ib_core ib_uverbs nvidia\n"
# openibd takes the RDMA core's users out with it, and knows nothing of bringing this one back.
DROP_IN_TEXT = HEAD + "[Service]\nExecStartPost=-%s nvidia-peermem\n"


class Look(t.Dict[str, t.Any]):
    """The state in option shape, and the look that it was made from."""

    seen: Seen


class GpuDirect(Subsystem):
    """GPUDirect RDMA of the node. See the module's documentation for the options.

    :param architecture: for tests; this machine's unless given.
    """

    def __init__(self, options: t.Mapping[str, t.Any], system: System, architecture: str | None = None) -> None:
        super().__init__()
        self._system = system
        self._architecture = architecture
        self._path = options.get("path") or choice.AUTO
        self._gdrcopy: bool | None = options.get("gdrcopy")
        self._cuda_dmabuf: bool | None = options.get("cuda_dmabuf")
        self._persist = bool(options.get("persist", True))
        self._flavour: str | None = options.get("flavour")
        self._unload = bool(options.get("unload", False))
        self._gather = options.get("state") == "gathered"
        self._absent = options.get("state") == "absent"
        self._until_boot = UntilBoot(system, "gpudirect")

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> GpuDirect:
        return cls(options, system)

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(self) -> Look:
        """``path`` and ``gdrcopy`` as they are now, the ``choice`` with its reasons, and what it was made from."""
        found = seen.look(self._system, self._cuda_dmabuf, self._architecture)
        made = choice.choose(found.inputs)
        now = choice.NONE
        if not made.obstacles[choice.DMABUF] and found.driver and found.driver["loaded"]:
            now = choice.DMABUF
        elif found.peermem["loaded"]:
            now = choice.PEERMEM
        look = Look(
            path=now,
            gdrcopy=found.gdrdrv["loaded"],
            choice={"path": made.path, "reason": made.reason, "remedy": made.remedy},
            obstacles={
                way: [{"message": each.message, "remedy": each.remedy} for each in obstacles]
                for way, obstacles in made.obstacles.items()
            },
            gpus=found.gpus,
            driver=found.driver,
            rdma=found.rdma,
            peermem=found.peermem,
            gdrdrv=found.gdrdrv,
            kernel={
                "release": found.inputs.kernel,
                "architecture": found.inputs.architecture,
                "dma_shared_buffer": found.inputs.shared_buffer,
                "lockdown": found.modules.lockdown(),
                "signatures_enforced": found.inputs.enforced,
            },
            notices=found.notices,
        )
        look.seen = found
        self.warnings = self._told(found) if self._gather else []
        return look

    def _told(self, found: Seen) -> list[str]:
        told = list(found.notices)
        flavour = found.driver["flavour"] if found.driver else None
        if self._flavour and flavour not in (None, self._flavour):
            told.append(
                "The GPU driver has the %s kernel modules, and %s ones are wanted. Remedy: install those and reboot."
                % (flavour, self._flavour)
            )
        return told

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            return self._taken_back(t.cast(Look, state).seen)
        found = t.cast(Look, state).seen
        self.warnings = self._told(found)
        wanted = self._wanted(state)
        errors: list[RailyardError] = []
        changes: list[Change] = []
        for name, row, is_wanted in (
            (seen.PEERMEM, found.peermem, wanted == choice.PEERMEM),
            (seen.GDRDRV, found.gdrdrv, self._gdrcopy),
        ):
            try:
                if is_wanted:
                    self._check(name, row, found)
                    if not row["loaded"]:
                        changes.append(self._load(name, found))
                elif is_wanted is False and row["loaded"]:
                    changes += self._leave(name, row, found)
            except RailyardError as error:
                errors.append(error)
        if self._path not in (choice.AUTO, choice.NONE):
            errors = [
                RailyardError(each["message"], "path", each["remedy"]) for each in state["obstacles"][self._path]
            ] + errors
        elif self._path == choice.AUTO and wanted == choice.NONE and found.gpus:
            self.warnings.append(
                "GPUDirect RDMA is not possible: %s. Remedy: %s."
                % (state["choice"]["reason"], state["choice"]["remedy"])
            )
        raise_all(errors)
        if self._persist:
            changes += self._boot_changes(wanted, found)
        return changes + self._until_boot.keep([])

    def _taken_back(self, found: Seen) -> list[Change]:
        """No file of ours is left, and of the modules that they load none that is unloaded with leave."""
        noted = self._until_boot.read()
        contained = bool(found.driver and found.driver["from"] == seen.CONTAINER)
        listed = (self._system.read(LOAD_FILE) or "").splitlines()
        errors: list[RailyardError] = []
        changes: list[Change] = []
        staying: list[Staying] = []
        ended: list[Staying] = []
        for name, row in ((seen.PEERMEM, found.peermem), (seen.GDRDRV, found.gdrdrv)):
            stays = Staying("gpu-module", (str(row.get("name", name)),))
            ours = (NAMES[name] in listed or stays in noted) and not contained
            if not row["loaded"]:
                ended.append(stays)
            elif ours and self._unload:
                ended.append(stays)
                try:
                    changes += self._leave(name, row, found)
                except RailyardError as error:
                    errors.append(error)
            elif ours:
                staying.append(stays)
        raise_all(errors)
        changes += [change for path, attribute in FILES for change in self._file(path, attribute, None)]
        return self._until_boot.around(changes, staying, ended)

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        if self._absent:
            return self._until_boot.outcome()
        unwanted = self._path == choice.NONE and state["peermem"]["loaded"] and not self._gather
        if not unwanted or any(change.subject == seen.PEERMEM for change in pending):
            return {"reboot_required": False, "reboot_reasons": []}
        return {
            "reboot_required": True,
            "reboot_reasons": ["nvidia_peermem is loaded, is not wanted, and goes with a reboot"],
        }

    def _wanted(self, state: State) -> str:
        return str(state["choice"]["path"]) if self._path == choice.AUTO else self._path

    def _check(self, name: str, row: seen.Row, found: Seen) -> None:
        """Refusals before a module is loaded."""
        if found.driver and found.driver["from"] == seen.CONTAINER:
            # of nvidia-peermem the choice has spoken
            if name == seen.PEERMEM or row["loaded"]:
                return
            raise Refused(
                "the GPU driver comes from a container, with modules of its own that the host cannot load",
                NAMES[name],
                "set the GPU Operator's gdrcopy.enabled: true",
            )
        if row["barred"]:
            raise Refused("is kept from being loaded by %s" % row["barred"], NAMES[name], "take that line out")
        if name != seen.GDRDRV or row["loaded"]:
            return
        if not row["installed"]:
            raise Unsupported(
                "is not there for the kernel %s" % found.inputs.kernel,
                NAMES[name],
                "install gdrcopy's package gdrdrv-dkms (gdrcopy-kmod on EL)",
            )
        if found.driver and row["flavour"] and found.driver["flavour"] not in (None, row["flavour"]):
            raise Refused(
                "is built for %s kernel modules of the GPU driver, and they are %s"
                % (row["flavour"], found.driver["flavour"]),
                NAMES[name],
                "build it anew: dkms remove and dkms install gdrdrv",
            )

    def _load(self, name: str, found: Seen) -> Change:
        return Change(name, "loaded", False, True, lambda: found.modules.load(NAMES[name]))

    def _leave(self, name: str, row: seen.Row, found: Seen) -> list[Change]:
        """What is done about a module that is loaded and not wanted."""
        loaded = row.get("name", name)
        if self._unload and not (found.driver and found.driver["from"] == seen.CONTAINER):
            users = (
                seen.in_use(self._system, found.modules, loaded)
                if name == seen.PEERMEM
                else found.modules.users(loaded)
            )
            if users:
                raise Refused("is in use: %s" % ", ".join(users), loaded, "drain the node, or set unload: false")
            return [Change(loaded, "loaded", True, False, lambda: found.modules.unload(loaded))]
        if self._path == choice.NONE or name == seen.GDRDRV:
            self.warnings.append("%s stays loaded until the next boot, or set unload: true." % loaded)
        return []

    # -- the next boot ------------------------------------------------------------------------------------------------

    def _boot_changes(self, wanted: str, found: Seen) -> list[Change]:
        contained = bool(found.driver and found.driver["from"] == seen.CONTAINER)
        peermem = wanted == choice.PEERMEM and not contained
        gdrdrv = bool(self._gdrcopy) and not contained
        if self._gdrcopy is None:
            gdrdrv = found.gdrdrv["at_boot"] == LOAD_FILE
        if self._path == choice.NONE and found.peermem["at_boot"] not in (None, LOAD_FILE):
            self.warnings.append("nvidia-peermem is not wanted, and %s loads it." % found.peermem["at_boot"])
        names = [
            NAMES[name]
            for name, row, needed in (
                (seen.PEERMEM, found.peermem, peermem),
                (seen.GDRDRV, found.gdrdrv, gdrdrv),
            )
            # another's file will do
            if needed and row["at_boot"] in (None, LOAD_FILE)
        ]
        texts = (
            HEAD + "".join(name + "\n" for name in names) if names else None,
            HEAD + ORDER if peermem else None,
            self._drop_in() if peermem else None,
        )
        return [change for (path, what), text in zip(FILES, texts) for change in self._file(path, what, text)]

    def _drop_in(self) -> str | None:
        if not any(self._system.exists(place + "openibd.service") for place in OPENIBD):
            return None
        return DROP_IN_TEXT % (self._system.which("modprobe") or "/sbin/modprobe")

    def _file(self, path: str, attribute: str, text: str | None) -> list[Change]:
        held = self._system.read_file(path)
        if held == text:
            return []

        def act() -> None:
            if text is None and path == DROP_IN:
                self._system.forget_file(path)
            elif text is None:
                self._system.remove_file(path)
            else:
                self._system.write_file(path, text)
            systemctl = self._system.which("systemctl") if path == DROP_IN else None
            if systemctl:
                # openibd may be restarted before the next boot; without systemd running there is nothing to tell
                self._system.run([systemctl, "daemon-reload"])

        return [Change(path, attribute, _body(held), _body(text), act)]


def _body(text: str | None) -> str | None:
    """A file's lines without its comments, as one line."""
    if text is None:
        return None
    return ", ".join(line for line in text.splitlines() if line and line[0] not in "#[")
