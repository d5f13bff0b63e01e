# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of Kubernetes objects that the plan does not determine: images, namespaces of operators, injection of
networks."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, fields

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import PINS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import OBJECT_KEYS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import (
    BUNDLED,
    UPSTREAM,
    facts_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

SRIOV_NAMESPACE = "sriov-network-operator"

_NVIDIA = "nvidia/mellanox"
_OPERATOR = "network-operator-v" + PINS["network-operator"].version
# Name -> (path below a registry, image, version) of images that objects must name and no chart has a default for. The
# option `registry` sets the registry; `images` replaces a whole image.
IMAGES: dict[str, tuple[str, str, str]] = {
    "driver": (_NVIDIA, "doca-driver", "doca3.4.1-26.04-1.1.0.0-1"),
    "rdma-shared-device-plugin": (_NVIDIA, "k8s-rdma-shared-dev-plugin", _OPERATOR),
    "sriov-device-plugin": (_NVIDIA, "sriov-network-device-plugin", _OPERATOR),
    "cni-plugins": (_NVIDIA, "plugins", _OPERATOR),
    "multus": (_NVIDIA, "multus-cni", _OPERATOR),
    "ipoib": (_NVIDIA, "ipoib-cni", _OPERATOR),
    "nv-ipam": (_NVIDIA, "nvidia-k8s-ipam", _OPERATOR),
    "ib-kubernetes": (_NVIDIA, "ib-kubernetes", _OPERATOR),
    "nic-feature-discovery": (_NVIDIA, "nic-feature-discovery", _OPERATOR),
    "plain-rdma-shared-device-plugin": ("mellanox", "k8s-rdma-shared-dev-plugin", "v1.5.3"),
    "plain-sriov-device-plugin": ("k8snetworkplumbingwg", "sriov-network-device-plugin", "v3.7.0"),
}
# Schedulers of a cluster that read the topology from objects.
SCHEDULERS = ("kueue", "volcano")
# Images without a default version: objects that need them are created only if `images` names them.
UNPINNED = ("test",)


@dataclass(frozen=True)
class Options:
    """All options with their defaults. See ``docs/kubernetes-objects.md``."""

    # Namespace of the provider's operator, and of the SR-IOV operator; "" takes upstream's.
    operator_namespace: str = ""
    sriov_namespace: str = ""
    # The SR-IOV operator of the policies: Spiderpool's fork, upstream's, or none; "": the provider's default.
    sriov_operator: str = ""
    # Units of a shared RDMA resource on each node: a number of tokens, not a share of the port's rate.
    rdma_hca_max: int = 100
    # Injection of networks by a webhook: the group of all rails, and the sizes of groups of consecutive rails.
    injection: bool = True
    injection_groups: tuple[int, ...] = (1, 2, 4)
    # The NIC's driver (the host's, or a container of the network operator), how GPU memory is registered with the NIC,
    # and whether pods have gdrcopy: "" and None take the plan's; if it has none, host, dmabuf and True.
    driver: str = ""
    gpudirect: str = ""
    gdrcopy: bool | None = None
    # InfiniBand: the partition key of all pods' ports, and the secret with which ib-kubernetes talks to UFM.
    pkey: str = ""
    ufm_secret: str = ""
    # VFs at the end of each port's that DPDK gets, on these rails: {rails: [gpu01], vfs: 2, driver: vfio-pci |
    # netdevice}.
    dpdk: t.Mapping[str, t.Any] = field(default_factory=dict)
    cni_version: str = "1.0.0"
    # The pod's first interface, which NCCL's bootstrap uses.
    pod_interface: str = "eth0"
    # Whether to create DaemonSets of device plugins, for the provider `cni`.
    device_plugins: bool = True
    # ConfigMaps with the settings of NCCL, and the MTU in networks of pods; without it, pods get the MTU of the port.
    nccl: bool = True
    # Policies of the Network Operator and of the SR-IOV operator.
    cluster_policy: bool = True
    sriov_policies: bool = True
    network_mtu: bool = True
    metrics: bool = True
    monitoring_namespace: str = ""
    monitoring_labels: t.Mapping[str, str] = field(default_factory=dict)
    grafana_labels: t.Mapping[str, str] = field(default_factory=dict)
    # Labels of nodes by a rule of Node Feature Discovery, for clusters in which nothing else may write to nodes.
    node_feature_rule: bool = False
    # Schedulers that get the topology of the fabric as labels of nodes and objects: kueue, volcano.
    schedulers: tuple[str, ...] = ()
    # The agent's DRA driver: DeviceClasses that serve limits of pods, which Kubernetes stores from 1.36 on.
    extended_resources: bool = True
    workload_namespace: str = "default"
    # Whether playbooks apply the test pods; otherwise users start and delete them.
    test_pods: bool = False
    images: t.Mapping[str, str] = field(default_factory=dict)
    # The registry of all images, or a mirror with its path; empty: upstream's, or the default of a chart.
    registry: str = ""

    @classmethod
    def of(cls, given: t.Mapping[str, t.Any] | None, fabric: t.Mapping[str, t.Any] | None = None) -> Options:
        """Return the options.

        :param fabric: ``railyard_fabric``, whose ``objects`` are the defaults.
        :raises RailyardError: for an unknown option or value.
        """
        known = {each.name: each for each in fields(cls)}
        for key in given or {}:
            if key not in known:
                raise RailyardError(
                    "is not an option%s" % did_you_mean(nearest(str(key), known)),
                    "kubernetes.%s" % key,
                    "use one of the documented options",
                )
        # null is the same as an absent key
        typed = {key: _typed(key, value) for key, value in (given or {}).items() if value is not None}
        options = cls(**{**(fabric or {}).get("objects", {}), **typed})
        options._check()
        return options

    def _check(self) -> None:
        for key, choices in (
            ("driver", ("", "host", "container")),
            ("gpudirect", ("", "dmabuf", "peermem")),
            ("sriov_operator", ("", BUNDLED, UPSTREAM)),
        ):
            if getattr(self, key) not in choices:
                raise RailyardError(
                    "%r is not a valid value" % getattr(self, key),
                    "kubernetes.%s" % key,
                    "use one of %s" % ", ".join(choice or '""' for choice in choices),
                )
        known = sorted((*IMAGES, *UNPINNED))
        for name in self.images:
            if name not in known:
                raise RailyardError(
                    "is not an image%s" % did_you_mean(nearest(name, known)),
                    "kubernetes.images.%s" % name,
                    "use one of %s" % ", ".join(known),
                )
            path, version = _tagged(str(self.images[name]))
            if not path.rpartition("/")[0] or not version:
                raise RailyardError(
                    "%r is not an image with its repository and version" % self.images[name],
                    "kubernetes.images.%s" % name,
                    "write REPOSITORY/IMAGE:VERSION or REPOSITORY/IMAGE@DIGEST",
                )
        if self.test_pods and "test" not in self.images:
            raise RailyardError(
                "is true, but the image of the test pods is not set",
                "kubernetes.test_pods",
                "set kubernetes_options.images.test to an image that has the program sleep",
            )
        if "://" in self.registry:
            raise RailyardError(
                "%r is a URL, which no image's name begins with" % self.registry,
                "kubernetes.registry",
                "write only host, port and path: registry.example.org:5000/mirror",
            )
        if self.pkey and not _partition_key(self.pkey):
            raise RailyardError(
                "%r is not a partition key" % self.pkey,
                "kubernetes.pkey",
                'write 15 bits as hexadecimal text, "0x0000" to "0x7fff"',
            )
        if self.rdma_hca_max < 1:
            raise RailyardError(
                "%r is not a number of shared RDMA resources" % self.rdma_hca_max,
                "kubernetes.rdma_hca_max",
                "set it to 1 or more",
            )

    def operator(self, provider: str) -> str:
        """Return the namespace of the provider's operator."""
        return self.operator_namespace or facts_of(provider).operator_namespace

    def sriov(self, provider: str) -> str:
        """Return who serves SR-IOV policies: ``bundled``, ``upstream`` or an empty string.

        :raises RailyardError: if an operator is set although the provider's agent serves the VFs.
        """
        if self.sriov_operator and facts_of(provider).slots:
            raise RailyardError(
                "with the provider %s, the agent gives VFs to pods, and no SR-IOV operator does" % provider,
                "kubernetes.sriov_operator",
                "remove kubernetes_options.sriov_operator",
            )
        return self.sriov_operator or facts_of(provider).sriov_operator

    def sriov_place(self, provider: str) -> str:
        """Return the namespace in which the SR-IOV operator reads its policies. It ignores other namespaces."""
        if self.sriov_namespace:
            return self.sriov_namespace
        if facts_of(provider).brings_sriov_operator or self.sriov(provider) == BUNDLED:
            return self.operator(provider)
        return SRIOV_NAMESPACE

    def image(self, name: str) -> tuple[str, str, str]:
        """Return repository, image and version.

        :raises RailyardError: if no registry is set.
        """
        if name in self.images:
            path, version = _tagged(self.images[name])
            repository, _slash, image = path.rpartition("/")
            return repository, image, version
        path, image, version = IMAGES[name]
        if not self.registry:
            raise RailyardError(
                "no registry is set for the image %s/%s:%s" % (path, image, version),
                "kubernetes.registry",
                "set kubernetes_options.registry to the registry that has it under this path, or"
                " kubernetes_options.images.%s to the whole image" % name,
            )
        return "%s/%s" % (self.registry.rstrip("/"), path), image, version

    def reference(self, name: str) -> str:
        """Return the reference of an image, as :meth:`image` resolves it."""
        repository, image, version = self.image(name)
        return "%s/%s%s%s" % (repository, image, "@" if version.startswith("sha256:") else ":", version)


_BOOLS = (*OBJECT_KEYS, "gdrcopy", "node_feature_rule", "extended_resources", "test_pods")
_TEXT_MAPPINGS = ("monitoring_labels", "grafana_labels", "images")
_WORDS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_DPDK = {"rails": "a list of rails", "vfs": "a whole number", "driver": "vfio-pci or netdevice"}


def _typed(key: str, value: t.Any) -> t.Any:
    """Return an option's value with its type. Numbers and booleans may be text, which Ansible templates return.

    :raises RailyardError: for a value of another type.
    """
    place = "kubernetes.%s" % key
    if key in _BOOLS:
        return _bool(value, place)
    if key == "rdma_hca_max":
        return _whole(value, place)
    if key == "injection_groups":
        if not isinstance(value, (list, tuple)):
            raise _type_error(value, place, "a list of whole numbers, such as [1, 2, 4]")
        return tuple(_whole(each, place) for each in value)
    if key == "schedulers":
        return _schedulers(value, place)
    if key == "dpdk":
        return _dpdk(value, place)
    if key in _TEXT_MAPPINGS:
        if not isinstance(value, t.Mapping):
            raise _type_error(value, place, "a mapping")
        for name, each in value.items():
            if not isinstance(each, str):
                raise _type_error(each, "%s.%s" % (place, name), "text, in quotes")
        return value
    if not isinstance(value, str):
        raise _type_error(value, place, "text, in quotes")
    return value


def _schedulers(value: t.Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise _type_error(value, place, "a list, such as [kueue]")
    for name in value:
        if name not in SCHEDULERS:
            near = did_you_mean(nearest(str(name), SCHEDULERS))
            remedy = "use %s; Slurm's files are written for a fabric with provider: none" % " or ".join(SCHEDULERS)
            raise RailyardError("%r is not a scheduler that has objects%s" % (name, near), place, remedy)
    return tuple(dict.fromkeys(value))


def _dpdk(value: t.Any, place: str) -> t.Any:
    if not isinstance(value, t.Mapping):
        raise _type_error(value, place, "a mapping, such as {rails: [gpu01], vfs: 2}")
    for name in value:
        if name not in _DPDK:
            near = did_you_mean(nearest(str(name), _DPDK))
            raise RailyardError("is not a key%s" % near, "%s.%s" % (place, name), "use one of %s" % ", ".join(_DPDK))
    made = dict(value)
    rails = made.get("rails", [])
    if not isinstance(rails, (list, tuple)) or not all(isinstance(rail, str) for rail in rails):
        raise _type_error(rails, "%s.rails" % place, _DPDK["rails"])
    if "vfs" in made:
        made["vfs"] = _whole(made["vfs"], "%s.vfs" % place)
    if made.get("driver", "vfio-pci") not in ("vfio-pci", "netdevice"):
        raise _type_error(made["driver"], "%s.driver" % place, _DPDK["driver"])
    return made


def _bool(value: t.Any, place: str) -> bool:
    found = _WORDS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise _type_error(value, place, "true or false")
    return found


def _whole(value: t.Any, place: str) -> int:
    found = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise _type_error(value, place, "a whole number")
    return found


def _type_error(value: t.Any, place: str, wanted: str) -> RailyardError:
    return RailyardError("%r has the wrong type" % (value,), place, "write %s" % wanted)


def _tagged(reference: str) -> tuple[str, str]:
    """Return path and version. A colon before the last slash belongs to a registry's port."""
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
