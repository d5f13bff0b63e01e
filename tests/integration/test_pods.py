# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that a kubelet starts on rails that ``hosts.yml`` prepared: ``lab/lab up --cluster`` first.

Each node has a pod on all eight rails, by the CNI networks of ``inventories/lab-cni``. A script in the pod finds the
pod's own RDMA device by its GID, as an application does.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from lab.cluster import tools
from lab.image import cache_directory
from lab.node_image import POD_IMAGE
from tests.integration.conftest import LAB, LAB_DIR, ROOT, Node
from tests.playbook import Played, play

pytestmark = pytest.mark.lab

RAILS = range(1, 9)
NAMES = {"one": "node-1", "two": "node-2"}
MTU = 4200
# an emulated node beside other work needs minutes for a pod with eight rails
SECONDS = 1800
# DEVICE and INDEX of this pod's RoCE v2 GID with address $2 on rail $1
FIND = """
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


def networks() -> dict[str, list[Manifest]]:
    """Node -> its CNI networks in rail order, as planned."""
    plan = lint((ROOT / "inventories/lab-cni/fabric.yml").read_bytes()).plan
    assert plan
    return {
        each["name"]: plain_cni.of_node(plan.fabric_vars(), each)
        for each in (plan.node_vars(node) for node in plan.nodes)
    }


PLANNED = networks()


def manifest(pod: str) -> Manifest:
    node = NAMES[pod]
    annotation = ",".join(network["name"] for network in PLANNED[node])
    container = {
        "name": "tools",
        "image": POD_IMAGE,
        "imagePullPolicy": "Never",
        "securityContext": {"privileged": True},  # for /dev/infiniband
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod, "annotations": {"k8s.v1.cni.cncf.io/networks": annotation}},
        # scheduled, not placed: the scheduler is part of what runs here
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
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

    def __call__(self, *words: str, text: str | None = None) -> str:
        done = subprocess.run(
            [self.program, "--kubeconfig", str(self.kubeconfig), *words],
            **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, "kubectl %s: %s%s" % (" ".join(words), done.stdout, done.stderr)
        return done.stdout

    def inside(self, pod: str, script: str) -> str:
        """Run a shell script in a pod; its standard output."""
        return self("exec", pod, "--", "sh", "-c", script)

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


@pytest.fixture(scope="module")
def kube() -> Kube:
    return Kube()


@pytest.fixture(scope="module")
def prepared(node: t.Callable[[str], Node], kube: Kube) -> Played:
    """Both nodes after ``hosts.yml``, without pods of an earlier run."""
    kube("delete", "pod", *NAMES, "--ignore-not-found", "--wait")
    played = play("playbooks/hosts.yml", inventory=ROOT / "inventories/lab-cni", timeout=SECONDS)
    assert played.returncode == 0, played.text
    return played


@pytest.fixture(scope="module")
def pods(kube: Kube, prepared: Played) -> t.Iterator[dict[str, list[str]]]:
    """Pod -> its addresses in rail order."""
    items = {"apiVersion": "v1", "kind": "List", "items": [manifest(pod) for pod in NAMES]}
    kube("apply", "-f", "-", text=json.dumps(items))
    kube.wait(NAMES)
    yield {pod: addresses(kube, pod) for pod in NAMES}
    kube("delete", "pod", *NAMES, "--wait")


def links(kube: Kube, pod: str) -> dict[str, Manifest]:
    """A pod's interfaces by name."""
    return {each["ifname"]: each for each in json.loads(kube.inside(pod, "ip -j -4 address show"))}


def addresses(kube: Kube, pod: str) -> list[str]:
    found = links(kube, pod)
    return [found["net%d" % rail]["addr_info"][0]["local"] for rail in RAILS]


def gid(address: str) -> str:
    value = ipaddress.ip_address("::ffff:" + address)
    return value.exploded


