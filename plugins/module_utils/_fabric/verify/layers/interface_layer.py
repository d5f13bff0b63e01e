# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the layer link about interfaces: link layer, kind, master, VLAN, and the state of bonds.

A bond and the rails on it are judged separately: a failed member is a failure of the bond, and the rails are still
checked.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import LINK_TYPE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    bond_of,
    functions,
    is_managed,
    link_layer_of,
    planes_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import HOSTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live, named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, after
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import plane_layer

LAYERS = {"ethernet": "Ethernet", "infiniband": "InfiniBand"}
# Values of the firmware parameter LINK_TYPE of NVIDIA's cards.
_NVIDIA, _LINK_TYPES = "15b3", {"ib": 1, "eth": 2}
_LACP = "802.3ad"
_NO_PARTNER = "00:00:00:00:00:00"
# Settings of a bond beside its mode, with their names in messages.
_SETTINGS = {
    "hash_policy": "transmit hash policy",
    "lacp_rate": "LACP rate",
    "primary": "primary member",
    "min_links": "minimum of links",
}


# -- link layer --------------------------------------------------------------------------------------------------------


def other_link_layer(run: Run, live: Live, port: Row) -> tuple[Row, str] | None:
    """Return the first function of a port with another link layer than planned, and its link layer.

    The link layer of a function without a netdev comes from its RDMA device.
    """
    planned = link_layer_of(run.fabric, port)
    if port["rdma"]["type"] != "hardware" or planned not in LAYERS:
        return None
    for nic in live.functions(port):
        of_device = (row["link_layer"] for row in live.rdma if row["pci"] == nic["pci"] and row["type"] == "hardware")
        observed = nic.get("link_layer") or next(of_device, None)
        if observed in LAYERS and observed != planned:
            return nic, observed
    return None


def link_layer(run: Run, report: NodeReport, port: Row) -> bool:
    """Report a card in the mode of another link layer. Return whether the card has the planned one.

    If not, netdev names, MTU and the state of the RDMA device are not judged, because they follow from the mode.
    """
    other = other_link_layer(run, report.live, port)
    if other is None:
        return True
    nic, observed = other
    name, rail, planned = report.name, port["rail"], link_layer_of(run.fabric, port)
    if any(each.code == "RV101" and rail in each.rails and "LINK_TYPE" in each.what for each in run.failures_of(name)):
        # the firmware layer has reported the parameter
        run.block(after(CODES["RV409"]), name, rail)
        return False
    about: Row = {}
    if port.get("firmware"):
        about = {"remedy": "set the link type of the card (tag nic_firmware), and reboot", "playbook": HOSTS}
    elif nic.get("vendor") == _NVIDIA:
        function = nic["pci"].rpartition(".")[2]
        number = int(function) + 1 if function in ("0", "1") else 1
        about["remedy"] = (
            "set the link type with 'mstconfig -d %s set LINK_TYPE_P%d=%d', or firmware: {link_type: %s} in the "
            "profile and hosts.yml, and reboot; or correct link_layer in fabric.yml"
            % (nic["pci"], number, _LINK_TYPES[LINK_TYPE[planned]], LINK_TYPE[planned])
        )
    what = "link layer of %s" % (nic["netdev"] or nic["pci"])
    run.fail("RV409", name, rail, what, expected=LAYERS[planned], found=LAYERS[observed], **about)
    return False


# -- kind, master and VLAN ---------------------------------------------------------------------------------------------


def interface(run: Run, report: NodeReport, port: Row) -> bool:
    """Check that the interface of a port has the planned kind. Return whether it can be judged further."""
    live, name, rail = report.live, report.name, port["rail"]
    lower = port.get("lower")
    if not lower:
        return _function(run, report, port)
    bond, row = lower["bond"], None
    if bond:
        row = live.above(bond["name"])
        # rails on one bond share its failures
        rails = [each for each in rails_on_bond(report.plan, port) if each in run.rails]
        if rail == rails[0]:
            row = _of_kind(run, report, port, bond["name"], "bond", rails[1:])
            if row is not None:
                _bond(run, report, port, row, rails[1:])
        if row is None or row["kind"] != "bond":
            return False
    if lower["vlan"]:
        row = _of_kind(run, report, port, port["netdev"], "vlan")
        if row is None:
            return False
        parent = _parent(live, port)
        if (row["vlan"], row["lower"]) != (lower["vlan"], [parent]):
            expected, found = _vlan(lower["vlan"], [parent]), _vlan(row["vlan"], row["lower"])
            run.fail("RV419", name, rail, port["netdev"], expected=expected, found=found, **_other_program(port, row))
            return False
    return not _has_master(run, report, port, row)


