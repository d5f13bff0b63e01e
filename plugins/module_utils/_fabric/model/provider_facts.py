# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of providers: the attachments and address modes that each supports, and its properties.

Their Kubernetes objects are in ``_fabric.kubernetes.providers``, one class per provider.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
    HOST,
    INFINIBAND,
    SHARED,
)


@dataclass(frozen=True)
class ProviderFacts:
    """The properties of a provider. The defaults are those of an unknown provider.

    - ``refused_attachments``, ``refused_modes``: unsupported attachments and address modes -> the reason.
    - ``resource_prefix``, ``namespace``: defaults of ``names``; ``namespace`` is that of the networks.
    - ``operator_namespace``: the namespace of its operator.
    - ``sriov_operator``: the SR-IOV operator that reads its policies. ``brings_sriov_operator``: its chart installs it.
    - ``rdma_metrics``: its agent exports the counters of RDMA devices.
    - ``pools``: the addresses of pods are in pool objects. ``pool_per_node``: each node has a pool, unless all nodes
      share the addresses. ``most_pools``: the maximum number of pools. ``lists_addresses``: it keeps each address in
      memory.
    - ``cuts_blocks``: it divides the subnet into blocks for nodes itself, from the first address of the subnet.
    - ``injects``: a webhook adds the networks to pods.
    - ``rule_priority``: the priority of the routing rules that it creates in pods.
    - ``shared_netdevs``: its objects name one netdev for all nodes.
    - ``link_local_gateway``: pods can have a link-local gateway.
    - ``driver_container``: its operator can deploy the NIC driver.
    - ``node_features``: it installs Node Feature Discovery.
    - ``kubernetes``: nodes run pods.
    - ``moves_ipoib``: in the RDMA mode exclusive, it moves IPoIB interfaces with their RDMA devices to pods. The kernel
      removes such an interface when its device moves, and makes another.
    - ``slots``: an agent on each node gives pods the slots of the plan; the cluster has no network objects.
    """

    name: str = ""
    refused_attachments: t.Mapping[str, str] = field(default_factory=dict)
    refused_modes: t.Mapping[str, str] = field(default_factory=dict)
    resource_prefix: str = "rdma"
    namespace: str = "default"
    operator_namespace: str = "kube-system"
    sriov_operator: str = ""
    brings_sriov_operator: bool = False
    rdma_metrics: bool = False
    pools: bool = True
    pool_per_node: bool = True
    cuts_blocks: bool = False
    lists_addresses: bool = False
    most_pools: int | None = None
    injects: bool = False
    rule_priority: int | None = None
    shared_netdevs: bool = True
    link_local_gateway: bool = True
    driver_container: bool = True
    node_features: bool = False
    kubernetes: bool = True
    slots: bool = False
    moves_ipoib: bool = True

    @property
    def networks(self) -> bool:
        """Whether pods request networks by name, which are objects of the cluster."""
        return self.kubernetes and not self.slots

    @property
    def own_tables(self) -> bool:
        """Whether pods have the planned routing table of each rail, with rules by source and by interface."""
        return self.kubernetes and not self.pools

    def refused(self, attachment: str | None) -> str | None:
        """Return why it does not support an attachment; None if it does."""
        if attachment == HOST and self.kubernetes:
            return "it is for nodes without Kubernetes, whose processes use the ports themselves"
        if attachment and attachment != HOST and not self.kubernetes:
            return "without Kubernetes there are no pods to attach"
        return self.refused_attachments.get(attachment or "")

    def mode_refused(self, mode: str | None) -> str | None:
        """Return why it does not support an address mode; None if it does."""
        return self.refused_modes.get(mode or "")

    def rdma_modes(self, attachment: str | None, link_layer: str | None) -> tuple[str, ...]:
        """Return the supported RDMA modes of an attachment, the default first; shared for an unknown one."""
        known = ATTACHMENTS.get(attachment or "")
        modes = known.modes if known else (SHARED,)
        if link_layer == INFINIBAND and not self.moves_ipoib:
            modes = tuple(mode for mode in modes if mode != EXCLUSIVE)
        return modes

    @property
    def served(self) -> list[str]:
        """The attachments that it supports."""
        return [name for name in ATTACHMENTS if not self.refused(name)]


BUNDLED = "bundled"
UPSTREAM = "upstream"

SPIDERPOOL = ProviderFacts(
    "spiderpool",
    {"host-device": "its networks (SpiderMultusConfig) are macvlan, ipvlan, sriov, ib-sriov and ipoib"},
    resource_prefix="spidernet.io",
    namespace="kube-system",
    operator_namespace="spiderpool",
    sriov_operator=BUNDLED,
    rdma_metrics=True,
    lists_addresses=True,
    most_pools=4096,
    injects=True,
    rule_priority=1000,
    link_local_gateway=False,
    driver_container=False,
)
OPERATOR = ProviderFacts(
    "network-operator",
    {"ipvlan": "it has networks only for macvlan, host-device, ipoib, sriov and ib-sriov"},
    {"block": "nv-ipam selects the block of each node itself"},
    resource_prefix="nvidia.com",
    operator_namespace="nvidia-network-operator",
    sriov_operator=UPSTREAM,
    brings_sriov_operator=True,
    pool_per_node=False,
    cuts_blocks=True,
    link_local_gateway=False,
    node_features=True,
)
CNI = ProviderFacts(
    "cni",
    {
        "ib-sriov": "each VF needs a GUID that the subnet manager knows, and only operators provide that",
        "ipoib": "the ipoib plugin comes with an operator, not with the plain plugins",
    },
    {"subnet": "plain plugins do not know which addresses other nodes have assigned"},
    pools=False,
    shared_netdevs=False,
    driver_container=False,
)
AGENT = ProviderFacts(
    "agent",
    resource_prefix="railyard.fabric",
    pools=False,
    pool_per_node=False,
    shared_netdevs=False,
    driver_container=False,
    slots=True,
    moves_ipoib=False,
)
# Nodes without Kubernetes, such as those of Slurm.
NO_KUBERNETES = ProviderFacts(
    "none",
    refused_modes={"block": "it divides the addresses of pods"},
    pools=False,
    driver_container=False,
    kubernetes=False,
)
PROVIDERS = {facts.name: facts for facts in (SPIDERPOOL, OPERATOR, CNI, AGENT, NO_KUBERNETES)}
_UNKNOWN = ProviderFacts()


def facts_of(provider: str | None) -> ProviderFacts:
    """Return the properties of a provider; the defaults for an unknown one."""
    return PROVIDERS.get(provider or "", _UNKNOWN)
