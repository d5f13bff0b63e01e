# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the agent of a node reads: ``/etc/railyard/agent.json``, with the slots of each rail port.

A slot's interface, MAC address and addresses follow from its number, so that who holds the slot holds the address.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import Planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import nccl_settings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    METRICS_HOSTS,
    Fabric,
    Node,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import (
    Slots,
    kubeconfig,
    kubelet_plugin,
    most_slots,
    slots_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV6, show

# The shape of the file; it changes when an agent of the old shape would go wrong.
FORMAT = 1

Variables = t.Mapping[str, t.Any]


class AgentFiles:
    """The files of a fabric's nodes.

    :param given: ``railyard_fabric``. :param planners: rail -> family -> what plans its addresses.
    """

    def __init__(
        self,
        fabric: Fabric,
        given: Variables,
        variants: Variants,
        planners: t.Mapping[str, t.Mapping[int, Planner]],
    ) -> None:
        self._fabric = fabric
        self._given = given
        self._planners = planners
        self._slots = {id(variant): slots_of(fabric, variant) for variant in variants}
        self._step = most_slots(fabric, variants)
        routing = given["routing"]
        self._default = routing["mode"] == "source" and routing["cross_rail"]

    def file(
        self, node: Node, variant: Variant, found: Variables, identities: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, t.Any]:
        """The whole file of a node.

        :param found: ``railyard_node``. :param identities: rail -> a MAC address for each slot; none where the
            interface keeps its own.
        """
        given, slots = self._given, self._slots[id(variant)]
        if slots is None:
            raise ValueError("%s has no number of slots, which lint reports" % node.name)
        agent = self._fabric.agent
        host = METRICS_HOSTS[agent.metrics]
        return {
            "format": FORMAT,
            "fabric": given["name"],
            "node": node.name,
            "resource_prefix": given["resource_prefix"],
            "attachment": variant.attachment,
            "rdma_mode": variant.rdma_mode,
            # it asks with ARP and neighbour solicitations
            "conflict_check": given["link_layer"] == ETHERNET,
            "gateway_check": agent.gateway_check,
            "metrics": "%s:%d" % (host, agent.metrics_port) if host else None,
            "kubelet_plugin": kubelet_plugin(variant),
            "kubeconfig": kubeconfig(variant),
            "env": dict(nccl_settings.nccl(given, found, ()), **nccl_settings.ucx(given, ())),
            "rails": [
                self._rail(port, self._slots_of(node, port["rail"], slots, identities.get(port["rail"], ()), variant))
                for port in found["ports"]
            ],
        }

    def _rail(self, port: Variables, slots: list[dict[str, t.Any]]) -> dict[str, t.Any]:
        pods, whole = port["pods"] or {}, self._given["subnets"][port["rail"]]
        gateways = {six: pods.get("gateway" + six) for six in ("", "6")}
        return {
            "rail": port["rail"],
            "number": port["number"],
            "netdev": port["netdev"],
            "pci": port["pci"],
            "rdma": port["rdma"]["name"],
            "rdma_type": port["rdma"]["type"],
            "interface": port["names"]["interface"],
            "mtu": port["mtu"],
            "table": port["table"],
            "rule_priority": port["rule_priority"],
            "gateway": gateways[""] if self._default else None,
            "gateway6": gateways["6"] if self._default else None,
            # Without a default route, pods reach the rail's other networks through the leaf.
            "routes": [
                {"to": whole["subnet" + six], "via": gateway, "table": port["table"]}
                for six, gateway in gateways.items()
                if gateway and not self._default and whole["subnet" + six] != pods["subnet" + six]
            ],
            "sysctl": {key: str(value) for key, value in port["sysctl"].items()} if pods.get("first") else {},
            "plane": port["plane"],
            "leaf": (port["leaf"] or {}).get("name"),
            "speed": port["expect"]["speed"],
            "slots": slots,
        }

    def _slots_of(
        self, node: Node, rail: str, slots: Slots, identities: t.Sequence[str], variant: Variant
    ) -> list[dict[str, t.Any]]:
        """The slots of a rail port, in the order of their numbers."""
        found: list[dict[str, t.Any]] = [
            {
                "number": number,
                "resource": slots.resource(rail, number),
                "address": None,
                "address6": None,
                "mac": identities[number] if identities else None,
                "vf": number if variant.has_vfs else None,
            }
            for number in range(slots.total)
        ]
        unit, index = self._fabric.units.get(node.unit or ""), node.index or 0
        for bits, planner in self._planners[rail].items():
            share = planner.share(unit.number if unit else 0, node.place or 0, index)
            for slot, address in zip(found, planner.slots(share, index, slots.total, self._step)):
                if address is not None:
                    key = "address6" if bits == IPV6 else "address"
                    slot[key] = "%s/%d" % (show(address, bits), share.prefix)
        return found
