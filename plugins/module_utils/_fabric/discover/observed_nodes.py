# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of ``rail_info`` on a node in the form that discovery compares: NICs with all of their facts.

A bond, or a VLAN with the addresses of its port, takes the place of the functions below it.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_interfaces import Interfaces
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_planes import combined
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import (
    Nic,
    PortAddress,
    Route,
    Row,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import network

SOFT = ("rxe", "siw")
T = t.TypeVar("T")


@dataclass
class ObservedNode:
    """A node. ``address``: at which Ansible reaches it. ``gpus``: index -> PCI address."""

    name: str
    address: str | None
    rdma_mode: str | None
    gpus: dict[int, str]
    nics: dict[str, Nic]
    models: tuple[str, ...] = ()


def observe(name: str, address: str | None, info: Row, lldp: Row, findings: Findings) -> ObservedNode:
    """Return a node from its ``rail_info``. ``lldp``: netdev -> ``{chassis, port}``."""
    gpus = {int(row["index"]): str(row["pci"]) for row in info.get("gpus") or ()}
    near: dict[str, dict[int, str]] = {}
    for row in info.get("gpus") or ():
        for pci, how in (row.get("nics") or {}).items():
            near.setdefault(pci, {})[int(row["index"])] = how
    devices = _Devices(info.get("rdma") or ())
    rows = info.get("nics") or ()
    nics: dict[str, Nic] = {}
    # functions with several netdevs
    several: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        pci, netdev = str(row["pci"]), row.get("netdev")
        first = nics.get(pci)
        if first is None:
            nics[pci] = _nic(pci, row, near.get(pci, {}), devices)
            continue
        message, remedy = "%s has the netdevs %s and %s" % (pci, first.netdev, netdev), "the first netdev was used"
        if first.layer == row.get("link_layer") == "ethernet":
            key = "%s %s" % (pci, netdev)
            nics[key] = _nic(key, row, near.get(pci, {}), devices)
            nics[key].only_netdev = first.only_netdev = True
            remedy = "check that the netdevs keep their names; only these identify the ports"
        several.setdefault(pci, []).append((message, remedy))
    by_function = {row["pci"]: nics[str(row["pci"])] for row in rows}
    for vf in info.get("vfs") or ():
        if vf["pf"] in by_function:
            by_function[vf["pf"]].vfs.append(vf.get("attributes") or {})
    interfaces = Interfaces(nics, info.get("interfaces") or (), devices.by_name)
    _ip(name, info.get("ip") or {}, interfaces.by_netdev, findings)
    heard = {row["netdev"]: row for row in info.get("lldp") or ()}
    for netdev, row in dict(heard, **lldp).items():
        if netdev in interfaces.functions and row.get("chassis"):
            interfaces.functions[netdev].leaf = shown(str(row["chassis"]))
    nics = interfaces.ports(name, findings)
    _number_ports(nics.values(), devices)
    nics = combined(nics)
    of_planes = {nic.pci for nic in nics.values() if nic.planes}
    for pci, notes in several.items():
        for message, remedy in notes if pci not in of_planes else ():
            findings.add("DS103", ("profiles",), message, remedy, [name])
    system = info.get("system") or {}
    models = tuple("%s:%s" % (row.get("maker"), row.get("device")) for row in info.get("gpus") or ())
    return ObservedNode(name, address, system.get("rdma_mode"), gpus, nics, models)


def most_common(values: t.Iterable[T | None]) -> T | None:
    """Return the most common value that is neither None nor empty, the first of equally common ones; or None."""
    counted = Counter(value for value in values if value)
    return counted.most_common(1)[0][0] if counted else None


class _Devices:
    """The ports of the RDMA devices of a node, by function, by netdev and by device."""

    def __init__(self, rows: t.Iterable[Row]) -> None:
        self._of_function: dict[tuple[str | None, str | None], Row] = {}
        self.by_netdev: dict[str, Row] = {}
        self.by_name: dict[str, Row] = {}
        # sub-devices for management datagrams are not devices of rails
        for row in (row for row in rows if not row.get("parent")):
            pci, netdev = row.get("pci"), row.get("netdev")
            self._of_function.setdefault((pci, netdev), row)
            self._of_function.setdefault((pci, None), row)
            self.by_name.setdefault(str(row.get("device")), row)
            if netdev:
                self.by_netdev.setdefault(netdev, row)

    def port(self, pci: str, netdev: str | None) -> Row:
        """Return the port with a netdev, which may be one of a device on another function; else that of the function;
        empty without one."""
        own = self._of_function.get((pci, netdev)) or self.by_netdev.get(netdev or "")
        return own or self._of_function.get((pci, None)) or {}


def _number_ports(nics: t.Iterable[Nic], devices: _Devices) -> None:
    """Set the port numbers of RDMA devices that several NICs have."""
    owners: dict[str, list[Nic]] = {}
    for nic in nics:
        if nic.rdma and not nic.soft and not nic.further:
            owners.setdefault(nic.rdma, []).append(nic)
    for sharing in owners.values():
        for nic in sharing if len(sharing) > 1 else ():
            nic.rdma_port = devices.port(nic.pci, nic.parent or nic.netdev).get("port")


def _nic(key: str, row: Row, near: dict[int, str], devices: _Devices) -> Nic:
    pci = str(row["pci"])
    port = devices.port(pci, row.get("netdev"))
    own = list(row.get("rdma") or ())
    soft = port.get("type") if port.get("type") in SOFT else None
    speed = row.get("speed")
    rate = port.get("rate") if not soft else None
    pcie = row.get("pcie") or {}
    master = row.get("master")
    return Nic(
        key=key,
        pci=pci,
        netdev=row.get("netdev"),
        model="%s:%s" % (row.get("vendor"), row.get("device")),
        layer=row.get("link_layer") or port.get("link_layer") or "ethernet",
        card=str(row.get("serial") or pci.rpartition(".")[0]),
        near=near,
        slot=row.get("slot"),
        speed=int(speed) // 1000 if speed and speed >= 1000 else int(rate) if rate else None,
        mtu=row.get("mtu"),
        carrier=row.get("carrier"),
        carries=row.get("management_path"),
        rdma=own[0] if own else port.get("device"),
        soft=None if own else soft,
        pcie=_pcie(pcie),
        obstacle="it is part of %s" % master if master else None,
        product=row.get("product_name"),
    )


# GT/s of a lane -> PCIe generation
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def _pcie(link: Row) -> tuple[int, int] | None:
    """Return generation and lanes of a PCIe link; None if it does not run at its full speed and width."""
    whole = link.get("speed") == link.get("max_speed") and link.get("width") == link.get("max_width")
    generation = _GENERATIONS.get(link.get("speed") or 0.0)
    return (generation, int(link["width"])) if whole and generation and link.get("width") else None


def _ip(node: str, info: Row, nics: t.Mapping[str, Nic], findings: Findings) -> None:
    """Add addresses, routes and routing tables to the ports of a node, by netdev."""
    for row in info.get("addresses") or ():
        nic = nics.get(row["netdev"])
        if nic is None:
            continue
        plain = ipaddress.ip_interface(row["address"])
        bits, address = plain.max_prefixlen, int(plain.ip)
        if row.get("dynamic"):
            nic.leased.setdefault(bits, str(row["address"]))
            continue
        if bits in nic.addresses:
            if not row.get("secondary"):
                message = "%s has %s in addition to %s" % (nic.netdev, row["address"], nic.addresses[bits].net)
                findings.add(
                    "DS303", ("rails",), message, "remove it, or manage it yourself; the first address was used", [node]
                )
            continue
        nic.addresses[bits] = PortAddress(address, network(address, plain.network.prefixlen, bits))
    for row in info.get("routes") or ():
        nic = nics.get(row["netdev"])
        if nic is None:
            continue
        to = ipaddress.ip_network(row["to"])
        nic.routed = nic.routed or not (to.prefixlen or row.get("table"))
        if row.get("dynamic"):
            continue
        net = network(int(to.network_address), to.prefixlen, to.max_prefixlen) if to.prefixlen else None
        via = int(ipaddress.ip_address(row["via"])) if row.get("via") else None
        nic.routes.append(Route(net, via, row.get("table"), to.max_prefixlen))
    owners = {(each.address, bits): nic for nic in nics.values() for bits, each in nic.addresses.items()}
    for row in info.get("rules") or ():
        source = ipaddress.ip_network(row["from"]) if row.get("from") else None
        owner = (
            owners.get((int(source.network_address), source.max_prefixlen)) if source else nics.get(row.get("oif", ""))
        )
        if owner is not None and owner.table is None:
            owner.table, owner.priority = row["table"], row["priority"]
