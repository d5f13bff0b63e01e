# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host variables, and the whole plan as plain data.

Values that all nodes of a variant share are computed once per rail; a node adds what depends on its place. Shared parts
are the same objects in memory: callers must not change them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    NONE,
    Planner,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.shared_subnet import SharedSubnetPlanner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model, nvlink_model, qos_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.common_networks import (
    common_networks,
    pool_owners,
    rails_in_one_subnet,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import host_variable as _driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    GPU_VENDORS,
    HARDWARE,
    Fabric,
    Node,
    Port,
    Rail,
    Unit,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    host_variable as _infiniband,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.object_names import Naming
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import (
    health_file,
    nccl_settings,
    planned_vfs,
    port_variables,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.address_values import add_pods, taken_texts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.agent_file import AgentFiles
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.gateway_routes import gateway_routes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.leaves import Leaves
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.plan_memory import SharedKeys
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.probe_partners import ProbePartners
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE, SUFFIX, show
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.family import MLX5

# A host with several NICs must use only the netdev's own address in ARP requests and replies. Loose reverse path
# filtering accepts packets whose return route is in the rail's own table.
SYSCTL = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
# Of several ports in one subnet, only the one through which the kernel would answer must answer ARP requests.
_ONE_SUBNET = {"arp_filter": 1}
# Version of the document's format. It changes when an older reader would misread the document.
FORMAT = 1

_PORTS, _LEAVES, _NAMES = (SharedKeys() for _kind in range(3))


class _Side(t.NamedTuple):
    """One address family on one rail. ``bits``: 32 or 128; ``suffix``: the end of its keys; ``routes``: the networks
    that are reached through the gateway.
    """

    bits: int
    suffix: str
    planner: Planner
    routes: list[str]


class PlanOutput:
    """Host variables and the plan document of a fabric without errors."""

    def __init__(self, fabric: Fabric, variants: Variants) -> None:
        self.fabric = fabric
        self.variants = variants
        self.naming = Naming(fabric.name, fabric.provider, fabric.names)
        self.leaves = Leaves(fabric)
        self._domains = nvlink_model.domains(fabric)
        # Domain -> the addresses of its nodes, for IMEX
        self._imex_nodes = {name: nvlink_model.imex_nodes(nodes) for name, nodes in self._domains.items()}
        planners = fabric.planners()
        self._sides = {
            rail.name: [
                _Side(bits, SUFFIX[bits], planner, gateway_routes(fabric.routing, planner))
                for bits, planner in sorted(planners[rail.name].items())
            ]
            for rail in fabric.rails
        }
        common = common_networks(fabric.rails)
        self._in_one_subnet, self._pool_owners = rails_in_one_subnet(common), pool_owners(common)
        self._source = fabric.routing.mode == "source"
        facts = facts_of(fabric.provider)
        # Rail -> the keys of a VF that have its identity: the MAC address or the GUIDs.
        self._identity_keys = {
            rail.name: [each.name for each in vf_attributes.IDENTITIES if each.fits(fabric.link_layer_on(rail))]
            for rail in fabric.rails
        }
        # (rail, family of the NIC) -> the values of the rail's kind that the file has; most rails have none.
        nics = dict.fromkeys([None, *(profile.nic for profile in fabric.profiles.values())])
        kinds = {(rail.name, nic): port_variables.kind(fabric, rail, nic) for rail in fabric.rails for nic in nics}
        self._kinds = {key: kind for key, kind in kinds.items() if kind}
        # (variant, rail) -> the numbers of rail and plane for NCCL, where its version takes them
        self._nccl_parts = nccl_settings.rail_numbers(fabric, variants)
        self._kubernetes, self._networked = facts.kubernetes, facts.networks
        # (variant, rail) -> the values of a port that all nodes of the variant share.
        self._parts: dict[tuple[int, str], dict[str, t.Any]] = {}
        # The same for the keys that only some ports have.
        self._optional_parts: dict[tuple[int, str], dict[str, t.Any]] = {}
        # (variant, values of a port) -> the values that a node may override.
        self._own_parts: dict[t.Hashable, dict[str, t.Any]] = {}
        self._values: dict[tuple[int, str], dict[str, t.Any]] = {}
        # Rail -> the kinds of pools of which each node has its own.
        self._own_pools: dict[str, list[str]] = {}
        self._leaf_parts: dict[tuple[str | None, str], dict[str, t.Any]] = {}
        # (variant, rail) -> the VFs of a port, if only a part of them is planned
        self._vf_ranges: dict[tuple[int, str], planned_vfs.VfRange] = {}
        self._heads: dict[int, dict[str, t.Any]] = {}
        self._served = {id(variant): variants.rails_of(variant) for variant in variants}
        self._partners = ProbePartners(fabric, variants, planners)
        self._agents = AgentFiles(fabric, self.fabric_vars(), variants, planners) if facts.slots else None

    # -- the fabric --------------------------------------------------------------------------------------------------

    def fabric_vars(self) -> dict[str, t.Any]:
        """Return ``railyard_fabric``."""
        fabric = self.fabric
        facts = facts_of(fabric.provider)
        mode = fabric.rdma_mode or facts.rdma_modes(fabric.attachment, fabric.link_layer)[0]
        kinds = [kind for variant in self.variants for kind in self.variants.kinds_of(variant)]
        used = [attachment for attachment, _link_layer in kinds if attachment]
        found: dict[str, t.Any] = {
            "name": fabric.name,
            "attachment": fabric.attachment,
            "attachments": sorted(set(used), key=used.index) or [fabric.attachment],
            "provider": fabric.provider,
            "rdma_mode": mode,
            "link_layer": fabric.link_layer,
            "mtu": fabric.mtu,
            "max_nodes": fabric.max_nodes,
            "pods_per_node": fabric.pods_per_node,
            "routing": {"mode": fabric.routing.mode, "cross_rail": fabric.routing.cross_rail},
            "resource_prefix": self.naming.common("resource_prefix") if self._kubernetes else None,
            "namespace": self.naming.common("namespace") if self._kubernetes else None,
            "qos": qos_model.host_variable(fabric.qos) if fabric.qos else None,
            "infiniband": _infiniband(fabric.infiniband),
            "rails": [rail.name for rail in fabric.rails],
            "subnets": {rail.name: self._subnets(rail) for rail in fabric.rails},
        }
        if fabric.objects:
            found["objects"] = fabric.objects
        if fabric.health and fabric.health.enabled:
            found["health"] = health_file.settings(fabric.health)
        if self._domains:
            found["nvlink_domains"] = {name: [node.name for node in nodes] for name, nodes in self._domains.items()}
        return found

    def _subnets(self, rail: Rail) -> dict[str, t.Any]:
        """Return the whole networks of a rail, of which nodes get shares, and the routes through their gateways."""
        networks: dict[str, t.Any] = {"mode": rail.mode, "subnet": None, "subnet6": None, "routes": [], "routes6": []}
        for side in self._sides[rail.name]:
            networks["subnet" + side.suffix] = str(side.planner.scheme.network)
            networks["routes" + side.suffix] = side.routes
        return networks

    # -- nodes -------------------------------------------------------------------------------------------------------

    def node_vars(
        self,
        node: Node,
        variant: Variant,
        ports: t.Iterable[tuple[Rail, Port]],
        identities: t.Mapping[str, t.Sequence[str]],
    ) -> dict[str, t.Any]:
        """Return ``railyard_node`` of a node. ``identities``: as in ``PlannedNode``."""
        unit = self.fabric.units.get(node.unit or "")
        found: dict[str, t.Any] = {
            "name": node.name,
            "index": node.index,
            "unit": node.unit,
            "unit_number": unit.number if unit else None,
            "place": node.place if unit else None,
            "rack": node.rack,
            "site": unit.site if unit else None,
        }
        found.update(self._head(variant))
        if self._domains:
            found.update(self._nvlink(node, variant))
        found["groups"] = list(node.groups)
        found["ports"] = [
            self._port(node, unit, variant, rail, port, identities.get(rail.name)) for rail, port in ports
        ]
        found.update(self._partners.host_variable(node))
        found["agent"] = self._agents.file(node, variant, found, identities) if self._agents else None
        return found

    def _nvlink(self, node: Node, variant: Variant) -> dict[str, t.Any]:
        """Return the NVLink domain of a node, and its IMEX daemon if the file manages it; empty without a domain."""
        name = next(iter(nvlink_model.candidates(self.fabric, node)), None)
        if name is None:
            return {}
        daemon = nvlink_model.imex_daemon(self.fabric, variant)
        imex = {"imex": {"daemon": daemon, "nodes": self._imex_nodes[name]}} if daemon else {}
        return {"nvlink_domain": name, **imex}

    def _head(self, variant: Variant) -> dict[str, t.Any]:
        """Return the part of ``railyard_node`` that all nodes of a variant share."""
        head = self._heads.get(id(variant))
        if head is None:
            profile = variant.profile
            head = self._heads[id(variant)] = {
                "profile": profile.name,
                "attachment": variant.attachment,
                "rdma_mode": variant.rdma_mode,
                "driver": _driver(variant.driver),
                "gpus": {str(number): pci for number, pci in sorted(variant.gpus.items())},
                "other_ports": [
                    {"name": other.name, "role": other.role, "netdev": other.port.netdev, "pci": other.port.pci}
                    for other in profile.other_ports.values()
                ],
                **host_model.host_variables(variant.host),
            }
            if profile.preset:
                head["preset"] = profile.preset.name
            if profile.gpu_vendor not in (None, GPU_VENDORS[0]):
                head["gpu_vendor"] = profile.gpu_vendor
            head.update({"gpu_model": profile.gpu_model} if profile.gpu_model else {})
            if profile.nic not in (None, MLX5.name):
                head["nic_family"] = profile.nic
        return head

    def _port(
        self,
        node: Node,
        unit: Unit | None,
        variant: Variant,
        rail: Rail,
        port: Port,
        identities: t.Sequence[str] | None,
    ) -> dict[str, t.Any]:
        """Return an entry of ``railyard_node.ports``."""
        key = (id(variant), rail.name)
        part = self._parts.get(key)
        if part is None:
            of_variant = variant.ports.get(rail.name) or port
            part = self._parts[key] = self._part(variant, rail, of_variant)
            optional = port_variables.optional(self.fabric, variant, rail, of_variant)
            if optional:
                self._optional_parts[key] = optional
            settings = variant.vfs_on(self.fabric, rail)
            if "range" in settings:
                self._vf_ranges[key] = planned_vfs.VfRange(settings["count"].value, settings["range"].value)
        found = _PORTS.copy(part)
        if variant.ports.get(rail.name) is not port:
            own_key = (id(variant), rail.name, port.values)
            own_part = self._own_parts.get(own_key)
            if own_part is None:
                ipoib = port_variables.ipoib(self.fabric, variant, rail, port)
                own_part = dict(port_variables.overridable(variant, rail, port), ipoib=ipoib)
                own_part.update(port_variables.optional(self.fabric, variant, rail, port))
                self._own_parts[own_key] = own_part
            found.update(own_part)
        elif key in self._optional_parts:
            found.update(self._optional_parts[key])
        if port.bond and unit:
            found["lower"] = self._with_leaves(found["lower"], "functions", node, unit, rail)
        if unit and self.leaves.planes(rail) > 1:
            found["planes"] = self._with_leaves(found["planes"], "ports", node, unit, rail)
        self._address(found, node, unit, rail)
        if identities is not None and part["vfs"] is not None:
            vf_range = self._vf_ranges.get(key)
            found["vfs"] = planned_vfs.vfs(part["vfs"], identities, self._identity_keys[rail.name], vf_range)
        own = self._own_pools.get(rail.name)
        if own is None:
            pooled = self._networked and rail.for_pods and rail.mode not in (None, NONE)
            kinds = self.naming.pools(rail.schemes) if pooled else ()
            own = [kind for kind in kinds if self.naming.own_pools(kind, rail.mode)]
            self._own_pools[rail.name] = own
        if own:
            values = self._values.get(key)
            if values is None:
                values = self._values[key] = self.naming.values(rail, variant.attachment_on(rail) or "", variant.name)
            values["node"], values["i"] = node.name, node.index or 0
            found["names"] = _NAMES.copy(part["names"])
            for kind in own:
                found["names"][kind] = self.naming.name(kind, values, rail.mode)
        if self._kinds:
            found.update(self._kinds.get((rail.name, variant.profile.nic), {}))
        if key in self._nccl_parts:
            found["nccl"] = self._nccl_parts[key]
        return found

    def _part(self, variant: Variant, rail: Rail, port: Port) -> dict[str, t.Any]:
        """Return the values of a port that do not depend on the node's place, in the documented order of keys."""
        return {
            "rail": rail.name,
            "number": rail.number,
            "base": rail.base,
            "plane": rail.plane,
            **port_variables.overridable(variant, rail, port),
            "mtu": rail.mtu or self.fabric.mtu,
            "address": None,
            "address6": None,
            "gateway": None,
            "gateway6": None,
            **self._table(rail),
            "routes": [],
            "sysctl": dict(SYSCTL, **(_ONE_SUBNET if rail.name in self._in_one_subnet else {})),
            "leaf": None,
            "pods": None,
            # the row of each VF, which _port() completes with identities
            "vfs": planned_vfs.row(variant.vfs_on(self.fabric, rail)) if variant.has_vfs_on(rail) else None,
            "firmware": port_variables.firmware(self.fabric, variant, rail),
            "ipoib": port_variables.ipoib(self.fabric, variant, rail, port),
            "names": self._names(variant, rail),
        }

    def _table(self, rail: Rail) -> dict[str, int | None]:
        """Return routing table and rule priority of a rail; None if routes are selected by destination."""
        routing, offset = self.fabric.routing, rail.number - 1
        return {
            "table": routing.first_table + offset if self._source else None,
            "rule_priority": routing.first_priority + offset if self._source else None,
        }

    def _names(self, variant: Variant, rail: Rail) -> dict[str, t.Any]:
        """Return the names of a port's objects. A pool whose name contains the node is None here."""
        if not self._kubernetes or not rail.for_pods:
            return dict.fromkeys(("resource", "network", "pool", "pool6", "policy", "interface"))
        values = self.naming.values(rail, variant.attachment_on(rail) or "", variant.name)
        if not self._networked:
            return {
                "resource": rail.name,
                **dict.fromkeys(("network", "pool", "pool6", "policy")),
                "interface": self.naming.name("interface", values),
            }
        return {
            "resource": self.naming.name("resource", values),
            "network": self.naming.name("network", values),
            "pool": self._rail_pool("pool", rail, values),
            "pool6": self._rail_pool("pool6", rail, values),
            "policy": self.naming.name("policy", values) if variant.has_vfs_on(rail) else None,
            "interface": self.naming.name("interface", values),
        }

    def _rail_pool(self, kind: str, rail: Rail, values: t.Mapping[str, t.Any]) -> str | None:
        """Return the name of a rail's pool; None if each node has its own pool, or the rail has none of this kind."""
        if (
            not (self._networked and rail.for_pods)
            or rail.mode in (None, NONE)
            or kind not in self.naming.pools(rail.schemes)
        ):
            return None
        if self.naming.own_pools(kind, rail.mode):
            return None
        owner = self._pool_owners.get((rail.name, kind))
        if owner:
            values = self.naming.values(owner, values["attachment"], values["profile"])
        return self.naming.name(kind, values, rail.mode)

    def _address(self, values: dict[str, t.Any], node: Node, unit: Unit | None, rail: Rail) -> None:
        """Add the node's addresses, routes, leaf and share of the pod addresses on a rail to its port."""
        leaf = self._leaf(unit, rail, node)
        pods: dict[str, t.Any] | None = None
        routes: list[dict[str, t.Any]] = []
        number, place, index = unit.number if unit else 0, node.place or 0, node.index or 0
        for bits, suffix, planner, networks in self._sides[rail.name]:
            share = planner.share(number, place, index)
            gateway = None if share.gateway is None else show(share.gateway, bits)
            if share.address is not None:
                values["address" + suffix] = "%s/%d" % (show(share.address, bits), share.prefix)
                for network in networks if gateway else ():
                    if network in ANYWHERE.values():
                        values["gateway" + suffix] = gateway
                    else:
                        routes.append({"to": network, "via": gateway, "table": values["table"]})
            if leaf is not None:
                leaf["address" + suffix] = gateway
            pods = add_pods(pods, share, bits, suffix, gateway)
        if routes:
            values["routes"] = routes
        values["leaf"] = leaf
        values["pods"] = pods if self._kubernetes and rail.for_pods else None

    def _leaf(self, unit: Unit | None, rail: Rail, node: Node) -> dict[str, t.Any] | None:
        """Return the leaf of a rail port; None without a unit on a rail without addresses."""
        key = (unit.name if unit else None, rail.name)
        part = self._leaf_parts.get(key)
        if part is None:
            part = self._leaf_parts[key] = {
                "name": self.leaves.name(unit, rail) if unit else None,
                "port": None,
                "address": None,
                "address6": None,
                **self.leaves.aggregates(unit, rail, self._planners(rail)),
            }
        if unit is None and not self._sides[rail.name]:
            return None
        leaf = _LEAVES.copy(part)
        if unit is not None and unit.leaf_port is not None:
            leaf["port"] = self.leaves.port(unit, rail, node.place or 0)
        return leaf

    def _with_leaves(self, part: dict[str, t.Any], key: str, node: Node, unit: Unit, rail: Rail) -> dict[str, t.Any]:
        """Return ``lower`` or ``planes`` of a port, with the leaf and leaf port of each member or plane at ``key``."""
        place = node.place or 0
        members = [
            dict(each, leaf={"name": self.leaves.name(unit, rail, at), "port": self.leaves.port(unit, rail, place, at)})
            for at, each in enumerate(part[key], 1)
        ]
        return dict(part, **{key: members})

    def _planners(self, rail: Rail) -> list[Planner]:
        """Return the planner of each family of a rail."""
        return [side.planner for side in self._sides[rail.name]]

    # -- the whole plan ----------------------------------------------------------------------------------------------

    def document(self, nodes: list[dict[str, t.Any]]) -> dict[str, t.Any]:
        """Return the plan document. ``nodes``: ``railyard_node`` of each node."""
        fabric = self.fabric
        demands = demands_of(fabric, self.variants)
        return {
            "format": FORMAT,
            "fabric": dict(
                self.fabric_vars(),
                reserved={name: str(net) for name, net in fabric.reserved.items()},
            ),
            "rails": [self._rail(rail, demands[rail.name][0]) for rail in fabric.rails],
            "units": [self._unit(unit) for unit in sorted(fabric.units.values(), key=lambda each: each.number)],
            "nodes": nodes,
        }

    def _rail(self, rail: Rail, demand: t.Any) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {
            "name": rail.name,
            "number": rail.number,
            "base": rail.base,
            "plane": rail.plane,
            **({"nic": rail.nic, "nics": rail.nics} if rail.nics > 1 else {}),
            **({"planes": {"balancing": HARDWARE, "count": rail.device_planes}} if rail.device_planes > 1 else {}),
            "mode": rail.mode,
            "mtu": rail.mtu or self.fabric.mtu,
            **self._table(rail),
            "networks": self._networks(rail),
            "taken": taken_texts(rail),
        }
        values = self.naming.values(rail, rail.attachment or self.fabric.attachment or "", "")
        for kind in ("pool", "pool6"):
            found[kind] = self._rail_pool(kind, rail, values)
        for suffix in SUFFIX.values():
            found.update({key + suffix: None for key in ("subnet", "gateway", "pods", "hosts", "capacity")})
        numbering = next((side.planner.scheme.numbering for side in self._sides[rail.name]), None)
        if numbering:
            found["numbering"] = numbering
        for side in self._sides[rail.name]:
            common = side.planner if isinstance(side.planner, SharedSubnetPlanner) else None
            gateway = common.gateway if common else None
            found["subnet" + side.suffix] = str(side.planner.network)
            found["gateway" + side.suffix] = None if gateway is None else show(gateway, side.bits)
            for key, pool in (("pods", common.pods), ("hosts", common.hosts)) if common else ():
                found[key + side.suffix] = str(pool) if pool else None
            found["capacity" + side.suffix] = side.planner.capacity(demand).document()
        found.update({key: value for key, value in self._kinds.get((rail.name, None), {}).items() if key != "qos"})
        return found

    def _networks(self, rail: Rail) -> list[dict[str, t.Any]]:
        """Return the Kubernetes networks of a rail, each once."""
        found: dict[str, dict[str, t.Any]] = {}
        for variant in self.variants:
            if self._kubernetes and rail.for_pods and rail.name in self._served[id(variant)]:
                attachment = variant.attachment_on(rail)
                names = self._names(variant, rail)
                row = {key: names[key] for key in ("network", "resource", "interface")}
                found.setdefault(row["network"] or attachment or "", {"attachment": attachment, **row})
        return list(found.values())

    def _unit(self, unit: Unit) -> dict[str, t.Any]:
        leaves = [
            {"rail": rail.name, "name": name, **self.leaves.aggregates(unit, rail, self._planners(rail))}
            for rail in self.fabric.rails
            for name in self._leaf_names(unit, rail)
        ]
        return {"name": unit.name, "number": unit.number, "site": unit.site, "nodes": unit.nodes, "leaves": leaves}

    def _leaf_names(self, unit: Unit, rail: Rail) -> list[str]:
        """Return the leaves of a unit on a rail: several, if the members of a bond use different leaves."""
        ports = [variant.ports[rail.name] for variant in self.variants if rail.name in variant.ports]
        return self.leaves.names(unit, rail, max((len(port.functions) for port in ports), default=1))
