# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's manifests with what a cluster wants of them; a setting that finds no place is refused, never lost."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software import upstream_manifests
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import software_versions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives

from . import software_files
from .documents import document

Objects = t.Dict[t.Tuple[str, str], t.Dict[str, t.Any]]


def adjusted(
    name: str,
    text: str | t.Sequence[t.Any],
    way: str = "",
    registry: str = "",
    version: str = "v9",
    **settings: t.Any,
) -> tuple[list[t.Any], list[t.Any]]:
    made = upstream_manifests.Settings.of(name, settings)
    objects = list(yaml.safe_load_all(text)) if isinstance(text, str) else text
    return upstream_manifests.adjusted(name, way, objects, made, registry, version)


def by_name(made: t.Sequence[t.Any]) -> Objects:
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def upstream(name: str, way: str = "") -> list[t.Any]:
    files = software_versions.PINS[name].files[way]
    return [each for file in files for each in software_files.upstreams_objects(file.name)]


def pod(made: t.Any) -> t.Any:
    return made["spec"]["template"]["spec"]


def env(container: t.Any) -> dict[str, t.Any]:
    names = [each["name"] for each in container["env"]]
    assert len(set(names)) == len(names), "the last of two would count"
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_flannel_takes_its_settings_and_restarts_with_them() -> None:
    _definitions, plain = adjusted("flannel", software_files.FLANNEL)
    _definitions, made = adjusted(
        "flannel",
        software_files.FLANNEL,
        registry="registry.example/m",
        interface="bond0",
        mtu=1450,
        pod_cidr="10.42.0.0/16",
        encapsulation="host-gw",
        bin_dir="/var/lib/rancher/k3s/data/cni",
        conf_dir="/var/lib/rancher/k3s/agent/etc/cni/net.d",
    )
    found = by_name(made)
    daemon = found["DaemonSet", "kube-flannel-ds"]
    assert pod(daemon)["containers"][0]["args"] == ["--ip-masq", "--kube-subnet-mgr", "--iface=bond0"]
    assert pod(daemon)["containers"][0]["image"] == "registry.example/m/flannel-io/flannel:v1"
    assert json.loads(found["ConfigMap", "kube-flannel-cfg"]["data"]["net-conf.json"]) == {
        "Network": "10.42.0.0/16",
        "EnableNFTables": False,
        "Backend": {"Type": "host-gw", "MTU": 1450},
    }
    paths = [each["hostPath"]["path"] for each in pod(daemon)["volumes"]]
    assert paths == ["/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/agent/etc/cni/net.d"]
    before = by_name(plain)["DaemonSet", "kube-flannel-ds"]
    notes = [each["spec"]["template"]["metadata"]["annotations"] for each in (daemon, before)]
    assert notes[0] != notes[1]
    assert [each["kind"] for each in made] == ["Namespace", "ConfigMap", "DaemonSet"], "in the order of application"
    assert all(each["metadata"]["labels"]["railyard.fabric/software"] == "flannel" for each in made)
    assert "status" not in daemon and "creationTimestamp" not in daemon["metadata"]
    assert pod(daemon)["containers"][0]["env"] == [{"name": "EMPTY"}], "as the server gives it back"


@pytest.mark.parametrize(
    "name, settings, message",
    [
        ("flannel", {"autodetection": "first-found"}, "flannel has no such setting"),
        ("multus", {"mtu": 9000}, "multus has no such setting"),
        ("flannel", {"interfaces": "eth0"}, "did you mean interface"),
        ("flannel", {"mtu": 100}, "not an MTU of pods"),
        ("flannel", {"mtu": "1500"}, "is not a number"),
        ("flannel", {"pod_cidr": "10.244.0.1/16"}, "is not a network"),
        ("flannel", {"pod_cidr": "pods"}, "is not a network"),
        ("flannel", {"encapsulation": "VXLAN"}, "vxlan, host-gw, wireguard"),
        ("calico", {"encapsulation": "vxlan"}, "VXLANCrossSubnet"),
        ("calico", {"autodetection": "eth0"}, "not one of Calico's methods"),
        ("calico", {"interface": "eth0", "autodetection": "first-found"}, "remove one of the two"),
        ("calico", {"interface": "eth[0"}, "not a regular expression"),
        ("calico", {"bin_dir": "opt"}, "not a directory"),
    ],
)
def test_settings_are_checked(name: str, settings: dict[str, t.Any], message: str) -> None:
    with pytest.raises(RailyardError) as caught:
        upstream_manifests.Settings.of(name, settings)
    assert (
        message in str(caught.value) and "%s: settings." % name in str(caught.value) and "Remedy: " in str(caught.value)
    )


