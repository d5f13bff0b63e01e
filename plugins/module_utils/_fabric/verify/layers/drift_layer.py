# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What modules in check mode would change: that is drift. Each change belongs to a rail and has a code."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import CHOICES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    Row,
    Run,
    Told,
)

# What follows from another change, and is none by itself.
_FOLLOWS = {"rail_ports": ("loaded", "done")}
# A node's files, which say what the next boot has.
_KEPT = "RV550"
# What a module will not do, or cannot.
_REFUSED = "RV590"
# module -> the code of what it would change, where the change itself does not say better
_CODES = {
    "mlx_linktype": "RV101",
    "sriov_vfs": "RV206",
    "rdma_netns_mode": "RV301",
    "rdma_link": "RV405",
    "rail_ports": "RV506",
    "roce_qos": "RV601",
    "pci_tuning": "RV602",
    "kernel_arguments": "RV603",
    "rail_limits": "RV604",
    "gpudirect": "RV605",
    "nic_driver": "RV210",
    "ib_ports": "RV408",
}
_PORTS = {"name": "RV204", "mtu": "RV404", "state": "RV401", "address": "RV501"}
_RAIL = re.compile(r"\(([^()]+)\)")
_PLACE = re.compile(r"ports\[(\d+)\]")
_LINES = 3

# (layer, code, rail, what, expected, found, cause)
Drifted = t.Tuple[str, str, t.Optional[str], str, t.Any, t.Any, t.Optional[str]]


def of_node(told: Told) -> list[Drifted]:
    """All that the modules would change on a node, and what they refuse."""
    found: list[Drifted] = []
    for module, result in told.states.items():
        if module not in _CODES:
            continue
        if "changes" in result and not result.get("errors"):
            found += [each for change in result["changes"] for each in _changed(told, module, change)]
        else:
            found += _refused(told, module, result)
    return found


def _changed(told: Told, module: str, change: Row) -> t.Iterator[Drifted]:
    subject, attribute = str(change["subject"]), str(change["attribute"])
    if attribute in _FOLLOWS.get(module, ()) or change.get("kind") == STEP:
        return
    before, after = change.get("before"), change.get("after")
    if subject.startswith("/") and not subject.startswith(("/sys", "/proc")):
        code = "RV302" if module == "rdma_netns_mode" else _KEPT
        expected, found = _shown(after, "as planned"), _shown(before, "something else")
        yield CODES[code].layer, code, None, "%s (%s)" % (subject, attribute), expected, found, None
        return
    rail = _rail(told, subject, change.get("port"))
    code = _code(module, subject, attribute, before, after)
    expected = "none" if after is None else after
    yield CODES[code].layer, code, rail, "%s of %s" % (attribute, subject), expected, _shown(before, "none"), None


def _shown(value: t.Any, many: str) -> t.Any:
    """A value in a line; what would fill a page is only named."""
    if value is None:
        return "none"
    if isinstance(value, (dict, list)) or len(str(value)) > 80:
        return many
    return value


def _code(module: str, subject: str, attribute: str, before: t.Any, after: t.Any) -> str:
    if module == "sriov_vfs":
        return "RV205" if attribute in ("sriov_numvfs", "bound") else "RV401" if attribute == "state" else "RV206"
    if module == "rdma_link":
        return "RV406" if attribute == "name" else "RV405"
    if module != "rail_ports":
        return _CODES[module]
    if subject.startswith("rule "):
        return "RV505"
    if attribute.startswith("route "):
        return "RV508" if after is None else "RV504"
    if attribute == "address" and after is None:
        return "RV503"
    return _PORTS.get(attribute, "RV506")


def _rail(told: Told, subject: str, named: str | None) -> str | None:
    """Which rail a change is about: by its port, or by the netdev, PCI address, RDMA device or rule that it names."""
    live = Live(told.info or {})
    words = {*re.split(r"[\s,/]+", subject), named}
    for port in told.plan["ports"]:
        names = {port["netdev"], port["pci"], port["rdma"]["name"], live.netdev(port)}
        nic = live.nic(port)
        names.add(nic["pci"] if nic else None)
        if port["rule_priority"] is not None and subject == "rule %d" % port["rule_priority"]:
            return str(port["rail"])
        if words & {str(name) for name in names if name}:
            return str(port["rail"])
    return None


