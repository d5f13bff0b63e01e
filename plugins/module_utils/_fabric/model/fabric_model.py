# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fabric as its file describes it. A value that could not be read is None, and has been reported."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    Planner,
    Scheme,
    Units,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Suppression
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ETHERNET,
    HOST,
    INFINIBAND,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.health_model import HealthSettings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    Infiniband,
    Partitions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import (
    FUNCTION_KEYS,
    Bond,
    Member,
    Plane,
    Vlan,
    is_renamed,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import LEAVE, Qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, Network
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import RailTemplates, Template

# Link layer -> the value of the firmware parameter LINK_TYPE.
LINK_TYPE = {ETHERNET: "eth", INFINIBAND: "ib"}
# Makers of GPUs, as rail_info names them.
GPU_VENDORS = ("nvidia", "amd", "habana", "intel")
# Distances between GPU and port, the nearest first, as nvidia-smi spells them.
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
ROLES = ("storage", "management")
# Roles of a rail, the default first: traffic between GPUs, which NCCL uses, or other traffic.
COMPUTE, STORAGE = "compute", "storage"
RAIL_ROLES = (COMPUTE, STORAGE)
# Who distributes packets over the planes of a NIC: software, which has a network per plane, or the NIC itself, which
# has one interface and address. The first is the default.
SOFTWARE, HARDWARE = "software", "hardware"
BALANCINGS = (SOFTWARE, HARDWARE)


@dataclass(frozen=True)
class Setting:
    """A value that can be set at several places, and its place. The value is None if it could not be read."""

    value: t.Any
    path: Path


# Attribute of a VF, ``count`` or ``range`` (such as "5-9") -> its setting.
VfSettings = t.Dict[str, Setting]
SLOT_KEYS = ("all_rails", "per_rail")
# Value of ``agent.metrics`` -> the host part of the address on which the agent serves metrics; None: it serves none.
METRICS_HOSTS = {"loopback": "127.0.0.1", "all": "*", "off": None}
# Values of ``slots.kubelet_plugin``; the first is the default.
DEVICE_PLUGIN, DRA = "device-plugin", "dra"
# Key of ``slots`` -> its setting; None: null, which removes the setting of the profile and of the fabric.
SlotSettings = t.Dict[str, t.Optional[Setting]]
# Layer (``pci``, ``limits``, ``gpudirect``, ``nccl``, ``imex``) -> key -> its setting. Without a layer that is not
# managed.
HostSettings = t.Dict[str, t.Dict[str, Setting]]


@dataclass
class Rail:
    """A rail, or a part of a rail with several NICs or with several planes that have a network each.

    ``number``: its number, from 1, with all parts counted. ``base`` and ``base_number``: name and number of the whole
    rail. ``plane``: the number of the plane, from 1, of ``planes``. ``nic``: the number of the NIC, from 1, of
    ``nics``. ``device_planes``: the planes over which the NIC itself distributes packets; 1: it has one.

    ``schemes``: family (32 or 128) -> address scheme. ``paths``: key -> its place, on the rail or in ``addresses``.

    ``link_layer``, ``attachment``, ``qos``, ``infiniband``: values of the rail; None: it has the fabric's or node's.
    The link layer is also set if the attachment determines it. ``qos``: LEAVE if the rail has none.
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
    role: str = COMPUTE
    link_layer: str | None = None
    attachment: str | None = None
    qos: Qos | str | None = None
    infiniband: Infiniband | None = None
    nic: int = 1
    nics: int = 1
    device_planes: int = 1

    @property
    def scheme(self) -> Scheme | None:
        """The scheme of the rail's main family: IPv4 if it has both; None if it has none."""
        return self.schemes.get(IPV4) or self.schemes.get(IPV6)

    @property
    def has_role(self) -> bool:
        """Whether the file sets the role, or it is not the default."""
        return self.role != COMPUTE or "role" in self.paths

    @property
    def for_pods(self) -> bool:
        """Whether pods can be attached to the rail: not if only processes of the node use it."""
        return self.attachment != HOST

    @property
    def networks(self) -> list[Network]:
        """The rail's network of each family."""
        return [scheme.network for scheme in self.schemes.values()]

    def where(self, key: str) -> Path:
        """Return the place of an address key of the rail; if it is not set, the place where it belongs."""
        if key in self.paths:
            return self.paths[key]
        head, _dot, name = key.partition(".")
        if name and head in self.paths:
            return self.paths[head] + (name,)
        # A missing key that the mode needs belongs beside the mode.
        above = self.paths["mode"][:-1] if "mode" in self.paths else self.path
        return above + tuple(key.split("."))


# Keys that identify a port, the most reliable first. ``rdma`` does so only without the others; with them it is a new
# name.
IDENTITIES = ("pci", "slot", "serial", "mac", "netdev", "rdma")
EXPECTED = ("speed", "width", "pcie_gen", "pcie_lanes")


class Port(t.NamedTuple):
    """The port of one rail in a profile, a group or a node's override.

    Its interface is a VLAN, a bond, or the netdev of its only function. Without a bond, ``pci``, ``netdev``, ``slot``,
    ``serial``, ``mac`` and ``port`` (the number, from 1, of the function of the card with this slot or serial number)
    describe the function. ``speed``: Gb/s of each function; ``width``: lanes of an InfiniBand link; ``rdma_port``:
    the number of the port of the RDMA device; ``managed``: False if others configure the interface. ``planes``: those
    over which the NIC distributes packets, if the file lists them. ``keys``: the keys
    of the file that are set at ``path``. ``base``: the port that this one overrides. Ports are tuples, which need
    little memory: a fabric may have tens of thousands.
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
    bond: Bond | None = None
    vlan: Vlan | None = None
    rdma_port: int | None = None
    managed: bool | None = None
    planes: tuple[Plane, ...] = ()
    keys: tuple[str, ...] = ()
    base: Port | None = None

    @property
    def paths(self) -> dict[str, Path]:
        """Return key -> its place, for the keys that are set."""
        own = {key: self.path + (key,) for key in self.keys}
        return dict(self.base.paths, **own) if self.base else own

    @property
    def values(self) -> tuple[t.Any, ...]:
        """The values without their place. Equal tuples are equal ports of one rail."""
        return self[2:-2]

    def sets(self, key: str) -> bool:
        """Return whether the file sets the key, here or in the base."""
        return key in self.keys or (self.base is not None and self.base.sets(key))

    @property
    def identified(self) -> bool:
        """Whether a key identifies the port."""
        return self.bond is not None or any(getattr(self, key) is not None for key in IDENTITIES)

    @property
    def renamed(self) -> bool:
        """Whether ``netdev`` is a new name, because another key identifies the port."""
        return is_renamed(self)

    @property
    def functions(self) -> tuple[Port | Member, ...]:
        """The functions below the interface: members of the bond, functions of the planes, or the port itself."""
        if self.bond:
            return self.bond.members
        return tuple([plane.function for plane in self.planes if plane.function]) or (self,)

    def function_path(self, at: int) -> Path:
        """Return the place of function ``at`` (from 0) in the file."""
        if self.bond:
            return self.paths["bond"] + ("members", at)
        return self.paths["planes"] + (at,) if any(plane.function for plane in self.planes) else self.path

    @property
    def rdma_netdev(self) -> str | None:
        """The netdev that has the RDMA device: the bond, or the netdev of the only function, also below a VLAN."""
        return self.bond.name if self.bond else self.netdev

    @property
    def interface(self) -> str | None:
        """The netdev that carries addresses and pods; None: the kernel's name of the function."""
        return self.vlan.interface(self.rdma_netdev) if self.vlan else self.rdma_netdev

    def at(self, rail: str, path: Path) -> Port:
        """Return a port with the same values on another rail or at another place."""
        return Port._make((rail, path, *self[2:]))

    def with_base(self, base: Port | None) -> Port:
        """Return the port with the values of ``base`` for keys that it does not set.

        A bond or VLAN of both is merged by its keys. A bond, and planes that are functions, replace the keys that
        identify the function of ``base``.
        """
        if base is None:
            return self
        values: list[t.Any] = list(base)
        values[1] = self.path
        if self.bond and not base.bond:
            values = [None if name in FUNCTION_KEYS else value for name, value in zip(Port._fields, values)]
        elif self.planes and self.planes[0].function and not base.bond:
            # the reader has set the values of the first plane
            own = self._asdict()
            values = [own[name] if name in FUNCTION_KEYS else value for name, value in zip(Port._fields, values)]
        for key in self.keys:
            for index in _FIELDS[key]:
                values[index] = self[index]
        if self.bond and base.bond:
            values[_FIELDS["bond"][0]] = self.bond.over(base.bond)
        if self.vlan and base.vlan:
            values[_FIELDS["vlan"][0]] = self.vlan.over(base.vlan)
        if "netdev" in self.keys and "planes" not in self.keys and base.pci:
            # the function of a plane gets the name too
            values[_FIELDS["planes"][0]] = tuple([each.renamed(base, self.netdev) for each in base.planes])
        values[-2:] = self.keys, base
        return Port._make(values)


# Key of the file -> indexes of its values in a port.
_FIELDS: dict[str, tuple[int, ...]] = {
    "gpu" if name == "gpus" else name: (index,) for index, name in enumerate(Port._fields)
}
_FIELDS["rdma"] += _FIELDS.pop("rdma_port")


@dataclass
class OtherPort:
    """A port that is not on a rail and is never changed."""

    name: str
    path: Path
    role: str | None
    port: Port


@dataclass
class Firmware:
    """Firmware settings. ``version``: of the firmware itself. ``parameters``: other parameters, as in the file."""

    link_type: str | None
    sriov_en: bool | None
    num_of_vfs: int | None
    path: Path
    version: str | None = None
    parameters: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class AgentSettings:
    """The section ``agent``. ``metrics``: a key of METRICS_HOSTS. ``path``: empty if the file has no such section."""

    metrics: str = "loopback"
    metrics_port: int = 9465
    gateway_check: bool = False
    path: Path = ()


# Objects, and parts of them, that a fabric file may leave out: keys of the section ``objects``.
OBJECT_KEYS = ("injection", "network_mtu", "device_plugins", "cluster_policy", "sriov_policies", "nccl", "metrics")


@dataclass
class NodeSettings:
    """The settings that profiles and groups have in common."""

    name: str
    path: Path
    attachment: str | None = None
    slots: SlotSettings = field(default_factory=dict)
    driver: Driver | None = None
    firmware: Firmware | None = None
    partitions: Partitions | None = None
    vfs: VfSettings = field(default_factory=dict)
    host: HostSettings = field(default_factory=dict)


@dataclass
class Profile(NodeSettings):
    """A server model. ``gpus``: GPU number -> its PCI address or None; None if the file does not list the GPUs.

    ``preset``: its preset as a profile; its values apply unless the file overrides them. Ports that the file overrides
    have the preset's ports as their ``base``.
    ``nic``: the family of the NICs of its rail ports, a key of ``nic_families.FAMILIES``; None: unknown.
    ``gpu_vendor``: one of :data:`GPU_VENDORS`; None: unknown, which is the same as the first.
    ``gpu_model``: the type of the GPUs in Slurm; None: the name of the profile.
    """

    soft_rdma: str | None = None
    nic: str | None = None
    gpu_vendor: str | None = None
    gpu_model: str | None = None
    gpus: dict[int, str | None] | None = None
    gpu_distance: str | None = None
    expected: dict[str, int] = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)
    other_ports: dict[str, OtherPort] = field(default_factory=dict)
    preset: Profile | None = None


