# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY3xx: rails without addresses for ports or for pods."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate import address_schemes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_PODS = example_file.fabric(", pods_per_node: 8") + "\n"


def check(fabric: Fabric, report: Report) -> None:
    _hosts(fabric, report)
    for rail in fabric.rails:
        _podless(fabric, rail, report)


def named(rails: t.Sequence[Rail]) -> str:
    """Return the name of the first rail, and how many more there are."""
    more = " and %s" % count(len(rails) - 1, "more rail", "more rails") if len(rails) > 1 else ""
    return rails[0].name + more


NO_HOSTS = rule(
    "RY314 no-host-addresses: Rail without host addresses, which cannot be verified",
    example_file.RAILS.replace(", hosts: .201-.253", "", 1),
    example_file.RAILS,
    WARNING,
)


def _hosts(fabric: Fabric, report: Report) -> None:
    """Report rails whose ports have no addresses and cannot be verified: one finding per place in the file."""
    found: dict[Path, list[Rail]] = {}
    for rail in fabric.rails:
        if fabric.link_layer_on(rail) != ETHERNET or rail.mode is None or report.within(rail.path):
            continue
        if rail.mode in (address_schemes.PREFIX, address_schemes.LINK):
            if any(scheme.host == address_schemes.NONE for scheme in rail.schemes.values()):
                found.setdefault(rail.where("host"), []).append(rail)
        elif not any(scheme.hosts for scheme in rail.schemes.values()) and not any(
            report.within(rail.where(key)) for key in ("hosts", "hosts6")
        ):
            found.setdefault(rail.path, []).append(rail)
    for path, rails in found.items():
        one = len(rails) == 1
        if rails[0].mode in (address_schemes.PREFIX, address_schemes.LINK):
            message = "%s %s no address for ports (host: none), so %s cannot be verified"
            parts = (named(rails), "keeps" if one else "keep", "it" if one else "they")
            remedy = "remove host: each port then has the first address"
        else:
            message = "%s %s no hosts: %s ports get no address and cannot be verified"
            parts = (named(rails), "has" if one else "have", "its" if one else "their")
            small = any(net.size < 256 for rail in rails for net in rail.networks)
            remedy = "add a range, such as hosts: %s" % ("+0-+1" if small else ".201-.253")
        report.add(NO_HOSTS, path, message % parts, remedy)


NO_PODS = rule(
    "RY329 no-pod-addresses: Rail without pod addresses although pods need them",
    _PODS + example_file.RAILS.replace(" pods: .1-.200,", "", 1),
    _PODS + example_file.RAILS,
)


def _podless(fabric: Fabric, rail: Rail, report: Report) -> None:
    """Report a rail without a range for pods if ``pods_per_node`` is set."""
    if fabric.pods_per_node is None or not rail.for_pods or rail.mode != address_schemes.SUBNET:
        return
    for bits, scheme in rail.schemes.items():
        path = rail.where("pods" + SUFFIX[bits])
        if scheme.pods is None and not report.within(path) and not report.within(rail.path):
            message = "pods_per_node is %d, and %s has no pods in %s" % (
                fabric.pods_per_node,
                rail.name,
                scheme.network,
            )
            report.add(NO_PODS, path, message, "add a range for pods, or remove pods_per_node")
