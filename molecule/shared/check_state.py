#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the lab's live state against the plan, with other tools than the collection's: ip, rdma and sysfs over ssh.

``check_state.py INVENTORY``; the lab's name is in RAILYARD_LAB. Prints each difference; exits with 1 if there is one.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LAB = Path(os.environ.get("RAILYARD_LAB_DIR", str(ROOT / ".lab"))) / os.environ.get("RAILYARD_LAB", "default")

# One round trip a node; a record separator between the parts.
QUESTIONS = {
    "links": "ip -j -d addr show",
    "vfs": "ip -j link show",
    "rules": "ip -j rule show",
    "routes": "ip -j route show table all",
    "mode": "cat /sys/module/ib_core/parameters/netns_mode",
    "rdma": "rdma -j link show",
    "numvfs": 'for f in /sys/bus/pci/devices/*/sriov_numvfs; do [ -e "$f" ] && echo "$f $(cat "$f")"; done; true',
    "sysctl": "grep . /proc/sys/net/ipv4/conf/*/arp_ignore /proc/sys/net/ipv4/conf/*/arp_announce"
    " /proc/sys/net/ipv4/conf/*/rp_filter",
    "pages": "grep . /sys/kernel/mm/hugepages/*/nr_hugepages",
    "neighbours": "grep . /proc/sys/net/ipv?/neigh/default/gc_thresh?",
    "boot_unit": "systemctl is-failed railyard-boot.service || true",
}


