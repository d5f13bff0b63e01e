# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From the bytes of a fabric file to its plan and all findings about it."""

from __future__ import annotations

import contextlib
import gc
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import source
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import ERROR, Finding, Path, Report
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.read import read
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import (
    addresses,
    driver,
    file,
    gpus,
    host,
    kubernetes,
    names,
    objects,
    ports,
    qos,
    rails,
    rdma,
    rendered,
    routing,
    scale,
    special_addresses,
    sriov,
    units,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variants

# Each family looks at the fabric as far as it could be read; what could not is None there, and is not said again.
FAMILIES = (
    names.check,
    units.check,
    addresses.check,
    special_addresses.check,
    routing.check,
    rails.check,
    ports.check,
    rdma.check,
    driver.check,
    objects.check,
    kubernetes.check,
    sriov.check,
    gpus.check,
    host.check,
    scale.check,
)
# These look at the plan, which a fabric with errors does not have.
PLAN_CHECKS = (sriov.check_plan, rendered.check_plan)


class Outcome(t.NamedTuple):
    """``plan`` is None when a finding is an error."""

    plan: Plan | None
    findings: list[Finding]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]


def lint(raw: bytes) -> Outcome:
    """Read, check and plan a fabric file. Never raises for anything that the bytes hold."""
    with _growing():
        return _lint(raw)


@contextlib.contextmanager
def _growing() -> t.Iterator[None]:
    """Without searches for cycles: what is made here stays, and looking it over again and again took half of the time
    at 32,768 ports."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lint(raw: bytes) -> Outcome:
    report = Report()
    document = source.parse(raw, report)
    if document is None:
        return Outcome(None, report.findings(_nowhere))
    fabric = read(document, report)
    variants = Variants(fabric)
    for check in FAMILIES:
        check(fabric, variants, report)
    if fabric.qos and not report.has(("fabric", "attachment")) and not report.has(("fabric", "link_layer")):
        qos.check(fabric, report)
    plan = None if report.failed else Plan(fabric, variants)
    if plan:
        for check_plan in PLAN_CHECKS:
            check_plan(plan, report)
        file.check_lint(report)
    return Outcome(None if report.failed else plan, report.findings(document.position))


def _nowhere(_path: Path) -> tuple[int, int]:
    return 1, 1
