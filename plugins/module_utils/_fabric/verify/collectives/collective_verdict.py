# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge what a collective test printed: pass, fail or unknown, each with a reason and a remedy."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.collective_codes import (
    COLLECTIVE_CODES,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives.collective_output import (
    Output,
    Row,
    parse,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors import collective_floors
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.collective_floors import Shape

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
# The exit statuses of ``timeout`` after its signals, and of a shell for a program that is missing.
TIMED_OUT, MISSING = (124, 137), 127
_SSH = "check that 'ssh NODE true' works from the launching node, as the user of the run, without a password"
# What launchers print -> the cause and the remedy; the first that matches counts.
_STARTS: t.Sequence[tuple[str, str, str]] = (
    (
        r"Invalid generic resource",
        "Slurm knows no GPUs of the nodes",
        "configure them in slurm.conf (GresTypes=gpu, and Gres=gpu:NUMBER of the nodes)",
    ),
    (
        r"queued and waiting for resources|Unable to allocate|Invalid (?:partition|account|node name|qos)"
        r"|Requested node|Required node|Access/permission denied|Unable to confirm allocation",
        "Slurm did not allocate the nodes",
        "check the nodes with sinfo, and name a partition or reservation, such as "
        '-e \'{"collectives_arguments": ["--partition=NAME"]}\'',
    ),
    (
        r"Permission denied \(|Host key verification|ssh: connect to|ssh: Could not resolve|No route to host"
        r"|Connection (?:refused|timed out)|unreachable"
        r"|lost communication with a remote daemon|was unable to reliably start",
        "a node is not reached from the launching node",
        _SSH,
    ),
    (
        r"error while loading shared libraries",
        "a library of the program is missing on a node",
        'install it, or set LD_LIBRARY_PATH, such as -e \'{"collectives_environment": {"LD_LIBRARY_PATH": "DIR"}}\'',
    ),
    (
        r"No module named 'mpi4py'",
        "mpi4py is missing on a node",
        "install python3-mpi4py on all nodes",
    ),
    (
        r"enough slots",
        "the launcher counts fewer slots than ranks",
        "check that the names of the nodes resolve on the launching node to addresses of these nodes",
    ),
    (
        r"no (?:CUDA|ROCm|HIP)-capable device|invalid device ordinal|Cuda failure|CUDA failure|HIP failure",
        "a node shows fewer GPUs than planned",
        "check nvidia-smi -L or rocm-smi on the nodes",
    ),
    (
        r"not found|No such file|unable to (?:find|launch)|could not access|execve",
        "the launcher or the program is missing",
        "install it on all nodes, or name its path, such as "
        '-e \'{"collectives_programs": {"all_reduce": "/opt/nccl-tests/build/all_reduce_perf"}}\'',
    ),
)
# GPUs without NVSwitch: the traffic between them does not follow the formula.
_NO_SWITCH = re.compile(r"PCIE|GeForce|RTX|\bA10|\bA2\b|\bA30|\bA40|\bL4|\bT4\b| NVL\b|GB10\b", re.IGNORECASE)
_RING, _TREES = "ring", ("tree", "nvlstree")


class Planned(t.NamedTuple):
    """The part of the plan that a test needs.

    :param nodes: their names.
    :param gpus: ranks per node.
    :param nic: GB/s of the NICs of the node with the least; None if a speed is not planned.
    :param domains: the NVLink domain of each node; None for a node outside of one.
    :param host_memory: whether the data is in the memory of the host.
    :param environment: variables of the ranks.
    :param floor: GB/s that the user expects; None for the floor that follows from the plan.
    """

    nodes: t.Sequence[str]
    gpus: int
    nic: float | None
    domains: t.Sequence[str | None]
    host_memory: bool
    environment: t.Mapping[str, str]
    floor: float | None


class Done(t.NamedTuple):
    """How a test ended. ``status``: the exit status; None if only the output is known."""

    operation: str
    status: int | None
    text: str
    seconds: int | None = None


class Judged(t.NamedTuple):
    """The verdict on one test. ``busbw`` and ``floor`` in GB/s, ``size`` in bytes, ``share`` of the NICs' bandwidth."""

    operation: str
    state: str
    code: str | None
    what: str
    cause: str
    remedy: str
    expected: str | None = None
    found: str | None = None
    busbw: float | None = None
    floor: float | None = None
    share: float | None = None
    size: int | None = None
    ranks: int | None = None

    def lines(self) -> list[str]:
        """Return the verdict, and if it is not a pass, cause and remedy, a line each."""
        text = "%s: %s, %s" % (self.operation, self.state, self.what)
        if self.code is None:
            return [text]
        between = ": expected %s, found %s" % (self.expected, self.found) if self.expected else ""
        head = "%s (%s)%s" % (text, self.code, between)
        return [head, "  cause: %s" % self.cause, "  remedy: %s" % self.remedy]


def _judged(done: Done, state: str, code: str, what: str = "", **fields: t.Any) -> Judged:
    known = COLLECTIVE_CODES[code]
    fields.setdefault("cause", known.cause)
    fields.setdefault("remedy", known.remedy)
    return Judged(done.operation, state, code, what or known.title, **fields)


def judge(done: Done, planned: Planned) -> Judged:
    """Return the verdict on a test. A test without complete, checked results never passes."""
    output = parse(done.text)
    broken = _broken(done, output)
    if broken:
        return broken
    row = output.rows[-1]
    facts: dict[str, t.Any] = {"busbw": row.busbw, "size": row.size, "ranks": len(output.ranks) or None}
    placed = _misplaced(done, output, planned)
    if placed:
        return placed._replace(**facts)
    floor, ring, why = _floor(done.operation, output, planned)
    if floor is not None and planned.floor is None:
        facts["share"] = collective_floors.share(_shape(done.operation, planned, ring), row.busbw)
    facts["floor"] = floor
    return _compared(done, output, row, facts, why)


def _compared(done: Done, output: Output, row: Row, facts: dict[str, t.Any], why: tuple[str, str]) -> Judged:
    """Judge the bandwidth of the largest message.

    :param facts: values for the verdict.
    :param why: why there is no floor, and the remedy.
    """
    floor, part = facts["floor"], facts.get("share")
    if row.wrong is None or output.checked is False:
        cause, remedy = "the program did not check its results", "run it with -c 1"
        return _judged(done, UNKNOWN, "RV876", "the results were not checked", cause=cause, remedy=remedy, **facts)
    if row.size < collective_floors.LEAST_BYTES and floor is not None and part is not None:
        return _judged(
            *(done, UNKNOWN, "RV876", "the largest message has %s" % _bytes(row.size)),
            cause="smaller messages do not use the whole bandwidth",
            remedy="run with -e collectives_max_bytes=%d or more" % (8 * collective_floors.LEAST_BYTES),
            **facts,
        )
    if floor is None:
        cause, remedy = why
        return _judged(done, UNKNOWN, "RV876", cause=cause, remedy=remedy, **facts)
    if part is not None and part > collective_floors.MOST_SHARE:
        return _judged(
            *(done, UNKNOWN, "RV876", "the result is above the bandwidth of the NICs"),
            cause="NVLink connects the nodes, or the switches reduce (SHARP), and the plan does not contain it",
            remedy='run with -e \'{"collectives_environment": {"NCCL_MNNVL_ENABLE": "0"}}\', correct nvlink_domain in '
            "fabric.yml, or name the bandwidth that you expect, with -e collectives_floor=GB/S",
            expected="at most %.0f %% of the NICs" % (100 * collective_floors.MOST_SHARE),
            found="%.0f %%" % (100 * part),
            **facts,
        )
    expected, found = "at least %s GB/s" % _rate(floor), "%s GB/s" % _rate(row.busbw)
    if row.busbw < floor:
        return _judged(done, FAIL, "RV873", expected=expected, found=found, **facts)
    shown = "%s GB/s with %s, %s required" % (_rate(row.busbw), _bytes(row.size), _rate(floor))
    return Judged(done.operation, PASS, None, shown, "", "", expected, found, **facts)


def _broken(done: Done, output: Output) -> Judged | None:
    """Return the verdict on a test that did not start or end, or that gave wrong results; None for complete results."""
    wrong = sum(row.wrong or 0 for row in output.rows)
    if wrong or output.out_of_bounds:
        rows = [_bytes(row.size) for row in output.rows if row.wrong]
        found = "%s with %s" % (count(wrong, "wrong value"), ", ".join(rows[:4])) if wrong else None
        more: dict[str, t.Any] = {"expected": "no wrong value", "found": found} if found else {}
        return _judged(done, FAIL, "RV872", **more)
    began = bool(output.ranks or output.rows)
    late = done.status in TIMED_OUT
    if not began:
        cause, remedy = _start(done, output)
        return _judged(done, UNKNOWN, "RV871", cause=cause, remedy=remedy)
    if late:
        what = "the collective test did not end within %d s" % done.seconds if done.seconds else ""
        remedy = (
            "run playbooks/verify.yml; if all rails are proven, give it more time with -e collectives_timeout=SECONDS"
        )
        return _judged(done, FAIL, "RV874", what, remedy=remedy)
    if done.status or (not output.ended and output.error):
        cause = output.error or "the exit status of the launcher is %s" % done.status
        return _judged(done, FAIL, "RV874", cause=cause)
    if not output.ended or not output.rows or output.damaged:
        return _judged(
            *(done, UNKNOWN, "RV876", "the output is not complete"),
            cause="lines are missing or damaged in the output",
            remedy="run again, and keep the whole output",
        )
    return None


def _start(done: Done, output: Output) -> tuple[str, str]:
    """Return cause and remedy of a test that did not start."""
    for pattern, cause, remedy in _STARTS:
        found = re.search(".*(?:%s).*" % pattern, done.text)
        if found:
            return "%s (%s)" % (cause, found[0].strip()[:200]), remedy
    if done.status in TIMED_OUT:
        return "nothing was printed within %s s" % done.seconds, "start the command by hand, and see where it waits"
    known = COLLECTIVE_CODES["RV871"]
    last = next((line.strip()[:200] for line in reversed(done.text.splitlines()) if line.strip()), "")
    return output.error or last or known.cause, known.remedy


def _misplaced(done: Done, output: Output, planned: Planned) -> Judged | None:
    """Return the failure if the ranks are not on the planned number of nodes, with the same number on each."""
    if not output.ranks:
        return _judged(
            *(done, UNKNOWN, "RV876", "the output does not list the ranks"),
            cause="the output is not complete",
            remedy="run again, and keep the whole output",
        )
    hosts = output.hosts
    if len(hosts) == len(planned.nodes) and set(hosts.values()) == {planned.gpus}:
        return None
    found = ", ".join("%d on %s" % (number, host) for host, number in list(hosts.items())[:4])
    more = ", ..." if len(hosts) > 4 else ""
    return _judged(
        *(done, FAIL, "RV875"),
        expected="%s on each of %s" % (count(planned.gpus, "rank"), count(len(planned.nodes), "node")),
        found=found + more,
    )


def _shape(operation: str, planned: Planned, ring: bool) -> Shape:
    return Shape(operation, len(planned.nodes), planned.gpus, planned.nic or 0.0, ring)


def _floor(operation: str, output: Output, planned: Planned) -> tuple[float | None, bool, tuple[str, str]]:
    """Return the floor in GB/s, whether a ring is assumed, and without a floor, the cause and the remedy."""
    if planned.floor is not None:
        return planned.floor, False, ("", "")
    algorithm = planned.environment.get("NCCL_ALGO", "").lower()
    amd = any("AMD" in rank.name for rank in output.ranks.values())
    ring = algorithm == _RING or amd
    remedy = COLLECTIVE_CODES["RV876"].remedy
    linked = [each for each in planned.domains if each is not None]
    without = next((rank.name for rank in output.ranks.values() if _NO_SWITCH.search(rank.name)), None)
    why: str | None = None
    if planned.host_memory:
        why = "processors limit collectives of host memory, so the plan gives no floor"
    elif len(planned.nodes) < 2:
        why, remedy = "on one node, the NICs carry nothing", "run it on two or more nodes"
    elif planned.nic is None:
        why, remedy = "the plan has no speed of the rails", "set speed in the profile of fabric.yml"
    elif len(set(linked)) < len(linked) and planned.environment.get("NCCL_MNNVL_ENABLE") != "0":
        why = "NVLink connects several of the nodes, and no published results show the share of the NICs"
        remedy = (
            'run with -e \'{"collectives_environment": {"NCCL_MNNVL_ENABLE": "0"}}\', or with -e collectives_floor=GB/S'
        )
    elif without and planned.gpus > 1:
        why = "no NVSwitch connects GPUs of the model %s, so they limit the bandwidth" % without
    elif operation == collective_floors.ALL_REDUCE and algorithm and not ring and algorithm not in _TREES:
        why = "NCCL_ALGO=%s moves the data in another way" % planned.environment["NCCL_ALGO"]
    if why:
        return None, ring, (why, remedy)
    return collective_floors.floor(_shape(operation, planned, ring)), ring, ("", "")


def _rate(value: float) -> str:
    """Return GB/s with three significant digits."""
    return "%.0f" % value if value >= 99.95 else "%.3g" % value


def _bytes(size: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return "%.3g %s" % (size / (1 << power), unit)
    return "%d bytes" % size


def state_of(results: t.Sequence[Judged]) -> str:
    """Return the state of several tests: fail, else unknown, else pass. No test is unknown."""
    states = {each.state for each in results} or {UNKNOWN}
    return FAIL if FAIL in states else UNKNOWN if UNKNOWN in states else PASS
