# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Reachability and RDMA between two nodes' rail ports.

Echo requests go out with Don't Fragment set, at the planned MTU, from the rail port's own address and interface
(icmp(7), ip(7), ipv6(7): *_MTU_DISCOVER, *_RECVERR, SO_BINDTODEVICE), all rails at once. RDMA is perftest's
``ib_write_bw`` over the rail's own device and the GID that holds the rail's address, found in sysfs each time: its
index is not fixed. On InfiniBand a port needs no address: the LIDs lead there, and only what the two ends must know of
each other goes by the nodes' management addresses (:mod:`probe_rendezvous`).
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
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_rendezvous, probe_runs
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.echo_requests import Options, Result, reach

PROGRAM = "ib_write_bw"
LATENCY = "ib_write_lat"
# Seconds that a server may need to listen, and that it waits beyond the transfers before its own: for packets that are
# sent first, and slow nodes.
SLACK = 60
# Two bytes, as the tool does by itself: what is timed is the way, not the load.
LATENCY_SIZES = ("-s", "2", "-n", "1000")
# How long a queue pair waits for an acknowledgement before each of 7 retries: 4.096 us * 2 ** 17 = 0.54 s. The tool's
# default of 67 ms fails on nodes that are busy for half a second; NCCL waits 4.3 s.
QP_TIMEOUT = ("-u", "17")
# Sizes of packets, in bytes, that show a path MTU that is too small.
USUAL_MTUS = (576, 1280, 1500, 2044, 4092, 4200, 9000)
SMALL = 96
ARP_PATIENCE = 0.5


def gid_index(system: System, device: str, address: str) -> int | None:
    """The index of the RoCE v2 GID that holds ``address`` in port 1's table of ``device``; None where there is none."""
    packed = ipaddress.ip_address(address)
    value = packed if packed.version == 6 else ipaddress.ip_address("::ffff:%s" % address)
    # as sysfs writes it; Python 3.13 writes the last 32 bits of an IPv4-mapped address as an IPv4 address
    wanted = value.packed.hex(":", 2)
    port = "/sys/class/infiniband/%s/ports/1" % device
    for index in sorted(int(name) for name in system.listdir(port + "/gids") if name.isdigit()):
        # the type of an empty entry cannot be read, so the GID is looked at first
        held = system.read("%s/gids/%d" % (port, index)) == wanted
        if held and system.read("%s/gid_attrs/types/%d" % (port, index)) == "RoCE v2":
            return index
    return None


def device_with_address(system: System, address: str) -> str | None:
    """The RDMA device whose GID table holds the address; None where none does."""
    for device in system.listdir("/sys/class/infiniband"):
        if gid_index(system, device, address) is not None:
            return device
    return None


def _device_arguments(system: System, port: Options, address: str | None) -> list[str]:
    """perftest's arguments that choose the device and the GID; the link layer decides whether a GID is needed."""
    device = port["device"] or (device_with_address(system, address) if address else None) or _below(system, port)
    if device is None or not system.exists("/sys/class/infiniband/%s" % device):
        what = "there is no RDMA device %s" % device if device else "there is no RDMA device of the port"
        if not device and address:
            what = "no RDMA device has a GID for %s" % address
        raise RailyardError(what, str(port["rail"]), "run the hosts playbook first")
    number = _port_number(system, device, port)
    ethernet = system.read("/sys/class/infiniband/%s/ports/%d/link_layer" % (device, number)) != "InfiniBand"
    number = 1 if ethernet and address else number
    arguments = ["-d", device, *(["-i", str(number)] if number != 1 else [])]
    if ethernet:
        if not address:
            raise RailyardError(
                "%s is of Ethernet, where GIDs come from addresses, and the port has none" % device,
                str(port["rail"]),
                "give the rail's hosts addresses in the plan",
            )
        index = gid_index(system, device, address)
        if index is None:
            raise RailyardError(
                "%s has no RoCE v2 GID for %s" % (device, address),
                str(port["rail"]),
                "see that the address is on the device's netdev ('ip addr') and that the link is up",
            )
        arguments += ["-x", str(index)]
    return [*arguments, *QP_TIMEOUT]


