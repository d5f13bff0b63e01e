# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What RoCE's quality of service shall be: read from a module's options, and whole only where all of it agrees.

Any two of its values that disagree are found under load and not before, so they are refused here, all at once.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import TSA_NUMBERS
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import is_pci_address

EIGHT = 8
Options = t.Mapping[str, t.Any]


class Port(t.NamedTuple):
    """A rail port, by either name or both; ``place`` is where its options stand."""

    place: str
    pci: str | None
    netdev: str | None

    @property
    def name(self) -> str:
        return self.netdev or self.pci or "?"


class Ets(t.NamedTuple):
    """``prio_tc`` by priority, ``tc_bw`` in percent and ``tsa`` (the kernel's numbers) by traffic class."""

    prio_tc: tuple[int, ...]
    tc_bw: tuple[int, ...]
    tsa: tuple[int, ...]


class Wish(t.NamedTuple):
    """What is wanted of every port. None: left as it is. ``priority`` and ``dscp`` are RoCE's, to compare with."""

    priority: int | None
    dscp: int | None
    trust: str | None
    pfc: tuple[int, ...] | None
    dscp2prio: dict[int, int]
    ets: Ets | None
    prio_buffer: tuple[int, ...] | None
    buffer_size: tuple[int, ...] | None
    cable_len: int | None
    ecn: dict[str, t.Any] | None
    tclass: int | None
    rdma_cm_tos: int | None
    roce_mode: str | None
    global_pause: bool | None


def ports(options: Options) -> list[Port]:
    """The option ``ports``. Raises :class:`RailyardError`, of all that is wrong at once."""
    errors: list[RailyardError] = []
    found = []
    for number, each in enumerate(options.get("ports") or []):
        port = Port("ports[%d]" % number, each.get("pci"), each.get("netdev"))
        if not (port.pci or port.netdev):
            errors.append(RailyardError("neither says which port is meant", port.place, "give netdev or pci"))
        elif port.pci and not is_pci_address(port.pci):
            message = "%r is no PCI address" % port.pci
            errors.append(RailyardError(message, port.place + ".pci", "write it in full, such as 0000:0b:00.0"))
        found.append(port)
    raise_all(errors)
    return found


def wish(options: Options) -> Wish:
    """The option ``qos``, checked for what disagrees. Raises :class:`RailyardError`, of all that is wrong at once."""
    qos = options.get("qos") or {}
    errors: list[RailyardError] = []
    buffers = qos.get("buffers") or {}
    ets = qos.get("ets")
    found = Wish(
        _within(qos.get("priority"), 7, "qos.priority", errors),
        _within(qos.get("dscp"), 63, "qos.dscp", errors),
        qos.get("trust"),
        _eight(qos.get("pfc"), 1, "qos.pfc", errors),
        _pairs(qos.get("dscp2prio") or [], errors),
        _ets(ets, errors) if ets else None,
        _eight(buffers.get("prio_buffer"), 7, "qos.buffers.prio_buffer", errors),
        _eight(buffers.get("buffer_size"), 2**32 - 1, "qos.buffers.buffer_size", errors),
        _within(buffers.get("cable_len"), 999, "qos.buffers.cable_len", errors, 1),
        _ecn(qos.get("ecn"), errors),
        _within(qos.get("tclass"), 255, "qos.tclass", errors),
        _within(qos.get("rdma_cm_tos"), 255, "qos.rdma_cm_tos", errors),
        qos.get("roce_mode"),
        qos.get("global_pause"),
    )
    raise_all(errors)
    raise_all([RailyardError(message, "qos." + key, remedy) for key, message, remedy in disagreements(found)])
    return found


