# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The floor of a rail: the least bandwidth of a transfer, from its links, planes, PCIe and messages.

The model has three parts, each with its source:

- A link carries packets, each with headers. The InfiniBand Architecture Specification and its annex A17 (RoCE v2)
  define them, and IEEE 802.3 defines preamble, checksum and gap of Ethernet.
- PCIe carries packets, each with a header. R. Neugebauer et al., "Understanding PCIe performance for end host
  networking", SIGCOMM 2018, section 3, gives the sizes and the share of flow control. Generation 6 has fixed units of
  256 bytes, 236 of them with packets.
- A transfer takes one round trip more than its data.

:data:`SHARE` covers the rest, such as the memory of the node and the scheduling of the NIC. The floors that Azure
publishes for ib_write_bw are 0.90 to 0.98 of the link (:mod:`.published_floors`), headers included.
"""

from __future__ import annotations

import statistics
import typing as t

# The share of what link, PCIe and messages allow that a transfer must reach.
SHARE = 0.9
# The share of the median of all transfers that soft RDMA must reach, whose speed depends on the load of the processors,
# and the least number of transfers for a median.
SOFT_SHARE, _ENOUGH = 0.5, 4
LINK, PLANES, PCIE, MESSAGES, MEDIAN = "link", "planes", "pcie", "messages", "median"
# Bytes of a packet of RoCE v2 beside its data, with IPv4: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4,
# checksum 4, gap 12. IPv6 has 20 more, and a VLAN 4.
_ROCE, _IPV6, _VLAN = 82, 20, 4
# Bytes of a packet of InfiniBand beside its data: LRH 8, BTH 12, ICRC 4, VCRC 2.
_INFINIBAND = 26
# The first packet of an RDMA write has a RETH.
_RETH = 16
# What one packet of RDMA can carry, in bytes, and the headers that the kernel leaves room for in the MTU of a netdev
# (iboe_get_mtu() of include/rdma/ib_addr.h).
_PACKETS, _ROOM = (4096, 2048, 1024, 512, 256), 96
# PCIe: data of a packet in bytes (the usual MaxPayload of servers), and bytes of its header and frame.
_PAYLOAD, _FRAME, _HEADER = 256, 24, 16
# Generation 3 to 5: the rest after flow control and acknowledgements, 57.88 of 62.96 Gb/s with 8 lanes of generation 3.
_AFTER_CONTROL = 57.88 / 62.96
# Generation of PCIe -> GT/s per lane, as sysfs reports them.
GENERATIONS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
# The lowest speeds in GT/s of generation 3 (coding 128b/130b) and generation 6 (units of 256 bytes).
_GEN3, _GEN6 = 8, 64
# Seconds of a round trip through three levels of switches, and of one message of a queue pair. They are bounds that
# Railyard chose: measured values of healthy networks are well below.
_ROUND_TRIP, _MESSAGE = 10e-6, 0.5e-6


class End(t.NamedTuple):
    """One end of a transfer.

    :param link: Gb/s of the links that one transfer can use; None if unknown.
    :param planes: the numbers of planes with a link and of all planes; None without planes.
    :param pcie: GT/s and lanes of the PCIe link; None if unknown.
    """

    node: str
    link: float | None
    planes: tuple[int, int] | None = None
    pcie: tuple[float, int] | None = None


class Transfer(t.NamedTuple):
    """What is transferred.

    :param size: bytes of a message.
    :param iterations: the number of messages.
    :param packet: bytes of data in a packet, see :func:`packet_data`.
    """

    size: int = 65536
    iterations: int = 1000
    packet: int = 4096
    infiniband: bool = False
    ipv6: bool = False
    vlan: bool = False


class Floor(t.NamedTuple):
    """The least bandwidth in Gb/s.

    :param by: what limits it: ``link``, ``planes``, ``pcie``, ``messages`` or, of soft RDMA, ``median``.
    :param text: the limit for people, such as ``link of ai-1, 400 Gb/s``.
    :param possible: the bandwidth of the limit in Gb/s, before any share.
    """

    gbits: float
    by: str
    text: str
    possible: float

    def __str__(self) -> str:
        limit = ("%.3g" if self.by == MEDIAN else "%.0f") % self.gbits
        return "%s Gb/s or more (limited by %s)" % (limit, self.text)


def soft_floor(measured: t.Sequence[float]) -> Floor | None:
    """Return the floor of soft RDMA: a share of the median of all transfers; None if there are too few.

    :param measured: the bandwidth of each transfer in Gb/s.
    """
    if len(measured) < _ENOUGH:
        return None
    median = statistics.median(measured)
    text = "half of the median of %d transfers of soft RDMA" % len(measured)
    return Floor(SOFT_SHARE * median, MEDIAN, text, median)


def packet_data(mtu: int) -> int:
    """Return the bytes of data in an RDMA packet on a netdev with this MTU, as the kernel chooses them."""
    return next((size for size in _PACKETS if size <= mtu - _ROOM), _PACKETS[-1])


def header_share(transfer: Transfer) -> float:
    """Return the part of a link's bits that are data."""
    packets = -(-transfer.size // transfer.packet)
    own = _INFINIBAND if transfer.infiniband else _ROCE + _IPV6 * transfer.ipv6 + _VLAN * transfer.vlan
    return transfer.size / float(transfer.size + packets * own + _RETH)


def pcie_gbits(speed: float, lanes: int) -> float:
    """Return the data in Gb/s that a PCIe link carries. ``speed``: in GT/s."""
    raw = speed * lanes
    if speed >= _GEN6:
        return raw * 236 / 256.0 * _PAYLOAD / (_PAYLOAD + _HEADER)
    coding = 128 / 130.0 if speed >= _GEN3 else 0.8
    return raw * coding * _AFTER_CONTROL * _PAYLOAD / (_PAYLOAD + _FRAME)


def rail_floor(ends: t.Sequence[End], transfer: Transfer, share: float | None = None) -> Floor | None:
    """Return the floor of a transfer between two ends; None if neither a link nor PCIe is known.

    :param share: the part of the bandwidth of link and PCIe to reach, instead of the model; None: the model.
    """
    known = list(_limits(ends, 1.0 if share else header_share(transfer)))
    if not known:
        return None
    if not share:
        # a fast link can carry more than one queue pair sends
        least = transfer.size * 8 / _MESSAGE / 1e9
        text = "messages of {:,} bytes, one queue pair".format(transfer.size)
        known.append(Floor(least, MESSAGES, text, least))
    limit = min(known, key=lambda each: each.gbits)
    part = share or SHARE * _after_round_trip(transfer, limit.gbits)
    return limit._replace(gbits=limit.gbits * part)


def _limits(ends: t.Sequence[End], headers: float) -> t.Iterator[Floor]:
    """Yield what each end allows. ``headers``: the part of a link's bits that are data."""
    for end in ends:
        if end.link:
            up, planned = end.planes or (0, 0)
            by, which = (PLANES, "%d of %d planes" % (up, planned)) if up < planned else (LINK, "link")
            yield Floor(end.link * headers, by, "%s of %s, %g Gb/s" % (which, end.node, end.link), end.link)
        if end.pcie:
            gbits = pcie_gbits(*end.pcie)
            yield Floor(gbits, PCIE, "PCIe of %s, %g GT/s x%d" % (end.node, *end.pcie), gbits)


def _after_round_trip(transfer: Transfer, gbits: float) -> float:
    """Return the part of the seconds of a transfer in which it sends data at this bandwidth."""
    sending = transfer.size * transfer.iterations * 8 / (gbits * 1e9)
    return sending / (sending + _ROUND_TRIP)
