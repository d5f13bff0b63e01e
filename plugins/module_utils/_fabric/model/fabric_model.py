# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The fabric as its file describes it. What was wrong in the file is None here, and has been reported."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import (
    Planner,
    Scheme,
    Units,
    planner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    Infiniband,
    Partitions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import Qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import RailTemplates, Template

# The firmware's word for a link layer.
LINK_TYPE = {ETHERNET: "eth", INFINIBAND: "ib"}
# How far a GPU may be from a port, nearest first, as nvidia-smi spells it.
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
ROLES = ("storage", "management")
FAMILIES = (IPV4, IPV6)


@dataclass(frozen=True)
class Setting:
    """A value and where it is, for values that several places may give; None where it could not be read."""

    value: t.Any
    path: Path


# Attribute of a VF (or ``count``) -> its setting.
VfSettings = t.Dict[str, Setting]
SLOT_KEYS = ("all_rails", "per_rail")
# Where the agent serves metrics -> the host part of its address; None: nowhere.
METRICS_HOSTS = {"loopback": "127.0.0.1", "all": "*", "off": None}
# How the kubelet gets slots from the agent; the first is the default.
DEVICE_PLUGIN, DRA = "device-plugin", "dra"
# Key of ``slots`` -> its setting.
SlotSettings = t.Dict[str, Setting]
# Layer (``pci``, ``limits``, ``gpudirect``, ``nccl``) -> key -> its setting; a layer that is not named is not there.
HostSettings = t.Dict[str, t.Dict[str, Setting]]


@dataclass
class Rail:
    """One rail, or one plane of a rail that has several.

    ``number`` counts the planes; ``base`` and ``base_number`` are the rail's own, and ``plane`` counts from 1.

    ``schemes``: family (32 or 128) -> how its addresses are given out. ``paths``: key -> where it is, be it on the
    rail or in the file's ``addresses``.
    """

    name: str
    number: int
    path: Path
    base: str = ""
    base_number: int = 0
    plane: int = 1
    planes: int = 1
    mode: str | None = None
    schemes: dict[int, Scheme] = field(default_factory=dict)
    mtu: int | None = None
    vfs: VfSettings = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of the family that the rail is known by: IPv4 where it has both."""
        return self.schemes.get(IPV4) or self.schemes.get(IPV6)

    @property
    def networks(self) -> list[Network]:
        return [scheme.network for scheme in self.schemes.values()]

    def where(self, key: str) -> Path:
        """Where a key of the rail's addresses is, or would be."""
        if key in self.paths:
            return self.paths[key]
        head, _dot, name = key.partition(".")
        if name and head in self.paths:
            return self.paths[head] + (name,)
        # A key that a mode needs is missing at the place where the mode is set.
        above = self.paths["mode"][:-1] if "mode" in self.paths else self.path
        return above + tuple(key.split("."))


# What can identify a port, the most reliable first. ``rdma`` identifies only without the others: else it is a new name.
IDENTITIES = ("pci", "slot", "serial", "mac", "netdev", "rdma")
EXPECTED = ("speed", "width", "pcie_gen", "pcie_lanes")


