# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manifests of Calico, Flannel and Multus with the settings of this cluster.

Settings are the interface between nodes, the MTU, the pod network, the CNI directories of the kubelet, and the
registry. Each setting replaces a field of the manifest. A manifest without that field is refused, so that no setting is
lost when upstream changes it.
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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import each_netdev
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

DEFINITION = "CustomResourceDefinition"
BIN, CONF = "/opt/cni/bin", "/etc/cni/net.d"
INSTALLATION = "operator.tigera.io/v1"
# The order of application; other kinds come last.
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
    """The settings of a cluster's pod network. Empty: as in the manifest."""

    #: the netdev between nodes; for Flannel one name, for Calico regular expressions joined by commas
    interface: str = ""
    #: Calico: another way to find the node's address, such as ``kubernetes-internal-ip`` or ``cidr=10.1.0.0/16``
    autodetection: str = ""
    #: MTU of pods in bytes; 0: detected by the software
    mtu: int = 0
    pod_cidr: str = ""
    #: the encapsulation of Calico's address pool, or Flannel's backend
    encapsulation: str = ""
    #: directories of the container runtime, which differ from the default in K3s and RKE2
    bin_dir: str = ""
    conf_dir: str = ""

    @classmethod
    def of(cls, name: str, given: t.Mapping[str, t.Any]) -> Settings:
        """Return the settings.

        :raises RailyardError: for all invalid ones at once.
        """
        known = _SETTINGS_OF[name]
        errors = [
            RailyardError(
                "%s has no such setting%s" % (name, did_you_mean(nearest(str(key), known))),
                "%s: settings.%s" % (name, key),
                "use one of %s" % ", ".join(known),
            )
            for key in given
            if key not in known
        ]
        kinds = {each.name: int if each.name == "mtu" else str for each in fields(cls)}
        for key, value in given.items():
            if key in known and (not isinstance(value, kinds[key]) or isinstance(value, bool)):
                expected = "a number" if kinds[key] is int else "a text"
                errors.append(
                    RailyardError("%r is not %s" % (value, expected), "%s: settings.%s" % (name, key), "correct it")
                )
        raise_all(errors)
        settings = cls(**given)
        raise_all(list(settings._errors(name)))
        return settings

    def _errors(self, name: str) -> t.Iterator[RailyardError]:
        """Yield an error for each invalid value."""

        def error(key: str, message: str, remedy: str) -> RailyardError:
            return RailyardError(message, "%s: settings.%s" % (name, key), remedy)

        if self.mtu and not 576 <= self.mtu <= 65535:
            yield error("mtu", "%d is not an MTU of pods" % self.mtu, "use 576 to 65535, or 0 to detect it")
        if self.pod_cidr and ip_integers.network_of(self.pod_cidr, exact=True) is None:
            yield error(
                "pod_cidr", "%r is not a network" % self.pod_cidr, "write it as 10.244.0.0/16, without host bits"
            )
        choices = BACKENDS if name == "flannel" else ENCAPSULATIONS
        if self.encapsulation and self.encapsulation not in choices:
            yield error(
                "encapsulation", "%r is not an encapsulation" % self.encapsulation, "use one of %s" % ", ".join(choices)
            )
        if self.interface and self.autodetection:
            yield error("autodetection", "selects the address, as interface does", "remove one of the two")
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
                yield error(key, "%r is not a directory of a node" % path, "write an absolute path")


_SETTINGS_OF: dict[str, tuple[str, ...]] = {
    "calico": tuple(each.name for each in fields(Settings)),
    "flannel": ("interface", "mtu", "pod_cidr", "encapsulation", "bin_dir", "conf_dir"),
    "multus": ("bin_dir", "conf_dir"),
}
_AUTODETECTION = re.compile(r"first-found\Z|kubernetes-internal-ip\Z|(?:can-reach|interface|skip-interface|cidr)=\S+\Z")


