# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers driver, mode and link: from the PCI function to the RDMA device of each port."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DISTANCES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    functions,
    has_interface,
    planes_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import (
    Live,
    device_name,
    named,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, after
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.rail_floors import GENERATIONS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import plane_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.interface_layer import (
    interface,
    link_layer,
    other_link_layer,
    set_down,
    without_link,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.preset_layer import presets

# Drivers that give a whole device to user space.
_USER_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio", "pciback", "xen-pciback")
_IN_POD = "none if this is intended; delete the pod to prove the rail from the node"
_SET_GUID = "reload the driver or reset the card; set the GUID of a VF before its driver is bound"
_NO_GUID = "the GUID was never set, or the driver of the PF was reloaded: a subnet manager configures no such VF"
_NO_SUBNET_MANAGER = {
    "cause": "no subnet manager configured the port",
    "remedy": "start a subnet manager, or check why it does not detect the port (ibstat, ibdiagnet)",
}


def driver(run: Run) -> None:
    """Check every server with its preset, and every NIC with its driver, interface, VFs, PCIe link and GPUs."""
    presets(run)
    for report, port in run.ports("driver"):
        live = report.live
        if not live.part("nics"):
            run.unread("driver", report.name, port["rail"], "NIC")
            continue
        if "link" in run.layers and _judged_by_link(run, live, port):
            continue
        planned = functions(port)
        # the layer link reports the members that a bond is missing, and planes that are missing
        present = [each for each in planned if (live.nic(each) or {}).get("netdev")] or planned[:1]
        if planes_of(port) and not port.get("lower") and not (live.nic(port) or {}).get("netdev"):
            present = [port]  # without the interface, the planes carry nothing
        for function in present:
            _nic(run, report, port, function, live)


def _judged_by_link(run: Run, live: Live, port: Row) -> bool:
    """Return whether the layer link reports a fact from which the name or absence of the port's netdev follows."""
    if other_link_layer(run, live, port):
        return True
    nic = live.nic(port)
    return not port.get("lower") and live.above(port["netdev"]) is not None and not named(nic or {}, port["netdev"])


def _nic(run: Run, report: NodeReport, port: Row, function: t.Mapping[str, t.Any], live: Live) -> None:
    """Check one function of a port."""
    nic = live.nic(function)
    if nic is None:
        expected = function["pci"] or function["netdev"]
        found = "no PCI function %s" % function["pci"] if function["pci"] else "no interface %s" % function["netdev"]
        cause = _sibling(live, function)
        run.fail("RV201", report.name, port["rail"], "NIC", expected=expected, found=found, cause=cause)
    elif not nic["driver"]:
        run.fail("RV202", report.name, port["rail"], "driver", expected="a driver of %s" % nic["pci"], found="none")
    elif not nic["netdev"] and has_interface(port):
        _gone(run, report, port, function, nic)
    else:
        _port(run, report, port, function, nic, live)


def _sibling(live: Live, function: t.Mapping[str, t.Any]) -> str | None:
    """Return the cause if the node has other functions of the card; None if the whole card is missing."""
    card = (function["pci"] or "").rpartition(".")[0]
    others = sorted({nic["pci"] for nic in live.nics if card and (nic["pci"] or "").rpartition(".")[0] == card})
    if not others:
        return None
    return "the card is present (%s): its firmware does not enable this port, or a virtual machine has it" % (
        ", ".join(others)
    )


def _gone(run: Run, report: NodeReport, port: Row, function: t.Mapping[str, t.Any], nic: Row) -> None:
    """Report a NIC without an interface on the host. A pod may hold it with attachment ``host-device``."""
    where = ("RV203", report.name, port["rail"], "netdev of %s" % nic["pci"])
    cause = "; ".join(nic.get("holders") or ())
    about: Row = {"expected": function["netdev"], "found": "held" if cause else "none (driver %s)" % nic["driver"]}
    if cause and attachment_of(report.plan, port) == "host-device":
        run.warn(*where, **about, cause=cause, remedy=_IN_POD)
        run.block(after(CODES["RV203"]), report.name, port["rail"])
    elif not cause and nic["driver"] in _USER_DRIVERS:
        cause = "%s gives the whole NIC to a virtual machine or a program in user space" % nic["driver"]
        run.fail(*where, **about, cause=cause, remedy="bind it to its network driver again (driverctl unset-override)")
    else:
        run.fail(*where, **about, cause=cause or None)


def _port(run: Run, report: NodeReport, port: Row, function: t.Mapping[str, t.Any], nic: Row, live: Live) -> None:
    """Check the name of a NIC's interface and, if it is as planned, the PCIe link, GPUs and VFs."""
    name, rail = report.name, port["rail"]
    if function["netdev"] and nic["netdev"] != function["netdev"]:
        cause = "%s is only an alternative name of it" % function["netdev"] if named(nic, function["netdev"]) else None
        run.fail("RV204", name, rail, "name", expected=function["netdev"], found=nic["netdev"], cause=cause)
        return
    _pcie(run, name, port, nic)
    _distance(run, report, port, nic, live)
    if port["vfs"]:
        _vfs(run, name, port, nic, live)


def _pcie(run: Run, name: str, port: Row, nic: Row) -> None:
    """Report a PCIe link that is slower or narrower than planned."""
    planned, observed = port["expect"], nic.get("pcie") or {}
    speed, width = GENERATIONS.get(planned["pcie_gen"] or 0), planned["pcie_lanes"]
    if (speed and not observed.get("speed")) or (width and not observed.get("width")):
        why = "the kernel shows no speed or width"
        remedy = "remove pcie_gen and pcie_lanes from the profile in fabric.yml, if the NIC has no PCIe link (virtual)"
        run.unknown("driver", name, port["rail"], "PCIe link", why, remedy)
    slow = speed and observed.get("speed") and observed["speed"] < speed
    narrow = width and observed.get("width") and observed["width"] < width
    if slow or narrow:
        expected = "%s GT/s x%s" % (speed or observed["speed"], width or observed["width"])
        found = "%s GT/s x%s" % (observed["speed"], observed["width"])
        most = "%s GT/s x%s" % (observed.get("max_speed"), observed.get("max_width"))
        cause = "the card supports %s: it trained down, or the slot is smaller" % most
        run.fail("RV207", name, port["rail"], "PCIe link", expected=expected, found=found, cause=cause)


def _distance(run: Run, report: NodeReport, port: Row, nic: Row, live: Live) -> None:
    """Report GPUs of the port that are missing or farther from the NIC than planned."""
    if not live.part("gpus"):
        if any(report.plan["gpus"].get(str(number)) for number in port["gpus"]):
            run.unread("driver", report.name, port["rail"], "GPUs")
        return
    planned, gpus = port["expect"]["gpu_distance"], {row["pci"]: row for row in live.info["gpus"]}
    for number in port["gpus"]:
        pci = report.plan["gpus"].get(str(number))
        if not pci:
            continue
        if pci not in gpus:
            if run.has("RV441", report.name, None):
                continue  # all GPUs of the preset have been compared
            run.fail("RV209", report.name, port["rail"], "GPU %d" % number, expected=pci, found="no such PCI function")
        elif planned in DISTANCES:
            observed = gpus[pci]["nics"].get(nic["pci"])
            if observed not in DISTANCES:
                run.unread("driver", report.name, port["rail"], "path from GPU to NIC")
            if observed in DISTANCES and DISTANCES.index(observed) > DISTANCES.index(planned):
                what = "path from GPU %d to %s" % (number, nic["pci"])
                run.fail("RV208", report.name, port["rail"], what, expected=planned, found=observed)


def _vfs(run: Run, name: str, port: Row, nic: Row, live: Live) -> None:
    rail, count = port["rail"], port["vfs"]["count"]
    if nic["vfs"] is not None and nic["vfs"] != count:
        run.fail("RV205", name, rail, "VFs of %s" % nic["netdev"], expected=count, found=nic["vfs"])
        return
    if nic["vfs"] is None:
        run.unread("driver", name, rail, "number of VFs")
    held = {row["index"]: row.get("attributes") or {} for row in live.info.get("vfs") or () if row["pf"] == nic["pci"]}
    for spec in port["vfs"]["attributes"]:
        have = held.get(spec["index"]) or {}
        hidden = [key for key, value in spec.items() if key != "index" and value is not None and have.get(key) is None]
        if hidden:
            run.unread("driver", name, rail, "%s of VFs" % ", ".join(hidden))
        for key, value in spec.items():
            if key != "index" and value is not None and have.get(key) is not None and have[key] != value:
                what = "%s of VF %d of %s" % (key, spec["index"], nic["netdev"] or nic["pci"])
                cause = _NO_GUID if _is_zero_guid(have[key]) else None
                run.fail("RV206", name, rail, what, expected=value, found=have[key], cause=cause)


def mode(run: Run) -> None:
    """Check the RDMA mode of every node, now and at the next boot."""
    for report in run.nodes():
        system = report.live.info.get("system")
        if not system or not run.look("mode", report.name):
            continue
        planned = report.plan["rdma_mode"]
        live = system.get("rdma_mode")
        if live != planned:
            cause = "the RDMA subsystem is not loaded" if live is None else None
            run.fail("RV301", report.name, None, "RDMA mode", expected=planned, found=live or "none", cause=cause)
        mode_state = (report.states.get("rdma_netns_mode") or {}).get("gathered") or {}
        if mode_state.get("next_boot") not in (None, planned):
            source = mode_state.get("next_boot_source") or "a file of modprobe.d"
            run.fail_drift(
                *("RV302", report.name, None, "RDMA mode of the next boot"),
                expected=planned,
                found=mode_state["next_boot"],
                cause="it is set in %s" % source,
            )


def link(run: Run) -> None:
    """Check the interface of every port with its state, speed and MTU, and its RDMA device.

    A fact that contradicts the plan ends the check of the port, because the rest follows from it.
    """
    for report, port in run.ports("link"):
        live = report.live
        if not live.part("nics"):
            run.unread("link", report.name, port["rail"], "interface")
            continue
        if not link_layer(run, report, port):
            continue
        if not has_interface(port):
            if live.nic(port) is not None:
                _device(run, report, port, live)
                plane_layer.judge(run, report, port, plane_layer.observe(live, port))
            continue
        if not interface(run, report, port):
            continue
        row = live.interface(port)
        if row is None or not row["netdev"]:
            continue
        name, rail, netdev = report.name, port["rail"], row["netdev"]
        if row["up"] is False:
            run.fail("RV401", name, rail, "link %s" % netdev, expected="up", found="down")
            continue
        down = set_down(live, port)
        if down:
            run.fail("RV401", name, rail, "link %s" % down, expected="up", found="down")
            continue
        hidden = [key for key in ("up", "carrier", "mtu") if row[key] is None]
        if hidden:
            run.unread("link", name, rail, ", ".join(hidden))
        planes = plane_layer.observe(live, port)
        if row["carrier"] is False and not plane_layer.carries_on(planes, netdev):
            found = "; ".join(["no", *(without_link(live, port) or plane_layer.reasons(planes))])
            run.fail("RV402", name, rail, "carrier of %s" % netdev, expected="yes", found=found)
            if run.blocked("address", name, rail):
                continue
        _mtu(run, name, port, live, row)
        _device(run, report, port, live, planes)
        if planes:
            plane_layer.judge(run, report, port, planes)
        else:
            _speed(run, name, port, live)


def _mtu(run: Run, name: str, port: Row, live: Live, row: Row) -> None:
    """Report another MTU of an interface than planned or, without one, a smaller MTU of an interface below it."""
    netdev, planned, lower = row["netdev"], port["mtu"], port.get("lower")
    below = [live.above(lower["parent"]), *live.functions(port)] if lower else []
    below += [live.nic(plane) for plane in planes_of(port) if plane.get("pci") or plane.get("netdev")]
    smaller = [each for each in below if each and each["mtu"] and each["mtu"] < planned]
    if row["mtu"] not in (None, planned):
        cause = None
        if smaller:
            cause = "its lower interface %s has MTU %d" % (smaller[0]["netdev"], smaller[0]["mtu"])
        elif row.get("max_mtu") and row["max_mtu"] < planned:
            cause = "the driver supports at most %d" % row["max_mtu"]
        run.fail("RV404", name, port["rail"], "mtu of %s" % netdev, expected=planned, found=row["mtu"], cause=cause)
    elif smaller:
        least = smaller[-1]
        expected = "%d or more, because %s uses it" % (planned, netdev)
        run.fail("RV404", name, port["rail"], "mtu of %s" % least["netdev"], expected=expected, found=least["mtu"])


def _speed(run: Run, name: str, port: Row, live: Live) -> None:
    """Report the first function whose link is slower than planned."""
    planned = port["expect"]["speed"]
    for nic in live.functions(port) if planned else ():
        observed = (nic["speed"] or 0) / 1000.0 or _rate(live.device(port))
        if not observed:
            why = "neither the interface nor the RDMA device reports it"
            remedy = "correct the driver, or remove speed from the profile in fabric.yml"
            run.unknown("link", name, port["rail"], "speed", why, remedy)
        elif observed < planned:
            what, found = "speed of %s" % nic["netdev"], "%g Gb/s" % observed
            run.fail("RV403", name, port["rail"], what, expected="%g Gb/s" % planned, found=found)
            return


def _rate(device: Row | None) -> float | None:
    """Return the rate of a hardware RDMA device in Gb/s; None if it is unknown."""
    return device["rate"] if device and device["type"] == "hardware" else None


def _device(run: Run, report: NodeReport, port: Row, live: Live, planes: t.Sequence[plane_layer.Plane] = ()) -> None:
    """Report an RDMA device that is missing, has another name, or is not ACTIVE."""
    name, rail, planned = report.name, port["rail"], port["rdma"]
    if not live.part("rdma"):
        run.unread("link", name, rail, "RDMA device")
        return
    device = live.device(port)
    # a plane with the netdev of another one is reported by itself
    elsewhere = device and device["netdev"] and device["netdev"] not in live.rdma_netdevs(port)
    if device is None or (planned.get("port") and elsewhere and not planes):
        _no_device(run, report, port, live)
    elif planned["name"] and device["device"] != planned["name"]:
        run.fail("RV406", name, rail, "RDMA device", expected=planned["name"], found=device["device"])
    elif device.get("state") not in (None, "ACTIVE") and not any(plane.up for plane in planes):
        found = "%s (%s)" % (device["state"], device.get("physical_state"))
        found = "; ".join(["no plane has a link", *plane_layer.reasons(planes)]) if len(planes) > 1 else found
        what = "RDMA device %s" % device_name(live, device)
        run.fail("RV407", name, rail, what, expected="ACTIVE", found=found, **_why_inactive(device))
    elif device.get("state") is None:
        run.unread("link", name, rail, "state of the RDMA device")


def _no_device(run: Run, report: NodeReport, port: Row, live: Live) -> None:
    """Report that the node does not have the RDMA device of a port, with the known cause."""
    name, rail, planned = report.name, port["rail"], port["rdma"]
    holders = "; ".join(why for nic in live.functions(port) for why in nic.get("rdma_holders") or ())
    label = planned["name"] or "one"
    if planned.get("port"):
        label += ":%d" % planned["port"]
    expected = "%s (%s)" % (label, planned["type"])
    if holders:
        where = ("RV420", name, rail, "RDMA device")
        if attachment_of(report.plan, port) == "host-device":
            run.warn(*where, expected=expected, found="in another namespace", cause=holders, remedy=_IN_POD)
            run.block(after(CODES["RV420"]), name, rail)
        else:
            run.fail(*where, expected=expected, found="in another namespace", cause=holders)
        return
    ports = [row for row in live.rdma if row["device"] == planned["name"]]
    about: Row = {}
    if ports:
        owner = next((row["netdev"] for row in ports if row["port"] == planned.get("port")), None)
        known = ", ".join("%d %s" % (row["port"], row["netdev"]) for row in ports if row["netdev"]) or "none"
        about["cause"] = (
            "port %d of %s belongs to %s" % (planned["port"], planned["name"], owner)
            if owner
            else "%s is present, and none of its ports belongs to %s (ports with a netdev: %s)"
            % (planned["name"], port["netdev"], known)
        )
        about.update(remedy="correct rdma of the port in fabric.yml (DEVICE:PORT)", playbook=None)
    elif planned["type"] != "hardware":
        about["cause"] = "the soft RDMA link was deleted (rdma link delete), or was not created at boot"
    run.fail(
        "RV405", name, rail, "RDMA device", expected=expected, found="none of this port" if ports else "none", **about
    )


def _is_zero_guid(value: t.Any) -> bool:
    return set(str(value)) == {"0", ":"}


def _why_inactive(device: Row) -> Row:
    """Return cause and remedy of an RDMA port that is not ACTIVE; empty if the code's apply."""
    if device["link_layer"] != "infiniband":
        return {}
    if _is_zero_guid(device.get("node_guid")):
        return {"cause": "its node GUID is zero, and a subnet manager configures no such port", "remedy": _SET_GUID}
    if device.get("physical_state") not in (None, "LINK_UP"):
        cause = "the port has no link: its physical state is %s" % device["physical_state"]
        return {"cause": cause, "remedy": CODES["RV402"].remedy}
    return dict(_NO_SUBNET_MANAGER)
