# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of ``rail_info`` on a node in the form that discovery compares: NICs with all of their facts."""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, network

Row = t.Mapping[str, t.Any]
SOFT = ("rxe", "siw")
T = t.TypeVar("T")


class PortAddress(t.NamedTuple):
    """An address of a port, and its network."""

    address: int
    net: Network


class Route(t.NamedTuple):
    """A route. ``to``: None for a default route. ``table``: None for the main table."""

    to: Network | None
    via: int | None
    table: int | None
    bits: int


@dataclass
class Nic:
    """One port of a node.

    :param card: serial number or PCI device, which all functions of a card have in common.
    :param near: index of a GPU -> how near it is.
    :param speed: in Gb/s.
    :param mtu: in bytes.
    :param carries: why it must not be touched.
    :param soft: the type of its soft RDMA device.
    :param vfs: the attributes of each VF.
    :param leased: family -> a temporary address.
    :param routes: the routes that were configured.
    :param routed: whether it has a default route in the main table, also one that was not configured.
    :param table, priority: of the routing table that rules select.
    """

    pci: str
    netdev: str | None
    model: str
    layer: str
    card: str
    near: dict[int, str]
    slot: str | None = None
    speed: int | None = None
    mtu: int | None = None
    carrier: bool | None = None
    carries: str | None = None
    rdma: str | None = None
    soft: str | None = None
    vfs: list[Row] = field(default_factory=list)
    addresses: dict[int, PortAddress] = field(default_factory=dict)
    leased: dict[int, str] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)
    routed: bool = False
    table: int | None = None
    priority: int | None = None
    leaf: str | None = None
    pcie: tuple[int, int] | None = None

    @property
    def hidden(self) -> bool:
        """Return whether the port is not visible: a pod or a virtual machine uses it, or its driver is missing."""
        return self.netdev is None and self.rdma is None

    @property
    def has_rdma(self) -> bool:
        """Return whether the port has a hardware RDMA device."""
        return self.rdma is not None and self.soft is None


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
    ports = _by_netdev(info.get("rdma") or ())
    nics: dict[str, Nic] = {}
    for row in info.get("nics") or ():
        if row["pci"] in nics:
            message = "%s has the netdevs %s and %s" % (row["pci"], nics[row["pci"]].netdev, row.get("netdev"))
            findings.add(
                "DS103", ("profiles",), message, "identify the port by netdev or mac; the first netdev was used", [name]
            )
            continue
        nics[row["pci"]] = _nic(row, near.get(row["pci"], {}), ports)
    by_name = {nic.netdev: nic for nic in nics.values() if nic.netdev}
    for vf in info.get("vfs") or ():
        if vf["pf"] in nics:
            nics[vf["pf"]].vfs.append(vf.get("attributes") or {})
    _ip(name, info.get("ip") or {}, by_name, findings)
    heard = {row["netdev"]: row for row in info.get("lldp") or ()}
    for netdev, row in dict(heard, **lldp).items():
        if netdev in by_name and row.get("chassis"):
            by_name[netdev].leaf = shown(str(row["chassis"]))
    system = info.get("system") or {}
    models = tuple("%s:%s" % (row.get("maker"), row.get("device")) for row in info.get("gpus") or ())
    return ObservedNode(name, address, system.get("rdma_mode"), gpus, nics, models)


def most_common(values: t.Iterable[T | None]) -> T | None:
    """Return the most common value that is neither None nor empty, the first of equally common ones; or None."""
    counted = Counter(value for value in values if value)
    return counted.most_common(1)[0][0] if counted else None


def _by_netdev(rows: t.Iterable[Row]) -> dict[tuple[str | None, str | None], Row]:
    """Return (PCI address, netdev) -> RDMA device; the netdev is None for the first device of a function."""
    devices: dict[tuple[str | None, str | None], Row] = {}
    for row in rows:
        devices.setdefault((row.get("pci"), row.get("netdev")), row)
        devices.setdefault((row.get("pci"), None), row)
    return devices


def _nic(row: Row, near: dict[int, str], ports: t.Mapping[tuple[str | None, str | None], Row]) -> Nic:
    pci = str(row["pci"])
    port = ports.get((pci, row.get("netdev"))) or ports.get((pci, None)) or {}
    own = list(row.get("rdma") or ())
    soft = port.get("type") if port.get("type") in SOFT else None
    speed = row.get("speed")
    rate = port.get("rate") if not soft else None
    pcie = row.get("pcie") or {}
    return Nic(
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
    )


# GT/s of a lane -> PCIe generation
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def _pcie(link: Row) -> tuple[int, int] | None:
    """Return generation and lanes of a PCIe link; None if it does not run at its full speed and width."""
    whole = link.get("speed") == link.get("max_speed") and link.get("width") == link.get("max_width")
    generation = _GENERATIONS.get(link.get("speed") or 0.0)
    return (generation, int(link["width"])) if whole and generation and link.get("width") else None


def _ip(node: str, info: Row, nics: t.Mapping[str, Nic], findings: Findings) -> None:
    """Add addresses, routes and routing tables to the NICs of a node."""
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
