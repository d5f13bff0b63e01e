# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How RoCE packets are marked, kept apart and slowed down: one object, from which every tool's values are derived."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog import file_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section, text_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence

TRUSTS = ("dscp", "pcp")
# Priorities, traffic classes and buffers: 802.1Q has eight of each, and so do dcb netlink and mlnx_qos.
EIGHT = range(8)
_NUMBERS = tuple(str(number) for number in EIGHT)
# The convention of NVIDIA's NICs and switches: RoCE on priority 3 with DSCP 26, CNPs on priority 6 with DSCP 48.
PRIORITY, DSCP, CNP_DSCP = 3, 26, 48
MAX_DSCP = 63
# ECT(0), RFC 3168 section 5: the sender takes part in ECN, so a switch marks the packet where it would drop or pause.
ECT0 = 0b10
# The driver of mlx5 (en_dcbnl.c) takes a cable length below 1000 m, and assumes 7 m (en/port_buffer.h) by default.
MAX_CABLE_LEN = 999
CABLE_LEN = 7
# What a buffer can be asked for: dcb netlink has 32 bits, and no NIC's port has 64 MiB.
_MAX_SIZE = 64 << 20
# Below this speed the driver reckons with it all the same (en/port_buffer.c).
LEAST_SPEED = 40
# The driver leaves room for one frame of the largest MTU, at least this, between XON and XOFF (en/port_buffer.c).
_LARGEST_MTU = 9216
# What buffers are handed out in on cards that do not say (en/port_buffer.h).
_CELL = 128


@dataclass(frozen=True)
class Ets:
    """Enhanced transmission selection (802.1Qaz): how the priorities share the wire.

    ``prio_tc``: the traffic class of each priority. ``tc_bw``: traffic class -> percent of what the strict classes
    leave. ``strict``: the traffic classes that are served before all others, in order.
    """

    prio_tc: tuple[int, ...]
    tc_bw: dict[int, int]
    strict: tuple[int, ...]
    path: Path


@dataclass(frozen=True)
class Buffers:
    """A port's receive buffers. ``prio_buffer``: the buffer of each priority; ``buffer_size``: buffer -> bytes, empty:
    left as the driver has them; ``cable_len``: metres to the switch, None: left as the driver has it.
    """

    prio_buffer: tuple[int, ...]
    buffer_size: dict[int, int]
    cable_len: int | None
    path: Path


@dataclass(frozen=True)
class Qos:
    """``pfc``: the priorities without loss, in order. ``ets`` and ``buffers`` are None where the file leaves them to
    the driver. ``path`` is where the object is, ``given`` which keys it has; all other attributes are keys.
    """

    priority: int = PRIORITY
    dscp: int = DSCP
    cnp_priority: int = CNP_DSCP >> 3
    cnp_dscp: int = CNP_DSCP
    trust: str = "dscp"
    pfc: tuple[int, ...] = (PRIORITY,)
    ecn: bool = True
    ets: Ets | None = None
    buffers: Buffers | None = None
    path: Path = ("qos",)
    given: tuple[str, ...] = ()

    def where(self, *keys: str) -> Path:
        """Where the first of these keys is that the file has: of the others, the values follow."""
        return self.path + (next((key for key in keys if key in self.given), keys[0]),)


# -- reading -----------------------------------------------------------------------------------------------------------


def read(section: Section, report: Report) -> Qos:
    """The ``qos`` of a fabric file. What cannot be read has gone to ``report``, and its default is used."""
    priority, dscp = _marks(section, "", PRIORITY, DSCP)
    cnp_priority, cnp_dscp = _marks(section, "cnp_", CNP_DSCP >> 3, CNP_DSCP)
    trust = section.choice("trust", TRUSTS)
    pfc = _numbers(section, "pfc", report)
    if pfc is None:
        pfc = (priority,)
    ecn = section.flag("ecn")
    ets, buffers = section.section("ets"), section.section("buffers")
    section.done()
    return Qos(
        priority,
        dscp,
        cnp_priority,
        cnp_dscp,
        trust or TRUSTS[0],
        pfc,
        ecn is not False,
        _ets(ets, priority, cnp_priority, pfc, report) if ets else None,
        _buffers(buffers, pfc, report) if buffers else None,
        section.path,
        tuple(section.mapping.entries),
    )


