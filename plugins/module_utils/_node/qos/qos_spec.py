# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desired QoS of RoCE, parsed from a module's options.

Values that contradict each other would be noticed only under load, so they are all refused here.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import TSA_NUMBERS
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.port_reference import PortReference

EIGHT = 8
Options = t.Mapping[str, t.Any]

INTS_SPEC = {"type": "list", "elements": "int"}
# The transport profiles, and whether they pause RoCE's priority.
PROFILES = {"roce-lossless": True, "roce-lossy": False, "multipath": False}
QOS_SPEC = {
    "profile": {"type": "str", "choices": list(PROFILES)},
    "priority": {"type": "int"},
    "dscp": {"type": "int"},
    "trust": {"type": "str", "choices": ["dscp", "pcp"]},
    "pfc": INTS_SPEC,
    "dscp2prio": {"type": "list", "elements": "list", "default": []},
    "tclass": {"type": "int"},
    "rdma_cm_tos": {"type": "int"},
    "roce_mode": {"type": "str", "choices": ["RoCE v2", "IB/RoCE v1"], "default": "RoCE v2"},
    "ecn": {
        "type": "dict",
        "options": {
            "enable": {"type": "bool", "default": True},
            "np": {"type": "list", "elements": "int", "default": []},
            "rp": {"type": "list", "elements": "int", "default": []},
            "cnp_dscp": {"type": "int", "default": 48},
            "cnp_priority": {"type": "int", "default": 6},
        },
    },
    "ets": {
        "type": "dict",
        "options": {
            "prio_tc": {"type": "list", "elements": "int", "required": True},
            "tc_bw": {"type": "list", "elements": "int", "required": True},
            "tc_tsa": {"type": "list", "elements": "str", "required": True},
        },
    },
    "buffers": {
        "type": "dict",
        "options": {"prio_buffer": INTS_SPEC, "buffer_size": INTS_SPEC, "cable_len": {"type": "int"}},
    },
    "global_pause": {"type": "bool"},
    "nccl": {"type": "dict"},
}

