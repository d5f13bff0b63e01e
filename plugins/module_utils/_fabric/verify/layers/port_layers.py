# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers driver, mode and link: from the PCI function to the RDMA device of each port."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DISTANCES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import attachment_of, has_interface
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live, named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, after
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport, Row, Run

# GT/s per lane of each generation of PCIe, as sysfs reports them.
GENERATIONS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_NO_SUBNET_MANAGER = {
    "cause": "no subnet manager configured the port",
    "remedy": "start a subnet manager, or check why it does not detect the port (ibstat, ibdiagnet)",
}


def driver(run: Run) -> None:
    """Check every NIC with its driver, interface, VFs, PCIe link and GPUs."""
    for report, port in run.ports("driver"):
        live = report.live
        if not live.part("nics"):
            continue
        nic = live.nic(port)
        if nic is None:
            found = "no PCI function %s" % port["pci"] if port["pci"] else "no interface %s" % port["netdev"]
            run.fail("RV201", report.name, port["rail"], "NIC", expected=port["pci"] or port["netdev"], found=found)
        elif not nic["driver"]:
            run.fail("RV202", report.name, port["rail"], "driver", expected="a driver of %s" % nic["pci"], found="none")
        elif not nic["netdev"] and has_interface(port):
            _gone(run, report, port, nic)
        else:
            _port(run, report, port, nic, live)


def _gone(run: Run, report: NodeReport, port: Row, nic: Row) -> None:
    """Report a NIC without an interface on the host. A pod may hold it with attachment ``host-device``."""
    where = ("RV203", report.name, port["rail"], "netdev of %s" % nic["pci"])
    cause = "; ".join(nic.get("holders") or ())
    found = "held" if cause else "none (driver %s)" % nic["driver"]
    if cause and attachment_of(report.plan, port) == "host-device":
        remedy = "none if this is intended; delete the pod to prove the rail from the node"
        run.warn(*where, expected=port["netdev"], found=found, cause=cause, remedy=remedy)
        run.block(after(CODES["RV203"]), report.name, port["rail"])
    else:
        run.fail(*where, expected=port["netdev"], found=found, cause=cause or None)


def _port(run: Run, report: NodeReport, port: Row, nic: Row, live: Live) -> None:
    """Check the name of a NIC's interface and, if it is as planned, the PCIe link, GPUs and VFs."""
    name, rail = report.name, port["rail"]
    if port["netdev"] and nic["netdev"] != port["netdev"]:
        cause = "%s is only an alternative name of it" % port["netdev"] if named(nic, port["netdev"]) else None
        run.fail("RV204", name, rail, "name", expected=port["netdev"], found=nic["netdev"], cause=cause)
        return
    _pcie(run, name, port, nic)
    _distance(run, report, port, nic, live)
    if port["vfs"]:
        _vfs(run, name, port, nic, live)


def _pcie(run: Run, name: str, port: Row, nic: Row) -> None:
    """Report a PCIe link that is slower or narrower than planned."""
    planned, observed = port["expect"], nic.get("pcie") or {}
    speed, width = GENERATIONS.get(planned["pcie_gen"] or 0), planned["pcie_lanes"]
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
        return
    planned, gpus = port["expect"]["gpu_distance"], {row["pci"]: row for row in live.info["gpus"]}
    for number in port["gpus"]:
        pci = report.plan["gpus"].get(str(number))
        if not pci:
            continue
        if pci not in gpus:
            run.fail("RV209", report.name, port["rail"], "GPU %d" % number, expected=pci, found="no such PCI function")
        elif planned in DISTANCES:
            observed = gpus[pci]["nics"].get(nic["pci"])
            if observed in DISTANCES and DISTANCES.index(observed) > DISTANCES.index(planned):
                what = "path from GPU %d to %s" % (number, nic["pci"])
                run.fail("RV208", report.name, port["rail"], what, expected=planned, found=observed)


def _vfs(run: Run, name: str, port: Row, nic: Row, live: Live) -> None:
    rail, count = port["rail"], port["vfs"]["count"]
    if nic["vfs"] is not None and nic["vfs"] != count:
        run.fail("RV205", name, rail, "VFs of %s" % nic["netdev"], expected=count, found=nic["vfs"])
        return
    held = {row["index"]: row.get("attributes") or {} for row in live.info.get("vfs") or () if row["pf"] == nic["pci"]}
    for spec in port["vfs"]["attributes"]:
        have = held.get(spec["index"]) or {}
        for key, value in spec.items():
            if key != "index" and value is not None and have.get(key) is not None and have[key] != value:
                what = "%s of VF %d of %s" % (key, spec["index"], nic["netdev"])
                run.fail("RV206", name, rail, what, expected=value, found=have[key])


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
    """Check state, speed and MTU of every link, and its RDMA device."""
    for report, port in run.ports("link"):
        live = report.live
        nic = live.nic(port)
        if nic is not None and not has_interface(port):
            _device(run, report.name, port, live)
        if nic is None or not nic["netdev"] or not has_interface(port):
            continue
        name, rail, netdev = report.name, port["rail"], nic["netdev"]
        if nic["up"] is False:
            run.fail("RV401", name, rail, "link %s" % netdev, expected="up", found="down")
            continue
        if nic["carrier"] is False:
            run.fail("RV402", name, rail, "carrier of %s" % netdev, expected="yes", found="no")
            if run.blocked("address", name, rail):
                continue
        if nic["mtu"] not in (None, port["mtu"]):
            run.fail("RV404", name, rail, "mtu of %s" % netdev, expected=port["mtu"], found=nic["mtu"])
        _device(run, name, port, live)
        speed = port["expect"]["speed"]
        have = (nic["speed"] or 0) / 1000.0 or _rate(live.device(port))
        if speed and have and have < speed:
            found = "%g Gb/s" % have
            run.fail("RV403", name, rail, "speed of %s" % netdev, expected="%g Gb/s" % speed, found=found)


def _rate(device: Row | None) -> float | None:
    """Return the rate of a hardware RDMA device in Gb/s; None if it is unknown."""
    return device["rate"] if device and device["type"] == "hardware" else None


def _device(run: Run, name: str, port: Row, live: Live) -> None:
    """Report an RDMA device that is missing, has another name, or is not ACTIVE."""
    rail, planned = port["rail"], port["rdma"]
    if not live.part("rdma"):
        return
    device = live.device(port)
    if device is None:
        soft = planned["type"] != "hardware"
        cause = "the soft RDMA link was deleted (rdma link delete), or was not created at boot" if soft else None
        expected = "%s (%s)" % (planned["name"] or "one", planned["type"])
        run.fail("RV405", name, rail, "RDMA device", expected=expected, found="none", cause=cause)
    elif planned["name"] and device["device"] != planned["name"]:
        run.fail("RV406", name, rail, "RDMA device", expected=planned["name"], found=device["device"])
    elif device.get("state") not in (None, "ACTIVE"):
        found = "%s (%s)" % (device["state"], device.get("physical_state"))
        about = _NO_SUBNET_MANAGER if device["link_layer"] == "infiniband" else {}
        run.fail("RV407", name, rail, "RDMA device %s" % device["device"], expected="ACTIVE", found=found, **about)
