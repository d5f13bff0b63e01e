# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The floor of each transfer, from what its two nodes show and, for what they do not show, from the plan."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import link_layer_of, planes_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import (
    GENERATIONS,
    End,
    Floor,
    Transfer,
    packet_data,
    rail_floor,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import plane_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.probe_results import Probe
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing.probe_targets import shared_address


def floor_of(run: Run, probe: Probe, share: float | None = None) -> Floor | None:
    """Return the floor of a transfer; None for soft RDMA, and if neither speed nor PCIe is known.

    :param share: the part of the bandwidth of link and PCIe to reach (``verify_share``); None: the model.
    """
    if probe.soft:
        return None
    key = (probe.nodes, probe.rail, share)
    if key not in run.floors:
        run.floors[key] = _floor_of(run, probe, share)
    floor: Floor | None = run.floors[key]
    return floor


def _floor_of(run: Run, probe: Probe, share: float | None) -> Floor | None:
    lost = {
        plane.number
        for node in probe.nodes
        for plane in plane_layer.observe(run.reports[node].live, run.port(node, probe.rail))
        if plane.up is False
    }
    ends = [end for node in probe.nodes for end in _ends(run, node, probe.rail, lost)]
    return rail_floor(ends, _transfer(run, probe), share)


def expected_gbits(run: Run, node: str, rail: str) -> float | None:
    """Return the bandwidth of a port's link and PCIe in Gb/s; None if it is unknown, and for soft RDMA."""
    if all(port["rail"] != rail for port in run.reports[node].plan["ports"]):
        return None
    floor = rail_floor(list(_ends(run, node, rail, ())), Transfer(), 1.0)
    return floor.gbits if floor else None


def _ends(run: Run, node: str, rail: str, lost: t.Collection[int]) -> t.Iterator[End]:
    """Yield what a port allows; for a bond, each member, because a transfer has one connection.

    :param lost: the planes that carry nothing between the two nodes.
    """
    report = run.reports[node]
    port = run.port(node, rail)
    if port["rdma"]["type"] != "hardware" or report.info is None:
        return
    live, planned = report.live, port["expect"]
    device = run.device(node, rail) or {}
    # an InfiniBand device reports the rate of all planes as its own
    planes = () if link_layer_of(run.fabric, port) == INFINIBAND else plane_layer.observe(live, port)
    up = [plane for plane in planes if plane.number not in lost]
    known = [plane.speed for plane in up if plane.speed]
    balanced = sum(known) if len(known) == len(up) else None
    for nic in live.functions(port) or [{}]:
        rates = [(nic.get("speed") or 0) / 1000.0, device.get("rate")]
        if not port.get("lower"):
            rates.reverse()
        speed = planned["speed"] * max(1, len(planes_of(port))) if planned["speed"] else None
        link = next((float(rate) for rate in (balanced, *rates, speed) if rate), None)
        seen = nic.get("pcie") or {}
        generation = seen.get("speed") or GENERATIONS.get(planned["pcie_gen"] or 0)
        lanes = seen.get("width") or planned["pcie_lanes"]
        of_planes = (len(up), len(planes)) if planes and balanced else None
        yield End(node, link, of_planes, (generation, lanes) if generation and lanes else None)


def _transfer(run: Run, probe: Probe) -> Transfer:
    """Return what a probe transferred."""
    client, server = (run.port(node, probe.rail) for node in probe.nodes)
    own: Row = {key: probe.transfer[key] for key in ("size", "iterations") if probe.transfer.get(key)}
    devices = [run.device(node, probe.rail) or {} for node in probe.nodes]
    active = [device["active_mtu"] for device in devices if device.get("active_mtu")]
    return Transfer(
        packet=min(active) if active else packet_data(min(client["mtu"], server["mtu"])),
        infiniband=link_layer_of(run.fabric, client) == INFINIBAND,
        ipv6=shared_address(client, server) == "address6",
        vlan=bool((client.get("lower") or {}).get("vlan")),
        **own,
    )
