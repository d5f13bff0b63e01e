# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What each provider serves and what follows from it: the one table. Its Kubernetes objects are in
``_fabric.kubernetes.providers``, one class per provider.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS, HOST


@dataclass(frozen=True)
class ProviderFacts:
    """The defaults hold where the provider is unknown. ``kubernetes``: whether there are pods at all.

    ``refused_attachments`` and ``refused_modes``: what it does not serve -> why. ``namespace``: of the networks;
    ``operator_namespace``: of its operator. ``sriov_operator``: which SR-IOV operator reads its policies,
    ``brings_sriov_operator``: its own chart installs that one. ``rdma_metrics``: its agent exports the RDMA counters.
    ``pools``: pods' addresses are objects of the cluster, ``pool_per_node``: one for each node where a node has
    addresses of its own. ``cuts_blocks``: it cuts the nodes' blocks itself, from the subnet's first address on.
    ``lists_addresses``: it holds each address of a pool in memory. ``most_pools``: how many pools it can serve.
    ``injects``: a webhook adds the networks to pods. ``rule_priority``: of the rules that it makes in pods.
    ``shared_netdevs``: its objects name a netdev once for all nodes. ``link_local_gateway``: pods can have one.
    ``driver_container``: its operator deploys the NIC driver. ``node_features``: it brings Node Feature Discovery.
    ``slots``: an agent on each node gives pods the slots of the plan, and no network is an object of the cluster.
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

    @property
    def networks(self) -> bool:
        """Whether pods ask for networks by name, which are objects of the cluster."""
        return self.kubernetes and not self.slots

    def refused(self, attachment: str | None) -> str | None:
        """Why it does not serve an attachment; None where it does."""
        if attachment == HOST and self.kubernetes:
            return "it is for nodes without Kubernetes, whose processes use the ports themselves"
        if attachment and attachment != HOST and not self.kubernetes:
            return "without Kubernetes there are no pods to attach"
        return self.refused_attachments.get(attachment or "")

    def mode_refused(self, mode: str | None) -> str | None:
        """Why it cannot give pods their addresses in an address mode; None where it can."""
        return self.refused_modes.get(mode or "")

    @property
    def served(self) -> list[str]:
        """The attachments that it serves."""
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
    {"ipvlan": "it has networks for macvlan, host-device, ipoib, sriov and ib-sriov alone"},
    {"block": "nv-ipam chooses itself which node gets which block"},
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
    {"subnet": "plain plugins know of no address that another node has given out"},
    pools=False,
    shared_netdevs=False,
    driver_container=False,
)
AGENT = ProviderFacts(
    "agent",
    {
        "ib-sriov": "each VF needs a GUID that the subnet manager knows, and the agent does not set GUIDs",
        "ipoib": "the agent does not make child interfaces of InfiniBand ports",
    },
    resource_prefix="railyard.fabric",
    pools=False,
    pool_per_node=False,
    shared_netdevs=False,
    driver_container=False,
    slots=True,
)
# Nodes without Kubernetes, such as those of Slurm.
NO_KUBERNETES = ProviderFacts(
    "none",
    refused_modes={"block": "it divides the addresses of pods"},
    pools=False,
    driver_container=False,
    kubernetes=False,
)
PROVIDERS = {each.name: each for each in (SPIDERPOOL, OPERATOR, CNI, AGENT, NO_KUBERNETES)}
_UNKNOWN = ProviderFacts()


def facts_of(provider: str | None) -> ProviderFacts:
    """The facts of a provider by its name; those of an unknown one where the name could not be read."""
    return PROVIDERS.get(provider or "", _UNKNOWN)
