# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""QoS of RoCE: the section ``qos``, and the values of all tools that are derived from it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import (
    CNP_DSCP,
    CNP_PRIORITY,
    CONTROL_WITH_CNPS,
    DSCP,
    PRIORITY,
    PROFILES,
    QosProfile,
    defaults_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section, text_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence

TRUSTS = ("dscp", "pcp")
# Value of ``qos`` of a rail that has none, although the fabric has.
LEAVE = "leave"
# Priorities, traffic classes and buffers: 802.1Q has eight of each, and so do dcb netlink and mlnx_qos.
EIGHT = range(8)
_NUMBERS = tuple(str(number) for number in EIGHT)
MAX_DSCP = 63
# ECT(0), RFC 3168 section 5: the sender takes part in ECN, so a switch marks the packet where it would drop or pause.
ECT0 = 0b10
# The driver of mlx5 (en_dcbnl.c) takes a cable length below 1000 m, and assumes 7 m (en/port_buffer.h) by default.
MAX_CABLE_LEN = 999
CABLE_LEN = 7
# Maximum size of a buffer: dcb netlink has 32 bits, and ports of NICs have less than 64 MiB.
_MAX_SIZE = 64 << 20
# The driver uses this speed for slower links too (en/port_buffer.c).
LEAST_SPEED = 40
# Between XON and XOFF, the driver reserves one frame of the largest MTU, at least this size (en/port_buffer.c).
_LARGEST_MTU = 9216
# Size of a buffer cell on cards that do not report it (en/port_buffer.h).
_CELL = 128


@dataclass(frozen=True)
class Ets:
    """Enhanced transmission selection (802.1Qaz): how the priorities share the link.

    ``prio_tc``: the traffic class of each priority. ``tc_bw``: traffic class -> percent of the bandwidth that the
    strict classes do not use. ``strict``: the traffic classes that are served before all others, in ascending order.
    """

    prio_tc: tuple[int, ...]
    tc_bw: dict[int, int]
    strict: tuple[int, ...]
    path: Path


@dataclass(frozen=True)
class Buffers:
    """The receive buffers of a port.

    ``prio_buffer``: the buffer of each priority. ``buffer_size``: buffer -> bytes; empty: the driver's sizes.
    ``cable_len``: metres to the switch; None: the driver's value.
    """

    prio_buffer: tuple[int, ...]
    buffer_size: dict[int, int]
    cable_len: int | None
    path: Path


@dataclass(frozen=True)
class _EtsKeys:
    """The section ``ets`` as in the file. None: a missing key."""

    prio_tc: dict[int, int] | None
    tc_bw: dict[int, int] | None
    strict: tuple[int, ...] | None
    path: Path


@dataclass(frozen=True)
class _BufferKeys:
    """The section ``buffers`` as in the file. None: a missing key."""

    prio_buffer: dict[int, int] | None
    buffer_size: dict[int, int]
    cable_len: int | None
    path: Path


@dataclass(frozen=True)
class _Keys:
    """The section ``qos`` as in the file. None: a missing key, or one that could not be read."""

    priority: int | None = None
    dscp: int | None = None
    cnp_priority: int | None = None
    cnp_dscp: int | None = None
    pfc: tuple[int, ...] | None = None
    ets: _EtsKeys | None = None
    buffers: _BufferKeys | None = None