# The NVLink domain of a node or group whose file has null: it removes the domain of the group or unit.
NO_DOMAIN = ""


@dataclass
class Group(NodeSettings):
    """Settings that override the profile's, for the nodes of the group, and their NVLink domain."""

    ports: dict[str, Port | None] = field(default_factory=dict)
    vars: dict[str, t.Any] = field(default_factory=dict)
    nvlink_domain: str | None = None


@dataclass
class Unit:
    """A scalable unit with places for ``nodes`` nodes and a leaf for each rail.

    ``leaf`` and ``leaf_port``: templates of the names of leaves and their ports. ``leaves``: rail -> name of its leaf.
    ``nvlink_domain``: of its nodes.
    """

    name: str
    number: int
    path: Path
    site: str | None = None
    nodes: int | None = None
    leaf: Template | None = None
    leaf_port: Template | None = None
    leaves: dict[str, str] = field(default_factory=dict)
    nvlink_domain: str | None = None


@dataclass
class Node:
    """A node.

    ``address``: where Ansible reaches it. ``place``: its number in its unit, from 1. ``ports``: rail -> the port that
    overrides that of the profile; None if the node has no port on the rail.
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
    nvlink_domain: str | None = None
    groups: tuple[str, ...] = ()
    vars: dict[str, t.Any] = field(default_factory=dict)
    ports: dict[str, Port | None] = field(default_factory=dict)


@dataclass
class Routing:
    """The section ``routing``."""

    first_table: int = 101
    first_priority: int = 10001
    mode: str = "source"
    cross_rail: bool = True


@dataclass
class Fabric:
    """The fabric file. ``names``: kind of object -> the template of its name, for kinds that the file names."""

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
    health: HealthSettings | None = None
    # keys of OBJECT_KEYS that the file has
    objects: dict[str, bool] = field(default_factory=dict)
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
    lint: list[Suppression] = field(default_factory=list)

    @property
    def places(self) -> Units | None:
        """The places of each unit; None without units, or if the units have different sizes."""
        sizes = {unit.nodes for unit in self.units.values()}
        size = sizes.pop() if len(sizes) == 1 else None
        return Units(size) if size else None

    def link_layer_on(self, rail: Rail) -> str | None:
        """Return the link layer of a rail."""
        return rail.link_layer or self.link_layer

    def qos_on(self, rail: Rail, nic: str | None = None) -> Qos | None:
        """Return the QoS of a rail on NICs of a family; None if it has none, as on InfiniBand.

        :param nic: None: the family of all profiles, or unknown.
        """
        if self.link_layer_on(rail) == INFINIBAND or rail.qos == LEAVE:
            return None
        qos = rail.qos if isinstance(rail.qos, Qos) else self.qos
        return qos.on(nic) if qos and nic else qos

    def ipoib_mode_on(self, rail: Rail) -> str | None:
        """Return the IPoIB mode of a rail; None: it is not managed."""
        settings = [each for each in (rail.infiniband, self.infiniband) if each and each.ipoib_mode]
        return settings[0].ipoib_mode if settings else None

    @property
    def compute_rails(self) -> list[Rail]:
        """The rails with the role compute; all rails if none has it."""
        return [rail for rail in self.rails if rail.role == COMPUTE] or self.rails

    def planners(self) -> dict[str, dict[int, Planner]]:
        """Return rail -> family -> the planner of its addresses."""
        units = self.places
        return {
            rail.name: {bits: planner(scheme, units) for bits, scheme in rail.schemes.items()} for rail in self.rails
        }
