# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``rail_info`` would return of a plan's nodes once hosts.yml has run: the way back from a plan to live nodes."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import NodeInfo
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan

Row = t.Dict[str, t.Any]
# A VF's attributes that are not set.
UNSET = {
    "mac": None,
    "vlan": 0,
    "qos": 0,
    "spoofchk": True,
    "trust": False,
    "link_state": "auto",
    "min_tx_rate": 0,
    "max_tx_rate": 0,
    "node_guid": None,
    "port_guid": None,
}
MANAGEMENT = "0000:e1:00.0"


def nodes_of(plan: Plan) -> list[NodeInfo]:
    """Every node of the plan."""
    layer = plan.fabric.link_layer or "ethernet"
    found = []
    for planned in plan.nodes:
        node = plan.node_vars(planned)
        found.append(NodeInfo(node["name"], planned.node.address, result(node, layer)))
    return found


def result(node: Row, layer: str) -> Row:
    """One node, from ``railyard_node``."""
    gpus = _gpus(node)
    nics = list({row["pci"]: row for port in node["ports"] for row in _nics(node, port, layer)}.values())
    nics += [_other(other) for other in node["other_ports"]]
    nics.append(
        dict(_bare(MANAGEMENT, "eno1"), vendor="8086", device="1563", speed=10000, management_path="eno1 carries this")
    )
    return {
        "system": {"rdma_mode": node["rdma_mode"]},
        "nics": sorted(nics, key=lambda nic: nic["pci"]),
        "interfaces": list({row["netdev"]: row for port in node["ports"] for row in _interfaces(port)}.values()),
        "rdma": list(
            {
                (row["device"], row["port"]): row for port in node["ports"] for row in _rdma(port, _pci(port), layer)
            }.values()
        ),
        "gpus": [_gpu(number, pci, gpus, node) for number, pci in sorted(gpus.items())],
        "vfs": [row for port in node["ports"] for row in _vfs(port)],
        "ip": _ip(node["ports"]),
    }


def _pci(port: Row) -> str:
    """A port that the plan knows by its slot has some address."""
    functions = port_view.functions(port)
    return functions[0]["pci"] or "0000:%02x:00.0" % (0x10 + 8 * port["number"])


def _gpus(node: Row) -> dict[int, str]:
    """A GPU that the plan has no address of is behind the next bridge."""
    return {int(number): pci or "0001:%02x:00.0" % (0x13 + 8 * int(number)) for number, pci in node["gpus"].items()}


def _bare(pci: str, netdev: str | None) -> Row:
    return {
        "netdev": netdev,
        "master": None,
        "pci": pci,
        "pci_path": ["pci0000:00", pci],
        "vendor": "15b3",
        "device": "1021",
        "driver": "mlx5_core",
        "slot": None,
        "serial": None,
        "part_number": None,
        "firmware": None,
        "altnames": [],
        "mac": None,
        "permanent_mac": None,
        "link_layer": "ethernet",
        "up": True,
        "operstate": "up",
        "carrier": True,
        "mtu": 1500,
        "max_mtu": 9978,
        "speed": None,
        "numa_node": 0,
        "pcie": {"speed": None, "max_speed": None, "width": None, "max_width": None},
        "rdma": [],
        "gpus": [],
        "gpu_proximity": None,
        "vfs": 0,
        "max_vfs": 16,
        "management_path": None,
    }


def _nics(node: Row, port: Row, layer: str) -> list[Row]:
    """The functions of a port. The first has the RDMA device."""
    soft = port["rdma"]["type"] != "hardware"
    device = port["rdma"]["name"] or "mlx5_%d" % port["number"]
    expect, bond = port["expect"], port_view.bond_of(port)
    return [
        dict(
            _bare(function["pci"] or _pci(port), function["netdev"] or "port%dm%d" % (port["number"], at)),
            master=bond["name"] if bond else None,
            # a ConnectX-8, if the NIC balances over planes
            device="1023" if port_view.planes_of(port) else "1021",
            slot=(function["match"] or {}).get("slot"),
            serial=(function["match"] or {}).get("serial"),
            link_layer=port.get("link_layer") or layer,
            mtu=port["mtu"],
            speed=expect["speed"] * 1000 if expect["speed"] else None,
            rdma=[] if soft or at else [device],
            vfs=port["vfs"]["count"] if port["vfs"] else 0,
        )
        for at, function in enumerate(port_view.functions(port))
    ]


