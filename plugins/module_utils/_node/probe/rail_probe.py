# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Probes of reachability and RDMA between the rail ports of two nodes.

Echo requests have the planned MTU and Don't Fragment, and are sent from the rail port's address and interface (icmp(7),
ip(7), ipv6(7): *_MTU_DISCOVER, *_RECVERR, SO_BINDTODEVICE), on all rails in parallel. RDMA is perftest's
``ib_write_bw`` with the rail's device and the GID of the rail's address, whose index is read from sysfs each time,
because it is not fixed. InfiniBand ports do not need addresses: data is sent to LIDs, and the two ends exchange the
parameters of the connection at the nodes' management addresses (:mod:`probe_rendezvous`).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_rendezvous, probe_runs
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.echo_requests import Options, Result, reach

PROGRAM = "ib_write_bw"
LATENCY = "ib_write_lat"
# Seconds in which a server must listen, and which are added to its lifetime for echo requests and slow nodes.
SLACK = 60
# Two bytes, which is the tool's default: the latency of the path without load.
LATENCY_SIZES = ("-s", "2", "-n", "1000")
# Time that a queue pair waits for an acknowledgement before each of 7 retries: 4.096 us * 2 ** 17 = 0.54 s. The tool's
# default of 67 ms fails on nodes that are busy for half a second. NCCL waits 4.3 s.
QP_TIMEOUT = ("-u", "17")
# Sizes of packets, in bytes, for finding the MTU of a path.
USUAL_MTUS = (576, 1280, 1500, 2044, 4092, 4200, 9000)
SMALL = 96
ARP_PATIENCE = 0.5


def gid_index(system: System, device: str, address: str) -> int | None:
    """Return the index of the RoCE v2 GID of an address in the GID table of the device's port 1, or None."""
    parsed = ipaddress.ip_address(address)
    ipv6 = parsed if parsed.version == 6 else ipaddress.ip_address("::ffff:%s" % address)
    # the form of sysfs; str() of Python 3.13 writes the last 32 bits of an IPv4-mapped address as an IPv4 address
    gid = ipv6.packed.hex(":", 2)
    port = "/sys/class/infiniband/%s/ports/1" % device
    for index in sorted(int(name) for name in system.listdir(port + "/gids") if name.isdigit()):
        # the GID is read first, because the type of an empty entry cannot be read
        same = system.read("%s/gids/%d" % (port, index)) == gid
        if same and system.read("%s/gid_attrs/types/%d" % (port, index)) == "RoCE v2":
            return index
    return None


def device_with_address(system: System, address: str) -> str | None:
    """Return the RDMA device whose GID table has the address, or None."""
    for device in system.listdir("/sys/class/infiniband"):
        if gid_index(system, device, address) is not None:
            return device
    return None


def _device_arguments(system: System, port: Options, address: str | None) -> list[str]:
    """Return the arguments of perftest that select the device, its port, and on Ethernet the GID.

    :raises RailyardError: if the port does not have an RDMA device, or the device does not have the GID.
    """
    device = (
        port["device"] or (device_with_address(system, address) if address else None) or _device_of_port(system, port)
    )
    if device is None or not system.exists("/sys/class/infiniband/%s" % device):
        message = "there is no RDMA device %s" % device if device else "there is no RDMA device of the port"
        if not device and address:
            message = "no RDMA device has a GID for %s" % address
        raise RailyardError(message, str(port["rail"]), "run the hosts playbook first")
    number = _port_number(system, device, port)
    ethernet = system.read("/sys/class/infiniband/%s/ports/%d/link_layer" % (device, number)) != "InfiniBand"
    number = 1 if ethernet and address else number
    arguments = ["-d", device, *(["-i", str(number)] if number != 1 else [])]
    if ethernet:
        if not address:
            raise RailyardError(
                "%s is an Ethernet device, whose GIDs are made from addresses, and the port does not have one" % device,
                str(port["rail"]),
                "plan addresses for the rail's hosts",
            )
        index = gid_index(system, device, address)
        if index is None:
            raise RailyardError(
                "%s has no RoCE v2 GID for %s" % (device, address),
                str(port["rail"]),
                "check with 'ip addr' that the device's netdev has the address and is up",
            )
        arguments += ["-x", str(index)]
    return [*arguments, *QP_TIMEOUT]


def _device_of_port(system: System, port: Options) -> str | None:
    """Return the RDMA device of the port's PCI function or of its netdev's device, or None."""
    directories = []
    if port.get("pci"):
        directories.append("/sys/bus/pci/devices/%s/infiniband" % port["pci"])
    if port.get("netdev"):
        directories.append("/sys/class/net/%s/device/infiniband" % port["netdev"])
    return next((names[0] for names in map(system.listdir, directories) if names), None)


