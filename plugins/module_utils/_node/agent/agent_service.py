# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent as a service: serves devices to the kubelet, attaches pods, and follows the node file."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import sys
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import (
    agent_metrics,
    agent_socket,
    cdi_files,
    rail_health,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    DRA,
    FILE,
    Device,
    RailSpec,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import DraFront
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.node_events import NodeEvents
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.boot_lock import Lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_server
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import (
    DIRECTORY,
    PluginServer,
    Resource,
    kubelet_identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unattached import Unattached
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unix_sockets import import_grpc
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.metrics_server import MetricsServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.address_watch import Conflict
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node

# The version of the collection, as in galaxy.yml.
VERSION = "0.1.0"
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


def notify(text: str) -> None:
    """Send a state to systemd, if it started this program; see sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(text.encode())


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class LoggingSocket(agent_socket.AgentSocket):
    """The agent's socket. Failures are logged, and kept for ``explain``."""

    attaches: agent_socket.Attaches

    def answer(self, line: bytes) -> Document:
        document = super().answer(line)
        if document.get("ok") is False:
            log("attach refused: %s" % document["error"])
            if document["reason"] != "request":
                self.attaches.keep_error(str(json.loads(line)["device"]), document["error"])
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
        self._health: dict[str, rail_health.Health] = {}
        self._rdma_down: dict[tuple[str, int | None], str] = {}
        self._unattached = Unattached(system)
        self._numa: dict[str, int | None] = {}
        self._servers: dict[str, PluginServer] = {}
        self._dra: DraFront | None = None
        self._pods: PodAttach | None = None
        self._socket: LoggingSocket | None = None
        self._metrics: MetricsServer | None = None
        self._problems: dict[str, str] = {}
        self._writable = [each for each in OWN_DIRECTORIES if self._is_writable(each)]

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit status. SIGHUP reads the node file again.

        Pods keep their interfaces when the agent ends.
        """
        import_grpc()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)
        try:
            self._apply()
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
                if self._pods:
                    self._attempt("sweep", functools.partial(self._pods.sweep, lambda: notify("WATCHDOG=1")))
                self._compare_allocated()
            self._attempt("kubelet", self._follow_kubelet)
            # in each pass, as a directory may have been removed and created again
            watches = [events.watch(self._system.path(directory)) for directory in self._directories()]
            if all(watches) and not followed:
                # changes of this pass were not reported
                self._node_changed()
            followed = all(watches)
            listening = all(server.resource.stream.watched for server in self._servers.values())
            settled = followed and listening and not self._problems and not self._look_due
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
        return own if self._dra else [*own, DIRECTORY]

    def _node_changed(self) -> None:
        self._look_due = True
        self._wake.set()

    def _signalled(self, number: int, _frame: t.Any) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._ending = True
        self._wake.set()

    def _attempt(self, place: str, act: t.Callable[[], t.Any]) -> None:
        """Call ``act``, which may fail temporarily, and record its problem under ``place``.

        The log has each problem once, and its end. The watchdog is notified after each call, because a slow kubelet may
        take seconds for each of many resources.
        """
        try:
            act()
        except RailyardError as error:
            if self._problems.get(place) != str(error):
                self._problems[place] = str(error)
                log(str(error))
        else:
            if self._problems.pop(place, None):
                log("%s: the problem is over" % place)
        finally:
            notify("WATCHDOG=1")

    def _follow_file(self) -> None:
        changed = self._system.modified(FILE)
        if not self._reload and changed == self._file_time:
            return

        def reload() -> None:
            self._spec = read_spec(self._system)
            self._apply()
            # not reached after an error, so that the next pass tries again
            self._reload = False
            self._file_time = changed
            log("the node file was read again")

        self._attempt(FILE, reload)

    def _follow_kubelet(self) -> None:
        if self._dra:
            self._attempt("DRA driver", self._dra.keep)
            return
        kubelet = kubelet_identity(self._system)
        for server in self._servers.values():
            self._attempt(server.resource.full_name, functools.partial(server.keep, kubelet))

    def _apply(self) -> None:
        """Pass the last read node file to all parts of the agent. Running pods are not changed."""
        if self._pods is None:
            self._pods = PodAttach(self._system, self._spec, self._state)
            self._pods.watch.changed = self._conflict_changed
            # before the first attach: recover() undoes every attach that is not complete
            self._pods.recover()
            for problem in self._pods.unrecorded:
                log(problem)
        # a running attach continues with the spec that it started with
        self._pods.spec = self._spec
        self._numa = {rail.rail: self._numa_node(rail) for rail in self._spec.rails}
        self._choose_servers()
        if self._socket is None:
            # after the choice of the driver, which checks the pods that are attached
            path = self._system.path(agent_socket.SOCKET)
            self._socket = LoggingSocket(self._pods, self.status, self._attach_ended, path)
            self._socket.attaches = self._attaches
            self._socket.start()
        self._look()
        self._attempt("metrics", self._serve_metrics)

    def _choose_servers(self) -> None:
        """Start and stop the device plugins or the DRA driver, as the node file requires."""
        by_dra = self._spec.kubelet_plugin == DRA
        resources = {} if by_dra else {self._full_name(name): name for name in self._spec.resources()}
        for full_name in sorted(set(self._servers) - set(resources)):
            self._servers.pop(full_name).stop()
            self._problems.pop(full_name, None)
        for full_name, name in resources.items():
            if full_name not in self._servers:
                resource = Resource(self._spec.resource_prefix, name, self._state.holders)
                self._servers[full_name] = PluginServer(self._system, resource, log)

        if self._dra and not (by_dra and self._dra.names == (self._spec.resource_prefix, self._spec.node)):
            self._dra.stop()
            self._dra = None
            self._problems.pop("DRA driver", None)
        if by_dra and self._pods:
            self._dra = self._dra or DraFront(self._system, self._spec, self._pods, self._state, log)
            self._dra.spec = self._spec

    def _attach_ended(self, device: str, seconds: float, reason: str | None) -> None:
        self._attaches.count_attach(device, seconds, reason)
        if reason is None and self._dra:
            self._dra.attached(device)

    def _conflict_changed(self, conflict: Conflict, over: bool) -> None:
        """Log that a conflict of a pod's address begins or ends, and report it in the status of the claim."""
        if self._pods:
            log("%s%s" % ("conflict has ended: " if over else "", self._pods.conflict_row(conflict)["error"]))
        # the driver may just have been stopped
        with contextlib.suppress(RuntimeError):
            if self._dra:
                self._dra.attached(conflict.owner)

    def _full_name(self, resource: str) -> str:
        return "%s/%s" % (self._spec.resource_prefix, resource)

    def _serve_metrics(self) -> None:
        if self._metrics and self._metrics.address != self._spec.metrics:
            self._metrics.close()
            self._metrics = None
        if self._spec.metrics and not self._metrics:
            self._metrics = MetricsServer(self._spec.metrics, self.metrics, FILE)

    def _numa_node(self, rail: RailSpec) -> int | None:
        if rail.pci:
            return numa_node(self._system, rail.pci)
        node = self._system.read_int("/sys/class/net/%s/device/numa_node" % rail.netdev)
        return None if node is None or node < 0 else node

    def _look(self) -> None:
        """Update the health of devices and the CDI files, which change with the node's RDMA devices and links."""
        self._attempt("links", self._look_at_links)
        # after the health, so that a device is healthy only if its CDI file has what made it healthy
        self._attempt("CDI files", lambda: cdi_files.write_cdi(self._system, self._spec))
        states = {
            name: [self._device_state(device) for device in devices] for name, devices in self._spec.resources().items()
        }
        if self._dra:
            self._dra.update({state.id: state for devices in states.values() for state in devices})
        else:
            for name, devices in states.items():
                self._servers[self._full_name(name)].resource.update(devices)
        # not every kernel reports RDMA devices that appear
        self._look_due = self._look_due or bool(self._rdma_down)

    def _look_at_links(self) -> None:
        cordoned = rail_health.cordons(self._system).all()
        holders = list(self._state.holders().values())
        observed = rail_health.look(self._spec, holders, cordoned, self._system)
        for rail, health in observed.items():
            if self._health.get(rail, rail_health.Health()) != health:
                log("rail %s: %s" % (rail, health.reason or "is healthy again"))
        rdma = rail_health.rdma_down(self._spec, holders, self._system)
        before = self._slot_problems()
        self._health, self._rdma_down = observed, rdma
        for problem in self._slot_problems():
            if problem not in before:
                log(problem)

    def _slot_problems(self) -> list[str]:
        rows = sorted(
            (rail, number, reason) for (rail, number), reason in self._rdma_down.items() if number is not None
        )
        return ["slot %d of rail %s: %s" % (number, rail, reason) for rail, number, reason in rows]

    def _device_state(self, device: Device) -> DeviceState:
        rails = {rail: self._rail_health(rail) for rail in device.slots}
        for rail, slot in device.slots.items():
            reason = self._rdma_down.get((rail, slot.number))
            if reason:
                rails[rail] = rails[rail]._replace(down="; ".join(filter(None, [rails[rail].down, reason])))
        bad = {rail: health for rail, health in rails.items() if not health.healthy}
        reason = "; ".join("rail %s: %s" % (rail, health.reason) for rail, health in bad.items())
        nodes = {self._numa[rail] for rail in device.slots}
        numa = tuple(sorted(node for node in nodes if node is not None))
        cordoned = bool(bad) and not any(health.down for health in bad.values())
        return DeviceState(device.id, not bad, numa, reason, cordoned)

    def _compare_allocated(self) -> None:
        before = self._unattached.problems
        given = {device for server in self._servers.values() for device in server.resource.take_allocated()}
        if self._dra:
            given.update(device for claim in self._dra.state.claims().values() for device in claim.device_names)
        self._unattached.look(
            self._spec.resource_prefix,
            given,
            lambda: {device: holder.pod for device, holder in self._state.holders().items()},
        )
        for problem in self._unattached.problems:
            if problem not in before:
                log(problem)

    def _rail_health(self, rail: str) -> rail_health.Health:
        return self._health.get(rail, rail_health.Health(rail_health.UNREAD))

    def status(self) -> Document:
        """Return the status document, which ``status`` and ``explain`` show and metrics count."""
        if self._pods:
            with contextlib.suppress(RailyardError):
                self._pods.sweep()
        held_problems = list(self._pods.problems.values()) if self._pods else []
        conflicts = self._pods.conflicts() if self._pods else []
        holders = self._state.holders()
        spec = self._spec
        rails = [(rail, self._rail_health(rail.rail)) for rail in spec.rails]
        claims = list(self._dra.state.claims().values()) if self._dra else []
        claim_errors = list(self._dra.claims.errors.values()) if self._dra else []
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
                }
                for rail, health in rails
            ],
            "kubelet_plugin": spec.kubelet_plugin,
            "resources": [
                {
                    "resource": self._full_name(name),
                    "devices": len(devices),
                    "held": sum(device.id in held for device in devices),
                    "registered": self._is_registered(self._full_name(name)),
                }
                for name, devices in spec.resources().items()
            ],
            "claims": [claim.as_dict() for claim in claims],
            "holders": [holder.shown() for _device, holder in sorted(holders.items())],
            "attaches": self._attaches.as_dict(),
            "conflicts": conflicts,
            "unattached": len(self._unattached.problems),
            "problems": [
                *self._problems.values(),
                *self._slot_problems(),
                *self._unattached.problems,
                *held_problems,
                *claim_errors,
                *(conflict["error"] for conflict in conflicts),
            ],
        }

    def _is_registered(self, resource: str) -> bool:
        server = self._servers.get(resource)
        return self._dra.registered if self._dra else bool(server and server.registered)

    def metrics(self) -> str:
        out, holders = Exposition(), list(self._state.holders().values())
        agent_metrics.add_agent(out, self.status())
        agent_metrics.add_pods(out, self._system, holders)
        agent_metrics.add_rdma(out, self._system, self._spec, holders)
        return out.text()

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
        if self._dra:
            self._dra.stop()
        for server in self._servers.values():
            server.stop()
        if self._metrics:
            self._metrics.close()
