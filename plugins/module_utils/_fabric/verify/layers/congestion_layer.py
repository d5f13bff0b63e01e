# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many-to-one rounds: whether a congested port shares its bandwidth, and whether QoS works as planned.

A group is judged only if its clients together can send more than the port of their server can receive. Otherwise, and
for soft RDMA, its numbers are shown and its state is unknown.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import PROFILES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import qos_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pair_floors import expected_gbits
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.group_rounds import CLIENTS_MIN
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_family import (
    CNPS_HANDLED,
    CNPS_SENT,
    MARKED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
# The share of the port of the server that its clients must reach together, and the part of its fair share that each
# client must get. A port is congested if its clients can send this many times what it can receive.
SHARE, FAIR, CONGESTED = 0.5, 0.5, 1.5
# Words in the names of counters of packets that were lost and sent again.
LOSS = ("discard", "packet_seq_err", "pkt_seq_err", "ack_timeout", "oos_drop", "seq_err_nak", "retranssegs")
SOFT = "soft RDMA: shown, not judged"
_NAMED = 4

Group = t.Tuple[str, t.Sequence[str]]


class Incast(t.NamedTuple):
    """The transfers of a group on a rail. ``served``: the row of the server. ``written``: client -> its row."""

    server: str
    rail: str
    served: Row
    written: t.Mapping[str, Row]

    @property
    def gbits(self) -> dict[str, float]:
        """Return client -> its bandwidth in Gb/s, without clients that have no result."""
        return {name: float(row["gbits"]) for name, row in self.written.items() if row["gbits"] is not None}

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.server, *self.written)


def congestion(run: Run, planned: t.Sequence[Group]) -> None:
    """Judge the many-to-one rounds, and add ``congestion`` to the verdict if the run has them.

    :param planned: the groups, as (server, clients).
    """
    if not planned:
        return
    rows = []
    measured = _measured(run)
    rails = {report.name: {port["rail"] for port in report.plan["ports"]} for report in run.reports.values()}
    for server, clients in planned:
        for rail in sorted(rails.get(server, ())):
            few = sum(rail in rails.get(name, ()) for name in clients) < CLIENTS_MIN
            if few or rail not in run.rails or run.blocked("rdma", server, rail):
                continue
            incast = measured.get((server, rail))
            whys = ["the server has no result"] if incast is None else _judge(run, incast)
            failed = whys is None
            state = FAIL if failed else UNKNOWN if whys else PASS
            row: Row = {"server": server, "rail": rail, "state": state, "why": "; ".join(whys or ()) or None}
            rows.append({**row, **_numbers(run, incast)})
            if state == UNKNOWN and whys != [SOFT]:
                run.warn("RV820", server, rail, "many-to-one test", expected="a result", found=row["why"])
    run.shown["congestion"] = rows


def _measured(run: Run) -> dict[tuple[str, str], Incast]:
    """Return server and rail -> what both ends measured."""
    written = {
        (report.name, row["turn"], row["rail"]): row for report in run.nodes() for row in report.groups if "peer" in row
    }
    return {
        (report.name, row["rail"]): Incast(
            report.name,
            row["rail"],
            row,
            {
                name: written[name, row["turn"], row["rail"]]
                for name in row["clients"]
                if (name, row["turn"], row["rail"]) in written
            },
        )
        for report in run.nodes()
        for row in report.groups
        if "clients" in row
    }


def _numbers(run: Run, incast: Incast | None) -> Row:
    """Return the measurements of a group for the verdict."""
    if incast is None:
        return {"clients": {}, "gbits": None, "expected_gbits": None, "counters": {}}
    rows = {incast.server: incast.served, **incast.written}
    counters = {name: row["counters"] for name, row in rows.items() if any(row["counters"].values())}
    total = round(sum(incast.gbits.values()), 2)
    expected = expected_gbits(run, incast.server, incast.rail)
    return {"clients": incast.gbits, "gbits": total, "expected_gbits": expected, "counters": counters}


def _judge(run: Run, incast: Incast) -> list[str] | None:
    """Report what is wrong with a group.

    :return: why parts of it are unknown; empty if all of it is as planned, None after a failure.
    """
    served, rail = incast.served, incast.rail
    if served["error"]:
        return [str(served["error"])]
    lost = dict(served["lost"])
    lost.update({name: row["error"] for name, row in incast.written.items() if row["error"]})
    ports = [run.port(node, rail) for node in incast.nodes]
    if any(port["rdma"]["type"] != "hardware" for port in ports):
        return [SOFT]
    if any(run.reports[node].others for node in incast.nodes):
        return ["another run measured at the same time"]
    unmeasured = [row["unmeasured"] for row in incast.written.values() if row.get("unmeasured")]
    if unmeasured:
        return [str(unmeasured[0])]
    gbits, could = incast.gbits, expected_gbits(run, incast.server, rail)
    if len(gbits) < CLIENTS_MIN:
        return ["%s with a result%s" % (count(len(gbits), "client"), _texts(lost.values()))]
    if not could:
        return ["the bandwidth of the port is unknown"]
    sent = sum(expected_gbits(run, name, rail) or 0 for name in gbits)
    if sent < could * CONGESTED:
        return ["its clients cannot congest the port: they send %.0f Gb/s, and it receives %.0f" % (sent, float(could))]
    total = sum(gbits.values())
    unknown = ["%s without a result%s" % (count(len(lost), "client"), _texts(lost.values()))] if lost else []
    failed = _is_slow(run, incast, total, could)
    _unfair(run, incast, total)
    failed = _has_lost(run, incast, unknown) or failed
    failed = _has_no_ecn(run, incast, unknown) or failed
    return None if failed else unknown


