# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes, pairs and a cluster as planned, for tests to break."""

from __future__ import annotations

import copy
import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare, port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions, leaf_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live, counter_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY, NodeReport
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import (
    Asked,
    Verdict,
    document,
    judge,
)
from tests.unit.fabric import live_nodes

Row = t.Dict[str, t.Any]
ABOUT = {"plan": "0" * 64, "railyard": "0.2.0", "began": "2026-11-21T20:15:00Z", "seconds": 83.1}
SYSCTLS = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
SERVERS = """
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: sriov, provider: spiderpool, mtu: 4200, vfs: {count: 2, trust: true, spoofchk: false}}
rails:
  {count: 4, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles:
  server:
    speed: 400
    pcie_gen: 5
    pcie_lanes: 16
    gpu_distance: PIX
    gpus: {0: "0000:18:00.0", 1: "0000:19:00.0", 2: "0000:1a:00.0", 3: "0000:1b:00.0"}
    ports:
      gpu01: {netdev: ens1, pci: "0000:01:00.0", gpu: 0, rdma: mlx5_gpu01}
      gpu02: {netdev: ens2, pci: "0000:02:00.0", gpu: 1, rdma: mlx5_gpu02}
      gpu03: {netdev: ens3, pci: "0000:03:00.0", gpu: 2, rdma: mlx5_gpu03}
      gpu04: {netdev: ens4, pci: "0000:04:00.0", gpu: 3, rdma: mlx5_gpu04}
units:
  su1: {nodes: 32, leaf: "leaf-{n}", leaf_port: "swp{i}"}
"""