def _refused(told: Told, module: str, result: Row) -> list[Drifted]:
    """A module that cannot even say what it would do: each of its errors, of the rail that it names."""
    rails = [port["rail"] for port in told.plan["ports"]]
    choose = CHOICES.get(module, lambda port: {})
    given = [port["rail"] for port in told.plan["ports"] if choose(port) is not None]
    found: list[Drifted] = []
    for error in result.get("errors") or [{"place": module, "message": _first(result), "remedy": ""}]:
        named = [rail for rail in _RAIL.findall(str(error["place"])) if rail in rails]
        numbered = _PLACE.match(str(error["place"]))
        rail = named[0] if named else None
        if rail is None and numbered and int(numbered.group(1)) < len(given):
            rail = given[int(numbered.group(1))]
        code = "RV102" if module == "mlx_linktype" else _REFUSED
        layer = CODES[_CODES[module]].layer
        text = "%s: %s" % (error["place"], error["message"])
        found.append((layer, code, rail, module, "what the plan says", text, error.get("remedy") or None))
    return found


def _first(result: Row) -> str:
    text = str(result.get("msg") or result.get("module_stderr") or "it gave no result")
    return " / ".join(line for line in text.splitlines()[:_LINES] if line.strip())


def states(run: Run, layer: str) -> None:
    """Add what the modules would change in a layer, and nothing else has told of."""
    for told in run.nodes():
        kept: list[str] = []
        for where, code, rail, what, expected, found, _said in of_node(told):
            if where != layer or code == _REFUSED or (rail is not None and rail not in run.rails):
                continue
            if code in (_KEPT, "RV302"):
                kept.append(what)
                continue
            if rail is None and _known(run, told.name, what + str(found)):
                continue
            if run.has(code, told.name, rail) or run.blocked(layer, told.name, rail):
                continue
            if code != "RV506" and _explained(run, told.name, rail, layer):
                continue
            run.fail(code, told.name, rail, what, expected=expected, found=found)
        if kept:
            _keep(run, told.name, layer, kept)


def refusals(run: Run) -> None:
    """Add what modules refuse, where nothing that was seen in any layer explains it."""
    for told in run.nodes():
        for where, code, rail, what, expected, found, said in of_node(told):
            if code != _REFUSED or where not in run.layers or (rail is not None and rail not in run.rails):
                continue
            if run.has(code, told.name, rail) or _explained(run, told.name, rail, None):
                continue
            # a module's refusal says itself what to do about it
            run.fail(code, told.name, rail, what, expected=expected, found=found, remedy=said)


def _known(run: Run, node: str, text: str) -> bool:
    """Whether a failure names the same file or message already."""
    return any(each.node == node and text == each.what + str(each.found) for each in run.failures_of(node))


def _explained(run: Run, node: str, rail: str | None, layer: str | None) -> bool:
    """Whether it follows from what was seen before on the rail: in the same layer, or (None) in whichever.

    What the node's own state was seen to lack is told by what was seen; a module names each step of mending it.
    """
    return any(
        each.node == node and (rail in each.rails if rail else layer is None) and layer in (None, each.layer)
        for each in run.failures_of(node)
    )


def _keep(run: Run, node: str, layer: str, kept: t.Sequence[str]) -> None:
    """What is kept for boot is one thing a node, however many files it is in; it follows from live state of today."""
    tell = run.fail if run.kind == DRIFT else run.warn
    code = "RV302" if layer == "mode" else _KEPT
    if run.has(code, node, None):
        return
    more = " and %d more" % (len(kept) - _LINES) if len(kept) > _LINES else ""
    tell(code, node, None, "next boot", expected="as planned", found="%s%s" % (", ".join(kept[:_LINES]), more))