def on_rails(name: str, settings: Settings, view: View) -> None:
    """Check that the pod network does not use a rail.

    It would add other traffic to the rail, and a failed rail would disconnect the nodes.

    :raises RailyardError: if the interface between nodes is a rail port's netdev (for Calico: matches one), or is
        invalid for Flannel.
    """
    key, interface = "interface", settings.interface
    method, _equals, value = settings.autodetection.partition("=")
    if method == "interface":
        key, interface = "autodetection", value
    if name == "flannel":
        if interface and not re.match(r"[\w.:-]+\Z", interface):
            raise RailyardError(
                "%s is not the name or address of an interface, and flanneld does not support patterns" % interface,
                "flannel: settings.interface",
                "name the interface that carries the nodes' own addresses",
            )
        # flanneld compares the name literally.
        patterns = [re.escape(interface) + r"\Z"] if interface else []
        remedy = "name the one that carries the nodes' own addresses"
    else:
        patterns = [each for each in interface.split(",") if each and _regex(each)]
        remedy = "name the one that carries the nodes' own addresses, anchored where names begin alike: ^eth0$"
    for node in view.nodes if patterns else ():
        for port in node["ports"]:
            matches = re.match if name == "flannel" else re.search
            for netdev in [each["netdev"] for each in each_netdev(port)]:
                if not netdev or not any(matches(each, netdev) for each in patterns):
                    continue
                raise RailyardError(
                    "%s is %s, the port of rail %s on node %s" % (interface, netdev, port["rail"], node["name"]),
                    "%s: settings.%s" % (name, key),
                    remedy,
                )


def adjusted(
    name: str, way: str, documents: t.Iterable[Object], settings: Settings, registry: str, version: str
) -> tuple[list[Object], list[Object]]:
    """Return the manifest's CustomResourceDefinitions, and its other objects in the order of application.

    :raises RailyardError: if the manifest has no field for a setting.
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
        _clean(each)
        if each["kind"] != DEFINITION:
            each["metadata"].setdefault("labels", {}).update(software_versions.labels(name))
    order = {kind: number for number, kind in enumerate(ORDER)}
    rest = [each for each in objects if each["kind"] != DEFINITION]
    rest.sort(key=lambda each: order.get((each["apiVersion"], each["kind"]), len(order)))
    return [each for each in objects if each["kind"] == DEFINITION], rest


def _calico(found: t.Mapping[tuple[str, str], Object], settings: Settings) -> None:
    """Apply the settings to Calico's manifest without its operator."""
    node = _required(found, "calico", "DaemonSet", "calico-node")
    (container,) = [each for each in _pod(node)["containers"] if each["name"] == "calico-node"]
    method = settings.autodetection or ("interface=" + settings.interface if settings.interface else "")
    if method:
        _env(container, "IP_AUTODETECTION_METHOD", method)
    if settings.pod_cidr:
        _env(container, "CALICO_IPV4POOL_CIDR", settings.pod_cidr)
    if settings.encapsulation:
        kind, cross = re.sub("CrossSubnet$", "", settings.encapsulation), "CrossSubnet" in settings.encapsulation
        for tunnel in ("IPIP", "VXLAN"):
            mode = "Never" if kind != tunnel else "CrossSubnet" if cross else "Always"
            _env(container, "CALICO_IPV4POOL_" + tunnel, mode)
    if settings.mtu:
        data = _required(found, "calico", "ConfigMap", "calico-config")["data"]
        if "veth_mtu" not in data:
            raise _missing_field("calico", "mtu", "ConfigMap calico-config: data.veth_mtu")
        data["veth_mtu"] = str(settings.mtu)
    _paths(found, "calico", settings)


