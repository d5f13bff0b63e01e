# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nodes do not show about the planes of a server model: findings that the user decides on."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings, named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_planes import (
    is_bond_of_planes,
    is_dual_port,
    may_have_planes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import Model

_HARDWARE = "planes: {count: %d, balancing: hardware}"


def report_planes(model: Model, rails: t.Sequence[str], findings: Findings) -> None:
    """Report planes of compute rails whose balancing nodes do not show.

    :param rails: the names of all compute rails, with NICs and planes.
    """
    of_model = [rail for rail in rails if rail in model.rails]
    nics = {rail: model.nics[model.rails[rail]] for rail in of_model}
    for rail, nic in nics.items():
        if nic.bond and is_bond_of_planes(nic):
            _bond(model, rail, nic, findings)
    addressed = {rail for rail in of_model if _mostly(port.addresses for _node, port in model.on(rail))}
    # a device with a port for each plane serves both kinds of balancing
    undecided = [rail for rail, nic in nics.items() if rail not in addressed and any(p.rdma_port for p in nic.planes)]
    if undecided:
        message = "no address shows whether the NIC or the hosts balance over the planes of %s" % named(undecided)
        remedy = "keep hardware balancing, or give each plane its own rail entry with planes: %d and its own network"
        findings.add("DS313", ("rails",), message, remedy % nics[undecided[0]].device_planes)
    by_card: dict[str, list[str]] = {}
    for rail, nic in nics.items():
        if may_have_planes(nic) and nic.layer == "ethernet" and not nic.bond and not is_dual_port(nic):
            by_card.setdefault(nic.card, []).append(rail)
    several = [own for own in by_card.values() if len(own) > 1]
    without = [own for own in several if len(addressed.intersection(own)) < 2]
    if without:
        first = [rail for own in without for rail in own[:1]]
        message = "fewer than two planes of a NIC have addresses (%s), so nodes do not show who balances" % named(first)
        remedy = "keep software balancing with a network for each plane, or write " + _HARDWARE
        findings.add("DS313", ("rails",), message, remedy % len(without[0]))
    single = [own[0] for own in by_card.values() if len(own) == 1 and nics[own[0]].device_planes == 1]
    if single:
        message = "the NICs of %s show one port each, and may balance over planes that the node does not show"
        remedy = "if they have planes, write %s for the rails" % (_HARDWARE % 2)
        findings.add("DS316", ("profiles", model.name), message % named(single), remedy)


def _bond(model: Model, rail: str, nic: Nic, findings: Findings) -> None:
    name, count = nic.bond.name if nic.bond else "", len(nic.members)
    path = ("profiles", model.name, "ports", rail)
    if nic.device_planes > 1:
        message = "%s has %d functions of a NIC that can balance over planes, so each is a plane" % (name, count)
        findings.add("DS314", path, message, "remove planes from the rail if %s is a bond for redundancy" % name)
        return
    message = "%s has two functions of a NIC that can balance over planes" % name
    findings.add("DS314", path, message, "if they are planes of the NIC, write %s for the rail" % (_HARDWARE % count))


def _mostly(values: t.Iterable[t.Any]) -> bool:
    """Return whether most values are not empty."""
    flags = [bool(value) for value in values]
    return 2 * sum(flags) > len(flags)