def disagreements(wish: Wish) -> list[tuple[str, str, str]]:
    """What disagrees in itself: (key, what is wrong, remedy)."""
    found = _marking(wish) + _lossless(wish)
    if wish.ets:
        shares = [share for share, tsa in zip(wish.ets.tc_bw, wish.ets.tsa) if tsa == TSA_NUMBERS["ets"]]
        if shares and sum(shares) != 100:
            found.append(("ets.tc_bw", "the shares are %d percent together" % sum(shares), "let them be 100"))
        if 0 in shares:
            found.append(("ets.tc_tsa", "a class of ets has a share of 0", "give it a share, or let it be strict"))
    return found


def _marking(wish: Wish) -> list[tuple[str, str, str]]:
    """What the sender writes into packets against what the NIC makes of it."""
    found = []
    follow = "leave the derived values as the plan has them"
    if wish.dscp is not None:
        for key, value in (("tclass", wish.tclass), ("rdma_cm_tos", wish.rdma_cm_tos)):
            if value is not None and value >> 2 != wish.dscp:
                found.append((key, "%d marks with DSCP %d, not %d" % (value, value >> 2, wish.dscp), follow))
    if wish.tclass is not None and wish.rdma_cm_tos is not None and wish.tclass != wish.rdma_cm_tos:
        message = "%d is not the tclass, %d" % (wish.rdma_cm_tos, wish.tclass)
        found.append(("rdma_cm_tos", message, follow))
    if wish.ecn and wish.tclass is not None and bool(wish.tclass & 3) != wish.ecn["enable"]:
        says = "takes part in ECN" if wish.tclass & 3 else "takes no part in ECN"
        message = "%d %s, and ecn.enable is %s" % (wish.tclass, says, str(wish.ecn["enable"]).lower())
        found.append(("tclass", message, follow))
    if wish.trust == "pcp" and wish.dscp2prio:
        message = "there are DSCP entries with trust pcp, and the first of them turns the trust to dscp"
        found.append(("dscp2prio", message, "leave them out, or set trust: dscp"))
    if wish.trust == "dscp":
        if not wish.dscp2prio:
            found.append(("dscp2prio", "is empty with trust dscp", "map RoCE's DSCP to its priority"))
        marks = [(wish.dscp, wish.priority, "RoCE")]
        if wish.ecn:
            marks.append((wish.ecn["cnp_dscp"], wish.ecn["cnp_priority"], "CNPs"))
        for dscp, priority, whose in marks:
            have = wish.dscp2prio.get(dscp) if dscp is not None else None
            if have is not None and priority is not None and have != priority:
                message = "DSCP %s of %s goes to priority %d, not %d" % (dscp, whose, have, priority)
                found.append(("dscp2prio", message, follow))
            elif have is None and dscp is not None and wish.dscp2prio:
                found.append(("dscp2prio", "has no entry for DSCP %s of %s" % (dscp, whose), follow))
    return found


def _lossless(wish: Wish) -> list[tuple[str, str, str]]:
    """What is paused and what is slowed down, and where it waits meanwhile."""
    found = []
    pfc, ecn = wish.pfc or (), wish.ecn
    if wish.priority is not None:
        if any(pfc) and not pfc[wish.priority]:
            message = "priority %d of RoCE is not among those that are paused" % wish.priority
            found.append(("pfc", message, "pause it too, or none"))
        for key in ("np", "rp"):
            if ecn and ecn["enable"] and wish.priority not in ecn[key]:
                found.append(("ecn." + key, "lacks priority %d of RoCE" % wish.priority, "add it"))
    if ecn and any(pfc) and pfc[ecn["cnp_priority"]]:
        message = "CNPs are on priority %d, which is paused" % ecn["cnp_priority"]
        found.append(
            ("ecn.cnp_priority", message, "give them a priority of their own: they must pass when RoCE does not")
        )
    if wish.global_pause and any(pfc):
        message = "global pause stops all priorities, and pfc is to stop some"
        found.append(("global_pause", message, "set it to false"))
    if wish.prio_buffer and any(pfc):
        paused = {buffer for buffer, bit in zip(wish.prio_buffer, pfc) if bit}
        shared = paused.intersection(buffer for buffer, bit in zip(wish.prio_buffer, pfc) if not bit)
        if shared:
            message = "buffer %d has paused priorities and others" % min(shared)
            found.append(("buffers.prio_buffer", message, "give the paused ones a buffer of their own"))
    if wish.prio_buffer and wish.buffer_size:
        empty = {buffer for buffer in wish.prio_buffer if not wish.buffer_size[buffer]}
        if empty:
            message = "buffer %d is in use and has no bytes" % min(empty)
            found.append(("buffers.buffer_size", message, "give it a size"))
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


