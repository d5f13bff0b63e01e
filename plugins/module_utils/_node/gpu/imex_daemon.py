# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The IMEX daemon of the host, ``nvidia-imex``, which shares GPU memory between the nodes of an NVLink domain.

Its nodes file has the IP address of each node of the domain, one per line. The daemons compare their lists, and fail if
these differ. The daemon reads its files only at its start. Programs that use IMEX hold a channel open, and lose the
memory of other nodes if the daemon stops. Sources: NVIDIA's IMEX guide, "Deployment Models", "IMEX Service Config
Options" and "IMEX Channels" (docs.nvidia.com/multi-node-nvlink-systems/imex-guide, read 2026-11-29). With
ComputeDomains, the daemons run in pods, and the service of the host is disabled and masked: NVIDIA/cloud-native-docs
issue 453 (2026-07).
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import SETTING, STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

UNIT = "nvidia-imex.service"
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
# The state before the first change, which ``state: absent`` restores.
RECORD = "/var/lib/railyard/imex.json"
CHANNELS = "/dev/nvidia-caps-imex-channels/"
HOST, COMPUTE_DOMAIN = "host", "compute-domain"
_NODES_KEY = re.compile(r"^[ \t]*IMEX_NODE_CONFIG_FILE[ \t]*=[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_SECONDS = 120.0
_PROPERTIES = "LoadState,ActiveState,UnitFileState,ExecMainStartTimestampMonotonic"
_MASKED = ("masked", "masked-runtime")
# state of the unit file -> the verb of systemctl that sets it
_VERBS = {"enabled": "enable", "disabled": "disable", "masked": "mask"}

SPEC: dict[str, t.Any] = {
    "daemon": {"type": "str", "choices": [HOST, COMPUTE_DOMAIN], "default": HOST},
    "nodes": {"type": "list", "elements": "str", "default": []},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class ImexDaemon(Subsystem):
    """See the documentation of the module ``imex_daemon`` for the options."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options["state"] == "absent"
        self._on_host = options["daemon"] == HOST
        self._nodes: list[str] = list(options["nodes"] or ())
        # whether it has a process, also while it starts; and whether the nodes file changed after its start
        self._running = self._outdated = False

    def observe(self) -> State:
        unit = self._unit()
        text = self._system.read_file(NODES)
        self._running = _is_running(unit)
        self._outdated = self._running and self._system.modified(NODES) > _started(unit)
        return {
            "nodes": None if text is None else _addresses(text),
            "installed": unit.get("LoadState") in ("loaded", "masked"),
            "enabled": unit.get("UnitFileState") or None,
            # not while it starts: a daemon that fails again and again is "activating" most of the time
            "active": unit.get("ActiveState") in ("active", "reloading"),
        }

    def _unit(self) -> dict[str, str]:
        """Return systemd's properties of the service; empty without systemd."""
        if not self._system.exists("/run/systemd/system"):
            return {}
        argv = ["systemctl", "show", "--property=" + _PROPERTIES, UNIT]
        output = self._system.check(argv, "see that systemd answers", timeout=60)
        return dict(line.partition("=")[::2] for line in output.splitlines())

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            return self._restored(state)
        if not self._on_host:
            return self._service(state, "masked", False) if state["installed"] else []
        self._refuse(state)
        text = "".join("%s\n" % address for address in self._nodes)
        return self._with_nodes(state, text, "enabled", True)

    def _refuse(self, state: State) -> None:
        """Raise all reasons for which the daemon cannot run as planned."""
        errors = []
        if not state["installed"]:
            remedy = "install the package nvidia-imex of the release of the GPU driver"
            errors.append(RailyardError("%s is not installed" % UNIT, "daemon", remedy))
        if not self._nodes:
            errors.append(RailyardError("no address is given", "nodes", "give the address of each node of the domain"))
        for at, address in enumerate(self._nodes):
            place = "nodes[%d]" % at
            if address in self._nodes[:at]:
                errors.append(RailyardError("%s is given already" % address, place, "give each address once"))
            try:
                ipaddress.ip_address(address)
            except ValueError:
                errors.append(RailyardError("%r is not an IP address" % address, place, "give IP addresses only"))
        found = _NODES_KEY.findall(self._system.read_file(CONFIG) or "")
        if found and found[-1] != NODES:
            message = "IMEX_NODE_CONFIG_FILE is %s, not %s" % (found[-1], NODES)
            errors.append(RailyardError(message, CONFIG, "remove the line, which restores the default"))
        raise_all(errors)

    def _with_nodes(self, state: State, text: str | None, enabled: str | None, active: bool) -> list[Change]:
        """Return the changes to a nodes file (None: no file) and to a state of the service.

        The daemon is stopped before the file changes. So a daemon that this module started has read the file, also
        after an interrupted run. One that others started before the last change of the file is restarted.
        """
        same = self._system.read_file(NODES) == text
        if same and not (active and self._outdated):
            return self._service(state, enabled, active)
        changes = []
        if self._running:
            changes.append(self._stop(STEP))
        # also with the same text: a file with a time in the future would restart the daemon in each run
        write = partial(self._write, text)
        after = None if text is None else _addresses(text)
        # a setting of the daemon that runs, and not only of the next boot
        place, before = (UNIT, None) if same else (NODES, state["nodes"])
        changes.append(Change(place, "nodes", before, after, self._recorded(write), kind=SETTING))
        return changes + self._service(state, enabled, active, stopped=self._running)

    def _write(self, text: str | None) -> None:
        if text is None:
            self._system.forget_file(NODES)
        else:
            self._system.write_file(NODES, text)

    def _service(self, state: State, enabled: str | None, active: bool, stopped: bool = False) -> list[Change]:
        """Return the changes of the service. ``stopped``: whether another change stops it, and its start is a step."""
        changes = []
        now = state["enabled"]
        if self._running and not active and not stopped:
            changes.append(self._stop())
        if enabled and now != enabled:
            verbs = [["unmask"], ["unmask", "--runtime"]] if now in _MASKED else []
            verbs += [["disable"]] if (now, enabled) == ("enabled", "masked") else []
            run = partial(self._systemctl, [*verbs, [_VERBS[enabled]]])
            changes.append(Change(UNIT, "enabled", now, enabled, self._recorded(run)))
        if active and (stopped or not state["active"]):
            act = self._recorded(partial(self._systemctl, [["start"]]))
            changes.append(Change(UNIT, "active", False, True, act, kind=STEP if stopped else ""))
        return changes

    def _stop(self, kind: str = "") -> Change:
        """Return the change that stops the daemon. Raises an error if a program uses IMEX."""
        users = self._users()
        if users:
            message = "%s uses GPU memory of other nodes, and would lose it" % ", ".join(users)
            raise RailyardError(message, UNIT, "end it, or drain the node, and run again")
        act = self._recorded(partial(self._systemctl, [["stop"]]))
        return Change(UNIT, "active", True, False, act, kind=kind)

    def _users(self) -> list[str]:
        """Return the processes that hold an IMEX channel open, as texts for an error."""
        opened = network_namespaces.users_of_files(self._system, _is_channel, network_namespaces.sees_all())
        pids = sorted({pid for each in opened.values() for pid in each})
        return ["%s (pid %d)" % (network_namespaces.command(self._system, pid), pid) for pid in pids]

    def _systemctl(self, verbs: t.Sequence[t.Sequence[str]]) -> None:
        for verb in verbs:
            self._system.check(["systemctl", *verb, UNIT], "see 'systemctl status %s'" % UNIT, timeout=_SECONDS)

    # -- removal

    def _recorded(self, act: t.Callable[[], None]) -> t.Callable[[], None]:
        """Return ``act`` after the record of the state before the first change."""

        def with_record() -> None:
            if not self._absent and not self._system.exists(RECORD):
                unit = self._unit()
                row = {
                    "nodes": self._system.read_file(NODES),
                    "enabled": unit.get("UnitFileState") or None,
                    "active": _is_running(unit),
                }
                self._system.write_file(RECORD, json.dumps(row) + "\n", mode=0o600)
            act()

        return with_record

    def _restored(self, state: State) -> list[Change]:
        """Return the changes that restore the state before the first change; none without a record of it."""
        text = self._system.read_file(RECORD)
        if text is None:
            return []
        try:
            row = json.loads(text)
            nodes, enabled, active = row["nodes"], row["enabled"], bool(row["active"])
            if not isinstance(nodes, (str, type(None))):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            remedy = "set the service %s by hand, and remove the file" % UNIT
            raise RailyardError("the record of the former state is damaged", RECORD, remedy) from None
        forget = Change(RECORD, "record", "present", None, partial(self._system.remove_file, RECORD))
        if not state["installed"]:
            # the package was removed since: the service does not exist
            enabled, active = None, False
        return [*self._with_nodes(state, nodes, enabled if enabled in _VERBS else None, active), forget]


def _is_channel(path: str) -> bool:
    return path.startswith(CHANNELS)


def _is_running(unit: t.Mapping[str, str]) -> bool:
    return unit.get("ActiveState", "inactive") not in ("inactive", "failed")


def _started(unit: t.Mapping[str, str]) -> float:
    """Return when the daemon was started, in nanoseconds since 1970; infinity if systemd does not report it."""
    text = unit.get("ExecMainStartTimestampMonotonic", "")
    started = int(text) if text.isdigit() else 0
    return (time.time() - time.monotonic()) * 1e9 + started * 1e3 if started else float("inf")


def _addresses(text: str) -> list[str]:
    """Return the lines of a nodes file that are neither empty nor comments."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


LAYER = Layer(SPEC, ImexDaemon)
