# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail agent as a service: serves devices to the kubelet, attaches pods, and follows the node file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_metrics,
    agent_socket,
    cdi_files,
    rail_health,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import FILE, AgentSpec, read_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.kubelet_servers import KubeletServers
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.boot_lock import Lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import Problems, log, notify
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_server
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import DIRECTORY
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.pod_resources import allocated_devices
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unattached import Unattached
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unix_sockets import import_grpc
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.metrics_server import MetricsServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.address_watch import Conflict
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.node_events import NodeEvents

# Beside the record of slots. One agent holds it.
LOCK = "/var/lib/railyard/agent/lock"
# Directories with the agent's record, sockets and CDI files.
OWN_DIRECTORIES = (
    os.path.dirname(LOCK),
    os.path.dirname(agent_socket.SOCKET),
    cdi_files.DIRECTORY,
    DIRECTORY,
    dra_server.PLUGINS,
    dra_server.REGISTRY,
)
# Seconds between two passes of the loop without an event: while a problem exists, and otherwise.
TICK, IDLE_TICK = 2.0, 10.0
# Seconds between checks of links and CDI files without an event, and between sweeps of devices whose pods have ended.
LOOK_SECONDS = 30.0
Document = t.Dict[str, t.Any]


def _members(health: rail_health.Health) -> Document:
    """Return what ``status`` shows of the bond of a rail, or of the planes of its NIC; empty without both."""
    if health.members is None:
        return {}
    members = health.members
    return {"members": members.planned, "active_members": members.active, "degraded": health.degraded}


class LoggingSocket(agent_socket.AgentSocket):
    """The agent's socket. Failures are logged, and kept for ``explain``."""

    attaches: agent_socket.Attaches

    def answer(self, line: bytes) -> Document:
        document = super().answer(line)
        if document.get("ok") is False:
            log("attach refused: %s" % document["error"])
            if document["reason"] != "request":
                request = json.loads(line)
                self.attaches.keep_failure(str(request["device"]), request["state"], document["error"])
        return document


def run(system: System) -> int:
    """Run the agent of this node until SIGTERM or SIGINT, and return the exit status.

    Two agents would write one record from two memories, so nothing is read before the lock is held.

    :raises RailyardError: if another agent runs, or this one cannot start or go on.
    """
    lock = Lock(system, "railyard-agent", LOCK)
    take(lock)
    try:
        return Service(system, lock).run()
    finally:
        lock.release()


def take(lock: Lock) -> None:
    """Lock this node for one agent. Raises :class:`RailyardError` if another agent runs."""
    if not lock.take():
        remedy = "use it (railyard-agent status), or end it first (systemctl stop railyard-agent)"
        raise RailyardError("another agent serves this node: %s" % lock.holder, lock.file, remedy)