PORT_SPEC: dict[str, t.Any] = {
    "netdev": {"type": "str"},
    "pci": {"type": "str"},
    "range": {"type": "str"},
    "qos": {"type": "dict", "options": QOS_SPEC},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
    "qos": {"type": "dict", "options": QOS_SPEC},
    "dcbx": {"type": "str", "choices": ["host", "any"], "default": "host"},
    "others": {"type": "str", "choices": ["refuse", "warn"], "default": "refuse"},
    "vfs": {"type": "bool", "default": True},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Ets(t.NamedTuple):
    """``prio_tc`` by priority, ``tc_bw`` in percent and ``tsa`` (the kernel's numbers) by traffic class."""

    prio_tc: tuple[int, ...]
    tc_bw: tuple[int, ...]
    tsa: tuple[int, ...]


class QosSpec(t.NamedTuple):
    """The desired QoS of a port. None: not changed. ``priority`` and ``dscp`` are RoCE's, for comparison."""

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
    profile: str | None

    @property
    def uses_dcb(self) -> bool:
        """Whether a setting needs DCB of the driver."""
        settings = (self.trust, self.pfc, self.ets, self.prio_buffer, self.buffer_size, self.cable_len)
        return bool(self.dscp2prio) or any(each is not None for each in settings)


def ports(options: Options) -> list[PortReference]:
    """The option ``ports``. Raises all errors at once."""
    errors: list[RailyardError] = []
    found = [
        port_reference.read(each, "ports[%d]" % number, errors)
        for number, each in enumerate(options.get("ports") or [])
    ]
    raise_all(errors)
    return found


def vf_ranges(options: Options) -> dict[str, range]:
    """Return place of a port -> the numbers of its VFs whose RDMA devices are marked, for ports with ``range``.

    Raises all errors at once.
    """
    errors: list[RailyardError] = []
    rows = {"ports[%d]" % number: each for number, each in enumerate(options.get("ports") or [])}
    ranges = {place: port_reference.vf_range(each, place, errors) for place, each in rows.items()}
    raise_all(errors)
    return {place: numbers for place, numbers in ranges.items() if numbers}


def qos_of_ports(options: Options) -> dict[str, QosSpec]:
    """Return place of a port (``ports[2]``) -> its own QoS. Raises all errors at once."""
    found: dict[str, QosSpec] = {}
    errors: list[RailyardError] = []
    for number, port in enumerate(options.get("ports") or []):
        place = "ports[%d]" % number
        try:
            if port.get("qos"):
                found[place] = qos_of(port)
        except RailyardError as error:
            errors += [RailyardError(each.message, "%s.%s" % (place, each.place), each.remedy) for each in error.errors]
    raise_all(errors)
    return found


def qos_of(options: Options) -> QosSpec:
    """The option ``qos`` of the module or of a port, checked for contradictions. Raises all errors at once."""
    qos = options.get("qos") or {}
    errors: list[RailyardError] = []
    buffers = qos.get("buffers") or {}
    ets = qos.get("ets")
    found = QosSpec(
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
        qos.get("profile"),
    )
    raise_all(errors)
    raise_all([RailyardError(message, "qos." + key, remedy) for key, message, remedy in contradictions(found)])
    return found


def contradictions(spec: QosSpec) -> list[tuple[str, str, str]]:
    """The contradictions: (key, what is wrong, remedy)."""
    found = _marking(spec) + _lossless(spec)
    if spec.ets:
        shares = [share for share, tsa in zip(spec.ets.tc_bw, spec.ets.tsa) if tsa == TSA_NUMBERS["ets"]]
        if shares and sum(shares) != 100:
            found.append(("ets.tc_bw", "the shares add up to %d percent" % sum(shares), "make them add up to 100"))
        if 0 in shares:
            found.append(("ets.tc_tsa", "a class of type ets has a share of 0", "give it a share, or make it strict"))
    return found


def _marking(spec: QosSpec) -> list[tuple[str, str, str]]:
    """The marks that a sender writes into packets, compared with how the NIC classifies them."""
    found = []
    follow = "use the values that the plan derives"
    if spec.dscp is not None:
        for key, value in (("tclass", spec.tclass), ("rdma_cm_tos", spec.rdma_cm_tos)):
            if value is not None and value >> 2 != spec.dscp:
                found.append((key, "%d marks packets with DSCP %d, not %d" % (value, value >> 2, spec.dscp), follow))
    if spec.tclass is not None and spec.rdma_cm_tos is not None and spec.tclass != spec.rdma_cm_tos:
        message = "%d differs from the tclass, %d" % (spec.rdma_cm_tos, spec.tclass)
        found.append(("rdma_cm_tos", message, follow))
    if spec.ecn and spec.tclass is not None and bool(spec.tclass & 3) != spec.ecn["enable"]:
        state = "enables" if spec.tclass & 3 else "disables"
        message = "%d %s ECN, but ecn.enable is %s" % (spec.tclass, state, str(spec.ecn["enable"]).lower())
        found.append(("tclass", message, follow))
    if spec.trust == "pcp" and spec.dscp2prio:
        message = "DSCP entries do not go with trust pcp: the first of them changes the trust to dscp"
        found.append(("dscp2prio", message, "leave them out, or set trust: dscp"))
    if spec.trust == "dscp":
        if not spec.dscp2prio:
            found.append(("dscp2prio", "is empty, but trust is dscp", "map RoCE's DSCP to its priority"))
        marks = [(spec.dscp, spec.priority, "RoCE")]
        if spec.ecn:
            marks.append((spec.ecn["cnp_dscp"], spec.ecn["cnp_priority"], "CNPs"))
        for dscp, priority, whose in marks:
            have = spec.dscp2prio.get(dscp) if dscp is not None else None
            if have is not None and priority is not None and have != priority:
                message = "DSCP %s of %s is mapped to priority %d, not %d" % (dscp, whose, have, priority)
                found.append(("dscp2prio", message, follow))
            elif have is None and dscp is not None and spec.dscp2prio:
                found.append(("dscp2prio", "has no entry for DSCP %s of %s" % (dscp, whose), follow))
    return found


def _lossless(spec: QosSpec) -> list[tuple[str, str, str]]:
    """PFC, ECN and buffers."""
    found = []
    pfc, ecn = spec.pfc or (), spec.ecn
    if spec.profile is not None and spec.pfc is not None and any(pfc) != PROFILES[spec.profile]:
        message = "the profile %s %s, but pfc selects %s" % (
            spec.profile,
            "has PFC" if PROFILES[spec.profile] else "has no PFC",
            ", ".join(str(priority) for priority, on in enumerate(pfc) if on) or "no priority",
        )
        found.append(("pfc", message, "use the values that the plan derives, or another profile"))
    if spec.priority is not None:
        if any(pfc) and not pfc[spec.priority]:
            message = "priority %d of RoCE is not paused" % spec.priority
            found.append(("pfc", message, "pause it too, or pause none"))
        for key in ("np", "rp"):
            if ecn and ecn["enable"] and spec.priority not in ecn[key]:
                found.append(("ecn." + key, "priority %d of RoCE is missing" % spec.priority, "add it"))
    if ecn and any(pfc) and pfc[ecn["cnp_priority"]]:
        message = "CNPs are on priority %d, which is paused" % ecn["cnp_priority"]
        found.append(("ecn.cnp_priority", message, "give them another priority: they must pass while RoCE is paused"))
    if spec.global_pause and any(pfc):
        message = "global pause stops all priorities, but pfc selects some"
        found.append(("global_pause", message, "set it to false"))
    if spec.prio_buffer and any(pfc):
        paused = {buffer for buffer, bit in zip(spec.prio_buffer, pfc) if bit}
        shared = paused.intersection(buffer for buffer, bit in zip(spec.prio_buffer, pfc) if not bit)
        if shared:
            message = "buffer %d has both paused priorities and others" % min(shared)
            found.append(("buffers.prio_buffer", message, "give the paused ones another buffer"))
    if spec.prio_buffer and spec.buffer_size:
        empty = {buffer for buffer in spec.prio_buffer if not spec.buffer_size[buffer]}
        if empty:
            message = "buffer %d is in use, but its size is 0" % min(empty)
            found.append(("buffers.buffer_size", message, "give it a size"))
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


def _within(value: t.Any, high: int, place: str, errors: list[RailyardError], low: int = 0) -> int | None:
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = low - 1
        message = "%r is not a number" % (value,)
    else:
        message = "%s is out of range" % value
    if low <= number <= high:
        return number
    errors.append(RailyardError(message, place, "write a number from %d to %d" % (low, high)))
    return None


def _eight(value: t.Any, high: int, place: str, errors: list[RailyardError]) -> tuple[int, ...] | None:
    if value is None:
        return None
    if len(value) != EIGHT:
        errors.append(RailyardError("has %d values, not 8" % len(value), place, "give one for each of 0 to 7"))
        return None
    return tuple(_within(each, high, "%s[%d]" % (place, at), errors) or 0 for at, each in enumerate(value))


def _pairs(value: t.Sequence[t.Any], errors: list[RailyardError]) -> dict[int, int]:
    found: dict[int, int] = {}
    for at, pair in enumerate(value):
        place = "qos.dscp2prio[%d]" % at
        if len(pair) != 2 or None in pair:
            errors.append(RailyardError("is not a pair", place, "write it as [DSCP, priority], such as [26, 3]"))
            continue
        dscp, priority = _within(pair[0], 63, place, errors), _within(pair[1], 7, place, errors)
        if dscp in found:
            errors.append(RailyardError("DSCP %d is given twice" % dscp, place, "give each DSCP once"))
        if dscp is not None and priority is not None:
            found[dscp] = priority
    return found


def _ets(value: Options, errors: list[RailyardError]) -> Ets | None:
    prio_tc = _eight(value.get("prio_tc"), 7, "qos.ets.prio_tc", errors)
    tc_bw = _eight(value.get("tc_bw"), 100, "qos.ets.tc_bw", errors)
    names = value.get("tc_tsa") or []
    if len(names) != EIGHT or not set(names).issubset(("ets", "strict")):
        message = "must be eight values, each ets or strict"
        errors.append(RailyardError(message, "qos.ets.tc_tsa", "use the values that the plan derives"))
        return None
    if prio_tc is None or tc_bw is None:
        if not value.get("prio_tc") or not value.get("tc_bw"):
            errors.append(RailyardError("prio_tc, tc_bw and tc_tsa go together", "qos.ets", "give all three"))
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
    # the defaults of NVIDIA's NICs
    found["cnp_dscp"] = 48 if cnp_dscp is None else cnp_dscp
    found["cnp_priority"] = 6 if cnp_priority is None else cnp_priority
    return found