def _below(system: System, port: Options) -> str | None:
    """The RDMA device of the port's PCI function, or of that below its netdev; None where there is none."""
    places = []
    if port.get("pci"):
        places.append("/sys/bus/pci/devices/%s/infiniband" % port["pci"])
    if port.get("netdev"):
        places.append("/sys/class/net/%s/device/infiniband" % port["netdev"])
    return next((names[0] for names in map(system.listdir, places) if names), None)


def _port_number(system: System, device: str, port: Options) -> int:
    """Which port of its device a rail port is: of several, the one after which IPoIB's netdev is numbered, from 0."""
    numbers = [int(name) for name in system.listdir("/sys/class/infiniband/%s/ports" % device) if name.isdigit()]
    port_number = system.read("/sys/class/net/%s/dev_port" % port["netdev"]) if port.get("netdev") else None
    number = int(port_number) + 1 if port_number and port_number.isdigit() else 1
    return number if number in numbers else 1


def _program(system: System, name: str = PROGRAM) -> str:
    program = system.which(name)
    if program is None:
        raise RailyardError("%s is not installed" % name, "perftest", "install the package perftest on the node")
    return program


def _gpu_memory(system: System, program: str, port: Options) -> list[str]:
    """perftest's arguments for data in the memory of the GPU beside the port; none where it was built without that.

    Without the module nvidia-peermem the NIC reaches that memory by a dma-buf.
    """
    if not port.get("gpu"):
        return []
    known = system.run([program, "--help"]).out
    if "--use_cuda_bus_id" not in known:
        return []
    by_buffer = "--use_cuda_dmabuf" in known and not system.exists("/sys/module/nvidia_peermem")
    return ["--use_cuda_bus_id=%s" % port["gpu"], *(["--use_cuda_dmabuf"] if by_buffer else [])]


def _sizes(options: Options) -> list[str]:
    return ["-s", str(options["size"]), "-n", str(options["iterations"])]


def serve(options: Options, system: System) -> list[Result]:
    """Start one ``ib_write_bw`` server for each port. Each ends after one transfer, or when its client is long overdue.

    What an earlier call of the same run started ends before; to be called in :func:`.probe_runs.in_turn`.

    :return: for each port its ``rail``, ``gpu`` (whether data is in GPU memory), and ``port`` (TCP) where it listens,
        or ``error``; ``meet`` is the address at which it does, None where that is the rail's own.
    """
    program = _program(system)
    latency = _program(system, LATENCY) if options.get("latency") else None
    run = str(options.get("run") or "")
    probe_runs.stop(system, run)
    elsewhere = _elsewhere(options, system)
    count = len(options["ports"]) * (2 if latency else 1)
    free = iter(_free_ports(options.get("tcp_ports"), count, lambda: probe_runs.waiting(system, run)))
    # the transfers come one after the other, and each before the last may hang for its whole time
    lifetime = int(options["lifetime"]) * len(options["ports"]) * (2 if latency else 1) + SLACK
    results: list[Result] = []
    for port in options["ports"]:
        result: Result = {"rail": port["rail"], "port": None, "latency_port": None, "error": "", "remedy": ""}
        memory = _gpu_memory(system, program, port)
        result["gpu"] = bool(memory)
        result["meet"] = elsewhere if options.get("meet") or not port.get("address") else None
        results.append(result)
        try:
            arguments = _device_arguments(system, port, port.get("address"))
            at = result["meet"] or port.get("address")
            if not at:
                raise probe_rendezvous.nowhere(str(port["rail"]))
            # the service listens on a rail only for the other nodes of the run
            meeting = probe_rendezvous.arguments(system, program, at, serving=result["meet"] is not None)
        except RailyardError as error:
            result.update(error=error.message, remedy=error.remedy)
            continue
        arguments += meeting
        argv = [program, *arguments, *memory, *_sizes(options)]
        result["port"] = _start(system, argv, next(free), lifetime, run)
        if latency:
            argv = [latency, *arguments, *LATENCY_SIZES]
            result["latency_port"] = _start(system, argv, next(free), lifetime, run)
    deadline = time.monotonic() + SLACK
    starting = started = [result for result in results if result["port"]]
    while starting and time.monotonic() < deadline:
        time.sleep(0.1)
        alive = {each.port for each in probe_runs.servers(system)}
        listening = probe_runs.listening(system)
        starting = [each for each in starting if _ports(each) <= alive and not _ports(each) <= listening]
    listening = probe_runs.listening(system)
    for result in started:
        if not _ports(result) <= listening:
            result.update(port=None, error="%s did not start to listen" % PROGRAM, remedy="run it by hand on the node")
    return results


