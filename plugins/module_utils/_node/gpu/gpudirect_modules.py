# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module gpudirect: the path from GPU memory to the NIC, its modules, and their loading at boot."""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
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
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu import gpu_observed as observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpu_observed import GpuFacts

LOAD_FILE = "/etc/modules-load.d/railyard-gpudirect.conf"
ORDER_FILE = "/etc/modprobe.d/railyard-gpudirect.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/railyard-gpudirect.conf"
OPENIBD = ("/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/")
FILES = ((LOAD_FILE, "modules"), (ORDER_FILE, "softdep"), (DROP_IN, "ExecStartPost"))
HEAD = "# Written by railyard.fabric.gpudirect.\n"
# The names in files of modprobe(8); the kernel's have an underscore.
NAMES = {observed.PEERMEM: "nvidia-peermem", observed.GDRDRV: "gdrdrv"}
# The peer memory interface is in ib_core or, in newer OFED, in ib_uverbs. The dependencies of nvidia-peermem name it,
# unless it was built without the interface. The GPU driver must be loaded before nvidia-peermem registers itself.
ORDER = "softdep nvidia_peermem pre: ib_core ib_uverbs nvidia\n"
# openibd unloads the users of the RDMA core, and does not load nvidia-peermem again.
DROP_IN_TEXT = HEAD + "[Service]\nExecStartPost=-%s nvidia-peermem\n"

