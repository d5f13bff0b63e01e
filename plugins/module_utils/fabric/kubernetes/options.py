# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the user may say about Kubernetes objects beside the plan: images, namespaces of operators, how pods get their
networks.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, fields

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.names import did_you_mean, nearest

BUNDLED = "bundled"
UPSTREAM = "upstream"
# Where each operator lives when nothing else is said.
OPERATOR_NAMESPACE = {"spiderpool": "spiderpool", "network-operator": "nvidia-network-operator", "cni": "kube-system"}
SRIOV_NAMESPACE = "sriov-network-operator"

# name: (repository, image, version). One place for all that objects name; `images` overrides by name, `registry` the
# registry of all.
IMAGES: dict[str, tuple[str, str, str]] = {
    "driver": ("nvcr.io/nvidia/mellanox", "doca-driver", "doca3.3.0-26.01-0.7.1.0-0"),
    "rdma-shared-device-plugin": ("nvcr.io/nvidia/mellanox", "k8s-rdma-shared-dev-plugin", "network-operator-v26.1.0"),
    "sriov-device-plugin": ("nvcr.io/nvidia/mellanox", "sriov-network-device-plugin", "network-operator-v26.1.0"),
    "cni-plugins": ("nvcr.io/nvidia/mellanox", "plugins", "network-operator-v26.1.0"),
    "rdma-cni": ("nvcr.io/nvidia/mellanox", "rdma-cni", "network-operator-v26.1.0"),
    "multus": ("nvcr.io/nvidia/mellanox", "multus-cni", "network-operator-v26.1.0"),
    "ipoib": ("nvcr.io/nvidia/mellanox", "ipoib-cni", "network-operator-v26.1.0"),
    "nv-ipam": ("nvcr.io/nvidia/mellanox", "nvidia-k8s-ipam", "network-operator-v26.1.0"),
    "ib-kubernetes": ("nvcr.io/nvidia/mellanox", "ib-kubernetes", "network-operator-v26.1.0"),
    "nic-feature-discovery": ("nvcr.io/nvidia/mellanox", "nic-feature-discovery", "network-operator-v26.1.0"),
    "plain-rdma-shared-device-plugin": ("ghcr.io/mellanox", "k8s-rdma-shared-dev-plugin", "v1.5.3"),
    "plain-sriov-device-plugin": ("ghcr.io/k8snetworkplumbingwg", "sriov-network-device-plugin", "v3.7.0"),
}
# Images without a version of our own choice: what needs them is made once `images` names them.
UNPINNED = ("test",)