class Service:
    """One agent. Its constructor and :meth:`run` raise :class:`RailyardError` if it cannot start. Later problems are
    logged, and shown by ``status``.
    """

    def __init__(self, system: System, lock: Lock) -> None:
        self._system = system
        self._lock = lock
        self._wake = threading.Event()
        self._ending = False
        self._reload = False
        self._look_due = False
        self._file_time = system.modified(FILE)
        self._spec = read_spec(system)
        self._state = SlotState(system)
        self._attaches = agent_socket.Attaches()
        self._problems = Problems(log, lambda: notify("WATCHDOG=1"))
        self._health = rail_health.DeviceHealth(system, self._problems)
        self._unattached = Unattached(system)
        self._pods: PodAttach | None = None
        self._socket: LoggingSocket | None = None
        self._metrics: MetricsServer | None = None
        self._kubelet = KubeletServers(
            system, self._spec, self._state, self._attaches, self._problems, self._node_changed
        )
        self._writable = [each for each in OWN_DIRECTORIES if self._is_writable(each)]

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit status. SIGHUP reads the node file again.

        Pods keep their interfaces when the agent ends.
        """
        import_grpc()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)
        try:
            self._apply(self._spec)
            notify("READY=1")
            log("railyard-agent %s serves node %s" % (VERSION, self._spec.node))
            self._serve(NodeEvents(self._node_changed))
        finally:
            notify("STOPPING=1")
            self._close()
        return 0

    def _serve(self, events: NodeEvents) -> None:
        last_look = float("-inf")
        followed = False
        while not self._ending:
            self._follow_own_files()
            self._follow_file()
            due = time.monotonic() - last_look > LOOK_SECONDS
            if due or self._look_due:
                self._look_due = False
                self._look()
            if due:
                last_look = time.monotonic()
                self._problems.attempt("sweep", self._sweep)
                self._compare_allocated()
            self._problems.attempt("kubelet", self._kubelet.keep)
            self._problems.attempt("metrics", self._serve_metrics)
            self._end_failures()
            # in each pass, as a directory may have been removed and created again
            watches = [events.watch(self._system.path(directory)) for directory in self._directories()]
            if all(watches) and not followed:
                # changes of this pass were not reported
                self._node_changed()
            followed = all(watches)
            settled = followed and self._kubelet.watched and not self._problems.messages and not self._look_due
            self._wake.wait(IDLE_TICK if settled else TICK)
            self._wake.clear()

    def _follow_own_files(self) -> None:
        """Create the lock file and the socket again if another program removed or replaced them.

        :raises RailyardError: if the agent cannot write a directory any more. It then ends, and systemd starts it again
            with the directories of its unit: one that was removed and created again is read-only for the service.
        """
        for directory in self._writable:
            if not self._is_writable(directory):
                remedy = "run findmnt -T %s, if systemd does not start the agent again without this error" % directory
                raise RailyardError("the agent cannot write it any more", directory, remedy)
        if not self._lock.held:
            take(self._lock)
            log("%s: it was removed, and is created again" % LOCK)
        if self._socket and not self._socket.serving:
            self._socket.start()
            log("%s: it was removed or replaced, and is created again" % agent_socket.SOCKET)

    def _is_writable(self, directory: str) -> bool:
        """Return whether the agent can write a directory, or create it."""
        path = self._system.path(directory)
        while not os.path.exists(path):
            path = os.path.dirname(path)
        return os.access(path, os.W_OK)

    def _directories(self) -> list[str]:
        own = [os.path.dirname(FILE), os.path.dirname(agent_socket.SOCKET), cdi_files.DIRECTORY]
        return [*own, DIRECTORY] if self._kubelet.has_plugins else own

    def _node_changed(self) -> None:
        self._look_due = True
        self._wake.set()

    def _signalled(self, number: int, _frame: t.Any) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._ending = True
        self._wake.set()

    def _follow_file(self) -> None:
        changed = self._system.modified(FILE)
        if not self._reload and changed == self._file_time:
            # a file that could not be used may have been replaced by the one in use
            self._problems.attempt(FILE, lambda: None)
            return

        def reload() -> None:
            self._apply(read_spec(self._system))
            # not reached after an error, so that the next pass tries again
            self._reload = False
            self._file_time = changed
            log("the node file was read again")

        self._problems.attempt(FILE, reload)

    def _sweep(self) -> None:
        if self._pods and self._pods.sweep(lambda: notify("WATCHDOG=1")):
            # the devices of pods that have ended may be offered again
            self._node_changed()

    def _end_failures(self) -> None:
        """Forget failed attaches of pods that the kubelet has deleted. For claims, the driver does it."""
        if self._kubelet.has_plugins and self._attaches.failures():
            with contextlib.suppress(RailyardError):
                rows = allocated_devices(self._system, self._spec.resource_prefix)
                current = {("%s/%s" % (row.namespace, row.pod), device) for row in rows for device in row.devices}
                self._attaches.end_failures(lambda failure: (failure.pod, failure.device) not in current)

    def _apply(self, spec: AgentSpec) -> None:
        """Pass a node file to all parts of the agent. Running pods are not changed.

        :raises RailyardError: if the agent cannot serve it. Nothing has changed then.
        """
        claims = self._kubelet.check(spec, self._pods is not None)
        if self._pods is None:
            self._pods = PodAttach(self._system, spec, self._state)
            self._pods.check_pod = self._kubelet.check_pod
            self._pods.watch.changed = self._conflict_changed
            # before the first attach: recover() undoes every attach that is not complete
            self._pods.recover()
            self._problems.log_new((), self._pods.unrecorded)
        # nothing below is refused. A running attach continues with the spec that it started with.
        self._pods.spec = self._spec = spec
        self._health.follow(spec)
        self._kubelet.follow(spec, self._pods, claims)
        if self._socket is None:
            # after the choice of the driver, which checks the pods that are attached
            path = self._system.path(agent_socket.SOCKET)
            self._socket = LoggingSocket(self._pods, self.status, self._attach_ended, path)
            self._socket.attaches = self._attaches
            self._socket.start()
        self._look()

    def _attach_ended(self, device: str, seconds: float, reason: str | None) -> None:
        self._attaches.count_attach(device, seconds, reason)
        if reason is None:
            self._kubelet.attached(device)

    def _conflict_changed(self, conflict: Conflict, over: bool) -> None:
        """Log that a conflict of a pod's address begins or ends, and report it in the status of the claim."""
        if self._pods:
            log("%s%s" % ("conflict has ended: " if over else "", self._pods.conflict_row(conflict)["error"]))
        # the driver may just have been stopped
        with contextlib.suppress(RuntimeError):
            self._kubelet.attached(conflict.owner)

    def _serve_metrics(self) -> None:
        """Serve metrics at the address of the node file. If it cannot be used, those of the last address stay."""
        last, address = self._metrics, self._spec.metrics
        if address == (last and last.address):
            return
        if last and address and address.rpartition(":")[2] == str(last.port):
            # two sockets cannot have one port, if one of them has all addresses
            last.close()
            self._metrics = None
        try:
            new = self._metrics_at(address)
        except RailyardError:
            if last and self._metrics is None:
                self._metrics = self._metrics_at(last.address)
            raise
        if self._metrics:
            self._metrics.close()
        self._metrics = new

    def _metrics_at(self, address: str | None) -> MetricsServer | None:
        return MetricsServer(address, self.metrics, FILE) if address else None

    def _look(self) -> None:
        """Update the health of devices and the CDI files, which change with the node's RDMA devices and links."""
        self._problems.attempt("links", lambda: self._health.look(self._spec, list(self._state.holders().values())))
        # after the health, so that a device is healthy only if its CDI file has what made it healthy
        self._problems.attempt("CDI files", lambda: cdi_files.write_cdi(self._system, self._spec))
        resources = self._spec.resources().items()
        self._kubelet.update({name: list(map(self._health.device_state, devices)) for name, devices in resources})
        self._look_due = self._look_due or self._health.incomplete

    def _compare_allocated(self) -> None:
        before = self._unattached.problems
        self._unattached.look(
            self._spec.resource_prefix,
            self._kubelet.take_allocated(),
            lambda: {device: holder.pod for device, holder in self._state.holders().items()},
        )
        self._problems.log_new(before, self._unattached.problems)

    def status(self) -> Document:
        """Return the status document, which ``status`` and ``explain`` show and metrics count."""
        if self._pods:
            with contextlib.suppress(RailyardError):
                self._pods.sweep()
        held_problems = list(self._pods.problems.values()) if self._pods else []
        conflicts = self._pods.conflicts() if self._pods else []
        holders = self._state.holders()
        spec = self._spec
        rails = [(rail, self._health.rail(rail.rail)) for rail in spec.rails]
        claims = list(self._kubelet.claims.claims().values())
        problems = [
            *self._problems.messages,
            *self._health.slot_problems(),
            *self._unattached.problems,
            *held_problems,
            *self._kubelet.held_elsewhere().values(),
            *self._kubelet.claim_errors,
            *(conflict["error"] for conflict in conflicts),
        ]
        held = set(holders).union(*(claim.device_names for claim in claims))
        return {
            "version": VERSION,
            "fabric": spec.fabric,
            "node": spec.node,
            "attachment": spec.attachment,
            "rdma_mode": spec.rdma_mode,
            "rails": [
                {
                    "rail": rail.rail,
                    "port": rail.netdev,
                    "healthy": health.healthy,
                    "cordoned": bool(health.cordon),
                    "reason": health.reason,
                    **_members(health),
                }
                for rail, health in rails
            ],
            "kubelet_plugin": spec.kubelet_plugin,
            "resources": [
                {
                    "resource": self._kubelet.full_name(name),
                    "devices": len(devices),
                    "held": sum(device.id in held for device in devices),
                    "registered": self._kubelet.registered(self._kubelet.full_name(name)),
                }
                for name, devices in spec.resources().items()
            ],
            "claims": [claim.as_dict() for claim in claims],
            "holders": [holder.shown() for _device, holder in sorted(holders.items())],
            "attaches": self._attaches.as_dict(),
            "conflicts": conflicts,
            "unattached": len(self._unattached.problems),
            # an API server that does not answer is a problem of slices and of claims
            "problems": list(dict.fromkeys(problems)),
        }

    def metrics(self) -> str:
        out, holders = Exposition(), list(self._state.holders().values())
        agent_metrics.add_agent(out, self.status())
        agent_metrics.add_pods(out, self._system, holders)
        agent_metrics.add_rdma(out, self._system, self._spec, holders)
        return out.text()

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
        self._kubelet.stop()
        if self._metrics:
            self._metrics.close()