SPEC: dict[str, t.Any] = {
    "path": {"type": "str", "choices": ["auto", "dmabuf", "peermem", "none"], "default": "auto"},
    "gdrcopy": {"type": "bool"},
    "cuda_dmabuf": {"type": "bool"},
    "flavour": {"type": "str", "choices": ["open", "proprietary"]},
    "unload": {"type": "bool", "default": False},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class GpuDirectState(t.Dict[str, t.Any]):
    """The state in the shape of the options. ``facts``: the observed facts."""

    facts: GpuFacts


class GpuDirect(Subsystem):
    """GPUDirect RDMA of the node. The options are those of module gpudirect.

    :param architecture: for tests; default: this machine's.
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

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> GpuDirectState:
        """Return ``path`` and ``gdrcopy`` in use, the best possible ``choice`` with its reason, and the facts."""
        facts = observed.look(self._system, self._cuda_dmabuf, self._architecture)
        best = facts.best
        live = choice.NONE
        if not best.obstacles[choice.DMABUF] and facts.driver and facts.driver["loaded"]:
            live = choice.DMABUF
        elif facts.peermem["loaded"] or facts.peer_memory:
            live = choice.PEERMEM
        state = GpuDirectState(
            path=live,
            gdrcopy=facts.gdrdrv["loaded"],
            choice={"path": best.path, "reason": best.reason, "remedy": best.remedy},
            obstacles={
                path: [{"message": obstacle.message, "remedy": obstacle.remedy} for obstacle in obstacles]
                for path, obstacles in best.obstacles.items()
            },
            gpus=facts.gpus,
            driver=facts.driver,
            rdma=facts.rdma,
            peermem=facts.peermem,
            gdrdrv=facts.gdrdrv,
            kernel={
                "release": facts.inputs.kernel,
                "architecture": facts.inputs.architecture,
                "dma_shared_buffer": facts.inputs.shared_buffer,
                "lockdown": facts.modules.lockdown(),
                "signatures_enforced": facts.inputs.enforced,
            },
            notices=facts.notices,
        )
        state.facts = facts
        self.warnings = self._notices(facts) if self._gather else []
        return state

    def _notices(self, facts: GpuFacts) -> list[str]:
        flavour = facts.driver["flavour"] if facts.driver else None
        if not self._flavour or flavour in (None, self._flavour):
            return list(facts.notices)
        text = "The GPU driver has the %s kernel modules, not the %s ones. Remedy: install those and reboot."
        return [*facts.notices, text % (flavour, self._flavour)]

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        facts = t.cast(GpuDirectState, state).facts
        if self._absent:
            return self._revert(facts)
        self.warnings = self._notices(facts)
        path = str(state["choice"]["path"]) if self._path == choice.AUTO else self._path
        errors: list[RailyardError] = []
        changes: list[Change] = []
        # amdkfd registers itself: no path of AMD's GPUs needs a module
        peermem = path == choice.PEERMEM and not facts.of_amd
        # gdrcopy may be None: then gdrdrv is not changed
        for name, row, desired in (
            (observed.PEERMEM, facts.peermem, peermem),
            (observed.GDRDRV, facts.gdrdrv, self._gdrcopy),
        ):
            with collected(errors):
                if desired:
                    self._check(name, row, facts)
                    if not row["loaded"]:
                        load = partial(facts.modules.load, NAMES[name])
                        changes.append(Change(name, "loaded", False, True, load))
                elif desired is False and row["loaded"]:
                    changes += self._unload_changes(name, row, facts)
        if self._path not in (choice.AUTO, choice.NONE):
            obstacles = state["obstacles"][self._path]
            errors = [RailyardError(row["message"], "path", row["remedy"]) for row in obstacles] + errors
        elif self._path == choice.AUTO and path == choice.NONE and facts.gpus:
            self.warnings.append(
                "GPUDirect RDMA is not possible: %s. Remedy: %s."
                % (state["choice"]["reason"], state["choice"]["remedy"])
            )
        raise_all(errors)
        if self._persist:
            changes += self._boot_changes(peermem, facts)
        return changes + self._until_boot.keep([])

    def _revert(self, facts: GpuFacts) -> list[Change]:
        """Remove the files of this module and, if ``unload`` is set, unload the modules that they load."""
        reported = self._until_boot.read()
        contained = bool(facts.driver and facts.driver["from"] == observed.CONTAINER)
        listed = (self._system.read(LOAD_FILE) or "").splitlines()
        errors: list[RailyardError] = []
        changes: list[Change] = []
        staying: list[Staying] = []
        ended: list[Staying] = []
        for name, row in ((observed.PEERMEM, facts.peermem), (observed.GDRDRV, facts.gdrdrv)):
            stays = Staying("gpu-module", (str(row.get("name", name)),))
            managed = (NAMES[name] in listed or stays in reported) and not contained
            if not row["loaded"]:
                ended.append(stays)
            elif managed and self._unload:
                ended.append(stays)
                with collected(errors):
                    changes += self._unload_changes(name, row, facts)
            elif managed:
                staying.append(stays)
        raise_all(errors)
        changes += [change for path, attribute in FILES for change in self._file(path, attribute, None)]
        return self._until_boot.around(changes, staying, ended)

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        if self._absent:
            return self._until_boot.outcome()
        unwanted = self._path == choice.NONE and state["peermem"]["loaded"] and not self._gather
        if not unwanted or any(change.subject == observed.PEERMEM for change in pending):
            return {"reboot_required": False, "reboot_reasons": []}
        return {
            "reboot_required": True,
            "reboot_reasons": ["nvidia_peermem is loaded until the next boot, although path: none is set"],
        }

    def _check(self, name: str, row: observed.Row, facts: GpuFacts) -> None:
        """Refusals before a module is loaded."""
        if facts.of_amd:
            raise Refused("is a module for NVIDIA's GPUs", NAMES[name], "remove gdrcopy on nodes with GPUs of others")
        if facts.driver and facts.driver["from"] == observed.CONTAINER:
            # nvidia-peermem of the container is considered by the choice of the path
            if name == observed.PEERMEM or row["loaded"]:
                return
            raise Refused(
                "the GPU driver comes from a container, whose modules the host cannot load",
                NAMES[name],
                "set the GPU Operator's gdrcopy.enabled: true",
            )
        if row["barred"]:
            raise Refused("is not loaded because of %s" % row["barred"], NAMES[name], "remove that line")
        if name != observed.GDRDRV or row["loaded"]:
            return
        if not row["installed"]:
            raise Unsupported(
                "is missing for the kernel %s" % facts.inputs.kernel,
                NAMES[name],
                "install gdrcopy's package gdrdrv-dkms (gdrcopy-kmod on EL)",
            )
        if facts.driver and row["flavour"] and facts.driver["flavour"] not in (None, row["flavour"]):
            raise Refused(
                "is built for %s kernel modules of the GPU driver, but they are %s"
                % (row["flavour"], facts.driver["flavour"]),
                NAMES[name],
                "rebuild it: dkms remove and dkms install gdrdrv",
            )

    def _unload_changes(self, name: str, row: observed.Row, facts: GpuFacts) -> list[Change]:
        loaded = row.get("name", name)
        if self._unload and not (facts.driver and facts.driver["from"] == observed.CONTAINER):
            users = (
                observed.in_use(self._system, facts.modules, loaded)
                if name == observed.PEERMEM
                else facts.modules.users(loaded)
            )
            if users:
                raise Refused(
                    "is in use: %s" % ", ".join(users),
                    loaded,
                    "drain the node, or set gpudirect_unload to false (option unload of the module)",
                )
            return [Change(loaded, "loaded", True, False, lambda: facts.modules.unload(loaded))]
        if self._path == choice.NONE or name == observed.GDRDRV:
            self.warnings.append(
                "%s stays loaded until the next boot, or set gpudirect_unload to true (option unload of the module)."
                % loaded
            )
        return []

    # -- the next boot ------------------------------------------------------------------------------------------------

    def _boot_changes(self, peermem: bool, facts: GpuFacts) -> list[Change]:
        """``peermem``: whether nvidia-peermem is needed."""
        contained = bool(facts.driver and facts.driver["from"] == observed.CONTAINER)
        peermem = peermem and not contained
        gdrdrv = bool(self._gdrcopy) and not contained
        if self._gdrcopy is None:
            gdrdrv = facts.gdrdrv["at_boot"] == LOAD_FILE
        if self._path == choice.NONE and facts.peermem["at_boot"] not in (None, LOAD_FILE):
            self.warnings.append("path: none is set, but %s loads nvidia-peermem at boot." % facts.peermem["at_boot"])
        names = [
            NAMES[name]
            for name, row, needed in (
                (observed.PEERMEM, facts.peermem, peermem),
                (observed.GDRDRV, facts.gdrdrv, gdrdrv),
            )
            # unless another file loads it
            if needed and row["at_boot"] in (None, LOAD_FILE)
        ]
        texts = (
            HEAD + "".join(name + "\n" for name in names) if names else None,
            HEAD + ORDER if peermem else None,
            self._drop_in() if peermem else None,
        )
        return [change for (file, attribute), text in zip(FILES, texts) for change in self._file(file, attribute, text)]

    def _drop_in(self) -> str | None:
        if not any(self._system.exists(directory + "openibd.service") for directory in OPENIBD):
            return None
        return DROP_IN_TEXT % (self._system.which("modprobe") or "/sbin/modprobe")

    def _file(self, path: str, attribute: str, text: str | None) -> list[Change]:
        before = self._system.read_file(path)
        if before == text:
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
                # openibd may be restarted before the next boot
                self._system.run([systemctl, "daemon-reload"])

        return [Change(path, attribute, _body(before), _body(text), act)]


def _body(text: str | None) -> str | None:
    """Return the lines of a file without comments and sections, joined with commas."""
    if text is None:
        return None
    return ", ".join(line for line in text.splitlines() if line and line[0] not in "#[")


LAYER = Layer(SPEC, GpuDirect)
