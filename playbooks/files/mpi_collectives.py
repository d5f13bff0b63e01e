# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure all_reduce or alltoall of host memory with mpi4py, and print the tables of nccl-tests.

A program, not a module: ``mpirun python3 -c SOURCE all_reduce MIN_BYTES MAX_BYTES ITERATIONS``. Sizes double.
"""

from __future__ import annotations

import array
import os
import platform
import sys
import typing as t

from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]

HEAD = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"""
# Measurements before the first that counts.
WARM_UP = 2
FLOATS = MPI.FLOAT


def measure(comm: t.Any, operation: str, count: int, iterations: int, in_place: bool) -> tuple[float, int]:
    """Return the microseconds of one call, of the slowest rank, and the number of wrong values of all ranks.

    :param count: floats of 4 bytes in the buffer of a rank, for alltoall a multiple of the number of ranks.
    """
    ranks = comm.Get_size()
    each = count // ranks
    own = array.array("f", [comm.Get_rank() + 1.0]) * count
    sent = MPI.IN_PLACE if in_place else [own, FLOATS]

    def call(received: array.array[float]) -> None:
        if operation == "all_reduce":
            comm.Allreduce(sent, [received, FLOATS], op=MPI.SUM)
        else:
            comm.Alltoall(sent, [received, each, FLOATS])

    if operation == "all_reduce":
        expected = array.array("f", [ranks * (ranks + 1) / 2.0]) * count
    else:
        expected = array.array("f")
        for rank in range(ranks):
            expected.extend(array.array("f", [rank + 1.0]) * each)
    received = array.array("f", own)
    call(received)
    wrong = 0 if received == expected else sum(a != b for a, b in zip(received, expected))
    for _number in range(WARM_UP):
        call(received)
    comm.Barrier()
    began = MPI.Wtime()
    for _number in range(iterations):
        call(received)
    seconds = (MPI.Wtime() - began) / iterations
    return comm.allreduce(seconds, op=MPI.MAX) * 1e6, comm.allreduce(wrong, op=MPI.SUM)


def main(operation: str, least: int, most: int, iterations: int) -> int:
    comm = MPI.COMM_WORLD
    ranks, first = comm.Get_size(), comm.Get_rank() == 0
    hosts = comm.gather((os.getpid(), platform.node()), root=0)
    if first:
        print("# nThread 1 nGpus 1 minBytes %d maxBytes %d step: 2(factor) validation: 1" % (least, most))
        for rank, (pid, host) in enumerate(hosts):
            print("#  Rank %2d Group  0 Pid %6d on %10s device  0 [host] memory of the host" % (rank, pid, host))
        print(HEAD, flush=True)
    factor = 2.0 * (ranks - 1) / ranks if operation == "all_reduce" else (ranks - 1.0) / ranks
    bad, total, rows = 0, 0.0, 0
    size = least
    while size <= most:
        count = max(1, size // 4 // ranks) * ranks
        text = ""
        for in_place in (False, True):
            time_us, wrong = measure(comm, operation, count, iterations, in_place)
            speed = count * 4 / time_us / 1e3 if time_us else 0.0
            text += " %8.2f %7.2f %7.2f %6d" % (time_us, speed, speed * factor, wrong)
            bad, total, rows = bad + bool(wrong), total + speed * factor, rows + 1
        if first:
            redop = "sum" if operation == "all_reduce" else "none"
            print("%12d %13d %9s %7s %7d%s" % (count * 4, count, "float", redop, -1, text), flush=True)
        size *= 2
    if first:
        print("# Out of bounds values : %d %s" % (bad, "FAILED" if bad else "OK"))
        print("# Avg bus bandwidth    : %g" % (total / max(rows, 1)), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
