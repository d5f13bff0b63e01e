# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts and manifests for tests: upstream's where they are available, and small ones with the same keys and places."""

from __future__ import annotations

import functools
import hashlib
import io
import tarfile
import typing as t
from pathlib import Path

import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software.chart_values import Chart
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives
from tests import upstream as upstream_files

ROOT = Path(__file__).resolve().parents[4]
upstream = upstream_files.chart


@functools.lru_cache(maxsize=None)
def upstreams_chart(name: str) -> Chart:
    """Upstream's chart of an archive's name, read once."""
    path = upstream(name)
    return _archives.chart(_archives.Archive(str(path), path.read_bytes()))


@functools.lru_cache(maxsize=None)
def upstreams_objects(name: str) -> tuple[dict[str, t.Any], ...]:
    """The objects of an upstream's manifest, read once."""
    path = upstream(name)
    return tuple(_archives.documents(path.read_bytes(), str(path)))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def packed(path: Path, files: t.Mapping[str, t.Any], top: str) -> Path:
    """A chart's archive: path -> text, or data that is written as YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, value in files.items():
            content = (value if isinstance(value, str) else yaml.safe_dump(value)).encode()
            member = tarfile.TarInfo("%s/%s" % (top, name))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def definition(group: str, kind: str, versions: t.Sequence[str] = ("v1",), **fields: t.Any) -> dict[str, t.Any]:
    """A CustomResourceDefinition whose spec has text fields, and ``fields`` besides."""
    plural = kind.lower() + "s"
    properties = {"note": {"type": "string"}, **fields}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "%s.%s" % (plural, group), "creationTimestamp": None},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": kind + "List"},
            "scope": "Cluster",
            "versions": [
                {"name": name, "served": True, "storage": name == versions[-1], "schema": {"openAPIV3Schema": schema}}
                for name in versions
            ],
        },
    }


# The keys that the plan decides, as upstream's chart has them, with its defaults.
SPIDERPOOL_VALUES: dict[str, t.Any] = {
    "global": {"imageRegistryOverride": ""},
    "ipam": {
        "enableIPv4": True,
        "enableIPv6": True,
        "enableIPConflictDetection": False,
        "enableGatewayDetection": False,
        "spiderSubnet": {"enable": True, "autoPool": {"enable": True}},
    },
    "grafanaDashboard": {"install": False, "instanceSelector": {"matchLabels": None}},
    "coordinator": {
        "enabled": True,
        "name": "default",
        "mode": "auto",
        "podCIDRType": "auto",
        "detectGateway": False,
        "tunePodRoutes": True,
    },
    "rdma": {
        "rdmaSharedDevicePlugin": {
            "install": False,
            "name": "spiderpool-rdma-shared-device-plugin",
            "image": {"registry": "upstream.example", "repository": "mellanox/plugin", "tag": "v1"},
            "podAnnotations": {},
            "deviceConfig": {"periodicUpdateInterval": 300, "configList": []},
        }
    },
    "sriov": {
        "install": False,
        "resourcePrefix": "spidernet.io",
        "operatorConfig": {
            "disableDrain": True,
            "enableOperatorWebhook": True,
            "enableInjector": False,
            "configDaemonNodeSelector": {"kubernetes.io/os": "linux"},
        },
    },
    "plugins": {
        each: True
        for each in (
            "installCNI",
            "installRdmaCNI",
            "installOvsCNI",
            "installSriovCNI",
            "installibSriovCNI",
            "installIpoibCNI",
            "installVlanCNI",
        )
    },
    "spiderpoolAgent": {
        "prometheus": {"enabled": False, "enabledRdmaMetric": False, "port": 5711},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tuneSysctlConfig": True,
    },
    "spiderpoolController": {
        "name": "spiderpool-controller",
        "replicas": 1,
        "podAnnotations": {},
        "podResourceInject": {"enabled": False},
        "tls": {
            "method": "auto",
            "secretName": "spiderpool-controller-server-certs",
            "auto": {"caExpiration": "73000"},
        },
    },
}
SPIDERPOOL_TEMPLATE = """\
{{- with .Values.rdma.rdmaSharedDevicePlugin }}
{{- if .install }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
data:
  config.json: {{ toJson .deviceConfig | quote }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
spec:
  selector: {matchLabels: {app: plugin}}
  template:
    metadata:
      labels: {app: plugin}
      annotations: {{ toJson .podAnnotations }}
    spec:
      nodeSelector: {{ toYaml $.Values.spiderpoolAgent.nodeSelector | nindent 8 }}
      containers:
        - name: plugin
          image: {{ .image.registry }}/{{ .image.repository }}:{{ .image.tag }}
{{- end }}
{{- end }}
{{- if .Values.spiderpoolAgent.extraArgs }}
{{- fail "no arguments" }}
{{- end }}
"""

# The controller reads a certificate that each rendering makes again, as upstream's does.
SPIDERPOOL_CERTIFICATE = """\
{{- with .Values.spiderpoolController }}
{{- if eq .tls.method "auto" }}
{{- $ca := genCA "spidernet.io" (int .tls.auto.caExpiration) }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .tls.secretName }}
  namespace: {{ $.Release.Namespace }}
type: kubernetes.io/tls
data:
  tls.crt: {{ $ca.Cert | b64enc }}
  tls.key: {{ $ca.Key | b64enc }}
---
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
spec:
  replicas: {{ .replicas }}
  selector: {matchLabels: {app: controller}}
  template:
    metadata:
      labels: {app: controller}
      annotations: {{ toJson .podAnnotations }}
    spec:
      containers: [{name: controller, image: upstream.example/controller:v1}]
{{- end }}
"""


def spiderpool(folder: Path, version: str = "1.2.2", **more: t.Any) -> Path:
    """A small Spiderpool: its keys, a definition, the device plugin, and the controller with its certificate."""
    about = {"apiVersion": "v2", "name": "spiderpool", "version": version, "kubeVersion": ">= 1.16.0-0"}
    files = {
        "Chart.yaml": about,
        "values.yaml": SPIDERPOOL_VALUES,
        "crds/example.yaml": definition("railyard.example", "SmallPool"),
        "templates/plugin.yaml": SPIDERPOOL_TEMPLATE,
        "templates/certificate.yaml": SPIDERPOOL_CERTIFICATE,
        **more,
    }
    return packed(folder / ("spiderpool-%s.tgz" % version), files, "spiderpool")


FLANNEL = """\
kind: Namespace
apiVersion: v1
metadata: {name: kube-flannel}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: kube-flannel-cfg, namespace: kube-flannel}
data:
  cni-conf.json: '{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [{"type": "flannel"}]}'
  net-conf.json: '{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}'
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-flannel-ds, namespace: kube-flannel, creationTimestamp: null}
spec:
  selector: {matchLabels: {app: flannel}}
  template:
    metadata: {labels: {app: flannel}}
    spec:
      hostNetwork: true
      containers:
        - name: kube-flannel
          image: upstream.example/flannel-io/flannel:v1
          args: [--ip-masq, --kube-subnet-mgr]
          env: [{name: EMPTY, value: ""}]
      volumes:
        - {name: bin, hostPath: {path: /opt/cni/bin}}
        - {name: conf, hostPath: {path: /etc/cni/net.d}}
status: {}
"""
