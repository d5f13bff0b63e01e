# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent as a service: it serves devices to kubelet, attaches pods, and follows the node file."""

from __future__ import annotations

import functools
import os
import signal
import socket
import sys
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_metrics
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    FILE,
    Device,
    RailSpec,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.device_plugin import (
    PluginServer,
    Resource,
    import_grpc,
    kubelet_identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node

# The version of the collection, as in galaxy.yml.
VERSION = "0.1.0"
# Seconds between looks at kubelet's socket and at the node file, and at the links of rails.
TICK = 2.0
HEALTH_TICKS = 5
Row = t.Dict[str, t.Any]


def notify(text: str) -> None:
    """Report to systemd, if it started this program: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(text.encode())


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Service:
    """One agent. Raises :class:`RailyardError` if it cannot start; later problems are logged and shown by status."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._wake = threading.Event()
        self._ending = False
        self._reload = False
        self._file_time = system.modified(FILE)
        self.spec = read_spec(system)
        self.state = SlotState(system)
        self._numa: dict[str, int | None] = {}
        self._servers: dict[str, PluginServer] = {}
        self._metrics: agent_metrics.MetricsServer | None = None
        self._problems: dict[str, str] = {}

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; SIGHUP reads the node file again. Pods keep their rails meanwhile."""
        import_grpc()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signalled)
        try:
            self._apply()
            notify("READY=1")
            log("railyard-agent %s serves node %s" % (VERSION, self.spec.node))
            tick = 0
            while not self._ending:
                self._follow_file()
                if tick % HEALTH_TICKS == 0:
                    self._watch_links()
                self._attempt("kubelet", self._follow_kubelet)
                notify("WATCHDOG=1")
                tick += 1
                self._wake.wait(TICK)
                self._wake.clear()
        finally:
            notify("STOPPING=1")
            self._close()
        return 0

    def _signalled(self, number: int, _frame: t.Any) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._ending = True
        self._wake.set()

    def _attempt(self, place: str, act: t.Callable[[], None]) -> None:
        """Do what may fail for a while: the log has each problem once, and its end."""
        try:
            act()
        except RailyardError as error:
            if self._problems.get(place) != str(error):
                self._problems[place] = str(error)
                log(str(error))
        else:
            if self._problems.pop(place, None):
                log("%s: the problem is over" % place)

    def _follow_file(self) -> None:
        changed = self._system.modified(FILE)
        if not self._reload and changed == self._file_time:
            return
        self._reload = False
        self._file_time = changed

        def take() -> None:
            self.spec = read_spec(self._system)
            self._apply()
            log("the node file was read again")

        self._attempt(FILE, take)

    def _follow_kubelet(self) -> None:
        kubelet = kubelet_identity(self._system)
        for server in self._servers.values():
            self._attempt(server.resource.full_name, functools.partial(server.keep, kubelet))

    def _apply(self) -> None:
        """Let all parts serve the node file as it was read last. Pods that run are not touched."""
        self._numa = {rail.rail: self._numa_node(rail) for rail in self.spec.rails}
        resources = self.spec.resources()
        for name in sorted(set(self._servers) - set(resources)):
            self._servers.pop(name).stop()
        for name in resources:
            server = self._servers.get(name)
            if server and server.resource.prefix != self.spec.resource_prefix:
                self._servers.pop(name).stop()
            if name not in self._servers:
                resource = Resource(self.spec.resource_prefix, name, lambda: self.state.holders())
                self._servers[name] = PluginServer(self._system, resource, log)
        self._watch_links()
        self._attempt("metrics", self._serve_metrics)

    def _serve_metrics(self) -> None:
        if self._metrics and self._metrics.address != self.spec.metrics:
            self._metrics.close()
            self._metrics = None
        if self.spec.metrics and not self._metrics:
            self._metrics = agent_metrics.MetricsServer(self.spec.metrics, self.metrics)

    def _numa_node(self, rail: RailSpec) -> int | None:
        if rail.pci:
            return numa_node(self._system, rail.pci)
        node = self._system.read_int("/sys/class/net/%s/device/numa_node" % rail.netdev)
        return None if node is None or node < 0 else node

    def _watch_links(self) -> None:
        for name, devices in self.spec.resources().items():
            self._servers[name].resource.update(self._device(each) for each in devices)

    def _device(self, device: Device) -> DeviceState:
        nodes = sorted({node for node in (self._numa[rail] for rail in device.slots) if node is not None})
        return DeviceState(device.id, True, tuple(nodes))

    def metrics(self) -> str:
        out = agent_metrics.Exposition()
        holders = self.state.holders()
        labels = {"version": VERSION, "fabric": self.spec.fabric, "node": self.spec.node}
        out.add("railyard_agent_info", "gauge", "The agent of this node.", 1, labels)
        for name, devices in self.spec.resources().items():
            held = sum(device.id in holders for device in devices)
            of = {"resource": "%s/%s" % (self.spec.resource_prefix, name)}
            out.add("railyard_agent_slots", "gauge", "Slots of a resource.", len(devices), of)
            out.add("railyard_agent_slots_held", "gauge", "Slots that pods hold.", held, of)
        agent_metrics.add_pods(out, self._system, self.spec, holders.values())
        return out.text()

    def _close(self) -> None:
        for server in self._servers.values():
            server.stop()
        if self._metrics:
            self._metrics.close()