def rails_on_bond(node: t.Mapping[str, t.Any], port: Row) -> list[str]:
    """Return the rails on the bond of a port, in the order of the plan. ``node``: ``railyard_node``."""
    name = port["lower"]["bond"]["name"]
    return [each["rail"] for each in node["ports"] if (bond_of(each) or {}).get("name") == name]


def _parent(live: Live, port: Row) -> str:
    """Return the netdev below a VLAN."""
    return str(port["lower"]["parent"] or _name(live, functions(port)[0]))


def _function(run: Run, report: NodeReport, port: Row) -> bool:
    """Check a port whose interface is the netdev of its function."""
    live, nic = report.live, report.live.nic(port)
    row = live.above(port["netdev"])
    if row and (nic is None or not named(nic, port["netdev"])):
        expected = "the NIC %s" % port["pci"] if port["pci"] else "a NIC"
        about: Row = {"expected": expected, "found": shown(row), "remedy": _plan(row)}
        cause = "the plan expects a NIC with this name, and %s has it" % _article(row["kind"])
        run.fail("RV410", report.name, port["rail"], port["netdev"], cause=cause, **about)
        return False
    return not _has_master(run, report, port, nic)


def _has_master(run: Run, report: NodeReport, port: Row, row: Row | None) -> bool:
    """Return whether an interface (None: it does not exist) has a master, and report it."""
    if row is None or not row.get("master"):
        return False
    above = report.live.above(row["master"])
    found = "member of %s" % (shown(above) if above else row["master"])
    about = {"remedy": _plan(above)} if above and above["kind"] in ("bond", "vlan") else {}
    run.fail("RV412", report.name, port["rail"], row["netdev"], expected="no master", found=found, **about)
    return True


def _of_kind(
    run: Run, report: NodeReport, port: Row, netdev: str, kind: str, others: t.Sequence[str] = ()
) -> Row | None:
    """Return the row of a bond or VLAN, or report that the node does not have it. ``others``: further rails on it."""
    live, lower, rail = report.live, port["lower"], port["rail"]
    row = live.above(netdev)
    if row and row["kind"] == kind:
        return row
    planned = _vlan(lower["vlan"], [_parent(live, port)]) if kind == "vlan" else "bond of %s" % _names(live, port)
    nic = next((each for each in live.nics if named(each, netdev)), None)
    if row or nic:
        found = shown(row) if row else "the NIC %s" % (nic or {})["pci"]
        run.fail("RV410", report.name, rail, netdev, expected=planned, found=found, others=others)
        return None
    same = [each for each in live.interfaces if each["kind"] == "vlan" and each["lower"] == [_parent(live, port)]]
    same = [each for each in same if each["vlan"] == lower["vlan"]] if kind == "vlan" else []
    found = "the same with the name %s" % same[0]["netdev"] if same else "none"
    run.fail("RV411", report.name, rail, netdev, expected=planned, found=found, others=others)
    return None


def shown(row: Row) -> str:
    """Return an interface above NICs with its kind as text."""
    if row["kind"] == "vlan":
        return "%s (%s)" % (row["netdev"], _vlan(row["vlan"], row["lower"]))
    of = " of %s" % ", ".join(row["lower"]) if row["lower"] else ""
    return "%s (%s%s)" % (row["netdev"], row["kind"], of)


def _vlan(number: int, lower: t.Sequence[str | None]) -> str:
    return "VLAN %s on %s" % (number, ", ".join(each or "?" for each in lower))


def _article(kind: str) -> str:
    names = {"vlan": "a VLAN", "vrf": "a VRF"}
    return names.get(kind, "a %s" % kind)


def _plan(row: Row) -> str:
    """Return how the fabric file describes an interface that the node has."""
    if row["kind"] == "bond":
        members = ", ".join('{pci: "%s"}' % pci for pci in row["functions"])
        return "plan the bond with bond: {name: %s, members: [%s]}" % (row["netdev"], members)
    if row["kind"] == "vlan":
        below = row["lower"][0] if row["lower"] else "the NIC"
        return "plan the VLAN with vlan: {id: %s, name: %s} for the port of %s" % (row["vlan"], row["netdev"], below)
    return "%s cannot be a rail port: plan a NIC, bond or VLAN without a master" % _article(row["kind"])


