# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that start a collective test on several nodes."""

from __future__ import annotations

import typing as t

MPIRUN, SRUN, MPIJOB = "mpirun", "srun", "mpijob"
LAUNCHERS = (MPIRUN, SRUN, MPIJOB)
GPU, HOST = "gpu", "host"
# Operation -> program of nccl-tests and rccl-tests.
PROGRAMS = {"all_reduce": "all_reduce_perf", "alltoall": "alltoall_perf"}
# Open MPI refuses to run as root without these.
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Seconds between the signals TERM and KILL to the launcher and its processes.
GRACE = 20


class Test(t.NamedTuple):
    """One collective test.

    :param operation: ``all_reduce`` or ``alltoall``.
    :param hosts: the names of the nodes for the launcher.
    :param gpus: ranks per node, one for each GPU; 1 with memory of the host.
    :param memory: ``gpu`` or ``host``.
    :param program: the path of nccl-tests' program; with memory of the host, the source of the Python program.
    :param sizes: the smallest and the largest message in bytes.
    :param environment: variables of the ranks.
    :param arguments: further arguments of the launcher.
    :param seconds: after these, all processes are ended.
    """

    operation: str
    launcher: str
    hosts: t.Sequence[str]
    gpus: int
    memory: str
    program: str
    sizes: tuple[int, int]
    iterations: int
    environment: t.Mapping[str, str]
    arguments: t.Sequence[str]
    seconds: int


def argv(test: Test) -> list[str]:
    """Return the command. ``timeout`` ends the whole process group, and the launcher the ranks on all nodes.

    In an MPIJob, the operator names the hosts and has the deadline, and the pod the environment.
    """
    if test.launcher == MPIJOB:
        return [*_launcher(test), *_program(test)]
    variables = {**(_AS_ROOT if test.launcher == MPIRUN else {}), **test.environment}
    words = ["env", *("%s=%s" % row for row in variables.items())]
    words += ["timeout", "--kill-after=%d" % GRACE, str(test.seconds)]
    return [*words, *_launcher(test), *_program(test)]


def _launcher(test: Test) -> list[str]:
    ranks = len(test.hosts) * test.gpus
    if test.launcher == SRUN:
        nodes = ["--nodes=%d" % len(test.hosts), "--nodelist=%s" % ",".join(test.hosts)]
        tasks = ["--ntasks=%d" % ranks, "--ntasks-per-node=%d" % test.gpus]
        gpus = ["--gpus-per-node=%d" % test.gpus] if test.memory == GPU else []
        return ["srun", "--job-name=railyard-collectives", *nodes, *tasks, *gpus, "--exclusive", *test.arguments]
    hosts = ["--host", ",".join("%s:%d" % (host, test.gpus) for host in test.hosts)] if test.launcher == MPIRUN else []
    placed = [*hosts, "-np", str(ranks), "--map-by", "ppr:%d:node" % test.gpus, "--bind-to", "none"]
    exported = [word for name in test.environment for word in ("-x", name)]
    return ["mpirun", *placed, *exported, *test.arguments]


def _program(test: Test) -> list[str]:
    least, most = map(str, test.sizes)
    if test.memory == HOST:
        return ["python3", "-c", test.program, test.operation, least, most, str(test.iterations)]
    return [test.program, "-b", least, "-e", most, "-f", "2", "-g", "1", "-n", str(test.iterations), "-c", "1"]
