# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes of reachability and RDMA from the rail ports of this node to those of a partner.

Echo requests have the planned MTU and Don't Fragment, and are sent from the rail port's address and interface (icmp(7),
ip(7), ipv6(7): *_MTU_DISCOVER, *_RECVERR, SO_BINDTODEVICE), on all rails in parallel. RDMA transfers follow one after
the other (:mod:`perftest`).
"""

from __future__ import annotations

import os
import re
import tempfile
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import perftest, probe_rendezvous
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.echo_requests import Options, Result, reach

# Sizes of packets, in bytes, for finding the MTU of a path.
USUAL_MTUS = (576, 1280, 1500, 2044, 4092, 4200, 9000)
SMALL = 96
# perftest writes this if it cannot calibrate the processor clock. Its report then has no numbers, and its exit status
# is 0 (get_clock.c, and -F in perftest_parameters.c).
CLOCK = "Correlation coefficient"
UNMEASURED = "perftest could not calibrate the processor clock on a busy node"
ARP_PATIENCE = 0.5
# Returns the servers of the partner for these rails.
Served = t.Callable[[t.Sequence[str]], t.Sequence[Result]]


def transfer(target: Options, options: Options, system: System) -> Result:
    """Run an RDMA transfer to a waiting server.

    :return: ``gbits`` per second, ``gpu`` (whether the data was in GPU memory on this node), ``gid_index``,
        ``latency_us`` (typical value of half the round trip; None without a latency server), with it the tail
        (:func:`latency_tail`), and ``error`` with ``remedy`` (both empty after a success). ``unmeasured``: why a
        successful transfer has no number; empty if it has. ``size`` and ``iterations`` are the options.
    """
    result: Result = {"gbits": None, "latency_us": None, "gid_index": None, "gpu": False}
    result.update(error="", remedy="", unmeasured="")
    result.update({key: int(options[key]) for key in ("size", "iterations")})
    address = str(target.get("meet") or target["address"])
    try:
        program = perftest.program_path(system)
        arguments = perftest.device_arguments(system, target, target.get("source"))
        arguments += probe_rendezvous.arguments(system, program, address)
    except RailyardError as error:
        result.update(error=error.message, remedy=error.remedy)
        return result
    if "-x" in arguments:
        result["gid_index"] = int(arguments[arguments.index("-x") + 1])
    memory = perftest.gpu_memory(system, program, target)
    result["gpu"] = bool(memory)
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        report = os.path.join(scratch, "report.json")
        structured = "out_json" in probe_rendezvous.help_text(system, program)
        argv = [program, *arguments, *memory, *perftest.sizes(options), "-p", str(target["port"]), "-F"]
        argv += perftest.traffic_class(system, program, target)
        argv += ["--report_gbits", *(["--out_json", "--out_json_file=%s" % report] if structured else []), address]
        done = system.run(argv, timeout=float(options["lifetime"]))
        if done.rc == 0:
            result["gbits"] = bandwidth(system.read(report) if structured else done.out)
    if result["gbits"] is None:
        result.update(_without_number([perftest.PROGRAM, *arguments, *memory], done))
        if target.get("meet") and probe_rendezvous.failed(done):
            result.update(probe_rendezvous.not_met(str(target["peer"]), address, int(target["port"]), done))
    if target.get("latency_port") and not result["error"]:
        result.update(_latency(target, arguments, options, system))
    return result


def _latency(target: Options, arguments: t.Sequence[str], options: Options, system: System) -> Result:
    argv = [perftest.program_path(system, perftest.LATENCY), *arguments, *perftest.LATENCY_SIZES]
    argv += ["-p", str(target["latency_port"]), "-F", str(target.get("meet") or target["address"])]
    done = system.run(argv, timeout=float(options["lifetime"]))
    typical = latency(done.out) if done.rc == 0 else None
    if typical is not None:
        return {"latency_us": typical, **latency_tail(done.out)}
    return _without_number([perftest.LATENCY, *arguments], done)


def _without_number(argv: t.Sequence[str], done: CommandResult) -> Result:
    if done.rc == 0 and CLOCK in done.err:
        return {"unmeasured": UNMEASURED}
    messages = [line.strip() for line in (done.err + "\n" + done.out).splitlines() if line.strip(" -")]
    error = "%s ended with %d: %s" % (argv[0], done.rc, messages[0] if messages else "no message")
    return {"error": error, "remedy": "run '%s' by hand between the two nodes" % " ".join(argv)}


def latency(report: str) -> float | None:
    """Return the typical latency in microseconds in perftest's table, or None."""
    field = _latencies(report)
    return float(field[4]) if field else None


