# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of the lab's cluster in a test: kubectl, what a pod has on its rails, and traffic between pods.

A script in a pod finds the pod's own RDMA device by its GID, as an application does.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import time
import typing as t

import pytest

from lab.cluster import tools
from lab.image import cache_directory
from lab.node_image import POD_IMAGE
from tests.integration.conftest import LAB, LAB_DIR

RAILS = range(1, 9)
NAMES = {"one": "node-1", "two": "node-2"}
MTU = 4200
# an emulated node beside other work needs minutes for a pod with eight rails
SECONDS = 1800
# DEVICE and INDEX of this pod's RoCE v2 GID with address $2 on rail $1. A soft RDMA device that was made after the
# container has no file in it yet.
FIND = """
for verbs in /sys/class/infiniband_verbs/uverbs*; do
  file=/dev/infiniband/${verbs##*/}
  [ -e $file ] || mknod $file c $(tr : " " <$verbs/dev)
done
find_gid() {
  for gid in /sys/class/infiniband/*-net$1/ports/1/gids/*; do
    [ "$(cat $gid)" = "$2" ] || continue
    [ "$(cat ${gid%/gids/*}/gid_attrs/types/${gid##*/})" = "RoCE v2" ] || continue
    INDEX=${gid##*/}; DEVICE=${gid#/sys/class/infiniband/}; DEVICE=${DEVICE%%/*}
    return 0
  done
  echo "rail $1: no RDMA device with GID $2" >&2; return 1
}
"""
WRITE = "timeout %d ib_write_bw -d $DEVICE -x $INDEX -m 4096 -s 65536 -n 200 -F -p %d"

Manifest = t.Dict[str, t.Any]


def manifest(pod: str, node: str, annotations: dict[str, str] | None = None, **container: t.Any) -> Manifest:
    """A pod on a node that waits; ``container`` adds to its container."""
    base = {
        "name": "tools",
        "image": POD_IMAGE,
        "imagePullPolicy": "Never",
        "securityContext": {"privileged": True},  # for /dev/infiniband
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod, "annotations": annotations or {}},
        # scheduled, not placed: the scheduler is part of what runs here
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [dict(base, **container)],
        },
    }


class Kube:
    """kubectl on the lab's cluster."""

    def __init__(self) -> None:
        self.program = tools.ensure("kubectl", cache_directory())
        self.kubeconfig = LAB_DIR / "cluster/kubeconfig"
        if not self.kubeconfig.exists():
            pytest.fail("the nodes of lab %r are not in a cluster. Remedy: lab/lab up --cluster --name %s" % (LAB, LAB))

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [self.program, "--kubeconfig", str(self.kubeconfig), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *words: str, text: str | None = None, seconds: float = SECONDS) -> str:
        done = subprocess.run(
            [self.program, "--kubeconfig", str(self.kubeconfig), *words],
            **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}),
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, "kubectl %s: %s%s" % (" ".join(words), done.stdout, done.stderr)
        return done.stdout

    def inside(self, pod: str, script: str, seconds: float = 120) -> str:
        """Run a shell script in a pod; its standard output. An exec whose node restarts containerd may never end."""
        return self("exec", pod, "--", "sh", "-c", script, seconds=seconds)

    def get(self, *words: str) -> t.Any:
        return json.loads(self("get", *words, "-o", "json"))

    def ready(self, pod: str) -> bool:
        status = self.get("pod", pod)["status"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))

    def wait(self, pods: t.Iterable[str], restarts: int = 0) -> None:
        """Wait until these pods are ready and their containers were restarted as often."""
        end = time.monotonic() + SECONDS
        waiting = list(pods)
        while waiting:
            waiting = [pod for pod in waiting if not (self.ready(pod) and self.restarts(pod) >= restarts)]
            assert time.monotonic() < end, self("describe", "pods")
            time.sleep(2)

    def restarts(self, pod: str) -> int:
        return sum(each["restartCount"] for each in self.get("pod", pod)["status"].get("containerStatuses", ()))


def links(kube: Kube, pod: str) -> dict[str, Manifest]:
    """A pod's interfaces by name."""
    return {each["ifname"]: each for each in json.loads(kube.inside(pod, "ip -j -4 address show"))}


def addresses(kube: Kube, pod: str) -> list[str]:
    found = links(kube, pod)
    return [found["net%d" % rail]["addr_info"][0]["local"] for rail in RAILS]


def gid(address: str) -> str:
    value = ipaddress.ip_address("::ffff:" + address)
    return value.exploded


def check_interfaces(kube: Kube, pod: str) -> list[str]:
    """A pod has every rail with MTU, rule and table as planned, and the pod network; its addresses in rail order."""
    found = links(kube, pod)
    rules = json.loads(kube.inside(pod, "ip -j rule"))
    local = addresses(kube, pod)
    for rail, address in zip(RAILS, local):
        link = found["net%d" % rail]
        assert link["mtu"] == MTU and "UP" in link["flags"], link
        own = [each for each in rules if each.get("src") == address]
        assert [(each["priority"], each["table"]) for each in own] == [(10000 + rail, str(100 + rail))], rules
    assert "eth0" in found
    return local


def check_ping(kube: Kube, source: str, targets: list[str]) -> None:
    """The largest packet passes on every rail, undivided."""
    tests = [
        "ping -q -M do -s %d -c 2 -w 60 -I net%d %s >/dev/null || echo rail %d"
        % (MTU - 28, rail, targets[rail - 1], rail)
        for rail in RAILS
    ]
    assert kube.inside(source, "\n".join(tests), SECONDS) == ""


def check_rdma(kube: Kube, server: tuple[str, list[str]], client: tuple[str, list[str]]) -> list[float]:
    """RDMA writes pass on every rail from one pod to another; MB/s per rail."""
    listen, write = [FIND], [FIND]
    for rail in RAILS:
        port = 18514 + rail
        find = "find_gid %d %s || exit 1\n" % (rail, "%s")
        listen.append(find % gid(server[1][rail - 1]) + "%s >/tmp/rail%d 2>&1 &" % (WRITE % (SECONDS, port), rail))
        line = WRITE % (120, port) + " " + server[1][rail - 1]
        write.append(
            find % gid(client[1][rail - 1])
            + "for attempt in 1 2 3 4 5 6; do\n"
            + "  %s >/tmp/rail%d 2>&1 && break\n  sleep 2\ndone\n" % (line, rail)
            + "awk -v rail=%d '$1 == 65536 {print rail, $4}' /tmp/rail%d" % (rail, rail)
        )
    process = kube.start("exec", server[0], "--", "sh", "-c", "\n".join([*listen, "wait"]))
    try:
        printed = kube.inside(client[0], "\n".join(write), SECONDS)
        passed = {int(rail): float(speed) for rail, speed in (line.split() for line in printed.splitlines())}
        ends = kube.inside(client[0], "tail -n 3 /tmp/rail*")
        assert sorted(passed) == list(RAILS), ends
    finally:
        process.kill()
        process.communicate()
    return [passed[rail] for rail in RAILS]
