# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a directory, with a systemd that starts the unit of a service as it is written."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.installed_service import InstalledService
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System


class ServiceMachine(System):
    """The node. ``starts``: whether the service can be started. ``calls``: verbs of systemctl in the last run."""

    def __init__(self, root: Path, build: type[InstalledService], spec: dict[str, t.Any]) -> None:
        super().__init__(str(root), self.answer)
        self._build, self._spec = build, spec
        self.starts, self.active, self.loaded = True, False, ""
        self.calls: list[str] = []
        os.makedirs(self.path("/run/systemd/system"))

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        assert argv[0] == "systemctl", argv
        verb, service = argv[1], self._build.service
        text = self.read_file(service.unit) or ""
        if verb == "show":
            state = ("active", "4711") if self.active else ("inactive", "0")
            loaded = "yes" if self.loaded != text else "no"
            return CommandResult(0, "ActiveState=%s\nMainPID=%s\nNeedDaemonReload=%s\n" % (*state, loaded), "")
        self.calls.append(verb)
        if verb == "daemon-reload":
            self.loaded = text
        elif verb == "restart" and not self.starts:
            return CommandResult(1, "", "Job for %s failed" % service.name)
        elif verb == "restart":
            self.active = True
            stamp = next(line for line in self.loaded.splitlines() if service.stamp in line)
            self.write_file("/proc/4711/environ", "A=b\0%s\0" % stamp.partition("=")[2])
        elif verb == "stop":
            self.active = False
        return CommandResult(0, "", "")

    def service(self, **options: t.Any) -> InstalledService:
        return self._build(dict({"spec": self._spec}, **options), self)

    def apply(self, **options: t.Any) -> list[Change]:
        """What was done. Check mode predicts it, and a second run has nothing to do."""
        service = self.service(**options)
        state = service.observe()
        foreseen = service.changes(state)
        self.calls = []
        done: list[Change] = []
        converge(service, state, foreseen, done)
        assert [each.as_dict() for each in done] == [each.as_dict() for each in foreseen]
        again = self.service(**options)
        assert again.changes(again.observe()) == []
        return done

    def files(self) -> list[str]:
        found = [path for path in Path(self.root).rglob("*") if path.is_symlink() or path.is_file()]
        names = ["/" + str(path.relative_to(self.root)) for path in found]
        return sorted(name for name in names if name.startswith(("/etc", "/usr", "/var", "/run/railyard")))
