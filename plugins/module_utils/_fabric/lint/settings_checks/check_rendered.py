# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY820 to RY829: what only shows in the rendered objects: whether they can be made, and what others make of them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import PREFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    derived_names,
    object_components,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import RAIL
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog.object_rules import SAME_NAME
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog.rendered_rules import (
    LISTED,
    POOL_FIXED,
    TOO_LONG,
    UNRENDERED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, parse_range

# Addresses of several ranges that Spiderpool's webhook lists in some 200 MB.
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
    if facts_of(plan.fabric.provider).lists_addresses:
        _listed(plan, report)


def _refused(error: RailyardError, report: Report) -> None:
    if not error.place.startswith("kubernetes."):  # options are not the file's
        report.add(UNRENDERED, tuple(error.place.split(".")), error.message, error.remedy)


def _check(plan: Plan, document: dict[str, t.Any], report: Report) -> None:
    names = plan.fabric.names_path
    seen: set[tuple[str, str | None, str]] = set()
    for made in object_components.objects(document, _OPTIONS):
        kind, metadata = made["kind"], made["metadata"]
        path: Path = names + (_TEMPLATES.get(kind, "network"),)
        key = kind, metadata.get("namespace"), metadata["name"]
        if key in seen:
            message = "two objects would be %s %s" % (kind, metadata["name"])
            remedy = (
                "give rails and networks other names: a network's copy for a group has -1x1 and the like at its end"
            )
            report.add(SAME_NAME, path, message, remedy)
        seen.add(key)
        _lengths(derived_names.of_object(made), path, report)
        if kind == "SpiderIPPool":
            _large(plan, made, report)
    _lengths(derived_names.of_view(object_components.viewed(document)), names + ("resource",), report)
    object_components.values(document, _OPTIONS)
    object_components.allocatable(document, _OPTIONS)
    for _node, _files in object_components.node_files(document, _OPTIONS):
        pass


def _lengths(found: t.Iterable[tuple[derived_names.Derived, str]], path: Path, report: Report) -> None:
    for each, text in derived_names.too_long(found):
        message = "%s has %d characters, and the limit is %d: %s" % (each.what, len(text), each.limit, text)
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
                    message = "with %s of %s, %d addresses are taken; Spiderpool can list %d" % (
                        name,
                        rail.name,
                        reserved[bits],
                        MOST_LISTED,
                    )
                    remedy = "take fewer addresses: only those in pods and hosts need to be taken"
                    report.add(LISTED, rail.where("taken.%s" % name), message, remedy)
