# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The rail agent's metrics in the Prometheus text format, served by HTTP.

Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import FILE, AgentSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_SECONDS = 10
# How often the server looks whether it is to end.
POLL_SECONDS = 2.0
# Columns of /proc/net/dev after the name, see proc(5).
NETDEV = {
    "receive_bytes": 0,
    "receive_packets": 1,
    "receive_errors": 2,
    "receive_dropped": 3,
    "transmit_bytes": 8,
    "transmit_packets": 9,
    "transmit_errors": 10,
    "transmit_dropped": 11,
}
Labels = t.Mapping[str, str]


class Exposition:
    """Metrics by name, each with its help, type and samples."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str, list[str]]] = {}

    def add(self, name: str, kind: str, help_text: str, value: float, labels: Labels | None = None) -> None:
        """One sample. The kind is ``gauge`` or ``counter``; the help of the first sample is used."""
        inside = ",".join('%s="%s"' % (key, _escaped(text)) for key, text in (labels or {}).items())
        shown = repr(value) if isinstance(value, float) else str(value)
        sample = "%s%s %s\n" % (name, "{%s}" % inside if inside else "", shown)
        self._metrics.setdefault(name, (kind, help_text, []))[2].append(sample)

    def text(self) -> str:
        return "".join(
            "# HELP %s %s\n# TYPE %s %s\n%s" % (name, help_text, name, kind, "".join(samples))
            for name, (kind, help_text, samples) in self._metrics.items()
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def add_agent(out: Exposition, status: t.Mapping[str, t.Any]) -> None:
    """What the agent's status document counts."""

    def gauge(name: str, help_text: str, value: int, **labels: t.Any) -> None:
        out.add("railyard_agent_" + name, "gauge", help_text, value, {key: str(text) for key, text in labels.items()})

    def counter(name: str, help_text: str, value: float, **labels: str) -> None:
        out.add("railyard_agent_" + name, "counter", help_text, value, labels)

    labels = {key: status[key] for key in ("version", "fabric", "node", "attachment")}
    gauge("info", "The agent of this node.", 1, **labels)
    for row in status["rails"]:
        healthy = int(row["healthy"])
        gauge("rail_healthy", "Whether a rail's port can serve pods.", healthy, rail=row["rail"], port=row["port"])
    for row in status["resources"]:
        of = {"resource": row["resource"]}
        gauge("registered", "Whether kubelet has the resource.", int(row["registered"]), **of)
        gauge("devices", "Devices of a resource.", row["devices"], **of)
        gauge("devices_held", "Devices that pods hold.", row["held"], **of)
    attaches = status["attaches"]
    counter("attaches_total", "Attaches of devices to pods, failed ones too.", attaches["count"])
    counter("attach_seconds_total", "Seconds that attaches took.", attaches["seconds"])
    for reason, count in sorted(attaches["failed"].items()):
        counter("attach_failures_total", "Attaches that failed, by reason.", count, reason=reason)


def add_pods(out: Exposition, system: System, spec: AgentSpec, holders: t.Iterable[Holder]) -> None:
    """Traffic of each pod's interfaces, and the counters of RDMA devices that one pod alone uses."""
    hosts = {rail.rail: rail.rdma for rail in spec.rails}
    for holder in holders:
        counters = netdev_counters(system, holder)
        for row in holder.interfaces:
            labels = {
                "namespace": holder.pod_namespace,
                "pod": holder.pod_name,
                "rail": str(row["rail"]),
                "interface": str(row["interface"]),
                "device": holder.device,
            }
            for name, value in counters.get(str(row["interface"]), {}).items():
                metric = "railyard_pod_network_%s_total" % name
                out.add(metric, "counter", "Traffic of a pod's interface on a rail.", value, labels)
            rdma = row.get("rdma")
            # the port's own RDMA device, if pods share it, counts for all of them
            if rdma and (spec.attachment == "host-device" or rdma != hosts.get(str(row["rail"]))):
                for name, value in rdma_counters(system, str(rdma)).items():
                    rdma_labels = dict(labels, rdma_device=str(rdma), counter=name)
                    help_text = "Counters of an RDMA device that one pod uses, by the kernel's names."
                    out.add("railyard_pod_rdma_counter_total", "counter", help_text, value, rdma_labels)


def netdev_counters(system: System, holder: Holder) -> dict[str, dict[str, int]]:
    """Interface -> counters, in the network namespace of the holder; empty when its container has ended."""
    found = {}
    for line in (_held_file(system, holder, "net/dev") or "").splitlines():
        name, colon, rest = line.partition(":")
        columns = rest.split()
        if colon and len(columns) >= 12 and columns[0].isdigit():
            found[name.strip()] = {key: int(columns[at]) for key, at in NETDEV.items()}
    return found


def _held_file(system: System, holder: Holder, name: str) -> str | None:
    """A file of the holder's process; None if another process has its number by now."""
    place = "/proc/%d/" % holder.pid
    with contextlib.suppress(OSError, RailyardError), Rtnetlink() as kernel:
        with open(system.path(place + "ns/net"), "rb") as namespace:
            number = kernel.namespace_number(namespace.fileno())
        return system.read(place + name) if number == holder.nsid else None
    return None


def rdma_counters(system: System, device: str) -> dict[str, int]:
    """The counters of an RDMA device's first port. Empty for a device that another namespace has for itself."""
    found = {}
    for folder in ("counters", "hw_counters"):
        place = "/sys/class/infiniband/%s/ports/1/%s" % (device, folder)
        for name in system.listdir(place):
            value = system.read_int("%s/%s" % (place, name))
            if value is not None and name != "lifespan":
                found[name] = value
    return found


class MetricsServer:
    """Serves ``/metrics``. Raises :class:`RailyardError` if the address cannot be used."""

    def __init__(self, address: str, collect: t.Callable[[], str]) -> None:
        host, _colon, port = address.rpartition(":")

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = CLIENT_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "see /metrics")
                    return
                body = collect().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: t.Any) -> None:
                """A scrape is not an event for the journal."""

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        try:
            self._server = Server((host.strip("[]"), int(port)), Handler)
        except (OSError, ValueError, OverflowError) as error:
            raise RailyardError(
                "metrics cannot be served on %s: %s" % (address, error), FILE, "write another address for 'metrics'"
            ) from None
        self.address = address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
