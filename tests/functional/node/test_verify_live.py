# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of rail ports on the kernel itself: ``rail_ports`` sets, ``ip`` breaks, verify reports."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    VERIFY,
    NodeReport,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import Asked, judge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp, ip_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import sysctl
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.test_ports_live import predicted, run

FABRIC = """
plugin: railyard.fabric.rails
fabric: {name: live, attachment: macvlan, provider: spiderpool, mtu: 4200}
rails:
  {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles:
  guest:
    soft_rdma: rxe
    ports:
      gpu01: {netdev: rail1}
      gpu02: {netdev: rail2}
nodes:
  node-1: {profile: guest}
"""
PROC = "/proc/sys/net/ipv4/conf/rail1/"
Harm = t.Union[t.List[str], t.Callable[[LiveNode], t.Any]]


def write(path: str, text: str) -> t.Callable[[LiveNode], t.Any]:
    return lambda live: live.system.write_attribute(path, text)


def another_host(live: LiveNode) -> None:
    live.leaf("ip", "addr", "add", "172.16.11.201/24", "dev", "leaf1")


# name, commands or an action, code, and whether it is configuration, which ``hosts.yml`` fixes
HARMS: list[tuple[str, list[Harm], str, bool]] = [
    ("link set down", [["link", "set", "rail1", "down"]], "RV401", True),
    ("leaf's port down", [lambda live: live.leaf("ip", "link", "set", "leaf1", "down")], "RV402", False),
    ("MTU", [["link", "set", "rail1", "mtu", "1500"]], "RV404", True),
    ("address gone", [["addr", "del", "172.16.11.201/24", "dev", "rail1"]], "RV501", True),
    (
        "another prefix",
        [["addr", "del", "172.16.11.201/24", "dev", "rail1"], ["addr", "add", "172.16.11.201/25", "dev", "rail1"]],
        *("RV502", True),
    ),
    ("default route gone", [["route", "del", "default", "table", "101"]], "RV504", True),
    ("subnet's route gone", [["route", "del", "172.16.11.0/24", "table", "101"]], "RV504", True),
    (
        "another gateway",
        [["route", "replace", "default", "via", "172.16.11.253", "dev", "rail1", "table", "101"]],
        *("RV504", True),
    ),
    ("rule gone", [["rule", "del", "pref", "10001", "from", "172.16.11.201"]], "RV505", True),
    ("both rules gone", [["rule", "del", "pref", "10001"], ["rule", "del", "pref", "10001"]], "RV505", True),
    ("rp_filter", [write(PROC + "rp_filter", "1")], "RV506", True),
    ("arp_ignore", [write(PROC + "arp_ignore", "0")], "RV506", True),
    ("arp_announce", [write(PROC + "arp_announce", "0")], "RV506", True),
    ("accept_ra", [write("/proc/sys/net/ipv6/conf/rail1/accept_ra", "1")], "RV506", True),
    ("default in main", [["route", "add", "default", "via", "172.16.11.254", "dev", "rail1"]], "RV507", False),
    ("route to another rail", [["route", "add", "172.16.12.128/25", "dev", "rail1"]], "RV508", False),
    ("another rail's table", [["route", "add", "10.9.0.0/16", "dev", "rail1", "table", "102"]], "RV508", False),
    ("another host's address", [another_host], "RV510", False),
    ("the other rail's address", [["addr", "add", "172.16.12.201/24", "dev", "rail1"]], "RV510", False),
]


class Ground:
    """The node as planned, and what is reported of it."""

    def __init__(self, live: LiveNode) -> None:
        plan = lint(FABRIC.encode()).plan
        assert plan
        document = plan.document()
        self.fabric, (self.node,) = document["fabric"], document["nodes"]
        self.live = live
        self.ports = port_options(self.node["ports"], "rail_ports")
        for number in (1, 2):
            live.rail(number)
            live.leaf("sysctl", "-q", "net.ipv4.conf.leaf%d.arp_ignore=1" % number)
        self.repair()

    def repair(self) -> list[dict[str, t.Any]]:
        return list(run(self.live, self.ports)["changes"])

    def info(self) -> dict[str, t.Any]:
        with Rtnetlink() as table:
            links = {link.name: link for link in table.links() if link.name.startswith("rail")}
            observed = ip_state.look(table, {link.ifindex: name for name, link in links.items()})
        nics = [_nic(link) for link in links.values()]
        keys = ("arp_announce", "arp_ignore", "rp_filter")
        own = {"rail%d" % number: ["172.16.1%d.201" % number] for number in (1, 2)}
        heard = arp.ask(own, 0.2)
        return {
            "system": {"boot_id": "x", "rdma_mode": "shared"},
            "nics": nics,
            "ip": observed,
            "sysctls": {name: {key: sysctl.effective(System(), name, key) for key in keys} for name in links},
            "duplicates": [{"netdev": key[0], "address": key[1], "macs": macs} for key, macs in heard.items()],
        }

    def failures(self, kind: str) -> list[t.Any]:
        try:
            result: dict[str, t.Any] = {"changes": predicted(self.live, self.ports)}
        except RailyardError as error:
            # as task.fail has it
            errors = error.errors if isinstance(error, Errors) else [error]
            result = {"failed": True, "changes": [], "errors": [each.as_dict(self.ports) for each in errors]}
        reports = [NodeReport("node-1", self.node, self.info(), {"rail_ports": result})]
        return judge(kind, self.fabric, reports, Asked(["node-1"], unproven_allowed=True)).run.failures


def _nic(link: t.Any) -> dict[str, t.Any]:
    return {
        "netdev": link.name,
        "altnames": [],
        "pci": None,
        "driver": "veth",
        "mac": hardware_address(link.address),
        "up": link.up,
        "carrier": link.carrier,
        "mtu": link.mtu,
        "speed": None,
        "vfs": None,
    }


@pytest.mark.parametrize(("harms", "code", "fixed"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_a_fault_is_reported_and_hosts_yml_fixes_it(harms: list[Harm], code: str, fixed: bool) -> None:
    @in_own_namespace
    def scenario(live: LiveNode) -> None:
        ground = Ground(live)
        for kind in (VERIFY, DRIFT):
            assert [each.line() for each in ground.failures(kind)] == []
        for harm in harms:
            if callable(harm):
                harm(live)
            else:
                ip(*harm)
        for kind in (VERIFY, DRIFT):
            failures = ground.failures(kind)
            expected = [] if code == "RV402" and kind == DRIFT else [(code, "node-1", "gpu01")]
            message = [each.line() for each in failures]
            assert [(each.code, each.node, each.rail) for each in failures] == expected, message
        if fixed:
            assert ground.repair()
            assert [each.line() for each in ground.failures(DRIFT)] == []

    scenario()
