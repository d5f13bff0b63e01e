# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests as nodes of the lab's Kubernetes: their files, which are sent over SSH, and the wait until they are Ready."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lab import access, guest
from lab.cluster import lifecycle, nodes
from lab.cluster.api import Api
from lab.cluster.state import Cluster
from lab.errors import LabError
from lab.progress import say
from lab.state import Lab, node_name

READY_SECONDS = {"kvm": 180.0, "tcg": 900.0}
FILES_SECONDS = 300.0
STAMP = "etc/kubernetes/railyard-lab.stamp"
# The address of the pod network is set first, because the kubelet refuses a node address that the node does not have.
START = """
tar -C / -x --no-same-owner &&
networkctl reload && networkctl reconfigure {lan} &&
/lib/systemd/systemd-networkd-wait-online --ipv4 --interface={lan} --timeout=120 &&
systemctl restart containerd.service kubelet.service
"""


def pod_subnet(node: int) -> str:
    """Return the subnet of a node's pods in the pod network."""
    return "10.244.%d.0/24" % node


def files(lab: Lab, cluster: Cluster, node: int) -> dict[str, str]:
    """Return the files that differ between nodes: path -> content. Files that all nodes share are in the image."""
    # cgroups are read only once a minute, to save time of an emulated processor
    arguments = ["--node-ip=" + guest.lan_address(node), "--housekeeping-interval=60s"]
    if cluster.binaries.release < (1, 27):
        socket = "unix:///run/containerd/containerd.sock"
        arguments += ["--container-runtime=remote", "--container-runtime-endpoint=" + socket]
    lan = ["[Network]", "Address=%s/24" % guest.lan_address(node)]
    for other in range(1, lab.nodes + 1):
        if other != node:
            lan += ["[Route]", "Destination=" + pod_subnet(other), "Gateway=" + guest.lan_address(other)]
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-pod-network",
        "ranges": [[{"subnet": pod_subnet(node)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    rails = {"type": "lab-rails", "capabilities": {"io.kubernetes.cri.pod-annotations": True}}
    network = {"cniVersion": "1.0.0", "name": "pod-network", "plugins": [{"type": "ptp", "ipam": ipam}, rails]}
    return {
        "etc/kubernetes/kubelet.env": "KUBELET_ARGUMENTS=%s\n" % " ".join(arguments),
        "etc/kubernetes/kubeconfig": (cluster.directory / (node_name(node) + ".kubeconfig")).read_text("utf-8"),
        "etc/kubernetes/ca.crt": (cluster.pki / "ca.crt").read_text("utf-8"),
        "etc/systemd/network/05-lan0.network.d/node.conf": "\n".join(lan) + "\n",
        "etc/cni/net.d/10-pod-network.conflist": json.dumps(network) + "\n",
    }


def up(lab: Lab, crds: list[str] | None = None) -> tuple[Cluster, bool]:
    """Start the cluster of a lab whose guests are its nodes. Return it, and whether anything was changed."""
    spec = lifecycle.Spec(lab.name, crds, kubelets=dict(zip(lab.node_names, lab.kubelet_ports)), kubelet=lab.kubelet)
    cluster, done = lifecycle.up(spec)
    numbers = range(1, lab.nodes + 1)
    with ThreadPoolExecutor(max_workers=lab.nodes) as pool:
        joined = list(pool.map(lambda node: _join(lab, cluster, node), numbers))
    with Api(cluster) as api:
        _wait(lab, api, {node_name(node): boot for node, (boot, _changed) in zip(numbers, joined)})
    return cluster, bool(done.started or done.crds or any(changed for _boot, changed in joined))


def _join(lab: Lab, cluster: Cluster, node: int) -> tuple[str, bool]:
    """Write the files of a node and start its services, unless it has them and they run.

    The id of the node's boot, and whether anything was done. Raises LabError when the node does not do it.
    """
    content = files(lab, cluster, node)
    stamp = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    boot = access.boot_id(lab, node, FILES_SECONDS)
    if boot is None:
        raise LabError("%s does not answer on SSH" % node_name(node), "lab up --name %s" % lab.name)
    state = "cat /%s && systemctl is-active --quiet containerd kubelet" % STAMP
    if access.run(lab, node, state, FILES_SECONDS, user="root") == stamp:
        return boot, False
    say("  starting the kubelet of %s" % node_name(node))
    archive = _archive({**content, STAMP: stamp})
    argv = access.argv(lab, node, [START.format(lan=guest.LAN_NETDEV)], "-o", "BatchMode=yes", "-o", "User=root")
    try:
        done = subprocess.run(argv, input=archive, capture_output=True, timeout=FILES_SECONDS)
        why = done.stderr.decode("utf-8", "replace").strip() if done.returncode else None
    except subprocess.TimeoutExpired:
        why = "no end after %d s" % FILES_SECONDS
    if why is not None:
        raise LabError(
            "%s cannot be made a node: %s" % (node_name(node), why),
            "see lab ssh %s sudo journalctl -u kubelet -u containerd, then run the command again" % node_name(node),
        )
    return boot, True


def _archive(content: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, text in content.items():
            data = text.encode("utf-8")
            member = tarfile.TarInfo(path)
            member.size = len(data)
            # systemd-networkd reads its files as another user
            member.mode = 0o644 if "/network/" in path else 0o600
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _wait(lab: Lab, api: Api, boots: dict[str, str]) -> None:
    """Wait until the kubelets of these boots report their nodes ready."""
    begin = spoken = time.monotonic()
    while True:
        waiting = not_ready(api.get(nodes.PATH)["items"], boots)
        if not waiting:
            return
        now = time.monotonic()
        if now - begin > READY_SECONDS[lab.accel]:
            name, why = min(waiting.items())
            raise LabError(
                "%s is not ready after %d s: %s" % (name, READY_SECONDS[lab.accel], why),
                "see lab ssh %s sudo journalctl -u kubelet -u containerd, then run the command again" % name,
            )
        if now - spoken > 10:
            spoken = now
            say("  waiting for %s" % "; ".join("%s: %s" % item for item in sorted(waiting.items())))
        time.sleep(1)


def not_ready(items: list[dict[str, Any]], boots: dict[str, str]) -> dict[str, str]:
    """Return the nodes that are not ready in their current boot, with the reason."""
    waiting = dict.fromkeys(boots, "its kubelet has not registered it yet")
    for item in items:
        name, status = item["metadata"]["name"], item.get("status", {})
        if name not in boots:
            continue
        ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
        if status.get("nodeInfo", {}).get("bootID") != boots[name]:
            waiting[name] = "its kubelet has not reported since its last boot"
        elif not ready or ready[0]["status"] != "True":
            waiting[name] = ready[0].get("message", "not ready")[:200] if ready else "it has no conditions"
        elif any(taint["key"].startswith("node.kubernetes.io/") for taint in item["spec"].get("taints", ())):
            waiting[name] = "its taint for new nodes is still there"
        else:
            del waiting[name]
    return waiting