@dataclass(frozen=True)
class Qos:
    """The section ``qos``; attributes that are not listed here are its keys.

    ``pfc``: the lossless priorities, in ascending order. ``ets``, ``buffers``: None: the driver's settings.
    ``profile``: the transport profile; None: the file has none. ``nic``: the family of the NICs, whose defaults a
    profile uses; None: the convention. ``path``: the place of the section. ``file_keys``: the keys that the file sets.
    ``keys``: the values of the file, for another family.
    """

    priority: int = PRIORITY
    dscp: int = DSCP
    cnp_priority: int = CNP_PRIORITY
    cnp_dscp: int = CNP_DSCP
    trust: str = TRUSTS[0]
    pfc: tuple[int, ...] = (PRIORITY,)
    ecn: bool = True
    ets: Ets | None = None
    buffers: Buffers | None = None
    profile: QosProfile | None = None
    nic: str | None = None
    path: Path = ("qos",)
    file_keys: tuple[str, ...] = ()
    keys: _Keys = _Keys()

    def where(self, *keys: str) -> Path:
        """Return the place of the first of these keys that the file sets; without one, the place of the first key."""
        return self.path + (next((key for key in keys if key in self.file_keys), keys[0]),)

    @property
    def lossy(self) -> bool:
        """Whether the profile has no PFC."""
        return self.profile is not None and not self.profile.pfc

    def on(self, nic: str | None) -> Qos:
        """Return the QoS on NICs of a family. Only a profile depends on it."""
        if self.profile is None or defaults_of(nic) == defaults_of(self.nic):
            return self
        return replace(self, **_derived(self.keys, self.profile, nic))


# -- reading -----------------------------------------------------------------------------------------------------------


def read(section: Section, report: Report, base: Section | None = None, nic: str | None = None) -> Qos:
    """Return the ``qos`` of a fabric file. A value that cannot be read is reported, and its default is used.

    :param base: the section of the fabric, for keys that the section of a rail does not set.
    :param nic: the family of all NICs; None: several, or unknown.
    """

    def owner(*keys: str) -> Section:
        """Return the section whose values of these keys are used. All are valid in both."""
        for key in keys:
            section.value(key)
        if base is None or any(section.has(key) for key in keys):
            return section
        return base

    marks = owner("priority", "dscp")
    priority, dscp = marks.number("priority", EIGHT[0], EIGHT[-1]), marks.number("dscp", 0, MAX_DSCP)
    notices = owner("cnp_priority", "cnp_dscp")
    cnp_priority = notices.number("cnp_priority", EIGHT[0], EIGHT[-1])
    cnp_dscp = notices.number("cnp_dscp", 0, MAX_DSCP)
    trust = owner("trust").choice("trust", TRUSTS)
    of_profile = owner("profile")
    name = of_profile.choice("profile", tuple(PROFILES))
    # The lossless priorities and buffers of the fabric do not fit another profile of the rail.
    own_profile = base is not None and of_profile is section
    # The lossless priorities of the fabric do not fit another priority of the rail.
    pfc = _numbers(owner("pfc") if marks is base and not own_profile else section, "pfc", report)
    ecn = owner("ecn").flag("ecn")
    ets, buffers = owner("ets").section("ets"), (section if own_profile else owner("buffers")).section("buffers")
    section.done()
    keys = _Keys(
        *(priority, dscp, cnp_priority, cnp_dscp, pfc),
        _ets_keys(ets, report) if ets else None,
        _buffer_keys(buffers, report) if buffers else None,
    )
    profile = PROFILES.get(name or "")
    return Qos(
        trust=trust or TRUSTS[0],
        ecn=ecn is not False,
        profile=profile,
        path=section.path,
        file_keys=tuple(section.mapping.entries),
        keys=keys,
        **_derived(keys, profile, nic if profile else None),
    )


def _derived(keys: _Keys, profile: QosProfile | None, nic: str | None) -> dict[str, t.Any]:
    """Return the values of :class:`Qos` that depend on the family of the NICs, and those that follow from them."""
    default = defaults_of(nic)
    priority, dscp = _marks(keys.priority, keys.dscp, *default[:2])
    cnp_priority, cnp_dscp = _marks(keys.cnp_priority, keys.cnp_dscp, *default[2:])
    pfc = keys.pfc
    if pfc is None:
        pfc = (priority,) if profile is None or profile.pfc else ()
    return {
        "priority": priority,
        "dscp": dscp,
        "cnp_priority": cnp_priority,
        "cnp_dscp": cnp_dscp,
        "pfc": pfc,
        "ets": _ets(keys.ets, priority, cnp_priority, pfc) if keys.ets else None,
        "buffers": _buffers(keys.buffers, pfc) if keys.buffers else None,
        "nic": nic,
    }


