# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The fabric as its file describes it. What was wrong in the file is None here, and has been reported."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import Network, Range
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Path

ETHERNET = "ethernet"
INFINIBAND = "infiniband"
SHARED = "shared"
EXCLUSIVE = "exclusive"
# The rdma mode that follows from an attachment: a pod gets a device of its own, or shares the node's.
RDMA_MODE = {"macvlan": SHARED, "sriov": EXCLUSIVE}
# The firmware's word for a link layer.
LINK_TYPE = {ETHERNET: "eth", INFINIBAND: "ib"}
ATTACHMENTS = ("macvlan", "ipvlan", "sriov", "ib-sriov", "ipoib", "host-device")
PROVIDERS = ("spiderpool", "network-operator", "cni")


@dataclass(frozen=True)
class Setting:
    """A value and where it stands, for values that several places may give; None where it could not be read."""

    value: t.Any
    path: Path


# Attribute of a VF (or ``count``) -> its setting.
VfSettings = t.Dict[str, Setting]


@dataclass
class Rail:
    name: str
    number: int
    path: Path
    subnet: Network | None = None
    gateway: int | None = None
    pods: Range | None = None
    hosts: Range | None = None
    mtu: int | None = None
    vfs: VfSettings = field(default_factory=dict)


@dataclass
class Port:
    """What a profile, or a node's override, says of one rail's port. ``paths``: attribute -> where it stands."""

    rail: str
    path: Path
    netdev: str | None = None
    pci: str | None = None
    rdma: str | None = None
    gpus: tuple[int, ...] = ()
    paths: dict[str, Path] = field(default_factory=dict)


@dataclass
class Firmware:
    link_type: str | None
    sriov_en: bool | None
    num_of_vfs: int | None
    path: Path


@dataclass
class Profile:
    name: str
    path: Path
    soft_rdma: str | None = None
    firmware: Firmware | None = None
    vfs: VfSettings = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)


@dataclass
class Node:
    """``ports`` holds the overrides: None where the node has no port on a rail on which its profile has one."""

    name: str
    path: Path
    index: int | None = None
    index_path: Path | None = None
    profile: str | None = None
    address: str | None = None
    groups: tuple[str, ...] = ()
    vars: dict[str, t.Any] = field(default_factory=dict)
    ports: dict[str, Port | None] = field(default_factory=dict)


@dataclass
class Fabric:
    name: str | None = None
    attachment: str | None = None
    provider: str | None = None
    link_layer: str | None = None
    rdma_mode: str | None = None
    mtu: int | None = None
    mac_seed: str | None = None
    reserved: dict[str, Network] = field(default_factory=dict)
    first_table: int = 101
    first_priority: int = 10001
    vfs: VfSettings = field(default_factory=dict)
    rails: list[Rail] = field(default_factory=list)
    profiles: dict[str, Profile] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def rail(self, name: str) -> Rail | None:
        return next((rail for rail in self.rails if rail.name == name), None)


def ports_of(node: Node, profile: Profile) -> dict[str, Port]:
    """A node's ports by rail: its profile's, with the node's own words over them."""
    if not node.ports:
        return profile.ports
    ports = dict(profile.ports)
    for rail, own in node.ports.items():
        if own is None:
            ports.pop(rail, None)
            continue
        base = ports.get(rail)
        if base is None:
            ports[rail] = own
            continue
        said = own.paths
        ports[rail] = Port(
            rail,
            own.path,
            own.netdev if "netdev" in said else base.netdev,
            own.pci if "pci" in said else base.pci,
            own.rdma if "rdma" in said else base.rdma,
            own.gpus if "gpu" in said else base.gpus,
            dict(base.paths, **said),
        )
    return ports


def vfs_of(fabric: Fabric, rail: Rail, profile: Profile) -> VfSettings:
    """The VF settings of a profile's ports on a rail: the fabric's, the rail's over them, the profile's over both."""
    return dict(fabric.vfs, **dict(rail.vfs, **profile.vfs))