def _port_number(system: System, device: str, port: Options) -> int:
    """Return the number of a rail port on its RDMA device, from 1. The ``dev_port`` of an IPoIB netdev starts at 0."""
    numbers = [int(name) for name in system.listdir("/sys/class/infiniband/%s/ports" % device) if name.isdigit()]
    port_number = system.read("/sys/class/net/%s/dev_port" % port["netdev"]) if port.get("netdev") else None
    number = int(port_number) + 1 if port_number and port_number.isdigit() else 1
    return number if number in numbers else 1


def _program(system: System, name: str = PROGRAM) -> str:
    """Return the path of a program of perftest. Raises :class:`RailyardError` if it is not installed."""
    program = system.which(name)
    if program is None:
        raise RailyardError("%s is not installed" % name, "perftest", "install the package perftest on the node")
    return program


def _gpu_memory(system: System, program: str, port: Options) -> list[str]:
    """Return the arguments of perftest for data in the memory of the port's GPU.

    Empty without a GPU, or if perftest was built without CUDA. Without the module nvidia-peermem, DMA-BUF is used.
    """
    if not port.get("gpu"):
        return []
    known = probe_rendezvous.help_text(system, program)
    if "--use_cuda_bus_id" not in known:
        return []
    dmabuf = "--use_cuda_dmabuf" in known and not system.exists("/sys/module/nvidia_peermem")
    return ["--use_cuda_bus_id=%s" % port["gpu"], *(["--use_cuda_dmabuf"] if dmabuf else [])]


def _sizes(options: Options) -> list[str]:
    return ["-s", str(options["size"]), "-n", str(options["iterations"])]


def serve(options: Options, system: System) -> list[Result]:
    """Start an ``ib_write_bw`` server per port. Each ends after one transfer, or after its lifetime.

    Servers of an earlier call of the same run are ended first. Call it in :func:`.probe_runs.in_turn`.

    :return: for each port its ``rail``, ``gpu`` (whether data is in GPU memory), ``port`` and ``latency_port`` (TCP
        ports of the servers), or ``error`` and ``remedy``; ``meet``: the address at which the ends meet, None for the
        rail's.
    """
    program = _program(system)
    latency = _program(system, LATENCY) if options.get("latency") else None
    run = str(options.get("run") or "")
    probe_runs.stop(system, run)
    meeting_address = _meeting_address(options, system)
    count = len(options["ports"]) * (2 if latency else 1)
    free = iter(_free_ports(options.get("tcp_ports"), count, lambda: probe_runs.waiting(system, run)))
    # transfers are sequential, and each may take its whole timeout
    lifetime = int(options["lifetime"]) * len(options["ports"]) * (2 if latency else 1) + SLACK
    results: list[Result] = []
    for port in options["ports"]:
        result: Result = {"rail": port["rail"], "port": None, "latency_port": None, "error": "", "remedy": ""}
        memory = _gpu_memory(system, program, port)
        result["gpu"] = bool(memory)
        result["meet"] = meeting_address if options.get("meet") or not port.get("address") else None
        results.append(result)
        try:
            arguments = _device_arguments(system, port, port.get("address"))
            address = result["meet"] or port.get("address")
            if not address:
                raise probe_rendezvous.no_address_error(str(port["rail"]))
            # outside a rail, the server listens only at this address
            arguments += probe_rendezvous.arguments(system, program, address, serving=result["meet"] is not None)
        except RailyardError as error:
            result.update(error=error.message, remedy=error.remedy)
            continue
        argv = [program, *arguments, *memory, *_sizes(options)]
        result["port"] = _start(system, argv, next(free), lifetime, run)
        if latency:
            argv = [latency, *arguments, *LATENCY_SIZES]
            result["latency_port"] = _start(system, argv, next(free), lifetime, run)
    deadline = time.monotonic() + SLACK
    starting = started = [result for result in results if result["port"]]
    while starting and time.monotonic() < deadline:
        time.sleep(0.1)
        running = {server.port for server in probe_runs.servers(system)}
        listening = probe_runs.listening(system)
        starting = [result for result in starting if _ports(result) <= running and not _ports(result) <= listening]
    listening = probe_runs.listening(system)
    for result in started:
        if not _ports(result) <= listening:
            result.update(port=None, error="%s did not start to listen" % PROGRAM, remedy="run it by hand on the node")
    return results


