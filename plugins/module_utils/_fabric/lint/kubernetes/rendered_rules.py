# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY820 to RY829: problems that only rendered objects show: objects that cannot be rendered, and derived names."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import PREFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    derived_names,
    object_components,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import RAIL
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.kubernetes.object_rules import SAME_NAME
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    SUFFIX,
    parse_range,
)

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

# With several ranges, Spiderpool's webhook lists each address; so many take about 200 MB of memory.
MOST_LISTED = 1 << 20

# Options are unknown here. These are values for what only options set, such as images.
_OPTIONS: dict[str, t.Any] = {
    "registry": "registry.invalid",
    "images": {"test": "registry.invalid/rails/test:1"},
    "node_feature_rule": True,
    "schedulers": ["kueue", "volcano"],
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
    if facts_of(plan.fabric.provider).lists_addresses:
        _listed(plan, report)


UNRENDERED = rule(
    "RY820 objects-not-rendered: Kubernetes objects that cannot be rendered",
    _PORTS % ("nic", "nic"),
    _PORTS % ("ens", "ens"),
    why="render.yml and kubernetes.yml would reject the plan. Here k8s-rdma-shared-dev-plugin would allocate one netdev"
    " under two resources on every node.",
)


def _refused(error: RailyardError, report: Report) -> None:
    """Report an error of the renderer, unless an option that the fabric file does not contain is the reason."""
    if not error.place.startswith("kubernetes."):  # options are not in the fabric file
        report.add(UNRENDERED, tuple(error.place.split(".")), error.message, error.remedy)


def _check(plan: Plan, document: dict[str, t.Any], report: Report) -> None:
    """Render all objects of the plan and check names, lengths and sizes."""
    names = plan.fabric.names_path
    keys: set[tuple[str, str | None, str]] = set()
    for rendered in object_components.objects(document, _OPTIONS):
        kind, metadata = rendered["kind"], rendered["metadata"]
        path: Path = names + (_TEMPLATES.get(kind, "network"),)
        key = kind, metadata.get("namespace"), metadata["name"]
        if key in keys:
            message = "two objects would be %s %s" % (kind, metadata["name"])
            remedy = (
                "give rails and networks other names: a network's copy for a group has -1x1 and the like at its end"
            )
            report.add(SAME_NAME, path, message, remedy)
        keys.add(key)
        _lengths(derived_names.of_object(rendered), path, report)
        if kind == "SpiderIPPool":
            _large(plan, rendered, report)
    _lengths(derived_names.of_view(object_components.viewed(document)), names + ("resource",), report)
    object_components.values(document, _OPTIONS)
    object_components.allocatable(document, _OPTIONS)
    for _node, _files in object_components.node_files(document, _OPTIONS):
        pass


TOO_LONG = rule(
    "RY822 derived-name-too-long: Name too long for a name derived from it",
    _VFS % '"a_long_name_of_a_resource_on_every_node_of_this_cluster_{rail}"',
    _VFS % '"{rail}_{attachment}"',
    why="Each name is within its limit, but controllers use it in the longer name of a label, a file or a socket. The"
    " limits are in docs/kubernetes-objects.md.",
)


def _lengths(found: t.Iterable[tuple[derived_names.Derived, str]], path: Path, report: Report) -> None:
    """Report derived names that are longer than their limit."""
    for each, text in derived_names.too_long(found):
        message = "%s has %d characters, and the limit is %d: %s" % (each.what, len(text), each.limit, text)
        report.add(TOO_LONG, path, message, "shorten the template, or the names of the fabric, rails and profiles")


POOL_FIXED = rule(
    "RY823 pool-not-changeable: Pool with too many addresses to be changed",
    _SIX % 64,
    _SIX % 112,
    WARNING,
    why="Spiderpool's controller lists all addresses of a pool at every change of the pool, and runs out of memory"
    " (1 GiB in the chart) at a few million. Such a pool can be created, used and deleted, but not changed.",
)


def _large(plan: Plan, pool: dict[str, t.Any], report: Report) -> None:
    """Report a pool with more addresses than Spiderpool can list."""
    spec = pool["spec"]
    bits = IPV6 if spec["ipVersion"] == 6 else IPV4
    ranges = (parse_range(each, bits=bits) for each in spec["ips"])
    size = sum(last - first + 1 for first, last in filter(None, ranges))
    if size <= MOST_LISTED:
        return
    rail = next(each for each in plan.fabric.rails if each.name == pool["metadata"]["labels"][RAIL])
    key = ("node_prefix" if rail.mode == PREFIX else "pods") + SUFFIX[bits]
    path = rail.where(key)
    if report.has(path):
        return
    message = "%s has %d addresses, and Spiderpool can list %d" % (pool["metadata"]["name"], size, MOST_LISTED)
    remedy = "write %s: %d or more" % (key, bits - 20) if rail.mode == PREFIX else "shorten the range"
    report.add(POOL_FIXED, path, message, remedy)


LISTED = rule(
    "RY821 too-many-taken-addresses: Too many taken addresses for Spiderpool",
    _TAKEN % "::1:0:0-::1:ffff:ffff",
    _TAKEN % "::1:0-::1:ff",
    why="Its agent lists all taken addresses of a family for each address that a pod gets, and so does its controller"
    " if a rail has several ranges. Both run out of memory (1 GiB in the chart) at a few million addresses.",
)


def _listed(plan: Plan, report: Report) -> None:
    """Report reserved addresses that are more than Spiderpool can list."""
    reserved: dict[int, int] = {}
    for rail in plan.fabric.rails:
        for bits, scheme in rail.schemes.items():
            if scheme.part and scheme.part.number > 1:
                continue  # counted for the first rail with this network
            for name, addresses in scheme.taken:
                before = reserved.get(bits, 0)
                reserved[bits] = before + addresses.size
                if before <= MOST_LISTED < reserved[bits]:
                    message = "with %s of %s, %d addresses are taken; Spiderpool can list %d" % (
                        name,
                        rail.name,
                        reserved[bits],
                        MOST_LISTED,
                    )
                    remedy = "list fewer addresses in taken: only those in pods and hosts are necessary"
                    report.add(LISTED, rail.where("taken.%s" % name), message, remedy)
