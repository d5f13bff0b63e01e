# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec of a node's agent, ``/etc/railyard/agent.json``, with the slots of each rail port.

A slot's interface, MAC address and addresses follow from its number, so the holder of a slot holds its address.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Planner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    METRICS_HOSTS,
    Fabric,
    Node,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import (
    kubeconfig,
    kubelet_plugin,
    most_slots,
    slots_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import nccl_settings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    agent_lower,
    agent_planes,
    link_layer_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE, SUFFIX, show

# Version of the file's format. It changes when an older agent would misread the file.
FORMAT = 1

Variables = t.Mapping[str, t.Any]


class AgentFiles:
    """The agent specs of a fabric's nodes.

    :param fabric_vars: ``railyard_fabric``.
    :param planners: rail -> family (32 or 128 bits) -> the planner of its addresses.
    """

    def __init__(
        self,
        fabric: Fabric,
        fabric_vars: Variables,
        variants: Variants,
        planners: t.Mapping[str, t.Mapping[int, Planner]],
    ) -> None:
        self._fabric = fabric
        self._fabric_vars = fabric_vars
        self._planners = planners
        self._slots = {
            (id(variant), rail.name): slots_of(fabric, variant, rail) for variant in variants for rail in fabric.rails
        }
        self._most_slots = {rail.name: most_slots(fabric, variants, rail) for rail in fabric.rails}
        self._rails_for_pods = {rail.name for rail in fabric.rails if rail.for_pods}

    def file(
        self, node: Node, variant: Variant, node_vars: Variables, identities: t.Mapping[str, t.Sequence[str]]
    ) -> dict[str, t.Any]:
        """Return the agent spec of a node.

        :param node_vars: ``railyard_node``.
        :param identities: rail -> a MAC address or GUID for each slot; empty if interfaces keep their own.
        :raises ValueError: if the number of slots is unknown.
        """
        fabric_vars = self._fabric_vars
        agent = self._fabric.agent
        host = METRICS_HOSTS[agent.metrics]
        return {
            "format": FORMAT,
            "fabric": fabric_vars["name"],
            "node": node.name,
            "resource_prefix": fabric_vars["resource_prefix"],
            "attachment": variant.attachment,
            "rdma_mode": variant.rdma_mode,
            "conflict_check": True,
            "gateway_check": agent.gateway_check,
            "metrics": "%s:%d" % (host, agent.metrics_port) if host else None,
            "kubelet_plugin": kubelet_plugin(variant),
            "kubeconfig": kubeconfig(variant),
            "env": {
                **nccl_settings.nccl(fabric_vars, node_vars, ()),
                **nccl_settings.ucx(fabric_vars, node_vars, ()),
                **nccl_settings.open_mpi(node_vars),
            },
            "rails": [
                dict(
                    self._rail(port, self._slots_of(node, port, identities.get(port["rail"], ()), variant), variant),
                    **({"nccl": nccl_settings.slot_numbers(node_vars, port)} if "nccl" in port else {}),
                )
                for port in node_vars["ports"]
                if port["rail"] in self._rails_for_pods
            ],
        }

    def _rail(self, port: Variables, slots: list[dict[str, t.Any]], variant: Variant) -> dict[str, t.Any]:
        """Return one rail port of the spec. ``port``: an entry of ``railyard_node.ports``."""
        pods, subnets = port["pods"] or {}, self._fabric_vars["subnets"][port["rail"]]
        # (end of the keys, network, next hop)
        routes = [
            (suffix, network, pods["gateway" + suffix])
            for suffix in SUFFIX.values()
            for network in subnets["routes" + suffix]
            if pods.get("gateway" + suffix)
        ]
        default = {suffix: gateway for suffix, network, gateway in routes if network in ANYWHERE.values()}
        own = port.get("attachment")
        stacked: Variables = {"lower": agent_lower(port)} if port.get("lower") else {}
        planes = agent_planes(port)
        numbered: Variables = {"rdma_port": port["rdma"]["port"]} if port["rdma"].get("port") else {}
        return {
            "rail": port["rail"],
            **({"attachment": own} if own not in (None, variant.attachment) else {}),
            "number": port["number"],
            "netdev": port["netdev"],
            "pci": port["pci"],
            "rdma": port["rdma"]["name"],
            "rdma_type": port["rdma"]["type"],
            "interface": port["names"]["interface"],
            "mtu": port["mtu"],
            "table": port["table"],
            "rule_priority": port["rule_priority"],
            "gateway": default.get(""),
            "gateway6": default.get("6"),
            "routes": [
                {"to": network, "via": gateway, "table": port["table"]}
                for _suffix, network, gateway in routes
                if network not in ANYWHERE.values()
            ],
            "sysctl": {key: str(value) for key, value in port["sysctl"].items()} if pods.get("first") else {},
            "plane": port["plane"],
            "leaf": (port["leaf"] or {}).get("name"),
            "speed": port["expect"]["speed"],
            "slots": slots,
            **stacked,
            **numbered,
            **({"planes": planes} if planes else {}),
        }

    def _slots_of(
        self, node: Node, port: Variables, identities: t.Sequence[str], variant: Variant
    ) -> list[dict[str, t.Any]]:
        """Return the slots of a rail port, ordered by number."""
        rail, slots, vfs = port["rail"], self._slots[id(variant), port["rail"]], port["vfs"]
        if slots is None:
            raise ValueError("%s has no number of slots on %s, which lint reports" % (node.name, rail))
        ethernet = link_layer_of(self._fabric_vars, port) == ETHERNET
        rows: list[dict[str, t.Any]] = [
            {
                "number": number,
                "resource": slots.resource(rail, number),
                "address": None,
                "address6": None,
                # VFs of InfiniBand have GUIDs, and the interface's address follows from them.
                "mac": identities[number] if identities and ethernet else None,
                "vf": vfs["attributes"][number]["index"] if vfs else None,
            }
            for number in range(slots.total)
        ]
        unit, index = self._fabric.units.get(node.unit or ""), node.index or 0
        for bits, planner in self._planners[rail].items():
            share = planner.share(unit.number if unit else 0, node.place or 0, index)
            for slot, address in zip(rows, planner.slots(share, index, slots.total, self._most_slots[rail])):
                if address is not None:
                    key = "address" + SUFFIX[bits]
                    slot[key] = "%s/%d" % (show(address, bits), share.prefix)
        return rows