def _installation(settings: Settings, registry: str) -> Object:
    """Return the object with the settings of Calico's operator."""
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
            "the operator needs the address pool that it is for",
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
    """Apply the settings to Flannel's manifest."""
    data = _required(found, "flannel", "ConfigMap", "kube-flannel-cfg")["data"]
    network = json.loads(data["net-conf.json"])
    if settings.pod_cidr:
        network["Network"] = settings.pod_cidr
    if settings.encapsulation:
        network["Backend"] = {"Type": settings.encapsulation}
    if settings.mtu:
        network["Backend"]["MTU"] = settings.mtu
    data["net-conf.json"] = json.dumps(network, indent=2) + "\n"
    daemon = _required(found, "flannel", "DaemonSet", "kube-flannel-ds")
    pod = _pod(daemon)
    if settings.interface:
        (container,) = [each for each in pod["containers"] if each["name"] == "kube-flannel"]
        container["args"] = [each for each in container["args"] if not each.startswith("--iface")]
        container["args"].append("--iface=" + settings.interface)
    # flanneld reads its configuration once
    _restarting(daemon, data)
    _paths(found, "flannel", settings)


def _multus(found: t.Mapping[tuple[str, str], Object], settings: Settings, version: str) -> None:
    """Apply the settings to the manifest of Multus."""
    daemon = _required(found, "multus", "DaemonSet", "kube-multus-ds")
    pod = _pod(daemon)
    for container in [*pod["containers"], *pod["initContainers"]]:
        # upstream's manifest uses a daily build
        container["image"] = re.sub(r":snapshot-thick\Z", ":%s-thick" % version, container["image"])
    data = _required(found, "multus", "ConfigMap", "multus-daemon-config")["data"]
    if settings.bin_dir:
        # the daemon starts plugins in the host's root, so paths are those of the host
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
    """Set the host directories that pods mount. The manifest of an operator has none: the operator detects them."""
    for key, default, directory in (("bin_dir", BIN, settings.bin_dir), ("conf_dir", CONF, settings.conf_dir)):
        if not directory or directory == default:
            continue
        volumes = [
            volume["hostPath"]
            for (kind, _name), each in found.items()
            if kind in ("DaemonSet", "Deployment")
            for volume in _pod(each).get("volumes") or ()
            if (volume.get("hostPath") or {}).get("path", "").rstrip("/") == default
        ]
        if not volumes:
            where = "a volume of %s" % default if needed else "field for it: the operator detects the directories"
            raise _missing_field(name, key, where)
        for volume in volumes:
            volume["path"] = directory


def _restarting(daemon: Object, data: t.Mapping[str, str]) -> None:
    """Add the digest of the configuration to the template, so that pods restart when it changes."""
    metadata = daemon["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("annotations", {})[device_plugins.CONFIG] = device_plugins.digest(dict(data))


def _required(found: t.Mapping[tuple[str, str], Object], name: str, kind: str, object_name: str) -> Object:
    """Return an object of the manifest.

    :raises RailyardError: if the manifest does not have it.
    """
    if (kind, object_name) not in found:
        raise _missing_field(name, "", "%s %s" % (kind, object_name))
    return found[kind, object_name]


def _missing_field(name: str, key: str, missing: str) -> RailyardError:
    """Return the error for a manifest without the field of a setting."""
    return RailyardError(
        "upstream's manifest has no %s" % missing,
        "%s: settings.%s" % (name, key) if key else name,
        "use the manifest of release %s, or remove the setting" % software_versions.PINS[name].version,
    )


def _env(container: Object, name: str, value: str) -> None:
    """Set a container's environment variable. An existing one is replaced, because the last of two would count."""
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


def _clean(found: Object) -> None:
    """Remove fields that the server sets, and empty values: the server does not return them as sent."""
    found.pop("status", None)
    found["metadata"].pop("creationTimestamp", None)
    _drop_empty(found)


def _drop_empty(value: t.Any) -> None:
    """Remove nulls, empty lists and empty values of variables, which a server drops. It keeps empty mappings."""
    if isinstance(value, dict):
        for key in [key for key, each in value.items() if _empty(key, each, value)]:
            del value[key]
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _drop_empty(each)


def _empty(key: str, value: t.Any, within: t.Mapping[str, t.Any]) -> bool:
    """Return whether a server drops this value. ``within``: the mapping that contains it."""
    if value is None:
        return True
    variable = key == "value" and set(within) == {"name", "value"}
    # in rules, an empty list means "none"
    return (value == [] and key not in _EMPTY_MEANS_NONE) or (value == "" and variable)


def _regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
