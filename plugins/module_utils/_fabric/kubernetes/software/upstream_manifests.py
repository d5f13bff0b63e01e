# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Upstream's manifests of Calico, Flannel and Multus with what this cluster wants of them: the interface between nodes,
the MTU, the pods' network, the paths of the kubelet's CNI, and the registry.

Everything that is set has its place in the manifest; a manifest without that place is refused, so that no setting is
lost when upstream moves things.
"""

from __future__ import annotations

import copy
import json
import re
import typing as t
from dataclasses import dataclass, fields

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import device_plugins
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software.chart_values import relocated
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import software_versions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Object, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

DEFINITION = "CustomResourceDefinition"
BIN, CONF = "/opt/cni/bin", "/etc/cni/net.d"
INSTALLATION = "operator.tigera.io/v1"
# The order of application; what is not here comes at the end.
ORDER: tuple[tuple[str, str], ...] = (
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    (INSTALLATION, "Installation"),
)
ENCAPSULATIONS = ("IPIP", "IPIPCrossSubnet", "VXLAN", "VXLANCrossSubnet", "None")
_EMPTY_MEANS_NONE = ("rules", "ingress", "egress")
BACKENDS = ("vxlan", "host-gw", "wireguard")


@dataclass(frozen=True)
class Settings:
    """What a cluster wants of its pod network. Empty: as the manifest has it."""

    #: the netdev between nodes; Flannel takes one name, Calico what its documentation calls a regular expression
    interface: str = ""
    #: Calico: how it finds the node's address instead, such as ``kubernetes-internal-ip`` or ``cidr=10.1.0.0/16``
    autodetection: str = ""
    #: bytes, of pods' interfaces; 0 leaves it to be found out
    mtu: int = 0
    pod_cidr: str = ""
    #: Calico's word for its address pool's encapsulation, Flannel's for its backend
    encapsulation: str = ""
    #: where the kubelet's container runtime looks: other than the usual in K3s and RKE2
    bin_dir: str = ""
    conf_dir: str = ""

    @classmethod
    def of(cls, name: str, given: t.Mapping[str, t.Any]) -> Settings:
        """:raises RailyardError: for all that is not as it must be, at once."""
        known = _TAKES[name]
        errors = [
            RailyardError(
                "%s has no such setting%s" % (name, did_you_mean(nearest(str(key), known))),
                "%s: settings.%s" % (name, key),
                "take one of %s" % ", ".join(known),
            )
            for key in given
            if key not in known
        ]
        kinds = {each.name: int if each.name == "mtu" else str for each in fields(cls)}
        for key, value in given.items():
            if key in known and (not isinstance(value, kinds[key]) or isinstance(value, bool)):
                what = "a number" if kinds[key] is int else "a text"
                errors.append(
                    RailyardError("%r is not %s" % (value, what), "%s: settings.%s" % (name, key), "correct it")
                )
        raise_all(errors)
        made = cls(**given)
        raise_all(list(made._wrong(name)))
        return made

    def _wrong(self, name: str) -> t.Iterator[RailyardError]:
        def error(key: str, message: str, remedy: str) -> RailyardError:
            return RailyardError(message, "%s: settings.%s" % (name, key), remedy)

        if self.mtu and not 576 <= self.mtu <= 65535:
            yield error("mtu", "%d is not an MTU of pods" % self.mtu, "take 576 to 65535, or 0 to let it be found out")
        if self.pod_cidr and _network(self.pod_cidr) is None:
            yield error(
                "pod_cidr", "%r is not a network" % self.pod_cidr, "write it as 10.244.0.0/16, without host bits"
            )
        choices = BACKENDS if name == "flannel" else ENCAPSULATIONS
        if self.encapsulation and self.encapsulation not in choices:
            yield error(
                "encapsulation",
                "%r is not an encapsulation" % self.encapsulation,
                "take one of %s" % ", ".join(choices),
            )
        if self.interface and self.autodetection:
            yield error("autodetection", "sets the same as interface in another way", "leave one of the two out")
        if name == "calico" and self.interface and not _regex(self.interface):
            yield error("interface", "%r is not a regular expression" % self.interface, "write a name such as eth0")
        if self.autodetection and not _AUTODETECTION.match(self.autodetection):
            yield error(
                "autodetection",
                "%r is not one of Calico's methods" % self.autodetection,
                "write first-found, kubernetes-internal-ip, can-reach=ADDRESS, interface=NAMES, skip-interface=NAMES or"
                " cidr=NETWORKS",
            )
        for key in ("bin_dir", "conf_dir"):
            path = getattr(self, key)
            if path and (not path.startswith("/") or path.rstrip("/") == ""):
                yield error(key, "%r is not a directory of a node" % path, "write its whole path")


_TAKES: dict[str, tuple[str, ...]] = {
    "calico": tuple(each.name for each in fields(Settings)),
    "flannel": ("interface", "mtu", "pod_cidr", "encapsulation", "bin_dir", "conf_dir"),
    "multus": ("bin_dir", "conf_dir"),
}
_AUTODETECTION = re.compile(r"first-found\Z|kubernetes-internal-ip\Z|(?:can-reach|interface|skip-interface|cidr)=\S+\Z")


def on_rails(name: str, settings: Settings, view: View) -> None:
    """The pod network is not a rail's: it would carry all else there, and a rail's failure would take the cluster down.

    :raises RailyardError: where the interface between nodes is, or for Calico matches, a rail port's netdev; where
        Flannel's can be none.
    """
    key, interface = "interface", settings.interface
    method, _equals, value = settings.autodetection.partition("=")
    if method == "interface":
        key, interface = "autodetection", value
    if name == "flannel":
        if interface and not re.match(r"[\w.:-]+\Z", interface):
            raise RailyardError(
                "%s is neither an interface's name nor an address, and flanneld takes no pattern" % interface,
                "flannel: settings.interface",
                "name the interface that carries the nodes' own addresses",
            )
        # flanneld takes the one name as it is
        words = [re.escape(interface) + r"\Z"] if interface else []
        remedy = "name the one that carries the nodes' own addresses"
    else:
        words = [each for each in interface.split(",") if each and _regex(each)]
        remedy = "name the one that carries the nodes' own addresses, anchored where names begin alike: ^eth0$"
    for node in view.nodes if words else ():
        for port in node["ports"]:
            netdev = port["netdev"]
            found = re.match if name == "flannel" else re.search
            if netdev and any(found(each, netdev) for each in words):
                raise RailyardError(
                    "%s is %s, the port of rail %s on node %s" % (interface, netdev, port["rail"], node["name"]),
                    "%s: settings.%s" % (name, key),
                    remedy,
                )


def adjusted(
    name: str, way: str, documents: t.Iterable[Object], settings: Settings, registry: str, version: str
) -> tuple[list[Object], list[Object]]:
    """The manifest's CustomResourceDefinitions, and its other objects in the order of application.

    :raises RailyardError: where the manifest has no place for something that is set.
    """
    objects = [copy.deepcopy(each) for each in documents]
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    if name == "calico" and way == "operator":
        objects.append(_installation(settings, registry))
        _paths(found, "calico", settings, needed=False)
    elif name == "calico":
        _calico(found, settings)
    elif name == "flannel":
        _flannel(found, settings)
    else:
        _multus(found, settings, version)
    for each in objects:
        if registry:
            for container in _containers(each):
                container["image"] = relocated(container["image"], registry)
        _plain(each)
        if each["kind"] != DEFINITION:
            each["metadata"].setdefault("labels", {}).update(software_versions.labels(name))
    order = {kind: number for number, kind in enumerate(ORDER)}
    rest = [each for each in objects if each["kind"] != DEFINITION]
    rest.sort(key=lambda each: order.get((each["apiVersion"], each["kind"]), len(order)))
    return [each for each in objects if each["kind"] == DEFINITION], rest


def _calico(found: t.Mapping[tuple[str, str], Object], settings: Settings) -> None:
    node = _needed(found, "calico", "DaemonSet", "calico-node")
    (container,) = [each for each in _pod(node)["containers"] if each["name"] == "calico-node"]
    way = settings.autodetection or ("interface=" + settings.interface if settings.interface else "")
    if way:
        _env(container, "IP_AUTODETECTION_METHOD", way)
    if settings.pod_cidr:
        _env(container, "CALICO_IPV4POOL_CIDR", settings.pod_cidr)
    if settings.encapsulation:
        kind, cross = re.sub("CrossSubnet$", "", settings.encapsulation), "CrossSubnet" in settings.encapsulation
        for tunnel in ("IPIP", "VXLAN"):
            mode = "Never" if kind != tunnel else "CrossSubnet" if cross else "Always"
            _env(container, "CALICO_IPV4POOL_" + tunnel, mode)
    if settings.mtu:
        data = _needed(found, "calico", "ConfigMap", "calico-config")["data"]
        if "veth_mtu" not in data:
            raise _no_place("calico", "mtu", "ConfigMap calico-config: data.veth_mtu")
        data["veth_mtu"] = str(settings.mtu)
    _paths(found, "calico", settings)


def _installation(settings: Settings, registry: str) -> Object:
    """The operator's own description of what it installs."""
    network: Object = {}
    if settings.mtu:
        network["mtu"] = settings.mtu
    method, _equals, value = settings.autodetection.partition("=")
    if settings.interface or method == "interface":
        network["nodeAddressAutodetectionV4"] = {"interface": settings.interface or value}
    elif method:
        network["nodeAddressAutodetectionV4"] = {
            "first-found": {"firstFound": True},
            "kubernetes-internal-ip": {"kubernetes": "NodeInternalIP"},
            "can-reach": {"canReach": value},
            "skip-interface": {"skipInterface": value},
            "cidr": {"cidrs": value.split(",")},
        }[method]
    if settings.pod_cidr:
        network["ipPools"] = [
            {
                "name": "default-ipv4-ippool",
                "cidr": settings.pod_cidr,
                "encapsulation": settings.encapsulation or "VXLANCrossSubnet",
                "natOutgoing": "Enabled",
                "nodeSelector": "all()",
            }
        ]
    elif settings.encapsulation:
        raise RailyardError(
            "the operator takes it with the pool that it is of",
            "calico: settings.encapsulation",
            "set settings.pod_cidr as well",
        )
    spec: Object = {"variant": "Calico"}
    if network:
        spec["calicoNetwork"] = network
    if registry:
        spec["registry"] = registry.rstrip("/") + "/"
    return {"apiVersion": INSTALLATION, "kind": "Installation", "metadata": {"name": "default"}, "spec": spec}