def _within(value: t.Any, high: int, place: str, errors: list[RailyardError], low: int = 0) -> int | None:
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        errors.append(RailyardError("%r is no number" % (value,), place, "correct it"))
        return None
    if not low <= number <= high:
        errors.append(RailyardError("%s is not from %d to %d" % (value, low, high), place, "correct it"))
        return None
    return number


def _eight(value: t.Any, high: int, place: str, errors: list[RailyardError]) -> tuple[int, ...] | None:
    if value is None:
        return None
    if len(value) != EIGHT:
        errors.append(RailyardError("has %d values" % len(value), place, "give eight"))
        return None
    return tuple(_within(each, high, "%s[%d]" % (place, at), errors) or 0 for at, each in enumerate(value))


def _pairs(value: t.Sequence[t.Any], errors: list[RailyardError]) -> dict[int, int]:
    found: dict[int, int] = {}
    for at, pair in enumerate(value):
        place = "qos.dscp2prio[%d]" % at
        if len(pair) != 2 or None in pair:
            errors.append(RailyardError("is no pair", place, "write it as [DSCP, priority], such as [26, 3]"))
            continue
        dscp, priority = _within(pair[0], 63, place, errors), _within(pair[1], 7, place, errors)
        if dscp in found:
            errors.append(RailyardError("DSCP %d is there twice" % dscp, place, "give each once"))
        if dscp is not None and priority is not None:
            found[dscp] = priority
    return found


def _ets(value: Options, errors: list[RailyardError]) -> Ets | None:
    prio_tc = _eight(value.get("prio_tc"), 7, "qos.ets.prio_tc", errors)
    tc_bw = _eight(value.get("tc_bw"), 100, "qos.ets.tc_bw", errors)
    names = value.get("tc_tsa") or []
    if len(names) != EIGHT or not set(names).issubset(("ets", "strict")):
        message = "must be eight, each of them ets or strict"
        errors.append(RailyardError(message, "qos.ets.tc_tsa", "leave the derived values as the plan has them"))
        return None
    if prio_tc is None or tc_bw is None:
        if not value.get("prio_tc") or not value.get("tc_bw"):
            errors.append(RailyardError("prio_tc, tc_bw and tc_tsa belong together", "qos.ets", "give all three"))
        return None
    tsa = tuple(TSA_NUMBERS[name] for name in names)
    return Ets(prio_tc, tuple(share if name == "ets" else 0 for share, name in zip(tc_bw, names)), tsa)


def _ecn(value: Options | None, errors: list[RailyardError]) -> dict[str, t.Any] | None:
    if not value:
        return None
    found: dict[str, t.Any] = {"enable": value.get("enable") is not False}
    for key in ("np", "rp"):
        rows = value.get(key) or []
        found[key] = [_within(each, 7, "qos.ecn.%s[%d]" % (key, at), errors) for at, each in enumerate(rows)]
    cnp_dscp = _within(value.get("cnp_dscp"), 63, "qos.ecn.cnp_dscp", errors)
    cnp_priority = _within(value.get("cnp_priority"), 7, "qos.ecn.cnp_priority", errors)
    # as NVIDIA's NICs come
    found["cnp_dscp"] = 48 if cnp_dscp is None else cnp_dscp
    found["cnp_priority"] = 6 if cnp_priority is None else cnp_priority
    return found