def _interfaces(port: Row) -> list[Row]:
    """The bond and the VLAN of a port. One switch answers LACP on all members."""
    lower = port.get("lower")
    if not lower:
        return []
    names = netdevs(port)
    mac = "02:00:00:01:%02x:00" % int(_pci(port)[5:7], 16)
    common = {"functions": [each["pci"] for each in lower["functions"]], "master": None, "mtu": port["mtu"], "up": True}
    common.update({"operstate": "up", "carrier": True, "rdma": [port["rdma"]["name"]], "management_path": None})
    common.update({"mac": mac, "managed": port_view.is_managed(port), "vlan": None, "bond": None})
    found = []
    if lower["bond"]:
        # each mode but LACP has neither partner nor aggregator
        partner, aggregator = ("02:aa:00:00:00:01", 1) if lower["bond"]["mode"] == "802.3ad" else (None, None)
        state = {"state": "active", "link": "up", "aggregator": aggregator, "partner_mac": partner}
        bond = dict(lower["bond"], miimon=100, active=None, aggregator=aggregator, partner_mac=partner)
        bond["members"] = [dict(state, netdev=name, permanent_mac=None) for name in names]
        found.append(dict(common, netdev=bond.pop("name"), kind="bond", lower=names, bond=bond))
    if lower["vlan"]:
        parent = lower["parent"] or names[0]
        found.append(dict(common, netdev=port["netdev"], kind="vlan", lower=[parent], vlan=lower["vlan"]))
    return found


def _other(other: Row) -> Row:
    return dict(_bare(other["pci"], other["netdev"]), device="101d", speed=100000, rdma=["mlx5_77"])


def _rdma(port: Row, pci: str, layer: str) -> list[Row]:
    device = port["rdma"]["name"] or "mlx5_%d" % port["number"]
    row = {"device": device, "port": port["rdma"].get("port", 1), "type": port["rdma"]["type"]}
    row["rate"] = 100.0
    row["link_layer"] = port.get("link_layer") or layer
    # the driver reports a member as the netdev of a bond's device
    return [dict(row, netdev=netdevs(port)[0], pci=pci)]


def netdevs(port: Row) -> list[str]:
    """The netdevs of the functions of a port."""
    return [row["netdev"] for row in _nics({}, port, "ethernet")]


def _gpu(number: int, pci: str, gpus: t.Mapping[int, str], node: Row) -> Row:
    """A GPU is beside the ports that serve it, and each half of the GPUs has a processor."""
    distances = {port["expect"]["gpu_distance"] for port in node["ports"]} - {None}
    close = distances.pop() if distances else "PIX"
    half = max(len(gpus) // 2, 1)
    near: dict[str, str] = {}
    for port in node["ports"]:
        same = {gpu // half for gpu in port["gpus"]} & {number // half}
        how = close if number in port["gpus"] else "NODE" if same and close != "NODE" else "SYS"
        near.update((function["pci"] or _pci(port), how) for function in port_view.functions(port))
    near.update((other["pci"], "SYS") for other in node["other_ports"])
    return {"index": number, "pci": pci, "maker": "nvidia", "device": "2330", "nics": dict(near, **{MANAGEMENT: "SYS"})}


def _vfs(port: Row) -> list[Row]:
    return [
        {
            "pf": _pci(port),
            "pf_netdev": port["netdev"],
            "index": planned["index"],
            "attributes": dict(
                UNSET, **{key: value for key, value in planned.items() if key != "index" and value is not None}
            ),
        }
        for planned in (port["vfs"]["attributes"] if port["vfs"] else ())
    ]


def _ip(ports: t.Sequence[Row]) -> Row:
    found: Row = {"addresses": [], "routes": [], "rules": []}
    for port in ports:
        for six in ("", "6"):
            address, table, netdev = port["address" + six], port["table"], port["netdev"]
            if not address:
                continue
            plain = ipaddress.ip_interface(address)
            found["addresses"].append({"netdev": netdev, "address": address, "secondary": False, "dynamic": False})
            everything = "::/0" if six else "0.0.0.0/0"
            ways = [(everything, port["gateway" + six], table)] if port["gateway" + six] else []
            ways += [(way["to"], way["via"], way["table"]) for way in port["routes"] if (":" in way["to"]) == bool(six)]
            if table is not None:
                ways.append((str(plain.network), None, table))
                source = "%s/%d" % (plain.ip, plain.max_prefixlen)
                rule = {"from": source, "oif": None, "table": table, "priority": port["rule_priority"]}
                found["rules"] += [rule, dict(rule, **{"from": None, "oif": netdev})]
            found["routes"] += [
                {"netdev": netdev, "to": to, "via": via, "table": own, "dynamic": False} for to, via, own in ways
            ]
    return found