def _texts(whys: t.Iterable[str]) -> str:
    found = list(dict.fromkeys(whys))
    return " (%s)" % first_of(found, 2) if found else ""


def _is_slow(run: Run, incast: Incast, total: float, could: float) -> bool:
    if total >= could * SHARE:
        return False
    expected = "%.0f Gb/s or more from %d clients together" % (could * SHARE, len(incast.gbits))
    run.fail("RV824", incast.server, incast.rail, "many-to-one bandwidth", expected=expected, found="%.1f Gb/s" % total)
    return True


def _unfair(run: Run, incast: Incast, total: float) -> None:
    fair = total / len(incast.gbits)
    for name, gbits in incast.gbits.items():
        if gbits < fair * FAIR:
            expected = "about %.1f Gb/s, its share of %d clients" % (fair, len(incast.gbits))
            about = {"expected": expected, "found": "%.1f Gb/s" % gbits, "peer": incast.server}
            run.warn("RV823", name, incast.rail, "many-to-one bandwidth", **about)


def _has_lost(run: Run, incast: Incast, unknown: list[str]) -> bool:
    """Report lost packets if the plan pauses the class of RoCE at the port of the server."""
    qos = qos_of(run.fabric, run.port(incast.server, incast.rail)) or {}
    if not any(qos.get("pfc") or ()):
        return False
    increased, known = [], False
    for node, row in ((incast.server, incast.served), *incast.written.items()):
        for name, value in row["counters"].items():
            # without a counter of congestion, none was read
            known = True
            if value and any(word in name.lower() for word in LOSS):
                increased.append("%s +%d on %s" % (name, value, node))
    if increased:
        found = first_of(increased, _NAMED)
        run.fail("RV822", incast.server, incast.rail, "lost packets", expected="none", found=found)
    elif not known:
        unknown.append("no counter of lost packets could be read")
    return bool(increased)


def _has_no_ecn(run: Run, incast: Incast, unknown: list[str]) -> bool:
    """Report congestion without marks, marks without CNPs, and CNPs that no client handles, if the plan has ECN."""
    settings = [qos_of(run.fabric, run.port(node, incast.rail)) or {} for node in incast.nodes]
    if not all((qos.get("ecn") or {}).get("enable") for qos in settings):
        return False
    profile = PROFILES.get(settings[0].get("profile", ""))
    if profile and profile.trimming:
        unknown.append("ECN was not judged: congestion control of the profile %s may not use CNPs" % profile.name)
        return False
    marked, sent = (value(incast.served["counters"], name) for name in (MARKED, CNPS_SENT))
    handled = [value(row["counters"], CNPS_HANDLED) for row in incast.written.values()]
    about: Row = {}
    if marked == 0 or (marked is None and sent == 0):
        about.update(expected="packets with an ECN mark", found="none" if marked == 0 else "no CNP was sent")
        about["cause"] = "the leaf of %s does not mark packets of the class of RoCE, or they have another class" % (
            incast.server
        )
    elif sent == 0:
        about.update(expected="CNPs", found="%s packets were marked, and no CNP was sent" % format(marked, ","))
        about["cause"] = "the notification point of %s is off (np), or its NIC uses no CNPs" % incast.server
    elif sent and None not in handled and not sum(filter(None, handled)):
        about["expected"] = "clients handle CNPs"
        about["found"] = "%s CNPs were sent, and none was handled" % format(sent, ",")
        about["cause"] = "the reaction point of the clients is off (rp), or a leaf drops CNPs"
    if about:
        run.fail("RV821", incast.server, incast.rail, "ECN", **about)
        return True
    missing = [
        name
        for name, known in zip((MARKED, CNPS_SENT, CNPS_HANDLED), (marked, sent, None if None in handled else 0))
        if known is None
    ]
    if missing:
        unknown.append("ECN was not judged at all points: the NIC has no counter like %s" % " and ".join(missing))
    return False


def value(counters: t.Mapping[str, int], name: str) -> int | None:
    """Return the increase of a counter of mlx5, by its name on any family; None: unknown."""
    names = [name, *(family.counters[name] for family in FAMILIES.values() if name in family.counters)]
    return next((counters[each] for each in names if each in counters), None)


def lines(rows: t.Sequence[Row]) -> list[str]:
    """Return the summary of many-to-one rounds for a terminal; empty without them."""
    if not rows:
        return []
    counts = {state: sum(row["state"] == state for row in rows) for state in (PASS, FAIL, UNKNOWN)}
    states = ", ".join("%d %s" % (number, state) for state, number in counts.items() if number)
    rates = [row["gbits"] for row in rows if row["gbits"]]
    least = "; least %.2f Gb/s" % min(rates) if rates else ""
    whys = list(dict.fromkeys(row["why"] for row in rows if row["why"]))
    return ["many-to-one: %s%s%s" % (states, least, " (%s)" % first_of(whys, 2) if whys else "")]