def _ports(result: Result) -> set[int]:
    """The TCP ports of a result's servers."""
    return {result["port"], result["latency_port"] or result["port"]}


def _elsewhere(options: Options, system: System) -> str | None:
    """Where those meet whose rails have no addresses for it: what was given, else the node's management address."""
    if options.get("meet"):
        return str(options["meet"])
    bare = [port for port in options["ports"] if not port.get("address")]
    if not bare:
        return None
    netdevs = {str(port["netdev"]) for port in bare if port.get("netdev")}
    addresses = {str(port["address"]) for port in options["ports"] if port.get("address")}
    return probe_rendezvous.management_address(system, netdevs, addresses)


def _start(system: System, argv: t.Sequence[str], tcp: int, lifetime: int, run: str) -> int:
    """Start a server of perftest in the background; the TCP port that it must listen on."""
    # 'timeout' ends a server whose client never comes; a session of its own outlives this module
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
    """TCP ports without a listener, each once.

    :param ports: ``FIRST-LAST``; the kernel chooses where it is not given.
    :param others: whose servers wait here besides, in words.
    :raises RailyardError: where it is not a range of ports, or too few of it are free.
    """
    choice = [0] * count
    if ports:
        ends = re.match(r"^\s*(\d{1,5})\s*-\s*(\d{1,5})\s*$", ports)
        if not ends or not 1024 <= int(ends.group(1)) <= int(ends.group(2)) <= 65535:
            raise RailyardError(
                "%r is not a range of TCP ports" % ports, "tcp_ports", "give FIRST-LAST from 1024 to 65535"
            )
        choice = list(range(int(ends.group(1)), int(ends.group(2)) + 1))
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for number in choice:
            sock = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            if number:
                # as perftest itself does, so that what an earlier round used is free at once
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                sock.bind(("", number))
                found.append(int(sock.getsockname()[1]))
            if len(found) == count:
                return found
    if count:
        what = "%d of the TCP ports %s are free, and %d are needed" % (len(found), ports, count)
        remedy = "give a larger range: two ports per rail"
        theirs = others()
        if theirs:
            what += "; servers of other runs wait: %s" % theirs
            remedy += " for each run under way at a time; or wait. Servers of a run that was cut off can be ended by"
            remedy += " railyard.fabric.rail_probe with mode=stop"
        raise RailyardError(what, "tcp_ports", remedy)
    return []


def transfer(target: Options, options: Options, system: System) -> Result:
    """One RDMA transfer to a waiting server.

    :return: ``gbits`` per second, ``gpu`` (whether the data was in GPU memory here), ``latency_us`` where the partner
        serves it (half of the round trip, the typical one), and ``error`` with ``remedy`` (both empty where it went
        well).
    """
    result: Result = {"gbits": None, "latency_us": None, "gid_index": None, "gpu": False, "error": "", "remedy": ""}
    program = _program(system)
    at = str(target.get("meet") or target["address"])
    try:
        arguments = _device_arguments(system, target, target.get("source"))
        arguments += probe_rendezvous.arguments(system, program, at)
    except RailyardError as error:
        result.update(error=error.message, remedy=error.remedy)
        return result
    if "-x" in arguments:
        result["gid_index"] = int(arguments[arguments.index("-x") + 1])
    memory = _gpu_memory(system, program, target)
    result["gpu"] = bool(memory)
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        report = os.path.join(scratch, "report.json")
        structured = "out_json" in system.run([program, "--help"]).out
        done = system.run(
            [
                *(program, *arguments, *memory, *_sizes(options), "-p", str(target["port"]), "-F", "--report_gbits"),
                *(["--out_json", "--out_json_file=%s" % report] if structured else []),
                at,
            ],
            timeout=float(options["lifetime"]),
        )
        if done.rc == 0:
            result["gbits"] = bandwidth(system.read(report) if structured else done.out)
    if result["gbits"] is None:
        messages = [line.strip() for line in (done.err + "\n" + done.out).splitlines() if line.strip(" -")]
        result["error"] = "%s ended with %d: %s" % (PROGRAM, done.rc, messages[0] if messages else "no message")
        result["remedy"] = "run '%s' by hand between the two nodes" % " ".join([PROGRAM, *arguments, *memory])
        if target.get("meet") and probe_rendezvous.failed(done):
            result.update(probe_rendezvous.not_met(str(target["peer"]), at, int(target["port"]), done))
    elif target.get("latency_port"):
        result.update(_latency(target, arguments, options, system))
    return result


