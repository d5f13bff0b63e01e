# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of perftest on a node, for one partner: started when it asks for them, and ended with its turn."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import (
    perftest,
    probe_rendezvous,
    probe_runs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.perftest import Options

# Seconds in which a server must listen.
SLACK = 60.0
Result = t.Dict[str, t.Any]


class Servers:
    """The running servers of a prober.

    :param options: ``run``, ``size``, ``iterations``, ``lifetime`` (of a transfer, in seconds), ``latency`` and
        ``tcp_ports``, as of the module rail_probe.
    :param until: time of the monotonic clock after which no server may run.
    """

    def __init__(self, options: Options, system: System, until: float) -> None:
        self._options, self._system, self._until = options, system, until
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, ports: t.Sequence[Options]) -> list[Result]:
        """Start a server of ``ib_write_bw`` per port, and one of ``ib_write_lat`` with ``latency``.

        Each ends after one transfer, or after its lifetime.

        :return: for each port its ``rail``, ``gpu`` (whether data is in GPU memory), ``port`` and ``latency_port`` (TCP
            ports of the servers), or ``error`` and ``remedy``; ``meet``: the address at which the ends meet, None for
            the rail's.
        :raises RailyardError: if perftest is not installed, or too few TCP ports are free.
        """
        # until they listen, other runs see their ports as free
        with probe_runs.in_turn(self._system, str(self._options["run"])):
            return self._start(ports)

    def _start(self, ports: t.Sequence[Options]) -> list[Result]:
        system, options = self._system, self._options
        program = perftest.program_path(system)
        latency = perftest.program_path(system, perftest.LATENCY) if options.get("latency") else None
        per_port = 2 if latency else 1
        count = len(ports) * per_port
        free = iter(free_ports(options.get("tcp_ports"), count, lambda: probe_runs.names(system, str(options["run"]))))
        # transfers are sequential, and each may take its whole timeout
        lifetime = min(float(options["lifetime"]) * count + SLACK, self._until - time.monotonic())
        results: list[Result] = []
        for port in ports:
            memory = perftest.gpu_memory(system, program, port)
            result: Result = {"rail": port["rail"], "port": None, "latency_port": None, "error": "", "remedy": ""}
            result.update(gpu=bool(memory), meet=port.get("meet"))
            results.append(result)
            try:
                arguments = perftest.device_arguments(system, port, port.get("address"))
                address = result["meet"] or port.get("address")
                if not address:
                    raise probe_rendezvous.no_address_error(str(port["rail"]))
                # outside a rail, the server listens only at this address
                arguments += probe_rendezvous.arguments(system, program, address, serving=result["meet"] is not None)
            except RailyardError as error:
                result.update(error=error.message, remedy=error.remedy)
                continue
            argv = [program, *arguments, *memory, *perftest.sizes(options)]
            result["port"] = self._launch(argv, next(free), lifetime)
            if latency:
                argv = [latency, *arguments, *perftest.LATENCY_SIZES]
                result["latency_port"] = self._launch(argv, next(free), lifetime)
        self._wait([result for result in results if result["port"]])
        return results

    def _launch(self, argv: t.Sequence[str], tcp: int, lifetime: float) -> int:
        """Start a server in the background. Return the TCP port on which it must listen."""
        # 'timeout' ends a server without a client, also if this process is killed
        self._running[tcp] = subprocess.Popen(
            ["timeout", "%d" % max(1, lifetime), *argv, "-p", str(tcp), "-F"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return tcp

    def _wait(self, results: t.Sequence[Result]) -> None:
        """Wait until the servers listen, and report those that do not."""
        until = time.monotonic() + SLACK
        while time.monotonic() < until:
            heard = listening(self._system)
            ended = {tcp for tcp, server in self._running.items() if server.poll() is not None}
            if all(_ports(result) <= heard or _ports(result) & ended for result in results):
                break
            time.sleep(0.1)
        heard = listening(self._system)
        for result in results:
            if not _ports(result) <= heard:
                error = "%s did not start to listen" % perftest.PROGRAM
                result.update(port=None, error=error, remedy="run it by hand on the node")

    def stop(self) -> None:
        """End all servers."""
        for server in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
        for server in self._running.values():
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)
        self._running.clear()


def _ports(result: Result) -> set[int]:
    return {result["port"], result["latency_port"] or result["port"]}


def free_ports(ports: str | None, count: int, others: t.Callable[[], str] = str) -> list[int]:
    """Return ``count`` different TCP ports without a listener.

    :param ports: the range ``FIRST-LAST``; None: the kernel chooses.
    :param others: returns the names of other runs on this node, for the error.
    :raises RailyardError: if it is not a range of ports, or too few ports are free.
    """
    # the kernel chooses a port for 0
    choice = list(port_range(ports)) if ports else [0] * count
    # all sockets stay bound until the end, so that each port is returned once
    with contextlib.ExitStack() as sockets:
        free: list[int] = []
        for number in choice if count else ():
            sock = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            if number:
                # perftest sets it too, so ports of earlier transfers count as free
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("", number))
                free.append(int(sock.getsockname()[1]))
            if len(free) == count:
                return free
    if not count:
        return []
    message = "%d of the TCP ports %s are free, and %d are needed" % (len(free), ports, count)
    remedy = "set a larger range: two ports per rail, and one more"
    other_runs = others()
    if other_runs:
        message += "; other runs are on this node: %s" % other_runs
        remedy += " for each run at the same time; or wait. To end an interrupted run, use"
        remedy += " railyard.fabric.rail_probe with mode=stop"
    raise RailyardError(message, "tcp_ports", remedy)


def port_range(ports: str) -> range:
    """Return the TCP ports of ``FIRST-LAST``. Raises :class:`RailyardError` for other texts."""
    ends = re.match(r"^\s*(\d{1,5})\s*-\s*(\d{1,5})\s*$", ports)
    if not ends or not 1024 <= int(ends.group(1)) <= int(ends.group(2)) <= 65535:
        message = "%r is not a range of TCP ports" % ports
        raise RailyardError(message, "tcp_ports", "write FIRST-LAST, from 1024 to 65535")
    return range(int(ends.group(1)), int(ends.group(2)) + 1)


def listening(system: System) -> set[int]:
    """Return the TCP ports in state LISTEN of this process's network namespace."""
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in (system.read("/proc/net/%s" % table) or "").splitlines()[1:]:
            field = line.split()
            if field[3] == "0A":
                ports.add(int(field[1].rpartition(":")[2], 16))
    return ports