def latency_tail(report: str) -> dict[str, float]:
    """Return ``p99_us`` and ``max_us`` in perftest's table, in microseconds; empty if a column is missing.

    Columns of large values have no space between them.
    """
    field = _latencies(report)
    return {"p99_us": float(field[7]), "max_us": float(field[3])} if len(field) == 9 else {}


def _latencies(report: str) -> list[str]:
    """Return the row of perftest's table of latencies; empty without one.

    The row is ``bytes iterations least most typical average deviation 99%-percentile 99.9%-percentile``.
    """
    for line in report.splitlines():
        field = line.split()
        if len(field) >= 6 and all(re.match(r"^[0-9.]+$", value) for value in field):
            return field
    return []


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


def probe(options: Options, system: System, served: Served) -> list[Result]:
    """Send echo requests to every target with an address, then transfer data by RDMA to each target that answered all
    of them and has a server. Targets that did not answer all requests are diagnosed.

    :param served: starts the partner's servers of these rails, and returns them in the form of
        :meth:`.perftest_servers.Servers.start`.
    :return: a result per target: ``rail``, ``peer``, ``ok``, ``error``, ``remedy``, ``reach`` (None without an
        address), ``reach6`` (None if not requested), ``transfer`` (None without a server), ``found`` (the diagnosis;
        None if all requests were answered), ``cross`` (None if not requested) and, with ``ask_arp``, ``macs`` (the
        hardware addresses that answer for the address).
    """
    targets = options["targets"]
    count, timeout = int(options["count"]), float(options["timeout"])
    addressed = [target for target in targets if _addressed(target)]
    addressed_answers = reach(addressed, count, timeout) if addressed else []
    remaining = iter(addressed_answers)
    answers = [next(remaining) if _addressed(target) else None for target in targets]
    lost = [target for target, answer in zip(addressed, addressed_answers) if not _complete(answer)]
    diagnoses = diagnose(lost, timeout) if lost else {}
    cross_rail = _cross_rail([target for target in addressed if target.get("cross")], timeout)
    answers6 = _reach6([target for target in addressed if target.get("address6")], count, timeout)
    macs = _macs([target for target in addressed if target.get("ask_arp")])
    passed = [target["rail"] for target, answer in zip(targets, answers) if not answer or _complete(answer)]
    servers = {server["rail"]: server for server in (served(passed) if passed else ())}
    results: list[Result] = []
    unmet: dict[str, Result] = {}
    for planned, answer in zip(targets, answers):
        target = _with_server(planned, servers.get(planned["rail"]) or {})
        key = (target["rail"], target["peer"])
        result: Result = {"rail": target["rail"], "peer": target["peer"], "reach": answer, "transfer": None}
        result.update(error="", remedy="", found=diagnoses.get(key), cross=cross_rail.get(key))
        result["reach6"] = answers6.get(key)
        if key in macs:
            result["macs"] = macs[key]
        if answer and not _complete(answer):
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
        if reach6 and not _complete(reach6) and not result["error"]:
            result["error"] = "over IPv6 %d of %d packets of %d bytes came back" % (
                *(reach6["received"], reach6["sent"]),
                target["mtu"],
            )
            result["remedy"] = "check the addresses of both ports ('ip -6 addr'), and the filters of the leaf"
        result["ok"] = not result["error"]
        results.append(result)
    return results


def _complete(answer: Result) -> bool:
    return bool(answer["received"] >= answer["sent"])


def _with_server(target: Options, server: Options) -> dict[str, t.Any]:
    """Return a target with the partner's server. Data is in GPU memory only if both ends have it there."""
    about = {key: server.get(key) for key in ("port", "latency_port", "meet")}
    error = server.get("error") or "it was not started"
    remedy = server.get("remedy") or "see why %s was not reached" % target["peer"]
    gpu = target.get("gpu") if server.get("gpu") else None
    return dict(target, **about, error=error, remedy=remedy, gpu=gpu)


def _addressed(target: Options) -> bool:
    """Return whether the target has addresses on the rail. Without them, its server needs ``meet``."""
    return bool(target.get("address"))


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


def _macs(targets: t.Sequence[Options]) -> dict[tuple[str, str], list[str]]:
    """Return the hardware addresses that answer for the IPv4 addresses of targets, by rail and peer."""
    asked = [target for target in targets if ":" not in target["address"]]
    rows = [(target["netdev"], target["source"], target["address"]) for target in asked]
    answers = arp.all_answers(rows, ARP_PATIENCE) if rows else {}
    return {
        (target["rail"], target["peer"]): answers.get((target["netdev"], target["address"]), []) for target in asked
    }


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