def _marks(section: Section, kind: str, priority: int, dscp: int) -> tuple[int, int]:
    """Priority and DSCP. Each follows from the other if the file has only one."""
    own_priority = section.number(kind + "priority", EIGHT[0], EIGHT[-1])
    own_dscp = section.number(kind + "dscp", 0, MAX_DSCP)
    if own_priority is None:
        own_priority = priority if own_dscp is None else own_dscp >> 3
    if own_dscp is None:
        own_dscp = dscp if own_priority == priority else own_priority << 3
    return own_priority, own_dscp


def _ets(section: Section, priority: int, cnp_priority: int, pfc: t.Sequence[int], report: Report) -> Ets:
    """RoCE, CNPs and every other lossless priority have the class of their own number; the rest shares a free one.

    RoCE gets half of the wire, the other classes the other half in equal parts. CNPs are few, and go first.
    """
    mapped = _map(section, "prio_tc", EIGHT[-1], "", report)
    if mapped is None:
        apart = {priority, cnp_priority}.union(pfc)
        rest = min(set(EIGHT) - apart, default=0)
        mapped = {each: each if each in apart else rest for each in EIGHT}
    prio_tc = tuple(mapped.get(each, 0) for each in EIGHT)
    roce, cnp = prio_tc[priority], prio_tc[cnp_priority]
    tc_bw = _map(section, "tc_bw", 100, "percent", report)
    strict = _numbers(section, "strict", report)
    section.done()
    if strict is None:
        strict = () if cnp == roce or cnp in (tc_bw or ()) else (cnp,)
    if tc_bw is None:
        tc_bw = _shares(roce, sorted(set(prio_tc).difference(strict)))
    return Ets(prio_tc, tc_bw, strict, section.path)


def _shares(roce: int, classes: t.Sequence[int]) -> dict[int, int]:
    """Percents that are 100 together, half of them for ``roce`` where it is one of several classes."""
    if not classes:
        return {}
    first = roce if roce in classes else classes[0]
    others = [each for each in classes if each != first]
    each_other = 50 // len(others) if others and first == roce else 100 // len(classes)
    shares = dict.fromkeys(others, each_other)
    shares[first] = 100 - sum(shares.values())
    return shares


def _buffers(section: Section, pfc: t.Sequence[int], report: Report) -> Buffers:
    """Each lossless priority has a buffer of its own, from 1; the rest shares buffer 0."""
    prio_buffer = _map(section, "prio_buffer", EIGHT[-1], "", report)
    if prio_buffer is None:
        prio_buffer = {each: buffer for buffer, each in zip(EIGHT[1:], pfc)}
    sizes = _map(section, "buffer_size", _MAX_SIZE, "bytes", report)
    cable_len = section.number("cable_len", 1, MAX_CABLE_LEN, "metres")
    section.done()
    return Buffers(tuple(prio_buffer.get(each, 0) for each in EIGHT), sizes or {}, cable_len, section.path)


def _numbers(section: Section, key: str, report: Report) -> tuple[int, ...] | None:
    """A list of priorities or classes, in order and each once; None where the file does not say it."""
    value = section.value(key, lists=True)
    if value is None:
        return None
    path = section.path + (key,)
    items = [(path + (at,), item) for at, item in enumerate(value.items)] if isinstance(value, Sequence) else None
    found = set()
    for place, item in [(path, value)] if items is None else items:
        text = text_of(item, place, report)
        if text in _NUMBERS:
            found.add(int(text))
        elif text is not None:
            message = "%s is not a whole number from 0 to 7" % shown(text)
            report.add(file_rules.RANGE, place, message, "write whole numbers from 0 to 7, such as [3]")
    return tuple(sorted(found))


def _map(section: Section, key: str, high: int, unit: str, report: Report) -> dict[int, int] | None:
    """A mapping from priorities, classes or buffers to numbers; None where the file does not say it."""
    own = section.section(key)
    if own is None:
        return None
    found = {}
    for name in own.mapping.entries:
        number = own.number(name, 0, high, unit)
        if name not in _NUMBERS:
            message = "%s is not a whole number from 0 to 7" % shown(name)
            report.add(file_rules.UNKNOWN, own.path + (name,), message, "write it as {NUMBER: value}, such as {3: 1}")
        elif number is not None:
            found[int(name)] = number
    return found


# -- what follows ------------------------------------------------------------------------------------------------------


