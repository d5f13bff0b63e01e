# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The planned state of a rail inside the pods of a node: only what the provider really sets. The classes of
``_fabric.kubernetes.providers`` know the routes.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.all_providers import (
    PROVIDERS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Share, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import EXCLUSIVE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import (
    attachment_of,
    compute_ports,
    pod_ports,
)

NEXT_TABLE = 1000

Row = t.Dict[str, t.Any]


class RailSpec(t.NamedTuple):
    """One rail in a node's pods.

    :param mtus: the allowed MTUs in bytes; empty if the provider sets none.
    :param sourced: the families whose traffic uses a routing table of the rail.
    :param table, priority: those of the plan, if the provider uses them.
    :param table_routes, main_routes: (destination, next hop or None), as text.
    :param isolated: whether the pod has an RDMA device of its own.
    :param storage: whether only pods that request the rail have it.
    :param slot: the row of the agent's record, if the pod holds a slot; ``shares`` is then the slot's addresses alone.
    """

    rail: str
    interface: str
    mtus: tuple[int, ...]
    shares: t.Sequence[Share]
    sourced: tuple[int, ...]
    table: int | None
    priority: int | None
    table_routes: tuple[tuple[str, str | None], ...]
    main_routes: tuple[tuple[str, str | None], ...]
    isolated: bool
    storage: bool
    slot: Row | None = None


def pod_name(row: t.Mapping[str, t.Any]) -> str:
    """Return a pod as messages name it. ``row``: of ``kube_pods``."""
    return "pod %s/%s" % (row["namespace"], row["name"])


def view_of(fabric: t.Mapping[str, t.Any], nodes: t.Sequence[Row]) -> View:
    """Return the plan as Kubernetes objects see it, from the variables of hosts."""
    rails = [dict(values, name=name) for name, values in fabric["subnets"].items()]
    return View({"fabric": fabric, "rails": rails, "nodes": nodes})


def rail_specs(view: View, node: Row) -> list[RailSpec]:
    """Return the rails of a node's pods, in rail order."""
    ports = pod_ports(node)
    compute = {port["rail"] for port in compute_ports(ports)}
    return [_rail_spec(view, node, port, port["rail"] not in compute) for port in ports]


def pod_specs(view: View, node: Row, inside: t.Mapping[str, t.Any]) -> list[RailSpec]:
    """Return the rails of one pod. The agent's record decides which slots of the plan the pod must have.

    :param inside: the pod's row of ``rail_pods``.
    """
    specs = rail_specs(view, node)
    if not facts_of(view.provider).slots:
        return specs
    recorded = {row["rail"]: row for row in inside.get("slots") or ()}
    rails = {rail["rail"]: rail["slots"] for rail in node["agent"]["rails"]}
    return [_of_slot(spec, recorded[spec.rail], rails[spec.rail]) if spec.rail in recorded else spec for spec in specs]


def _of_slot(spec: RailSpec, row: Row, slots: t.Sequence[Row]) -> RailSpec:
    """Return the rail with the slot's addresses only."""
    planned = next((slot for slot in slots if slot["number"] == row["slot"]), {})
    ips = {4: planned.get("address"), 6: planned.get("address6")}
    shares = [
        dataclasses.replace(share, ips=(bare(str(ips[share.version])),)) for share in spec.shares if ips[share.version]
    ]
    return spec._replace(shares=shares or spec.shares, slot=row)


def transfers(fabric: t.Mapping[str, t.Any], port: t.Mapping[str, t.Any]) -> bool:
    """Return whether RDMA between pods is tested on a port.

    Soft RDMA of the node receives only in the node's own namespace; the agent makes a soft device in the pod.
    """
    return port["rdma"]["type"] == "hardware" or (facts_of(fabric["provider"]).slots and port["rdma"]["type"] == "rxe")


def _rail_spec(view: View, node: Row, port: t.Mapping[str, t.Any], storage: bool) -> RailSpec:
    """Return one rail as the provider attaches it."""
    shares = view.shares(port)
    provider = PROVIDERS[view.provider]
    attachment = attachment_of(node, port)
    routes = provider.pod_routes(attachment, port, shares)
    mtus: tuple[int, ...] = ()
    if provider.sets_mtu(attachment):
        # upstream's objects name one MTU for all ports of a network
        network = view.network_of(node, port)
        mtus = tuple(dict.fromkeys(each for each in (port["mtu"], network.mtu) if each))
    return RailSpec(
        port["rail"],
        port["names"]["interface"],
        mtus,
        shares,
        *routes,
        node["rdma_mode"] == EXCLUSIVE,
        storage,
    )


def of_share(address: str, shares: t.Sequence[Share]) -> bool:
    """Return whether an address (with its prefix length) is one that pods may have here."""
    plain = ipaddress.ip_interface(address).ip
    for share in shares:
        for ips in share.ips if plain.version == share.version else ():
            first, _dash, last = ips.partition("-")
            if ipaddress.ip_address(first).packed <= plain.packed <= ipaddress.ip_address(last or first).packed:
                return True
    return False
