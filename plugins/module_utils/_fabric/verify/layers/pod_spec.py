# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a node's pods have of each rail, as the fabric's provider makes it: no more than it really sets. Which
routes that are, the provider's class knows (``_fabric.kubernetes.providers``).
"""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.all_providers import (
    PROVIDERS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Share, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import EXCLUSIVE

NEXT_TABLE = 1000

Row = t.Dict[str, t.Any]


class Wish(t.NamedTuple):
    """One rail in a node's pods.

    :param mtus: what its MTU may be, in bytes; empty where nobody sets it.
    :param sourced: the families whose traffic goes by a table of the rail's own.
    :param table, priority: the plan's, where the provider keeps to them.
    :param table_routes, main_routes: (destination, next hop or None), as text.
    :param isolated: whether the pod has an RDMA device of its own.
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


def view_of(fabric: t.Mapping[str, t.Any], nodes: t.Sequence[Row]) -> View:
    """The plan as Kubernetes objects see it, from what hosts have of it."""
    rails = [dict(values, name=name) for name, values in fabric["subnets"].items()]
    return View({"fabric": fabric, "rails": rails, "nodes": nodes})


def wishes(view: View, node: Row) -> list[Wish]:
    """In rail order."""
    return [_wish(view, node, port) for port in node["ports"]]


def _wish(view: View, node: Row, port: Row) -> Wish:
    shares = view.shares(port)
    provider = PROVIDERS[view.provider]
    routes = provider.pod_routes(node["attachment"], port, shares)
    mtus: tuple[int, ...] = ()
    if provider.sets_mtu(node["attachment"]):
        # upstream's objects name one MTU for all ports of a network
        network = view.network(port["names"]["network"])
        mtus = tuple(dict.fromkeys(each for each in (port["mtu"], network.mtu) if each))
    return Wish(
        port["rail"],
        port["names"]["interface"],
        mtus,
        shares,
        *routes,
        node["rdma_mode"] == EXCLUSIVE,
    )


def of_share(address: str, shares: t.Sequence[Share]) -> bool:
    """Whether an address (with its prefix length) is one of those that pods may have here."""
    plain = ipaddress.ip_interface(address).ip
    for share in shares:
        for ips in share.ips if plain.version == share.version else ():
            first, _dash, last = ips.partition("-")
            if ipaddress.ip_address(first).packed <= plain.packed <= ipaddress.ip_address(last or first).packed:
                return True
    return False
