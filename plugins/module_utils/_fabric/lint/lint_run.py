# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read, check and plan a fabric file."""

from __future__ import annotations

import contextlib
import gc
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import read
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    RULES,
    WARNING,
    Finding,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint import (
    address_rules,
    name_rules,
    network_rules,
    rail_rules,
    routing_rules,
    scale_rules,
    special_address_rules,
    unit_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.hosts import (
    driver_rules,
    gpu_rules,
    health_rules,
    host_rules,
    interface_rules,
    nic_rules,
    nvlink_rules,
    plane_rules,
    port_rules,
    qos_rules,
    rdma_rules,
    sriov_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.kubernetes import (
    ipam_rules,
    kubernetes_rules,
    object_rules,
    rendered_rules,
    slot_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import undecided_values, yaml_source

# Each family checks only values that could be read. Unreadable values are None and reported already.
FAMILIES = (
    name_rules.check,
    unit_rules.check,
    network_rules.check,
    address_rules.check,
    special_address_rules.check,
    routing_rules.check,
    rail_rules.check,
    interface_rules.check,
    plane_rules.check,
    port_rules.check,
    rdma_rules.check,
    driver_rules.check,
    nic_rules.check,
    object_rules.check,
    kubernetes_rules.check,
    ipam_rules.check,
    sriov_rules.check,
    slot_rules.check,
    gpu_rules.check,
    host_rules.check,
    health_rules.check,
    nvlink_rules.check,
    scale_rules.check,
    qos_rules.check,
)
# Checks of the plan, which exists only without errors.
PLAN_CHECKS = (sriov_rules.check_plan, rendered_rules.check_plan)


class Outcome(t.NamedTuple):
    """The result of lint. ``plan`` is None if a finding is an error."""

    plan: Plan | None
    findings: list[Finding]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]


def lint(raw: bytes) -> Outcome:
    """Read, check and plan a fabric file. Any bytes give an outcome; it raises no errors."""
    with _without_garbage_collection():
        return _lint(raw)


@contextlib.contextmanager
def _without_garbage_collection() -> t.Iterator[None]:
    """Disable the garbage collector: objects made here stay alive, and collections took half of the time at 32,768
    ports."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lint(raw: bytes) -> Outcome:
    report = Report()
    document = yaml_source.parse(raw, report)
    if document is None:
        return Outcome(None, report.findings(lambda _path: (1, 1)))
    fabric = read(document, report)
    variants = Variants(fabric)
    for check in FAMILIES:
        check(fabric, variants, report)
    undecided_values.check(raw, document, report)
    plan = None if report.failed else Plan(fabric, variants)
    if plan:
        for check_plan in PLAN_CHECKS:
            check_plan(plan, report)
        _check_suppressions(report)
    return Outcome(None if report.failed else plan, report.findings(document.position, document.written))


UNUSED_SUPPRESSION = rule(
    "RY118 unused-suppression: Suppression without a finding",
    """
lint:
  - {rule: RY314, place: rails.gpu01, reason: "proven elsewhere"}
""",
    example_file.RAILS,
    WARNING,
    why="An entry that remains after its finding was fixed would hide the next finding of that rule.",
)


def _check_suppressions(report: Report) -> None:
    """Report suppressions without a finding. Runs after all other checks."""
    for each in report.unused_suppressions():
        message = "no finding of %s at %s" % (RULES[each.code].label, each.place)
        report.add(UNUSED_SUPPRESSION, each.path, message, "remove the entry, or correct its place")
