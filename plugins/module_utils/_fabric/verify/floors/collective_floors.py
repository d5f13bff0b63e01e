# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bandwidth that a collective must reach, from the number of nodes and the bandwidth of their NICs.

nccl-tests prints a bus bandwidth that does not depend on the number of ranks n, if all links are equal. With NVLink in
a node (n ranks on k nodes), the NICs of a node carry another bandwidth W. For all_reduce with a tree over nodes, and
per GPU for alltoall, ``W = busbw * ((k-1)/k) / ((n-1)/n)`` (stas00/ml-engineering, network/README.md;
NVIDIA/nccl-tests#130). In a ring, each node sends as much as each GPU, so W is the bus bandwidth
(NVIDIA/nccl-tests#160). Good published results are a share of the NICs' bandwidth that grows with k, so one floor for
all numbers of nodes would be wrong.
"""

from __future__ import annotations

import typing as t

ALL_REDUCE, ALLTOALL = "all_reduce", "alltoall"
OPERATIONS = (ALL_REDUCE, ALLTOALL)
# The least message in bytes. With 16 MiB, a healthy fabric shows 12 % of its bandwidth (stas00/ml-engineering).
LEAST_BYTES = 1 << 30
# The part of a good result that must be reached: that of nccl-tests (NCCL_TESTS_MIN_BW) and of NVIDIA/aicr.
MARGIN = 0.9
# Above this share of the NICs' bandwidth, the formula does not hold: NVLink or the switches have done a part.
MOST_SHARE = 1.05


class Good(t.NamedTuple):
    """A good published result.

    :param nodes: number of nodes.
    :param gpus: GPUs per node.
    :param nic: GB/s of all NICs of a node.
    :param busbw: GB/s.
    """

    operation: str
    ring: bool
    platform: str
    nodes: int
    gpus: int
    nic: float
    busbw: float
    source: str
    date: str

    @property
    def share(self) -> float:
        """Return W as a share of the NICs' bandwidth."""
        return share(Shape(self.operation, self.nodes, self.gpus, self.nic, self.ring), self.busbw)


_NVCRE = "NVIDIA Cluster Readiness Engine, validation-results.md"
_STAS = "stas00/ml-engineering, network/README.md"
PUBLISHED = (
    Good(ALL_REDUCE, False, "H100, EFA", 2, 8, 400, 487.87, _NVCRE, "2026-11"),
    Good(ALL_REDUCE, False, "B200, EFA", 4, 8, 400, 380.39, _STAS, "2026-08-09"),
    Good(ALL_REDUCE, False, "H100, InfiniBand", 8, 8, 400, 385, "coreweave/nccl-tests", "2026-11"),
    Good(ALL_REDUCE, True, "MI300X", 2, 8, 400, 330, "AMD CVS, sample input", "2026-11"),
    Good(ALLTOALL, False, "H100, EFA", 2, 8, 400, 79.11, _NVCRE, "2026-11"),
    Good(ALLTOALL, False, "H100, TCPXO", 2, 8, 200, 40.16, _NVCRE, "2026-11"),
)


class Shape(t.NamedTuple):
    """What a collective ran on.

    :param nodes: number of nodes, or of NVLink domains, between which only the NICs carry traffic; at least 2.
    :param gpus: GPUs of each.
    :param nic: GB/s of all NICs of each.
    :param ring: whether a ring connects all GPUs, as with ``NCCL_ALGO=Ring`` and in RCCL.
    """

    operation: str
    nodes: int
    gpus: int
    nic: float
    ring: bool = False


def per_busbw(shape: Shape) -> float:
    """Return the bandwidth that the NICs of a node carry, divided by the bus bandwidth.

    For alltoall, the bus bandwidth counts one GPU: NICs of other GPUs do not help.
    """
    if shape.operation == ALL_REDUCE and shape.ring:
        return 1.0
    ranks = shape.nodes * shape.gpus
    between = (shape.nodes - 1) / shape.nodes / ((ranks - 1) / ranks)
    return between * (shape.gpus if shape.operation == ALLTOALL else 1)


def share(shape: Shape, busbw: float) -> float:
    """Return the share of the NICs' bandwidth that a result uses. ``busbw``: GB/s."""
    return busbw * per_busbw(shape) / shape.nic


def good_share(shape: Shape) -> float:
    """Return the lowest share of good published results, for the largest number of nodes that is not larger."""
    ring = shape.ring and shape.operation == ALL_REDUCE
    known = [each for each in PUBLISHED if each.operation == shape.operation and each.ring == ring]
    nodes = max(each.nodes for each in known if each.nodes <= max(shape.nodes, 2))
    return min(each.share for each in known if each.nodes == nodes)


def required_share(shape: Shape) -> float:
    """Return the share of the NICs' bandwidth that a collective must use."""
    return MARGIN * good_share(shape)


def floor(shape: Shape) -> float:
    """Return the bus bandwidth in GB/s that a collective must reach."""
    return required_share(shape) * shape.nic / per_busbw(shape)