def _latency(target: Options, arguments: t.Sequence[str], options: Options, system: System) -> Result:
    argv = [_program(system, LATENCY), *arguments, *LATENCY_SIZES, "-p", str(target["latency_port"]), "-F"]
    done = system.run([*argv, str(target.get("meet") or target["address"])], timeout=float(options["lifetime"]))
    found = latency(done.out) if done.rc == 0 else None
    if found is not None:
        return {"latency_us": found}
    messages = [line.strip() for line in (done.err + "\n" + done.out).splitlines() if line.strip(" -")]
    error = "%s ended with %d: %s" % (LATENCY, done.rc, messages[0] if messages else "no message")
    return {"error": error, "remedy": "run '%s' by hand between the two nodes" % " ".join([LATENCY, *arguments])}


def latency(report: str) -> float | None:
    """The typical latency in microseconds of perftest's table: ``bytes iterations least most typical average ...``."""
    for line in report.splitlines():
        field = line.split()
        if len(field) >= 6 and all(re.match(r"^[0-9.]+$", each) for each in field[:6]):
            return float(field[4])
    return None


def bandwidth(report: str | None) -> float | None:
    """The average bandwidth in Gb/s that perftest reports, from its report file where it writes one, else its table.

    The report is called JSON, but its keys are bare in perftest 6.06 and a comma is too many in others: only the one
    value is looked for. The table's row is ``bytes iterations peak average rate``.
    """
    text = report or ""
    found = re.search(r"\bBW_average\b\W*([0-9.]+)", text)
    if found:
        return float(found.group(1))
    for line in text.splitlines():
        field = line.split()
        if len(field) >= 5 and all(re.match(r"^[0-9.]+$", each) for each in field[:5]):
            return float(field[3])
    return None


def probe(options: Options, system: System) -> list[Result]:
    """Reach every target that has an address, then move data by RDMA to each that answered and has a server.

    What does not answer is looked into: whether small packets pass, how large ones may be, and for which of the peer's
    other rails someone answers on this one.

    :return: a result for each target: ``rail``, ``peer``, ``ok``, ``error``, ``remedy``, ``reach`` (None without an
        address), ``reach6`` (None where it was not asked for), ``transfer``, ``found`` (None where all answered) and
        ``cross`` (None where it was not asked for).
    """
    targets = options["targets"]
    count, timeout = int(options["count"]), float(options["timeout"])
    asked = [target for target in targets if _addressed(target)]
    heard = reach(asked, count, timeout) if asked else []
    later = iter(heard)
    answers = [next(later) if _addressed(target) else None for target in targets]
    lost = [target for target, answer in zip(asked, heard) if answer["received"] < answer["sent"]]
    found = look_into(lost, timeout) if lost else {}
    across = _across([target for target in asked if target.get("cross")], timeout)
    answers6 = _reach6([target for target in asked if target.get("address6")], count, timeout)
    results: list[Result] = []
    unmet: dict[str, Result] = {}
    for target, answer in zip(targets, answers):
        place = (target["rail"], target["peer"])
        result: Result = {"rail": target["rail"], "peer": target["peer"], "reach": answer, "transfer": None}
        result.update(error="", remedy="", found=found.get(place), cross=across.get(place))
        result["reach6"] = answers6.get(place)
        if answer and answer["received"] < answer["sent"]:
            result["error"] = "%d of %d packets of %d bytes came back%s" % (
                *(answer["received"], answer["sent"], target["mtu"]),
                " (%s)" % answer["error"] if answer["error"] else "",
            )
            result["remedy"] = _reach_remedy(target, answer)
        elif target["port"]:
            result["transfer"] = _met(target, options, system, unmet)
            result.update(error=result["transfer"]["error"], remedy=result["transfer"]["remedy"])
        else:
            result.update(error="the other side has no server: %s" % target["error"], remedy=target["remedy"])
        six = result["reach6"]
        if six and six["received"] < six["sent"] and not result["error"]:
            result["error"] = "over IPv6 %d of %d packets of %d bytes came back" % (
                *(six["received"], six["sent"]),
                target["mtu"],
            )
            result["remedy"] = "see the addresses of both ports ('ip -6 addr'), and what the leaf lets through"
        result["ok"] = not result["error"]
        results.append(result)
    return results