def _flannel(found: t.Mapping[tuple[str, str], Object], settings: Settings) -> None:
    data = _needed(found, "flannel", "ConfigMap", "kube-flannel-cfg")["data"]
    network = json.loads(data["net-conf.json"])
    if settings.pod_cidr:
        network["Network"] = settings.pod_cidr
    if settings.encapsulation:
        network["Backend"] = {"Type": settings.encapsulation}
    if settings.mtu:
        network["Backend"]["MTU"] = settings.mtu
    data["net-conf.json"] = json.dumps(network, indent=2) + "\n"
    daemon = _needed(found, "flannel", "DaemonSet", "kube-flannel-ds")
    pod = _pod(daemon)
    if settings.interface:
        (container,) = [each for each in pod["containers"] if each["name"] == "kube-flannel"]
        container["args"] = [each for each in container["args"] if not each.startswith("--iface")]
        container["args"].append("--iface=" + settings.interface)
    # flanneld reads its configuration once
    _restarting(daemon, data)
    _paths(found, "flannel", settings)


def _multus(found: t.Mapping[tuple[str, str], Object], settings: Settings, version: str) -> None:
    daemon = _needed(found, "multus", "DaemonSet", "kube-multus-ds")
    pod = _pod(daemon)
    for container in [*pod["containers"], *pod["initContainers"]]:
        # upstream's manifest names the build of the day
        container["image"] = re.sub(r":snapshot-thick\Z", ":%s-thick" % version, container["image"])
    data = _needed(found, "multus", "ConfigMap", "multus-daemon-config")["data"]
    if settings.bin_dir:
        # the daemon starts plugins in the host's root, by the path that they have there
        conf = json.loads(data["daemon-config.json"])
        conf["binDir"] = settings.bin_dir
        data["daemon-config.json"] = json.dumps(conf, indent=4) + "\n"
        (main,) = [each for each in pod["containers"] if each["name"] == "kube-multus"]
        for mount in main["volumeMounts"]:
            if mount["mountPath"] == BIN:
                mount["mountPath"] = settings.bin_dir
    _restarting(daemon, data)
    _paths(found, "multus", settings)


