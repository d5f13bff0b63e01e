# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface of providers in Kubernetes, with the behaviour that most of them share."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import partition_keys
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    Network,
    Node,
    Object,
    Port,
    Share,
    View,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import ProviderFacts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import ANYWHERE

# Attachments whose interfaces have the kernel's default MTU, because upstream's objects have no field for it.
_OWN_MTU = ("ipoib", "ib-sriov")

Valuer = t.Callable[[View, Options], Object]
Route = t.Tuple[str, t.Optional[str]]


class PodRoutes(t.NamedTuple):
    """The routes of one rail in a pod.

    ``sourced``: families whose traffic uses a table of the rail. ``table`` and ``priority``: the planned values, if the
    provider uses them. Routes are (destination, next hop or None), as text.
    """

    sourced: tuple[int, ...]
    table: int | None
    priority: int | None
    in_table: tuple[Route, ...]
    in_main: tuple[Route, ...]


class Provider:
    """A provider. ``software``: required in the cluster; ``charts``: chart -> its values from the plan."""

    facts: ProviderFacts
    software: tuple[str, ...] = ()
    charts: t.Mapping[str, Valuer] = {}

    def check(self, view: View) -> None:
        """Check that the provider supports all attachments of the plan.

        :raises RailyardError: for one that it does not support.
        """
        for network in view.networks:
            why = self.facts.refused(network.attachment)
            if why:
                raise RailyardError(
                    "%s does not support %s: %s" % (self.facts.name, network.attachment, why),
                    "fabric.attachment",
                    "use one of %s" % ", ".join(self.facts.served),
                )

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        """Yield the objects of the cluster."""
        return iter(())

    def node_files(self, view: View, options: Options, node: Node) -> dict[str, str]:
        """Return path on a node -> text."""
        return {}

    def secrets(self, view: View, options: Options) -> list[partition_keys.Secret]:
        """Return the secrets that must exist before anything is applied."""
        return []

    def sets_mtu(self, attachment: str) -> bool:
        """Return whether interfaces of pods get the planned MTU."""
        return attachment not in _OWN_MTU

    def pod_routes(self, attachment: str, port: Port, shares: t.Sequence[Share]) -> PodRoutes:
        """Return the default: a table numbered by the provider, with the default route if the rail has one."""
        default = [share for share in shares if share.default]
        return PodRoutes(
            tuple(share.version for share in default),
            None,
            None,
            tuple((ANYWHERE[share.version], share.gateway) for share in default),
            tuple((to, share.gateway) for share in shares for to in share.networks),
        )


class OwnTables(Provider):
    """Providers that set the planned tables, rules and MTU in pods."""

    def sets_mtu(self, attachment: str) -> bool:
        """Return whether interfaces of pods get the planned MTU."""
        return True

    def pod_routes(self, attachment: str, port: Port, shares: t.Sequence[Share]) -> PodRoutes:
        """Return the planned table, which contains all routes of the rail."""
        routes = super().pod_routes(attachment, port, shares)
        if port["table"] is None or not shares:
            return routes._replace(sourced=())
        in_table = routes.in_table + tuple((share.subnet, None) for share in shares) + routes.in_main
        versions = tuple(share.version for share in shares)
        return PodRoutes(versions, port["table"], port["rule_priority"], in_table, routes.in_main)


def tuning(port: Port, shares: t.Sequence[Share]) -> list[Object]:
    """Return the CNI plugin that sets the planned sysctls of a pod's interface, for IPv4.

    ``arp_filter`` requires rules by source. Providers with this plugin create them only together with a default route.
    """
    of_ipv4 = [share for share in shares if share.version == 4]
    sysctl = dict(port.get("sysctl") or {}) if of_ipv4 else {}
    if not any(share.default for share in of_ipv4):
        sysctl.pop("arp_filter", None)
    settings = {"net.ipv4.conf.IFNAME.%s" % key: str(value) for key, value in sorted(sysctl.items())}
    return [{"type": "tuning", "sysctl": settings}] if settings else []


def rdma_plugin(network: Network, function: str | None = None) -> list[Object]:
    """Return the CNI plugin that moves the RDMA device into the pod.

    :param function: PCI address of a function that no device plugin allocates; it is passed to the plugin.
    """
    if not network.isolated or network.attachment == "ib-sriov":
        # ib-sriov-cni rebinds the VF's driver and moves the RDMA device itself.
        return []
    return [dict({"type": "rdma"}, **({"deviceID": function} if function else {}))]