def test_every_error_is_reported_at_once() -> None:
    with pytest.raises(RailyardError) as caught:
        upstream_manifests.Settings.of("flannel", {"mtu": 1, "pod_cidr": "x", "conf_dir": "y"})
    assert len(str(caught.value).splitlines()) == 3


def test_the_pod_network_does_not_use_the_rails() -> None:
    view = View(document(netdev_of=lambda profile, rail: "gpu%d" % rail))
    for interface in ("gpu2", "gpu.*", "eth0,gpu1"):
        with pytest.raises(RailyardError, match="the port of rail"):
            upstream_manifests.on_rails("calico", upstream_manifests.Settings(interface=interface), view)
    with pytest.raises(RailyardError, match="calico: settings.autodetection: gpu.* is gpu1, the port of rail"):
        upstream_manifests.on_rails("calico", upstream_manifests.Settings(autodetection="interface=gpu.*"), view)
    upstream_manifests.on_rails("calico", upstream_manifests.Settings(interface="^eth0$"), view)
    upstream_manifests.on_rails("calico", upstream_manifests.Settings(autodetection="skip-interface=gpu.*"), view)
    upstream_manifests.on_rails("calico", upstream_manifests.Settings(), view)
    # flanneld knows no regular expressions: gpu is not gpu1, and an anchor would be a part of the name
    upstream_manifests.on_rails("flannel", upstream_manifests.Settings(interface="gpu"), view)
    upstream_manifests.on_rails("flannel", upstream_manifests.Settings(), view)
    for pattern in (".*", "^eth0$", "eth0,eth1"):
        with pytest.raises(RailyardError, match="flanneld does not support patterns"):
            upstream_manifests.on_rails("flannel", upstream_manifests.Settings(interface=pattern), view)
    with pytest.raises(RailyardError, match="flannel: settings.interface: gpu2 is .* Remedy: name the one [^,]*$"):
        upstream_manifests.on_rails("flannel", upstream_manifests.Settings(interface="gpu2"), view)


def test_a_manifest_without_a_settings_place_is_refused() -> None:
    other = software_files.FLANNEL.replace("/opt/cni/bin", "/usr/lib/cni")
    with pytest.raises(RailyardError, match="has no a volume|has no"):
        adjusted("flannel", other, bin_dir="/x/y")
    with pytest.raises(RailyardError, match="has no ConfigMap kube-flannel-cfg"):
        adjusted("flannel", software_files.FLANNEL.replace("kube-flannel-cfg", "other"))


def test_upstreams_calico() -> None:
    text = upstream("calico", "manifests")
    definitions, made = adjusted(
        "calico",
        text,
        "manifests",
        "registry.example/m",
        interface="^eth0$",
        mtu=8950,
        pod_cidr="10.42.0.0/16",
        encapsulation="VXLANCrossSubnet",
        bin_dir="/x/bin",
        conf_dir="/x/conf",
    )
    found = by_name(made)
    assert definitions and not [each for each in made if each["kind"] == "CustomResourceDefinition"]
    (node,) = [each for each in pod(found["DaemonSet", "calico-node"])["containers"] if each["name"] == "calico-node"]
    settings = env(node)
    assert settings["IP_AUTODETECTION_METHOD"] == "interface=^eth0$"
    assert settings["CALICO_IPV4POOL_CIDR"] == "10.42.0.0/16"
    assert (settings["CALICO_IPV4POOL_IPIP"], settings["CALICO_IPV4POOL_VXLAN"]) == ("Never", "CrossSubnet")
    assert found["ConfigMap", "calico-config"]["data"]["veth_mtu"] == "8950"
    volumes = {
        each["hostPath"]["path"] for each in pod(found["DaemonSet", "calico-node"])["volumes"] if "hostPath" in each
    }
    assert {"/x/bin", "/x/conf"} <= volumes and "/opt/cni/bin" not in volumes
    images = [
        each["image"]
        for one in made
        if one["kind"] in ("DaemonSet", "Deployment")
        for each in pod(one)["containers"] + pod(one).get("initContainers", [])
    ]
    assert len(images) >= 5 and all(each.startswith("registry.example/m/calico/") for each in images)


