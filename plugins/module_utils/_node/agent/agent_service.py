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
    AgentSpec,
    Device,
    RailSpec,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError, Pod
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import DraFront
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.node_events import NodeEvents
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.boot_lock import Lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_server
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import (
    DIRECTORY,
    PluginServer,
    Resource,
    kubelet_identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.pod_resources import allocated_devices
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
        self._claims = ClaimState(system)
        self._attaches = agent_socket.Attaches()
        self._health: dict[str, rail_health.Health] = {}
        self._rdma_down: dict[tuple[str, int | None], str] = {}
        self._unattached = Unattached(system)
        self._numa: dict[str, int | None] = {}
        self._servers: dict[str, PluginServer] = {}
        self._drivers: dict[str, DraFront] = {}
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
                self._attempt("sweep", self._sweep)
                self._compare_allocated()
            self._attempt("kubelet", self._follow_kubelet)
            self._attempt("metrics", self._serve_metrics)
            self._end_failures()
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
        return [*own, DIRECTORY] if self._servers else own

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
            # also if a file that could not be used was replaced by the one of before
            self._attempt(FILE, lambda: None)
            return

        def reload() -> None:
            self._apply(read_spec(self._system))
            # not reached after an error, so that the next pass tries again
            self._reload = False
            self._file_time = changed
            log("the node file was read again")

        self._attempt(FILE, reload)

    def _follow_kubelet(self) -> None:
        for name, driver in list(self._drivers.items()):
            if driver.drained:
                self._attempt(name, driver.stop)
                del self._drivers[name]
                self._problems.pop("DRA driver " + name, None)
                log("driver %s: all claims are unprepared, and it is removed" % name)
            else:
                self._attempt("DRA driver " + name, driver.keep)
        if self._servers:
            kubelet = kubelet_identity(self._system)
            for server in self._servers.values():
                self._attempt(server.resource.full_name, functools.partial(server.keep, kubelet))

    def _sweep(self) -> None:
        if self._pods and self._pods.sweep(lambda: notify("WATCHDOG=1")):
            # the devices of pods that have ended may be offered again
            self._node_changed()

    def _end_failures(self) -> None:
        """Forget failed attaches of pods that the kubelet has deleted. For claims, :meth:`_released` does it."""
        if self._servers and self._attaches.failures():
            with contextlib.suppress(RailyardError):
                rows = allocated_devices(self._system, self._spec.resource_prefix)
                current = {("%s/%s" % (row.namespace, row.pod), device) for row in rows for device in row.devices}
                self._attaches.end_failures(lambda failure: (failure.pod, failure.device) not in current)

    def _apply(self, spec: AgentSpec) -> None:
        """Pass a node file to all parts of the agent. Running pods are not changed.

        :raises RailyardError: if the agent cannot serve it. Nothing has changed then.
        """
        claims = self._claims
        if not self._drivers:
            # of another release, perhaps: no driver of this agent has used it
            claims = ClaimState(self._system)
        before = (self._spec.kubelet_plugin, self._spec.kubeconfig)
        if self._pods and spec.kubelet_plugin == DRA and before != (DRA, spec.kubeconfig):
            ApiServer(self._system, spec.kubeconfig).check()
        numa = {rail.rail: self._numa_node(rail) for rail in spec.rails}
        if self._pods is None:
            self._pods = PodAttach(self._system, spec, self._state)
            self._pods.check_pod = self._check_pod
            self._pods.watch.changed = self._conflict_changed
            # before the first attach: recover() undoes every attach that is not complete
            self._pods.recover()
            for problem in self._pods.unrecorded:
                log(problem)
        # nothing below is refused. A running attach continues with the spec that it started with.
        self._pods.spec = self._spec = spec
        self._claims, self._numa = claims, numa
        self._choose_servers(self._pods)
        if self._socket is None:
            # after the choice of the driver, which checks the pods that are attached
            path = self._system.path(agent_socket.SOCKET)
            self._socket = LoggingSocket(self._pods, self.status, self._attach_ended, path)
            self._socket.attaches = self._attaches
            self._socket.start()
        self._look()

    def _choose_servers(self, pods: PodAttach) -> None:
        """Start and stop device plugins and DRA drivers, as the node file requires.

        A driver with prepared claims stays until they are unprepared.
        """
        spec, servers = self._spec, {}
        for name in spec.resources() if spec.kubelet_plugin != DRA else ():
            resource = Resource(spec.resource_prefix, name, self._state.holders)
            full_name = self._full_name(name)
            servers[full_name] = self._servers.get(full_name) or PluginServer(self._system, resource, log)
        ended = [(name, server) for name, server in self._servers.items() if name not in servers]
        self._servers = servers
        for name, server in ended:
            self._attempt(name, server.stop)
            self._problems.pop(name, None)

        names = {claim.driver or spec.resource_prefix for claim in self._claims.claims().values()}
        names.update([spec.resource_prefix] if spec.kubelet_plugin == DRA else [])
        for name in sorted(names - set(self._drivers)):
            self._drivers[name] = DraFront(
                self._system, name, spec, pods, self._state, self._claims, self._released, log
            )
        # one that is not needed any more is removed by _follow_kubelet
        for driver in self._drivers.values():
            driver.follow(spec)

    def _check_pod(self, device: str, pod: Pod) -> None:
        """Raise :class:`AttachError` if a pod may not get a device.

        The kubelet names only devices that it allocated. Plugins of container runtimes that add CDI devices by
        annotations of pods do not ask the kubelet, so with DRA a prepared claim of the pod is required.
        """
        claim = self._claims.of_device(device)
        if claim is not None and claim.is_of(pod.uid, str(pod)):
            return
        if self._spec.kubelet_plugin == DRA:
            raise AttachError("claim", "device %s" % device, pod=pod)
        if claim is not None:
            raise AttachError("prepared", "device %s" % device, claim=claim.name, pod=claim.pod)

    def _released(self, claim: Claim) -> None:
        """Forget the failed attaches of a claim's pod, and offer its devices again."""
        devices = claim.device_names
        self._attaches.end_failures(
            lambda failure: failure.device in devices and claim.is_of(failure.pod_uid, failure.pod)
        )
        self._node_changed()

    def _attach_ended(self, device: str, seconds: float, reason: str | None) -> None:
        self._attaches.count_attach(device, seconds, reason)
        for driver in self._drivers.values() if reason is None else ():
            driver.attached(device)

    def _conflict_changed(self, conflict: Conflict, over: bool) -> None:
        """Log that a conflict of a pod's address begins or ends, and report it in the status of the claim."""
        if self._pods:
            log("%s%s" % ("conflict has ended: " if over else "", self._pods.conflict_row(conflict)["error"]))
        # the driver may just have been stopped
        with contextlib.suppress(RuntimeError):
            for driver in list(self._drivers.values()):
                driver.attached(conflict.owner)

    def _full_name(self, resource: str) -> str:
        return "%s/%s" % (self._spec.resource_prefix, resource)

    def _serve_metrics(self) -> None:
        """Serve metrics at the address of the node file. If it cannot be used, those of the last address stay."""
        observed, address = self._metrics, self._spec.metrics
        if address == (observed and observed.address):
            return
        new = None
        if observed and address and address.rpartition(":")[2] == str(observed.port):
            # two sockets cannot have one port, if one of them has all addresses
            observed.close()
            self._metrics = None
            try:
                new = MetricsServer(address, self.metrics, FILE)
            except RailyardError:
                self._metrics = MetricsServer(observed.address, self.metrics, FILE)
                raise
        else:
            new = MetricsServer(address, self.metrics, FILE) if address else None
            if observed:
                observed.close()
        self._metrics = new

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
        held = self._held_elsewhere()
        states = {
            name: [self._device_state(device)._replace(held=device.id in held) for device in devices]
            for name, devices in self._spec.resources().items()
        }
        for driver in self._drivers.values():
            driver.update({state.id: state for devices in states.values() for state in devices})
        for name, devices in states.items() if self._servers else ():
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
        given.update(device for claim in self._claims.claims().values() for device in claim.device_names)
        self._unattached.look(
            self._spec.resource_prefix,
            given,
            lambda: {device: holder.pod for device, holder in self._state.holders().items()},
        )
        for problem in self._unattached.problems:
            if problem not in before:
                log(problem)

    def _held_elsewhere(self) -> dict[str, str]:
        """Return the devices that pods have by the other of device plugin and DRA driver, each with a problem.

        So it is after the node file has changed while pods run. Such a device must not be offered again.
        """
        claims = self._claims.by_device()
        remedy = ". Remedy: drain the node, or wait for the end of that pod"
        if self._spec.kubelet_plugin != DRA:
            text = "device %s: claim %s of pod %s has it, which is of the DRA driver of before" + remedy
            return {device: text % (device, claim.name, claim.pod) for device, claim in claims.items()}
        text = "device %s: pod %s holds it without a claim" + remedy
        return {
            device: text % (device, holder.pod)
            for device, holder in self._state.holders().items()
            if device not in claims or not claims[device].is_of(holder.pod_uid, holder.pod)
        }

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
        claims = list(self._claims.claims().values())
        claim_errors = [text for driver in self._drivers.values() for text in driver.claims.errors.values()]
        problems = [
            *self._problems.values(),
            *self._slot_problems(),
            *self._unattached.problems,
            *held_problems,
            *self._held_elsewhere().values(),
            *claim_errors,
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
            # an API server that does not answer is a problem of slices and of claims
            "problems": list(dict.fromkeys(problems)),
        }

    def _is_registered(self, resource: str) -> bool:
        server = self._servers.get(resource)
        driver = self._drivers.get(self._spec.resource_prefix)
        if self._spec.kubelet_plugin == DRA:
            return bool(driver and driver.registered)
        return bool(server and server.registered)

    def metrics(self) -> str:
        out, holders = Exposition(), list(self._state.holders().values())
        agent_metrics.add_agent(out, self.status())
        agent_metrics.add_pods(out, self._system, holders)
        agent_metrics.add_rdma(out, self._system, self._spec, holders)
        return out.text()

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
        for driver in self._drivers.values():
            driver.stop()
        for server in self._servers.values():
            server.stop()
        if self._metrics:
            self._metrics.close()