def _marks(own_priority: int | None, own_dscp: int | None, priority: int, dscp: int) -> tuple[int, int]:
    """Return priority and DSCP. Each is derived from the other if the file has only one."""
    if own_priority is None:
        own_priority = priority if own_dscp is None or own_dscp == dscp else own_dscp >> 3
    if own_dscp is None:
        own_dscp = dscp if own_priority == priority else own_priority << 3
    return own_priority, own_dscp


def _ets_keys(section: Section, report: Report) -> _EtsKeys:
    prio_tc = _number_map(section, "prio_tc", EIGHT[-1], "", report)
    tc_bw = _number_map(section, "tc_bw", 100, "percent", report)
    strict = _numbers(section, "strict", report)
    section.done()
    return _EtsKeys(prio_tc, tc_bw, strict, section.path)


def _ets(keys: _EtsKeys, priority: int, cnp_priority: int, pfc: t.Sequence[int]) -> Ets:
    """Return the section ``ets``, with defaults for missing keys.

    By default, RoCE, CNPs and each other lossless priority have the class with their number; the other priorities share
    a free class. RoCE gets half of the bandwidth, the other classes equal parts of the other half. The class of CNPs,
    which are few, is strict.
    """
    mapped = keys.prio_tc
    if mapped is None:
        separate = {priority, cnp_priority}.union(pfc)
        shared = min(set(EIGHT) - separate, default=0)
        mapped = {number: number if number in separate else shared for number in EIGHT}
    prio_tc = tuple(mapped.get(number, 0) for number in EIGHT)
    roce, cnp = prio_tc[priority], prio_tc[cnp_priority]
    tc_bw, strict = keys.tc_bw, keys.strict
    if strict is None:
        strict = () if cnp == roce or cnp in (tc_bw or ()) else (cnp,)
    if tc_bw is None:
        tc_bw = _shares(roce, sorted(set(prio_tc).difference(strict)))
    return Ets(prio_tc, tc_bw, strict, keys.path)


def _shares(roce: int, classes: t.Sequence[int]) -> dict[int, int]:
    """Return class -> percent, 100 in total; half of them for ``roce`` if it is one of several classes."""
    if not classes:
        return {}
    first = roce if roce in classes else classes[0]
    others = [number for number in classes if number != first]
    share = 50 // len(others) if others and first == roce else 100 // len(classes)
    shares = dict.fromkeys(others, share)
    shares[first] = 100 - sum(shares.values())
    return shares


def _buffer_keys(section: Section, report: Report) -> _BufferKeys:
    prio_buffer = _number_map(section, "prio_buffer", EIGHT[-1], "", report)
    sizes = _number_map(section, "buffer_size", _MAX_SIZE, "bytes", report)
    cable_len = section.number("cable_len", 1, MAX_CABLE_LEN, "metres")
    section.done()
    return _BufferKeys(prio_buffer, sizes or {}, cable_len, section.path)


def _buffers(keys: _BufferKeys, pfc: t.Sequence[int]) -> Buffers:
    """Return the section ``buffers``. By default, lossless priorities have buffers from 1; the others share buffer
    0."""
    prio_buffer = keys.prio_buffer
    if prio_buffer is None:
        prio_buffer = {lossless: buffer for buffer, lossless in zip(EIGHT[1:], pfc)}
    prio = tuple(prio_buffer.get(number, 0) for number in EIGHT)
    return Buffers(prio, keys.buffer_size, keys.cable_len, keys.path)


def _numbers(section: Section, key: str, report: Report) -> tuple[int, ...] | None:
    """Return a list of priorities or classes, sorted and without duplicates; None if the file does not have the key."""
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


def _number_map(section: Section, key: str, high: int, unit: str, report: Report) -> dict[int, int] | None:
    """Return a mapping from priorities, classes or buffers to numbers; None if the file does not have the key."""
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


