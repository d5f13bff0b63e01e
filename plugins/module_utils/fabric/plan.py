# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The plan: every name, address and number of every rail port, decided; and its hand-over as host variables."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import identity
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import show
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import (
    INFINIBAND,
    LINK_TYPE,
    RDMA_MODE,
    Fabric,
    Firmware,
    Node,
    Port,
    Profile,
    Rail,
    ports_of,
    vfs_of,
)

# With several NICs in one host, ARP must answer and ask for the netdev's own address only, and packets may come in by a
# rail whose route back is in the rail's own table (loose reverse path).
SYSCTL = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
# Attributes of a VF that the file may say; what it does not say is null, and left as the driver has it.
VF_ATTRIBUTES = ("vlan", "qos", "trust", "spoofchk", "link_state", "min_tx_rate", "max_tx_rate")


@dataclass(frozen=True)
class PlannedPort:
    """A rail port, resolved. ``address``: the host's own, or None. ``identities``: a MAC address or GUID a VF."""

    rail: Rail
    port: Port
    profile: Profile
    address: int | None
    identities: tuple[str, ...] | None


@dataclass(frozen=True)
class PlannedNode:
    node: Node
    ports: tuple[PlannedPort, ...]


class Plan:
    """The plan of a fabric that has no errors."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._settings = {
            (rail.name, profile.name): vfs_of(fabric, rail, profile)
            for rail in fabric.rails
            for profile in fabric.profiles.values()
        }
        self.nodes = [self._node(node) for node in fabric.nodes]

    def fabric_vars(self) -> dict[str, t.Any]:
        """``railyard_fabric``, as ``docs/architecture.md`` lays it down."""
        fabric = self.fabric
        return {
            "name": fabric.name,
            "attachment": fabric.attachment,
            "provider": fabric.provider,
            "rdma_mode": RDMA_MODE[fabric.attachment or ""],
            "link_layer": fabric.link_layer,
            "mtu": fabric.mtu,
            "rails": [rail.name for rail in fabric.rails],
        }

    def node_vars(self, planned: PlannedNode) -> dict[str, t.Any]:
        """``railyard_node``, as ``docs/architecture.md`` lays it down."""
        node = planned.node
        return {
            "name": node.name,
            "index": node.index,
            "profile": node.profile,
            "ports": [self._port_vars(port) for port in planned.ports],
        }

    def _node(self, node: Node) -> PlannedNode:
        profile = self.fabric.profiles[node.profile or ""]
        ports = ports_of(node, profile)
        planned = tuple(
            self._port(node, profile, rail, ports[rail.name]) for rail in self.fabric.rails if rail.name in ports
        )
        return PlannedNode(node, planned)

    def _port(self, node: Node, profile: Profile, rail: Rail, port: Port) -> PlannedPort:
        fabric = self.fabric
        address = rail.hosts.first + (node.index or 0) - 1 if rail.hosts and rail.subnet else None
        identities = None
        if fabric.attachment == "sriov":
            make = identity.guid if fabric.link_layer == INFINIBAND else identity.mac
            seed = fabric.mac_seed or fabric.name or ""
            count = self._settings[rail.name, profile.name]["count"].value
            identities = tuple(make(seed, node.name, rail.name, vf) for vf in range(count))
        return PlannedPort(rail, port, profile, address, identities)

    def _port_vars(self, planned: PlannedPort) -> dict[str, t.Any]:
        fabric, rail, port, profile = self.fabric, planned.rail, planned.port, planned.profile
        subnet = rail.subnet
        soft = profile.soft_rdma
        return {
            "rail": rail.name,
            "number": rail.number,
            "pci": port.pci,
            "netdev": port.netdev,
            "rdma": {"name": port.rdma or ("%s_%s" % (soft, rail.name) if soft else None), "type": soft or "hardware"},
            "gpus": list(port.gpus),
            "mtu": rail.mtu or fabric.mtu,
            "address": None
            if planned.address is None or not subnet
            else "%s/%d" % (show(planned.address), subnet.prefix),
            "gateway": None if rail.gateway is None else show(rail.gateway),
            "table": fabric.first_table + rail.number - 1,
            "rule_priority": fabric.first_priority + rail.number - 1,
            "sysctl": dict(SYSCTL),
            "vfs": self._vf_vars(planned),
            "firmware": self._firmware_vars(profile.firmware, planned),
        }

    def _vf_vars(self, planned: PlannedPort) -> dict[str, t.Any] | None:
        if planned.identities is None:
            return None
        settings = self._settings[planned.rail.name, planned.profile.name]
        said = {key: settings[key].value if key in settings else None for key in VF_ATTRIBUTES}
        guids = self.fabric.link_layer == INFINIBAND
        attributes = [
            dict(
                said,
                index=index,
                mac=None if guids else value,
                node_guid=value if guids else None,
                port_guid=value if guids else None,
            )
            for index, value in enumerate(planned.identities)
        ]
        return {"count": len(attributes), "attributes": attributes}

    def _firmware_vars(self, firmware: Firmware | None, planned: PlannedPort) -> dict[str, t.Any] | None:
        if firmware is None:
            return None
        return {
            "link_type": firmware.link_type or LINK_TYPE[self.fabric.link_layer or ""],
            "sriov_en": True if firmware.sriov_en is None and planned.identities else firmware.sriov_en,
            "num_of_vfs": firmware.num_of_vfs,
        }