@dataclass(frozen=True)
class Options:
    """Every option with its default; ``docs/kubernetes-objects.md`` tells them to users."""

    # Namespace of the provider's operator, and of the SR-IOV operator; "" takes upstream's.
    operator_namespace: str = ""
    sriov_namespace: str = ""
    # Which SR-IOV operator the policies are for: Spiderpool's own fork, upstream's, or none ("" takes the provider's).
    sriov_operator: str = ""
    # Units that a shared RDMA resource has on each node: a token count, not a share of the port's rate.
    rdma_hca_max: int = 100
    # Names into pods by webhook: the group of all rails, and groups of so many neighbouring rails.
    injection: bool = True
    injection_groups: tuple[int, ...] = (1, 2, 4)
    # The NIC's driver: the host's, or a container of the network operator.
    driver: str = "host"
    # How GPU memory is registered with the NIC.
    gpudirect: str = "dmabuf"
    gdrcopy: bool = True
    # InfiniBand: the partition key of all pods' ports, and the secret with which ib-kubernetes talks to UFM.
    pkey: str = ""
    ufm_secret: str = ""
    # VFs at the end of each port's that DPDK gets, on these rails: {rails: [gpu01], vfs: 2, driver: vfio-pci |
    # netdevice}.
    dpdk: t.Mapping[str, t.Any] = field(default_factory=dict)
    cni_version: str = "1.0.0"
    # The pod's first interface: what NCCL's bootstrap talks over.
    pod_interface: str = "eth0"
    # Device plugins as DaemonSets of our own, for the provider `cni`.
    device_plugins: bool = True
    metrics: bool = True
    monitoring_namespace: str = ""
    monitoring_labels: t.Mapping[str, str] = field(default_factory=dict)
    grafana_labels: t.Mapping[str, str] = field(default_factory=dict)
    # Labels of nodes by a rule of Node Feature Discovery, for those who let nobody write to nodes.
    node_feature_rule: bool = False
    workload_namespace: str = "default"
    images: t.Mapping[str, str] = field(default_factory=dict)
    registry: str = ""

    @classmethod
    def of(cls, given: t.Mapping[str, t.Any] | None) -> Options:
        """:raises RailyardError: for an option that is none, or a value that is none of its choices."""
        known = {each.name: each for each in fields(cls)}
        for key in given or {}:
            if key not in known:
                raise RailyardError(
                    "is not an option%s" % did_you_mean(nearest(str(key), known)),
                    "kubernetes.%s" % key,
                    "take one of the documented options",
                )
        options = cls(**{**(given or {}), **_tuples(given or {})})
        options._check()
        return options

    def _check(self) -> None:
        for key, choices in (
            ("driver", ("host", "container")),
            ("gpudirect", ("dmabuf", "peermem")),
            ("sriov_operator", ("", BUNDLED, UPSTREAM)),
        ):
            if getattr(self, key) not in choices:
                raise RailyardError(
                    "%r is none of its values" % getattr(self, key),
                    "kubernetes.%s" % key,
                    "take one of %s" % ", ".join(choice or '""' for choice in choices),
                )
        known = sorted((*IMAGES, *UNPINNED))
        for name in self.images:
            if name not in known:
                raise RailyardError(
                    "is no image%s" % did_you_mean(nearest(name, known)),
                    "kubernetes.images.%s" % name,
                    "take one of %s" % ", ".join(known),
                )
            path, version = _tagged(str(self.images[name]))
            if not path.rpartition("/")[0] or not version:
                raise RailyardError(
                    "%r is no image with its repository and version" % self.images[name],
                    "kubernetes.images.%s" % name,
                    "write REPOSITORY/IMAGE:VERSION or REPOSITORY/IMAGE@DIGEST",
                )
        if self.pkey and not _partition_key(self.pkey):
            raise RailyardError(
                "%r is no partition key" % self.pkey,
                "kubernetes.pkey",
                'write 15 bits as hexadecimal text, "0x0000" to "0x7fff"',
            )
        if self.rdma_hca_max < 1:
            raise RailyardError(
                "%r gives nodes no shared RDMA resource" % self.rdma_hca_max,
                "kubernetes.rdma_hca_max",
                "take 1 or more",
            )

    def operator(self, provider: str) -> str:
        """The namespace of the provider's operator."""
        return self.operator_namespace or OPERATOR_NAMESPACE[provider]

    def sriov(self, provider: str) -> str:
        """``bundled``, ``upstream`` or nothing: who serves SR-IOV policies."""
        return self.sriov_operator or {"spiderpool": BUNDLED, "network-operator": UPSTREAM}.get(provider, "")

    def sriov_place(self, provider: str) -> str:
        """The namespace in which the SR-IOV operator reads its policies; elsewhere it ignores them."""
        if self.sriov_namespace:
            return self.sriov_namespace
        if provider == "network-operator" or self.sriov(provider) == BUNDLED:
            return self.operator(provider)
        return SRIOV_NAMESPACE

    def image(self, name: str) -> tuple[str, str, str]:
        """Repository, image and version."""
        if name in self.images:
            path, version = _tagged(self.images[name])
            repository, _slash, image = path.rpartition("/")
        else:
            repository, image, version = IMAGES[name]
        if self.registry:
            repository = "/".join([self.registry.rstrip("/")] + repository.split("/")[1:])
        return repository, image, version

    def reference(self, name: str) -> str:
        repository, image, version = self.image(name)
        return "%s/%s%s%s" % (repository, image, "@" if version.startswith("sha256:") else ":", version)


def _tuples(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"injection_groups": tuple(given["injection_groups"])} if "injection_groups" in given else {}


def _tagged(reference: str) -> tuple[str, str]:
    """Path and version; a colon before the last slash is a registry's port."""
    if "@" in reference:
        path, _at, digest = reference.partition("@")
        return path, digest
    path, _slash, last = reference.rpartition("/")
    image, _colon, version = last.partition(":")
    return "%s/%s" % (path, image), version


def _partition_key(text: str) -> bool:
    try:
        return text.startswith("0x") and int(text, 16) == int(text, 16) & 0x7FFF
    except (TypeError, ValueError):
        return False
