# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY3xx: rails without addresses for ports or for pods."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import addressing
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import IPV6
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.report.text import count

_GOOD = """\
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
"""
_PODS = "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, pods_per_node: 8}\n"

NO_HOSTS = rule(
    "RY314",
    "A rail has no host addresses, so it cannot be proven",
    _GOOD.replace(", hosts: .201-.253", "", 1),
    _GOOD,
    WARNING,
)
NO_PODS = rule(
    "RY329",
    "Pods shall have addresses on a rail that has none for them",
    _PODS + _GOOD.replace(" pods: .1-.200,", "", 1),
    _PODS + _GOOD,
)


def check(fabric: Fabric, report: Report) -> None:
    _hosts(fabric, report)
    for rail in fabric.rails:
        _podless(fabric, rail, report)


def named(rails: t.Sequence[Rail]) -> str:
    """The first rail, and how many more there are."""
    more = " and %s" % count(len(rails) - 1, "more rail", "more rails") if len(rails) > 1 else ""
    return rails[0].name + more


def _hosts(fabric: Fabric, report: Report) -> None:
    """That ports have addresses, without which the rail cannot be verified: one finding for each place in the file."""
    found: dict[Path, list[Rail]] = {}
    for rail in fabric.rails:
        if fabric.link_layer != ETHERNET or rail.mode is None or report.within(rail.path):
            continue
        if rail.mode in (addressing.PREFIX, addressing.LINK):
            if any(scheme.host == addressing.NONE for scheme in rail.schemes.values()):
                found.setdefault(rail.where("host"), []).append(rail)
        elif not any(scheme.hosts for scheme in rail.schemes.values()) and not any(
            report.within(rail.where(key)) for key in ("hosts", "hosts6")
        ):
            found.setdefault(rail.path, []).append(rail)
    for path, rails in found.items():
        one = len(rails) == 1
        if rails[0].mode in (addressing.PREFIX, addressing.LINK):
            message = "%s %s no address for ports (host: none), so %s cannot be verified"
            words = (named(rails), "keeps" if one else "keep", "it" if one else "they")
            remedy = "take host out: each port then has the first address"
        else:
            message = "%s %s no hosts: %s ports get no address and cannot be verified"
            words = (named(rails), "has" if one else "have", "its" if one else "their")
            small = any(net.size < 256 for rail in rails for net in rail.networks)
            remedy = "set aside a range, such as hosts: %s" % ("+0-+1" if small else ".201-.253")
        report.add(NO_HOSTS, path, message % words, remedy)


def _podless(fabric: Fabric, rail: Rail, report: Report) -> None:
    if fabric.pods_per_node is None or rail.mode != addressing.SUBNET:
        return
    for bits, scheme in rail.schemes.items():
        path = rail.where("pods6" if bits == IPV6 else "pods")
        if scheme.pods is None and not report.within(path) and not report.within(rail.path):
            message = "pods_per_node is %d, and %s has no pods in %s" % (
                fabric.pods_per_node,
                rail.name,
                scheme.network,
            )
            report.add(NO_PODS, path, message, "set aside a range for pods, or take pods_per_node out")
