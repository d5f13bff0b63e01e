# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers reach and rdma: the results of probes between pairs of nodes, on each rail."""

from __future__ import annotations

import functools
import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_profiles import without_pfc
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    functions,
    leaf_of,
    link_layer_of,
    planes_of,
    qos_of,
    rails_of_network,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import counter_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, may_stop
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors import published_floors
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import Floor, soft_floor
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import (
    arp_answers,
    common_causes,
    pair_floors,
    swapped_cables,
    unmeasured,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import (
    Probe,
    blamed,
    carried,
    lost,
    path_mtu_text,
    purpose_of,
    received_text,
    sent,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.probe_targets import (
    both_provable,
    shared_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES

# A transfer below this part of the median is an outlier; a latency above it by this factor and microseconds.
OUTLIER, LATE_TIMES, LATE_US = 0.8, 2.0, 2.0
# The least number of measurements for a median.
ENOUGH = 4

# A transfer with data in GPU memory.
_GPU_CAUSE = "the NIC does not reach the GPU's memory (docs/gpudirect.md), or UDP port 4791 is filtered"
# InfiniBand uses neither UDP nor addresses as GIDs.
_IB_CAUSE = (
    "the subnet manager has no route between the two, their partitions differ, a device is broken, or, where the two "
    "did not meet, TCP between the nodes' management addresses is filtered"
)
_PLANES_CAUSE = (
    "the NIC does not distribute packets over all planes, congestion or pause frames (QoS), or a PCIe bottleneck"
)
# The number of nodes that a line names.
_NAMED = 4
NO_PAIR = "a pair needs two nodes"

Pair = t.Tuple[str, str]
# (soft RDMA, data in GPU memory, bandwidth of what limits the transfer in Gb/s)
Kind = t.Tuple[bool, bool, t.Optional[int]]


def probes(run: Run, pairs: t.Sequence[t.Sequence[str]]) -> list[Probe]:
    """Return all planned probes, in the order of the pairs and then of the rails.

    :param pairs: server and client, and the rails if they do not test all.
    """
    planned: list[Probe] = []
    for server, client, *rails in pairs:
        if server not in run.reports or client not in run.reports:
            continue
        results = {(row["rail"], row["peer"]): row for row in run.reports[client].probed}
        server_ports = {port["rail"]: port for port in run.reports[server].plan["ports"]}
        for port in run.reports[client].plan["ports"]:
            rail = port["rail"]
            server_port = server_ports.get(rail)
            if rails and rail not in rails[0]:
                continue
            if rail in run.rails and server_port and both_provable(port, server_port, run.fabric["link_layer"]):
                soft, addressed = port["rdma"]["type"] != "hardware", shared_address(port, server_port) is not None
                planned.append(Probe(rail, client, server, results.get((rail, server), {}), soft, addressed))
    return planned


def _look(run: Run, layer: str, probe: Probe) -> bool:
    """Return whether a pair must be checked on the rail, because neither node failed in an earlier layer."""
    place = (*probe.nodes, probe.rail)
    if any(run.blocked(layer, node, probe.rail) for node in probe.nodes) or not probe.result:
        run.skipped[layer].add(place)
        return False
    run.checked[layer].add(place)
    return True


def reach(run: Run, pairs: t.Sequence[t.Sequence[str]]) -> None:
    """Check that every rail carries packets of the planned MTU between the pairs, and only where planned."""
    planned = probes(run, pairs)
    checked = [probe for probe in planned if probe.addressed and _look(run, "reach", probe)]
    silent = [probe for probe in planned if not probe.addressed]
    run.skipped["reach"].update((*probe.nodes, probe.rail) for probe in silent)
    if not pairs:
        run.why_not["reach"] = NO_PAIR
    elif silent:
        rails = [rail for rail in run.rails if any(probe.rail == rail for probe in silent)]
        of = "" if len(rails) == len(run.rails) else "%s: " % ", ".join(rails)
        run.why_not["reach"] = "%sno addresses: not checked" % of
    answered = arp_answers.report_answers(run)
    # a reply to packets that another port received proves nothing
    checked = [each for each in checked if (each.server, each.rail) not in answered]
    unmeasured.packets(run, checked)
    checked = [each for each in checked if sent(each)]
    failed = [each for each in checked if lost(each)]
    successful = [each for each in checked if not lost(each)]
    swapped_cables.swaps(run, failed)
    alone = functools.partial(common_causes.named, run, "reach")
    failed = common_causes.report(run, "reach", failed, successful, common_causes.FAILS)
    for probe, node, peer in blamed(failed, successful, alone):
        if not _known(run, "reach", [node, peer], probe.rail):
            _failure(run, probe, node, peer)
    for probe in successful:
        _cross(run, probe)
    _six(run, successful)
    run.carried["reach"].update(carried(successful))


def _known(run: Run, layer: str, nodes: t.Sequence[str | None], rail: str) -> bool:
    """Return whether a reported failure of one of the nodes on the rail is the same one or can be the cause."""
    return any(
        each.node in nodes and rail in each.rails and (each.layer == layer or may_stop(CODES[each.code], layer))
        for each in run.failures_of(*filter(None, nodes))
    )


def _six(run: Run, probed: t.Sequence[Probe]) -> None:
    """Check replies over IPv6 if the plan has both families and IPv4 works."""
    failed = [probe for probe in probed if lost(probe, "reach6")]
    successful = [probe for probe in probed if probe.result.get("reach6") and not lost(probe, "reach6")]
    for probe, node, peer in blamed(failed, successful):
        if any(run.has("RV806", each, probe.rail) for each in (node, peer) if each):
            continue
        received = received_text(probe.result["reach6"])
        run.fail("RV806", node, probe.rail, "reachability over IPv6", expected="replies", found=received, peer=peer)


def _failure(run: Run, probe: Probe, node: str, peer: str | None) -> None:
    """Report lost packets, with the reason that the probe observed."""
    answer, found = probe.result["reach"], probe.found
    common: Row = {"peer": peer, "peers": [peer] if peer else []}
    leaf = _leaf(run, node, probe.rail)
    if answer["received"] > 0:
        common.update(expected="%d of %d packets back" % (answer["sent"], answer["sent"]))
        run.fail("RV803", node, probe.rail, "packets", found="%d" % answer["received"], **common)
    elif found.get("small"):
        cause = "the MTU of %s is smaller" % (leaf if peer is None else "a leaf port between %s and %s" % (node, peer))
        mtu = run.port(node, probe.rail)["mtu"]
        run.fail("RV802", node, probe.rail, "path MTU", expected=mtu, found=path_mtu_text(found), cause=cause, **common)
    elif swapped_cables.answers(run, probe):
        rails = swapped_cables.answers(run, probe)
        cause = "the cable of one of the nodes is plugged into the leaf of %s" % rails[0]
        answered = "the address on %s answers" % ", ".join(rails)
        more = dict(common, others=rails, cause=cause)
        run.fail("RV701", node, probe.rail, "leaf", expected="the leaf of the rail", found=answered, **more)
    else:
        common["cause"] = _no_reply(run, node, probe.rail)
        run.fail("RV801", node, probe.rail, "reachability", expected="replies", found=received_text(answer), **common)


def _no_reply(run: Run, node: str, rail: str) -> str | None:
    """Return the likely cause of lost packets on a VLAN or on one network for several rails; None for other rails."""
    causes = []
    vlan = (run.port(node, rail).get("lower") or {}).get("vlan")
    if vlan:
        causes.append("a leaf port does not pass VLAN %s" % vlan)
    if rail in rails_of_network(run.fabric):
        causes.append(
            "a leaf port of one of the two has another VLAN or filters packets. Packets cannot show swapped cables "
            "on one network for several rails: only LLDP can"
        )
    return "; or ".join(causes) or None


def _leaf(run: Run, node: str, rail: str) -> str:
    """Return the leaf port of a node on a rail as text. A bond has one for each member."""
    port = run.port(node, rail)
    leaves = [leaf_of(port, function) for function in functions(port)]
    texts = [" ".join(filter(None, ("the leaf port", leaf.get("name"), leaf.get("port")))) for leaf in leaves]
    return " or ".join(dict.fromkeys(texts))


def _cross(run: Run, probe: Probe) -> None:
    """Report a path to another rail that is open or closed against the plan."""
    crossed = probe.result.get("cross")
    if not crossed:
        return
    should = bool(run.fabric["routing"]["cross_rail"])
    # rails of one network reach each other without a gateway
    if crossed["open"] == should or crossed["rail"] in rails_of_network(run.fabric).get(probe.rail, ()):
        return
    words = {True: "open", False: "closed"}
    run.fail(
        *("RV804" if should else "RV805", probe.client, probe.rail, "path to %s" % crossed["rail"]),
        expected=words[should],
        found=words[crossed["open"]],
        peer=probe.server,
        others=[crossed["rail"]],
    )


# -- RDMA ------------------------------------------------------------------------------------------------------------


def rdma(run: Run, pairs: t.Sequence[t.Sequence[str]], share: float | None = None, soft: bool = False) -> None:
    """Check that RDMA works between the pairs, at the speed of the links, and without outliers.

    :param share: see :func:`.pair_floors.floor_of`.
    :param soft: whether the speed of soft RDMA is judged (``verify_soft_rdma``).
    """
    # lost packets are reported by the layer reach, if it was checked
    reported = "reach" in run.layers
    checked = [p for p in probes(run, pairs) if not (reported and lost(p)) and _look(run, "rdma", p)]
    if not pairs:
        run.why_not["rdma"] = NO_PAIR
    for report in run.nodes():
        if report.refused:
            # once per node, not per rail
            run.fail("RV851", report.name, None, "perftest", expected="server and client run", found=report.refused)
    checked = [each for each in checked if not any(run.reports[node].refused for node in each.nodes)]
    unmeasured.transfers(run, checked)
    unmeasured.counters(run, checked)
    failed = [each for each in checked if _failed(each)]
    successful = [each for each in checked if each.transfer and not _failed(each)]
    run.carried["rdma"].update(carried(successful))
    alone = functools.partial(common_causes.named, run, "rdma")
    failed = common_causes.report(run, "rdma", failed, successful, common_causes.FAILS)
    for probe, node, peer in blamed(failed, successful, alone):
        if not _known(run, "rdma", probe.nodes, probe.rail):
            _rdma_failure(run, probe, node, peer)
    successful = _alone(run, successful)
    floors = [pair_floors.floor_of(run, probe, share) for probe in successful]
    unmeasured.speeds(run, successful, floors, soft)
    if soft:
        floors = _with_soft(successful, floors)
    medians = _medians(successful, floors)
    short = [_is_short(probe, floor) for probe, floor in zip(successful, floors)]
    of_probe = dict(zip(((probe.nodes, probe.rail) for probe in successful), floors))
    slow = [probe for probe, each in zip(successful, short) if each]
    fast = [probe for probe, each in zip(successful, short) if not each]
    for probe, node, peer in blamed(common_causes.report(run, "rdma", slow, fast, common_causes.SLOW), fast, alone):
        floor = of_probe[probe.nodes, probe.rail]
        if not floor or any(run.has("RV853", each, probe.rail) for each in (node, peer) if each):
            continue
        expected = str(floor)
        reached = ("%.3g Gb/s" if probe.soft else "%.1f Gb/s") % (_measure(probe, "gbits") or 0)
        cause = _PLANES_CAUSE if planes_of(run.port(node, probe.rail)) else CODES["RV853"].cause
        published = published_floors.note(run.reports[node].plan.get("preset"))
        about: Row = {"cause": "; ".join(filter(None, (cause, published)))}
        run.fail("RV853", node, probe.rail, "bandwidth", expected=expected, found=reached, peer=peer, **about)
    for probe, floor, each in zip(successful, floors, short):
        if not each:
            _outliers(run, probe, medians, _kind(probe, floor))
    _counters(run)


def _alone(run: Run, successful: t.Sequence[Probe]) -> list[Probe]:
    """Return the transfers whose speed is valid, and report runs at the same time, which share a rail's bandwidth."""
    ends = {node for probe in successful for node in probe.nodes}
    concurrent: dict[str, list[tuple[str, str]]] = {}
    for report in run.nodes():
        for each in report.others if report.name in ends else ():
            concurrent.setdefault(each["run"], []).append((report.name, each["since"]))
    # once per run, not per node
    for run_name, places in concurrent.items():
        nodes = [node for node, _since in places]
        what = "bandwidth and latency of %s" % first_of(nodes, _NAMED)
        found = "also %s, since %s" % (run_name, min(since for _node, since in places))
        run.warn("RV856", nodes[0], None, what, expected="only this run", found=found)
    shared = {node for places in concurrent.values() for node, _since in places}
    unmeasured.shared(run, successful, shared)
    return [probe for probe in successful if not shared.intersection(probe.nodes)]


def _failed(probe: Probe) -> str:
    """Return the error of a transfer or its server; empty if it was successful."""
    return str((probe.transfer or probe.result).get("error") or "")


def _rdma_failure(run: Run, probe: Probe, node: str, peer: str | None) -> None:
    """Report a failed transfer, or a server that did not start."""
    about: Row = {"found": _failed(probe), "remedy": (probe.transfer or probe.result).get("remedy") or None}
    if probe.transfer or lost(probe):
        about.update(peer=peer, cause=_cause(run, probe))
        run.fail("RV852", node, probe.rail, "transfer", expected="success", **about)
    else:
        run.fail("RV851", probe.server, probe.rail, "server", expected="it listens", **about)


def _cause(run: Run, probe: Probe) -> str | None:
    """Return the likely cause of a failed transfer, if it is not that of the code."""
    if probe.transfer.get("gpu"):
        return _GPU_CAUSE
    return _IB_CAUSE if link_layer_of(run.fabric, run.port(probe.client, probe.rail)) == INFINIBAND else None


def _with_soft(successful: t.Sequence[Probe], floors: t.Sequence[Floor | None]) -> list[Floor | None]:
    """Return the floors, with one for soft RDMA."""
    measured = [_measure(probe, "gbits") for probe in successful if probe.soft]
    floor = soft_floor([value for value in measured if value is not None])
    return [floor if probe.soft else each for probe, each in zip(successful, floors)]


def _kind(probe: Probe, floor: Floor | None) -> Kind:
    """Return the properties that transfers with the same expected speed have in common."""
    return probe.soft, bool(probe.transfer.get("gpu")), round(floor.possible) if floor else None


def _medians(successful: t.Sequence[Probe], floors: t.Sequence[Floor | None]) -> dict[tuple[str, Kind], float]:
    """Return (measure, kind) -> the median of all pairs and rails of the kind, if there are enough."""
    values: dict[tuple[str, Kind], list[float]] = {}
    for probe, floor in zip(successful, floors):
        for key in ("gbits", "latency_us"):
            value = _measure(probe, key)
            if value is not None:
                values.setdefault((key, _kind(probe, floor)), []).append(value)
    return {key: statistics.median(measured) for key, measured in values.items() if len(measured) >= ENOUGH}


def _measure(probe: Probe, key: str) -> float | None:
    """Return a measurement of a transfer; None without one."""
    value = probe.transfer.get(key)
    return None if value is None else float(value)


def _is_short(probe: Probe, floor: Floor | None) -> bool:
    """Return whether a measured bandwidth is below its floor."""
    gbits = _measure(probe, "gbits")
    return floor is not None and gbits is not None and gbits < floor.gbits


def _outliers(run: Run, probe: Probe, medians: t.Mapping[tuple[str, Kind], float], kind: Kind) -> None:
    """Report a bandwidth or latency that is far worse than the median."""
    if probe.soft:
        return  # its speed depends on the load of the processors
    gbits, late = _measure(probe, "gbits"), _measure(probe, "latency_us")
    usual = medians.get(("gbits", kind))
    if usual and gbits is not None and gbits < usual * OUTLIER:
        expected, found = "about %.1f Gb/s as other pairs" % usual, "%.1f Gb/s" % gbits
        run.warn("RV855", probe.client, probe.rail, "bandwidth", expected=expected, found=found, peer=probe.server)
    usual = medians.get(("latency_us", kind))
    if usual and late is not None and late > max(usual * LATE_TIMES, usual + LATE_US):
        expected, found = "about %.2f us as other pairs" % usual, "%.2f us" % late
        run.warn("RV854", probe.client, probe.rail, "latency", expected=expected, found=found, peer=probe.server)


# -- counters --------------------------------------------------------------------------------------------------------

CONGESTION = ("cnp", "ecn", "pause", "xmit_wait", "rnr", "adp_retrans", "slow_restart")
# Counters of errors on the wire or in a queue; others only accompany them.
SERIOUS = (
    # without rx_errors, because drivers also count harmless frames there, such as long ones
    *("crc", "symbol", "icrc", "carrier", "out_of_buffer", "local_link", "link_error"),
    *("link_downed", "packet_seq_err", "port_rcv_errors", "local_ack_timeout", "retry_exceeded", "rcvd_seq_err"),
    *(word for family in FAMILIES.values() for word in family.error_counters),
)


def counters(run: Run) -> list[Row]:
    """Return the counters that increased during the run: ``node``, ``rail``, ``name``, ``before``, ``after``."""
    increased: list[Row] = []
    for report in run.nodes():
        live = report.live
        before, later = live.info.get("counters") or {}, report.after or {}
        for port in report.plan["ports"]:
            for part, name in ((part, name) for part, names in counter_names(live, port).items() for name in names):
                old, new = (each.get(part, {}).get(name) or {} for each in (before, later))
                for counter in sorted(new):
                    if counter in old and new[counter] > old[counter]:
                        row = {"node": report.name, "rail": port["rail"], "name": counter}
                        increased.append(dict(row, before=old[counter], after=new[counter]))
    return increased


def _counters(run: Run) -> None:
    """Report counters of errors that increased on rails without a failure, and pause frames where PFC is off."""
    increased: dict[Pair, list[Row]] = {}
    pauses: dict[Pair, list[Row]] = {}
    for row in counters(run):
        name = row["name"].lower()
        if "pause" in name and without_pfc(qos_of(run.fabric, run.port(row["node"], row["rail"]))):
            pauses.setdefault((row["node"], row["rail"]), []).append(row)
        alone = row["after"] - row["before"] > run.reports[row["node"]].group_increase(row["rail"], row["name"])
        if alone and any(word in name for word in SERIOUS) and not any(word in name for word in CONGESTION):
            increased.setdefault((row["node"], row["rail"]), []).append(row)
    for (node, rail), rows in increased.items():
        if rail in run.rails and not run.failed(node, rail):
            run.warn("RV861", node, rail, "error counters", expected="no change", found=_increases(rows))
    for (node, rail), rows in pauses.items():
        if rail in run.rails:
            run.warn("RV865", node, rail, "pause frames", expected="none", found=_increases(rows))


def _increases(rows: t.Iterable[Row]) -> str:
    return ", ".join("%s +%d" % (row["name"], row["after"] - row["before"]) for row in rows)


def measures(run: Run, pairs: t.Sequence[t.Sequence[str]], share: float | None = None) -> list[Row]:
    """Return the measurements of each pair and rail, for the verdict, each with its floor and what limits it."""
    rows: list[Row] = []
    for probe in probes(run, pairs):
        if not probe.result:
            continue
        floor = pair_floors.floor_of(run, probe, share)
        rows.append(
            {
                "rail": probe.rail,
                "from": probe.client,
                "to": probe.server,
                "purpose": purpose_of(run, probe),
                "gbits": _measure(probe, "gbits"),
                "latency_us": _measure(probe, "latency_us"),
                "rtt_ms": (probe.result["reach"] or {}).get("rtt_ms"),
                "mtu": run.port(probe.client, probe.rail)["mtu"],
                "gpu": bool(probe.transfer.get("gpu")),
                "ok": bool(probe.result["ok"]),
                "floor": round(floor.gbits, 1) if floor else None,
                "limited_by": floor.by if floor else None,
            }
        )
    return rows