def derived(qos: Qos) -> dict[str, t.Any]:
    """The settings of all tools, as plain data. All lists of eight are by priority, but ``tc_...`` by traffic class and
    ``buffer_size`` by buffer; null is left as the driver has it.

    - ``trust``, ``pfc``, ``ets``, ``buffers``: as ``struct ieee_pfc``, ``ieee_ets`` and ``dcbnl_buffer`` of the kernel
      (include/uapi/linux/dcbnl.h) have them, which is also the order of the lists that mlnx_qos takes.
    - ``dscp2prio``: pairs for ``dcb app ... dscp-prio``. Empty with trust pcp: on mlx5 the first such entry turns the
      trust to dscp (en_dcbnl.c).
    - ``tclass``: the traffic class of RoCEv2 packets is the DS field of their IP header (IBTA, annex A17): the DSCP in
      its upper six bits and the ECN bits of RFC 3168 below, ECT(0) where ECN is used. ``rdma_cm_tos`` is the same byte,
      of connections that the RDMA connection manager makes.
    - ``ecn``: the priority whose marked packets the NIC answers with CNPs (``np``, notification point) and whose flows
      it slows down (``rp``, reaction point), and how CNPs are marked (mlx5, ``/sys/class/net/.../ecn``).
    - ``global_pause``: 802.3x, which stops all priorities at once and on mlx5 turns all buffers lossless.
    - ``nccl``: environment variables. NCCL_IB_SL is the VLAN priority of a RoCE packet, which matters to trust pcp.
    """
    tclass = qos.dscp << 2 | (ECT0 if qos.ecn else 0)
    nccl = {"NCCL_IB_TC": str(tclass)}
    if qos.trust == "pcp":
        nccl["NCCL_IB_SL"] = str(qos.priority)
    return {
        "priority": qos.priority,
        "dscp": qos.dscp,
        "trust": qos.trust,
        "pfc": [int(each in qos.pfc) for each in EIGHT],
        "dscp2prio": [[qos.dscp, qos.priority], [qos.cnp_dscp, qos.cnp_priority]] if qos.trust == "dscp" else [],
        "tclass": tclass,
        "rdma_cm_tos": tclass,
        "ecn": {
            "enable": qos.ecn,
            "np": [qos.priority],
            "rp": [qos.priority],
            "cnp_dscp": qos.cnp_dscp,
            "cnp_priority": qos.cnp_priority,
        },
        "ets": _ets_data(qos.ets) if qos.ets else None,
        "buffers": _buffers_data(qos.buffers) if qos.buffers else None,
        "global_pause": False,
        "nccl": nccl,
    }


def _ets_data(ets: Ets) -> dict[str, t.Any]:
    return {
        "prio_tc": list(ets.prio_tc),
        "tc_bw": [ets.tc_bw.get(each, 0) for each in EIGHT],
        # A class that no priority uses is strict: a share of nothing is refused by some drivers.
        "tc_tsa": ["ets" if each in ets.tc_bw else "strict" for each in EIGHT],
    }


def _buffers_data(buffers: Buffers) -> dict[str, t.Any]:
    sizes = [buffers.buffer_size.get(each, 0) for each in EIGHT]
    return {
        "prio_buffer": list(buffers.prio_buffer),
        "buffer_size": sizes if buffers.buffer_size else None,
        "cable_len": buffers.cable_len,
    }


def headroom(cable_len: int | None, speed: int, mtu: int) -> int:
    """The bytes that still come in after the port has asked for a pause, by the formula of mlx5's driver:
    (301 + 2.16 x metres) x Gb/s + 2.72 x MTU (drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c).

    It is for what is on the wire in both directions, the time in which the peer must react, and a frame at each
    end that has been begun (802.1Qbb). ``cable_len`` in metres, None: the driver's own; ``speed`` in Gb/s; ``mtu`` in
    bytes.
    """
    metres = CABLE_LEN if cable_len is None else cable_len
    return (301 + 216 * metres // 100) * max(speed, LEAST_SPEED) + 272 * mtu // 100


def least_size(cable_len: int | None, speed: int, mtu: int) -> int:
    """The bytes below which the driver of mlx5 refuses a lossless buffer. Arguments as for :func:`headroom`."""
    return headroom(cable_len, speed, mtu) + _LARGEST_MTU + _CELL
