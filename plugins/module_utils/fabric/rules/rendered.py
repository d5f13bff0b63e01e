# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY820 to RY829: what only shows in the rendered objects: whether they can be made, and what others make of them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import IPV4, IPV6, parse_range
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addressing import PREFIX
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import SPIDERPOOL
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes import components, derived
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.base import RAIL
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules.objects import SAME_NAME

_PORTS = (
    "profiles:\n"
    '  hgx: {ports: {gpu01: {netdev: nic1, pci: "0000:0b:00.0"}, gpu02: {netdev: nic2, pci: "0000:0c:00.0"}}}\n'
    '  dgx: {attachment: ipvlan, ports: {gpu01: {netdev: %s1, pci: "0000:1b:00.0"},'
    ' gpu02: {netdev: %s2, pci: "0000:1c:00.0"}}}\n'
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n"
)
_TAKEN = (
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.250,\n'
    '  subnet6: "fd00:{n}::/64", pods6: "::1-::100", hosts6: "::1001-::10ff", taken: {routers: "%s"}}\n'
)
_SIX = (
    "addresses: {mode: prefix, supernet6: 'fd00::/32', rail_prefix6: 48, node_prefix6: %d}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)
_VFS = (
    "fabric: {name: ai, attachment: sriov, provider: network-operator, mtu: 4200, vfs: {count: 4}, pods_per_node: 4}\n"
    "names: {resource: %s}\n"
)

UNRENDERED = rule(
    "RY820",
    "The Kubernetes objects cannot be made",
    _PORTS % ("nic", "nic"),
    _PORTS % ("ens", "ens"),
    why="render.yml and kubernetes.yml would refuse the plan. Here k8s-rdma-shared-dev-plugin would hand out one netdev"
    " under two resources on every node.",
)
LISTED = rule(
    "RY821",
    "Too many taken addresses for Spiderpool",
    _TAKEN % "::1:0:0-::1:ffff:ffff",
    _TAKEN % "::1:0-::1:ff",
    why="Its agent lists all taken addresses of a family for each address that a pod gets, and its controller where a"
    " rail has two or more ranges. Both run out of memory (1 GiB by the chart) at some millions.",
)
TOO_LONG = rule(
    "RY822",
    "A name is too long for what others make of it",
    _VFS % '"a_long_name_of_a_resource_on_every_node_of_this_cluster_{rail}"',
    _VFS % '"{rail}_{attachment}"',
    why="Each name keeps to its own limit, and controllers put it into a label, a file or a socket with more in its"
    " name. The limits are in docs/kubernetes-objects.md.",
)
POOL_FIXED = rule(
    "RY823",
    "A pool has too many addresses to be changed",
    _SIX % 64,
    _SIX % 112,
    WARNING,
    why="Spiderpool's controller lists all addresses of a pool at every change of the pool, and runs out of memory"
    " (1 GiB by the chart) at some millions. Such a pool can be made, used and deleted, and not be changed.",
)

MOST_LISTED = 1 << 20
# Options are not known here: what they alone decide, such as images, is given.
_OPTIONS: dict[str, t.Any] = {
    "registry": "registry.invalid",
    "images": {"test": "registry.invalid/rails/test:1"},
    "node_feature_rule": True,
}
# Kind -> the template of its objects' names.
_TEMPLATES = {
    "SpiderIPPool": "pool",
    "SpiderReservedIP": "pool",
    "IPPool": "pool",
    "CIDRPool": "pool",
    "SriovNetworkNodePolicy": "policy",
}


def check_plan(plan: Plan, report: Report) -> None:
    if report.failed:
        return
    document = plan.sample()
    try:
        _check(plan, document, report)
    except Errors as errors:
        for error in errors.errors:
            _refused(error, report)
    except RailyardError as error:
        _refused(error, report)
    if plan.fabric.provider == SPIDERPOOL:
        _listed(plan, report)


def _refused(error: RailyardError, report: Report) -> None:
    if not error.place.startswith("kubernetes."):  # options are not the file's
        report.add(UNRENDERED, tuple(error.place.split(".")), error.message, error.remedy)


def _check(plan: Plan, document: dict[str, t.Any], report: Report) -> None:
    names = plan.fabric.names_path
    seen: set[tuple[str, str | None, str]] = set()
    for made in components.objects(document, _OPTIONS):
        kind, metadata = made["kind"], made["metadata"]
        path: Path = names + (_TEMPLATES.get(kind, "network"),)
        key = kind, metadata.get("namespace"), metadata["name"]
        if key in seen:
            message = "two objects would be the %s %s" % (kind, metadata["name"])
            remedy = (
                "give rails and networks other names: a network's copy for a group has -1x1 and the like at its end"
            )
            report.add(SAME_NAME, path, message, remedy)
        seen.add(key)
        _lengths(derived.of_object(made), path, report)
        if kind == "SpiderIPPool":
            _large(plan, made, report)
    _lengths(derived.of_view(components.viewed(document)), names + ("resource",), report)
    components.values(document, _OPTIONS)
    components.allocatable(document, _OPTIONS)
    for _node, _files in components.node_files(document, _OPTIONS):
        pass


def _lengths(found: t.Iterable[tuple[derived.Derived, str]], path: Path, report: Report) -> None:
    for each, text in derived.too_long(found):
        message = "%s has %d characters, and may have %d: %s" % (each.what, len(text), each.limit, text)
        report.add(TOO_LONG, path, message, "shorten the template, or the names of the fabric, rails and profiles")


def _large(plan: Plan, made: dict[str, t.Any], report: Report) -> None:
    spec = made["spec"]
    bits, six = (IPV6, "6") if spec["ipVersion"] == 6 else (IPV4, "")
    ranges = (parse_range(each, bits=bits) for each in spec["ips"])
    size = sum(last - first + 1 for first, last in filter(None, ranges))
    if size <= MOST_LISTED:
        return
    rail = next(each for each in plan.fabric.rails if each.name == made["metadata"]["labels"][RAIL])
    path = rail.where(("node_prefix" if rail.mode == PREFIX else "pods") + six)
    if report.has(path):
        return
    message = "%s has %d addresses, and Spiderpool can list %d" % (made["metadata"]["name"], size, MOST_LISTED)
    remedy = "write node_prefix%s: %d or more" % (six, bits - 20) if rail.mode == PREFIX else "shorten the range"
    report.add(POOL_FIXED, path, message, remedy)


def _listed(plan: Plan, report: Report) -> None:
    """That no list of addresses is longer than Spiderpool can hold."""
    reserved: dict[int, int] = {}
    for rail in plan.fabric.rails:
        for bits, scheme in rail.schemes.items():
            for name, held in scheme.taken:
                before = reserved.get(bits, 0)
                reserved[bits] = before + held.size
                if before <= MOST_LISTED < reserved[bits]:
                    message = "%s of %s: with it %d addresses are taken, of %d that Spiderpool can list" % (
                        name,
                        rail.name,
                        reserved[bits],
                        MOST_LISTED,
                    )
                    remedy = "take fewer: addresses outside of pods and hosts need not be taken"
                    report.add(LISTED, rail.where("taken.%s" % name), message, remedy)