class Live:
    """The state of one node."""

    def __init__(self, name: str) -> None:
        script = "; ".join("%s; printf '\\036'" % question for question in QUESTIONS.values())
        done = subprocess.run(
            ["ssh", "-F", str(LAB / "ssh_config"), name, "sudo sh -s"],
            input=script,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        self.text = dict(zip(QUESTIONS, done.stdout.split("\x1e")))
        self.links = {link["ifname"]: link for link in json.loads(self.text["links"])}
        self.vfs = {link["ifname"]: link.get("vfinfo_list", []) for link in json.loads(self.text["vfs"])}
        self.rules = json.loads(self.text["rules"])
        self.routes = json.loads(self.text["routes"])
        self.rdma = {link["ifname"]: link for link in json.loads(self.text["rdma"] or "[]")}
        # ib_core's parameter is true for shared; the file is absent while the module is
        self.mode = {"Y": "shared", "N": "exclusive"}.get(self.text["mode"].strip(), "none")
        self.numvfs = {
            path.split("/")[5]: int(number)
            for path, number in (line.split() for line in self.text["numvfs"].splitlines())
        }
        self.sysctl = dict(line.split(":", 1) for line in self.text["sysctl"].split())


def differences(node: dict[str, t.Any], live: Live) -> t.Iterator[str]:
    if live.mode != node["rdma_mode"]:
        yield "RDMA mode is %s, planned %s" % (live.mode, node["rdma_mode"])
    if live.text["boot_unit"].strip() == "failed":
        yield "railyard-boot.service has failed"
    main = [route for route in live.routes if route.get("table", "main") == "main" and route["dst"] == "default"]
    rails = {port["netdev"] for port in node["ports"]}
    yield from limit_differences(node.get("limits") or {}, live)
    if not main:
        yield "there is no default route in the main table"
    for route in main:
        if route["dev"] in rails:
            yield "the main table has a default route through %s" % route["dev"]
    for port in node["ports"]:
        for difference in port_differences(port, live):
            yield "%s: %s" % (port["rail"], difference)


def limit_differences(limits: dict[str, t.Any], live: Live) -> t.Iterator[str]:
    pages = dict(line.split(":") for line in live.text["pages"].split())
    for page in limits.get("hugepages") or []:
        held = pages.get("/sys/kernel/mm/hugepages/hugepages-%dkB/nr_hugepages" % page["size_kb"])
        if held != str(page["count"]):
            yield "hugepages of %d kB are %s, planned %d" % (page["size_kb"], held, page["count"])
    for line in live.text["neighbours"].split():
        path, held = line.split(":")
        if int(held) < limits.get("neighbours", {}).get(path.rpartition("/")[2], 0):
            yield "%s is %s, planned %d" % (path, held, limits["neighbours"][path.rpartition("/")[2]])


def port_differences(port: dict[str, t.Any], live: Live) -> t.Iterator[str]:
    netdev = port["netdev"]
    link = live.links.get(netdev)
    if link is None:
        yield "there is no %s" % netdev
        return
    if "UP" not in link["flags"] or link["operstate"] != "UP":
        yield "%s is not up (%s)" % (netdev, link["operstate"])
    if link["mtu"] != port["mtu"]:
        yield "MTU of %s is %d, planned %d" % (netdev, link["mtu"], port["mtu"])
    if port["address"]:
        yield from address_differences(port, link, live)
    for name, value in (port.get("sysctl") or {}).items():
        held = live.sysctl.get("/proc/sys/net/ipv4/conf/%s/%s" % (netdev, name))
        if held is not None and int(held) != value:
            yield "%s of %s is %s, planned %s" % (name, netdev, held, value)
    name = port["rdma"]["name"]
    if name:
        device = live.rdma.get(name)
        if device is None:
            yield "there is no RDMA device %s" % name
        elif device["state"] != "ACTIVE" or device.get("netdev") != netdev:
            yield "%s is %s on %s, planned ACTIVE on %s" % (name, device["state"], device.get("netdev"), netdev)
    vfs = port.get("vfs") or {"count": 0, "attributes": []}
    if port["pci"] and live.numvfs.get(port["pci"], 0) != vfs["count"]:
        yield "%s has %d VFs, planned %d" % (port["pci"], live.numvfs.get(port["pci"], 0), vfs["count"])
    held_vfs = {vf["vf"]: vf for vf in live.vfs.get(netdev, [])}
    for vf in vfs["attributes"]:
        held_vf = held_vfs.get(vf["index"], {})
        for planned, key in (("mac", "address"), ("trust", "trust"), ("spoofchk", "spoofchk")):
            if vf.get(planned) is not None and held_vf.get(key) != vf[planned]:
                yield "VF %d: %s is %s, planned %s" % (vf["index"], planned, held_vf.get(key), vf[planned])


def address_differences(port: dict[str, t.Any], link: dict[str, t.Any], live: Live) -> t.Iterator[str]:
    wanted = ipaddress.ip_interface(port["address"])
    held = ["%s/%d" % (each["local"], each["prefixlen"]) for each in link["addr_info"] if each["family"] == "inet"]
    if held != [str(wanted)]:
        yield "addresses of %s are %s, planned %s" % (port["netdev"], held, wanted)
    # what has the rail's address, or was bound to its netdev, leaves by the rail's own table
    rules = sorted(
        (r["src"], r.get("oif", ""), r["table"]) for r in live.rules if r["priority"] == port["rule_priority"]
    )
    if rules != [(str(wanted.ip), "", str(port["table"])), ("all", port["netdev"], str(port["table"]))]:
        yield "rules at priority %d are %s" % (port["rule_priority"], rules)
    table = [r for r in live.routes if str(r.get("table", "main")) == str(port["table"])]
    if not any(r["dst"] == str(wanted.network) and r["dev"] == port["netdev"] for r in table):
        yield "table %d has no route to %s: %s" % (port["table"], wanted.network, table)
    gateways = [r.get("gateway") for r in table if r["dst"] == "default"]
    if gateways != ([port["gateway"]] if port["gateway"] else []):
        yield "table %d has default routes via %s, planned %s" % (port["table"], gateways, port["gateway"])


def main(inventory: str) -> int:
    listed = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", inventory, "--list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    status = 0
    for name, hostvars in json.loads(listed.stdout)["_meta"]["hostvars"].items():
        found = list(differences(hostvars["railyard_node"], Live(name)))
        for difference in found:
            print("%s: %s" % (name, difference))
            status = 1
        if not found:
            print("%s: %d rail ports are as planned" % (name, len(hostvars["railyard_node"]["ports"])))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
