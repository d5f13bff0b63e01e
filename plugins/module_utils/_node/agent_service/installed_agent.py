# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module rail_agent: installs, configures, starts and removes the rail agent of a node.

The agent is restarted for a changed spec too. A restart does not change the interfaces of running pods.
"""

from __future__ import annotations

import contextlib
import json
import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_main,
    agent_service,
    agent_spec,
    cdi_files,
    hook,
    slot_state,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import container_runtime
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program, root_owned
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.installed_service import (
    HIDDEN,
    OPTIONS,
    REQUIRED_IF,
    InstalledService,
    PackedService,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import prepared_claims
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file

KUBELET = "/var/lib/kubelet"
KUBELETS = ("kubelet", "k3s", "rke2")
# Isolated, as the unit runs it: without PYTHONPATH and without the packages of root's home directory.
_IMPORTS = (
    "import importlib.util as u, json, sys; s = u.find_spec('grpc');"
    " print(json.dumps([path for path in [*sys.path, s.origin] if path.startswith('/')])) if s else sys.exit(1)"
)
Record = t.TypeVar("Record")

# The agent enters the network namespaces of pods and sets sysctls there, so it needs CAP_SYS_ADMIN and CAP_SYS_PTRACE.
# The unit creates the kubelet's directories of plugins, because the kubelet may start later for the first time.
SERVICE = PackedService(
    "agent",
    agent_main.__name__,
    agent_spec.FILE,
    description="the rail agent",
    purpose="Gives pods their interfaces on the rails.",
    order="Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service\n",
    settings="""\
WatchdogSec=60
TimeoutStartSec=300
# 256 clients of the socket, each with a few files and two threads, 16 of the metrics, and the kubelet's
LimitNOFILE=16384
TasksMax=2048
Restart=always
RestartSec=2
StateDirectory=railyard/agent kubelet/device-plugins kubelet/plugins kubelet/plugins_registry
StateDirectoryMode=0750
RuntimeDirectory=railyard cdi
RuntimeDirectoryPreserve=yes
CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN CAP_SYS_PTRACE
DevicePolicy=closed
PrivateMounts=yes
""",
    tunables="",
    namespaces="net",
    umask="0077",
)
SPEC: dict[str, t.Any] = dict(
    OPTIONS, runtime_check={"type": "bool", "default": True}, force={"type": "bool", "default": False}
)


class RailAgent(InstalledService):
    """The installed agent. The options are those of module rail_agent."""

    service = SERVICE
    title = "the agent"
    spec_remedy = "use railyard_node.agent of the inventory"
    spec_restarts = True
    # longer than TimeoutStartSec=
    restart_seconds = 400
    own_files = (
        (cdi_files.HOOK, "program"),
        (agent_service.LOCK, "lock"),
        (slot_state.FILE, "slots"),
        (prepared_claims.FILE, "claims"),
        (cordon_file.CORDONS, "cordons"),
    )

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__(options, system)
        self._force = bool(options.get("force"))
        self._runtime_check = bool(options.get("runtime_check", True))
        self._imports: dict[str, list[str] | None] = {}

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        return dict(
            super().observe(),
            runtime=None if self._absent else container_runtime.observe(self._system),
            slots=self._slots(),
            claims=self._claims(),
        )

    def _slots(self) -> list[dict[str, t.Any]]:
        if self._shown.get("ActiveState") == "active" and self._system.exists(hook.SOCKET):
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

    # -- changes ------------------------------------------------------------------------------------------------------

    def _programs(self, python: str, compiled: bool) -> list[tuple[str, bytes]]:
        entry = hook.__name__[len(packed_program.PACKAGE) + 1 :]
        program = packed_program.executable(python, packed_program.imported(entry), entry, compiled)
        return [*super()._programs(python, compiled), (cdi_files.HOOK, program)]

    def _spec_rows(self, observed: t.Any, before: str | None) -> list[tuple[str, str, t.Any, t.Any]]:
        """Return one row per different value. Values of a whole rail or slot are not shown."""
        differences = list(_differences("spec", observed, self._spec)) if observed else []
        return [
            (SERVICE.spec, path, _brief(before, "present"), _brief(after, "as planned"))
            for path, before, after in differences or [("spec", "other" if observed else None, self._spec)]
        ]

    def _removal(self, state: State) -> list[Change]:
        if not self._force:
            remedy = "drain the node first, or set agent_force to true (option force of the module)"
            raise_all([_held_error(device, user, remedy) for device, user in _users(state).items()])
        return super()._removal(state)

    def _withdrawal(self) -> list[Change]:
        files = cdi_files.own_files(self._system)
        remove = partial(cdi_files.remove_cdi, self._system)
        return [Change(cdi_files.DIRECTORY, "devices", files, None, remove)] if files else []

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _errors(self, state: State) -> list[RailyardError]:
        errors = [*super()._errors(state), *self._change_errors(state), *self._kubelet_errors()]
        if self._runtime_check:
            with collected(errors):
                container_runtime.check(state["runtime"])
        return errors

    def _spec_errors(self) -> list[RailyardError]:
        return cdi_files.other_files(self._system, agent_spec.parse_spec(self._spec))

    def _python_errors(self, python: str) -> list[RailyardError]:
        found = self._imported(python)
        if found is None:
            message = "its module grpc, with which the agent talks to the kubelet, is not installed"
            remedy = "install python3-grpcio, or set ansible_python_interpreter to a Python of root with grpcio"
            return [Unsupported(message, python, remedy)]
        reasons = {root_owned.why_not_place(self._system, path): path for path in found}
        remedy = "make it root's with chown and chmod, or set ansible_python_interpreter to another Python with grpcio"
        return [
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
        if directory.startswith(HIDDEN):
            message = "it is a link to %s, which a service with ProtectHome= cannot read" % directory
            remedy = "move the directory of the kubelet out of %s" % ", ".join(each.rstrip("/") for each in HIDDEN)
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
        return {"missing": ["grpc"] if self._imported(self._python()) is None else []}


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


LAYER = Layer(SPEC, RailAgent, REQUIRED_IF)
