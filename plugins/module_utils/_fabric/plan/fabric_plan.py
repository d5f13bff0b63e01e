# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: a fabric without errors, with every node's ports resolved. ``host_variables`` converts it to plain data."""

from __future__ import annotations

import operator
import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import vf_identity
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Node,
    Port,
    Rail,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import slots_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.host_variables import PlanOutput

# Values of a port from which objects of Kubernetes are made.
_RENDERED = operator.attrgetter(
    *("netdev", "pci", "rdma", "gpus", "speed", "width", "pcie_gen", "pcie_lanes"),
    *("bond", "vlan", "rdma_port", "managed"),
)
_NO_IDENTITIES: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class PlannedNode:
    """A node with its ports, in rail order.

    ``identities``: rail -> a MAC address or GUID for each of its VFs, or a MAC address for each interface that the
    agent makes on it.
    """

    node: Node
    variant: Variant
    ports: tuple[tuple[Rail, Port], ...]
    identities: dict[str, tuple[str, ...]]


class Plan:
    """The plan of a fabric that has no errors."""

    def __init__(self, fabric: Fabric, variants: Variants | None = None) -> None:
        self.fabric = fabric
        self.variants = variants or Variants(fabric)
        self._ports = {id(variant): self._in_rail_order(variant.ports) for variant in self.variants}
        self._derive = {
            rail.name: vf_identity.guid if fabric.link_layer_on(rail) == INFINIBAND else vf_identity.mac
            for rail in fabric.rails
        }
        self._identity_numbers = {id(variant): self._numbers_with_identity(variant) for variant in self.variants}
        self.nodes = [self._node(node) for node in fabric.nodes]
        self._cached_output: PlanOutput | None = None

    def fabric_vars(self) -> dict[str, t.Any]:
        """Return ``railyard_fabric``, as ``docs/architecture.md`` specifies it."""
        return self._output.fabric_vars()

    def node_vars(self, planned: PlannedNode) -> dict[str, t.Any]:
        """Return ``railyard_node``, as ``docs/architecture.md`` specifies it."""
        return self._output.node_vars(planned.node, planned.variant, planned.ports, planned.identities)

    def document(self) -> dict[str, t.Any]:
        """Return the whole plan as plain data in a stable order: the input of tables, files and comparisons."""
        return self._document(self.nodes)

    def sample(self) -> dict[str, t.Any]:
        """Return the document with the fewest nodes that represent every kind of node.

        Of nodes that differ only in name, index, place and the identity of their cards, it contains the first, the one
        with the longest name and the one with the longest index. ``max_nodes`` is at least the number of all nodes.
        """
        alike: dict[t.Hashable, list[PlannedNode]] = {}
        for planned in self.nodes:
            ports = tuple((rail.number, _RENDERED(port)) for rail, port in planned.ports) if planned.node.ports else ()
            alike.setdefault((id(planned.variant), planned.node.groups, ports), []).append(planned)
        chosen = {
            id(each)
            for nodes in alike.values()
            for each in (
                nodes[0],
                max(nodes, key=lambda one: len(one.node.name)),
                max(nodes, key=lambda one: len(str(one.node.index))),
            )
        }
        document = self._document([each for each in self.nodes if id(each) in chosen])
        document["fabric"]["max_nodes"] = max(self.fabric.max_nodes or 0, len(self.nodes))
        return document

    def _document(self, nodes: t.Iterable[PlannedNode]) -> dict[str, t.Any]:
        return self._output.document([self.node_vars(planned) for planned in nodes])

    @property
    def _output(self) -> PlanOutput:
        if self._cached_output is None:
            self._cached_output = PlanOutput(self.fabric, self.variants)
        return self._cached_output

    def _in_rail_order(self, ports: t.Mapping[str, Port]) -> tuple[tuple[Rail, Port], ...]:
        return tuple((rail, ports[rail.name]) for rail in self.fabric.rails if rail.name in ports)

    def _node(self, node: Node) -> PlannedNode:
        variant = self.variants.of(node)
        if variant is None:
            raise ValueError("%s has no profile, which lint reports" % node.name)
        ports = self._in_rail_order(ports_of(node, variant)) if node.ports else self._ports[id(variant)]
        return PlannedNode(node, variant, ports, self._identities(node, variant, ports))

    def _identities(
        self, node: Node, variant: Variant, ports: t.Iterable[tuple[Rail, Port]]
    ) -> dict[str, tuple[str, ...]]:
        """Return rail -> the MAC addresses or GUIDs of its VFs or slots; empty if the plan assigns none."""
        numbers, fabric = self._identity_numbers[id(variant)], self.fabric
        if not numbers:
            return _NO_IDENTITIES
        seed = fabric.mac_seed or fabric.name or ""
        return {
            rail.name: tuple(
                [self._derive[rail.name](seed, node.name, rail.name, number) for number in numbers[rail.name]]
            )
            for rail, _port in ports
            if rail.name in numbers
        }

    def _numbers_with_identity(self, variant: Variant) -> dict[str, range]:
        """Return rail -> the numbers of its VFs or slots; empty if the plan assigns them no MAC addresses or GUIDs."""
        numbers = {}
        for rail in self.fabric.rails:
            if variant.has_vfs_on(rail):
                numbers[rail.name] = _vf_numbers(variant.vfs_on(self.fabric, rail))
            elif variant.attachment_on(rail) == "macvlan":
                slots = slots_of(self.fabric, variant, rail)
                numbers[rail.name] = range(slots.total if slots else 0)
        return {name: found for name, found in numbers.items() if found}


def _vf_numbers(settings: VfSettings) -> range:
    count, part = settings.get("count"), settings.get("range")
    return vf_attributes.numbers(part.value if part else None, count.value) or range(0) if count else range(0)