def plan(nodes: int = 4, text: str = SERVERS) -> Plan:
    outcome = lint((text + "nodes:\n  ai-[1:%d]: {profile: server, unit: su1}\n" % nodes).encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan


def only_failure(verdict: Row, code: str, node: str | None, rail: str | None) -> Row:
    """The one failure of a verdict, which must be this one."""
    failures: list[Row] = verdict["failures"]
    assert [(each["code"], each["node"], each["rail"]) for each in failures] == [(code, node, rail)], [
        (each["code"], each["node"], each["rail"], each["what"], each["found"]) for each in failures
    ]
    assert failures[0]["cause"] and failures[0]["remedy"] and failures[0]["what"]
    return failures[0]


def counters_of(info: Row, node: Row) -> Row:
    """The counters of all ports of a node."""
    names = [counter_names(Live(info), port) for port in node["ports"]]
    return {
        "netdevs": {name: {"rx_crc_errors": 0} for each in names for name in each["netdevs"]},
        "devices": {name: {"packet_seq_err": 5, "np_cnp_sent": 7} for each in names for name in each["devices"]},
    }


class World:
    """The nodes of a fabric as modules report them; tests change these rows."""

    def __init__(self, made: Plan, rounds: int = 3) -> None:
        document = made.document()
        self.fabric: Row = document["fabric"]
        self.plans: dict[str, Row] = {node["name"]: node for node in document["nodes"]}
        self.infos: dict[str, Row] = {name: self._info(node) for name, node in self.plans.items()}
        self.states: dict[str, Row] = {name: self._states(node, self.fabric) for name, node in self.plans.items()}
        self.pairs = [pair for each in probe_pairs.rounds(list(self.plans), rounds) for pair in each]
        self.probes: dict[str, list[Row]] = {name: [] for name in self.plans}
        for server, client in self.pairs:
            self.probes[client] += [self._probe(port["rail"], server) for port in self.plans[client]["ports"]]
        self.after: dict[str, Row] = {name: copy.deepcopy(info["counters"]) for name, info in self.infos.items()}
        self.dark: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.others: dict[str, list[Row]] = {}
        self.cluster: Row | None = {"server": "https://[::1]:6443", "error": "", "missing": [], "changes": []}
        self.insides: dict[str, Row] = {}
        self.pod_probes: dict[str, list[Row]] = {name: [] for name in self.plans}
        self.pod_refused: dict[str, str] = {}
        if self.fabric["provider"] != "none":
            self._pods(document)

    def _info(self, node: Row) -> Row:
        info = live_nodes.result(node, self.fabric["link_layer"])
        info["system"].update(boot_id="0d3dd8dc-34c1-4d36-b5a5-4f1c3f3a8a5e", boot_service="active")
        for nic in info["nics"]:
            number = int(nic["pci"][5:7], 16)
            nic["mac"] = "02:00:00:00:%02x:%02x" % (node["index"], number)
            nic["pcie"] = {"speed": 32.0, "max_speed": 32.0, "width": 16, "max_width": 16}
        for row in info["rdma"]:
            row.update(state="ACTIVE", physical_state="LINK_UP", rate=400.0)
        info["gids"] = [
            dict(
                {"device": port["rdma"]["name"], "type": "RoCE v2", "address": bare(port[key]), "index": 3},
                port=port["rdma"].get("port", 1),
            )
            for port in node["ports"]
            for key in ("address", "address6")
            if port[key]
        ]
        info["sysctls"] = {port["netdev"]: dict(SYSCTLS, **port["sysctl"]) for port in node["ports"]}
        info["duplicates"] = []
        info["lldp"] = [
            {
                "netdev": netdev,
                "chassis": "00:1b:54:c2:%02x:%02x" % (at, port["number"]),
                "system": "%s.example.com" % leaf["name"],
                "port": leaf["port"],
                "port_description": None,
                "source": "lldpd",
            }
            for port in node["ports"]
            for at, (netdev, function) in enumerate(zip(live_nodes.netdevs(port), functions(port)))
            for leaf in [leaf_of(port, function)]
        ]
        for row in info["interfaces"]:
            row["mac"] = "02:00:00:01:%02x:%s" % (node["index"], row["mac"][12:14])
        info["counters"] = counters_of(info, node)
        return info

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _pods(self, document: Row) -> None:
        """A test pod a node, as the provider attaches it."""
        view = View(document)
        names = test_workload.names(view)
        settings = test_workload.settings(view, Options.of(None), names)
        assert self.cluster is not None
        nodes = [node for each in settings for node in each["nodes"]]
        pods = [self._pod(name) for name in self.plans]
        self.cluster["pods"] = {"there": True, "nodes": nodes, "remedy": "", "pods": pods, "settings": settings}
        for name, node in self.plans.items():
            mine = next(each for each in settings if name in each["nodes"])
            inside = self._inside(node)
            inside["settings"] = {"environment": dict(mine["ucx"]), "file": dict(mine["nccl"])}
            self.insides[name] = {"rdma_mode": node["rdma_mode"], "pods": [inside], "files": {}, "held": {}}
            for key, of_host in (("file", nccl_objects.host_settings), ("ucx_file", nccl_objects.host_ucx)):
                if (node["nccl"] or {}).get(key):
                    self.insides[name]["files"][node["nccl"][key]] = of_host(document["fabric"], node)
            if agent := node.get("agent"):
                slot = agent["rails"][0]["slots"][0]
                held = {"%s-%d" % (slot["resource"], slot["number"]): "default/" + self._pod(name)["name"]}
                self.insides[name]["held"] = held
        for server, client in self.pairs:
            rails = [port["rail"] for port in self.plans[client]["ports"] if port["pods"]]
            self.pod_probes[client] += [dict(self._probe(rail, server), cross=None) for rail in rails]

    def _pod(self, name: str) -> Row:
        node = self.plans[name]
        networks = [
            {"interface": port["names"]["interface"], "network": port["names"]["network"]} for port in node["ports"]
        ]
        known: Row = {"name": "ai-rails-%d" % node["index"], "namespace": "default", "uid": "uid-of-%s" % name}
        known.update(node=name, wanted=name, phase="Running", running=True, leaving=False, why="")
        return dict(known, networks=networks)

    def _inside(self, node: Row) -> Row:
        """What Spiderpool's coordinator, sbr or railyard-rail make, and what the kernel reports about it."""
        found: Row = {"uid": "uid-of-%s" % node["name"], "processes": 2, "namespace": "net:[%d]" % node["index"]}
        found.update(why="", links=[{"netdev": "eth0", "kind": "veth", "up": True, "mtu": 1450, "pci": None}])
        found.update({key: [] for key in ("addresses", "routes", "rules", "rdma", "gids")})
        agent = (node.get("agent") or {"rails": ()})["rails"]
        found["slots"] = [
            {
                **{"rail": rail["rail"], "slot": slot["number"], "interface": rail["interface"], "rdma": rail["rdma"]},
                **{key: slot[key] for key in ("address", "address6", "mac")},
            }
            for rail in agent
            for slot in rail["slots"][:1]
        ]
        for port in node["ports"]:
            self._rail_inside(node, port, found)
        return found

    def _rail_inside(self, node: Row, port: Row, found: Row) -> None:
        name, table, pci = "net%d" % port["number"], 100 + port["number"], "0000:%02x:00.2" % port["number"]
        found["links"].append({"netdev": name, "kind": None, "up": True, "mtu": port["mtu"], "pci": pci})
        device = port["rdma"]["name"]
        if node["rdma_mode"] == "exclusive":
            device = "mlx5_%d" % (10 + port["number"])
        if node["rdma_mode"] == "exclusive" or node.get("agent"):
            row = {"device": device, "port": 1, "link_layer": "ethernet", "state": "ACTIVE", "netdev": name, "pci": pci}
            found["rdma"].append(row)
        for six in ("", "6"):
            share = port["pods"] or {}
            if not share.get("first" + six):
                continue
            own = self.fabric["subnets"][port["rail"]]["mode"] != "subnet"
            address = ipaddress.ip_address(share["first" + six]) + (0 if own else node["index"] - 1)
            if node.get("agent"):
                slots = next(rail["slots"] for rail in node["agent"]["rails"] if rail["rail"] == port["rail"])
                address = ipaddress.ip_interface(slots[0]["address" + six]).ip
            prefix = share["subnet" + six].partition("/")[2]
            bits = 128 if six else 32
            found["addresses"].append({"netdev": name, "address": "%s/%s" % (address, prefix), "secondary": False})
            gateway = share.get("gateway" + six)
            everywhere = "::/0" if six else "0.0.0.0/0"
            ours = self.fabric["provider"] in ("cni", "agent")
            to = everywhere if self.fabric["routing"]["cross_rail"] else None
            whole = self.fabric["subnets"][port["rail"]]["subnet" + six]
            if ours or (gateway and to):
                priority = port["rule_priority"] if ours else 32765
                rule = {"from": "%s/%d" % (address, bits), "oif": None, "table": table, "priority": priority}
                found["rules"].append(rule)
                found["routes"].append({"netdev": name, "to": share["subnet" + six], "via": None, "table": table})
            if gateway and to:
                found["routes"].append({"netdev": name, "to": to, "via": gateway, "table": table})
            elif gateway and whole != share["subnet" + six]:
                for where in (None, table) if ours else (None,):
                    found["routes"].append({"netdev": name, "to": whole, "via": gateway, "table": where})
            gid = {"device": device, "port": 1, "index": 3, "type": "RoCE v2", "address": str(address), "netdev": name}
            found["gids"].append(gid)

    def pod(self, node: str) -> Row:
        assert self.cluster is not None
        found: Row = next(row for row in self.cluster["pods"]["pods"] if row["node"] == node)
        return found

    def inside(self, node: str) -> Row:
        found: Row = self.insides[node]["pods"][0]
        return found

    def pods_lose(self, node: str, rail: str, **how: t.Any) -> None:
        """Nothing comes back between the node's pod and any other on the rail."""
        for client, rows in self.pod_probes.items():
            for row in rows:
                if row["rail"] == rail and node in (client, row["peer"]):
                    row["reach"] = {"sent": 3, "received": 0, "rtt_ms": None, "error": ""}
                    row.update({"ok": False, "transfer": None, "error": "lost", **how})

    @staticmethod
    def _states(node: Row, fabric: Row) -> Row:
        """The modules that have something to do on a node, and those that read a state."""
        planned = [
            row.module
            for row in HOST_LAYERS
            if row.drift and row.options(node, fabric, port_options(node["ports"], row.module) if row.ports else [])
        ]
        modules = ("rail_ports", "rdma_link", "rdma_netns_mode", *planned)
        return {module: {"changes": [], "gathered": {}} for module in modules}

    @staticmethod
    def _probe(rail: str, peer: str) -> Row:
        return {
            "rail": rail,
            "peer": peer,
            "ok": True,
            "error": "",
            "remedy": "",
            "reach": {"sent": 3, "received": 3, "rtt_ms": 0.1, "error": ""},
            "found": None,
            "cross": {"rail": "gpu01", "open": True},
            "transfer": {"gbits": 390.0, "latency_us": 1.7, "gid_index": 3, "error": "", "remedy": ""},
        }

    # -- finding rows --------------------------------------------------------------------------------------------------

    def use_soft_rdma(self) -> None:
        """Replace the RDMA devices of all nodes with soft ones."""
        for node in self.plans.values():
            for port in node["ports"]:
                port["rdma"]["type"] = "rxe"
        for info in self.infos.values():
            for device in info["rdma"]:
                device["type"] = "rxe"

    def port(self, node: str, rail: str) -> Row:
        return next(port for port in self.plans[node]["ports"] if port["rail"] == rail)

    def nic(self, node: str, rail: str) -> Row:
        pci = self.port(node, rail)["pci"]
        return next(row for row in self.infos[node]["nics"] if row["pci"] == pci)

    def device(self, node: str, rail: str) -> Row:
        name = self.port(node, rail)["rdma"]["name"]
        return next(row for row in self.infos[node]["rdma"] if row["device"] == name)

    def of(self, node: str, rail: str, part: str, **like: t.Any) -> list[Row]:
        """Rows of a part of ``ip``, or of another list, that are the port's and like this."""
        info = self.infos[node]
        rows = info["ip"][part] if part in info["ip"] else info[part]
        netdev = self.port(node, rail)["netdev"]
        mine = [row for row in rows if row.get("netdev", row.get("oif")) == netdev]
        return [row for row in mine if all(row[key] == value for key, value in like.items())]

    def drop(self, node: str, part: str, row: Row) -> None:
        info = self.infos[node]
        (info["ip"][part] if part in info["ip"] else info[part]).remove(row)

    def lose(self, node: str, rail: str, found: Row | None = None, received: int = 0, error: str = "") -> None:
        """Nothing comes back between the node and any other on the rail."""
        for client, rows in self.probes.items():
            for row in rows:
                if row["rail"] == rail and node in (client, row["peer"]):
                    row["reach"] = {"sent": 3, "received": received, "rtt_ms": None, "error": error}
                    row.update(ok=False, transfer=None, error="lost", cross=None)
                    row["found"] = dict({"small": False, "path_mtu": None, "answers": []}, **(found or {}))

    def transfers(self, node: str, rail: str) -> list[Row]:
        return [
            row["transfer"]
            for client, rows in self.probes.items()
            for row in rows
            if row["rail"] == rail and node in (client, row["peer"])
        ]

    # -- judging -------------------------------------------------------------------------------------------------------

    def reports(self) -> list[NodeReport]:
        found = []
        for name, node in self.plans.items():
            if name in self.dark:
                found.append(NodeReport(name, node, None, {}, why=self.dark[name], code="RV001"))
            else:
                rest = (self.infos[name], self.states[name], self.probes[name], self.after[name])
                made = NodeReport(name, node, *rest, refused=self.refused.get(name, ""), inside=self.insides.get(name))
                refused = self.pod_refused.get(name, "")
                made = made._replace(pod_probed=self.pod_probes[name], pod_refused=refused)
                found.append(made._replace(others=self.others.get(name, ())))
        return found

    def verdict(self, kind: str = VERIFY, **asked: t.Any) -> Verdict:
        pairs, seen = (self.pairs, self.cluster) if kind == VERIFY else ([], self._without_pods())
        return judge(kind, self.fabric, self.reports(), Asked(list(self.plans), **asked), pairs, seen, pairs)

    def _without_pods(self) -> Row | None:
        """As drift reads it: without pods."""
        return {key: value for key, value in self.cluster.items() if key != "pods"} if self.cluster else None

    def document(self, kind: str = VERIFY, **asked: t.Any) -> Row:
        return document(self.verdict(kind, **asked), ABOUT)