def _names(live: Live, port: Row) -> str:
    """Return the current names of the functions of a port."""
    return ", ".join(_name(live, function) for function in functions(port))


def _name(live: Live, function: t.Mapping[str, t.Any]) -> str:
    nic = live.nic(function) or {}
    return str(nic.get("netdev") or function.get("netdev") or function.get("pci"))


# -- bonds -------------------------------------------------------------------------------------------------------------


def _bond(run: Run, report: NodeReport, port: Row, row: Row, others: t.Sequence[str]) -> None:
    """Compare a bond with the plan, and check the state of its members. ``others``: further rails on it."""
    name, rail, planned, state = report.name, port["rail"], port["lower"]["bond"], row["bond"] or {}
    bond, about = row["netdev"], dict(_other_program(port, row), others=others)
    _members(run, report, port, row, others)
    if not state.get("mode"):
        run.unread("link", name, rail, "mode and members of the bond")
    if state.get("mode") not in (None, planned["mode"]):
        found = state["mode"]
        run.fail("RV415", name, rail, "mode of %s" % bond, expected=planned["mode"], found=found, **about)
        return
    for key, words in _SETTINGS.items():
        spec, observed = planned.get(key), state.get(key)
        if spec is not None and spec != observed and key in state:
            found = "none" if observed is None else observed
            run.fail("RV416", name, rail, "%s of %s" % (words, bond), expected=spec, found=found, **about)
    _links(run, report, port, row, others)


def _other_program(port: Row, row: Row) -> Row:
    """Return cause and remedy of a difference in a bond or VLAN that another program created; empty otherwise.

    hosts.yml does not change such interfaces.
    """
    if row.get("managed") is not False or not is_managed(port):
        return {}
    remedy = "plan its values, set managed: false for the port, or remove it with the file that creates it and run %s"
    return {"cause": "another program created it", "remedy": remedy % HOSTS, "playbook": None}


def _members(run: Run, report: NodeReport, port: Row, row: Row, others: t.Sequence[str]) -> None:
    """Report planned members that are missing, and others that are not planned."""
    name, rail, live, bond = report.name, port["rail"], report.live, row["netdev"]
    planes = planes_of(port)
    for at, function in enumerate(functions(port)):
        nic = live.nic(function)
        about: Row = dict(_other_program(port, row), expected="a member of %s" % bond, others=others)
        if nic is None:
            about.update(found="no PCI function %s" % function["pci"], cause=CODES["RV201"].cause)
            about.update(remedy=CODES["RV201"].remedy, playbook=None)
        elif not nic["netdev"]:
            holders = "; ".join(nic.get("holders") or ())
            found = "no netdev (driver %s)" % nic["driver"] if nic["driver"] else "no driver"
            about.update(found=found, cause=holders or None, playbook=None)
            about["remedy"] = CODES["RV203" if nic["driver"] else "RV202"].remedy
        elif nic.get("master") == bond or nic["netdev"] in row["lower"]:
            continue
        else:
            above = live.above(nic.get("master"))
            about["found"] = (
                "a member of %s" % (shown(above) if above else nic["master"]) if nic.get("master") else "no member"
            )
            if nic.get("master"):
                remedy = "remove it from there (ip link set %s nomaster) and from the file that adds it, and run %s"
                about.update(remedy=remedy % (nic["netdev"], HOSTS), playbook=None)
        run.fail("RV413", name, rail, _name(live, function), **about)
        if planes:
            run.lose_plane(name, (rail, *others), planes[at]["plane"])
    planned = {_name(live, function) for function in functions(port)}
    if any(each not in planned for each in row["lower"]):
        expected = _names(live, port)
        found = ", ".join(row["lower"])
        what = "members of %s" % bond
        about = dict(_other_program(port, row), others=others)
        run.fail("RV416", name, rail, what, expected=expected, found=found, **about)


