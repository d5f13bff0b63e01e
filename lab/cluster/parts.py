# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a cluster: their command lines, and the checks that they work."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections import deque
from pathlib import Path

from lab import guest, process
from lab import state as labs
from lab.cluster import api
from lab.cluster.binaries import API, ETCD, MANAGER, SCHEDULER
from lab.cluster.state import EGRESS, Cluster
from lab.errors import LabError

SECONDS = 120.0
SERVICES = "10.96.0.0/16"
EGRESS_PROGRAM = Path(__file__).resolve().parent / "egress.py"
# Controllers that work without kubelets and a scheduler. Workloads get their pods, which stay Pending. The node
# lifecycle controller is not among them, because it would evict pods from Node objects without a kubelet.
CONTROLLERS = (
    *("namespace", "garbagecollector", "serviceaccount", "serviceaccount-token", "root-ca-cert-publisher"),
    *("clusterrole-aggregation", "endpoint", "deployment", "replicaset", "daemonset", "statefulset", "job"),
)
NODE_CONTROLLERS = ("nodelifecycle", "podgc", "endpointslice", "disruption")
# The controller that creates claims from templates and for extended resources, and the first release with stable DRA.
CLAIMS, CLAIMS_SINCE = "resourceclaim-controller", (1, 34)
# Beta API versions that have a stable successor. Supported releases of Kubernetes do not serve them. They are a third
# of the OpenAPI document, which the server creates again after each change of a CRD.
BETA = (
    *("admissionregistration.k8s.io/v1beta1", "apiextensions.k8s.io/v1beta1", "authentication.k8s.io/v1beta1"),
    *("authorization.k8s.io/v1beta1", "autoscaling/v2beta1", "autoscaling/v2beta2", "certificates.k8s.io/v1beta1"),
    *("coordination.k8s.io/v1beta1", "events.k8s.io/v1beta1", "extensions/v1beta1", "networking.k8s.io/v1beta1"),
    *("node.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1beta1", "scheduling.k8s.io/v1beta1"),
    "storage.k8s.io/v1beta1",
)
BETA_IS_REMOVED = (1, 22)


def _etcd(cluster: Cluster) -> list[str]:
    pki = cluster.pki
    client, peer = ("https://127.0.0.1:%d" % cluster.ports[port] for port in ("etcd", "peer"))
    argv = [
        cluster.binaries.etcd,
        "--name=lab",
        "--data-dir=%s" % (cluster.directory / "etcd"),
        "--listen-client-urls=" + client,
        "--advertise-client-urls=" + client,
        "--listen-peer-urls=" + peer,
        "--initial-advertise-peer-urls=" + peer,
        "--initial-cluster=lab=" + peer,
        "--quota-backend-bytes=%d" % (4 << 30),
        "--auto-compaction-retention=1",
        "--log-level=warn",
    ]
    for prefix in ("", "peer-"):
        argv += ["--%scert-file=%s" % (prefix, pki / "etcd.crt"), "--%skey-file=%s" % (prefix, pki / "etcd.key")]
        argv += ["--%strusted-ca-file=%s" % (prefix, pki / "etcd-ca.crt"), "--%sclient-cert-auth" % prefix]
    return argv


def _api(cluster: Cluster) -> list[str]:
    pki = cluster.pki
    argv = [
        cluster.binaries.api,
        "--etcd-servers=https://127.0.0.1:%d" % cluster.ports["etcd"],
        "--etcd-cafile=%s" % (pki / "etcd-ca.crt"),
        "--etcd-certfile=%s" % (pki / "etcd-client.crt"),
        "--etcd-keyfile=%s" % (pki / "etcd-client.key"),
        "--bind-address=127.0.0.1",
        "--secure-port=%d" % cluster.ports["api"],
        # an Endpoints object must not have a loopback address
        "--endpoint-reconciler-type=none",
        "--tls-cert-file=%s" % (pki / "server.crt"),
        "--tls-private-key-file=%s" % (pki / "server.key"),
        "--client-ca-file=%s" % (pki / "ca.crt"),
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--service-cluster-ip-range=" + SERVICES,
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=%s" % (pki / "accounts.pub"),
        "--service-account-signing-key-file=%s" % (pki / "accounts.key"),
        "--profiling=false",
    ]
    if cluster.kubelets:
        argv += [
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-client-certificate=%s" % (pki / "kubelet-client.crt"),
            "--kubelet-client-key=%s" % (pki / "kubelet-client.key"),
            "--kubelet-preferred-address-types=InternalIP",
            "--egress-selector-config-file=%s" % _egress_selector(cluster),
        ]
    else:
        argv.append("--authorization-mode=RBAC")
    if cluster.binaries.manager is None:
        # without the controller of service accounts, pods would never be created
        argv.append("--disable-admission-plugins=ServiceAccount")
    if cluster.binaries.release < BETA_IS_REMOVED:
        argv.append("--runtime-config=" + ",".join("%s=false" % version for version in BETA))
    return argv


