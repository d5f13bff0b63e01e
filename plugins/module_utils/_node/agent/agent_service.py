# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent as a service: it serves devices to kubelet, attaches pods, and follows the node file."""

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
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import (
    DIRECTORY,
    PluginServer,
    Resource,
    kubelet_identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unix_sockets import import_grpc
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.exposition import Exposition
from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics.metrics_server import MetricsServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node

# The version of the collection, as in galaxy.yml.
VERSION = "0.1.0"
# Seconds until a step that failed is tried again, or until all is looked at again, if no event comes before.
TICK, IDLE_TICK = 2.0, 10.0
# Seconds between looks at links and CDI files without an event, and between sweeps of devices whose pods have ended.
LOOK_SECONDS = 30.0
Document = t.Dict[str, t.Any]


def notify(text: str) -> None:
    """Report to systemd, if it started this program: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(text.encode())


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Attaches:
    """What became of the attaches since the agent started; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.seconds = 0.0
        self.reasons: dict[str, int] = {}
        self.errors: dict[str, str] = {}

    def ended(self, device: str, seconds: float, reason: str | None) -> None:
        with self._lock:
            self.count += 1
            self.seconds += seconds
            if reason is None:
                self.errors.pop(device, None)
            else:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def failed(self, device: str, error: str) -> None:
        """The last error of a device, until it is attached: not every runtime shows it in the pod's events."""
        with self._lock:
            self.errors[device] = error

    def as_dict(self) -> Document:
        with self._lock:
            return {
                "count": self.count,
                "seconds": self.seconds,
                "failed": dict(self.reasons),
                "errors": dict(self.errors),
            }


class LoggingSocket(agent_socket.AgentSocket):
    """The agent's socket; a refusal is logged, and kept for ``explain``."""

    attaches: Attaches

    def answer(self, line: bytes) -> Document:
        found = super().answer(line)
        if found.get("ok") is False:
            log("attach refused: %s" % found["error"])
            if found["reason"] != "request":
                self.attaches.failed(str(json.loads(line)["device"]), found["error"])
        return found


class Service:
    """One agent. Raises :class:`RailyardError` if it cannot start; later problems are logged and shown by status."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._wake = threading.Event()
        self._ending = False
        self._reload = False
        self._look_due = False
        self._file_time = system.modified(FILE)
        self._spec = read_spec(system)
        self._state = SlotState(system)
        self._attaches = Attaches()
        self._health: dict[str, rail_health.Health] = {}
        self._numa: dict[str, int | None] = {}
        self._servers: dict[str, PluginServer] = {}
        self._dra: DraFront | None = None
        self._pods: PodAttach | None = None
        self._socket: LoggingSocket | None = None
        self._metrics: MetricsServer | None = None
        self._problems: dict[str, str] = {}

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; SIGHUP reads the node file again. Pods keep their rails meanwhile."""
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
        looked = float("-inf")
        while not self._ending:
            self._follow_file()
            due = time.monotonic() - looked > LOOK_SECONDS
            if due or self._look_due:
                self._look_due = False
                self._look()
            if due:
                looked = time.monotonic()
                if self._pods:
                    self._attempt("sweep", self._pods.sweep)
            self._attempt("kubelet", self._follow_kubelet)
            # each time, as a directory may have been removed and made again
            followed = [events.watch(self._system.path(each)) for each in self._directories()]
            listening = all(server.resource.stream.watched for server in self._servers.values())
            settled = all(followed) and listening and not self._problems
            self._wake.wait(IDLE_TICK if settled else TICK)
            self._wake.clear()

    def _directories(self) -> list[str]:
        """Those whose changes concern the agent."""
        return [os.path.dirname(FILE), cdi_files.DIRECTORY, *([] if self._dra else [DIRECTORY])]

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
        """Do what may fail for a while: the log has each problem once, and its end. The watchdog is notified after each
        step: a slow kubelet may take seconds for each of many resources.
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

        def take() -> None:
            self._spec = read_spec(self._system)
            self._apply()
            # otherwise it is tried again
            self._reload = False
            self._file_time = changed
            log("the node file was read again")

        self._attempt(FILE, take)

    def _follow_kubelet(self) -> None:
        if self._dra:
            self._attempt("DRA driver", self._dra.keep)
            return
        kubelet = kubelet_identity(self._system)
        for server in self._servers.values():
            self._attempt(server.resource.full_name, functools.partial(server.keep, kubelet))

    def _apply(self) -> None:
        """Let all parts serve the node file as it was read last. Pods that run are not touched."""
        if self._pods is None:
            self._pods = PodAttach(self._system, self._spec, self._state)
            # before the first attach, which it would take for one of an agent that was killed
            self._pods.recover()
            for problem in self._pods.unrecorded:
                log(problem)
            path = self._system.path(agent_socket.SOCKET)
            self._socket = LoggingSocket(self._pods, self.status, self._attach_ended, path)
            self._socket.attaches = self._attaches
            self._socket.start()
        # an attach that runs goes on with the file that it began with
        self._pods.spec = self._spec
        self._numa = {rail.rail: self._numa_node(rail) for rail in self._spec.rails}
        self._choose_servers()
        self._look()
        self._attempt("metrics", self._serve_metrics)

    def _choose_servers(self) -> None:
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
        self._attaches.ended(device, seconds, reason)
        if reason is None and self._dra:
            self._dra.attached(device)

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
        """Follow what changes by itself: links, and the numbers of RDMA devices in CDI files."""
        self._attempt("CDI files", lambda: cdi_files.write_cdi(self._system, self._spec))
        self._attempt("links", self._look_at_links)
        states = {name: [self._device(each) for each in devices] for name, devices in self._spec.resources().items()}
        if self._dra:
            self._dra.update({state.id: state for devices in states.values() for state in devices})
        for name, devices in states.items() if not self._dra else ():
            self._servers[self._full_name(name)].resource.update(devices)

    def _look_at_links(self) -> None:
        found = rail_health.look(self._spec, self._state.holders().values())
        for rail, health in found.items():
            if self._health.get(rail, rail_health.Health(True)) != health:
                log("rail %s: %s" % (rail, health.reason or "is healthy again"))
        self._health = found

    def _device(self, device: Device) -> DeviceState:
        unknown = rail_health.Health(False, "its link was not read yet")
        health = {rail: self._health.get(rail, unknown) for rail in device.slots}
        reason = "; ".join("rail %s: %s" % (rail, each.reason) for rail, each in health.items() if not each.healthy)
        nodes = {self._numa[rail] for rail in device.slots}
        return DeviceState(device.id, not reason, tuple(sorted(node for node in nodes if node is not None)), reason)

    def status(self) -> Document:
        """What the commands of people show."""
        if self._pods:
            with contextlib.suppress(RailyardError):
                self._pods.sweep()
        holders = self._state.holders()
        spec = self._spec
        rails = [(rail, self._health.get(rail.rail)) for rail in spec.rails]
        claims = list(self._dra.state.claims().values()) if self._dra else []
        refused = list(self._dra.claims.errors.values()) if self._dra else []
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
                    "healthy": bool(health and health.healthy),
                    "reason": health.reason if health else "its link was not read yet",
                }
                for rail, health in rails
            ],
            "kubelet_plugin": spec.kubelet_plugin,
            "resources": [
                {
                    "resource": self._full_name(name),
                    "devices": len(devices),
                    "held": sum(each.id in held for each in devices),
                    "registered": self._is_registered(self._full_name(name)),
                }
                for name, devices in spec.resources().items()
            ],
            "claims": [claim.as_dict() for claim in claims],
            "holders": [holder.as_dict() for _device, holder in sorted(holders.items())],
            "attaches": self._attaches.as_dict(),
            "problems": [*self._problems.values(), *refused],
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
        if self._dra:
            self._dra.stop()
        for server in self._servers.values():
            server.stop()
        if self._metrics:
            self._metrics.close()
        if self._socket:
            self._socket.close()
