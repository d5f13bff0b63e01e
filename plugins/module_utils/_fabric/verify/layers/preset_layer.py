# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of profiles with a preset, compared with it. What the file overrides is not compared."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    compute_ports,
    functions,
    planes_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset_differences import differences
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run


def presets(run: Run) -> None:
    """Compare every server that has a preset."""
    for report in run.nodes():
        preset = PRESETS.get(report.plan.get("preset") or "")
        if preset and report.live.part("nics") and run.look("driver", report.name):
            _compare(run, report, preset, report.live)


def _compare(run: Run, report: NodeReport, preset: Preset, live: Live) -> None:
    name, plan = report.name, report.plan
    planned = {
        function["pci"]: port["rail"]
        for port in compute_ports(plan["ports"])
        for function in (*functions(port), *planes_of(port))
    }
    others = {other["pci"] for other in plan["other_ports"]}
    effective = preset._replace(
        gpus={number: pci for number, pci in preset.gpus.items() if pci and plan["gpus"].get(str(number)) == pci},
        other_ports=None
        if preset.other_ports is None
        else tuple([other for other in preset.other_ports if other.pci in others]),
    )
    known = {function["pci"] for port in plan["ports"] for function in functions(port)} | others
    known |= {other.pci for other in preset.other_ports or ()}
    observed = {nic["pci"]: nic.get("vendor") for nic in live.nics}
    overridden = set(plan["gpus"].values()) - set(preset.gpus.values())
    gpus = [row["pci"] for row in live.info.get("gpus") or () if row["pci"] not in overridden]
    found = differences(effective, [planned.get(port.pci) for port in preset.ports], observed, gpus, known)
    what = "differs from preset %s" % plan["preset"]
    # A NIC that is only missing is reported for its rail.
    if found.ports and found.unlisted:
        run.fail("RV440", name, None, what, found="; ".join([*found.ports, *found.unlisted]))
    elif found.unlisted:
        run.warn("RV443", name, None, what, found="; ".join(found.unlisted))
    if found.gpus and live.part("gpus"):
        run.fail("RV441", name, None, what, found="; ".join(found.gpus))
    if found.others:
        run.warn("RV442", name, None, what, found="; ".join(found.others))
    _product(run, name, preset, live, what)


def _product(run: Run, name: str, preset: Preset, live: Live, what: str) -> None:
    """Report another product name in the DMI table of the server."""
    system: Row = live.info.get("system") or {}
    product = str(system.get("product") or "").strip().replace(" ", "-")
    if preset.product and product and product != preset.product:
        run.warn("RV444", name, None, what, expected=preset.product, found=product)
