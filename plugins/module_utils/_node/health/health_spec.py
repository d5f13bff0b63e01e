# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec of the health service, ``/etc/railyard/health.json``: the planned rails of this node, thresholds, and what
else the service does: probes, metrics, reports to Kubernetes.
"""

from __future__ import annotations

import json
import math
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FILE = "/etc/railyard/health.json"
FORMAT = 1
REMEDY = "run hosts.yml --tags health, which writes the file"
# Seconds between two observations, and seconds without a finding before it ends.
INTERVAL, QUIET = 5.0, 30.0
# The rate of probes of one rail, in bits per second.
RATE_BITS = 10000
Row = t.Dict[str, t.Any]


class Leaf(t.NamedTuple):
    """The planned leaf of a port or function, and its port there; None: any port."""

    name: str
    port: str | None


class Function(t.NamedTuple):
    """A PCI function below a bond or VLAN. ``netdev``: its planned name."""

    pci: str | None
    netdev: str | None
    leaf: Leaf | None


class Plane(t.NamedTuple):
    """A plane over which the NIC of a rail distributes packets. ``number``: from 1. ``rdma_port``: the port of the
    RDMA device that carries it. ``pci``, ``netdev``: the function that carries it.
    """

    number: int
    rdma_port: int | None
    pci: str | None
    netdev: str | None
    leaf: Leaf | None


class Rail(t.NamedTuple):
    """A planned rail of the node. Values are None if the plan does not set them.

    :param rdma: the name of the RDMA device. :param rdma_type: ``hardware``, ``rxe`` or ``siw``.
    :param link_layer: ``ethernet`` or ``infiniband``. :param speed: Gb/s.
    :param address, address6: with prefix length. :param bond: the name of the bond. :param bond_mode: its mode.
    :param parent: the netdev below a VLAN. :param family: of the NIC, such as ``mlx5``.
    :param functions: those below a bond or VLAN; empty if the port is the netdev of its only function.
    :param managed: whether Railyard configures the interface.
    :param movable: whether a pod may hold the netdev or the RDMA device, which then are not on the node.
    """

    rail: str
    netdev: str | None
    pci: str | None
    rdma: str | None
    rdma_type: str
    rdma_port: int | None
    link_layer: str
    mtu: int | None
    speed: float | None
    address: str | None
    address6: str | None
    leaf: Leaf | None
    planes: tuple[Plane, ...]
    functions: tuple[Function, ...]
    bond: str | None
    bond_mode: str | None
    vlan: int | None
    parent: str | None
    family: str | None
    managed: bool
    movable: bool

    @property
    def addresses(self) -> list[str]:
        """IPv4 and IPv6 without prefix length, if the plan has them."""
        return [each.partition("/")[0] for each in (self.address, self.address6) if each]

    def uses_port(self, number: int) -> bool:
        """Return whether a port of the RDMA device belongs to the rail. Others are not judged."""
        of_planes = [plane.rdma_port for plane in self.planes if plane.rdma_port]
        if self.rdma_port and self.rdma_port not in of_planes:
            return number == self.rdma_port or number in of_planes
        return number in of_planes if of_planes else True

    @property
    def soft(self) -> bool:
        """Whether the RDMA device is software on the interface."""
        return self.rdma_type != "hardware"


class Partner(t.NamedTuple):
    """A node that this node probes on one rail, and its address there."""

    node: str
    address: str


class Probe(t.NamedTuple):
    """Probes between nodes. ``rate_bits``: bits per second of each rail. ``partners``: by rail."""

    rate_bits: int
    partners: dict[str, tuple[Partner, ...]]


class Kubernetes(t.NamedTuple):
    """Reports to Kubernetes. ``kubeconfig``: None: the kubelet's. The others: whether the service sets a condition of
    the Node, its taints, taints of DRA devices, and cordons of rails.
    """

    kubeconfig: str | None
    condition: bool
    taints: bool
    device_taints: bool
    cordon: bool


class HealthSpec(t.NamedTuple):
    """The spec. ``interval``, ``quiet``: seconds. ``metrics``: ADDRESS:PORT; None: off. ``thresholds``: name of
    :data:`.health_rules.THRESHOLDS` -> another value, or None: not judged.
    """

    fabric: str
    node: str
    interval: float
    quiet: float
    rails: tuple[Rail, ...]
    probe: Probe | None
    metrics: str | None
    kubernetes: Kubernetes | None
    thresholds: dict[str, float | None]

    def rail(self, name: str) -> Rail | None:
        return next((rail for rail in self.rails if rail.rail == name), None)


def read_spec(system: System) -> HealthSpec:
    """Return the spec of this node. Raises :class:`.RailyardError` if the file is missing or wrong."""
    text = system.read_file(FILE)
    if text is None:
        raise RailyardError("the spec of the health service does not exist", FILE, REMEDY)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RailyardError("is not JSON: %s" % error, FILE, REMEDY) from None
    return parse_spec(document)


def parse_spec(document: t.Any) -> HealthSpec:
    """Check the document of a spec, and return it. Raises :class:`.RailyardError` if it is wrong."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise RailyardError("format is %r, and this service reads format %d" % (found, FORMAT), FILE, REMEDY)
    try:
        spec = HealthSpec(
            fabric=str(document["fabric"]),
            node=str(document["node"]),
            interval=_seconds(document, "interval", INTERVAL),
            quiet=_seconds(document, "quiet", QUIET),
            rails=tuple(map(_rail, document["rails"])),
            probe=_probe(document.get("probe")),
            metrics=_text(document, "metrics"),
            kubernetes=_kubernetes(document.get("kubernetes")),
            thresholds={str(key): _limit(value) for key, value in (document.get("thresholds") or {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RailyardError("a value is missing or wrong: %r" % error, FILE, REMEDY) from None
    names = [rail.rail for rail in spec.rails]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise RailyardError("rail %s occurs several times" % ", ".join(repeated), FILE, REMEDY)
    return spec


def _rail(row: Row) -> Rail:
    speed = row.get("speed")
    rail = Rail(
        rail=str(row["rail"]),
        netdev=_name(row, "netdev"),
        pci=_name(row, "pci"),
        rdma=_name(row, "rdma"),
        rdma_type=str(row.get("rdma_type") or "hardware"),
        rdma_port=_number(row, "rdma_port"),
        link_layer=str(row.get("link_layer") or "ethernet"),
        mtu=_number(row, "mtu"),
        speed=None if speed is None else float(speed),
        address=_text(row, "address"),
        address6=_text(row, "address6"),
        leaf=_leaf(row),
        planes=tuple(map(_plane, row.get("planes") or ())),
        functions=tuple(
            Function(_name(each, "pci"), _name(each, "netdev"), _leaf(each)) for each in row.get("functions") or ()
        ),
        bond=_name(row, "bond"),
        bond_mode=_text(row, "bond_mode"),
        vlan=_number(row, "vlan"),
        parent=_name(row, "parent"),
        family=_text(row, "family"),
        managed=bool(row.get("managed", True)),
        movable=bool(row.get("movable", False)),
    )
    if not (rail.netdev or rail.pci or rail.rdma):
        raise ValueError("rail %s has neither netdev, PCI function nor RDMA device" % rail.rail)
    return rail


def _plane(row: Row) -> Plane:
    return Plane(int(row["plane"]), _number(row, "rdma_port"), _name(row, "pci"), _name(row, "netdev"), _leaf(row))


def _leaf(row: Row) -> Leaf | None:
    leaf = row.get("leaf")
    return Leaf(str(leaf["name"]), _text(leaf, "port")) if leaf and leaf.get("name") else None


def _probe(row: Row | None) -> Probe | None:
    if row is None:
        return None
    partners = {
        str(rail): tuple(Partner(str(each["node"]), str(each["address"])) for each in rows)
        for rail, rows in row["partners"].items()
    }
    return Probe(int(row.get("rate_bits", RATE_BITS)), partners)


def _kubernetes(row: Row | None) -> Kubernetes | None:
    if row is None:
        return None
    flags = [bool(row.get(key)) for key in ("condition", "taints", "device_taints", "cordon")]
    return Kubernetes(_text(row, "kubeconfig"), *flags)


def _seconds(row: Row, key: str, default: float) -> float:
    value = float(default if row.get(key) is None else row[key])
    if not 1 <= value <= 3600:
        raise ValueError("%s is %g s, not 1 to 3600" % (key, value))
    return value


def _limit(value: t.Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if math.isnan(number) or number < 0:
        raise ValueError("threshold %r is not a number from 0" % value)
    return number


def _text(row: Row, key: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError("%s is %r, not a text" % (key, value))
    return value


def _name(row: Row, key: str) -> str | None:
    """Return a name that becomes a part of a path in sysfs."""
    value = _text(row, key)
    if value is not None and (not value or "/" in value or value in (".", "..")):
        raise ValueError("%s is %r, not a name of a device" % (key, value))
    return value


def _number(row: Row, key: str) -> int | None:
    return None if row.get(key) is None else int(row[key])