def check_interfaces(kube: Kube, pod: str) -> None:
    """A pod's rails are as the plan has them: MTU, address in the node's block, a rule and a table of its own."""
    found = links(kube, pod)
    rules = json.loads(kube.inside(pod, "ip -j rule"))
    for rail, network in zip(RAILS, PLANNED[NAMES[pod]]):
        link = found["net%d" % rail]
        assert link["mtu"] == MTU and "UP" in link["flags"], link
        address = ipaddress.ip_address(link["addr_info"][0]["local"])
        ((ranges,),) = network["plugins"][0]["ipam"]["ranges"]
        first, last = (ipaddress.ip_address(ranges[key]) for key in ("rangeStart", "rangeEnd"))
        assert first <= address <= last, (rail, address, ranges)
        own = [each for each in rules if each.get("src") == str(address)]
        assert [(each["priority"], each["table"]) for each in own] == [(10000 + rail, str(100 + rail))], rules
    assert "eth0" in found


def check_ping(kube: Kube, source: str, targets: list[str]) -> None:
    """The largest packet passes on every rail, undivided."""
    tests = [
        "ping -q -M do -s %d -c 2 -w 60 -I net%d %s >/dev/null || echo rail %d"
        % (MTU - 28, rail, targets[rail - 1], rail)
        for rail in RAILS
    ]
    assert kube.inside(source, "\n".join(tests)) == ""


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
        printed = kube.inside(client[0], "\n".join(write))
        passed = {int(rail): float(speed) for rail, speed in (line.split() for line in printed.splitlines())}
        ends = kube.inside(client[0], "tail -n 3 /tmp/rail*")
        assert sorted(passed) == list(RAILS), ends
    finally:
        process.kill()
        process.communicate()
    return [passed[rail] for rail in RAILS]


def test_nodes_are_ready_under_their_own_addresses(kube: Kube) -> None:
    found = {}
    for each in kube.get("nodes")["items"]:
        ready = [one["status"] for one in each["status"]["conditions"] if one["type"] == "Ready"]
        internal = [one["address"] for one in each["status"]["addresses"] if one["type"] == "InternalIP"]
        found[each["metadata"]["name"]] = (ready, internal)
    assert found == {"node-1": (["True"], ["10.77.0.11"]), "node-2": (["True"], ["10.77.0.12"])}


@pytest.mark.parametrize("pod", NAMES)
def test_pod_has_every_rail_as_planned(kube: Kube, pods: dict[str, list[str]], pod: str) -> None:
    check_interfaces(kube, pod)


def test_pods_reach_each_other_on_every_rail_and_the_pod_network(kube: Kube, pods: dict[str, list[str]]) -> None:
    check_ping(kube, "one", pods["two"])
    address = kube.get("pod", "two")["status"]["podIP"]
    kube.inside("one", "ping -q -c 2 -w 60 -I eth0 %s" % address)


def test_rdma_passes_between_pods_of_two_nodes_on_every_rail(kube: Kube, pods: dict[str, list[str]]) -> None:
    speeds = check_rdma(kube, ("two", pods["two"]), ("one", pods["one"]))
    print("MB/s per rail:", speeds)


def test_second_run_of_hosts_changes_nothing_under_running_pods(kube: Kube, pods: dict[str, list[str]]) -> None:
    played = play("playbooks/hosts.yml", inventory=ROOT / "inventories/lab-cni", timeout=SECONDS)
    assert played.returncode == 0, played.text
    assert played.said.count("changed=0") == len(NAMES), played.text
    check_ping(kube, "one", pods["two"])


def test_pods_of_a_rebooted_node_come_back_on_their_rails(
    kube: Kube, pods: dict[str, list[str]], node: t.Callable[[str], Node]
) -> None:
    node("node-1").reboot(timeout=SECONDS)
    kube.wait(["one"], restarts=1)
    check_interfaces(kube, "one")
    again = addresses(kube, "one")
    check_ping(kube, "two", again)
    check_rdma(kube, ("one", again), ("two", pods["two"]))