def _ports(result: Result) -> set[int]:
    return {result["port"], result["latency_port"] or result["port"]}


def _meeting_address(options: Options, system: System) -> str | None:
    """Return the address at which ends meet outside the rails: option ``meet``, else the node's management address.

    None if every port has an address.
    """
    if options.get("meet"):
        return str(options["meet"])
    without_address = [port for port in options["ports"] if not port.get("address")]
    if not without_address:
        return None
    netdevs = {str(port["netdev"]) for port in without_address if port.get("netdev")}
    addresses = {str(port["address"]) for port in options["ports"] if port.get("address")}
    return probe_rendezvous.management_address(system, netdevs, addresses)


def _start(system: System, argv: t.Sequence[str], tcp: int, lifetime: int, run: str) -> int:
    """Start a server of perftest in the background. Return the TCP port on which it must listen.

    :param tcp: the TCP port.
    :param lifetime: seconds.
    """
    # 'timeout' ends a server without a client; the new session outlives this process
    server = subprocess.Popen(
        ["timeout", str(lifetime), *argv, "-p", str(tcp), "-F"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    probe_runs.note(system, probe_runs.Server(server.pid, tcp, time.time() + lifetime, run))
    return tcp


def _free_ports(ports: str | None, count: int, others: t.Callable[[], str] = str) -> list[int]:
    """Return ``count`` different TCP ports without a listener.

    :param ports: the range ``FIRST-LAST``; None: the kernel chooses.
    :param others: returns a text about servers of other runs, for the error.
    :raises RailyardError: if it is not a range of ports, or too few ports are free.
    """
    # the kernel chooses a port for 0
    choice = [0] * count
    if ports:
        ends = re.match(r"^\s*(\d{1,5})\s*-\s*(\d{1,5})\s*$", ports)
        if not ends or not 1024 <= int(ends.group(1)) <= int(ends.group(2)) <= 65535:
            raise RailyardError(
                "%r is not a range of TCP ports" % ports, "tcp_ports", "write FIRST-LAST, from 1024 to 65535"
            )
        choice = list(range(int(ends.group(1)), int(ends.group(2)) + 1))
    # all sockets stay bound until the end, so that each port is returned once
    with contextlib.ExitStack() as sockets:
        free: list[int] = []
        for number in choice:
            sock = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            if number:
                # perftest sets it too, so ports of earlier transfers count as free
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("", number))
                free.append(int(sock.getsockname()[1]))
            if len(free) == count:
                return free
    if count:
        message = "%d of the TCP ports %s are free, and %d are needed" % (len(free), ports, count)
        remedy = "set a larger range: two ports per rail"
        other_servers = others()
        if other_servers:
            message += "; servers of other runs wait: %s" % other_servers
            remedy += " for each run at the same time; or wait. To end the servers of an interrupted run, use"
            remedy += " railyard.fabric.rail_probe with mode=stop"
        raise RailyardError(message, "tcp_ports", remedy)
    return []


def transfer(target: Options, options: Options, system: System) -> Result:
    """Run an RDMA transfer to a waiting server.

    :return: ``gbits`` per second, ``gpu`` (whether the data was in GPU memory on this node), ``gid_index``,
        ``latency_us`` (typical value of half the round trip; None without a latency server), and ``error`` with
        ``remedy`` (both empty after a success).
    """
    result: Result = {"gbits": None, "latency_us": None, "gid_index": None, "gpu": False, "error": "", "remedy": ""}
    program = _program(system)
    address = str(target.get("meet") or target["address"])
    try:
        arguments = _device_arguments(system, target, target.get("source"))
        arguments += probe_rendezvous.arguments(system, program, address)
    except RailyardError as error:
        result.update(error=error.message, remedy=error.remedy)
        return result
    if "-x" in arguments:
        result["gid_index"] = int(arguments[arguments.index("-x") + 1])
    memory = _gpu_memory(system, program, target)
    result["gpu"] = bool(memory)
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        report = os.path.join(scratch, "report.json")
        structured = "out_json" in probe_rendezvous.help_text(system, program)
        done = system.run(
            [
                *(program, *arguments, *memory, *_sizes(options), "-p", str(target["port"]), "-F", "--report_gbits"),
                *(["--out_json", "--out_json_file=%s" % report] if structured else []),
                address,
            ],
            timeout=float(options["lifetime"]),
        )
        if done.rc == 0:
            result["gbits"] = bandwidth(system.read(report) if structured else done.out)
    if result["gbits"] is None:
        result.update(_failure([PROGRAM, *arguments, *memory], done))
        if target.get("meet") and probe_rendezvous.failed(done):
            result.update(probe_rendezvous.not_met(str(target["peer"]), address, int(target["port"]), done))
    elif target.get("latency_port"):
        result.update(_latency(target, arguments, options, system))
    return result


def _latency(target: Options, arguments: t.Sequence[str], options: Options, system: System) -> Result:
    argv = [_program(system, LATENCY), *arguments, *LATENCY_SIZES, "-p", str(target["latency_port"]), "-F"]
    done = system.run([*argv, str(target.get("meet") or target["address"])], timeout=float(options["lifetime"]))
    typical = latency(done.out) if done.rc == 0 else None
    if typical is not None:
        return {"latency_us": typical}
    return _failure([LATENCY, *arguments], done)


def _failure(argv: t.Sequence[str], done: CommandResult) -> Result:
    messages = [line.strip() for line in (done.err + "\n" + done.out).splitlines() if line.strip(" -")]
    error = "%s ended with %d: %s" % (argv[0], done.rc, messages[0] if messages else "no message")
    return {"error": error, "remedy": "run '%s' by hand between the two nodes" % " ".join(argv)}


def latency(report: str) -> float | None:
    """Return the typical latency in microseconds in perftest's table, or None.

    A row of the table is ``bytes iterations least most typical average ...``.
    """
    for line in report.splitlines():
        field = line.split()
        if len(field) >= 6 and all(re.match(r"^[0-9.]+$", value) for value in field[:6]):
            return float(field[4])
    return None


def bandwidth(report: str | None) -> float | None:
    """Return the average bandwidth in Gb/s in perftest's report file or table, or None.

    The report file is not always valid JSON: perftest 6.06 does not quote keys, and others write an extra comma. So
    only this value is searched for. A row of the table is ``bytes iterations peak average rate``.
    """
    text = report or ""
    match = re.search(r"\bBW_average\b\W*([0-9.]+)", text)
    if match:
        return float(match.group(1))
    for line in text.splitlines():
        field = line.split()
        if len(field) >= 5 and all(re.match(r"^[0-9.]+$", value) for value in field[:5]):
            return float(field[3])
    return None


def probe(options: Options, system: System) -> list[Result]:
    """Send echo requests to every target with an address, then transfer data by RDMA to each target that answered all
    of them and has a server. Targets that did not answer all requests are diagnosed.

    :return: a result per target: ``rail``, ``peer``, ``ok``, ``error``, ``remedy``, ``reach`` (None without an
        address), ``reach6`` (None if not requested), ``transfer`` (None without a server), ``found`` (the diagnosis;
        None if all requests were answered) and ``cross`` (None if not requested).
    """
    targets = options["targets"]
    count, timeout = int(options["count"]), float(options["timeout"])
    addressed = [target for target in targets if _addressed(target)]
    addressed_answers = reach(addressed, count, timeout) if addressed else []
    remaining = iter(addressed_answers)
    answers = [next(remaining) if _addressed(target) else None for target in targets]
    lost = [target for target, answer in zip(addressed, addressed_answers) if answer["received"] < answer["sent"]]
    diagnoses = diagnose(lost, timeout) if lost else {}
    cross_rail = _cross_rail([target for target in addressed if target.get("cross")], timeout)
    answers6 = _reach6([target for target in addressed if target.get("address6")], count, timeout)
    results: list[Result] = []
    unmet: dict[str, Result] = {}
    for target, answer in zip(targets, answers):
        key = (target["rail"], target["peer"])
        result: Result = {"rail": target["rail"], "peer": target["peer"], "reach": answer, "transfer": None}
        result.update(error="", remedy="", found=diagnoses.get(key), cross=cross_rail.get(key))
        result["reach6"] = answers6.get(key)
        if answer and answer["received"] < answer["sent"]:
            result["error"] = "%d of %d packets of %d bytes came back%s" % (
                *(answer["received"], answer["sent"], target["mtu"]),
                " (%s)" % answer["error"] if answer["error"] else "",
            )
            result["remedy"] = _reach_remedy(target, answer)
        elif target["port"]:
            result["transfer"] = _transfer_or_unmet(target, options, system, unmet)
            result.update(error=result["transfer"]["error"], remedy=result["transfer"]["remedy"])
        else:
            result.update(error="the other side has no server: %s" % target["error"], remedy=target["remedy"])
        reach6 = result["reach6"]
        if reach6 and reach6["received"] < reach6["sent"] and not result["error"]:
            result["error"] = "over IPv6 %d of %d packets of %d bytes came back" % (
                *(reach6["received"], reach6["sent"]),
                target["mtu"],
            )
            result["remedy"] = "check the addresses of both ports ('ip -6 addr'), and the filters of the leaf"
        result["ok"] = not result["error"]
        results.append(result)
    return results


def _addressed(target: Options) -> bool:
    """Return whether the target has addresses on the rail. Without them, its server needs ``meet``.

    :raises RailyardError: for incomplete options.
    """
    missing = [key for key in ("netdev", "source", "address") if not target.get(key)]
    if not missing:
        return True
    if target.get("address") or target.get("source") or (target.get("port") and not target.get("meet")):
        raise RailyardError(
            "netdev, source and address go together, and without them the port needs meet",
            str(target["rail"]),
            "set %s, or meet without source and address" % ", ".join(missing),
        )
    return False


def _transfer_or_unmet(target: Options, options: Options, system: System, unmet: dict[str, Result]) -> Result:
    """Run the transfer, unless the partner could not be met at the same address before, which takes the whole timeout.

    :param unmet: address -> result of a transfer whose ends could not meet. A new one is added.
    """
    address = str(target.get("meet") or "")
    if address in unmet:
        return dict(unmet[address])
    result = transfer(target, options, system)
    if address and probe_rendezvous.is_not_met(result):
        unmet[address] = result
    return result


def _reach6(targets: t.Sequence[Options], count: int, timeout: float) -> dict[tuple[str, str], Result]:
    """Return the answers between the IPv6 addresses, by rail and peer."""
    trials = [dict(target, source=target["source6"], address=target["address6"]) for target in targets]
    answers = reach(trials, count, timeout) if trials else []
    return {(target["rail"], target["peer"]): answer for target, answer in zip(targets, answers)}


def diagnose(targets: t.Sequence[Options], timeout: float) -> dict[tuple[str, str], Result]:
    """Return facts about targets that do not answer, by rail and peer.

    :return: ``small`` (whether packets of 96 bytes pass), ``path_mtu`` (the largest usual size in bytes that passes, or
        None) and ``answers`` (the peer's rails for whose addresses a host answers on this rail).
    """
    found: dict[tuple[str, str], Result] = {}
    sizes = sorted({SMALL, *USUAL_MTUS})
    trials = [dict(target, mtu=size) for target in targets for size in sizes if size < target["mtu"]]
    for trial, answer in zip(trials, reach(trials, 2, timeout / 2)):
        row = found.setdefault((trial["rail"], trial["peer"]), {"small": False, "path_mtu": None, "answers": []})
        if answer["received"]:
            row["small"] = True
            row["path_mtu"] = max(row["path_mtu"] or 0, trial["mtu"])
    silent = [target for target in targets if not found.get((target["rail"], target["peer"]), {}).get("small")]
    queries: dict[str, set[str]] = {}
    for target in silent:
        addresses = [rail["address"] for rail in target.get("others") or ()]
        queries.setdefault(target["netdev"], set()).update(each for each in addresses if ":" not in each)
    replies = arp.ask(queries, ARP_PATIENCE) if any(queries.values()) else {}
    for target in silent:
        row = found.setdefault((target["rail"], target["peer"]), {"small": False, "path_mtu": None, "answers": []})
        row["answers"] = [
            rail["rail"] for rail in target.get("others") or () if (target["netdev"], rail["address"]) in replies
        ]
    return found


def _cross_rail(targets: t.Sequence[Options], timeout: float) -> dict[tuple[str, str], Result]:
    """Return whether the peer's address on another rail answers to this rail's address, by rail and peer."""
    trials = [dict(target, address=target["cross"]["address"], mtu=SMALL) for target in targets]
    return {
        (target["rail"], target["peer"]): {"rail": target["cross"]["rail"], "open": answer["received"] > 0}
        for target, answer in zip(targets, reach(trials, 2, timeout / 2) if trials else ())
    }


def _reach_remedy(target: Options, answer: Result) -> str:
    if "no socket" in answer["error"]:
        return "run the hosts playbook, which gives %s the address %s" % (target["netdev"], target["source"])
    if "too long" in answer["error"]:
        return "raise the MTU of %s to %d" % (target["netdev"], target["mtu"])
    if answer["received"]:
        return "check the cable and the leaf port for errors ('ethtool -S %s')" % target["netdev"]
    if answer["error"]:
        return "check that %s is up and connected to the rail's leaf" % target["netdev"]
    return "check the MTU of the leaf and of the peer's port, and that both ports are on the same rail"