@dataclass
class Port:
    """The port of one rail in a profile, a group or a node's override. ``paths``: key -> where it is.

    ``speed``: Gb/s; ``width``: lanes of an InfiniBand link; ``port``: which of a slot's or serial's functions, from 1.
    """

    rail: str
    path: Path
    netdev: str | None = None
    pci: str | None = None
    rdma: str | None = None
    gpus: tuple[int, ...] = ()
    slot: str | None = None
    serial: str | None = None
    mac: str | None = None
    port: int | None = None
    speed: int | None = None
    width: int | None = None
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    paths: dict[str, Path] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether it has an identity of the port."""
        return any(getattr(self, key) is not None for key in IDENTITIES)

    @property
    def renamed(self) -> bool:
        """Whether it is known by something else than its netdev, which is then the name to give."""
        return any(getattr(self, key) is not None for key in ("pci", "slot", "serial", "mac"))

    def over(self, base: Port | None) -> Port:
        """The port with these words over those of another."""
        if base is None:
            return self
        # copy.copy() takes five times as long, at tens of thousands of ports.
        merged = Port.__new__(Port)
        merged.__dict__.update(base.__dict__)
        merged.path = self.path
        for key in self.paths:
            key = _FIELDS.get(key, key)
            setattr(merged, key, getattr(self, key))
        merged.paths = dict(base.paths, **self.paths)
        return merged


# The key of the file -> the attribute, where they differ.
_FIELDS = {"gpu": "gpus"}


@dataclass
class OtherPort:
    """A port that is on no rail, and that nothing touches."""

    name: str
    path: Path
    role: str | None
    port: Port


@dataclass
class Firmware:
    """``version``: of the firmware itself. ``parameters``: others by name, as the file writes name and value."""

    link_type: str | None
    sriov_en: bool | None
    num_of_vfs: int | None
    path: Path
    version: str | None = None
    parameters: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class AgentSettings:
    """``metrics``: where the agent serves metrics, one of METRICS_HOSTS. ``path``: empty without such a section."""

    metrics: str = "loopback"
    metrics_port: int = 9465
    gateway_check: bool = False
    path: Path = ()


@dataclass
class Profile:
    """``gpus``: GPU number -> its PCI address or None; None where the file does not say which GPUs there are."""

    name: str
    path: Path
    attachment: str | None = None
    slots: SlotSettings = field(default_factory=dict)
    soft_rdma: str | None = None
    driver: Driver | None = None
    firmware: Firmware | None = None
    partitions: Partitions | None = None
    vfs: VfSettings = field(default_factory=dict)
    host: HostSettings = field(default_factory=dict)
    gpus: dict[int, str | None] | None = None
    gpu_distance: str | None = None
    expected: dict[str, int] = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)
    other_ports: dict[str, OtherPort] = field(default_factory=dict)


@dataclass
class Group:
    """What is different for the nodes whose ``groups`` name it."""

    name: str
    path: Path
    attachment: str | None = None
    slots: SlotSettings = field(default_factory=dict)
    driver: Driver | None = None
    firmware: Firmware | None = None
    partitions: Partitions | None = None
    vfs: VfSettings = field(default_factory=dict)
    host: HostSettings = field(default_factory=dict)
    ports: dict[str, Port | None] = field(default_factory=dict)
    vars: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class Unit:
    """A scalable unit: ``nodes`` places for good, and one leaf a rail. ``leaf`` and ``leaf_port`` are templates."""

    name: str
    number: int
    path: Path
    site: str | None = None
    nodes: int | None = None
    leaf: Template | None = None
    leaf_port: Template | None = None
    leaves: dict[str, str] = field(default_factory=dict)


@dataclass
class Node:
    """``ports`` holds the overrides: None where the node has no port on a rail on which its profile has one.

    ``place``: its number in its unit, from 1; without units it is not asked for.
    """

    name: str
    path: Path
    index: int | None = None
    index_path: Path | None = None
    profile: str | None = None
    address: str | None = None
    unit: str | None = None
    place: int | None = None
    rack: str | None = None
    groups: tuple[str, ...] = ()
    vars: dict[str, t.Any] = field(default_factory=dict)
    ports: dict[str, Port | None] = field(default_factory=dict)


@dataclass
class Routing:
    first_table: int = 101
    first_priority: int = 10001
    mode: str = "source"
    cross_rail: bool = True


@dataclass(frozen=True)
class Lowering:
    """A finding that a user accepted: its rule's code, the place (dotted) that it holds for, and why."""

    rule: str
    place: str
    reason: str
    path: Path


@dataclass
class Fabric:
    """``names``: kind -> its template in the file."""

    name: str | None = None
    attachment: str | None = None
    provider: str | None = None
    link_layer: str | None = None
    rdma_mode: str | None = None
    mtu: int | None = None
    mac_seed: str | None = None
    reserved: dict[str, Network] = field(default_factory=dict)
    routing: Routing = field(default_factory=Routing)
    max_nodes: int | None = None
    pods_per_node: int | None = None
    slots: SlotSettings = field(default_factory=dict)
    agent: AgentSettings = field(default_factory=AgentSettings)
    vfs: VfSettings = field(default_factory=dict)
    host: HostSettings = field(default_factory=dict)
    names: dict[str, Template | RailTemplates] = field(default_factory=dict)
    names_path: Path = ("names",)
    infiniband: Infiniband | None = None
    qos: Qos | None = None
    units: dict[str, Unit] = field(default_factory=dict)
    rails: list[Rail] = field(default_factory=list)
    profiles: dict[str, Profile] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    lint: list[Lowering] = field(default_factory=list)

    @property
    def places(self) -> Units | None:
        """The places of every unit; None without units, or where they have not as many places each."""
        sizes = {unit.nodes for unit in self.units.values()}
        size = sizes.pop() if len(sizes) == 1 else None
        return Units(size) if size else None

    def planners(self) -> dict[str, dict[int, Planner]]:
        """Rail -> family -> what plans its addresses."""
        units = self.places
        return {
            rail.name: {bits: planner(scheme, units) for bits, scheme in rail.schemes.items()} for rail in self.rails
        }