def _served(cluster: Cluster, part: str) -> list[str]:
    """Return the options that the controller manager and the scheduler share."""
    return [
        "--kubeconfig=%s" % (cluster.directory / ("%s.kubeconfig" % part)),
        "--bind-address=127.0.0.1",
        "--secure-port=%d" % cluster.ports[part],
        "--tls-cert-file=%s" % (cluster.pki / "server.crt"),
        "--tls-private-key-file=%s" % (cluster.pki / "server.key"),
        "--leader-elect=false",
        "--profiling=false",
        # disables the insecure port, which later releases do not have
        *(["--port=0"] if cluster.binaries.release < (1, 24) else []),
    ]


def _manager(cluster: Cluster) -> list[str]:
    pki = cluster.pki
    controllers = [*CONTROLLERS, *(NODE_CONTROLLERS if cluster.kubelets else ())]
    if cluster.kubelets and cluster.binaries.release >= CLAIMS_SINCE:
        controllers.append(CLAIMS)
    return [
        str(cluster.binaries.manager),
        *_served(cluster, "manager"),
        "--controllers=" + ",".join(controllers),
        # each controller has the RBAC permissions of its service account, as in other clusters
        "--use-service-account-credentials=true",
        "--root-ca-file=%s" % (pki / "ca.crt"),
        "--service-account-private-key-file=%s" % (pki / "accounts.key"),
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    ]


def _scheduler(cluster: Cluster) -> list[str]:
    return [str(cluster.binaries.scheduler), *_served(cluster, "scheduler")]


def egress_socket(cluster: Cluster) -> Path:
    """Return the loopback ports at which the API server reaches the kubelets."""
    return labs.run_directory(cluster.directory) / "egress"


def _egress(cluster: Cluster) -> list[str]:
    labs.make_run_directory(cluster.directory)
    targets = {
        "%s:%d" % (guest.lan_address(node), guest.KUBELET_PORT): port
        for node, port in enumerate(cluster.kubelets.values(), 1)
    }
    return [sys.executable, "-ISE", str(EGRESS_PROGRAM), str(egress_socket(cluster)), json.dumps(targets)]


def _egress_selector(cluster: Cluster) -> Path:
    """Write the configuration of connections through the egress proxy. Return the path of the file."""
    transport = {"uds": {"udsName": str(egress_socket(cluster))}}
    selection = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
    version = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
    place = cluster.directory / "egress.yaml"
    labs.write_file(place, json.dumps({**version, "egressSelections": [selection]}))
    return place


ARGUMENTS = {EGRESS: _egress, ETCD: _etcd, API: _api, MANAGER: _manager, SCHEDULER: _scheduler}


# Port and path of the health check of each part.
PROBES = {API: ("api", "/readyz"), MANAGER: ("manager", "/healthz"), SCHEDULER: ("scheduler", "/healthz")}


def works(cluster: Cluster, part: str, seconds: float = 5.0) -> bool:
    """Return whether a part answers its health check."""
    pki = cluster.pki
    with contextlib.suppress(OSError):
        if part == ETCD:
            return api.answers(cluster.ports["etcd"], "/health", api.trust(pki, "etcd-ca", "etcd-client"), seconds)
        if part == EGRESS:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(egress_socket(cluster)))
            return True
        port, path = PROBES[part]
        return api.answers(cluster.ports[port], path, api.trust(pki, "ca", "admin"), seconds)
    return False


def start(cluster: Cluster, part: str) -> None:
    """Start a part; ``wait`` waits until it works."""
    env = {"PATH": os.defpath, "HOME": str(cluster.directory)}
    process.spawn(ARGUMENTS[part](cluster), cluster.directory, part, cluster.log(part), env)


def wait(cluster: Cluster, part: str, seconds: float = SECONDS) -> None:
    """Wait until a part works. Raises LabError with its last output if it ends, or does not work in ``seconds``."""
    end = time.monotonic() + seconds
    while not works(cluster, part):
        alive = part in process.members(cluster.directory)
        if not alive or time.monotonic() > end:
            how = "does not get ready within %d s" % seconds if alive else "ended while it was starting"
            raise LabError(
                "%s %s: %s (log: %s)" % (part, how, _last_words(cluster, part), cluster.log(part)),
                "see the log; lab cluster up --fresh --name %s starts over with an empty cluster" % cluster.name,
            )
        time.sleep(0.1)


def _last_words(cluster: Cluster, part: str) -> str:
    try:
        with open(cluster.log(part), encoding="utf-8", errors="replace") as lines:
            tail = deque((line.strip() for line in lines if line.strip()), maxlen=2)
    except OSError:
        tail = deque()
    return " | ".join(line[:300] for line in tail) or "it printed nothing"