def _addressed(target: Options) -> bool:
    """Whether the rail itself has addresses. Of a port and server elsewhere there need be none.

    :raises RailyardError: for a target that can neither be reached nor met.
    """
    given = [key for key in ("netdev", "source", "address") if target.get(key)]
    if len(given) == 3:
        return True
    if target.get("address") or target.get("source") or (target.get("port") and not target.get("meet")):
        raise RailyardError(
            "netdev, source and address go together, and without them the port needs meet",
            str(target["rail"]),
            "give what is missing",
        )
    return False


def _met(target: Options, options: Options, system: System, unmet: dict[str, Result]) -> Result:
    """The transfer; where a partner could not be met for one rail, the others do not wait as long for the same.

    :param unmet: address of the meeting -> what came of it.
    """
    at = str(target.get("meet") or "")
    if at in unmet:
        return dict(unmet[at])
    result = transfer(target, options, system)
    if at and probe_rendezvous.is_not_met(result):
        unmet[at] = result
    return result


def _reach6(targets: t.Sequence[Options], count: int, timeout: float) -> dict[tuple[str, str], Result]:
    """The same between the IPv6 addresses, by rail and peer."""
    trials = [dict(target, source=target["source6"], address=target["address6"]) for target in targets]
    found = reach(trials, count, timeout) if trials else []
    return {(target["rail"], target["peer"]): answer for target, answer in zip(targets, found)}


def look_into(targets: t.Sequence[Options], timeout: float) -> dict[tuple[str, str], Result]:
    """Why targets do not answer, by rail and peer.

    :return: ``small`` (whether packets of 96 bytes pass), ``path_mtu`` (the largest usual size that does, in bytes;
        None where none does) and ``answers`` (rails of the peer for whose addresses someone answers here).
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
    asked: dict[str, set[str]] = {}
    for target in silent:
        theirs = [other["address"] for other in target.get("others") or ()]
        asked.setdefault(target["netdev"], set()).update(each for each in theirs if ":" not in each)
    replies = arp.ask(asked, ARP_PATIENCE) if any(asked.values()) else {}
    for target in silent:
        row = found.setdefault((target["rail"], target["peer"]), {"small": False, "path_mtu": None, "answers": []})
        row["answers"] = [
            other["rail"] for other in target.get("others") or () if (target["netdev"], other["address"]) in replies
        ]
    return found


def _across(targets: t.Sequence[Options], timeout: float) -> dict[tuple[str, str], Result]:
    """Whether the peer's address on another rail answers to this rail's own, by rail and peer."""
    trials = [dict(target, address=target["cross"]["address"], mtu=SMALL) for target in targets]
    return {
        (target["rail"], target["peer"]): {"rail": target["cross"]["rail"], "open": answer["received"] > 0}
        for target, answer in zip(targets, reach(trials, 2, timeout / 2) if trials else ())
    }


def _reach_remedy(target: Options, answer: Result) -> str:
    if "no socket" in answer["error"]:
        return "see that %s is there and has %s: run the hosts playbook" % (target["netdev"], target["source"])
    if "too long" in answer["error"]:
        return "raise the MTU of %s to %d" % (target["netdev"], target["mtu"])
    if answer["received"]:
        return "look for errors on the cable and the leaf port ('ethtool -S %s')" % target["netdev"]
    if answer["error"]:
        return "see that %s is up and on the rail's own leaf" % target["netdev"]
    return "see the MTU of the leaf and of the peer's port, and that both are on the same rail"