def _links(run: Run, report: NodeReport, port: Row, row: Row, others: t.Sequence[str]) -> None:
    """Check that every planned member has a link and, with LACP, the partner of the active aggregator."""
    name, rail, live, state = report.name, port["rail"], report.live, row["bond"] or {}

    def fail(code: str, what: str, **about: t.Any) -> None:
        run.fail(code, name, rail, what, others=others, **about)

    planes = plane_layer.of_members(live, port)

    def fail_member(each: Row, **about: t.Any) -> None:
        plane = planes.get(each["netdev"])
        if plane is None:
            fail("RV414", each["netdev"], **about)
            return
        fail("RV422", plane_layer.label(port, plane, each["netdev"]), **about)
        run.lose_plane(name, (rail, *others), plane["plane"])

    planned = {_name(live, function) for function in functions(port)}
    members = [each for each in state.get("members") or () if each["netdev"] in planned]
    linked = [each for each in members if _why_no_link(live, each) is None]
    if not linked:
        return  # the bond itself has no carrier, which is reported
    for each in members:
        why = _why_no_link(live, each)
        if why:
            fail_member(each, expected="a link", found=why, **_set_down(live, each))
    if state.get("mode") != _LACP:
        return
    silent = [each for each in linked if _partner(each) is None]
    if len(silent) == len(linked):
        if state.get("partner_mac"):
            return  # the node does not show the partner of each member
        found = "no partner on %s" % ", ".join(each["netdev"] for each in linked)
        fail("RV417", "LACP of %s" % row["netdev"], expected="a partner", found=found)
        return
    for each in silent:
        remedy = "configure LACP for this leaf port as for the leaf ports of the other members"
        about = {"cause": "the LACP group does not contain its leaf port, or LACP is disabled there", "remedy": remedy}
        found = "no LACP partner answers" + _leaf(live, each)
        fail_member(each, expected="an LACP partner", found=found, **about)
    active = state.get("aggregator")
    answered = [each for each in linked if _partner(each)]
    main = next((each for each in answered if each.get("aggregator") == active), answered[0])
    partner = _partner(main)
    for each in answered:
        if _partner(each) != partner:
            expected = "%s as %s%s" % (partner, main["netdev"], _leaf(live, main))
            found = "%s%s" % (_partner(each), _leaf(live, each))
            fail("RV418", "LACP partner of %s" % each["netdev"], expected=expected, found=found)
        elif each.get("aggregator") not in (None, active):
            cause = "its speed or its leaf port differs from the other members (LACP key)"
            found = "aggregator %s, which is not active" % each["aggregator"]
            expected = "the active aggregator %s" % active
            fail_member(each, expected=expected, found=found, cause=cause)


def _why_no_link(live: Live, member: Row) -> str | None:
    """Return why a member of a bond has no link; None if it has one."""
    nic = live.nic({"netdev": member["netdev"]}) or {}
    if nic.get("up") is False:
        return "it is set down"
    if nic.get("carrier") is False:
        return "no carrier"
    return None if member.get("link") in (None, "up") else "link %s" % member["link"]


def _set_down(live: Live, member: Row) -> Row:
    nic = live.nic({"netdev": member["netdev"]}) or {}
    if nic.get("up") is not False:
        return {}
    return {"cause": CODES["RV401"].cause, "remedy": "set it up with 'ip link set %s up'" % member["netdev"]}


def _partner(member: Row) -> str | None:
    """Return the MAC address of the LACP partner of a member; None without one."""
    mac = member.get("partner_mac")
    return mac if mac and mac != _NO_PARTNER else None


def _leaf(live: Live, member: Row) -> str:
    """Return the LLDP neighbour of a member as text; empty without one."""
    rows = [row for row in live.info.get("lldp") or () if row["netdev"] == member["netdev"]]
    return " (%s %s)" % (rows[0]["system"] or rows[0]["chassis"], rows[0]["port"]) if rows else ""


def set_down(live: Live, port: Row) -> str | None:
    """Return the parent of a VLAN if it is administratively down; None otherwise, and without a VLAN."""
    lower = port.get("lower")
    if not lower or not lower["vlan"]:
        return None
    parent = _parent(live, port)
    row = live.above(parent) or live.nic({"netdev": parent}) or {}
    return parent if row.get("up") is False else None


def without_link(live: Live, port: Row) -> list[str]:
    """Return the members of a port's bond without a link, each with the reason."""
    row = live.above((bond_of(port) or {}).get("name")) or {}
    rows = (row.get("bond") or {}).get("members") or ()
    reasons = [(each["netdev"], _why_no_link(live, each)) for each in rows]
    return ["%s: %s" % (netdev, why) for netdev, why in reasons if why]