# -- derived values ----------------------------------------------------------------------------------------------------


def host_variable(qos: Qos) -> dict[str, t.Any]:
    """Return the host variable ``qos``: the settings of all tools.

    Lists of eight are by priority, except ``tc_...`` by traffic class and ``buffer_size`` by buffer. None: the driver's
    setting is not changed.

    - ``trust``, ``pfc``, ``ets``, ``buffers``: as in ``struct ieee_pfc``, ``ieee_ets`` and ``dcbnl_buffer`` of the
      kernel (include/uapi/linux/dcbnl.h). The lists of mlnx_qos have the same order.
    - ``dscp2prio``: pairs for ``dcb app ... dscp-prio``. Empty with trust pcp, because the first such entry changes the
      trust of mlx5 to dscp (en_dcbnl.c).
    - ``tclass``: the traffic class of RoCEv2 packets, which is the DS field of their IP header (IBTA, annex A17): the
      DSCP in the upper six bits, and the ECN bits of RFC 3168 below, ECT(0) if ECN is used. ``rdma_cm_tos``: the same
      byte for connections of the RDMA connection manager.
    - ``ecn``: the priority whose marked packets the NIC answers with CNPs (``np``, notification point) and whose flows
      it slows down (``rp``, reaction point), and the marks of CNPs (mlx5, ``/sys/class/net/.../ecn``).
    - ``global_pause``: 802.3x, which stops all priorities together and makes all buffers of mlx5 lossless.
    - ``nccl``: environment variables. NCCL_IB_SL is the VLAN priority of RoCE packets, which trust pcp uses.
      NCCL_IB_FIFO_TC is the traffic class of control messages, without ECN: no NIC slows them down.
    - ``profile``: the transport profile, if the file has one.
    """
    tclass = qos.dscp << 2 | (ECT0 if qos.ecn else 0)
    nccl = {"NCCL_IB_TC": str(tclass)}
    if qos.trust == "pcp":
        nccl["NCCL_IB_SL"] = str(qos.priority)
    if qos.nic in CONTROL_WITH_CNPS:
        nccl["NCCL_IB_FIFO_TC"] = str(qos.cnp_dscp << 2)
    return {
        **({"profile": qos.profile.name} if qos.profile else {}),
        "priority": qos.priority,
        "dscp": qos.dscp,
        "trust": qos.trust,
        "pfc": [int(priority in qos.pfc) for priority in EIGHT],
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
        "tc_bw": [ets.tc_bw.get(number, 0) for number in EIGHT],
        # An unused class is strict, because some drivers refuse a share of 0.
        "tc_tsa": ["ets" if number in ets.tc_bw else "strict" for number in EIGHT],
    }


def _buffers_data(buffers: Buffers) -> dict[str, t.Any]:
    sizes = [buffers.buffer_size.get(number, 0) for number in EIGHT]
    return {
        "prio_buffer": list(buffers.prio_buffer),
        "buffer_size": sizes if buffers.buffer_size else None,
        "cable_len": buffers.cable_len,
    }


def headroom(cable_len: int | None, speed: int, mtu: int) -> int:
    """Return the bytes that a port still receives after it has sent a pause frame.

    This is the formula of the mlx5 driver: (301 + 2.16 x metres) x Gb/s + 2.72 x MTU
    (drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c). It covers the data on the cable in both directions, the
    reaction time of the peer, and one frame in transmission at each end (802.1Qbb).

    :param cable_len: metres; None: the driver's default.
    :param speed: Gb/s.
    :param mtu: bytes.
    """
    metres = CABLE_LEN if cable_len is None else cable_len
    return (301 + 216 * metres // 100) * max(speed, LEAST_SPEED) + 272 * mtu // 100


def least_size(cable_len: int | None, speed: int, mtu: int) -> int:
    """Return the minimum bytes of a lossless buffer that the mlx5 driver accepts. Arguments: see :func:`headroom`."""
    return headroom(cable_len, speed, mtu) + _LARGEST_MTU + _CELL