def test_upstreams_calico_by_its_operator() -> None:
    definitions, made = adjusted(
        "calico",
        upstream("calico", "operator"),
        "operator",
        "registry.example",
        autodetection="cidr=10.1.0.0/16",
        mtu=1400,
    )
    installation = made[-1]
    assert installation["spec"] == {
        "variant": "Calico",
        "registry": "registry.example/",
        "calicoNetwork": {"mtu": 1400, "nodeAddressAutodetectionV4": {"cidrs": ["10.1.0.0/16"]}},
    }
    assert {"installations.operator.tigera.io"} <= {each["metadata"]["name"] for each in definitions}
    operator = by_name(made)["Deployment", "tigera-operator"]
    assert pod(operator)["containers"][0]["image"].startswith("registry.example/tigera/operator:")


@pytest.mark.parametrize(
    "method, wanted",
    [
        ("first-found", {"firstFound": True}),
        ("kubernetes-internal-ip", {"kubernetes": "NodeInternalIP"}),
        ("can-reach=10.1.0.1", {"canReach": "10.1.0.1"}),
        ("skip-interface=gpu.*", {"skipInterface": "gpu.*"}),
        ("interface=eth.*", {"interface": "eth.*"}),
        ("cidr=10.1.0.0/16,10.2.0.0/16", {"cidrs": ["10.1.0.0/16", "10.2.0.0/16"]}),
    ],
)
def test_every_method_of_calico_has_a_value_for_the_operator(method: str, wanted: dict[str, t.Any]) -> None:
    _definitions, made = adjusted("calico", "", "operator", autodetection=method)
    assert made[-1]["spec"]["calicoNetwork"]["nodeAddressAutodetectionV4"] == wanted


def test_a_pool_of_the_operator_needs_its_network() -> None:
    with pytest.raises(RailyardError, match="set settings.pod_cidr as well"):
        adjusted("calico", "", "operator", encapsulation="IPIP")


def test_upstreams_multus_is_pinned_to_its_release() -> None:
    version = software_versions.PINS["multus"].version
    _definitions, made = adjusted("multus", upstream("multus"), version=version, bin_dir="/x/bin", conf_dir="/x/conf")
    found = by_name(made)
    daemon = pod(found["DaemonSet", "kube-multus-ds"])
    images = {each["image"].rpartition(":")[2] for each in daemon["containers"] + daemon["initContainers"]}
    assert images == {version + "-thick"}
    assert json.loads(found["ConfigMap", "multus-daemon-config"]["data"]["daemon-config.json"])["binDir"] == "/x/bin"
    mounts = {each["name"]: each["mountPath"] for each in daemon["containers"][0]["volumeMounts"]}
    paths = {each["name"]: each["hostPath"]["path"] for each in daemon["volumes"] if "hostPath" in each}
    assert mounts["cnibin"] == paths["cnibin"] == "/x/bin", "the daemon starts plugins by the host's own path"
    assert paths["cni"] == "/x/conf" and mounts["cni"] == "/host/etc/cni/net.d"


def test_upstreams_flannel() -> None:
    _definitions, made = adjusted(
        "flannel", upstream("flannel"), registry="registry.example", mtu=1400, interface="eth0"
    )
    found = by_name(made)
    daemon = pod(found["DaemonSet", "kube-flannel-ds"])
    assert "--iface=eth0" in daemon["containers"][0]["args"]
    assert all(
        each["image"].startswith("registry.example/") for each in daemon["containers"] + daemon["initContainers"]
    )
    assert json.loads(found["ConfigMap", "kube-flannel-cfg"]["data"]["net-conf.json"])["Backend"]["MTU"] == 1400


@pytest.mark.parametrize(
    "name, way", [(name, way) for name, pin in software_versions.PINS.items() if not pin.chart for way in pin.files]
)
def test_every_upstream_object_has_a_place_in_the_order(name: str, way: str) -> None:
    _definitions, made = adjusted(name, upstream(name, way), way)
    assert {(each["apiVersion"], each["kind"]) for each in made} <= set(upstream_manifests.ORDER), (
        "or a removal forgets it"
    )


def test_an_invalid_manifest_is_reported_in_one_line() -> None:
    for text, error in ((b"a: [", "not valid YAML"), (b"a: 1", "not an object"), (b"- 1", "not an object")):
        with pytest.raises(RailyardError, match=error):
            _archives.documents(text, "x.yaml")