def _paths(found: t.Mapping[tuple[str, str], Object], name: str, settings: Settings, needed: bool = True) -> None:
    """The directories of the node that pods mount. A manifest of an operator has none; it finds them out itself."""
    for key, usual, wanted in (("bin_dir", BIN, settings.bin_dir), ("conf_dir", CONF, settings.conf_dir)):
        if not wanted or wanted == usual:
            continue
        volumes = [
            volume["hostPath"]
            for (kind, _name), each in found.items()
            if kind in ("DaemonSet", "Deployment")
            for volume in _pod(each).get("volumes") or ()
            if (volume.get("hostPath") or {}).get("path", "").rstrip("/") == usual
        ]
        if not volumes:
            where = "a volume of %s" % usual if needed else "it: the operator finds the directories out itself"
            raise _no_place(name, key, where)
        for volume in volumes:
            volume["path"] = wanted


def _restarting(daemon: Object, data: t.Mapping[str, str]) -> None:
    metadata = daemon["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("annotations", {})[device_plugins.CONFIG] = device_plugins.digest(dict(data))


def _needed(found: t.Mapping[tuple[str, str], Object], name: str, kind: str, which: str) -> Object:
    if (kind, which) not in found:
        raise _no_place(name, "", "%s %s" % (kind, which))
    return found[kind, which]


def _no_place(name: str, key: str, what: str) -> RailyardError:
    return RailyardError(
        "upstream's manifest has no %s" % what,
        "%s: settings.%s" % (name, key) if key else name,
        "take the manifest of release %s, or leave the setting out" % software_versions.PINS[name].version,
    )


def _env(container: Object, name: str, value: str) -> None:
    """In the place of the variable, where it has one: the last of two would count."""
    for each in container["env"]:
        if each["name"] == name:
            each.clear()
            each.update(name=name, value=value)
            return
    container["env"].append({"name": name, "value": value})


def _pod(found: Object) -> Object:
    pod: Object = found["spec"]["template"]["spec"]
    return pod


def _containers(found: Object) -> list[Object]:
    if found["kind"] not in ("DaemonSet", "Deployment"):
        return []
    pod = _pod(found)
    return [*(pod.get("initContainers") or ()), *pod["containers"]]


def _plain(found: Object) -> None:
    """Remove what a server writes itself, and empty values: neither comes back as it was sent."""
    found.pop("status", None)
    found["metadata"].pop("creationTimestamp", None)
    _drop_empty(found)


def _drop_empty(value: t.Any) -> None:
    """Nulls, empty lists and empty values of variables: a server leaves them out. Empty mappings it keeps."""
    if isinstance(value, dict):
        for key in [key for key, each in value.items() if _empty(key, each, value)]:
            del value[key]
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _drop_empty(each)


def _empty(key: str, value: t.Any, within: t.Mapping[str, t.Any]) -> bool:
    if value is None:
        return True
    variable = key == "value" and set(within) == {"name", "value"}
    # in rules, an empty list means "none"
    return (value == [] and key not in _EMPTY_MEANS_NONE) or (value == "" and variable)


def _network(text: str) -> ip_integers.Network | None:
    """A network of either family, None where it is not one or has bits behind its prefix."""
    bits = ip_integers.bits_of(text)
    found = ip_integers.parse_network(text, bits)
    if found is None:
        return None
    network = ip_integers.network(*found, bits)
    return network if network.first == found[0] else None


def _regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
