# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module rail_agent: installs, configures, starts and removes the rail agent of a node.

The service is restarted only if it does not run the installed program, spec and unit. Its environment has a stamp of
them. A restart does not change the interfaces of running pods.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change, batch
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec, cdi_files, hook, slot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import (
    agent_files,
    container_runtime,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import prepared_claims

SYSTEMD = "/run/systemd/system"
SHOWN = "--property=ActiveState,MainPID,NeedDaemonReload"
KUBELET = "/var/lib/kubelet"
KUBELETS = ("kubelet", "k3s", "rke2")
# What ProtectHome= hides.
PROTECTED = ("/home/", "/root/", "/run/user/")
# Isolated, as the unit runs it: without PYTHONPATH and without the packages of root's home directory.
_IMPORTS = (
    "import importlib.util as u, json, sys; s = u.find_spec('grpc');"
    " print(json.dumps([path for path in [*sys.path, s.origin] if path.startswith('/')])) if s else sys.exit(1)"
)
Record = t.TypeVar("Record")
LOG = "run 'journalctl -u %s'" % agent_files.SERVICE

SPEC: dict[str, t.Any] = {
    "spec": {"type": "dict"},
    "runtime_check": {"type": "bool", "default": True},
    "force": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class RailAgent(Subsystem):
    """The installed agent. The options are those of module rail_agent."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options.get("state") == "absent"
        self._spec: dict[str, t.Any] = options.get("spec") or {}
        self._force = bool(options.get("force"))
        self._runtime_check = bool(options.get("runtime_check", True))
        self._service: dict[str, str] = {}
        self._imports: dict[str, list[str] | None] = {}

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        self._service = self._read_service()
        return {
            "spec": self._installed_spec(),
            "service": {
                "enabled": self._system.exists(agent_files.UNIT_WANTED),
                "active": self._service.get("ActiveState") == "active",
            },
            "runtime": None if self._absent else container_runtime.observe(self._system),
            "slots": self._slots(),
            "claims": self._claims(),
        }

    def _read_service(self) -> dict[str, str]:
        if not self._system.exists(SYSTEMD) or not self._system.exists(agent_files.UNIT):
            return {}
        argv = ["systemctl", "show", SHOWN, agent_files.SERVICE]
        properties = self._system.check(argv, "make sure that systemd answers", timeout=60)
        return dict(line.partition("=")[::2] for line in properties.splitlines())

    def _installed_spec(self) -> dict[str, t.Any] | None:
        try:
            spec = json.loads(self._system.read(agent_files.SPEC) or "null")
        except ValueError:
            return None
        return spec if isinstance(spec, dict) else None

    def _slots(self) -> list[dict[str, t.Any]]:
        if self._service.get("ActiveState") == "active" and self._system.exists(hook.SOCKET):
            # before the agent answers, it frees the slots of pods that have ended
            with contextlib.suppress(OSError, ValueError):
                hook.ask({"do": "status"}, self._system.path(hook.SOCKET), seconds=20)
        holders = self._recorded(lambda: slot_state.SlotState(self._system).holders())
        return [
            {
                "device": device,
                "namespace": holder.pod_namespace,
                "pod": holder.pod_name,
                "container": holder.container,
            }
            for device, holder in sorted(holders.items())
        ]

    def _claims(self) -> list[dict[str, t.Any]]:
        claims = self._recorded(lambda: prepared_claims.ClaimState(self._system).claims())
        return [
            {
                "namespace": claim.namespace,
                "claim": claim.name,
                "pod": claim.pod_name,
                "devices": claim.device_names,
                "driver": claim.driver,
                "pool": claim.pool,
            }
            for _uid, claim in sorted(claims.items())
        ]

    def _recorded(self, read: t.Callable[[], dict[str, Record]]) -> dict[str, Record]:
        """Return the rows of a record. A damaged record is empty if the agent is removed by force.

        :raises RailyardError: if the record is damaged.
        """
        try:
            return read()
        except RailyardError:
            if self._absent and self._force:
                return {}
            raise

    def _stamp(self) -> str | None:
        pid = self._service.get("MainPID", "0")
        environment = self._system.read_file("/proc/%s/environ" % pid) if pid != "0" else None
        values = dict(entry.partition("=")[::2] for entry in (environment or "").split("\0"))
        return values.get(agent_files.STAMP)

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        return self._removal(state) if self._absent else self._installation(state)

    def _installation(self, state: State) -> list[Change]:
        self._check(state)
        system = self._system
        files, stamp = agent_files.changed_files(system, self._spec)
        changes = []
        for file in files:
            write = partial(system.write_file, file.path, file.data, file.mode)
            if file.path == agent_files.SPEC:
                changes += batch(_spec_rows(state["spec"], self._spec), write)
            else:
                before = None if file.observed is None else "other"
                changes.append(Change(file.path, file.attribute, before, "as packed", write))
        if not state["service"]["enabled"]:
            enable = partial(system.symlink, agent_files.UNIT, agent_files.UNIT_WANTED)
            changes.append(Change(agent_files.UNIT_WANTED, "enabled", False, True, enable))
        if any(file.path == agent_files.UNIT for file in files) or self._service.get("NeedDaemonReload") == "yes":
            changes.append(Change("systemd", "units", "older", "reloaded", self._reload, kind=STEP))
        running = self._stamp() if state["service"]["active"] else None
        if running != stamp:
            if state["service"]["active"]:
                change = Change(agent_files.SERVICE, "service", "older", "started", self._restart, kind=STEP)
            else:
                # not a step: a stopped service differs from the plan, even if all files are as planned
                before = self._service.get("ActiveState", "inactive")
                change = Change(agent_files.SERVICE, "service", before, "started", self._restart)
            changes.append(change)
        return changes

    def _removal(self, state: State) -> list[Change]:
        system = self._system
        if not self._force:
            remedy = "drain the node first, or set agent_force to true (option force of the module)"
            raise_all([_held_error(device, user, remedy) for device, user in _users(state).items()])
        changes = []
        if self._service.get("ActiveState", "inactive") not in ("inactive", "failed"):
            changes.append(Change(agent_files.SERVICE, "service", "started", "stopped", self._stop, kind=STEP))
        if state["service"]["enabled"]:
            remove = partial(system.remove_file, agent_files.UNIT_WANTED)
            changes.append(Change(agent_files.UNIT_WANTED, "enabled", True, False, remove))
        files = cdi_files.own_files(system)
        if files:
            changes.append(Change(cdi_files.DIRECTORY, "devices", files, None, partial(cdi_files.remove_cdi, system)))
        for path, attribute in (
            (agent_files.UNIT, "unit"),
            (agent_files.COMMAND, "command"),
            (agent_files.HOOK, "program"),
            (agent_files.PROGRAM, "program"),
            (agent_files.LOCK, "lock"),
            (agent_files.SLOTS, "slots"),
            (agent_files.CLAIMS, "claims"),
            (agent_files.CORDONS, "cordons"),
            (agent_files.SPEC, "spec"),
        ):
            if system.exists(path):
                changes.append(Change(path, attribute, "there", None, partial(system.forget_file, path)))
            if path == agent_files.UNIT and system.exists(path) and system.exists(SYSTEMD):
                changes.append(Change("systemd", "units", "older", "reloaded", self._reload, kind=STEP))
        return changes

    def _reload(self) -> None:
        self._system.check(["systemctl", "daemon-reload"], "check the units that it names", timeout=120)

    def _restart(self) -> None:
        self._system.check(["systemctl", "restart", agent_files.SERVICE], LOG, timeout=400)

    def _stop(self) -> None:
        self._system.check(["systemctl", "stop", agent_files.SERVICE], LOG, timeout=120)

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _check(self, state: State) -> None:
        errors: list[RailyardError] = []
        try:
            errors += cdi_files.other_files(self._system, agent_spec.parse_spec(self._spec))
        except RailyardError as error:
            errors.append(RailyardError(error.message, "spec", "use railyard_node.agent of the inventory"))
        if not self._system.exists(SYSTEMD):
            remedy = "use a node that runs systemd"
            errors.append(Unsupported("the agent is a systemd service, and systemd does not run", SYSTEMD, remedy))
        errors += self._change_errors(state)
        errors += self._program_errors()
        errors += self._kubelet_errors()
        if self._runtime_check:
            try:
                container_runtime.check(state["runtime"])
            except Unsupported as error:
                errors.append(error)
        raise_all(errors)

    def _program_errors(self) -> list[RailyardError]:
        """Return why root must not execute the programs, or cannot: what they consist of is in root's hands only."""
        errors: list[RailyardError] = []
        for path in (agent_files.PROGRAM, agent_files.COMMAND):
            try:
                root_owned.check_place(self._system, path)
            except Refused as error:
                errors.append(error)
        try:
            python = agent_files.python(self._system)
        except Refused as error:
            return [*errors, error]
        found = self._imported(python)
        if found is None:
            message = "its module grpc, with which the agent talks to the kubelet, is not installed"
            remedy = "install python3-grpcio, or set ansible_python_interpreter to a Python of root with grpcio"
            return [*errors, Unsupported(message, python, remedy)]
        reasons = {root_owned.why_not_place(self._system, path): path for path in found}
        remedy = "make it root's with chown and chmod, or set ansible_python_interpreter to another Python with grpcio"
        return errors + [
            Refused("root would import modules of %s: %s" % (path, reason), python, remedy)
            for reason, path in sorted(reasons.items())
            if reason
        ]

    def _change_errors(self, state: State) -> list[RailyardError]:
        """Return an error for each device that a pod has by a device plugin or driver which the spec does not have.

        The kubelet cannot end pods with claims of a driver that is not registered, and does not know that slots of its
        device plugin are held when a driver offers them.
        """
        before, after = state["spec"] or {}, self._spec
        keys = (("kubelet_plugin", agent_spec.DEVICE_PLUGIN), ("resource_prefix", None), ("node", None))
        values = [(key, before.get(key, default), after.get(key, default)) for key, default in keys]
        changed = ["%s from %s to %s" % value for value in values if value[1] != value[2]]
        if not changed:
            return []
        by_dra = after.get("kubelet_plugin") == agent_spec.DRA
        claims = {device: claim for claim in state["claims"] for device in claim["devices"]}
        remedy = "drain the node first (kubectl drain), and run the playbook again"
        errors = []
        for device, user in _users(state).items():
            if device in claims:
                driver = claims[device]["driver"] or before.get("resource_prefix")
                pool = claims[device]["pool"] or before.get("node")
                kept = by_dra and (driver, pool) == (after.get("resource_prefix"), after.get("node"))
            else:
                prefix = after.get("resource_prefix")
                kept = not by_dra and before.get("resource_prefix", prefix) == prefix
            if not kept:
                errors.append(_held_error(device, "%s, and the spec changes %s" % (user, ", ".join(changed)), remedy))
        return errors

    def _kubelet_errors(self) -> list[RailyardError]:
        """Return errors of a kubelet whose directory the agent cannot use.

        The kubelet has device plugins in /var/lib/kubelet always, and DRA drivers in its root directory.
        """
        system = self._system
        directory = system.real_path(KUBELET)
        if directory.startswith(PROTECTED):
            message = "it is a link to %s, which a service with ProtectHome= cannot read" % directory
            remedy = "move the directory of the kubelet out of %s" % ", ".join(each.rstrip("/") for each in PROTECTED)
            return [Unsupported(message, KUBELET, remedy)]
        if self._spec.get("kubelet_plugin") != agent_spec.DRA:
            return []
        roots = {system.real_path(root) for root in _kubelet_roots(system)} - {directory}
        message = "the kubelet runs with --root-dir=%s, where it looks for DRA drivers"
        remedy = "start the kubelet without --root-dir, or make %s a symbolic link to that directory" % KUBELET
        return [Unsupported(message % root, KUBELET, remedy) for root in sorted(roots)]

    def _imported(self, python: str) -> list[str] | None:
        """Return the paths that the agent imports modules from with an interpreter; None if it does not have grpc."""
        if python not in self._imports:
            result = self._system.run([python, "-I", "-c", _IMPORTS], timeout=60)
            self._imports[python] = json.loads(result.out) if result.rc == 0 else None
        return self._imports[python]

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        if self._absent:
            return {}
        return {"missing": ["grpc"] if self._imported(agent_files.python(self._system)) is None else []}


def _kubelet_roots(system: System) -> t.Iterator[str]:
    """Yield the values of --root-dir of running kubelets, also of kubelets inside of K3s and RKE2."""
    for name in system.listdir("/proc"):
        if name.isdigit() and (system.read("/proc/%s/comm" % name) or "").startswith(KUBELETS):
            # --root-dir=DIRECTORY, --root-dir DIRECTORY, --kubelet-arg=root-dir=DIRECTORY
            line = (system.read_file("/proc/%s/cmdline" % name) or "").replace("\0", " ")
            yield from re.findall(r"(?:--|=)root-dir[= ](/\S*)", line)


def _users(state: State) -> dict[str, str]:
    """Return the devices that pods have, each with the words for its pod or claim."""
    users = {
        device: "is prepared for claim %s of pod %s/%s" % (claim["claim"], claim["namespace"], claim["pod"])
        for claim in state["claims"]
        for device in claim["devices"]
    }
    users.update((slot["device"], "is held by pod %s/%s" % (slot["namespace"], slot["pod"])) for slot in state["slots"])
    return dict(sorted(users.items()))


def _held_error(device: str, message: str, remedy: str) -> RailyardError:
    return Refused(message, "slot " + device, remedy)


def _spec_rows(observed: t.Any, desired: t.Any) -> list[tuple[str, str, t.Any, t.Any]]:
    """Return the rows of the node file's change, one per different value. Values of a whole rail or slot are not shown.

    A row has path of the file, path of the value, value before and value after.
    """
    differences = list(_differences("spec", observed, desired)) if observed else []
    rows = differences or [("spec", "other" if observed else None, desired)]
    return [
        (agent_files.SPEC, path, _brief(before, "present"), _brief(after, "as planned")) for path, before, after in rows
    ]


def _differences(path: str, observed: t.Any, desired: t.Any) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    observed_parts, desired_parts = _parts(observed), _parts(desired)
    if observed_parts is None or desired_parts is None:
        if observed != desired:
            yield path, observed, desired
        return
    for key in [*desired_parts, *(key for key in observed_parts if key not in desired_parts)]:
        yield from _differences("%s.%s" % (path, key), observed_parts.get(key), desired_parts.get(key))


def _parts(value: t.Any) -> dict[str, t.Any] | None:
    """Return a mapping as it is, and a list of rails or slots by their names; None for other values."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        name = "rail" if "rail" in value[0] else "number"
        if all(name in row for row in value):
            return {str(row[name]): row for row in value}
    return value if isinstance(value, dict) else None


def _brief(value: t.Any, whole: str) -> t.Any:
    return value if _parts(value) is None else whole


LAYER = Layer(SPEC, RailAgent, [("state", "present", ["spec"])])
