# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drift that only modules in check mode detect.

Each change that they predict has a code, and a rail if it is about a rail port. Codes and rails follow from the fields
of changes and errors (``kind``, ``port``, ``attribute``), never from sentences.

Facts that the layers compare from ``rail_info`` (``observed`` in the table of host layers) are not taken from modules:
``rail_info`` is always read, but a module predicts nothing if it refuses one of its ports, if tags do not select it, or
at the end of ``site.yml``. Addresses, routes and rules are taken from both, because only modules know which ones they
would remove.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import FILE, ROUTE, RULE, STEP
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import rails_by_name
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run

# Module -> how its changes are reported.
_DRIFT = {row.module: row.drift for row in HOST_LAYERS if row.drift}
_REFUSED, _SYSCTL, _ARP_FLUX = "RV590", "RV506", "RV512"
# Codes of files of the next boot, of which one failure per node is reported.
_FILES = {drift.file for drift in _DRIFT.values()}
# What is removed: (kind or attribute) -> code
_SURPLUS = {ROUTE: "RV508", "address": "RV503", "interface": "RV421", "master": "RV416"}
_KINDS = {ROUTE: "RV504", RULE: "RV505"}
# Differences of a bond for which a module sets the bond down. It then adds routes and IPv6 addresses again.
_BOND = ("RV413", "RV415", "RV416")
_LINES = 3


class Drifted(t.NamedTuple):
    """One change or refusal of a module. ``remedy``: only for a refusal."""

    layer: str
    code: str
    rail: str | None
    what: str
    expected: t.Any
    found: t.Any
    remedy: str | None = None


# node -> what its modules would change or refuse
Drifts = t.Mapping[str, t.Sequence[Drifted]]


def drifts(run: Run) -> Drifts:
    """Return the drift of each node that could be read, on the rails to check."""
    return {report.name: [each for each in _of_node(report) if run.covers(each.rail)] for report in run.nodes()}


def _of_node(report: NodeReport) -> list[Drifted]:
    """Return what the modules would change on a node, without observed facts, and what they refuse."""
    rails = _rails(report)
    drifted: list[Drifted] = []
    for module, result in report.states.items():
        if module not in _DRIFT:
            continue
        observed = _DRIFT[module].observed
        if "changes" in result and not result.get("errors"):
            changes = [change for change in result["changes"] if change.get("kind") != STEP]
            drifted += [_changed(rails, module, change) for change in changes if change["attribute"] not in observed]
        else:
            drifted += _refused(rails, module, result)
    return drifted


def _rails(report: NodeReport) -> dict[str, str]:
    """Return name by which modules know a rail port or an interface below it -> its rail."""
    live = report.live
    rails = rails_by_name(report.plan["ports"])
    for port in report.plan["ports"]:
        names = [row[key] for row in live.functions(port) for key in ("netdev", "pci")]
        rails.update({str(name): str(port["rail"]) for name in names if name})
    return rails


def _changed(rails: t.Mapping[str, str], module: str, change: Row) -> Drifted:
    subject, attribute, before, after = (change[key] for key in ("subject", "attribute", "before", "after"))
    drift = _DRIFT[module]
    if change.get("kind") == FILE or drift.code == drift.file:
        code = drift.file
        expected, found = _shown(after, "as planned"), _shown(before, "something else")
        return Drifted(CODES[code].layer, code, None, "%s (%s)" % (subject, attribute), expected, found)
    code = _code(module, change)
    rail = rails.get(str(change.get("port") or subject))
    expected = "none" if after is None else after
    return Drifted(CODES[code].layer, code, rail, "%s of %s" % (attribute, subject), expected, _shown(before, "none"))


def _shown(value: t.Any, many: str) -> t.Any:
    """Return a value as text, or ``many`` if it is too long for a line."""
    if value is None:
        return "none"
    if isinstance(value, (dict, list)) or len(str(value)) > 80:
        return many
    return value


def _code(module: str, change: Row) -> str:
    """Return the code of a change that is not in a file."""
    if module == "rail_ports":
        kind = change.get("kind") or change["attribute"]
        if change["after"] is None and kind in _SURPLUS:
            return _SURPLUS[kind]
        if kind in _KINDS:
            return _KINDS[kind]
    drift = _DRIFT[module]
    return drift.attributes.get(change["attribute"], drift.code)


def _refused(rails: t.Mapping[str, str], module: str, result: Row) -> list[Drifted]:
    """Return the errors of a module that could not predict its changes."""
    code = _DRIFT[module].refused
    layer = CODES[_DRIFT[module].code].layer
    return [
        Drifted(
            *(layer, code, rails.get(str(error.get("port"))), module, "as planned"),
            found="%s: %s" % (error["place"], error["message"]),
            remedy=error.get("remedy") or None,
        )
        for error in result.get("errors") or [{"place": module, "message": _first(result)}]
    ]


def _first(result: Row) -> str:
    """Return the first lines of a failed module's message."""
    text = str(result.get("msg") or result.get("module_stderr") or "it returned no result")
    return " / ".join(line for line in text.splitlines()[:_LINES] if line.strip())


def changes(run: Run, layer: str, drifted: Drifts) -> None:
    """Add what the modules would change in a layer, unless a failure of the layer on the same rail covers it."""
    for node, rows in drifted.items():
        files: dict[str, list[str]] = {}
        for each in rows:
            if each.layer != layer or each.code == _REFUSED:
                continue
            if each.code in _FILES:
                files.setdefault(each.code, []).append(each.what)
                continue
            if run.has(each.code, node, each.rail) or run.blocked(layer, node, each.rail):
                continue
            if layer == "address" and each.rail and any(run.has(code, node, each.rail) for code in _BOND):
                continue
            if each.code == _SYSCTL and "arp_" in each.what and each.rail and run.has(_ARP_FLUX, node, each.rail):
                continue
            # a module lists all steps of a fix, and the reported failure covers them; a sysctl is not such a step
            if each.code != _SYSCTL and each.rail and run.failed(node, each.rail, layer):
                continue
            run.fail(each.code, node, each.rail, each.what, expected=each.expected, found=each.found)
        for code, paths in files.items():
            _not_persistent(run, node, code, paths)


def refusals(run: Run, drifted: Drifts) -> None:
    """Add what modules refuse, unless a failure on the same rail, in any layer, can be the reason."""
    for node, rows in drifted.items():
        for each in rows:
            if each.code != _REFUSED or each.layer not in run.layers:
                continue
            if run.has(each.code, node, each.rail) or run.failed(node, each.rail):
                continue
            about = {"expected": each.expected, "found": each.found, "remedy": each.remedy}
            run.fail(each.code, node, each.rail, each.what, **about)


def _not_persistent(run: Run, node: str, code: str, files: t.Sequence[str]) -> None:
    """Report one failure per node for all files of the next boot."""
    if run.has(code, node, None):
        return
    run.fail_drift(code, node, None, "next boot", expected="as planned", found=first_of(files, _LINES))
