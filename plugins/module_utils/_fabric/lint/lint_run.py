# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Read, check and plan a fabric file."""

from __future__ import annotations

import contextlib
import gc
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import read
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    Finding,
    Report,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.checks import (
    check_addresses,
    check_file,
    check_names,
    check_ports,
    check_rails,
    check_routing,
    check_scale,
    check_special_addresses,
    check_units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.settings_checks import (
    check_driver,
    check_gpus,
    check_host,
    check_kubernetes,
    check_objects,
    check_qos,
    check_rdma,
    check_rendered,
    check_slots,
    check_sriov,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import yaml_source

# Each family checks only values that could be read. Unreadable values are None and reported already.
FAMILIES = (
    check_names.check,
    check_units.check,
    check_addresses.check,
    check_special_addresses.check,
    check_routing.check,
    check_rails.check,
    check_ports.check,
    check_rdma.check,
    check_driver.check,
    check_objects.check,
    check_kubernetes.check,
    check_sriov.check,
    check_slots.check,
    check_gpus.check,
    check_host.check,
    check_scale.check,
)
# Checks of the plan, which exists only without errors.
PLAN_CHECKS = (check_sriov.check_plan, check_rendered.check_plan)


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
    if fabric.qos and not report.has(("fabric", "attachment")) and not report.has(("fabric", "link_layer")):
        check_qos.check(fabric, report)
    plan = None if report.failed else Plan(fabric, variants)
    if plan:
        for check_plan in PLAN_CHECKS:
            check_plan(plan, report)
        check_file.check_lint(report)
    return Outcome(None if report.failed else plan, report.findings(document.position))
