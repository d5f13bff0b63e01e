# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds that objects of any plan may have, in the order of application, and what installs each kind.

A plan uses a part of them. Objects of an earlier plan with another provider or attachment are found by these kinds.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named

_NFD = "install Node Feature Discovery, or remove kubernetes_options.node_feature_rule: playbooks then label nodes"
_SPIDERPOOL = "install Spiderpool's chart (playbooks/cluster.yml), which installs its CustomResourceDefinitions"
_SRIOV = (
    "install the SR-IOV network operator (playbooks/cluster.yml), which installs its CustomResourceDefinitions:"
    " Spiderpool's chart with sriov.install=true, NVIDIA's with sriovNetworkOperator.enabled=true, or upstream's own"
)
_NETWORK_OPERATOR = (
    "install NVIDIA's network operator (playbooks/cluster.yml), which installs its CustomResourceDefinitions"
)
_NV_IPAM = (
    "NVIDIA's network operator installs it after a NicClusterPolicy with nv-ipam is applied: run"
    " playbooks/cluster.yml, which applies it and waits, or apply it first"
)
_MULTUS = "install Multus (playbooks/cluster.yml), which installs the CustomResourceDefinition"
_DRA = "use Kubernetes 1.34 or later, or set slots.kubelet_plugin of the fabric file to device-plugin"
_MONITORING = "install the Prometheus operator, or set kubernetes_options.metrics to false"
_KUEUE = "install Kueue 0.15 or later, or remove kueue from kubernetes_options.schedulers"
_VOLCANO = "install Volcano 1.14 or later, or remove volcano from kubernetes_options.schedulers"
_SCRAPES = "install the Prometheus operator 0.65 or later, or set fabric.agent.metrics to loopback"

# (apiVersion, kind) -> remedy if a cluster does not have it.
_REMEDIES: dict[tuple[str, str], str] = {
    ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"): _NFD,
    ("v1", "ConfigMap"): "",
    ("apps/v1", "DaemonSet"): "",
    ("sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy"): _SRIOV,
    ("mellanox.com/v1alpha1", "NicClusterPolicy"): _NETWORK_OPERATOR,
    ("mellanox.com/v1alpha1", "NicNodePolicy"): _NETWORK_OPERATOR,
    ("spiderpool.spidernet.io/v2beta1", "SpiderReservedIP"): _SPIDERPOOL,
    ("spiderpool.spidernet.io/v2beta1", "SpiderIPPool"): _SPIDERPOOL,
    ("nv-ipam.nvidia.com/v1alpha1", "IPPool"): _NV_IPAM,
    ("nv-ipam.nvidia.com/v1alpha1", "CIDRPool"): _NV_IPAM,
    ("spiderpool.spidernet.io/v2beta1", "SpiderMultusConfig"): _SPIDERPOOL,
    ("mellanox.com/v1alpha1", "MacvlanNetwork"): _NETWORK_OPERATOR,
    ("mellanox.com/v1alpha1", "HostDeviceNetwork"): _NETWORK_OPERATOR,
    ("mellanox.com/v1alpha1", "IPoIBNetwork"): _NETWORK_OPERATOR,
    ("sriovnetwork.openshift.io/v1", "SriovNetwork"): _SRIOV,
    ("sriovnetwork.openshift.io/v1", "SriovIBNetwork"): _SRIOV,
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"): _MULTUS,
    ("resource.k8s.io/v1", "DeviceClass"): _DRA,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): _DRA,
    ("kueue.x-k8s.io/v1beta2", "Topology"): _KUEUE,
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): _KUEUE,
    ("topology.volcano.sh/v1alpha1", "HyperNode"): _VOLCANO,
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _MONITORING,
    ("monitoring.coreos.com/v1", "PrometheusRule"): _MONITORING,
    ("monitoring.coreos.com/v1alpha1", "ScrapeConfig"): _SCRAPES,
}
KINDS = {kind: named(remedy) for kind, remedy in _REMEDIES.items()}
